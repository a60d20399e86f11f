"""How a command ends when a signal stops it."""

from __future__ import annotations

import argparse
import signal
from typing import Any

import pytest

from minibert.cli.running import prepared, run


def options_of(work: Any, **values: Any) -> argparse.Namespace:
    return argparse.Namespace(command="export", debug=False, run=work, **values)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("error", [None, ValueError, AttributeError])
def test_a_signal_ends_the_work_even_where_a_library_catches_it(
    number: int, code: int, error: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exporter of torch turns a KeyboardInterrupt into an error of its own."""

    def work(_: argparse.Namespace) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            if error is not None:
                raise error("torch._dynamo has no attribute exc") from None
            raise

    with prepared([]):
        assert run(options_of(work, dst="nowhere/at/all")) == code
    captured = capsys.readouterr()
    assert captured.err == "minibert: stopped: nothing was written to nowhere/at/all.\n"


def test_a_signal_is_forgotten_by_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(_: argparse.Namespace) -> None:
        signal.raise_signal(signal.SIGINT)

    def failing(_: argparse.Namespace) -> None:
        raise ValueError("no")

    with prepared([]):
        assert run(options_of(stopped)) == 130
    with prepared([]):
        assert run(options_of(failing)) == 1
    assert capsys.readouterr().err == "minibert: stopped.\nminibert export: no\n"


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with prepared([]):
        assert [signal.getsignal(signal.SIGINT)] != before[:1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
