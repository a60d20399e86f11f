"""How a command ends after a signal, or when its output or its run is damaged."""

from __future__ import annotations

import argparse
import io
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from minibert.cli import main
from minibert.cli.parser import Parser
from minibert.cli.running import prepared, run_command


def options_of(work: Any, **values: Any) -> argparse.Namespace:
    return argparse.Namespace(
        command="export", debug=False, run=work, parser=Parser(prog="minibert"), **values
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("error", [None, ValueError, AttributeError])
def test_a_signal_ends_a_command_even_if_a_library_catches_it(
    number: int, code: int, error: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """PyTorch's exporter turns a KeyboardInterrupt into another error."""

    def work(_: argparse.Namespace) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if error is not None:
                raise error("torch._dynamo has no attribute exc") from None
            raise

    with prepared([]):
        assert run_command(options_of(work, output="nowhere/at/all")) == code
    captured = capsys.readouterr()
    assert captured.err == "minibert: stopped: nothing was written to nowhere/at/all.\n"


def test_a_signal_does_not_affect_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(_: argparse.Namespace) -> None:
        signal.raise_signal(signal.SIGINT)

    def failing(_: argparse.Namespace) -> None:
        raise ValueError("no")

    with prepared([]):
        assert run_command(options_of(stopped)) == 130
    with prepared([]):
        assert run_command(options_of(failing)) == 1
    assert capsys.readouterr().err == "minibert: stopped.\nminibert export: no\n"


def test_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with prepared([]):
        assert [signal.getsignal(signal.SIGINT)] != before[:1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["help"], ["help", "embed"], ["--version"], ["models"]])
def test_output_that_cannot_be_written_is_an_error(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "minibert", *arguments]
    with open("/dev/full", "w", encoding="utf-8") as full:
        completed = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, encoding="utf-8")
    assert completed.returncode == 1
    assert "standard output could not be written (No space left on device)." in completed.stderr
    assert completed.stderr.count("\n") == 1


class Gone(io.StringIO):
    """Standard error whose terminal or reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_message_that_cannot_be_written_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Gone()
    monkeypatch.setattr(sys, "stderr", stderr)
    with prepared([]):
        print("a message", file=sys.stderr, flush=True)
        logging.getLogger("minibert").warning("another")
        tqdm([1, 2], mininterval=0).close()
    assert sys.stderr is stderr


def test_messages_do_not_reach_stdout_where_stderr_is_closed() -> None:
    command = f"{sys.executable} -m minibert embed '' 2>&-"
    completed = subprocess.run(command, shell=True, stdout=subprocess.PIPE)
    assert (completed.returncode, completed.stdout) == (2, b"")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"command": 5}'])
def test_a_damaged_run_gets_an_error_of_one_line(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(content, encoding="utf-8")
    for command in (["pretrain"], ["finetune", "classification"], ["finetune"]):
        try:
            code = main([*command, "--resume", "-o", str(tmp_path)])
        except SystemExit as stop:
            code = int(stop.code or 0)
        error = capsys.readouterr().err
        assert code in (1, 2) and error.count("\n") == 1 and "Traceback" not in error


def test_a_missing_dependency_is_named_with_what_installs_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(_: argparse.Namespace) -> None:
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")

    with prepared([]):
        assert run_command(options_of(work)) == 1
    error = capsys.readouterr().err
    assert "torch is not installed" in error and "pip install" in error
