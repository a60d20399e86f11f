"""The training commands take their options from the fields of `TrainingOptions`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import pytest

from minibert.cli import build_parser, main, parse
from minibert.cli.finetune import TASKS
from minibert.cli.options import filled
from minibert.cli.pretrain import _read_config, start as start_model
from minibert.cli.training import keep_options, options_of_run
from minibert.training.options import TrainingOptions

# options that may differ when a run is resumed
CHANGING_OPTIONS = {
    "arguments",
    "parser",
    "root_parser",
    "json",
    "resume",
    "steps",
}
FINETUNE = ["finetune", "pairs", "--train", "a", "--dev", "b", "--output", "c"]
PRETRAIN = ["pretrain", "--config", "a", "--corpus", "b", "--output", "c"]


def test_defaults_are_those_of_the_class() -> None:
    assert filled(TrainingOptions, build_parser().parse_args(FINETUNE)) == TrainingOptions()
    changed = TrainingOptions(
        steps=10_000, batch_size=256, learning_rate=1e-4, warmup=0.01, save_every=500, pool=50
    )
    assert filled(TrainingOptions, build_parser().parse_args(PRETRAIN)) == changed


def test_options_replace_defaults() -> None:
    arguments = ["--learning-rate", "3e-4", "--bf16", "--steps", "7"]
    options = filled(TrainingOptions, build_parser().parse_args([*FINETUNE, *arguments]))
    assert options == TrainingOptions(learning_rate=3e-4, bf16=True, steps=7)


@pytest.mark.parametrize(("size", "layers"), [("tiny", 2), ("mini", 4)])
def test_a_published_size_is_a_config(size: str, layers: int) -> None:
    arguments = [
        "pretrain",
        "--config",
        size,
        "--vocab",
        "minibert-tiny",
        "--corpus",
        "b",
        "--output",
        "c",
    ]
    model, tokenizer = start_model(build_parser().parse_args(arguments), [])
    assert model.config.num_hidden_layers == layers and model.config.vocab_size == len(tokenizer)


@pytest.mark.parametrize(
    "arguments",
    [[*FINETUNE, "--matryoshka", "8,4", "--columns", "a,b"], [*PRETRAIN, "--cased", "--bf16"]],
)
def test_a_run_keeps_its_options(arguments: list[str], tmp_path: Path) -> None:
    def start(*arguments: str) -> argparse.Namespace:
        options = parse([command, *arguments, "--output", str(tmp_path)])
        options = options_of_run(options)
        with keep_options(options):
            return options

    command, *options_of_start = arguments
    first = start(*options_of_start, "--json")
    changed = start("--resume", "--steps", "7")
    assert (changed.steps, changed.json, changed.resume) == (7, False, True)
    for resumed in (start("--resume"), start(*options_of_start, "--resume", "--steps", "7")):
        for name in vars(first).keys() - CHANGING_OPTIONS:
            assert getattr(resumed, name) == getattr(changed, name) == getattr(first, name), name
        assert resumed.steps == 7


def test_negatives_may_be_repeated_and_given_again() -> None:
    arguments = [
        "finetune",
        "triplets",
        *"--pair-column p --output c --negative-column a --negative-column b,c".split(),
        "--negative-column",
        "a",
    ]
    options = build_parser().parse_args(arguments)
    entry = TASKS[options.task]
    assert entry.load_class()(**entry.fields(options)).negatives == ["a", "b", "c"]


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", '{"command": "pretrain"}', '{"command": 5, "options": {}}']
    + ['{"command": "pretrain", "options": []}'],
)
def test_a_run_json_that_is_damaged(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(content, encoding="utf-8")
    for command in (["pretrain"], ["finetune"], ["finetune", "pairs"]):
        assert main([*command, "--resume", "--output", str(tmp_path)]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and f"{tmp_path / 'run.json'}" in error, error


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ({"steps": 5.5}, "--steps"),
        ({"steps": "many"}, "--steps"),
        ({"warmup": "much"}, "--warmup"),
    ],
)
def test_a_run_json_with_a_wrong_value(
    values: dict[str, object], flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"command": "pretrain", "options": {"config": "tiny", "corpus": ["x.txt"], **values}}
    (tmp_path / "run.json").write_text(json.dumps(kept), encoding="utf-8")
    try:
        code = main(["pretrain", "--resume", "--output", str(tmp_path)])
    except SystemExit as stop:
        code = int(stop.code or 0)
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1 and flag in error


def test_a_run_is_resumed_by_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {"command": "finetune pairs", "options": {"train": "x.tsv"}}
    (tmp_path / "run.json").write_text(json.dumps(kept), encoding="utf-8")
    for command in (["pretrain"], ["finetune", "scores"]):
        assert main([*command, "--resume", "--output", str(tmp_path)]) == 2
        assert "holds a run of minibert finetune pairs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pooling", "message"),
    [("avg", "--pooling should be one or more of"), ("mean,pooler", "cannot be saved")],
)
def test_a_pooling_is_refused_before_anything_starts(
    pooling: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("text\tpair\na\tb\n", encoding="utf-8")
    command = ["finetune", "pairs", "--train", str(file), "--pair-column", "pair"]
    assert main([*command, "--output", str(tmp_path / "out"), "--pooling", pooling]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error, error


def test_help_lists_every_training_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["finetune", "pairs", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for field in dataclasses.fields(TrainingOptions):
        assert f"--{field.name.replace('_', '-')} " in shown
    assert "Peak learning rate of AdamW. Default: 5e-5 for BERT base" in shown


@pytest.mark.parametrize(
    ("command", "option"), [(["pretrain"], "--corpus"), (["finetune", "pairs"], "--train")]
)
def test_resuming_without_a_run(
    command: list[str], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--resume", "--output", str(tmp_path)]) == 2
    assert f"holds no run to resume: give {option}" in capsys.readouterr().err
    kept = {"command": " ".join(command), "options": {}}
    (tmp_path / "run.json").write_text(json.dumps(kept), encoding="utf-8")
    assert main([*command, "--output", str(tmp_path)]) == 2
    assert "by --resume." in capsys.readouterr().err


def test_a_run_that_could_not_start_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    (tmp_path / "text.txt").write_text("a b\n", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    command = ["pretrain", "--config", str(tmp_path / "config.json")]
    command += ["--corpus", str(tmp_path / "text.txt"), "--output"]
    for folder in ("out", "empty"):
        assert main([*command, str(tmp_path / folder)]) == 1
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "empty").iterdir())


def test_resuming_a_task_that_the_folder_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["finetune", "--resume", "--output", str(tmp_path)])
    assert f"{tmp_path} holds no run to resume" in capsys.readouterr().err


def test_a_folder_does_not_stand_for_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output of a run may be called like the preset that it was started from."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mini").mkdir()
    assert _read_config("mini").num_hidden_layers == 4
    _read_config("tiny").save_pretrained(tmp_path / "mini")
    assert _read_config("mini").num_hidden_layers == 4
    assert _read_config("./mini").num_hidden_layers == 2
    assert _read_config(str(tmp_path / "mini")).num_hidden_layers == 2
    with pytest.raises(ValueError, match="'minii' is not a preset"):
        _read_config("minii")


@pytest.mark.parametrize("several", [["--multi-label"], ["--label-columns", "a,b"]])
def test_class_weights_do_not_go_with_several_labels(
    several: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["finetune", "classification", "--train", "a.csv", "--output", str(tmp_path / "out")]
    Path(tmp_path, "a.csv").write_text("text,a,b\nx,1,0\n", encoding="utf-8")
    command[3] = str(tmp_path / "a.csv")
    assert main([*command, "--class-weights", *several]) == 2
    assert "--class-weights is for one label a text: drop it." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--warmup", "3"], "--warmup should be a share"),
        (["--held-out", "1.5"], "--held-out should be a share"),
        (["--evaluate-every", "-1"], "--evaluate-every should be 0 or more"),
        (["--max-length", "1"], "--max-length should be a whole number of 3 or more"),
        (["--freeze", "9"], "--freeze is 9, but the model has only 2 layers"),
        (["--dev", "-", "--held-out", "0.2"], "--held-out has no effect with --dev"),
        (["--dev-label-column", "y"], "--dev-label-column has no effect without --dev or --test"),
    ],
)
def test_an_error_of_a_value_names_the_option(
    option: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = tmp_path / "a.csv"
    train.write_text("text,label\n" + "x,1\ny,0\n" * 10, encoding="utf-8")
    command = ["finetune", "classification", "--train", str(train), "-m", "minibert-tiny"]
    assert main([*command, "--output", str(tmp_path / "out"), *option]) in (1, 2)
    assert f"minibert finetune: {message}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_start_that_is_refused_changes_no_options(tmp_path: Path) -> None:
    def start(*arguments: str) -> argparse.Namespace:
        return options_of_run(parse([*PRETRAIN[:-1], str(tmp_path), *arguments]))

    with keep_options(start("--batch-size", "8")):
        pass
    with pytest.raises(ValueError, match="refused"), keep_options(start("--resume", "--seed", "1")):
        raise ValueError("refused")
    assert (start("--resume").seed, start("--resume").batch_size) == (0, 8)
