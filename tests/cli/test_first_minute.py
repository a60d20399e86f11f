"""The first commands of a new user: no arguments, typos, a terminal, an unknown script."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minibert import __version__
from minibert.cli import build_parser, main
from minibert.cli.embed import MAX_SHOWN, describe_vectors


def test_minibert_without_arguments_lists_every_command_with_a_valid_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([])
    out = capsys.readouterr().out
    parser = build_parser()
    for name, command in parser.commands.items():
        example = str(command.epilog).removeprefix("example: ")
        assert f" {example}\n" in out
        program, *arguments = shlex.split(example)
        assert program == "minibert" and parser.parse_args(arguments).command == name


@pytest.mark.parametrize("typed", ["", "embed --help"])
def test_a_closed_pipe_is_not_an_error(typed: str) -> None:
    """`minibert | head` closes the pipe early."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "minibert", *typed.split()]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    os.close(writer)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("emebd hello", "unknown command 'emebd'. Did you mean embed?"),
        ("qqqq", "unknown command 'qqqq'"),
        ("test", "unknown command 'test' (minibert --help"),  # nothing is like it
        ("--debug embed x", "name a command before its options: minibert COMMAND --debug"),
        ("-q embed x", "name a command before its options: minibert COMMAND -q"),
        (
            "view hello --outputs x.html",
            "minibert view: unknown option --outputs. Did you mean --output? "
            "(minibert view --help lists the options)",
        ),
        ("embed hello --pooing=cls", "Did you mean --pooling?"),
        ("embed hello --precision fp23", "Did you mean fp32?"),
        ("finetune clasification --train a", "Did you mean classification?"),
        (
            "finetune pairs --train a --dev b --output c --lr 3",
            "Did you mean --learning-rate? (minibert finetune pairs --help lists the options)",
        ),
        ("view one two", "unexpected argument 'two'. Write minibert view [options] [TEXT]"),
        ("rerank -m x query one", "unexpected argument 'one'. Write minibert rerank [options] "),
        ("info my-model", "unexpected argument 'my-model'. Did you mean --model my-model?"),
        ("export -m a -o b c", "unexpected argument 'c'. Did you mean --model c?"),
        ("embed one --json two --pooing cls", "Did you mean --pooling?"),
        ("pretrain --corpus a --output o b", "unexpected argument 'b'"),
        # most commands write with -o, and a single letter is no reason to suggest --offline
        ("rerank -m x -o a query", "unknown option -o. Write minibert rerank [options] "),
        ("finetune --resume -o", "minibert finetune: argument -o/--output: expected one argument"),
        ("finetune -m a --train b", "name a task before its options: minibert finetune TASK -m"),
        ("embed --precision fp8 hello", "invalid choice: 'fp8'"),
        ("search", "the following arguments are required: --corpus"),
    ],
)
def test_a_typo_gets_an_error_of_one_line(
    typed: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(shlex.split(typed))
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    assert code == 2 and not out
    assert sentence in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "name", "values"),
    [
        ("embed one --json two -m m three", "texts", ["one", "two", "three"]),
        ("evaluate model --json file", "inputs", ["model", "file"]),
        ("search one --corpus c two", "queries", ["one", "two"]),
    ],
)
def test_options_may_stand_between_arguments(typed: str, name: str, values: list[str]) -> None:
    parser = build_parser()
    assert getattr(parser.parse_command_line(shlex.split(typed)), name) == values


def test_the_version_names_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    program = f"minibert {__version__} (minibert-torch)"
    summary = "BERT in plain PyTorch, bit-identical to transformers."
    assert capsys.readouterr().out == f"{program}: {summary}\n"


@pytest.mark.needs("terminals")
def test_a_terminal_shows_a_summary_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a terminal gets a summary. A pipe gets all values (see test_commands)."""
    import pty

    reading_end, writing_end = pty.openpty()
    with os.fdopen(writing_end, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert main(["embed", "I love Korea", "Paris is in France"]) == 0
        terminal.flush()
        text = os.read(reading_end, 65536).decode()
    os.close(reading_end)
    assert text.startswith("2 x ") and "cosines" in text and len(text) < 1000


def test_the_table_of_many_texts_stays_small() -> None:
    vectors = np.eye(MAX_SHOWN, 5, dtype=np.float32)
    text = describe_vectors(
        ["한국어로 쓴 아주 긴 문장은 두 칸씩 차지합니다"] * MAX_SHOWN, vectors, 1000
    )
    assert "1000 x 5 values" in text and f"and {1000 - MAX_SHOWN} more" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("text", ["나는 [MASK]을 사랑합니다.", "🎉🎉🎉 🎊 [MASK]"])
def test_a_text_in_an_unknown_script_is_reported(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fill-mask", text]) == 0
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "this model's vocabulary" in err


MISTAKES = {
    "embed --file no.txt": "there is no file no.txt.",
    "embed hello --output a.txt": "'a.txt' should end in",
    "embed --model ./nowhere hello": "Checkpoint './nowhere' is not a folder",
    "search hello --corpus no.txt": "there is no file no.txt.",
    "fill-mask [MASK] --model ./nowhere": "Checkpoint './nowhere' is not a folder",
    "info -m ./nowhere": "Checkpoint './nowhere' is not a folder",
    "verify -m ./nowhere": "Checkpoint './nowhere' is not a folder",
    "verify -m minibert-tiny": (
        "Comparing with the reference needs transformers, which is not installed: pip install "
    ),
    "view hello --model ./nowhere": "Checkpoint './nowhere' is not a folder",
    "convert -m ./nowhere -o new": "Checkpoint './nowhere' is not a folder",
    "pretrain --config tiny.json --corpus no.txt --output o": "there is no file no.txt.",
    "pretrain --corpus a.tsv --output o": "give --config to start from scratch",
    "finetune tokens --train no.txt --dev a.tsv --output o": "there is no file no.txt.",
    "finetune tokens --train a.tsv --dev a.tsv --output o --steps 0": "steps",
    "finetune pairs --train a.tsv --dev a.tsv --output o": "give --pair-column",
    "finetune tokens --train a.tsv --dev a.tsv --model ./nowhere --output o": (
        "Checkpoint './nowhere' is not a folder"
    ),
}


def test_errors_do_not_import_torch(tmp_path: Path) -> None:
    """Neither an error nor a command without a model imports torch."""
    (tmp_path / "a.tsv").touch()
    typed = ["tokenize hello --model minibert-tiny", *MISTAKES]
    code = f"""if True:
        import shlex, sys
        import minibert
        from minibert.cli import main
        sys.modules["transformers"] = None
        for typed in {typed!r}:
            main(shlex.split(typed))
            assert "torch" not in sys.modules, typed
    """
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8"
    )
    assert run.returncode == 0, run.stderr
    answers = run.stderr.splitlines()
    assert len(answers) == len(MISTAKES), answers
    for answer, (command, sentence) in zip(answers, MISTAKES.items(), strict=True):
        assert answer.startswith(f"minibert {command.split()[0]}: ") and sentence in answer


def test_a_misspelled_model_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenize", "hello", "--model", "minibert-tny", "--offline"]) == 1
    err = capsys.readouterr().err
    assert err.endswith("Did you mean minibert-tiny?\n") and err.count("\n") == 1
