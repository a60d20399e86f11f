"""A model is replaced as a whole, wherever its writer is killed or fails.

Each writer runs in a forked process, which ends, or cannot write any more, at one step: before it
opens, renames, or removes a file. Afterwards the folder holds the old model or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import tiny_config
from forked import in_a_fork
from safetensors.torch import load_file, save_file
from tiny_folder import VOCABULARY

from minibert import (
    BertForSequenceClassification,
    BertTokenizer,
    CrossEncoder,
    SentenceEmbedder,
)
from minibert.checkpoints.source import Source
from minibert.cli import main
from minibert.training.run import Run
from minibert.util.files import read_json, write_json
from minibert.util.folders import PENDING

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.needs("fork")]

FOREIGN = "notes of a person.txt"


def classifier(seed: int) -> BertForSequenceClassification:
    """A model whose weights and labels are those of the seed, but whose shapes are not."""
    torch.manual_seed(seed)
    labels = {0: f"good {seed}", 1: f"bad {seed}"}
    return BertForSequenceClassification(
        tiny_config(vocab_size=len(VOCABULARY), num_hidden_layers=1, id2label=labels)
    )


def tokenizer(seed: int) -> BertTokenizer:
    rotated = VOCABULARY[5:]
    return BertTokenizer(
        [*VOCABULARY[:5], *rotated[seed:], *rotated[:seed]], do_lower_case=bool(seed % 2)
    )


def save_model(seed: int, folder: Path) -> None:
    classifier(seed).save_pretrained(folder)


def save_tokenizer(seed: int, folder: Path) -> None:
    tokenizer(seed).save_pretrained(folder)


def save_embedder(seed: int, folder: Path) -> None:
    poolings: Any = ["mean", "cls", "max"]
    SentenceEmbedder(
        classifier(seed).bert,
        tokenizer(seed),
        pooling=poolings[seed % 3],
        prompts={"query": f"{seed} "},
    ).save_pretrained(folder)


def save_reranker(seed: int, folder: Path) -> None:
    model = classifier(seed)
    model.config = model.config.replace(id2label={0: f"good {seed}", 1: f"bad {seed}"})
    CrossEncoder(model, tokenizer(seed), max_length=20 + seed).save_pretrained(folder)


def save_run(seed: int, folder: Path) -> None:
    run: Any = SimpleNamespace(is_first=True, model=classifier(seed), tokenizer=tokenizer(seed))
    Run.save_model(run, folder)


def command(arguments: list[str]) -> None:
    if main(arguments):
        raise OSError("the command has ended with an error")


def convert(seed: int, folder: Path) -> None:
    source = folder.parent / f"source-{seed}"
    command(["convert", "--model", str(source), "-o", str(folder), "--force"])


def export(seed: int, folder: Path) -> None:
    source = folder.parent / f"source-{seed}"
    command(["export", "--model", str(source), "-o", str(folder), "--force"])


def contents(folder: Path, is_model: bool = True) -> Any:
    """All of a model that can be loaded from a folder: config, weights, tokenizer and modules."""
    source = Source(folder)
    parts: list[Any] = []
    for name in ("modules.json", "config.json", "1_Pooling/config.json"):
        path = source.file(name)
        parts.append(path and json.loads(path.read_text(encoding="utf-8")))
    prompts = source.file("config_sentence_transformers.json")
    parts.append(prompts and read_json(prompts).get("prompts"))
    weights = source.file("model.safetensors") or source.file("model.onnx")
    if is_model:
        source.require("config.json")
        source.require("model.safetensors", "model.onnx")
    parts.append(weights and hashlib.sha256(weights.read_bytes()).hexdigest())
    if source.file("vocab.txt") or source.file("tokenizer.json"):
        loaded = BertTokenizer.from_pretrained(folder)
        parts.append((loaded.get_vocab(), loaded.do_lower_case, loaded.init_kwargs.get("a")))
    return parts


def old_folder(folder: Path, writer: Callable[[int, Path], None]) -> Path:
    """The folder of an old model, a person's file in it, and what to convert beside it."""
    for seed in (1, 2):
        source = folder.parent / f"source-{seed}"
        if writer in (convert, export):
            (save_embedder if seed == 1 else save_reranker)(seed, source)
    writer(1, folder)
    (folder / FOREIGN).write_text("precious", encoding="utf-8")
    return folder


WRITERS = [save_model, save_tokenizer, save_embedder, save_reranker, save_run, convert]


def check_for_others(folder: Path, copy: Path, models: Iterable[Any]) -> None:
    """Check that programs which do not know minibert's plans find one of these models, or none."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(PENDING))
    try:
        assert contents(copy) in models
    except FileNotFoundError as error:
        assert "holds no config.json" in str(error)
    finally:
        shutil.rmtree(copy)


def check_each_step(
    writer: Callable[[int, Path], None],
    tmp_path: Path,
    every: int,
    event: str,
    written_before: Callable[[int, Path], None] | None = None,
) -> None:
    """Let a writer of model 2 over model 1 end at each step, and look at the folder."""
    is_model = writer is not save_tokenizer
    old = old_folder(tmp_path / "old" / "model", writer)
    if written_before is not None:
        shutil.rmtree(old)
        written_before(1, old)
        (old / FOREIGN).write_text("precious", encoding="utf-8")
    before = contents(old, is_model)
    shutil.copytree(old.parent, tmp_path / "new")
    new = tmp_path / "new" / "model"
    writer(2, new)
    after = contents(new, is_model)
    names = sorted(os.listdir(new))
    assert before != after
    seen = []
    shutil.copytree(old.parent, tmp_path / "counted")
    _, steps = in_a_fork(lambda: writer(2, tmp_path / "counted" / "model"))
    for step in range(1, steps + 1, every):
        place = tmp_path / "copy"
        shutil.copytree(old.parent, place)
        folder = place / "model"
        end, _ = in_a_fork(lambda folder=folder: writer(2, folder), **{event: step})
        assert end != 2
        if event == "full_from" and end:
            assert PENDING not in os.listdir(folder)
            assert contents(folder, is_model) == before, f"step {step}: an error left another model"
            assert sorted(os.listdir(folder)) == sorted(os.listdir(old))
        if is_model:
            check_for_others(folder, place / "seen by others", (before, after))
        found = contents(folder, is_model)
        assert found in (before, after), f"step {step}: neither the old nor the new model"
        seen.append(found == after)
        assert (folder / FOREIGN).read_text(encoding="utf-8") == "precious"
        if end:
            writer(2, folder)
        if event == "failing_at" and not end and (kept := set(os.listdir(folder)) - set(names)):
            # the disk has failed to remove a folder, which has no file any more
            (name,) = kept
            (folder / name).rmdir()
        assert contents(folder, is_model) == after and sorted(os.listdir(folder)) == names
        assert sorted(os.listdir(place)) == sorted(os.listdir(old.parent))
        shutil.rmtree(place)
    assert seen == sorted(seen) or event == "failing_at"  # which may be at a removal
    if every == 1 and event == "killed_at":
        assert seen.count(True) > 1  # also killed after the decision


@pytest.fixture(autouse=True)
def _without_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushing is for a loss of power, and would take most of the time here."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
@pytest.mark.parametrize("event", ["killed_at", "full_from", "failing_at"])
class TestEachStep:
    def test_some(self, writer: Callable[[int, Path], None], event: str, tmp_path: Path) -> None:
        check_each_step(writer, tmp_path, 23, event)

    @pytest.mark.slow
    def test_all(self, writer: Callable[[int, Path], None], event: str, tmp_path: Path) -> None:
        check_each_step(writer, tmp_path, 1, event)


def sharded(seed: int, folder: Path) -> None:
    """An older model: weights in shards, or as a .bin, and files that only it has."""
    save_embedder(seed, folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shard = "model-00001-of-00001.safetensors"
    save_file(weights, folder / shard)
    write_json(
        folder / "model.safetensors.index.json",
        {"metadata": {}, "weight_map": dict.fromkeys(weights, shard)},
    )
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "added_tokens.json").write_text('{"[OLD]": 71}', encoding="utf-8")
    (folder / "steps.onnx").touch()


class TestWhatAnotherModelLeaves:
    @pytest.mark.parametrize("writer", [save_embedder, save_reranker, save_run, convert])
    def test_nothing_of_the_old_model_stays(
        self, writer: Callable[[int, Path], None], tmp_path: Path
    ) -> None:
        """Weights in another format, the modules of an embedder and its graph go with it."""
        for seed in (1, 2):
            save_reranker(seed, tmp_path / f"source-{seed}")
        sharded(1, tmp_path / "model")
        (tmp_path / "model" / FOREIGN).write_text("precious", encoding="utf-8")
        writer(2, tmp_path / "model")
        writer(2, tmp_path / "new")
        left = {
            path.relative_to(tmp_path / "model").as_posix()
            for path in (tmp_path / "model").rglob("*")
            if path.is_file()
        }
        new = {
            path.relative_to(tmp_path / "new").as_posix()
            for path in (tmp_path / "new").rglob("*")
            if path.is_file()
        }
        assert left - {"README.md"} == (new | {FOREIGN}) - {"README.md"}
        assert contents(tmp_path / "model") == contents(tmp_path / "new")

    def test_a_model_alone_leaves_the_modules_around_it(self, tmp_path: Path) -> None:
        sharded(1, tmp_path)
        classifier(2).bert.save_pretrained(tmp_path)
        names = set(os.listdir(tmp_path))
        assert {"modules.json", "1_Pooling", "vocab.txt", "model.safetensors"} <= names
        assert not {
            name for name in names if "of-00001" in name or name.endswith((".bin", ".onnx"))
        }

    def test_transformers_loads_what_replaced_its_folder(self, tmp_path: Path) -> None:
        transformers = pytest.importorskip("transformers")
        theirs = transformers.BertForSequenceClassification(
            transformers.BertConfig(**tiny_config(vocab_size=len(VOCABULARY)).to_dict())
        )
        theirs.save_pretrained(tmp_path, max_shard_size="20KB")
        model = classifier(2)
        model.save_pretrained(tmp_path)
        again = transformers.BertForSequenceClassification.from_pretrained(tmp_path)
        assert again.config.id2label == model.config.id2label
        for name, tensor in model.state_dict().items():
            assert torch.equal(again.state_dict()[name], tensor)


@pytest.mark.slow
@pytest.mark.parametrize("event", ["killed_at", "full_from", "failing_at"])
def test_some_steps_of_an_export(event: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    check_each_step(export, tmp_path, 29, event)
