"""What the two training commands share: every field of `TrainingOptions` as an option."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from minibert.training.options import TrainingOptions

_TYPES = {"int": int, "int | None": int, "float": float}


def add_training_options(parser: argparse.ArgumentParser, leave_out: Sequence[str] = (), **defaults: Any) -> None:
    """An option for each field: its name, its type, its description.

    Args:
        parser: of the command.
        leave_out: fields that the command decides itself.
        defaults: the command's own, where they differ.
    """
    group = parser.add_argument_group("training")
    for field in dataclasses.fields(TrainingOptions):
        if field.name in leave_out:
            continue
        flag, text = f"--{field.name.replace('_', '-')}", field.metadata["help"].replace("%", "%%")
        default = defaults.get(field.name, field.default)
        if field.type == "bool":
            group.add_argument(flag, action="store_true", help=text)
        else:
            shown = "" if default is None else " (default: %(default)s)"
            group.add_argument(flag, type=_TYPES[str(field.type)], default=default, metavar="N", help=text + shown)
    group.add_argument("--output", required=True, metavar="FOLDER", help="for the state, the log and the model")
    group.add_argument("--resume", action="store_true", help="go on with the run in the output folder")
    group.add_argument(
        "--resume-with-other-data",
        dest="resume",
        action="store_const",
        const="with other data",
        help="go on with it though its examples or labels have changed",
    )


def training_options(options: argparse.Namespace) -> TrainingOptions:
    """What the command line says about training."""
    names = {field.name for field in dataclasses.fields(TrainingOptions)}
    return TrainingOptions(**{name: value for name, value in vars(options).items() if name in names})
