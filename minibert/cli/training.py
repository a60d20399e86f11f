"""Define the options that the training commands share.

Each field of `TrainingOptions` becomes an option. A run keeps its options in its folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.cli.loading import check_device
from minibert.cli.options import add_fields, add_options
from minibert.cli.parser import Command, CommandFunction, Parser, command
from minibert.cli.results import UsageError, claim_folder
from minibert.training.options import TrainingOptions
from minibert.util.files import read_json, write_json
from minibert.util.progress import place

if TYPE_CHECKING:
    from minibert.training.state import RunFolder

logger = logging.getLogger("minibert")
RUN_FILE = "run.json"
OF_A_START = ("help", "output", "resume", "force", "json", "quiet", "debug")
"""Options that are not those of a run, but of the start that they are given to."""

# the help shows the options in these groups; what is named in none is not of a training command
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "objective": (
        "next_sentence",
        "sentence_order",
        "whole_words",
        "spans",
        "mask_probability",
    ),
    "schedule": (
        "epochs",
        "steps",
        "batch_size",
        "max_length",
        "learning_rate",
        "warmup",
        "decay_steps",
        "seed",
    ),
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


def add_training_options(
    parser: Parser, kind: type[TrainingOptions], leave_out: Collection[str] = ()
) -> None:
    """Add an option for each field of the dataclass that is in a group and not left out."""
    declared = {field.name for field in dataclasses.fields(kind)} - set(leave_out)
    for title, members in _GROUPS.items():
        present = [name for name in members if name in declared]
        if present:
            add_fields(parser.add_argument_group(title), kind, *present)


def add_run_options(parser: Parser) -> None:
    """The folder of a run, and how it is resumed."""
    group = parser.add_argument_group("output")
    add_options(
        group,
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
    add_options(parser, "--force", "--json")


def training_command(
    example: str,
    add: Callable[[Parser], None],
    needed: Callable[[argparse.Namespace], tuple[str, ...]],
    check: Callable[[argparse.Namespace], None],
) -> Callable[[CommandFunction], Command]:
    """As `command`, of a function that receives the checked options of the run.

    Args:
        example: Arguments to try it with.
        add: Declares the options.
        needed: Returns the options that a run cannot do without, by those of a start.
        check: Raises a UsageError for options of a run that do not go together.
    """

    def make(run: CommandFunction) -> Command:
        @wraps(run)
        def run_with_options(options: argparse.Namespace) -> int | None:
            options = options_of_run(options, *needed(options))
            check(options)
            return run(options)

        return command(example, add)(run_with_options)

    return make


def options_of_run(options: argparse.Namespace, *needed: str) -> argparse.Namespace:
    """The options of this start. To resume, the options of the run are the defaults.

    Args:
        options: Of this start.
        needed: Options that a run cannot do without.

    Raises:
        UsageError: The folder holds a run of another command, an option that is needed is missing,
            or this computer does not have the device.
        ValueError: The file of the options is damaged.
    """
    folder = Path(options.output)
    resume = options.resume
    if not resume and int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0):
        from minibert.training.state import saved_states

        resume = bool(saved_states(folder))  # torchrun has restarted the processes of a run
    run = read_run(folder) if resume else {}
    if run:
        if run["command"] != _command_of(options):
            raise UsageError(
                f"{folder} holds a run of minibert {run['command']}: resume it by minibert "
                f"{run['command'].split()[0]} --resume --output {folder}"
            )
        options.parser.set_defaults(**run["options"])
        options = options.root_parser.parse_command_line(options.arguments)
    options.resume = resume
    missing = [
        f"{flag} ({_noun(action.help)})"
        for flag, action in options.parser.options_by_name().items()
        if action.dest in needed and not getattr(options, action.dest)
    ]
    if missing:
        advice = f"give {' and '.join(missing)}"
        if resume:
            raise UsageError(f"{folder} holds no run to resume: {advice} to start one.")
        if (folder / RUN_FILE).is_file():
            advice += f", or resume the run in {folder} by --resume"
        raise UsageError(f"{advice}.")
    if options.device not in (None, "cpu"):  # every computer has a CPU
        check_device(options.device)
    return options


def _command_of(options: argparse.Namespace) -> str:
    """The command with its task, such as "finetune pairs"."""
    command: str = options.parser.prog.removeprefix("minibert ")
    return command


def _noun(description: str | None) -> str:
    """What a help text says first: "Training file." as "training file"."""
    first = re.split(r"[.,]( |$)", description or "")[0]
    return first[:1].lower() + first[1:]


def read_run(folder: Path) -> dict[str, Any]:
    """The command of the run in a folder and its options, or nothing where there is no run.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        return {}
    content: dict[str, Any] = read_json(path)
    if not isinstance(content.get("command"), str) or not isinstance(content.get("options"), dict):
        raise ValueError(f"{path} is damaged: delete it, and give all options.")
    return content


@contextmanager
def keep_options(options: argparse.Namespace) -> Iterator[RunFolder]:
    """Write the options of a run into its folder and lock the folder until the block ends.

    `options_of_run` reads them. A run that ends before it has written anything else leaves nothing.

    Yields:
        The folder, for the function that trains.

    Raises:
        UsageError: The folder holds something else.
        ValueError: Another run is there.
        OSError: Another process works there, and its options stay.
    """
    from minibert.training.state import holds_run, run_folder, saved_states

    command = _command_of(options)
    folder = Path(options.output)
    existed = folder.exists()
    path = folder / RUN_FILE
    before = path.read_bytes() if path.is_file() else None
    states = saved_states(folder)
    is_first = place().rank == 0
    has_run = holds_run(folder) or before is not None
    if is_first and not options.resume and not has_run:
        claim_folder(options.output, options.force)
    kept = {
        action.dest: getattr(options, action.dest)
        for action in options.parser.arguments()
        if action.dest not in OF_A_START
    }
    try:
        with run_folder(folder, bool(options.resume)) as opened:
            if is_first:
                write_json(path, {"command": command, "options": kept})
                if options.device is None:
                    from minibert.util.devices import default_training_device

                    logger.info("training on %s.", default_training_device())
            yield opened
    except BaseException as error:
        is_stopped = isinstance(error, KeyboardInterrupt)
        if is_first and before is not None and saved_states(folder) == states:
            path.write_bytes(before)  # a start that was refused changes no options
        elif is_first and not has_run:
            # ids of a corpus are of use to the same command, but not after an error
            removable = {RUN_FILE} if is_stopped else {RUN_FILE, "tokens"}
            with suppress(OSError):
                if {entry.name for entry in folder.iterdir()} <= removable:
                    path.unlink()
                    shutil.rmtree(folder / "tokens", ignore_errors=True)
                if not existed:
                    folder.rmdir()  # fails where something else was written
        if is_stopped and not str(error):
            if saved_states(folder):
                error.args = ("stopped: --resume continues from the last step that is saved.",)
            elif not holds_run(folder):
                error.args = (
                    "stopped: no step of the training is saved. Run the same command to start "
                    "again.",
                )
        raise
