"""The `minibert` command: plain text for people, `--json` for programs.

One file for each command: `add` its options, and `run`; `common` holds what they share. Exit codes: 0 done, 1 the
work or the check failed, 2 bad usage. An error is one sentence on stderr; `--debug` adds the traceback. Heavy modules
are imported by the command that needs them, and only when its options are found good, so that `--help` and typing
errors are answered at once.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress

import minibert
from minibert.cli import (
    convert,
    embed,
    export,
    fill_mask,
    finetune,
    info,
    learn,
    pretrain,
    search,
    serve,
    tokenize,
    verify,
    view,
    vocab,
)
from minibert.cli.common import DEFAULT_MODEL, EXPECTED_ERRORS, Parser, UsageError, show_warning

_NOT_WRITTEN = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)

# what each does, and an example, in `minibert` alone and at the end of its --help; a test parses the examples
COMMANDS = {
    embed: (
        "Turn texts into vectors, on stdout or in files.",
        '"I love Korea" "Paris is in France"',
    ),
    search: (
        "Find the lines of a file that are most similar to a text.",
        '"Where is Paris?" --corpus lines.txt',
    ),
    serve: (
        "Serve models to clients of OpenAI's API and text-embeddings-inference.",
        "minibert-en --port 8000",
    ),
    export: (
        "Write a model as an ONNX graph, which runs without torch.",
        "minibert-en out/minibert-en-onnx",
    ),
    tokenize: ("Show the WordPieces of texts, their ids and places.", '"I love Korea"'),
    fill_mask: ("Guess the words behind [MASK] in texts.", '"Paris is the [MASK] of France."'),
    info: ("Show a checkpoint's config, tensors and what loading it does.", "bert-base-uncased"),
    convert: (
        "Write a checkpoint as safetensors with today's tensor names.",
        "--model old/checkpoint new/folder",
    ),
    view: ("Write a page to walk through the model on one text.", '"I love Korea" --out page.html'),
    learn: ("Open an article in ten scenes beside a BERT that computes.", "--out learn.html"),
    verify: ("Compare a checkpoint with transformers, layer by layer.", "bert-base-uncased"),
    vocab: (
        "Learn a WordPiece vocabulary from text.",
        "--corpus corpus.txt --output out/vocabulary",
    ),
    pretrain: (
        "Pre-train a BERT on plain text: from scratch (--config), or a checkpoint (--model).",
        "--config tiny --corpus corpus.txt --output out/tiny",
    ),
    finetune: (
        "Fine-tune: classify, score, tag, answer, or make vectors similar.",
        "classification --train train.tsv --dev dev.tsv --output out/labels",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    warnings.showwarning = show_warning
    sys.stdout = _ClosedOutput() if sys.stdout is None else sys.stdout
    if isinstance(sys.stdout, io.TextIOWrapper):
        # as stdin and files are read, whatever the system's own encoding is; a file's name need not be UTF-8
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        return run(parse(sys.argv[1:] if arguments is None else list(arguments)))
    finally:
        _end_output()


def run(options: argparse.Namespace) -> int:
    """Runs one command, whose errors it says in a sentence; returns the exit code."""
    name = f"minibert {options.command}".rstrip()
    try:
        code: int = options.run(options) or 0
        sys.stdout.flush()  # here and not when Python ends, so that a full disk is an error like any other
        return code
    except KeyboardInterrupt as error:
        print(f"minibert: {error or 'stopped'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        return 1
    except EXPECTED_ERRORS as error:
        if options.debug:
            traceback.print_exc()
        sentence = _sentence(error)
        if isinstance(error, OSError) and error.filename is None and error.errno in _NOT_WRITTEN:
            sentence = f"standard output could not be written ({error.strerror})."  # whoever writes files names them
        print(f"{name}: {sentence}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except Exception:
        traceback.print_exc()
        print(f"{name}: this is a mistake in minibert: please report these lines.", file=sys.stderr)
        return 1


class _ClosedOutput(io.TextIOBase):
    """Standard output that the shell has closed: what is printed there is an error, not lost."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _end_output() -> None:
    """Prints what is left; what cannot be printed goes nowhere, or Python would try again at exit, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> Parser:
    """The parser with every command."""
    parser = Parser(prog="minibert", description="A small, exact BERT.")
    about = f"minibert {minibert.__version__} (minibert-torch), a small, exact BERT in PyTorch"
    parser.add_argument("--version", action="version", version=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command, (summary, example) in COMMANDS.items():
        name = command.__name__.rpartition(".")[2].replace("_", "-")
        own = commands.add_parser(
            name, help=summary, description=summary, epilog=f"example: minibert {name} {example}"
        )
        own.add_argument("--model", default=DEFAULT_MODEL, help="folder, bundled model or Hub id")
        own.add_argument("--revision", help="branch, tag or commit on the Hub")
        own.add_argument("--offline", action="store_true", help="never ask the network")
        own.add_argument("--json", action="store_true", help="print JSON")
        own.add_argument("--debug", action="store_true", help="print the traceback of an error")
        own.set_defaults(run=command.run)
        command.add(own)
    parser.commands = commands.choices
    return parser


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of a command line; ends the process with code 2 for one that cannot be."""
    parser = build_parser()
    if not arguments:
        return argparse.Namespace(
            command="", debug=False, run=lambda _: _print_overview(parser.commands)
        )
    if not arguments[0].startswith("-") and arguments[0] not in parser.commands:
        parser.error(
            f"there is no command {arguments[0]!r}{_nearest(arguments[0], parser.commands)}"
        )
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        command = parser.commands[options.command]
        what = f"option {unknown[0]}" if unknown[0].startswith("-") else f"place for {unknown[0]!r}"
        nearest = _nearest(unknown[0].partition("=")[0], command._option_string_actions)
        command.error(f"there is no {what}{nearest}")
    options.arguments = arguments
    return options


def _print_overview(commands: dict[str, argparse.ArgumentParser]) -> None:
    """Every command with its summary and one example."""
    print(
        f"minibert {minibert.__version__}: a small, exact BERT. minibert COMMAND --help says more.\n"
    )
    for name, parser in commands.items():
        print(
            f"{name:<10} {parser.description}\n{'':<10} {str(parser.epilog).removeprefix('example: ')}"
        )


def _nearest(word: str, known: Iterable[str]) -> str:
    """The nearest name: of these initials, as --lr is of --learning-rate, or spelled like it."""
    bare, names = word.lstrip("-"), {name.lstrip("-"): name for name in known}
    found = [own for own in names if "".join(part[:1] for part in own.split("-")) == bare]
    found = found or difflib.get_close_matches(bare, names, n=1, cutoff=0.5)
    return f"; did you mean {names[found[0]]}?" if found else ""


def _sentence(error: BaseException) -> str:
    if (
        isinstance(error, FileNotFoundError) and error.filename is not None
    ):  # Python's own words, with a number
        return f"there is no file {os.fsdecode(error.filename)}."
    sentence = " ".join(str(error).split()) or type(error).__name__
    if len(sentence) > 1000:
        sentence = f"{sentence[:700]} ... {sentence[-200:]}"  # with the advice at its end
    return sentence
