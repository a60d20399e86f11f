"""Files of vectors, in some formats with their texts, written in chunks and read again.

    .npy           the vectors, (N, D) float32
    .safetensors   the same, called "vectors"
    .jsonl         {"text": ..., "vector": [...]} a line, with all digits that float32 needs
    .parquet       columns text and vector, a list of fixed size (needs pyarrow)

The last two have an "id" first where the texts are `minibert.corpus.inputs.Text` with one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from minibert.encoders.token_rows import Vectors
from minibert.extras import need
from minibert.files import read_json

Chunks = Iterable[tuple[Sequence[str], Vectors]]  # some texts and their vectors (n, D), then others

MAX_ARROW_BYTES = 2**31 - 1  # of the strings in an array
MAX_OPEN = 64  # shards that stay mapped, because the number of open files is limited


def _npy_header(file: IO[bytes], rows: int, dimension: int) -> None:
    about = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(file, about)  # 128 bytes for any number of rows


def _safetensors_header(file: IO[bytes], rows: int, dimension: int) -> None:
    tensor = {"dtype": "F32", "shape": [rows, dimension], "data_offsets": [0, 4 * rows * dimension]}
    text = json.dumps({"vectors": tensor}, separators=(",", ":"))
    text = text.ljust(120)  # the format allows blanks at the end
    file.write(len(text).to_bytes(8, "little") + text.encode())


def _write_raw(
    header: Callable[[IO[bytes], int, int], None], path: Path, chunks: Chunks, dimension: int
) -> None:
    """Write values after a header, which is written again when the number of rows is known."""
    rows = 0
    with path.open("wb") as file:
        header(file, rows, dimension)
        for _, vectors in chunks:
            rows += len(vectors)
            file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        file.seek(0)
        header(file, rows, dimension)


def _write_jsonl(path: Path, chunks: Chunks, dimension: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for texts, vectors in chunks:
            file.writelines(
                f"{json_line(text, vector)}\n" for text, vector in zip(texts, vectors, strict=True)
            )


def json_line(text: str, vector: Vectors) -> str:
    """Return a text, its id if it has one, and its vector as one line of JSON."""
    fields = []
    text_id = getattr(text, "id", None)
    if text_id is not None:
        fields.append(f'"id": {json.dumps(text_id, ensure_ascii=False)}')
    fields.append(f'"text": {json.dumps(text, ensure_ascii=False)}')
    fields.append(f'"vector": [{", ".join(numbers(vector))}]')
    return f"{{{', '.join(fields)}}}"


def numbers(vector: Vectors) -> list[str]:
    """Return the values of a vector, each with all digits that float32 needs."""
    return [f"{number:.9g}" for number in vector.tolist()]


def _write_parquet(path: Path, chunks: Chunks, dimension: int) -> None:
    arrow = need("pyarrow", "parquet", "Writing .parquet")
    parquet = need("pyarrow.parquet", "parquet", "Writing .parquet")
    list_type = arrow.list_(arrow.float32(), dimension)

    def table(texts: Sequence[str], vectors: Vectors) -> Any:
        values = np.ascontiguousarray(vectors, dtype="<f4").reshape(-1)
        flat = _arrow_numbers(arrow.float32(), values)
        columns = {
            "text": _arrow_strings(texts),
            "vector": arrow.FixedSizeListArray.from_arrays(flat, type=list_type),
        }
        ids = [getattr(text, "id", None) for text in texts]
        if any(text_id is not None for text_id in ids):
            columns = {"id": _arrow_ids(ids), **columns}
        return arrow.table(columns)

    tables = (table(*chunk) for chunk in chunks)
    first = next(tables, table([], np.empty((0, dimension), np.float32)))
    # a file, because pyarrow does not accept a path that is not UTF-8
    with path.open("wb") as file, parquet.ParquetWriter(file, first.schema) as writer:
        for chunk_table in chain([first], tables):
            writer.write_table(chunk_table)


# pyarrow.array would import pandas, if it is installed, which takes as long as 250 vectors
def _arrow_numbers(kind: Any, values: NDArray[Any]) -> Any:
    arrow = need("pyarrow", "parquet", "Writing .parquet")
    return arrow.Array.from_buffers(kind, len(values), [None, arrow.py_buffer(values)])


def _arrow_strings(texts: Sequence[str]) -> Any:
    arrow = need("pyarrow", "parquet", "Writing .parquet")
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > MAX_ARROW_BYTES:
        return arrow.array(texts, arrow.string())
    buffers = [None, arrow.py_buffer(ends.astype(np.int32)), arrow.py_buffer(b"".join(encoded))]
    return arrow.Array.from_buffers(arrow.string(), len(texts), buffers)


def _arrow_ids(ids: Sequence[Any]) -> Any:
    arrow = need("pyarrow", "parquet", "Writing .parquet")
    kinds = set(map(type, ids))
    try:
        if kinds == {str}:
            return _arrow_strings(ids)
        if kinds == {int}:
            return _arrow_numbers(arrow.int64(), np.array(ids, dtype=np.int64))
        return arrow.array(ids)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        raise ValueError("ids should be whole numbers or strings, not some of each.") from None
    except OverflowError:
        raise ValueError(
            "ids of .parquet should be whole numbers of at most 64 bits. Write longer ones as "
            "strings, or vectors as .jsonl."
        ) from None


class ShardedVectors:
    """The vectors of a folder of shards, read by rows: a number, several numbers or a slice.

    Shards in .npy and .safetensors are memory-mapped.

    Attributes:
        shape: (N, D).
        unit: All vectors are L2-normalized (or zero), so that cosines are dot products.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(
        self, shards: list[Path], lines: list[int], dimension: int, unit: bool = False
    ) -> None:
        self._shards = shards
        self._starts = np.cumsum([0, *lines])
        self.shape = (int(self._starts[-1]), dimension)
        self.unit = unit
        self._open: dict[int, Vectors] = {}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | SupportsIndex | Sequence[int] | NDArray[Any]) -> Vectors:
        if isinstance(rows, slice):
            return self._neighbors(rows)
        numbers = np.asarray(rows)
        if numbers.size == 0:  # an empty list has no type
            numbers = numbers.astype(np.int64)
        if numbers.ndim > 1 or numbers.dtype.kind not in "iu":
            raise IndexError("rows are chosen by a number, by several, or by a slice.")
        count = len(self)
        outside = (numbers < -count) | (numbers >= count)
        if outside.any():
            first = numbers[outside].flat[0]
            raise IndexError(f"there is no row {first}: the folder has {count} vectors.")
        vectors = self.take(np.atleast_1d(numbers) % count)
        if numbers.ndim == 0:
            row: Vectors = vectors[0]
            return row
        return vectors

    def _neighbors(self, rows: slice) -> Vectors:
        """The vectors of neighboring rows."""
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError("shards are read by neighboring rows: vectors[start:stop].")
        first = int(np.searchsorted(self._starts, start, "right")) - 1
        last = int(np.searchsorted(self._starts, stop))
        parts = [
            self._shard(number)[max(start - begin, 0) : stop - begin]
            for number, begin in enumerate(self._starts[first:last].tolist(), first)
        ]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.empty((0, self.shape[1]), np.float32), *parts])

    def take(self, rows: NDArray[np.int64]) -> Vectors:
        """Return the vectors of rows in any order, (len(rows), D). Each shard is opened once."""
        result = np.empty((len(rows), self.shape[1]), np.float32)
        shards = np.searchsorted(self._starts, rows, "right") - 1
        for number in np.unique(shards).tolist():
            places = np.flatnonzero(shards == number)
            result[places] = self._shard(number)[rows[places] - self._starts[number]]
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """All of them in memory."""
        return self[:].astype(dtype or np.float32)

    def _shard(self, number: int) -> Vectors:
        if number not in self._open:
            vectors = open_vector_file(self._shards[number])
            rows = int(self._starts[number + 1] - self._starts[number])
            if vectors.shape != (rows, self.shape[1]):
                raise ValueError(
                    f"{self._shards[number]} should hold {rows} vectors: run minibert embed again."
                )
            is_in_memory = not isinstance(vectors, np.memmap)
            if is_in_memory or len(self._open) == MAX_OPEN:
                self._open.clear()
            self._open[number] = vectors
        return self._open[number]


def open_vectors(path: str | Path) -> Vectors | ShardedVectors:
    """Open the vectors of a file or folder that `minibert embed` wrote.

    Args:
        path: An .npy, .safetensors, .jsonl or .parquet file, or the folder of `--output DIR/`
            or `encode_to_shards`.

    Returns:
        The vectors (N, D), in the order of the texts.

    Raises:
        FileNotFoundError: The file does not exist, or a shard is missing.
        ValueError: The run of a folder has not finished, or a file does not hold vectors.
    """
    path = Path(path)
    if not path.is_dir():
        return open_vector_file(path)
    prefix = ""
    if not (path / "index.json").is_file() and (path / "_index.json").is_file():
        prefix = "_"  # as beside parquet; see `minibert.corpus.records.metadata`
    if not any((path / f"{mark}manifest.json").is_file() for mark in ("", "_")):
        raise ValueError(
            f"{path} is not a folder of vectors, as minibert embed --output DIR/ writes them."
        )
    if not (path / f"{prefix}index.json").is_file():
        raise ValueError(
            f"{path} has no index.json: run minibert embed --output DIR/ again, which resumes "
            "where it stopped."
        )
    index = read_json(path / f"{prefix}index.json")
    shards = [
        path / f"shard-{number:06d}.{index['file_format']}" for number in range(index["shards"])
    ]
    lines = []
    for shard in shards:
        record = shard.with_suffix(".json")
        if not record.is_file():
            record = shard.with_name(f"_{record.name}")
        lines.append(int(read_json(record)["lines"]))
    return ShardedVectors(shards, lines, index["dimension"], index.get("unit", False))


def open_vector_file(path: Path) -> Vectors:
    """Open the vectors of one file. See `open_vectors`."""
    if path.suffix[1:] not in READERS:
        raise ValueError(f"{path} should be a folder of shards, or end in {ENDINGS}.")
    try:
        vectors = READERS[path.suffix[1:]](path)
    except (ValueError, EOFError, KeyError):
        raise ValueError(
            f"{path} is not a complete {path.suffix} file. Write one with minibert embed --output."
        ) from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(
            f"{path} should hold one vector for each text, as minibert embed writes them."
        )
    return vectors


def _read_safetensors(path: Path) -> Any:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(size))["vectors"]
    return np.memmap(path, "<f4", "r", 8 + size + tensor["data_offsets"][0], tuple(tensor["shape"]))


def _read_jsonl(path: Path) -> Any:
    with path.open(encoding="utf-8") as file:
        return np.array([json.loads(line)["vector"] for line in file], dtype=np.float32)


def _read_parquet(path: Path) -> Any:
    parquet = need("pyarrow.parquet", "parquet", "Reading .parquet")
    with path.open("rb") as file:  # read_table would import pandas, if it is installed
        table = parquet.ParquetFile(file).read(columns=["vector"])
    column = table["vector"].combine_chunks()
    return np.from_dlpack(column.flatten()).reshape(len(column), -1)  # to_numpy imports pandas, too


# each takes a path, the chunks to write there, and the dimension D of the vectors
WRITERS: dict[str, Callable[[Path, Chunks, int], None]] = {
    "npy": partial(_write_raw, _npy_header),
    "safetensors": partial(_write_raw, _safetensors_header),
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
READERS: dict[str, Callable[[Path], Any]] = {
    "npy": partial(np.load, mmap_mode="r"),
    "safetensors": _read_safetensors,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
}
ENDINGS = ", ".join(f".{name}" for name in WRITERS)
