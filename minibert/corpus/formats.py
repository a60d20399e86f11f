"""Writing texts and their vectors to a file, piece by piece: .npy, .safetensors, .jsonl or .parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minibert.extras import need
from minibert.files import read_json, replacing
from minibert.sentences.quantization import Codes, to_bits, to_bytes
from minibert.sentences.rows import Vectors

Write = Callable[[Sequence[str], Vectors], None]

MAX_OPEN = 64  # shards that stay mapped, for the number of open files is limited
# by which `nearest` chooses the vectors that it compares
CODES: dict[str, Callable[[Vectors], Codes]] = {"int8": to_bytes, "binary": to_bits}
_CODED_AT_ONCE = 16384  # vectors
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

    The last two have an "id" first where the texts are `minibert.corpus.inputs.Text` with one.

    Args:
        path: the file.
        file_format: one of `FORMATS`.
        dimension: D, the length of a vector.

    Raises:
        ImportError: parquet without pyarrow.
    """
    return FORMATS[file_format][0](path, dimension)


def _npy_header(rows: int, dimension: int) -> bytes:
    # numpy/lib/format.py: magic, version 1.0, length of what follows, a Python dict ending in a line break
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}"
    return b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + text.ljust(_HEADER - 11).encode() + b"\n"


def _safetensors_header(rows: int, dimension: int) -> bytes:
    tensor = {"dtype": "F32", "shape": [rows, dimension], "data_offsets": [0, 4 * rows * dimension]}
    text = json.dumps({"vectors": tensor}, separators=(",", ":"))
    return (_HEADER - 8).to_bytes(8, "little") + text.ljust(_HEADER - 8).encode()


@contextmanager
def _raw(header: Callable[[int, int], bytes], path: Path, dimension: int) -> Iterator[Write]:
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


class ShardedVectors:
    """The vectors of a folder of shards, read by rows; .npy and .safetensors shards are memory-mapped.

    Attributes:
        shape: (N, D).
        unit: all are known to have length 1 (or 0), so that cosines are dot products.
        codes: by which `nearest` chooses the vectors that it compares; see `open_corpus`.
    """

    ndim = 2
    dtype = np.dtype(np.float32)
    codes: Codes | None = None

    def __init__(self, shards: list[Path], lines: list[int], dimension: int, unit: bool = False) -> None:
        self._shards = shards
        self._starts = np.cumsum([0, *lines])
        self.shape = (int(self._starts[-1]), dimension)
        self.unit = unit
        self._open: dict[int, Vectors] = {}

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
        if number not in self._open:
            vectors = open_vector_file(self._shards[number])
            rows = int(self._starts[number + 1] - self._starts[number])
            if vectors.shape != (rows, self.shape[1]):
                raise ValueError(f"{self._shards[number]} should hold {rows} vectors: run minibert embed again.")
            if len(self._open) == MAX_OPEN or not isinstance(vectors, np.memmap):  # others lie in memory
                self._open.clear()
            self._open[number] = vectors
        return self._open[number]


def open_corpus(path: str | Path, codes: str | None = None) -> Vectors | ShardedVectors:
    """The vectors (N, D) of a file or folder that `minibert embed` wrote, in the order of the texts.

    Args:
        path: an .npy, .safetensors, .jsonl or .parquet file, or the folder that `--out-dir` or `encode_corpus` filled.
        codes: "int8" or "binary" lets `nearest` choose vectors by a byte or a bit for each number, and compare only
            those it has chosen. The codes are kept in the folder, where they are made the first time.

    Raises:
        FileNotFoundError: there is no such file, or a shard is missing.
        ValueError: a folder whose run has not finished, a file that does not hold vectors, or codes of a file.
        ImportError: bits are to be counted, and NumPy is older than version 2.
        OSError: the codes cannot be written.
    """
    path = Path(path)
    if not path.is_dir():
        if codes is not None:
            raise ValueError(f"{path} should be a folder of shards: {codes} codes are kept beside them.")
        return open_vector_file(path)
    if not (path / "index.json").is_file():
        raise ValueError(f"{path} has no index.json: run minibert embed --out-dir again, it goes on where it stopped.")
    index = read_json(path / "index.json")
    shards = [path / f"shard-{number:06d}.{index['file_format']}" for number in range(index["shards"])]
    lines = [int(read_json(shard.with_suffix(".json"))["lines"]) for shard in shards]
    vectors = ShardedVectors(shards, lines, index["dimension"], index.get("unit", False))
    if codes is not None:
        vectors.codes = _kept_codes(vectors, path, codes)
    return vectors


def _kept_codes(vectors: ShardedVectors, folder: Path, kind: str) -> Codes:
    """Codes of a corpus (N, D), mapped from its folder, where they are made if there are none as new as its index."""
    if kind not in CODES:
        raise ValueError(f"codes should be one of {', '.join(CODES)}, not {kind!r}.")
    if kind == "binary" and not hasattr(np, "bitwise_count"):
        raise ImportError("counting the bits of binary codes needs NumPy 2: pip install -U numpy")
    path = folder / f"{kind}.npy"
    if not path.exists() or path.stat().st_mtime < (folder / "index.json").stat().st_mtime:
        with replacing(path) as temporary:
            some = CODES[kind](vectors[:0])
            codes = np.lib.format.open_memmap(temporary, "w+", some.dtype, (len(vectors), some.shape[1]))
            for start in range(0, len(vectors), _CODED_AT_ONCE):
                codes[start : start + _CODED_AT_ONCE] = CODES[kind](vectors[start : start + _CODED_AT_ONCE])
            del codes  # closes the file
    found: Codes = np.load(path, mmap_mode="r")
    return found


def open_vector_file(path: Path) -> Vectors:
    """The vectors of one file; see `open_corpus`."""
    if path.suffix[1:] not in FORMATS:
        raise ValueError(f"{path} should be a folder of shards, or end in {', '.join('.' + name for name in FORMATS)}.")
    try:
        vectors = FORMATS[path.suffix[1:]][1](path)
    except (ValueError, EOFError, KeyError, json.JSONDecodeError):
        raise ValueError(f"{path} is not a complete {path.suffix} file; write one with minibert embed --out.") from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(f"{path} should hold one row of numbers for each text, as minibert embed writes them.")
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
    column = parquet.read_table(path, columns=["vector"])["vector"].combine_chunks()
    return column.flatten().to_numpy().reshape(len(column), -1)


# how a file is written, and how it is read
FORMATS: dict[str, tuple[Callable[[Path, int], AbstractContextManager[Write]], Callable[[Path], Any]]] = {
    "npy": (partial(_raw, _npy_header), partial(np.load, mmap_mode="r")),
    "safetensors": (partial(_raw, _safetensors_header), _read_safetensors),
    "jsonl": (_jsonl, _read_jsonl),
    "parquet": (_parquet, _read_parquet),
}
