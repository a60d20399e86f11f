"""The `minibert` command: plain text for people, `--json` for programs.

One file for each command, with `add` (its options) and `run`; `common` holds what they share. Exit codes: 0 done, 1 the
work or the check failed, 2 bad usage. An error is one sentence on stderr; `--debug` adds the traceback. Heavy modules
are imported by the command that needs them, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import minibert
from minibert.cli import convert, embed, fill_mask, finetune, info, pretrain, search, tokenize, verify, view
from minibert.cli.common import UsageError

COMMANDS = (embed, search, tokenize, fill_mask, info, convert, view, verify, pretrain, finetune)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    options = build_parser().parse_args(arguments)
    warnings.showwarning = _show_warning
    try:
        code: int = options.run(options) or 0
        _flush()  # here and not when Python ends, so that a full disk is an error like any other
    except KeyboardInterrupt:
        print("minibert: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        _drop_output()
        return 1
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"minibert {options.command}: {_sentence(error)}", file=sys.stderr)
        try:
            _flush()
        except OSError:
            _drop_output()
        return 2 if isinstance(error, UsageError) else 1
    return code


def _flush() -> None:
    if sys.stdout is not None:  # closed by the shell
        sys.stdout.flush()


def _drop_output() -> None:
    """Nothing more goes to stdout: Python would try what is left when it ends, and complain."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command."""
    parser = argparse.ArgumentParser(prog="minibert", description="A small, exact BERT.")
    parser.add_argument("--version", action="version", version=f"minibert {minibert.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"minibert: {message}", file=sys.stderr)
