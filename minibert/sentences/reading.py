"""Reading vectors that `minibert embed` wrote: a file, or a folder of shards, as one array (N, D)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minibert.extras import need
from minibert.files import read_json
from minibert.sentences.vectors import Vectors


class ShardedVectors:
    """The vectors of a folder of shards, read by rows; .npy and .safetensors shards are memory-mapped.

    Attributes:
        shape: (N, D).
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, shards: list[Path], lines: list[int], dimension: int) -> None:
        self._shards = shards
        self._starts = np.cumsum([0, *lines])
        self.shape = (int(self._starts[-1]), dimension)
        self._open: tuple[int, Vectors] | None = None  # one at a time, for the number of open files is limited

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | int) -> Vectors:
        if isinstance(rows, int):
            row: Vectors = self[rows : rows + 1 or None][0]
            return row
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError("shards are read by neighbouring rows: vectors[start:stop].")
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = [np.empty((0, self.shape[1]), dtype=np.float32)]
        for number in range(first, len(self._shards)):
            begin, end = int(self._starts[number]), int(self._starts[number + 1])
            if begin >= stop:
                break
            parts.append(self._shard(number)[max(start - begin, 0) : min(stop, end) - begin])
        return np.concatenate(parts) if len(parts) != 2 else parts[1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """All of them in memory."""
        return self[:].astype(dtype or np.float32)

    def _shard(self, number: int) -> Vectors:
        if self._open is None or self._open[0] != number:
            vectors = open_vector_file(self._shards[number])
            rows = int(self._starts[number + 1] - self._starts[number])
            if vectors.shape != (rows, self.shape[1]):
                raise ValueError(f"{self._shards[number]} should hold {rows} vectors: run minibert embed again.")
            self._open = number, vectors
        return self._open[1]


def open_corpus(path: str | Path) -> Vectors | ShardedVectors:
    """The vectors (N, D) of a file or folder that `minibert embed` wrote, in the order of the texts.

    Args:
        path: an .npy, .safetensors, .jsonl or .parquet file, or the folder that `--out-dir` or `encode_corpus` filled.

    Raises:
        FileNotFoundError: there is no such file, or a shard is missing.
        ValueError: a folder whose run has not finished, or a file that does not hold vectors.
    """
    path = Path(path)
    if not path.is_dir():
        return open_vector_file(path)
    if not (path / "index.json").is_file():
        raise ValueError(
            f"{path} holds no index.json: run minibert embed --out-dir again, it goes on where it stopped."
        )
    index = read_json(path / "index.json")
    shards = [path / f"shard-{number:06d}.{index['file_format']}" for number in range(index["shards"])]
    lines = [int(read_json(shard.with_suffix(".json"))["lines"]) for shard in shards]
    return ShardedVectors(shards, lines, index["dimension"])


def open_vector_file(path: Path) -> Vectors:
    """The vectors of one file; see `open_corpus`."""
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ValueError(f"{path} should be a folder of shards, or end in {', '.join(_READERS)}.")
    try:
        vectors = reader(path)
    except (ValueError, EOFError, KeyError, json.JSONDecodeError):
        raise ValueError(f"{path} is not a complete {path.suffix} file; write one with minibert embed --out.") from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(f"{path} should hold one row of numbers for each text, as minibert embed writes them.")
    return vectors


def _npy(path: Path) -> Any:
    return np.load(path, mmap_mode="r")


def _safetensors(path: Path) -> Any:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(size))["vectors"]
    return np.memmap(path, "<f4", "r", 8 + size + tensor["data_offsets"][0], tuple(tensor["shape"]))


def _jsonl(path: Path) -> Any:
    with path.open(encoding="utf-8") as file:
        return np.array([json.loads(line)["vector"] for line in file], dtype=np.float32)


def _parquet(path: Path) -> Any:
    parquet = need("pyarrow.parquet", "parquet", "Reading .parquet")
    column = parquet.read_table(path, columns=["vector"])["vector"].combine_chunks()
    return column.flatten().to_numpy().reshape(len(column), -1)


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": _npy,
    ".safetensors": _safetensors,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
