"""The options that several commands share, each defined once.

A command adds the ones that have an effect on it, so names and help texts are the same everywhere.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from typing import Any, TypeVar

from minibert.cli.parser import Once, Parser
from minibert.cli.results import UsageError
from minibert.encoders.encoder_options import EmbedderOptions, LoadOptions
from minibert.text.location import Location
from minibert.text.table import COLUMNS, Table
from minibert.util.checks import is_whole
from minibert.util.errors import message_of

T = TypeVar("T")
DEFAULT_MODEL = "minibert-en"
MODEL_HELP = (
    "Model: a folder, a bundled model or a Hub id. NAME@REVISION names a branch, tag or commit of "
    "the Hub."
)


def probability(text: str) -> float:
    """A number from 0 to 1, for argparse."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError
    return number


probability.expected = "a probability from 0 to 1"  # type: ignore[attr-defined]


def positive(text: str) -> int:
    """A whole number of 1 or more, for argparse."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


positive.expected = "a whole number of 1 or more"  # type: ignore[attr-defined]


def local_path(name: str) -> str:
    """A file or a folder on this machine, for argparse. `file://` is a path."""
    if name.startswith("file://"):
        return Location(name).path
    if "://" in name:
        raise argparse.ArgumentTypeError(
            f"{name} is not on this machine: name a path, and copy what is written there"
        )
    return name


def comma_list(kind: Callable[[str], Any] = str) -> Callable[[str], list[Any]]:
    """The type of an option that takes several values with commas between them."""

    def split(values: str) -> list[Any]:
        parts = values.split(",")
        if "" in parts:
            raise ValueError
        return [kind(part) for part in parts]

    what = "names" if kind is str else "numbers"
    split.expected = f"{what} with commas between them"  # type: ignore[attr-defined]
    return split


def _layers(choice: str) -> str | list[int]:
    if choice[-1:].isdigit() and "_" not in choice:
        return [int(number) for number in choice.split(",")]
    return choice


_layers.expected = "a name or indices with commas between them"  # type: ignore[attr-defined]


def _column_delimiter(name: str) -> str:
    delimiter = {"tab": "\t", "\\t": "\t"}.get(name, name)
    if len(delimiter) != 1:
        raise argparse.ArgumentTypeError(f"{name!r} should be one character, or tab")
    return delimiter


def add_fields(parser: Any, kind: Any, *names: str, **defaults: Any) -> None:
    """Options of the fields of a dataclass, whose metadata has the help text.

    Args:
        parser: A parser, or a group of options.
        kind: The dataclass.
        names: The fields to add. None: all.
        defaults: The defaults of this command, where they differ from those of the fields.
    """
    for declared in fields(kind):
        if names and declared.name not in names:
            continue
        about = declared.metadata
        default = defaults.get(declared.name, declared.default)
        help = about["help"].replace("%", "%%")
        if default is not None:  # the parser shows it
            help, _, _ = help.partition(" Default: ")
        flag = _flag_of(declared)
        settings: dict[str, Any] = {"dest": _dest_of(declared)}
        if declared.type == "bool":  # one that is true has an option --no-...
            settings["action"] = "store_false" if default else "store_true"
        elif declared.type == "bool | None":  # by default something else decides
            settings |= {"action": "store_const", "const": True}
        else:
            choices = about.get("choices")
            read, metavar = _reader_of(declared)
            settings |= {"type": read, "default": default, "choices": choices}
            if choices is None:
                settings["metavar"] = about.get("metavar") or metavar
        action = parser.add_argument(flag, help=help, **settings)
        action.kind, action.field = kind, declared.name  # for messages that mention the field
        if declared.type == "bool | None":
            off = {"action": "store_const", "const": False, "dest": settings["dest"]}
            parser.add_argument(about["off"], help=about["off_help"], **off)


def options_in_lines(kind: Any, *names: str) -> str:
    """Lines about fields of a dataclass as options, with the first sentence of their help texts."""
    lines = []
    for declared in fields(kind):
        if declared.name in names:
            about = declared.metadata
            value = about["metavar"] or "|".join(about["choices"] or ())  # a switch has no value
            sentence, _, _ = about["help"].partition(". ")
            lines.append(f"  {_flag_of(declared)} {value}".ljust(26) + sentence.rstrip("."))
    return "\n".join(lines)


def _reader_of(declared: Field[Any]) -> tuple[Callable[[str], Any], str | None]:
    """What reads the value of an option, and what the help calls the value."""
    annotation = str(declared.type)
    if declared.name == "delimiter":
        return _column_delimiter, None
    if declared.name == "layers":
        return _layers, None
    if annotation.startswith("tuple") or "Sequence[" in annotation:
        kinds = {"float": float, "int": int}
        return comma_list(next((kinds[name] for name in kinds if name in annotation), str)), None
    if is_whole(declared):
        return int, "N"
    if annotation.startswith("float"):
        return float, "X"
    return str, None


def filled(kind: Callable[..., T], options: argparse.Namespace, **more: Any) -> T:
    """The dataclass with the values of its options, and with `more`.

    What the command has no option for is the default.

    Raises:
        UsageError: The dataclass refuses a value.
    """
    values = {}
    for declared in fields(kind):  # type: ignore[arg-type]
        value = getattr(options, _dest_of(declared), None)
        if value is not None:
            values[declared.name] = value
    try:
        return kind(**{**values, **more})
    except ValueError as error:
        raise UsageError(message_of(error)) from None


def keywords_of(function: Callable[..., Any], options: argparse.Namespace) -> dict[str, Any]:
    """The values of the options that a function takes as keywords of the same names."""
    names = inspect.getfullargspec(function).kwonlyargs
    return {name: getattr(options, name) for name in names if name in options}


def refuse_options(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Refuse options that would have no effect.

    Args:
        options: The command's.
        names: Of the options, as the namespace has them.
        reason: Why, and what helps, after the name of the option.

    Raises:
        UsageError: One of them has another value than its default.
    """
    parser: Parser = options.parser
    for flag, action in parser.options_by_name().items():
        if action.dest not in names or not flag.startswith("--"):
            continue
        if getattr(options, action.dest) != parser.get_default(action.dest):
            raise UsageError(f"{flag} {reason}")


def _flag_of(declared: Field[Any]) -> str:
    return declared.metadata.get("option") or f"--{declared.name.replace('_', '-')}"


def _dest_of(declared: Field[Any]) -> str:
    """Where argparse keeps the value of a field. One that is true has an option --no-..."""
    flag = _flag_of(declared)[2:]
    if declared.default is True:
        flag = flag.removeprefix("no-")
    return flag.replace("-", "_")


OF_FILES = tuple(map(_dest_of, fields(Table)))  # options of how files are read


def add_common(parser: Parser) -> None:
    """Options of every command, which keep the parser that reads them as `options.parser`."""
    add_options(parser, "--quiet", "--debug")
    parser.set_defaults(parser=parser)


# what argparse has to know of each option that several commands share
SHORT = {"--model": "-m", "--output": "-o", "--quiet": "-q", "--top-k": "-k"}
SHARED: dict[str, dict[str, Any]] = {
    "--model": {"default": DEFAULT_MODEL, "metavar": "NAME", "help": MODEL_HELP},
    "--offline": {"action": "store_true", "help": "Use local files and the Hub cache only."},
    "--backend": {
        "default": "torch",
        "choices": ["torch", "onnx"],
        "help": "Library that runs the model. onnx runs a folder written by minibert export.",
    },
    "--max-length": {
        "type": int,
        "metavar": "N",
        "help": "Maximum number of tokens per text. Default: the model's own limit.",
    },
    "--top-k": {"type": positive, "metavar": "N"},
    "--output": {"type": local_path, "metavar": "FILE"},
    "--output-encoding": {
        "metavar": "NAME",
        "help": "Encoding of a text file that is written, such as cp949, or utf-8-sig for Excel. "
        "Default: UTF-8.",
    },
    "--force": {
        "action": "store_true",
        "help": "Write over a file, or into a folder that holds other files.",
    },
    "--plot": {"type": local_path, "metavar": "FILE"},
    "--json": {"action": "store_true", "help": "Print one JSON document."},
    "--jsonl": {
        "action": "store_true",
        "help": "Print a JSON document a line, one for each result.",
    },
    "--quiet": {"action": "store_true", "help": "Print results and errors only."},
    "--debug": {"action": "store_true", "help": "Print the traceback of an error."},
    "--file": {
        "action": "append",
        "metavar": "FILE",
        "help": "File of texts, one per line, or a table, a folder or a URI. - reads stdin. May be "
        "repeated.",
    },
    "--skip-bad-rows": {
        "action": "store_true",
        "help": "Leave out rows that are certainly wrong, and count them. Default: they are "
        "errors.",
    },
    "--negative-column": {
        "dest": "negative_columns",
        "type": comma_list(),
        "action": "extend",
        "default": [],
        "metavar": "NAME",
        "help": "Column of texts that do not belong to the first, or several with commas between "
        "them. May be repeated.",
    },
    "--label-columns": {
        "action": Once,
        "type": comma_list(),
        "default": [],
        "metavar": "A,B,...",
        "help": "Columns of several labels a text, one for each label, which hold 1 or 0.",
    },
    "--query-prompt": {
        "metavar": "PROMPT",
        "help": "Prompt of queries: its name in the model's folder, or its words. Default: the "
        "model's own.",
    },
    "--document-prompt": {
        "metavar": "PROMPT",
        "help": "Prompt of documents: its name in the model's folder, or its words. Default: the "
        "model's own.",
    },
    "--threshold": {"type": probability, "metavar": "PROB"},
    "--cased": {
        "action": "store_true",
        "help": "Keep upper case and accents (needed for Korean).",
    },
}


def add_options(parser: Any, *names: str, **changes: Any) -> None:
    """Options that commands share.

    Args:
        parser: A parser, or a group of options.
        names: The options.
        changes: What argparse has to know of them for this command alone.
    """
    for name in names:
        flags = [SHORT[name], name] if name in SHORT else [name]
        parser.add_argument(*flags, **{**SHARED[name], **changes})


def add_model(parser: Parser, **changes: Any) -> None:
    """`--model`, with `changes`, and `--offline`, which limits where it may come from."""
    add_options(parser, "--model", **changes)
    add_options(parser, "--offline")


def add_results(parser: Parser) -> None:
    """`--json` and `--jsonl` of a command that prints a result for each text."""
    formats = parser.add_mutually_exclusive_group()
    add_options(
        formats, "--json", help='Print one JSON document, whose key "output" holds the results.'
    )
    add_options(formats, "--jsonl")


def add_texts(parser: Parser, help: str, *columns: str) -> None:
    """Texts as arguments, or from files. `columns` are those of `add_table`."""
    parser.add_argument("texts", nargs="*", metavar="TEXT", help=help)
    add_options(parser, "--file")
    add_table(parser, *columns)


def add_embedder(parser: Parser) -> None:
    """Options that decide how a text becomes a vector."""
    add_options(parser, "--backend")
    names = ("precision", "device", "pooling", "layers", "layer_weights", "truncate_dim")
    add_fields(parser, EmbedderOptions, *names, device="cpu")
    add_options(parser, "--max-length")


def add_device(parser: Parser, *others: str) -> None:
    """`--device`, and other options of `LoadOptions`."""
    add_fields(parser, LoadOptions, *others, "device", device="cpu")


FORMAT = tuple(declared.name for declared in fields(Table) if declared.name not in COLUMNS)


def add_table(parser: Any, *columns: str) -> None:
    """The options of how files are read, of a parser or of a group of options.

    Args:
        parser: The parser or the group.
        columns: Fields of `minibert.text.Table` besides the text that the command uses.
    """
    add_fields(parser, Table, "text", *columns, *FORMAT)


def table_of(options: argparse.Namespace) -> Table:
    """How the command reads its files."""
    return filled(Table, options)
