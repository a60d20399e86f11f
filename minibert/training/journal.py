"""The reports of a run: a log for programs, a bar or an occasional line for people, and TensorBoard."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from minibert.progress import Progress, is_watched

Record = dict[str, Any]
"""A line of the log: a step with what it measured, or the scores of an evaluation."""


class Journal(AbstractContextManager["Journal"]):
    """Passes every record of a run on; a context that ends with the run.

    Args:
        log: the file to which records are added, a JSON object a line.
        steps: of the whole run.
        done: steps that were made before.
        tensorboard: write the records for TensorBoard, too.
        callback: called with each record; what it raises ends the run.
    """

    def __init__(
        self,
        log: Path,
        steps: int,
        done: int = 0,
        *,
        tensorboard: bool = False,
        callback: Callable[[Record], object] | None = None,
    ) -> None:
        self.log, self.steps, self.callback = log, steps, callback
        self._writer: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(log.parent))
        self._start, self._before = time.perf_counter(), done
        self._progress = Progress(is_watched(), steps, "steps", done)

    def step(self, record: Record) -> None:
        """Adds a step, with the seconds that are left and the memory that was needed so far."""
        rest = (self.steps - record["step"]) / (record["step"] - self._before)
        record |= {"seconds_left": round(rest * (time.perf_counter() - self._start)), "memory_mb": peak_memory() >> 20}
        self.write(record)
        self._progress.add(1, record["tokens"], loss=f"{record['loss']:.4f}")

    def scores(self, record: Record) -> None:
        """Adds the scores of an evaluation, and shows them to people."""
        self.write(record)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in record.items() if name not in ("step", "epoch"))
        print(f"step {record['step']:,}: {shown}", file=sys.stderr, flush=True)

    def write(self, record: Record) -> None:
        """Adds a record to the log, to TensorBoard, and gives it to the callback."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        if self._writer is not None:
            for name, value in record.items():
                self._writer.add_scalar(name, value, record["step"])
        if self.callback is not None:
            self.callback(record)

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__()
        if self._writer is not None:
            self._writer.close()


def peak_memory() -> int:
    """The most memory that this process has held, in bytes: on the GPU where it has one, else in all."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
