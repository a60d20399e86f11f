"""Behavior on a simulated student's laptop (see tests/laptop, which can run the whole suite).

`filterwarnings` in pyproject checks in the whole suite that files are opened with an encoding.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import CHECKOUT, python_path, tiny_config
from laptop.sitecustomize import become_a_laptop
from tiny_folder import tiny_folder

from minibert import BertForSequenceClassification, BertModel, SentenceEmbedder
from minibert.checkpoints import tensors
from minibert.checkpoints.source import Source
from minibert.tasks.sequence import SequenceTask
from minibert.text.location import Location
from minibert.training.options import TrainingOptions
from minibert.training.run import Run
from minibert.util import files
from minibert.util.files import read_json, replacing, write_json
from minibert.vectors.shards import encode_to_shards

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("needs /proc to list open files")
    monkeypatch.setattr(files, "fcntl", None)
    become_a_laptop(monkeypatch.setattr, monkeypatch.delattr)


@pytest.mark.usefixtures("windows")
class TestOpenFiles:
    def test_replacing(self, tmp_path: Path) -> None:
        for number in (1, 2):
            write_json(tmp_path / "a.json", {"number": number})
        with pytest.raises(KeyError, match="mine"), replacing(tmp_path / "a.json") as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise KeyError("mine")
        assert read_json(tmp_path / "a.json") == {"number": 2} and os.listdir(tmp_path) == [
            "a.json"
        ]

    def test_temporary_files_of_killed_writers_are_deleted_after_a_day(
        self, tmp_path: Path
    ) -> None:
        """Without locks, a newer temporary file may belong to a running writer."""
        old, new = tmp_path / ".a.json.0.tmp", tmp_path / ".a.json.1.tmp"
        for path, hours in ((old, 25), (new, 23)):
            path.write_text("half", encoding="utf-8")
            os.utime(path, (written := time.time() - hours * 3600, written))
        write_json(tmp_path / "a.json", {})
        assert not old.exists() and new.exists()

    def test_the_error_names_a_file_that_is_open(self, tmp_path: Path) -> None:
        write_json(tmp_path / "a.json", {})
        with (
            (tmp_path / "a.json").open("rb"),
            pytest.raises(OSError, match=r"a\.json could not be written \(The proc"),
        ):
            write_json(tmp_path / "a.json", {"number": 1})
        assert read_json(tmp_path / "a.json") == {}

    def test_a_model_saved_over_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A small model is in memory. A large one is mapped, and the error names its file."""
        folder = tiny_folder(tmp_path / "model")
        for _ in range(2):
            model = BertModel.from_pretrained(folder)
            model.save_pretrained(folder)
        states = model(torch.tensor([[2, 5, 3]])).last_hidden_state
        monkeypatch.setattr(tensors, "MIN_MAPPED_BYTES", 0)
        mapped = BertModel.from_pretrained(folder)
        with pytest.raises(
            OSError, match=r"model\.safetensors could not be written \(The process cannot access"
        ):
            mapped.save_pretrained(folder)
        assert torch.equal(
            BertModel.from_pretrained(folder)(torch.tensor([[2, 5, 3]])).last_hidden_state, states
        )

    def test_training_and_resuming(self, tmp_path: Path) -> None:
        examples: list[dict[str, Any]] = [
            {"input_ids": np.arange(start, 12), "labels": start % 2} for start in range(8)
        ]

        def train(steps: int, **options: Any) -> dict[str, torch.Tensor]:
            torch.manual_seed(0)
            model = BertForSequenceClassification(tiny_config())
            training_options = TrainingOptions(
                steps=steps, batch_size=4, learning_rate=1e-4, warmup=0, decay_steps=0, save_every=1
            )
            trainer = Run(
                model,
                lambda _: examples,
                SequenceTask().loss,
                **options,
                options=training_options,
            )
            trainer.train()
            trainer.save_model(options["folder"])
            return model.state_dict()

        train(3, folder=tmp_path / "resumed")
        resumed = train(5, folder=tmp_path / "resumed", resume=True)
        for name, weight in train(5, folder=tmp_path / "whole").items():
            assert torch.equal(resumed[name], weight)
        assert not [name for name in os.listdir(tmp_path / "resumed") if name.endswith(".tmp")]

    def test_shards_leave_no_temporary_files(self, tmp_path: Path) -> None:
        texts = [f"text {number}" for number in range(9)]
        embedder = SentenceEmbedder.from_pretrained("minibert-tiny", precision=None)
        encode_to_shards(embedder, texts, tmp_path / "out", shard_size=4)
        assert not [
            name
            for name in os.listdir(tmp_path / "out")
            if name.endswith(".tmp") or name.startswith(".lock")
        ]


def test_commands_without_fcntl_and_fork(tmp_path: Path) -> None:
    """Input and output are UTF-8, even on a system whose pipes are cp949."""
    environment = {
        **python_path(CHECKOUT / "tests" / "laptop"),
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "cp949",
    }
    text = "나는 café 👩 한국을 사랑한다"
    (tmp_path / "texts.txt").write_text(f"{text}\nhello\n", encoding="utf-8")

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "minibert", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode("cp949", "replace")
        return done.stdout.decode("utf-8")

    assert "é" in run(
        "tokenize", "--file", str(tmp_path / "texts.txt"), "--model", "minibert-ko", "--jsonl"
    )
    lines = run("embed", "--file", str(tmp_path / "texts.txt"), "--model", "minibert-tiny")
    assert [len(line.split()) for line in lines.splitlines()] == [128, 128]


@pytest.mark.parametrize(
    "name", ["C:\\Users\\김\\model", "C:/Users/kim/model", "..\\model", "D:model", "\\\\nas\\model"]
)
def test_windows_paths(name: str) -> None:
    """A drive letter is not a URI scheme, and a backslash is not valid in a Hub id."""
    assert Location(name).fs is None and Location(name).path == name
    with pytest.raises(FileNotFoundError, match="is not a folder, and it cannot be a Hub id"):
        Source(name)
