"""The files that a run leaves in its folder, checked for damage: the state to resume from, and the log."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from minibert.files import replacing

STATE_FILE = "state.pt"
PREVIOUS_STATE_FILE = "state-previous.pt"
LOG_FILE = "log.jsonl"
# the place in the data at which a state was saved, and how good the model was until then
POSITION = ("step", "epoch", "batch_in_epoch", "best", "evaluations_since_best")


def check_new(folder: str | os.PathLike[str]) -> None:
    """ValueError when there is a run in the folder already."""
    if Path(folder, STATE_FILE).exists() or Path(folder, LOG_FILE).exists():
        raise ValueError(f"{folder} already holds a run: pass --resume to go on, or choose another folder.")


def write_state(folder: Path, state: dict[str, Any], keep: int) -> None:
    """Writes a state atomically; the states before it move on by one name, and the last `keep` of all are kept.

    Raises:
        OSError: it could not be written whole; the state before stays what it was.
    """
    path = folder / STATE_FILE
    try:
        with replacing(path) as temporary:
            torch.save(state, temporary)
            check_parts(temporary)  # the state before is kept until the new one is there and whole
            for newer, older in reversed(list(pairwise(state_files(folder, keep)))):
                with suppress(OSError):  # there are fewer yet, or the file system has no hard links
                    older.unlink(missing_ok=True)
                    os.link(newer, older)
    except (OSError, RuntimeError, ValueError, zipfile.BadZipFile) as error:  # a full disk is each of these
        raise OSError(f"{path} cannot be written; is the disk full? The state before is whole.") from error


def state_files(folder: Path, count: int) -> list[Path]:
    """Where the last states lie, the newest first."""
    names = [STATE_FILE, PREVIOUS_STATE_FILE, *(f"state-previous-{number}.pt" for number in range(2, count))]
    return [folder / name for name in names[:count]]


def remove_states(folder: Path, keep: int) -> None:
    """Removes the states of a run that has ended, all but the last `keep`."""
    for path in set(folder.glob("state*.pt")) - set(state_files(folder, keep)):
        path.unlink()


def check_room(folder: Path, state_bytes: int, keep: int) -> None:
    """OSError when the disk has no room for the states of a run and the one that is being written."""
    there = sum(path.stat().st_size for path in folder.glob("state*.pt"))
    needed, free = (keep + 1) * state_bytes - there, shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"The states of this run need {needed >> 20:,} MB in {folder}, where {free >> 20:,} MB are free: make "
            "room, or give another folder."
        )


def check_parts(path: Path) -> None:
    """Compares a file of torch.save, a zip file, with the checksums in it, which torch.load does not look at.

    Raises:
        ValueError: a part is not as it was written.
        zipfile.BadZipFile: not a complete zip file.
    """
    with zipfile.ZipFile(path) as file:
        if any(part.compress_type != zipfile.ZIP_STORED for part in file.infolist()):
            raise ValueError("it is compressed, as torch never writes it")
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
        whole = {"model", "about", "random"} <= state.keys() and set(position) == set(POSITION)
        whole = whole and isinstance(state["about"], dict)
        if whole and isinstance(position["best"], float) and all(type(x) is int and x >= 0 for x in places):
            return dict(state)
        raise ValueError("something in it is missing or of another kind")
    except Exception as error:  # a damaged file gives errors of every kind
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # EINVAL: a part begins before the file does
            raise
        advice = "put a copy of it back, or start anew in another folder."
        if path.with_name(PREVIOUS_STATE_FILE).exists():
            advice = (
                f"rename {PREVIOUS_STATE_FILE} beside it to {path.name}, and --resume goes on from the state before."
            )
        raise ValueError(f"{path} is damaged ({first_line(error)}): {advice}") from error


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
    lines, kept = path.read_bytes().splitlines(), []
    for number, line in enumerate(lines, 1):
        try:
            kept += [line] if json.loads(line)["step"] <= step else []
        except (ValueError, KeyError, TypeError, RecursionError):
            if number < len(lines):  # the last one may be half-written
                advice = "repair or delete it, then start with --resume again."
                raise ValueError(f"{path}, line {number} is damaged: {advice}") from None
    with replacing(path) as temporary:
        temporary.write_bytes(b"".join(line + b"\n" for line in kept))


def stamp(folder: Path) -> tuple[int, int] | None:
    """Identifies the state in the folder; None without one."""
    try:
        status = (folder / STATE_FILE).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
