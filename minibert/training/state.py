"""What a run leaves in its folder, and whether it is undamaged: the state to resume from, and the log."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

STATE_FILE = "state.pt"
PREVIOUS_STATE_FILE = "state-previous.pt"
LOG_FILE = "log.jsonl"
# where in the data a state was saved, and how good the model was until then
POSITION = ("step", "epoch", "batch_in_epoch", "best", "evaluations_since_best")


def check_new(folder: str | os.PathLike[str]) -> None:
    """ValueError when there is a run in the folder already."""
    if Path(folder, STATE_FILE).exists():
        raise ValueError(f"{folder} already holds a run: pass --resume to go on, or choose another folder.")


def keep_previous(folder: Path) -> None:
    """Gives the state a second name, under which it stays when the next one takes its place."""
    with suppress(OSError):  # there is none yet, or the file system has no hard links
        (folder / PREVIOUS_STATE_FILE).unlink(missing_ok=True)
        os.link(folder / STATE_FILE, folder / PREVIOUS_STATE_FILE)


def check_parts(path: Path) -> None:
    """Compares a file of torch.save, a zip file, with the checksums in it, which torch.load does not look at.

    Raises:
        ValueError: a part is not as it was written.
        zipfile.BadZipFile: not a complete zip file.
    """
    with zipfile.ZipFile(path) as file:
        if broken := file.testzip():
            raise ValueError(f"the checksum of its part {broken} does not match")


def read_state(path: Path) -> dict[str, Any]:
    """A saved state.

    Raises:
        ValueError: the file has been damaged or changed since it was written.
    """
    try:
        check_parts(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        position = state["position"]
        places = [position[name] for name in ("step", "epoch", "batch_in_epoch", "evaluations_since_best")]
        whole = {"model", "about", "schedule", "random"} <= state.keys() and set(position) == set(POSITION)
        whole = whole and isinstance(state["about"], dict)
        if whole and isinstance(position["best"], float) and all(type(x) is int and x >= 0 for x in places):
            return dict(state)
        error: Exception = ValueError("something in it is missing or of another kind")
    except OSError as damage:
        if damage.errno != errno.EINVAL:  # a part that begins before the file does
            raise
        error = damage
    except Exception as damage:  # a damaged file gives errors of every kind
        error = damage
    advice = "put a copy of it back, or start anew in another folder."
    if path.with_name(PREVIOUS_STATE_FILE).exists():
        advice = f"rename {PREVIOUS_STATE_FILE} beside it to {path.name}, and --resume goes on from the state before."
    raise ValueError(f"{path} is damaged ({first_line(error)}): {advice}") from error


def first_line(error: Exception) -> str:
    """The beginning of what an error says, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0][:100]


def logged_step(line: bytes) -> int | None:
    """The step that a line of the log tells of; None for a damaged line."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if type(step) is int else None


def stamp(folder: Path) -> tuple[int, int] | None:
    """Which state is in the folder, if any."""
    try:
        status = (folder / STATE_FILE).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
