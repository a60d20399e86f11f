"""What the formats of pyarrow share: rows and vectors are columns of Arrow's tables.

pyarrow is imported when such a file is opened. Its functions that would import pandas, if that is
installed, are passed over: the import takes as long as 250 vectors.
"""

from __future__ import annotations

import pickle
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from minibert.text.formats.format import (
    Bounds,
    Chunks,
    RowFormat,
    RowWriter,
    VectorFormat,
    with_columns,
)
from minibert.text.lines import HEAD_BYTES, check_is_text
from minibert.text.request import RawRow, RowRequest
from minibert.util.extras import need

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from minibert.text.formats.format import Vectors

ROWS_PER_GROUP = 4096
# of Arrow's rows that become Python's at a time: a text may be long, and stand once for many rows
SLICE_ROWS = 256
SLICE_BYTES = 1 << 24
MAX_STRING_BYTES = 2**31 - 1  # of the strings in an array
MIXED_IDS = (
    "ids of .parquet and .arrow should be whole numbers or strings, not some of each: write them "
    "as one type, or vectors as .jsonl."
)

RowBatch = tuple[str, int, Any]
"""What its rows are counted as ("row"), the number of rows before it, and a `RecordBatch`."""


class OpenTable(Protocol):
    """A table that is open.

    Attributes:
        schema: Names and types of its columns, a `pyarrow.Schema`.
    """

    schema: Any

    def batches(
        self, columns: list[str] | None = None, start: int = 0, end: int | None = None
    ) -> Iterator[RowBatch]:
        """Yield the rows from `start` to `end`, with these columns or all."""

    def bounds(self, text: str, size: int, part_bytes: int) -> list[Bounds]:
        """Say where the table can be split, so that parts have about `part_bytes` of text."""


class ArrowTable(RowFormat, RowWriter, VectorFormat):
    """A format that pyarrow reads and writes.

    Attributes:
        magic: First bytes of its files.
    """

    magic: tuple[bytes, ...]
    is_typed = True
    is_binary = True
    without_effect = ("columns", "delimiter", "quoting", "encoding")
    has_texts = True
    has_typed_ids = True

    @abstractmethod
    def open_table(self, file: IO[bytes]) -> OpenTable:
        """Open a table.

        Raises:
            ValueError: The file is not complete, by an error of pyarrow or one that explains it.
        """

    @abstractmethod
    def writer(self, file: IO[bytes], schema: Any) -> AbstractContextManager[Any]:
        """A writer with `write_table`."""

    def records(self, request: RowRequest) -> Iterator[RawRow]:
        """The rows of a table or of a part of it."""
        columns = list(request.needed) if request.only else None
        with self._open(request) as opened:
            for unit, first, batch in opened.batches(columns, request.start, request.end):
                batch.validate(full=True)  # bytes of a damaged file are not where they should be
                step = SLICE_BYTES * len(batch) // max(1, batch.nbytes)
                step = min(max(1, step), SLICE_ROWS)
                for begin in range(0, len(batch), step):
                    values_of_rows = batch[begin : begin + step].to_pylist()
                    for number, values in enumerate(values_of_rows, first + begin + 1):
                        yield unit, number, values, values, ""

    def bounds(self, request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
        """What the table is split by."""
        with self._open(request) as opened:
            return opened.bounds(request.table.text, size, part_bytes)

    @contextmanager
    def _open(self, request: RowRequest) -> Iterator[OpenTable]:
        """Open a table, and check its columns."""
        arrow = need("pyarrow", "parquet", f"Reading .{self.name}")
        with request.file.open_seekable() as file:
            try:
                opened = self.open_table(file)
            except arrow.ArrowInvalid as error:
                file.seek(0)
                head = file.read(HEAD_BYTES)
                if not head.startswith(self.magic):
                    check_is_text(head, request.file)
                raise ValueError(
                    f"{request.file} is not a complete {self.name} file: {error}"
                ) from None
            request.check_columns(opened.schema.names)
            yield opened

    def write_rows(
        self,
        path: Path,
        rows: Iterator[Mapping[str, Any]],
        encoding: str,
        columns: Sequence[str] = (),
    ) -> None:
        """Write rows. The types of the columns are those of all rows."""
        arrow = need("pyarrow", "parquet", f"Writing .{self.name}")
        columns, rows = with_columns(rows, columns)

        def table(group: list[Mapping[str, Any]], schema: Any = None) -> Any:
            return arrow.table(
                {name: [row.get(name) for row in group] for name in columns}, schema=schema
            )

        schema = table([]).schema
        try:
            # the last row decides the types, too: the rows wait in a file until these are known
            with tempfile.TemporaryFile(dir=path.parent) as waiting:
                while group := list(islice(rows, ROWS_PER_GROUP)):
                    schemas = [schema, table(group).schema]
                    schema = arrow.unify_schemas(schemas, promote_options="permissive")
                    pickle.dump(group, waiting)
                end = waiting.tell()
                waiting.seek(0)
                with path.open("wb") as file, self.writer(file, schema) as writer:
                    while waiting.tell() < end:
                        writer.write_table(table(pickle.load(waiting), schema))
        except (arrow.ArrowException, OverflowError) as error:
            raise ValueError(
                f"the values of a column have no type in common ({error}): write .jsonl or .csv."
            ) from None

    def write_vectors(self, path: Path, chunks: Chunks, dimension: int) -> None:
        """Write the columns text and vector, a list of fixed size, and id first if there is one."""
        import numpy as np

        arrow = need("pyarrow", "parquet", f"Writing .{self.name}")
        list_type = arrow.list_(arrow.float32(), dimension)

        def table(entries: Sequence[Any], vectors: Vectors) -> Any:
            values = np.ascontiguousarray(vectors, dtype="<f4").reshape(-1)
            flat = _numbers(arrow, arrow.float32(), values)
            columns = {
                "text": _strings(arrow, [entry.text for entry in entries]),
                "vector": arrow.FixedSizeListArray.from_arrays(flat, type=list_type),
            }
            if any(entry.id is not None for entry in entries):
                columns = {"id": _ids(arrow, [entry.id for entry in entries]), **columns}
            return arrow.table(columns)

        tables = (table(*chunk) for chunk in chunks)
        first = next(tables, table([], np.empty((0, dimension), np.float32)))
        # a file, because pyarrow does not accept a path that is not UTF-8
        with path.open("wb") as file, self.writer(file, first.schema) as writer:
            for chunk_table in chain([first], tables):
                writer.write_table(chunk_table)

    def read_vectors(self, path: Path) -> Any:
        """Return the column vector in memory."""
        import numpy as np

        arrow = need("pyarrow", "parquet", f"Reading .{self.name}")
        parts = []
        with path.open("rb") as file:
            opened = self.open_table(file)
            kind = opened.schema.field("vector").type
            for _, _, batch in opened.batches(["vector"]):
                column = batch.column(0)
                column.validate(full=True)
                if not len(column):
                    continue
                dimension = len(column[0])
                # other programs write lists of any size: those of another one are an error
                column = column.cast(arrow.list_(kind.value_type, dimension))
                values = np.from_dlpack(column.flatten())  # to_numpy imports pandas
                parts.append(values.reshape(len(column), dimension))
        if not parts:
            return np.empty((0, getattr(kind, "list_size", 0)), np.float32)
        return np.concatenate(parts)


def _numbers(arrow: Any, kind: Any, values: NDArray[Any]) -> Any:
    return arrow.Array.from_buffers(kind, len(values), [None, arrow.py_buffer(values)])


def _strings(arrow: Any, texts: Sequence[str]) -> Any:
    import numpy as np

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > MAX_STRING_BYTES:
        return arrow.array(texts, arrow.string())
    buffers = [None, arrow.py_buffer(ends.astype(np.int32)), arrow.py_buffer(b"".join(encoded))]
    return arrow.Array.from_buffers(arrow.string(), len(texts), buffers)


def _ids(arrow: Any, ids: Sequence[Any]) -> Any:
    import numpy as np

    kinds = set(map(type, ids))
    try:
        if kinds == {str}:
            return _strings(arrow, ids)
        if kinds == {int}:
            return _numbers(arrow, arrow.int64(), np.array(ids, dtype=np.int64))
        return arrow.array(ids)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        raise ValueError(MIXED_IDS) from None
    except OverflowError:
        raise ValueError(
            "ids of .parquet and .arrow should be whole numbers from -2**63 to 2**63 - 1. Write "
            "longer ones as strings, or vectors as .jsonl."
        ) from None
