"""Further content of a page: a run of pre-training, and the article in ten scenes."""

import json
import lzma
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from minibert.page.build import PARTS, load, part
from minibert.page.live import embed

FIRST_TEXT = "The cat was sleeping on the mat."
PROMPT = "I have a [MASK]."
POINTS = 200  # of the curve of losses
_WEIGHTS = ("floats", "whole")


def snapshots(run: str | os.PathLike[str]) -> list[Path]:
    """The snapshots that `minibert pretrain --checkpoints` has kept of a run, the first one first.

    Raises:
        FileNotFoundError: there are none.
    """
    found = sorted(Path(run, "checkpoints").glob("step-*"))
    if not found:
        raise FileNotFoundError(
            f"{os.fspath(run)} holds no snapshots: minibert pretrain --checkpoints N keeps them."
        )
    return found


def read_run(run: str | os.PathLike[str], largest: int = 127) -> dict[str, Any]:
    """The run of pre-training in a folder, ready for JSON; `largest` as in `embed`.

    Returns:
        What `embed` gives: of each snapshot its weights in `snapshots`, and the rest once; `steps`,
        the step of each snapshot; and `log`, the loss over the steps.

    Raises:
        FileNotFoundError: no snapshots, or no log.
    """
    found = snapshots(run)
    contents = [embed(*load(path), largest) for path in found]
    records = [
        json.loads(line) for line in Path(run, "log.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    logged = [(record["step"], record["loss"]) for record in records if "loss" in record]
    # most is learned early, so each point is the mean of more steps than the one before
    ends = sorted({round(end) for end in np.geomspace(1, max(len(logged), 1), POINTS)})
    parts = [logged[start:end] for start, end in pairwise([0, *ends])]
    return {
        **{name: value for name, value in contents[-1].items() if name not in _WEIGHTS},
        "snapshots": [{name: content[name] for name in _WEIGHTS} for content in contents],
        "steps": [int(path.name.removeprefix("step-")) for path in found],
        "log": [np.mean(part, axis=0).round(3).tolist() for part in parts if part],
        "folder": os.fspath(run),
    }


def article() -> dict[str, Any]:
    """Return what the article adds to a page of `FIRST_TEXT`: texts, sentences, a bundled run."""
    return {
        "lesson": {
            "texts": json.loads(part("lesson.json")),
            "sentences": part("sentences.txt").splitlines(),
        },
        "run": json.loads(lzma.decompress((PARTS / "run.json.xz").read_bytes())),
    }
