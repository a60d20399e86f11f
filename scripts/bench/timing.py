"""Fair timing on a shared machine: everything in one process, taking turns, medians and ratios."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# where sst2/, stsb/, korsts/ and the others lie
DATA = Path(
    os.environ.get("MINIBERT_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
PAUSE = 0.1  # seconds


def interleaved(
    work: Mapping[str, Callable[[], Any]], repeats: int, warmup: int = 1
) -> dict[str, list[float]]:
    """Seconds of each piece of work, one after the other in every round, so that a slow moment hits all of them.

    Every round begins with another one, after a pause in which the threads of the one before stop waiting for work.

    Args:
        work: what to time, by name.
        repeats: rounds that count.
        warmup: rounds before them that do not.
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


def row(
    work: str, ours: list[float], peer: str, theirs: list[float], target: float | None, **more: Any
) -> dict[str, Any]:
    """One line of the report.

    Args:
        work: what was done.
        ours: our seconds, round by round.
        peer: whom it is compared with.
        theirs: the peer's seconds in the same rounds.
        target: the ratio that is wanted at least, if any.
        more: anything else worth keeping, such as an error.

    Returns:
        Medians, and the median of the ratios round by round (above 1: we are faster).
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
