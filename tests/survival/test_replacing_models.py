"""A model is replaced as a whole, wherever its writer is killed or fails.

Each writer runs in a forked process, which ends, or cannot write any more, at one step: before it
opens, renames, or removes a file. Afterwards the folder holds the old model or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import tiny_config
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
from minibert.util.files import read_json
from minibert.util.folders import PENDING

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.needs("fork")]

STEPS = {
    *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"),
    "shutil.rmtree",
}
KILLED = 9
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


def in_a_fork(work: Callable[[], object], step: int, full_from: int | None = None) -> int:
    """Run `work` in a forked process, whose steps are counted from 1.

    Args:
        work: What to do.
        step: The step at which the process is killed, or 0.
        full_from: The step from which on nothing can be written.

    Returns:
        0, KILLED, or 1 after an OSError.
    """
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in STEPS or "site-packages" in str(arguments[0]):
            return
        if event == "open" and isinstance(arguments[2], int) and not arguments[2] & os.O_ACCMODE:
            return  # for reading
        count += 1
        if count == step:
            os._exit(KILLED)
        if full_from is not None and count >= full_from and event in ("open", "os.mkdir"):
            raise OSError(28, "No space left on device")

    code = 1
    try:
        sys.addaudithook(watch)
        work()
        code = 0
    except OSError:
        pass
    except BaseException:
        traceback.print_exc()
        code = 2
    os._exit(code)


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


def steps_to_try(every: int) -> Iterable[int]:
    return range(1, 10_000, every)


def check_each_step(
    writer: Callable[[int, Path], None],
    tmp_path: Path,
    every: int,
    killed: bool,
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
    for step in steps_to_try(every):
        place = tmp_path / "copy"
        shutil.copytree(old.parent, place)
        folder = place / "model"
        end = in_a_fork(
            lambda folder=folder: writer(2, folder), step if killed else 0, None if killed else step
        )
        assert end != 2
        if not killed and end:
            assert PENDING not in os.listdir(folder)
            assert contents(folder, is_model) == before, f"step {step}: an error left another model"
            assert sorted(os.listdir(folder)) == sorted(os.listdir(old))
        if is_model:
            check_for_others(folder, place / "seen by others", (before, after))
        found = contents(folder, is_model)
        assert found in (before, after), f"step {step}: neither the old nor the new model"
        seen.append(found == after)
        assert (folder / FOREIGN).read_text(encoding="utf-8") == "precious"
        if end == KILLED or (end and not killed):
            writer(2, folder)
        assert contents(folder, is_model) == after and sorted(os.listdir(folder)) == names
        assert sorted(os.listdir(place)) == sorted(os.listdir(old.parent))
        shutil.rmtree(place)
        if end == 0:
            break
    assert seen == sorted(seen) and not seen[0]
    if every == 1 and killed:
        assert seen.count(True) > 1  # also killed after the decision


@pytest.fixture(autouse=True)
def _without_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushing is for a loss of power, and would take most of the time here."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "full disk"])
class TestEachStep:
    def test_some(self, writer: Callable[[int, Path], None], killed: bool, tmp_path: Path) -> None:
        check_each_step(writer, tmp_path, 23, killed)

    @pytest.mark.slow
    def test_all(self, writer: Callable[[int, Path], None], killed: bool, tmp_path: Path) -> None:
        check_each_step(writer, tmp_path, 1, killed)
