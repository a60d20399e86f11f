"""Define the options that the training commands share.

Each field of `TrainingOptions` becomes an option. A run keeps its options in its folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from minibert.cli.loading import check_device, default_training_device
from minibert.cli.options import add_fields, add_force, add_json
from minibert.cli.parser import Parser
from minibert.cli.results import UsageError, claim_folder
from minibert.files import read_json, write_json
from minibert.progress import place
from minibert.training.options import TrainingOptions

logger = logging.getLogger("minibert")

# the help shows the options in these groups; what is named in none belongs to the training
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "schedule": ("epochs", "steps", "batch_size", "learning_rate", "warmup", "decay_steps", "seed"),
    "regularization": ("weight_decay", "layer_decay", "freeze", "max_grad_norm", "patience"),
    "speed and memory": ("device", "tokens_per_forward", "bf16", "exact", "pool"),
    "saving and evaluation": (
        "save_every",
        "keep_states",
        "checkpoints",
        "evaluate_every",
        "metric",
        "tensorboard",
    ),
}


def add_training_options(parser: Parser, leave_out: Sequence[str] = (), **defaults: Any) -> None:
    """Add an option for each field that is not left out.

    Args:
        parser: The command's.
        leave_out: Fields that do not become options.
        defaults: The defaults of this command, where they differ from those of the fields.
    """
    names = [field.name for field in dataclasses.fields(TrainingOptions)]
    grouped = {name for group in _GROUPS.values() for name in group}
    groups = {**_GROUPS, "other": tuple(name for name in names if name not in grouped)}
    for title, members in groups.items():
        present = [name for name in members if name not in leave_out]
        if not present:
            continue
        group = parser.add_argument_group(title)
        add_fields(group, TrainingOptions, *present, **defaults)
        if title == "schedule":
            group.add_argument(
                "--max-length",
                type=int,
                default=128,
                metavar="N",
                help="Maximum number of tokens per example.",
            )


def add_run_options(parser: Parser) -> None:
    """The folder of a run, and how it is resumed."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        required=True,
        help="Folder for the model, the log and the checkpoints of the run.",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="Resume the run in the folder with the options it was started with.",
    )
    group.add_argument(
        "--resume-with-other-data",
        dest="resume",
        action="store_const",
        const="with other data",
        help="Resume although the examples or the labels have changed.",
    )
    add_force(parser)
    add_json(parser)


def options_of_run(
    options: argparse.Namespace, *needed: str, tasks: Sequence[str] = ()
) -> argparse.Namespace:
    """Combine the options of this start with those that the folder of the run keeps.

    To resume, no other arguments are needed. Later arguments take precedence over earlier ones.

    Args:
        options: Of this start.
        needed: Options that a run cannot do without.
        tasks: The subcommands, one of which comes first.

    Raises:
        UsageError: An option that is needed is missing.
        ValueError: The command does not take the arguments that the folder keeps.
    """
    path = Path(options.output, "run.json")
    start = options.arguments[1:]
    starts = [start]
    resume = options.resume or _is_restarted(path.parent)
    if resume and path.is_file():
        command, arguments = options.command, options.arguments
        try:
            kept = read_json(path)["starts"]
            starts = [earlier for earlier in kept if earlier != start] + [start]
            merged = _merge(starts, tasks)
            parsed = options.command_parser.parse_args(merged)
        except (SystemExit, KeyError, TypeError):  # argparse has printed which argument
            raise ValueError(
                f"{path} holds arguments that minibert {command} does not take: correct it, or "
                "delete the file and give all options."
            ) from None
        parsed.command, parsed.arguments = command, arguments
        parsed.json, parsed.debug, parsed.quiet = options.json, options.debug, options.quiet
        options = parsed
    options.resume = resume
    options.starts = starts
    missing = [name for name in needed if getattr(options, name, None) is None]
    if missing:
        advice = f"give {' and '.join(f'--{name}' for name in missing)}"
        if resume:
            raise UsageError(f"{path.parent} holds no run to resume: {advice} to start one.")
        if path.is_file():
            advice += f", or resume the run in {path.parent} by --resume"
        raise UsageError(f"{advice}.")
    return options


def _is_restarted(folder: Path) -> bool:
    """Return whether torchrun has restarted the processes of a run."""
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) == 0:
        return False
    from minibert.training.state import saved_states

    return bool(saved_states(folder))


def _merge(starts: Sequence[Sequence[str]], tasks: Sequence[str]) -> list[str]:
    """The arguments of all starts as those of one. The task stands first, once."""
    task: list[str] = []
    merged: list[str] = []
    for start in starts:
        if not start or not all(isinstance(argument, str) for argument in start):
            raise TypeError("arguments are strings")
        if start and start[0] in tasks:
            task = [start[0]]
            merged += start[1:]
        else:
            merged += start
    return task + merged


@contextmanager
def keep_options(options: argparse.Namespace) -> Iterator[None]:
    """Write the arguments of a run into its folder and lock the folder until the block ends.

    `options_of_run` reads them.

    Raises:
        UsageError: The folder holds something else.
        ValueError: Another run is there.
        OSError: Another process works there, and its arguments stay.
    """
    from minibert.training.state import holds_run, run_folder

    if options.device is not None:
        check_device(options.device)
    folder = Path(options.output)
    is_first = place().rank == 0
    has_run = holds_run(folder) or (folder / "run.json").is_file()
    if is_first and not options.resume and not has_run:
        claim_folder(options.output, options.force)
    with (
        _end_explained(folder, forget=is_first and not has_run),
        run_folder(folder, bool(options.resume)),
    ):
        if is_first:
            _write_start(folder, options)
        yield


@contextmanager
def _end_explained(folder: Path, forget: bool) -> Iterator[None]:
    """Let an interrupt before the first state say what was kept.

    Args:
        folder: The folder of the run.
        forget: Leave nothing of a run that has only written its arguments.
    """
    from minibert.training.state import holds_run

    existed = folder.exists()
    try:
        yield
    except BaseException as error:
        if forget:  # ids of a corpus are of use to the same command, but not after an error
            names = (
                ("run.json",) if isinstance(error, KeyboardInterrupt) else ("run.json", "tokens")
            )
            _forget_start(folder, existed, names)
        if isinstance(error, KeyboardInterrupt) and not str(error) and not holds_run(folder):
            error.args = (
                "stopped: no step of the training is saved. Run the same command to start again.",
            )
        raise


def _write_start(folder: Path, options: argparse.Namespace) -> None:
    """Write the arguments of a run, and say which device was chosen for it."""
    write_json(folder / "run.json", {"starts": options.starts})
    if options.device is None:
        logger.info("training on %s.", default_training_device())


def _forget_start(folder: Path, existed: bool, names: Sequence[str]) -> None:
    """Leave nothing of a run that ended before it had written anything but its arguments."""
    with suppress(OSError):
        if {entry.name for entry in folder.iterdir()} <= set(names):
            (folder / "run.json").unlink()
            shutil.rmtree(folder / "tokens", ignore_errors=True)
        if not existed:
            folder.rmdir()  # fails where something else was written
