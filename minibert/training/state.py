"""The folder of a run: its lock, the states from which it is resumed, and its log.

A state holds the weights, the moments of the optimizer, the random number generators and the
position in the data. It is written atomically and verified when it is read.
"""

from __future__ import annotations

import errno
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from minibert.base import PreTrainedModel
from minibert.checkpoints.ties import shared_names
from minibert.training.processes import is_first_process
from minibert.util.errors import Argument, Message
from minibert.util.files import NOT_WRITTEN, only_run_in, remove_abandoned, replacing

LOG_FILE = "log.jsonl"
RESUME = Argument("resume", True)  # of messages
STATES = "states"  # a folder beside the files of the model, which may be uploaded without it
# The position in the data at which a state was saved.
POSITION = ("step", "epoch", "batch_in_epoch", "evaluations_since_best")


@dataclass(frozen=True)
class RunFolder(os.PathLike[str]):
    """The folder of a run, opened by `run_folder`: nobody else works there meanwhile.

    It is passed on in place of the path: by a command to `pretrain` or `finetune`, by these to
    `Run.train`. So a folder is locked before the data is read, and once.

    Attributes:
        path: The folder.
    """

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


@contextmanager
def run_folder(folder: str | os.PathLike[str], resume: bool) -> Iterator[RunFolder]:
    """Lock the folder of a run until the block ends, and check that the run may use it.

    Args:
        folder: The folder. It is created if it does not exist. One that is open is yielded as it
            is.
        resume: The run continues one that is in the folder.

    Raises:
        ValueError: The folder holds a run, and `resume` is False.
        OSError: Another process trains in the folder.
    """
    if isinstance(folder, RunFolder):
        yield folder
        return
    path = Path(folder)
    with only_run_in(path) if is_first_process() else nullcontext():
        if not resume and holds_run(path):
            raise ValueError(
                Message(
                    f"{path} already holds a run: pass ",
                    RESUME,
                    " to continue it, or choose another folder.",
                )
            )
        yield RunFolder(path)


def holds_run(folder: str | os.PathLike[str]) -> bool:
    """Whether a run has left a state or a log in the folder."""
    return bool(saved_states(folder)) or Path(folder, LOG_FILE).exists()


def saved_states(folder: str | os.PathLike[str]) -> list[Path]:
    """The states of a run, ordered by the step after which each was saved."""
    return sorted(Path(folder, STATES).glob(f"state-{'[0-9]' * 9}.pt"))


def write_state(folder: Path, state: dict[str, Any], keep: int) -> None:
    """Write a state atomically, then remove all but the last `keep` states.

    Raises:
        OSError: The state cannot be written. The previous state is not touched.
    """
    path = folder / STATES / f"state-{state['position']['step']:09}.pt"
    try:
        path.parent.mkdir(exist_ok=True)
        # a writer that was killed may have left one, perhaps in another step
        for leftover in path.parent.glob(".state-*.tmp"):
            remove_abandoned(leftover)
        with replacing(path) as temporary:
            torch.save(state, temporary)
            check_sums(temporary)
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile) as error:
        # a full disk raises each of these
        reason, remedy = "is the disk full?", "make room"
        origin = error.__cause__ if isinstance(error.__cause__, OSError) else error
        if isinstance(origin, OSError) and origin.errno not in NOT_WRITTEN:
            reason, remedy = origin.strerror or str(origin), "correct that"
        advice = f"{remedy.capitalize()}, then run it again."
        if saved_states(folder):
            advice = f"The previous state is intact: {remedy}, then resume."
        raise OSError(f"{path} cannot be written ({reason}). {advice}") from error
    remove_states(folder, keep)


def remove_states(folder: str | os.PathLike[str], keep: int) -> None:
    """Remove all but the last `keep` states of a run."""
    states = saved_states(folder)
    for path in states[: max(0, len(states) - keep)]:
        path.unlink()
    if not keep:
        with suppress(OSError):  # it does not exist, or holds something else
            Path(folder, STATES).rmdir()


def check_sums(path: Path) -> None:
    """Compare the parts of a file of torch.save with their checksums.

    The file is a zip file, whose checksums torch.load does not verify.

    Raises:
        ValueError: A part differs from what was written.
        zipfile.BadZipFile: The file is not a complete zip file.
    """
    with zipfile.ZipFile(path) as file:
        if any(part.compress_type != zipfile.ZIP_STORED for part in file.infolist()):
            raise ValueError("it is compressed, as torch never writes it")
        broken = file.testzip()
        if broken:
            raise ValueError(f"the checksum of its part {broken} does not match")


def read_state(path: Path) -> dict[str, Any]:
    """Read and verify a state.

    Raises:
        ValueError: The file has been damaged or changed since it was written.
    """
    try:
        check_sums(path)
        state = dict(torch.load(path, map_location="cpu", weights_only=True))
        is_complete = {"model", "random", "metric"} <= state.keys()
        dicts = (state["about"], state["best_scores"])
        if not is_complete or not all(isinstance(entry, dict) for entry in dicts):
            raise ValueError("an entry is missing or has another type")
        counts = [state["position"][name] for name in POSITION]
        if not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError(f"it has an invalid position: {state['position']}")
        return state
    except Exception as error:  # a damaged file raises errors of every kind
        # a file whose parts seem to begin before it does raises an OSError with EINVAL
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        advice = Message("put a copy of it back, or start anew in another folder.")
        if len(saved_states(path.parent.parent)) > 1:
            advice = Message("delete it, and ", RESUME, " continues from the previous state.")
        raise ValueError(Message(f"{path} is damaged ({first_line(error)}): ", advice)) from error


def training_state(model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The weights of a model and the moments of its optimizer, by the names of the parameters.

    By name, because a run may be resumed with other layers frozen, and then the optimizer groups
    its parameters differently. Tied weights are stored once.
    """
    weights = model.state_dict()
    for alias, name in shared_names(model).items():
        weights[alias] = weights[name]
    moments = {
        name: optimizer.state[parameter]
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }
    return {"model": weights, "optimizer": moments}


def load_training_state(
    state: dict[str, Any], model: PreTrainedModel, optimizer: torch.optim.Optimizer
) -> None:
    """Restore what `training_state` returned.

    Raises:
        ValueError: A moment and its parameter have different shapes.
        RuntimeError: The weights are those of another model.
    """
    model.load_state_dict(state["model"])
    parameters = dict(model.named_parameters())
    for name, moments in state["optimizer"].items():
        parameter = parameters[name]
        for key, moment in moments.items():
            if key != "step" and moment.shape != parameter.shape:
                raise ValueError(
                    f"{key} of {name} has shape {tuple(moment.shape)}, not {tuple(parameter.shape)}"
                )
        optimizer.state[parameter] = {
            key: moment.to(parameter.device) for key, moment in moments.items()
        }


def first_line(error: Exception) -> str:
    """The first line of an error's message, or the name of its class if it has none."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:100]


def cut_log(path: Path, step: int) -> None:
    """Remove the records after a step, which will be repeated, and a half-written last line.

    Raises:
        ValueError: A line before the last one is damaged.
    """
    if not path.is_file():
        return
    lines = path.read_bytes().splitlines()
    records = []
    for number, line in enumerate(lines, 1):
        try:
            if json.loads(line)["step"] <= step:
                records.append(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            if number < len(lines):  # the last one may be half-written
                raise ValueError(
                    Message(
                        f"{path}, line {number} is damaged: repair or delete it, then start with ",
                        RESUME,
                        " again.",
                    )
                ) from None
    with replacing(path) as temporary:
        temporary.write_bytes(b"".join(line + b"\n" for line in records))
