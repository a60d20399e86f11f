"""Updating a folder of vectors: unchanged texts keep their vectors, the others are computed.

The new folder is written next to the old one and takes its place in one step. So a run that is
killed leaves the old folder as it was, and the next run keeps the vectors that it had computed.
"""

from __future__ import annotations

import base64
import ctypes
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minibert.corpus.formats import ShardedVectors
from minibert.corpus.location import Location
from minibert.corpus.records import DIGEST_BYTES, metadata, read_record, text_digest
from minibert.encoders.token_rows import Vectors

_AT_CWD = -100  # fcntl.h
_RENAME_EXCHANGE = 2  # linux/fs.h


class KeptVectors:
    """The vectors of earlier folders, by text.

    Args:
        folders: Folders of shards that were made with the same model and settings. Of an unfinished
            one its finished shards count.
        file_format: Format of the shards.
        dimension: Dimension of the vectors.
    """

    def __init__(self, folders: Sequence[Path], file_format: str, dimension: int) -> None:
        shards: list[Path] = []
        lines: list[int] = []
        digests = b""
        for folder in folders:
            for shard in sorted(folder.glob(f"shard-*.{file_format}")):
                name = f"{shard.stem}.json"
                record = read_record(metadata(Location(folder), name, file_format))
                if record is None or "texts" not in record:
                    continue
                if shard.stat().st_size != record["bytes"]:
                    continue
                shards.append(shard)
                lines.append(record["lines"])
                digests += base64.b64decode(record["texts"])
        keys: NDArray[Any] = np.frombuffer(digests, dtype=f"S{DIGEST_BYTES}")
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._vectors = ShardedVectors(shards, lines, dimension)

    def rows_of(self, texts: Sequence[str]) -> list[int | None]:
        """Return the row of each text among all vectors, None for a new text."""
        if not len(self._keys):
            return [None] * len(texts)
        digests = np.array([text_digest(text) for text in texts], dtype=self._keys.dtype)
        places = np.searchsorted(self._keys, digests).clip(max=len(self._keys) - 1)
        rows: list[int | None] = []
        for digest, place in zip(digests, places.tolist(), strict=True):
            if self._keys[place] == digest:
                rows.append(int(self._order[place]))
            else:
                rows.append(None)
        return rows

    def vectors(self, rows: Sequence[int]) -> Vectors:
        """Return the vectors of rows, (len(rows), D). Each shard is opened once."""
        return self._vectors.take(np.array(rows, dtype=np.int64))


@contextmanager
def replacing_folder(folder: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Make a new folder that takes the place of `folder` when the block succeeds.

    Yields:
        The new folder, and the folders with vectors to keep: the old one, and the new folders of
        earlier updates that were stopped.
    """
    pattern = f".{folder.name}.update-*"
    leftovers = sorted(folder.parent.glob(pattern))
    number = 0
    while (folder.parent / f".{folder.name}.update-{number}").exists():
        number += 1
    new = folder.parent / f".{folder.name}.update-{number}"
    new.mkdir()
    yield new, [folder, *leftovers]
    exchange(folder, new)
    for path in [new, *leftovers]:  # `new` is the old one now
        shutil.rmtree(path, ignore_errors=True)


def exchange(first: Path, second: Path) -> None:
    """Exchange the names of two folders in one step where the system can (Linux), else in two.

    Raises:
        OSError: A folder cannot be renamed.
    """
    if os.name == "posix":
        renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
        paths = (os.fsencode(first), os.fsencode(second))
        if renameat2 and renameat2(_AT_CWD, paths[0], _AT_CWD, paths[1], _RENAME_EXCHANGE) == 0:
            return
    beside = second.with_name(f"{second.name}.old")
    os.rename(first, beside)
    os.rename(second, first)
    os.rename(beside, second)


def restore(folder: Path) -> None:
    """Put a folder back that was killed between the two steps of `exchange`."""
    if folder.exists():
        return
    for old in folder.parent.glob(f".{folder.name}.update-*.old"):
        os.rename(old, folder)
        return
