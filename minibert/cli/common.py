"""Shared by the commands: options, where texts come from, and how results are printed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from minibert.checkpoints.source import Source
from minibert.files import read_lines

if TYPE_CHECKING:
    from minibert.sentences.encode import TextEncoder

DEFAULT_MODEL = "minibert-en"


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_off = action.default in (None, []) or action.default is False
        return action.help if is_off else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong with the arguments, where argparse prints the usage of everything."""

    commands: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, formatter_class=_Help)

    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help says more)\n")


# said in one sentence; any other exception is a mistake of ours, whose traceback is shown
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError)


class UsageError(ValueError):
    """Options that do not go together."""


def source_of(options: argparse.Namespace) -> Source:
    """Where the model that the options name comes from."""
    return Source(
        checkpoint_name(options), revision=options.revision, local_files_only=options.offline
    )


def checkpoint_name(options: argparse.Namespace) -> str:
    """The model of a command that takes it as an argument, too."""
    if getattr(options, "name", None) is None:
        return str(options.model)
    if options.model != DEFAULT_MODEL:
        raise UsageError("name the model once, not by --model as well.")
    return str(options.name)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning in one line, as errors are."""
    print(f"minibert: {message}", file=sys.stderr)


def print_json(content: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(content, ensure_ascii=False, allow_nan=False))


def report(options: argparse.Namespace, content: dict[str, Any], sentence: str) -> None:
    """Prints the result of a command: `content` for programs, or a sentence for people."""
    print_json(content) if options.json else print(sentence)


def comma_list(kind: Callable[[str], Any] = str) -> Callable[[str], list[Any]]:
    """The type of an option that takes several values, with commas between them."""
    return lambda values: [kind(value) for value in values.split(",")]


def texts_of(options: argparse.Namespace) -> Iterable[str]:
    """The texts of a command, one at a time: its arguments, or the lines of `--file` (`-`: stdin) or of a pipe."""
    if options.texts and options.file:
        raise UsageError("give texts or --file, not both.")
    if options.texts:
        if any("\udc80" <= letter <= "\udcff" for text in options.texts for letter in text):
            raise UsageError(
                "the text was not read as UTF-8: set LC_ALL=C.UTF-8, or PYTHONUTF8=1, and try again."
            )
        if not any(map(str.strip, options.texts)):
            raise UsageError("the text is empty: write one between the quotation marks.")
        return list(options.texts)
    if options.file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("no text given: pass it as arguments, by --file, or through a pipe.")
    check_files(name for name in options.file or [] if name != "-")
    return _at_least_one(
        chain.from_iterable(_texts_of_file(name, options) for name in options.file or ["-"])
    )


def check_files(names: Iterable[str | os.PathLike[str]]) -> None:
    """FileNotFoundError for a file that is not there: at once, where reading it waits for what is slow to import."""
    for name in names:
        if "://" not in os.fspath(name):  # what is elsewhere is asked for when it is read
            os.stat(name)


def _at_least_one(texts: Iterable[str]) -> Iterator[str]:
    """The texts, read only when they are asked for: a pipe may have none yet while others want to be locked out."""
    empty = True
    for text in texts:
        empty = False
        yield text
    if empty:
        raise ValueError("there is no text: the input is empty.")


def count_texts(options: argparse.Namespace, at_most: int | None = None) -> int | None:
    """How many texts `texts_of` gives, where that is quick to know: arguments, and files of lines on this computer.

    With `at_most`, no more lines than that are read.
    """
    from minibert.corpus.inputs import is_table
    from minibert.corpus.location import Location

    if options.texts:
        return len(options.texts)
    files = [Path(name) for name in options.file or ["-"]]
    if any(
        not file.is_file() or is_table(str(file)) or Location(file).compressed for file in files
    ):
        return None
    return sum(1 for _ in islice((line for file in files for line in file.open("rb")), at_most))


def _texts_of_file(name: str, options: argparse.Namespace) -> Iterable[str]:
    """The lines of a file; of a command that has `--column`, the texts of tables and folders, too."""
    if name == "-" or not hasattr(options, "column"):
        return read_lines(name)
    from minibert.corpus.inputs import read_texts

    return read_texts(name, options.column, options.id_column)


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that takes texts."""
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument(
        "--file", action="append", help="of texts, one a line (- for stdin); may be repeated"
    )


def add_embedder_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that turns texts into vectors."""
    parser.add_argument(
        "--backend",
        default="torch",
        choices=["torch", "onnx"],
        help="onnx: what export has written",
    )
    parser.add_argument(
        "--pooling", type=comma_list(), help="cls, pooler, mean, max or mean_sqrt_len"
    )
    parser.add_argument(
        "--layers", type=_layers, help="last, second_to_last, concat_last_4, ... or numbers: 11,12"
    )
    parser.add_argument("--layer-weights", type=comma_list(float), metavar="W,W,...")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8", "exact"])
    parser.add_argument(
        "--max-length",
        type=int,
        help="limit of the tokens of a text (default: what the model says)",
    )


def _layers(choice: str) -> str | list[int]:
    return comma_list(int)(choice) if choice[-1:].isdigit() and "_" not in choice else choice


def load_embedder(options: argparse.Namespace, normalize: bool | None = None) -> TextEncoder:
    """The embedder that the options ask for."""
    source = source_of(options)
    settings: dict[str, Any] = {"normalize": normalize, "precision": options.precision}
    for name in ("pooling", "layers", "layer_weights", "max_length"):
        settings[name] = getattr(options, name)
    if options.backend == "onnx":
        from minibert.sentences.onnx import OnnxEmbedder, refuse_settled

        max_length = settings.pop("max_length")
        refuse_settled(**settings)
        return OnnxEmbedder.from_pretrained(source, max_length=max_length)
    from minibert.sentences.embedder import SentenceEmbedder

    embedder: TextEncoder = SentenceEmbedder.from_pretrained(source, **settings)
    return embedder
