"""What a model has learned from, so that a training that continues it can say what it knows.

    learned = Learned.of("out/labels")
    learned.count(task, dev_rows)  # how many of them the model was trained on

`finetune` keeps a digest of the texts of each training row beside the states of the run. They are
read where the model is trained further: its scores on rows that it has learned from are too good.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from minibert.checkpoints.source import Source
from minibert.tasks.task import Task
from minibert.text import Row
from minibert.training.state import STATES
from minibert.util.files import replacing

LEARNED = f"{STATES}/learned.npy"

Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Learned:
    """The rows that a model was trained on.

    Attributes:
        digests: Of the texts of each row, (rows,), sorted.
    """

    digests: Digests = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    @classmethod
    def of(cls, checkpoint: str | os.PathLike[str] | Source) -> Learned:
        """The rows of a model, or none where its folder does not say."""
        folder = Source.of(checkpoint).folder
        return cls() if folder is None else cls(_read(folder))

    def count(self, task: Task, rows: Sequence[Row]) -> int:
        """How many of the rows are among them."""
        return int(np.isin(_digests(task, rows), self.digests).sum())

    def with_rows(self, task: Task, rows: Sequence[Row]) -> Learned:
        """These rows and others."""
        return Learned(np.union1d(self.digests, _digests(task, rows)))

    def save(self, folder: Path) -> None:
        """Add them to those of the run in a folder, beside its states, if it keeps states."""
        path = folder / LEARNED
        if not path.parent.is_dir():
            return
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.save(file, np.union1d(self.digests, _read(folder)))


def _read(folder: Path) -> Digests:
    """The digests in a folder, or none where it has no such file."""
    with suppress(OSError, ValueError, EOFError):
        digests: Digests = np.load(folder / LEARNED, allow_pickle=False).astype(np.uint64)
        return digests
    return np.zeros(0, dtype=np.uint64)


def _digests(task: Task, rows: Sequence[Row]) -> Digests:
    """A digest of the texts of each row, (rows,)."""
    digests = [
        blake2b("\0".join(task.texts_of(row)).encode("utf-8", "surrogatepass"), digest_size=8)
        for row in rows
    ]
    return np.array([int.from_bytes(one.digest(), "little") for one in digests], dtype=np.uint64)
