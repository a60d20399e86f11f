"""Writing texts and their vectors to a file, piece by piece: .npy, .safetensors, .jsonl or .parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minibert.extras import need

Vectors = NDArray[np.float32]
Write = Callable[[Sequence[str], Vectors], None]

_HEADER = 128  # bytes before the numbers of .npy and .safetensors; both formats allow blanks to fill it up


def vector_format(path: str | Path) -> str:
    """The format that a file name asks for by its ending.

    Raises:
        ValueError: another ending.
    """
    ending = Path(path).suffix.removeprefix(".")
    if ending not in FORMATS:
        raise ValueError(f"{Path(path).name!r} should end in {', '.join('.' + name for name in FORMATS)}.")
    return ending


def open_vectors(path: Path, file_format: str, dimension: int) -> AbstractContextManager[Write]:
    """Opens a file to be filled by calls of `write(texts, vectors)`; it is complete when the block ends.

    - npy: the vectors (N, D) float32;
    - safetensors: the same, called "vectors";
    - jsonl: `{"text": ..., "vector": [...]}` a line, with as many digits as float32 needs to be read back exactly;
    - parquet: columns text and vector, a list of fixed size; needs pyarrow.

    The last two have an "id" first where the texts are `minibert.sentences.inputs.Text` with one.

    Args:
        path: the file.
        file_format: one of `FORMATS`.
        dimension: D, the length of a vector.

    Raises:
        ValueError: an unknown format.
        ImportError: parquet without pyarrow.
    """
    if file_format not in FORMATS:
        raise ValueError(f"the format should be one of {', '.join(FORMATS)}, not {file_format!r}.")
    return FORMATS[file_format](path, dimension)


def _npy_header(rows: int, dimension: int) -> bytes:
    # numpy/lib/format.py: magic, version 1.0, length of what follows, a Python dict ending in a line break
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}"
    return b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + text.ljust(_HEADER - 11).encode() + b"\n"


def _safetensors_header(rows: int, dimension: int) -> bytes:
    tensor = {"dtype": "F32", "shape": [rows, dimension], "data_offsets": [0, 4 * rows * dimension]}
    text = json.dumps({"vectors": tensor}, separators=(",", ":"))
    return (_HEADER - 8).to_bytes(8, "little") + text.ljust(_HEADER - 8).encode()


@contextmanager
def _raw(path: Path, dimension: int, header: Callable[[int, int], bytes]) -> Iterator[Write]:
    """Numbers after a header of fixed size, which is written again when the number of rows is known."""
    rows = 0
    with path.open("wb") as file:

        def write(texts: Sequence[str], vectors: Vectors) -> None:
            nonlocal rows
            rows += len(vectors)
            file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())

        file.write(header(0, dimension))
        yield write
        file.seek(0)
        file.write(header(rows, dimension))


def _npy(path: Path, dimension: int) -> AbstractContextManager[Write]:
    return _raw(path, dimension, _npy_header)


def _safetensors(path: Path, dimension: int) -> AbstractContextManager[Write]:
    return _raw(path, dimension, _safetensors_header)


@contextmanager
def _jsonl(path: Path, dimension: int) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:

        def write(texts: Sequence[str], vectors: Vectors) -> None:
            file.writelines(f"{json_line(text, vector)}\n" for text, vector in zip(texts, vectors, strict=True))

        yield write


def json_line(text: str, vector: Vectors) -> str:
    """A text and its vector as one line of JSON."""
    own = getattr(text, "id", None)
    id_ = "" if own is None else f'"id": {json.dumps(own, ensure_ascii=False)}, '
    return f'{{{id_}"text": {json.dumps(text, ensure_ascii=False)}, "vector": [{", ".join(numbers(vector))}]}}'


def numbers(vector: Vectors) -> list[str]:
    """The numbers of a vector, each with the digits from which the same float32 is read back."""
    return [f"{number:.9g}" for number in vector.tolist()]


@contextmanager
def _parquet(path: Path, dimension: int) -> Iterator[Write]:
    need("pyarrow.parquet", "parquet", "Writing .parquet")
    import pyarrow
    import pyarrow.parquet

    vector = pyarrow.list_(pyarrow.float32(), dimension)
    with ExitStack() as stack:
        writer: Any = None

        def open_with(columns: list[tuple[str, Any]]) -> Any:
            file = stack.enter_context(path.open("wb"))  # pyarrow takes no path that is not UTF-8
            return stack.enter_context(pyarrow.parquet.ParquetWriter(file, pyarrow.schema(columns)))

        def write(texts: Sequence[str], vectors: Vectors) -> None:
            nonlocal writer
            flat = pyarrow.array(np.ascontiguousarray(vectors).reshape(-1))
            columns = {
                "text": pyarrow.array(texts, pyarrow.string()),
                "vector": pyarrow.FixedSizeListArray.from_arrays(flat, type=vector),
            }
            ids = [getattr(text, "id", None) for text in texts]
            if any(own is not None for own in ids):
                try:
                    columns = {"id": pyarrow.array(ids), **columns}
                except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
                    raise ValueError("ids should be whole numbers or strings, not some of each.") from None
            table = pyarrow.table(columns)
            writer = writer or open_with([(name, table[name].type) for name in table.column_names])
            writer.write_table(table)

        yield write
        if writer is None:
            open_with([("text", pyarrow.string()), ("vector", vector)])


FORMATS: dict[str, Callable[[Path, int], AbstractContextManager[Write]]] = {
    "npy": _npy,
    "safetensors": _safetensors,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
