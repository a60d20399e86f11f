"""What the sections share: fair timing on a shared machine, by turns, and the memory of a model."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# folder of sst2/, stsb/, korsts/ and the other data sets
DATA = Path(
    os.environ.get("MINIBERT_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
PAUSE = 0.1  # seconds


def interleaved(
    work: Mapping[str, Callable[[], Any]], repeats: int, warmup: int = 1
) -> dict[str, list[float]]:
    """Times each candidate once in every round, so that a slow moment of the machine hits all.

    Each round begins with a different candidate. The pause between two candidates lets the
    threads of the first one go to sleep.

    Args:
        work: Functions to time, by name.
        repeats: Number of rounds that are measured.
        warmup: Number of rounds before them that are not measured.

    Returns:
        Seconds of each round, by name.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    names = list(work)
    for turn in range(warmup + repeats):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            time.sleep(PAUSE)
            start = time.perf_counter()
            work[name]()
            if turn >= warmup:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def added_memory(folder: str, precision: str) -> float:
    """Returns the resident MB that a checkpoint adds to a process of its own (Linux).

    Args:
        folder: The checkpoint.
        precision: That of `optimize`, or "exact" for the model as it is loaded.
    """
    program = Path(__file__).with_name("memory_of_optimized.py")
    command = [sys.executable, str(program), folder, precision]
    return float(subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout)


def row(
    work: str, ours: list[float], peer: str, theirs: list[float], target: float | None, **more: Any
) -> dict[str, Any]:
    """Builds one row of the report.

    Args:
        work: Description of the work.
        ours: Seconds of minibert in each round.
        peer: Name of the peer.
        theirs: Seconds of the peer in the same rounds.
        target: Lowest acceptable ratio, or None.
        more: Other measurements, such as an error.

    Returns:
        Medians, and the median of the ratios of all rounds. Above 1, minibert is faster.
    """
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    return {
        "work": work,
        "ours_ms": statistics.median(ours) * 1e3,
        "peer": peer,
        "peer_ms": statistics.median(theirs) * 1e3,
        "ratio": ratio,
        "target": target,
        **more,
    }
