"""Ids of a corpus that occur in more than one row, found in little memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

logger = logging.getLogger("minibert")

T = TypeVar("T")

CHECKED_ROWS = 1024  # ids that are compared at a time
# an id takes 8 bytes, so this many take 128 MB. Rows after them are only compared with these
MAX_REMEMBERED = 1 << 24


class RepeatedIds:
    """Counts rows whose id an earlier row has.

    Attributes:
        rows: Rows that were added.
        repeated: Rows among them whose id an earlier row has.
        example: The first id that is repeated.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.repeated = 0
        self.example: Any = None
        self._hashes = np.empty(0, np.int64)  # sorted, each once

    def add(self, ids: Sequence[Any]) -> None:
        """Compare the ids of the next rows with those before; 1 and "1" are different ids."""
        hashes = np.array([hash(repr(row_id)) for row_id in ids], dtype=np.int64)
        distinct, first_rows = np.unique(hashes, return_index=True)
        places = np.searchsorted(self._hashes, distinct)
        is_known = np.zeros(len(distinct), dtype=bool)
        inside = places < len(self._hashes)
        is_known[inside] = self._hashes[places[inside]] == distinct[inside]
        is_repeated = np.ones(len(ids), dtype=bool)
        is_repeated[first_rows[~is_known]] = False
        if is_repeated.any() and not self.repeated:
            self.example = ids[int(is_repeated.argmax())]
        self.rows += len(ids)
        self.repeated += int(is_repeated.sum())
        if len(self._hashes) < MAX_REMEMBERED:
            self._hashes = np.insert(self._hashes, places[~is_known], distinct[~is_known])

    def __str__(self) -> str:
        """A sentence about the ids that are repeated."""
        have = "has" if self.repeated == 1 else "have"
        return (
            f"{self.repeated:,} of {self.rows:,} rows {have} the id of an earlier row, such as "
            f"{self.example!r:.80}: each row has its own result, but a store that is keyed by id "
            "keeps one of them."
        )


def with_checked_ids(items: Iterable[T], id_of: Callable[[T], Any]) -> Iterator[T]:
    """Yield the items of a corpus, and then warn of ids that are repeated."""
    ids = RepeatedIds()
    waiting: list[Any] = []
    for item in items:
        yield item
        waiting.append(id_of(item))
        if len(waiting) == CHECKED_ROWS:
            ids.add(waiting)
            waiting = []
    ids.add(waiting)
    if ids.repeated:
        logger.warning("%s", ids)
