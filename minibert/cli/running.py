"""Run a command and stop it.

This includes its messages, its errors in one sentence, and its exit code.
"""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from minibert.cli.messages import in_options, option_of
from minibert.cli.parser import Parser
from minibert.cli.results import EXPECTED_ERRORS, UsageError
from minibert.util.errors import ArgumentError, Message, message_of
from minibert.util.extras import install_line
from minibert.util.files import NOT_WRITTEN
from minibert.util.progress import told_by

DEPENDENCIES = ("torch", "numpy", "safetensors", "huggingface_hub")

logger = logging.getLogger("minibert")
_TERMINATED = 128 + signal.SIGTERM
_INTERRUPTED = 128 + signal.SIGINT
_signals: list[int] = []  # SIGINT and SIGTERM that the command has received


class Terminated(KeyboardInterrupt):
    """SIGTERM has come."""

    signal = signal.SIGTERM


@contextmanager
def prepared(command_line: Sequence[str]) -> Iterator[Stderr]:
    """Output in UTF-8, messages on stderr and an orderly end by SIGTERM, while a command runs.

    Yields:
        What prints the messages. Its `parser` is to be set as soon as the command is known.
    """
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # as stdin and files are read, whatever the system's encoding; the name of a file need not
        # be UTF-8
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    stderr = sys.stderr
    if stderr is None:  # closed; print would write to stdout
        stderr = open(os.devnull, "w", encoding="utf-8")
    stream: Any = _MessageStream(stderr)
    sys.stderr = stream
    with _messages(command_line) as messages, _terminable():
        try:
            yield messages
        finally:
            _end_output()
            sys.stderr = stderr


def run_command(options: argparse.Namespace) -> int:
    """Runs one command, reports its errors in a sentence and returns the exit code."""
    name = f"minibert {options.command}".rstrip()
    try:
        code: int = options.run(options) or 0
        sys.stdout.flush()  # here and not when Python ends: a full disk is an error like any other
        return code
    except KeyboardInterrupt as stop:
        return _end_stopped(options, getattr(stop, "signal", signal.SIGINT), message_of(stop))
    except Exception as error:
        is_expected = isinstance(error, EXPECTED_ERRORS)
        if _signals:  # a library has caught what the signal raised, and raised another error
            return _end_stopped(options, _signals[0])
        if not is_expected or (options.debug and not isinstance(error, BrokenPipeError)):
            traceback.print_exc()
        if is_expected:
            return end_failed(name, error, options)
        print(
            f"{name}: this is a bug in minibert. Please report the traceback above.",
            file=sys.stderr,
        )
        return 1


def end_failed(name: str, error: BaseException, options: argparse.Namespace | None = None) -> int:
    """Report an error in one sentence, and return the exit code.

    Args:
        name: The command, such as "minibert embed".
        error: What it raised. Where the reader of the output has gone, as `head` does, nothing is
            printed.
        options: Of the command, by which the error calls an argument of Python.
    """
    if isinstance(error, BrokenPipeError):
        return 0
    parser = None if options is None else options.parser
    sentence = _sentence(error, parser)
    print(f"{name}: {sentence}", file=sys.stderr)
    # what is about an option is about what was typed, also where only the model could tell
    is_usage = isinstance(error, UsageError)
    if isinstance(error, ArgumentError) and parser is not None:
        is_usage = option_of(error.argument, parser) is not None
    return 2 if is_usage else 1


def _end_stopped(options: argparse.Namespace, number: int, message: Message | None = None) -> int:
    """Say what was kept, and return the exit code of a command that a signal has stopped."""
    output = getattr(options, "output", None)
    kept = "stopped."
    if output is not None and ("://" in output or not os.path.exists(output)):
        kept = f"stopped: nothing was written to {output}."
    elif output is not None:
        kept = f"stopped: {output} is as it was, or incomplete."
    sentence = kept if not message else in_options(message, options.parser)
    print(f"minibert: {sentence}", file=sys.stderr)
    return _TERMINATED if number == signal.SIGTERM else _INTERRUPTED


class _ClosedOutput(io.TextIOBase):
    """Standard output that the shell has closed, so that printing is an error."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


class _MessageStream:
    """Standard error, on which the work does not depend.

    What cannot be written is dropped, as when the reader of the pipe or the terminal has gone.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _end_output() -> None:
    """Flush standard output.

    Text that cannot be printed is dropped. Otherwise Python would try again at exit and complain.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Stderr(logging.Handler):
    """Messages and warnings of the package, a line each, on the stderr of the moment.

    Attributes:
        parser: That of the command, by whose options a message calls arguments of Python. None: it
            calls them as Python does.
    """

    parser: Parser | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a message."""
        text = record.getMessage()
        if isinstance(record.msg, Message):
            text = self.written(record.msg)
        print(f"minibert: {text}", file=sys.stderr)

    def written(self, message: Message) -> str:
        """The text of a message."""
        return str(message) if self.parser is None else in_options(message, self.parser)


@contextmanager
def _messages(command_line: Sequence[str]) -> Iterator[Stderr]:
    """Send warnings to the logger `minibert`, and its messages to stderr.

    With `--quiet` only errors are shown.
    """
    is_quiet = "--quiet" in command_line or "-q" in command_line
    show_warning = warnings.showwarning
    warnings.showwarning = _log_warning
    handler = Stderr()
    try:
        level = logging.ERROR if is_quiet else logging.INFO
        with logged_by(handler, logger, level), told_by(handler.written):
            yield handler
    finally:
        warnings.showwarning = show_warning


@contextmanager
def logged_by(handler: logging.Handler, logger: logging.Logger, level: int) -> Iterator[None]:
    """Let a handler alone have the messages of a logger, from this level on, until the block ends.

    Args:
        handler: The handler.
        logger: The logger.
        level: The lowest level of its messages.
    """
    before, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = propagate


def _log_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    logger.warning(message_of(message))


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the work as Ctrl-C does, in order and with a sentence, until the block ends."""
    _signals.clear()
    usual: dict[int, Any] = {
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    # whoever runs the command in a process of theirs may have handlers with other plans
    handled = [number for number, handler in usual.items() if signal.getsignal(number) == handler]
    if threading.current_thread() is not threading.main_thread():
        handled = []
    for number in handled:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, usual[number])


def _stop(number: int, frame: FrameType | None) -> None:
    _signals.append(number)
    if number == signal.SIGTERM:
        raise Terminated
    raise KeyboardInterrupt


def _sentence(error: BaseException, parser: Parser | None) -> str:
    """An error in one sentence, without numbers that only systems know.

    Args:
        error: The error.
        parser: That of the command, by whose options the error calls arguments of Python.
    """
    if isinstance(error, OSError) and error.errno is not None and error.strerror is not None:
        if error.filename is None:
            if error.errno in NOT_WRITTEN:
                return f"standard output could not be written ({error.strerror})."
            if "temporary directory" in error.strerror:  # of the module tempfile
                return f"{error.strerror}. Name a folder that can be written by TMPDIR."
        elif isinstance(error, FileNotFoundError):
            return f"there is no file {os.fsdecode(error.filename) or repr('')}."
        elif isinstance(error, IsADirectoryError):
            return f"{os.fsdecode(error.filename)} is a folder. Name a file."
        else:
            path = os.fsdecode(error.filename)
            return f"{path} could not be read or written ({error.strerror})."
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package in DEPENDENCIES:
        return f"{package} is not installed, which minibert needs: {install_line()}"
    message = message_of(error)
    sentence = message if parser is None else in_options(message, parser)
    sentence = " ".join(sentence.split()) or type(error).__name__
    if len(sentence) > 1000:
        sentence = f"{sentence[:700]} ... {sentence[-200:]}"  # with the advice at its end
    return sentence
