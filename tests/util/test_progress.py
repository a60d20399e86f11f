"""Commands show their progress: a bar in a terminal, and occasional lines in a log."""

from __future__ import annotations

import gc
import os
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import tiny_config
from huggingface_hub.utils import disable_progress_bars

import minibert
from minibert import BertModel
from minibert.cli import main
from minibert.util.progress import Progress, counted, interruptible, is_watched


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of small inputs for every command."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "lines.txt").write_text("I love Korea\nParis is in France\n" * 10, encoding="utf-8")
    (folder / "masks.txt").write_text("Paris is the [MASK] of France.\n" * 3, encoding="utf-8")
    (folder / "corpus.txt").write_text(
        "The cat sat.\nIt slept.\n\nA dog ran.\nIt barked.\n\n" * 8, encoding="utf-8"
    )
    (folder / "tags.txt").write_text("Korea B-LOC\nis O\n\n" * 6, encoding="utf-8")
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-tiny")
    minibert.BertModel(
        tiny_config(vocab_size=len(tokenizer), max_position_embeddings=128)
    ).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return folder


# Every command that may take long, and the final count of its progress bar.
LONG = {
    "embed --file lines.txt": "20/20",
    "embed --file lines.txt --output {}.npy": "20/20",
    "embed --file lines.txt --output {}": "20/20",
    "search Korea --corpus lines.txt": "20/20",
    "tokenize --file lines.txt": "20/20",
    "fill-mask --file masks.txt": "3/3",
    "view hello --model model --output {}.html": "5/5",
    "verify --model model --tolerance 1": "5/5",
    "pretrain --config model/config.json --corpus corpus.txt --vocab model --steps 2"
    " --batch-size 2 --output {}": "2/2",
    "finetune tokens --model model --train tags.txt --dev tags.txt --epochs 1 --output {}": "1/1",
}


@pytest.mark.parametrize(
    "command", LONG, ids=[f"{number}-{command.split()[0]}" for number, command in enumerate(LONG)]
)
def test_a_terminal_shows_a_bar_and_a_pipe_none(
    command: str,
    folder: Path,
    tmp_path: Path,
    at_once: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main(command.format(tmp_path / "piped").split()) == 0
    # In a log, a short command reports only its data, settings and scores.
    about = ("step ", "minibert: training on", "learning rate", "tags.txt: ", "notice: ")
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith(about)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(command.format(tmp_path / "watched").split()) == 0
    out, err = capsys.readouterr()
    assert f"{LONG[command]} [00:" in err and "/s" in err and "[00:" not in out


@pytest.mark.needs("terminals")
def test_a_real_terminal(
    at_once: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import fcntl
    import pty
    import termios

    (tmp_path / "lines.txt").write_text("I love Korea\n" * 3, encoding="utf-8")
    ours, theirs = pty.openpty()
    # A terminal without width shows no bar.
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main(["embed", "--file", str(tmp_path / "lines.txt")]) == 0
    shown = b""
    with suppress(OSError):  # reading a closed terminal raises an error
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert b"3/3" in shown and capsys.readouterr().out.count("\n") == 3


@pytest.mark.parametrize(("error", "ignored"), [(ConnectionError, True), (ValueError, False)])
def test_sigterm_is_ignored_while_the_last_error_is_reported(
    error: type[Exception], ignored: bool
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(error), interruptible(last_words=ConnectionError):
            raise error
        assert signal.getsignal(signal.SIGTERM) == (signal.SIG_IGN if ignored else before)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_quick_work_shows_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert is_watched() and list(counted("abc", "letters")) == list("abc")
    assert capsys.readouterr().err == ""


def test_a_bar_shows_its_rate_and_loss(at_once: None, capsys: pytest.CaptureFixture[str]) -> None:
    disable_progress_bars()  # transformers does this for the whole process, and it has no effect
    with Progress(show=True, total=2, unit="steps") as progress:
        progress.add(1, tokens=10, loss="0.5")
    err = capsys.readouterr().err
    assert "1/2" in err and "tokens/s, loss 0.5" in err


def test_lines_in_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("minibert.util.progress.SECONDS_BETWEEN_LINES", 0.0)
    assert is_watched() is None
    with (
        Progress(None, total=4, unit="steps", done=1) as progress,
        Progress(None) as texts,
        Progress(False) as nothing,
    ):
        progress.add(0)
        progress.add(1, tokens=10, loss="0.5")
        texts.add(3)
        nothing.add(1)
    first, second, third = capsys.readouterr().err.splitlines()
    assert "1/4" in first and "?" in first and third.startswith("3 texts")
    assert second.startswith("50% 2/4 [00:00<00:00") and second.endswith("tokens/s, loss 0.5]")


def test_printing_results_to_a_terminal_needs_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert is_watched() and not is_watched(printing=True)


def test_loading_pauses_the_garbage_collector() -> None:
    """A collection would visit all of torch's objects, and loading creates no garbage."""
    phases: list[str] = []
    before = gc.get_threshold()
    gc.set_threshold(100)
    gc.callbacks.append(note := lambda phase, _: phases.append(phase))
    try:
        phases.clear()
        BertModel.from_pretrained("minibert-tiny")
        assert phases.count("start") <= 4  # before and after loading. Otherwise ten or more.
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert gc.isenabled()
