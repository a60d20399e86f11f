"""Shared by the two training commands: every field of `TrainingOptions` as an option, and the options kept by a run."""

from __future__ import annotations

import argparse
import dataclasses
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


def add_training_options(
    parser: argparse.ArgumentParser, leave_out: Sequence[str] = (), **defaults: Any
) -> None:
    """An option for each field that is not left out; `defaults` are the command's own, where they differ."""
    parser.set_defaults(parser=parser)
    parser.add_argument(
        "--max-length", type=int, default=128, metavar="N", help="limit of tokens an example"
    )
    group = parser.add_argument_group("training")
    for field in dataclasses.fields(TrainingOptions):
        if field.name in leave_out:
            continue
        flag, text = f"--{field.name.replace('_', '-')}", field.metadata["help"].replace("%", "%%")
        default = defaults.get(field.name, field.default)
        if field.type == "bool":
            group.add_argument(flag, action="store_true", help=text)
        else:
            group.add_argument(
                flag, type=_TYPES[str(field.type)], default=default, metavar="N", help=text
            )
    group.add_argument(
        "--output", required=True, metavar="FOLDER", help="for the state, the log and the model"
    )
    group.add_argument(
        "--resume", action="store_true", help="go on with the run in the folder, by its own options"
    )
    others = "go on with it though its examples or labels have changed"
    group.add_argument(
        "--resume-with-other-data",
        dest="resume",
        action="store_const",
        const="with other data",
        help=others,
    )


def options_of_run(options: argparse.Namespace, *needed: str) -> argparse.Namespace:
    """The options of a run, which keeps the arguments of its starts in its folder: to resume it takes no others.

    Later arguments count before earlier ones.

    Raises:
        UsageError: an option that is needed is not there.
        ValueError: the command does not take the arguments that are kept.
    """
    path, starts, parser = Path(options.output, "run.json"), [options.arguments[1:]], options.parser
    restarted = False
    if (
        int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) > 0
    ):  # by torchrun, as they were started before
        from minibert.training.state import saved_states

        restarted = bool(saved_states(path.parent))
    of_this_start = {
        "json": options.json,
        "debug": options.debug,
        "resume": options.resume or restarted,
    }
    if of_this_start["resume"] and path.is_file():
        try:
            starts = [start for start in read_json(path)["starts"] if start not in starts] + starts
            for start in starts:
                options = parser.parse_args(list(start))
                parser.set_defaults(**vars(options))
        except (SystemExit, KeyError, TypeError):  # argparse has said which argument
            advice = "correct it, or delete the file and give all options."
            raise ValueError(
                f"{path} holds arguments that {parser.prog} does not take: {advice}"
            ) from None
    vars(options).update(of_this_start, starts=starts)
    if missing := [name for name in needed if getattr(options, name) is None]:
        raise UsageError(f"give {' and '.join(f'--{name}' for name in missing)}.")
    return options


@contextmanager
def keep_options(options: argparse.Namespace) -> Iterator[None]:
    """Writes the arguments of a run into its folder, for `options_of_run`, and keeps others out until the block ends.

    Raises:
        ValueError: another run is there.
        OSError: another process works there, and its arguments stay.
    """
    from minibert.training.state import check_new

    folder, is_first = Path(options.output), int(os.environ.get("RANK") or 0) == 0
    with only_run_in(folder, "command") if is_first else nullcontext():
        if not options.resume:
            check_new(folder)
        if is_first:
            write_json(folder / "run.json", {"starts": options.starts})
        yield


def filled(made: Callable[..., T], options: argparse.Namespace, **more: Any) -> T:
    """A dataclass whose fields are the options of the same names, and `more`."""
    names = {field.name for field in dataclasses.fields(made)}  # type: ignore[arg-type]
    return made(
        **{**{name: value for name, value in vars(options).items() if name in names}, **more}
    )
