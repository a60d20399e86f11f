"""Read and verify the files that a run leaves in its folder.

These are the checkpoint of a run, from which it is resumed, and the log.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import torch

from minibert.base import PreTrainedModel
from minibert.files import remove_abandoned, replacing

LOG_FILE = "log.jsonl"
# the place in the data at which a state was saved, and how good the model was until then
POSITION = ("best", "step", "epoch", "batch_in_epoch", "evaluations_since_best")


def saved_states(folder: str | os.PathLike[str]) -> list[Path]:
    """The states of a run, by the step after which each was saved."""
    return sorted(Path(folder).glob(f"state-{'[0-9]' * 9}.pt"))


def check_new(folder: str | os.PathLike[str]) -> None:
    """ValueError when there is a run in the folder already."""
    if saved_states(folder) or Path(folder, LOG_FILE).exists():
        raise ValueError(
            f"{folder} already holds a run: pass --resume to go on, or choose another folder."
        )


def write_state(folder: Path, state: dict[str, Any], keep: int) -> None:
    """Writes a state atomically, and then removes all but the last `keep`.

    Raises:
        OSError: it could not be written whole; the state before stays what it was.
    """
    path = folder / f"state-{state['position']['step']:09}.pt"
    try:
        for leftover in folder.glob(
            ".state-*.tmp"
        ):  # of a writer that was killed, perhaps in another step
            remove_abandoned(leftover)
        with replacing(path) as temporary:
            torch.save(state, temporary)
            check_parts(temporary)
    except (
        OSError,
        RuntimeError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:  # a full disk is each of these
        raise OSError(
            f"{path} cannot be written; is the disk full? The state before is whole."
        ) from error
    remove_states(folder, keep)


def remove_states(folder: str | os.PathLike[str], keep: int) -> None:
    """Removes the states of a run, all but the last `keep`."""
    states = saved_states(folder)
    for path in states[: max(0, len(states) - keep)]:
        path.unlink()


def check_room(folder: Path, state_bytes: int, keep: int) -> None:
    """Raise OSError when the disk lacks space for the states of a run.

    The state that is being written counts, too.
    """
    there = sum(path.stat().st_size for path in saved_states(folder))
    needed, free = (keep + 1) * state_bytes - there, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"The states of this run need {needed >> 20:,} MB in {folder}, "
            f"where {free >> 20:,} MB are free: "
            "make room, or give another folder."
        )


def check_parts(path: Path) -> None:
    """Compare a file of torch.save with its checksums.

    The file is a zip file, and torch.load does not verify them.

    Raises:
        ValueError: a part is not as it was written.
        zipfile.BadZipFile: not a complete zip file.
    """
    with zipfile.ZipFile(path) as file:
        if any(part.compress_type != zipfile.ZIP_STORED for part in file.infolist()):
            raise ValueError("it is compressed, as torch never writes it")
        broken = file.testzip()
        if broken:
            raise ValueError(f"the checksum of its part {broken} does not match")


def read_state(path: Path) -> dict[str, Any]:
    """A saved state.

    Raises:
        ValueError: the file has been damaged or changed since it was written.
    """
    try:
        check_parts(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        best, *places = (state["position"][name] for name in POSITION)
        if not {"model", "random"} <= state.keys() or not isinstance(state["about"], dict):
            raise ValueError("something in it is missing or of another kind")
        if not isinstance(best, float) or any(
            type(place) is not int or place < 0 for place in places
        ):
            raise ValueError(f"it is of no place in the data: {state['position']}")
        return dict(state)
    except Exception as error:  # a damaged file gives errors of every kind
        if (
            isinstance(error, OSError) and error.errno != errno.EINVAL
        ):  # EINVAL: a part begins before the file does
            raise
        advice = "put a copy of it back, or start anew in another folder."
        if len(saved_states(path.parent)) > 1:
            advice = "delete it, and --resume goes on from the state before."
        raise ValueError(f"{path} is damaged ({first_line(error)}): {advice}") from error


def training_state(model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The weights of a model and the moments of its optimizer, by the names of the parameters.

    By name, because a run may be resumed with other layers frozen, and then the optimizer groups
    its parameters differently. Tied weights are stored once.
    """
    weights = model.state_dict()
    for alias, name in model.tied_weights().items():
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
    """Restores what `training_state` returned.

    Raises:
        ValueError: a moment has another shape than its parameter.
        RuntimeError: the weights are of another model.
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
    """The beginning of what an error says, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0][:100]


def cut_log(path: Path, step: int) -> None:
    """Removes what was logged after a step, as later steps are repeated, and a half-written line.

    Raises:
        ValueError: another line than the last one is damaged.
    """
    if not path.is_file():
        return
    lines = path.read_bytes().splitlines()
    kept = []
    for number, line in enumerate(lines, 1):
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            if number < len(lines):  # the last one may be half-written
                advice = "repair or delete it, then start with --resume again."
                raise ValueError(f"{path}, line {number} is damaged: {advice}") from None
    with replacing(path) as temporary:
        temporary.write_bytes(b"".join(line + b"\n" for line in kept))
