"""The folder of a run: what it may be used for, its states, and its log."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config

from minibert import BertForMaskedLM
from minibert.training.state import (
    check_sums,
    cut_log,
    first_line,
    holds_run,
    load_training_state,
    read_state,
    remove_states,
    run_folder,
    saved_states,
    training_state,
    write_state,
)


def state_of(step: int) -> dict[str, Any]:
    position = {"step": step, "epoch": 0, "batch_in_epoch": step, "evaluations_since_best": 0}
    return {
        "model": {"weight": torch.arange(100.0)},
        "random": {},
        "metric": "loss",
        "about": {},
        "best_scores": {},
        "position": position,
    }


def names_of(folder: Path) -> list[str]:
    return [path.name for path in saved_states(folder)]


class TestFolder:
    def test_a_folder_with_a_state_or_a_log_is_used_to_resume_alone(self, tmp_path: Path) -> None:
        assert not holds_run(tmp_path)
        with run_folder(tmp_path, resume=False) as folder:
            write_state(folder.path, state_of(1), keep=1)
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "log.jsonl").touch()
        for path in (tmp_path, tmp_path / "other"):
            assert holds_run(path)
            with pytest.raises(ValueError, match="already holds a run: pass resume=True"):
                run_folder(path, resume=False).__enter__()
            with run_folder(path, resume=True) as folder:
                assert os.fspath(folder) == str(folder) == str(path)

    def test_an_open_folder_is_passed_on(self, tmp_path: Path) -> None:
        with run_folder(tmp_path, resume=False) as folder:
            (tmp_path / "log.jsonl").touch()
            with run_folder(folder, resume=False) as same:
                assert same is folder

    @pytest.mark.needs("locks")
    def test_a_folder_belongs_to_one_run_at_a_time(self, tmp_path: Path) -> None:
        with run_folder(tmp_path, resume=False), pytest.raises(OSError, match="is in use"):
            run_folder(tmp_path, resume=False).__enter__()
        with run_folder(tmp_path, resume=False):
            pass


class TestWriting:
    def test_the_last_states_are_kept(self, tmp_path: Path) -> None:
        for step in (0, 9, 10, 100):
            write_state(tmp_path, state_of(step), keep=3)
        assert names_of(tmp_path) == [f"state-{step:09}.pt" for step in (9, 10, 100)]
        assert read_state(saved_states(tmp_path)[-1])["position"]["step"] == 100
        remove_states(tmp_path, keep=5)
        assert len(names_of(tmp_path)) == 3

    def test_without_states_the_folder_goes_unless_it_holds_something_else(
        self, tmp_path: Path
    ) -> None:
        remove_states(tmp_path, keep=0)
        write_state(tmp_path, state_of(1), keep=1)
        (tmp_path / "states" / "notes.txt").touch()
        remove_states(tmp_path, keep=0)
        assert os.listdir(tmp_path / "states") == ["notes.txt"]
        (tmp_path / "states" / "notes.txt").unlink()
        write_state(tmp_path, state_of(1), keep=1)
        remove_states(tmp_path, keep=0)
        assert not (tmp_path / "states").exists()

    @pytest.mark.needs("locks")
    def test_what_a_killed_writer_left_is_removed(self, tmp_path: Path) -> None:
        leftover = tmp_path / "states" / ".state-000000007.pt.0.tmp"
        leftover.parent.mkdir()
        leftover.write_bytes(b"half")
        write_state(tmp_path, state_of(8), keep=1)
        assert not leftover.exists()

    def test_what_was_written_is_verified(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save = torch.save

        def damaging(state: dict[str, Any], path: Path) -> None:
            save(state, path)
            numbers = state["model"]["weight"].numpy().tobytes()
            path.write_bytes(path.read_bytes().replace(numbers, numbers[::-1]))

        monkeypatch.setattr(torch, "save", damaging)
        with pytest.raises(OSError, match="cannot be written"):
            write_state(tmp_path, state_of(1), keep=1)
        assert not names_of(tmp_path)

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (RuntimeError("unexpected pos 64"), r"\(is the disk full\?\)\. Make room, then run it"),
            (OSError(errno.ENOSPC, "No space"), r"\(is the disk full\?\)\. Make room, then run it"),
            (OSError(errno.EACCES, "Denied"), r"\(Denied\)\. Correct that, then run it again"),
            (OSError("no number"), r"\(no number\)\. Correct that, then run it again"),
        ],
    )
    def test_the_error_names_the_cause_and_the_remedy(
        self, error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(torch, "save", fail)
        with pytest.raises(OSError, match=message):
            write_state(tmp_path, state_of(1), keep=1)
        monkeypatch.undo()
        write_state(tmp_path, state_of(1), keep=1)
        monkeypatch.setattr(torch, "save", fail)
        with pytest.raises(OSError, match=r"The previous state is intact: .*, then resume"):
            write_state(tmp_path, state_of(2), keep=1)
        assert names_of(tmp_path) == ["state-000000001.pt"]


class TestReading:
    def test_parts_are_compared_with_their_checksums(self, tmp_path: Path) -> None:
        write_state(tmp_path, state_of(1), keep=1)
        (path,) = saved_states(tmp_path)
        data = path.read_bytes()
        numbers = torch.arange(100.0).numpy().tobytes()
        path.write_bytes(data.replace(numbers, numbers[:-1] + b"\1"))
        with pytest.raises(ValueError, match="the checksum of its part .*/data/0 does not match"):
            check_sums(path)
        with pytest.raises(ValueError, match=r"is damaged \(the checksum of its part"):
            read_state(path)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("data.pkl", b"0" * 99)
        with pytest.raises(ValueError, match="it is compressed"):
            check_sums(path)
        path.write_bytes(data[:-99])
        with pytest.raises(zipfile.BadZipFile):
            check_sums(path)

    @pytest.mark.parametrize(
        "name", ["model", "random", "metric", "about", "best_scores", "position"]
    )
    def test_a_state_without_an_entry_is_damaged(self, name: str, tmp_path: Path) -> None:
        state = state_of(1)
        path = tmp_path / "states" / "state-000000001.pt"
        path.parent.mkdir()
        torch.save({key: value for key, value in state.items() if key != name}, path)
        with pytest.raises(ValueError, match=r"is damaged .*put a copy of it back"):
            read_state(path)
        torch.save(state, path)
        assert read_state(path).keys() == state.keys()

    @pytest.mark.parametrize(
        "changes",
        [
            {"about": []},
            {"best_scores": []},
            {"position": state_of(-1)["position"]},
            {"position": state_of(True)["position"]},
        ],
    )
    def test_an_entry_of_another_type_is_damage(
        self, changes: dict[str, Any], tmp_path: Path
    ) -> None:
        write_state(tmp_path, state_of(0), keep=1)
        path = tmp_path / "states" / "state-000000001.pt"
        torch.save(state_of(1) | changes, path)
        with pytest.raises(ValueError, match=r"is damaged .*delete it, and resume=True continues"):
            read_state(path)

    def test_code_in_a_state_does_not_run(self, tmp_path: Path) -> None:
        class Code:
            def __reduce__(self) -> Any:
                return Path.touch, (tmp_path / "has_run",)

        path = tmp_path / "state-000000001.pt"
        torch.save(state_of(1) | {"metric": Code()}, path)
        with pytest.raises(ValueError, match="is damaged"):
            read_state(path)
        assert not (tmp_path / "has_run").exists()

    def test_a_state_that_cannot_be_read_is_not_damaged(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_state(tmp_path / "states" / "state-000000001.pt")

    def test_the_reason_is_the_first_line_of_an_error(self) -> None:
        assert first_line(ValueError("one\ntwo")) == "one"
        assert first_line(KeyError()) == "KeyError"
        assert first_line(ValueError("a" * 200)) == "a" * 100


class TestWeights:
    def trained(self, steps: int = 2, frozen: str = "") -> tuple[Any, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = BertForMaskedLM(tiny_config())
        trainable = [weight for name, weight in model.named_parameters() if name != frozen]
        optimizer = torch.optim.AdamW(trainable, lr=0.1)
        for _ in range(steps):
            model(torch.tensor([[1, 2, 3]])).logits.square().mean().backward()
            optimizer.step()
        return model, optimizer

    def test_weights_and_moments_are_restored_by_name(self) -> None:
        """Also where other layers are frozen, so that the optimizer counts its parameters anew."""
        model, optimizer = self.trained()
        state = training_state(model, optimizer)
        first = next(name for name, _ in model.named_parameters())
        resumed, its_optimizer = self.trained(steps=0, frozen=first)
        load_training_state(state, resumed, its_optimizer)
        for (name, weight), expected in zip(
            resumed.named_parameters(), model.parameters(), strict=True
        ):
            assert torch.equal(weight, expected), name
            moments, expected_moments = its_optimizer.state[weight], optimizer.state[expected]
            assert moments.keys() == expected_moments.keys() != set(), name
            assert all(torch.equal(moments[key], expected_moments[key]) for key in moments), name

    def test_tied_weights_are_stored_once(self) -> None:
        model, optimizer = self.trained(steps=0)
        weights = training_state(model, optimizer)["model"]
        embeddings = weights["bert.embeddings.word_embeddings.weight"]
        assert weights["cls.predictions.decoder.weight"] is embeddings

    def test_moments_of_another_shape_are_an_error(self) -> None:
        model, optimizer = self.trained()
        state = training_state(model, optimizer)
        name = "cls.predictions.bias"
        state["optimizer"][name]["exp_avg"] = torch.zeros(3)
        with pytest.raises(ValueError, match=r"exp_avg of cls.predictions.bias has shape \(3,\)"):
            load_training_state(state, model, optimizer)


class TestLog:
    def test_records_after_the_step_and_a_half_written_line_are_removed(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "log.jsonl"
        cut_log(path, 2)
        assert not path.exists()
        records = [json.dumps({"step": step}) for step in range(5)]
        path.write_text("\n".join(records) + '\n{"st', encoding="utf-8")
        cut_log(path, 2)
        assert path.read_text(encoding="utf-8").splitlines() == records[:3]
        assert path.read_bytes().endswith(b"\n")

    @pytest.mark.parametrize("line", ['{"st', "[]", "{}", '{"step": "1"}', "[" * 10**5])
    def test_a_damaged_line_before_the_last_is_an_error(self, line: str, tmp_path: Path) -> None:
        path = tmp_path / "log.jsonl"
        path.write_text(f'{{"step": 0}}\n{line}\n{{"step": 1}}\n', encoding="utf-8")
        with pytest.raises(ValueError, match=r"line 2 is damaged: .* with resume=True again"):
            cut_log(path, 2)
