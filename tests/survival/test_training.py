"""Training runs that are killed, damaged, started twice, or out of disk space."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import full_disk, tiny_config
from forked import kill_when, start
from tiny_folder import WORDS, tiny_folder
from torch.optim.optimizer import register_optimizer_step_pre_hook

from minibert import BertForMaskedLM, BertForSequenceClassification, BertTokenizer
from minibert.cli import main
from minibert.tasks.sequence import SequenceTask
from minibert.training.options import PretrainOptions, TrainingOptions
from minibert.training.pretraining import pretrain
from minibert.training.run import Run
from minibert.training.state import read_state, run_folder, saved_states
from minibert.util.files import only_run_in

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Commands for 24 steps of pre-training and of fine-tuning a model of one layer."""
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(0)
    model = tiny_folder(folder / "model", num_hidden_layers=1)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randrange(3, 12))) for _ in range(120)]
    corpus, rows = folder / "corpus.txt", folder / "rows.tsv"
    corpus.write_text(
        "\n".join(text if index % 6 else "" for index, text in enumerate(sentences)),
        encoding="utf-8",
    )
    rows.write_text(
        "text\tlabel\n" + "".join(f"{text}\t{index % 2}\n" for index, text in enumerate(sentences)),
        encoding="utf-8",
    )
    schedule = ["--batch-size", "4", "--steps", "24", "--save-every", "3", "--keep-states", "1"]
    pretrain = ["pretrain", "--model", str(model), "--corpus", str(corpus), "--max-length", "32"]
    finetune = [
        "finetune",
        "classification",
        "--model",
        str(model),
        "--train",
        str(rows),
        "--dev",
        str(rows),
    ]
    return {
        "pretrain": pretrain + schedule,
        "finetune": [*finetune, "--text-column", "text", "--label-column", "label", *schedule],
    }


@pytest.fixture(scope="module")
def whole_runs(
    commands: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Folders of the runs of both commands that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    runs = {
        kind: start([*command, "--output", str(folder / kind)], folder / f"{kind}.txt")
        for kind, command in commands.items()
    }
    for kind, run in runs.items():
        run.join()
        assert run.exitcode == 0, (folder / f"{kind}.txt").read_text(encoding="utf-8")
    return {kind: folder / kind for kind in runs}


def assert_same_run(received: Path, expected: Path) -> None:
    assert losses(received) == losses(expected)
    saved = weights(received)
    for name, weight in weights(expected).items():
        assert torch.equal(saved[name], weight), name


def weights(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = read_state(saved_states(folder)[-1])["model"]
    return tensors


def losses(folder: Path) -> list[Any]:
    entries = [
        json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    machine_dependent = ("tokens_per_second", "seconds_left", "memory_mb")
    return [
        {name: value for name, value in entry.items() if name not in machine_dependent}
        for entry in entries
    ]


@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
@pytest.mark.needs("fork")
def test_kills(
    commands: dict[str, list[str]],
    whole_runs: dict[str, Path],
    kind: str,
    kills: int,
    tmp_path: Path,
) -> None:
    """A run that is killed at any moment and resumed ends with the same weights and log."""
    for number in range(kills):
        out, log = tmp_path / str(number), tmp_path / f"{number}.txt"
        steps = random.Random(number).choice([0, *range(21)])

        def reached(out: Path = out, steps: int = steps) -> bool:
            path = out / "log.jsonl"
            return path.exists() and len(path.read_bytes().splitlines()) >= steps

        arguments = [*commands[kind], "--output", str(out)]
        kill_when(start(arguments, log), reached, 0.1)
        resumed = start([*arguments, *(["--resume"] if saved_states(out) else [])], log)
        resumed.join()
        assert resumed.exitcode == 0, log.read_text(encoding="utf-8")
        assert_same_run(out, whole_runs[kind])
        assert not list(out.glob(".*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["pretrain", "finetune"])
def test_a_signal_before_the_first_save(
    commands: dict[str, list[str]],
    whole_runs: dict[str, Path],
    kind: str,
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The current step is finished and saved, and resuming gives the weights of a whole run."""
    arguments = [*commands[kind], "--save-every", "1000", "--output", str(tmp_path)]
    updates = []

    def interrupt(optimizer: torch.optim.Optimizer, *_: object) -> None:
        updates.append(optimizer)
        if len(updates) == 3:
            signal.raise_signal(number)

    hook = register_optimizer_step_pre_hook(interrupt)
    try:
        assert main(arguments) == 128 + number
    finally:
        hook.remove()
    step = read_state(saved_states(tmp_path)[-1])["position"]["step"]
    assert 3 <= step < 24
    message = f"stopped after step {step}, which is saved. Start again with --resume"
    assert message in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0
    assert_same_run(tmp_path, whole_runs[kind])


def test_a_second_signal_ends_the_step(
    commands: dict[str, list[str]],
    whole_runs: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*commands["finetune"], "--save-every", "2", "--output", str(tmp_path)]
    updates = []

    def interrupt(optimizer: torch.optim.Optimizer, *_: object) -> None:
        updates.append(optimizer)
        if len(updates) == 4:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    hook = register_optimizer_step_pre_hook(interrupt)
    try:
        assert main(arguments) == 130
    finally:
        hook.remove()
    assert "--resume continues from the last step that is saved" in capsys.readouterr().err
    assert read_state(saved_states(tmp_path)[-1])["position"]["step"] == 2
    assert main([*arguments, "--resume"]) == 0
    assert_same_run(tmp_path, whole_runs["finetune"])


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_a_signal_to_torchrun_before_the_first_save(
    commands: dict[str, list[str]], number: int, tmp_path: Path
) -> None:
    """All processes stop after the same step, which is saved."""
    out, log = tmp_path / "out", tmp_path / "out" / "log.jsonl"
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "minibert",
    ]
    arguments = [
        *commands["pretrain"],
        "--steps",
        "100000",
        "--save-every",
        "100000",
        "--output",
        str(out),
    ]
    run = subprocess.Popen([*torchrun, *arguments], stderr=subprocess.PIPE, encoding="utf-8")
    while run.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") > 2):
        time.sleep(0.01)
    run.send_signal(number)
    _, messages = run.communicate(timeout=120)
    step = read_state(saved_states(out)[-1])["position"]["step"]
    assert 2 < step == len(losses(out))
    assert (
        messages.count(f"stopped after step {step}, which is saved. Start again with --resume") == 2
    ), messages


def test_a_signal_while_the_last_step_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, save = trainer(tmp_path, save_every=1000), torch.save

    def interrupted(state: Any, path: Path) -> None:
        if training.step == 4:
            signal.raise_signal(signal.SIGINT)
        save(state, path)

    monkeypatch.setattr(torch, "save", interrupted)
    training.train()
    assert read_state(saved_states(tmp_path)[-1])["position"]["step"] == 4


@pytest.mark.parametrize("tries", [1, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.needs("locks")
def test_two_processes_in_one_folder(
    commands: dict[str, list[str]], tmp_path: Path, tries: int
) -> None:
    """One finishes, and the other stops with an error of one line."""
    for number in range(tries):
        out, logs = tmp_path / str(number), [tmp_path / f"{number}-{index}.txt" for index in (0, 1)]
        pair = [start([*commands["pretrain"], "--output", str(out)], log) for log in logs]
        for process in pair:
            process.join()
        codes = [process.exitcode for process in pair]
        assert sorted(codes, key=str) == [0, 1]  # type: ignore[arg-type]
        lines = re.findall(
            "minibert pretrain: .*", logs[codes.index(1)].read_text(encoding="utf-8")
        )
        assert len(lines) == 1
        working = f"{out} is in use by process {pair[codes.index(0)].pid} on "
        assert working in lines[0] or "already holds a run" in lines[0]
        assert [entry["step"] for entry in losses(out)] == list(range(1, 25))


@pytest.mark.needs("locks")
def test_a_second_process_stops_before_it_writes(
    commands: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the options nor the tokens of the first run are changed."""
    (tmp_path / "run.json").write_text("of the first", encoding="utf-8")
    with only_run_in(tmp_path):
        assert main([*commands["pretrain"], "--output", str(tmp_path)]) == 1
        assert f"{tmp_path} is in use by process {os.getpid()} on " in capsys.readouterr().err
        model = BertForMaskedLM(tiny_config())
        tokenizer = BertTokenizer.from_pretrained(tiny_folder(tmp_path / "tokenizer"))
        with pytest.raises(OSError, match=f"{tmp_path} is in use by process {os.getpid()} on "):
            pretrain(model, tokenizer, [__file__], tmp_path, PretrainOptions(max_length=32))
    assert not (tmp_path / "tokens").exists()
    assert (tmp_path / "run.json").read_text(encoding="utf-8") == "of the first"


def test_a_folder_is_locked_and_checked_once(tmp_path: Path) -> None:
    """Code inside a run shares its lock, and its files do not count as another run."""
    with run_folder(tmp_path, resume=False) as opened:
        trainer(tmp_path, steps=1).train(opened)
        with pytest.raises(OSError, match="is in use by"), only_run_in(tmp_path):
            pass
    with pytest.raises(ValueError, match="already holds a run"), run_folder(tmp_path, resume=False):
        pass


def test_resuming_without_the_corpus_is_an_error(
    commands: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error changes no files, so the run can be resumed when the corpus is back."""
    arguments = [*commands["pretrain"], "--steps", "4", "--decay-steps", "0"]
    text = Path(arguments[arguments.index("--corpus") + 1])
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    before = saved_states(tmp_path)[-1].read_bytes()
    content, changed = text.read_bytes(), text.stat().st_mtime_ns
    text.unlink()
    assert main(["pretrain", "--resume", "--steps", "6", "--output", str(tmp_path)]) == 1
    assert f"there is no file {text}" in capsys.readouterr().err
    assert saved_states(tmp_path)[-1].read_bytes() == before
    text.write_bytes(content)
    os.utime(text, ns=(changed, changed))
    assert main(["pretrain", "--resume", "--steps", "6", "--output", str(tmp_path)]) == 0
    assert [entry["step"] for entry in losses(tmp_path) if "learning_rate" in entry] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


EXAMPLES: list[dict[str, Any]] = [
    {"input_ids": torch.arange(start, 12).numpy(), "labels": start % 2} for start in range(8)
]


def trainer(
    folder: Path,
    *,
    resume: bool = False,
    steps: int = 4,
    save_every: int = 0,
    examples: list[dict[str, Any]] = EXAMPLES,
    config: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    torch.manual_seed(0)
    model = BertForSequenceClassification(tiny_config(**config or {}))
    settings = {"steps": steps, "batch_size": 4, "save_every": save_every, **options}
    training_options = TrainingOptions(**settings)
    compute_losses = SequenceTask().loss
    return Run(model, lambda _: examples, compute_losses, folder, training_options, resume=resume)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            {"examples": [{**row, "labels": 1 - row["labels"]} for row in EXAMPLES]},
            "other examples or labels",
        ),
        ({"examples": EXAMPLES[::-1]}, "other examples or labels"),
        ({"examples": EXAMPLES[:-1]}, "other examples or labels"),
        ({"config": {"num_hidden_layers": 1}}, "num_hidden_layers is 1, .* with 2"),
        ({"config": {"max_position_embeddings": 99}}, "max_position_embeddings is 99, .* with 64"),
        ({"config": {"hidden_act": "relu"}}, "hidden_act is relu, .* with gelu"),
        ({"config": {"num_labels": 3}}, "id2label is .*LABEL_2"),
        ({"batch_size": 8}, "batch_size is 8, .* with 4"),
        ({"seed": 1}, "seed is 1, .* with 0"),
    ],
)
def test_resuming_with_other_data_models_or_options_is_an_error(
    tmp_path: Path, others: dict[str, Any], message: str
) -> None:
    trainer(tmp_path).train()
    with pytest.raises(
        ValueError,
        match=rf"{message}.*: resume with the same",
    ):
        trainer(tmp_path, resume=True, steps=6, **others).train()


def test_the_error_names_a_damaged_state(tmp_path: Path) -> None:
    trainer(tmp_path).train()
    path, draw = saved_states(tmp_path)[-1], random.Random(0)
    whole = path.read_bytes()
    before = read_state(path)["model"]
    for damage in range(60):
        data = bytearray(whole)
        if damage % 3 == 0:
            del data[draw.randrange(len(data)) :]
        else:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        try:
            state = read_state(path)["model"]  # works if the bit is in unused padding
        except ValueError as error:
            assert str(error).startswith(
                f"{path} is damaged ("
            ) and "delete it, and resume=True" in str(error)
        else:
            assert all(torch.equal(state[name], weight) for name, weight in before.items())


@pytest.mark.parametrize("part", ["model", "about", "random", "position", "step"])
def test_the_error_names_an_edited_state(tmp_path: Path, part: str) -> None:
    trainer(tmp_path).train()
    path = saved_states(tmp_path)[-1]
    whole = path.read_bytes()
    for value in (None, "gone", -1):
        state = torch.load(path)
        owner = state["position"] if part == "step" else state
        owner[part] = value
        if value is None:
            del owner[part]
        torch.save(state, path)
        with pytest.raises(
            ValueError, match=r"\d\.pt (is damaged|does not fit this model|was saved by a run with)"
        ):
            trainer(tmp_path, resume=True, steps=6).train()
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "line", [b'{"step": 2, "lo', b"\xff\xfe", b"[]", b"", b'{"step": "2"}', b"1" * 5000]
)
def test_the_error_names_a_damaged_log(tmp_path: Path, line: bytes) -> None:
    trainer(tmp_path).train()
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    lines[1] = line
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(
        ValueError,
        match=r"log\.jsonl, line 2 is damaged: .*delete.*resume=True",
    ):
        trainer(tmp_path, resume=True, steps=6).train()


def test_the_previous_state_is_kept_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer(tmp_path).train()
    before = saved_states(tmp_path)[-1].read_bytes()
    save = torch.save

    def damaged(state: Any, path: Path) -> None:
        save(state, path)
        data = bytearray(path.read_bytes())
        weights = next(iter(state["model"].values()))  # padding between tensors is not checked
        data[data.index(weights.numpy().tobytes())] ^= 1
        path.write_bytes(data)

    monkeypatch.setattr(torch, "save", damaged)
    with pytest.raises(
        OSError,
        match=r"6\.pt .*disk full\?.*previous state is intact",
    ):
        trainer(tmp_path, resume=True, steps=6).train()
    assert saved_states(tmp_path)[-1].read_bytes() == before


def test_resuming_from_the_state_before_a_damaged_one(tmp_path: Path) -> None:
    """The steps since that state are repeated with the same results."""
    trainer(tmp_path / "whole", save_every=3).train()
    shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
    path = saved_states(tmp_path / "damaged")[-1]
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(
        ValueError, match=r"state-000000004\.pt is damaged .*: delete it, and resume=True continues"
    ):
        trainer(tmp_path / "damaged", resume=True).train()
    path.unlink()
    assert read_state(saved_states(tmp_path / "damaged")[-1])["position"]["step"] == 3
    trainer(tmp_path / "damaged", resume=True).train()
    assert_same_run(tmp_path / "damaged", tmp_path / "whole")


def test_a_full_disk(tmp_path: Path) -> None:
    """The previous state is intact, and the error names the state or the log that did not fit."""
    trainer(tmp_path).train()
    before = saved_states(tmp_path)[-1].read_bytes()
    for size, message in (
        (50_000, r"state-000000006\.pt cannot be written"),
        (10, r"log\.jsonl (could not|cannot) be written"),
    ):
        resuming = trainer(tmp_path, resume=True, steps=6)
        with full_disk(size), pytest.raises(OSError, match=message):
            resuming.train()
    assert saved_states(tmp_path)[-1].read_bytes() == before
    with full_disk(50_000), pytest.raises(OSError, match="Make room, then run it again"):
        trainer(tmp_path / "new").train()


def test_a_state_that_cannot_be_written_for_another_reason(tmp_path: Path) -> None:
    (tmp_path / "states").write_text("a file of the same name", encoding="utf-8")
    with pytest.raises(OSError, match=r"cannot be written \(File exists\)\. Correct that"):
        trainer(tmp_path).train()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("warmup", value) for value in (5, -1, float("nan"))),
        *(("save_every", value) for value in (-1, 1.5)),
        *(("steps", value) for value in (1.5, 0)),
        *(("patience", value) for value in (-1, True)),
        ("learning_rate", float("nan")),
    ],
)
def test_invalid_training_options(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} should be "):
        TrainingOptions(**{name: value})
