"""Report on a run.

There is a log for programs, a bar or an occasional line for people, and TensorBoard.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from minibert.util.files import json_text
from minibert.util.progress import Progress, is_watched, tell

Record = dict[str, Any]
"""A line of the log: a step with what it measured, or the scores of an evaluation."""


@contextmanager
def journal(
    log: Path | None,
    steps: int,
    done: int,
    tensorboard: bool,
    callback: Callable[[Record], object] | None,
) -> Iterator[Callable[[Record], None]]:
    """Open the reports of a run.

    Args:
        log: File for the records, a JSON object a line. None: nothing is reported.
        steps: Number of steps of the run.
        done: Number of steps before this start.
        tensorboard: Write the records for TensorBoard, too.
        callback: Called with each record. An error that it raises ends the run.

    Yields:
        A function that reports a record.
    """
    if log is None:
        yield lambda record: None
        return
    writer: Any = nullcontext()
    if tensorboard:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(log.parent))
    start = time.perf_counter()

    def report(record: Record) -> None:
        is_step = "tokens" in record
        if is_step:
            seconds_per_step = (time.perf_counter() - start) / (record["step"] - done)
            record["seconds_left"] = round((steps - record["step"]) * seconds_per_step)
            record["memory_mb"] = peak_memory() >> 20
        with log.open("a", encoding="utf-8") as file:
            file.write(json_text(record) + "\n")
        if tensorboard:
            for name, value in record.items():
                writer.add_scalar(name, value, record["step"])
        if callback is not None:
            callback(record)
        if is_step:
            progress.add(1, record["tokens"], loss=f"{record['loss']:.4f}")
        else:
            shown = ", ".join(
                f"{name} {value:.4g}"
                for name, value in record.items()
                if name not in ("step", "epoch")
            )
            tell(f"step {record['step']:,}: {shown}")

    with writer, Progress(is_watched(), steps, "steps", done) as progress:
        yield report


def peak_memory() -> int:
    """Return the peak memory of this process in bytes.

    It is that of the GPU where the process has one, else of all memory.
    """
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    return peak << 10
