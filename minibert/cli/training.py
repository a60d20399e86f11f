"""Shared by the two training commands: every field of `TrainingOptions` as an option, and the options kept by a run."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from minibert.cli.common import UsageError
from minibert.files import only_run_in, read_json, write_json
from minibert.training.options import TrainingOptions

T = TypeVar("T")

_TYPES = {"int": int, "int | None": int, "float": float}
_OF_THE_COMMAND = ("arguments", "command", "debug", "json", "output", "parser", "resume", "run")


def add_training_options(parser: argparse.ArgumentParser, leave_out: Sequence[str] = (), **defaults: Any) -> None:
    """An option for each field: its name, its type, its description.

    Args:
        parser: of the command.
        leave_out: fields that the command decides itself.
        defaults: the command's own, where they differ.
    """
    parser.set_defaults(parser=parser)
    parser.add_argument("--max-length", type=int, default=128, metavar="N", help="limit of tokens an example")
    group = parser.add_argument_group("training")
    for field in dataclasses.fields(TrainingOptions):
        if field.name in leave_out:
            continue
        flag, text = f"--{field.name.replace('_', '-')}", field.metadata["help"].replace("%", "%%")
        default = defaults.get(field.name, field.default)
        if field.type == "bool":
            group.add_argument(flag, action="store_true", help=text)
        else:
            group.add_argument(flag, type=_TYPES[str(field.type)], default=default, metavar="N", help=text)
    group.add_argument("--output", required=True, metavar="FOLDER", help="for the state, the log and the model")
    group.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the output folder, with its own options if none are given",
    )
    group.add_argument(
        "--resume-with-other-data",
        dest="resume",
        action="store_const",
        const="with other data",
        help="go on with it though its examples or labels have changed",
    )


def options_of_run(options: argparse.Namespace, *needed: str) -> argparse.Namespace:
    """The options of a run, which keeps them in its folder: a run that is resumed needs no others.

    Args:
        options: those on the command line.
        needed: names of options without which nothing can be trained.

    Raises:
        UsageError: one of them is not there.
        ValueError: a kept option has a value that the command line would not take.
    """
    path = Path(options.output, "run.json")
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0 and any(Path(options.output).glob("state-*.pt")):
        options.arguments.append("--resume")  # torchrun has started the processes again, as they were started before
        options.resume = options.resume or True
    if options.resume and path.is_file():
        kept = read_json(path)
        for option in options.parser._actions:
            value = kept.get(option.dest, option.default)
            if not _takes(option, value):
                advice = "correct it, or delete the file and give all options."
                raise ValueError(f"{path}: {option.dest} cannot be {value!r}: {advice}")
            option.default = value
        options = options.parser.parse_args(options.arguments[1:], argparse.Namespace(arguments=options.arguments))
    if missing := [name for name in needed if getattr(options, name) is None]:
        raise UsageError(f"give {' and '.join(f'--{name}' for name in missing)}.")
    return options


def _takes(option: argparse.Action, value: Any) -> bool:
    """Whether the command line could have given a kept value: its text is read as the value itself."""
    if type(value) is type(option.default) and value == option.default:
        return True
    if option.nargs == 0:
        return type(value) is bool
    if option.nargs == "+" or (isinstance(option.default, list) and option.type is None):
        return isinstance(value, list) and all(type(one) is str for one in value)
    read: Any = option.type or str
    try:
        made = read(",".join(map(str, value)) if isinstance(value, list) else str(value))
    except ValueError:
        return False
    return (isinstance(value, str) or made == value) and (option.choices is None or value in option.choices)


@contextmanager
def keep_options(options: argparse.Namespace) -> Iterator[None]:
    """Writes the options of a run into its folder, for `options_of_run`, and keeps others out until the block ends.

    Raises:
        ValueError: another run is there.
        OSError: another process works there, and its options stay.
    """
    from minibert.training.state import check_new

    folder, is_first = Path(options.output), int(os.environ.get("RANK") or 0) == 0
    with only_run_in(folder, "command") if is_first else nullcontext():
        if not options.resume:
            check_new(folder)
        if is_first:
            kept = {name: value for name, value in vars(options).items() if name not in _OF_THE_COMMAND}
            write_json(folder / "run.json", json.loads(json.dumps(kept, default=os.fspath)))
        yield


def filled(made: Callable[..., T], options: argparse.Namespace, **more: Any) -> T:
    """A dataclass whose fields are the options of the same names, and `more`."""
    names = {field.name for field in dataclasses.fields(made)}  # type: ignore[arg-type]
    return made(**{**{name: value for name, value in vars(options).items() if name in names}, **more})
