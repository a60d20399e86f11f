"""The `minibert` command: plain text for people, `--json` for programs.

Exit codes: 0 done, 1 the work or the check failed, 2 bad usage. An error is one sentence on stderr; `--debug` adds
the traceback. Heavy modules are imported by the command that needs them, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import minibert

DEFAULT_MODEL = "minibert-tiny"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    options = build_parser().parse_args(arguments)
    warnings.showwarning = _show_warning
    try:
        code: int = options.run(options) or 0
    except KeyboardInterrupt:
        print("minibert: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        sys.stderr.close()
        return 1
    except (ValueError, TypeError, OSError, ImportError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"minibert {options.command}: {_sentence(error)}", file=sys.stderr)
        return 1
    return code


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command; each command is a function here that calls the library."""
    parser = argparse.ArgumentParser(prog="minibert", description="A small, exact BERT.")
    parser.add_argument("--version", action="version", version=f"minibert {minibert.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_embed, _add_tokenize, _add_info, _add_convert):
        add(commands)
    return parser


def add_command(commands: Any, name: str, run: Callable[[Any], int | None], summary: str) -> argparse.ArgumentParser:
    """A command with the options that all of them share."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="folder, bundled model or Hub id (default: %(default)s)")
    parser.add_argument("--revision", help="branch, tag or commit on the Hub")
    parser.add_argument("--offline", action="store_true", help="never ask the network")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error")
    parser.set_defaults(run=run)
    return parser


def source_options(options: argparse.Namespace) -> dict[str, Any]:
    """What the command line says about where the model comes from, as `from_pretrained` takes it."""
    return {"revision": options.revision, "local_files_only": options.offline}


def print_json(content: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(content, ensure_ascii=False))


def read_lines(options: argparse.Namespace) -> list[str]:
    """The texts of a command: its arguments, or the lines of `--file` (`-` for stdin), or of a piped stdin."""
    if options.texts and options.file:
        raise ValueError("give texts or --file, not both.")
    if options.texts:
        return list(options.texts)
    if options.file is None and sys.stdin.isatty():
        raise ValueError("no text given: pass it as arguments, by --file, or through a pipe.")
    name = options.file or "-"
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        where = "stdin" if name == "-" else name
        raise ValueError(f"line {line} of {where} is not UTF-8; convert the file (iconv -t utf-8).") from None


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--file", help="read texts from this file, one a line (- for stdin)")


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"minibert: {message}", file=sys.stderr)
