"""Files of vectors, in some formats with their texts, written in chunks and read again.

    .npy           the vectors, (N, D) float32
    .safetensors   the same, called "vectors"
    .jsonl         {"text": ..., "vector": [...]} a line, with all digits that float32 needs
    .parquet       columns text and vector, a list of fixed size (needs pyarrow)

The last two have an "id" first where the texts have ids.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibert.encoders.token_rows import Vectors
from minibert.text.location import Location
from minibert.util.extras import need


class Entry(NamedTuple):
    """A text, and its id if it has one."""

    text: str
    id: Any = None


# some entries and their vectors (n, D), then others
Chunks = Iterable[tuple[Sequence[Entry], Vectors]]

MIXED_IDS = (
    "ids of .parquet should be whole numbers or strings, not some of each: write them as one type, "
    "or vectors as .jsonl."
)
# ours are F32, others may have been written elsewhere
_SAFETENSORS_TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
MAX_ARROW_BYTES = 2**31 - 1  # of the strings in an array


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
        for entries, vectors in chunks:
            for entry, vector in zip(entries, vectors, strict=True):
                file.write(f"{json_line(entry, vector)}\n")


def json_line(entry: Entry, vector: Vectors) -> str:
    """Return a text, its id if it has one, and its vector as one line of JSON."""
    fields = []
    if entry.id is not None:
        fields.append(f'"id": {json.dumps(entry.id, ensure_ascii=False)}')
    fields.append(f'"text": {json.dumps(entry.text, ensure_ascii=False)}')
    fields.append(f'"vector": [{", ".join(numbers(vector))}]')
    return f"{{{', '.join(fields)}}}"


def numbers(vector: Vectors) -> list[str]:
    """Return the values of a vector, each with all digits that float32 needs."""
    return [f"{number:.9g}" for number in vector.tolist()]


def _write_parquet(path: Path, chunks: Chunks, dimension: int) -> None:
    arrow = need("pyarrow", "parquet", "Writing .parquet")
    parquet = need("pyarrow.parquet", "parquet", "Writing .parquet")
    list_type = arrow.list_(arrow.float32(), dimension)

    def table(entries: Sequence[Entry], vectors: Vectors) -> Any:
        values = np.ascontiguousarray(vectors, dtype="<f4").reshape(-1)
        flat = _arrow_numbers(arrow, arrow.float32(), values)
        columns = {
            "text": _arrow_strings(arrow, [entry.text for entry in entries]),
            "vector": arrow.FixedSizeListArray.from_arrays(flat, type=list_type),
        }
        if any(entry.id is not None for entry in entries):
            columns = {"id": _arrow_ids(arrow, [entry.id for entry in entries]), **columns}
        return arrow.table(columns)

    tables = (table(*chunk) for chunk in chunks)
    first = next(tables, table([], np.empty((0, dimension), np.float32)))
    # a file, because pyarrow does not accept a path that is not UTF-8
    with path.open("wb") as file, parquet.ParquetWriter(file, first.schema) as writer:
        for chunk_table in chain([first], tables):
            writer.write_table(chunk_table)


# pyarrow.array would import pandas, if it is installed, which takes as long as 250 vectors
def _arrow_numbers(arrow: Any, kind: Any, values: NDArray[Any]) -> Any:
    return arrow.Array.from_buffers(kind, len(values), [None, arrow.py_buffer(values)])


def _arrow_strings(arrow: Any, texts: Sequence[str]) -> Any:
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > MAX_ARROW_BYTES:
        return arrow.array(texts, arrow.string())
    buffers = [None, arrow.py_buffer(ends.astype(np.int32)), arrow.py_buffer(b"".join(encoded))]
    return arrow.Array.from_buffers(arrow.string(), len(texts), buffers)


def _arrow_ids(arrow: Any, ids: Sequence[Any]) -> Any:
    kinds = set(map(type, ids))
    try:
        if kinds == {str}:
            return _arrow_strings(arrow, ids)
        if kinds == {int}:
            return _arrow_numbers(arrow, arrow.int64(), np.array(ids, dtype=np.int64))
        return arrow.array(ids)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        raise ValueError(MIXED_IDS) from None
    except OverflowError:
        raise ValueError(
            "ids of .parquet should be whole numbers from -2**63 to 2**63 - 1. Write longer ones "
            "as strings, or vectors as .jsonl."
        ) from None


def format_of(location: Location) -> str:
    """The ending of a file of vectors, which names its format, in lower case."""
    return Path(location.path).suffix[1:].lower()


def open_vector_file(location: Location) -> Vectors:
    """Open the vectors of one file, (N, D). On this machine they are memory-mapped where possible.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file does not hold vectors.
    """
    file_format = format_of(location)
    if file_format not in READERS:
        raise ValueError(f"{location} should be a folder of shards, or end in {ENDINGS}.")
    try:
        if location.fs is None:
            vectors = READERS[file_format](Path(location.path))
        else:
            with tempfile.TemporaryDirectory() as folder, location.open() as file:
                copy = Path(folder, f"vectors.{file_format}")
                copy.write_bytes(file.read())
                vectors = np.array(READERS[file_format](copy))
    except (KeyError, TypeError):  # JSON of another kind
        raise ValueError(
            f"{location} has no vectors where minibert embed writes them: in the column (or key) "
            "vector, or as vectors in a .safetensors file."
        ) from None
    except (ValueError, EOFError):
        raise ValueError(
            f"{location} is not a complete .{file_format} file. Write one with minibert embed "
            "--output."
        ) from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        found = "something else"
        if isinstance(vectors, np.ndarray):
            found = f"{vectors.dtype} numbers of shape {vectors.shape}"
        raise ValueError(
            f"{location} should hold vectors of floating-point numbers, (texts, dimensions), as "
            f"minibert embed writes them, not {found}."
        )
    return vectors


def _read_safetensors(path: Path) -> Any:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = file.read(min(size, path.stat().st_size))
    tensor = json.loads(header)["vectors"]
    kind = _SAFETENSORS_TYPES[tensor["dtype"]]
    return np.memmap(path, kind, "r", 8 + size + tensor["data_offsets"][0], tuple(tensor["shape"]))


def _read_jsonl(path: Path) -> Any:
    with path.open(encoding="utf-8") as file:
        lines = (line for line in file if not line.isspace())
        return np.array([json.loads(line)["vector"] for line in lines], dtype=np.float32)


def _read_parquet(path: Path) -> Any:
    arrow = need("pyarrow", "parquet", "Reading .parquet")
    parquet = need("pyarrow.parquet", "parquet", "Reading .parquet")
    with path.open("rb") as file:  # read_table would import pandas, if it is installed
        table = parquet.ParquetFile(file).read(columns=["vector"])
    column = table["vector"].combine_chunks()
    dimension = len(column[0]) if len(column) else getattr(column.type, "list_size", 0)
    # other programs write lists of any size: those of another one are an error
    column = column.cast(arrow.list_(column.type.value_type, dimension))
    values = np.from_dlpack(column.flatten())  # to_numpy imports pandas, too
    return values.reshape(len(column), dimension)


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
