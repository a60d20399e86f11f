"""Arrow's own files, by pyarrow: IPC files, which are also called Feather, and IPC streams.

pandas, polars and pyarrow write files, `datasets` writes streams. Both may end in .arrow, and their
first bytes say which it is. minibert writes files, which all of these read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import IO, Any

from minibert.text.formats.arrow_tables import ArrowTable, RowBatch
from minibert.text.formats.format import Bounds
from minibert.text.formats.plain_lines import even_bounds
from minibert.util.extras import need

_FILE = b"ARROW1"
_STREAM = b"\xff\xff\xff\xff"
_FEATHER_1 = b"FEA1"


class Arrow(ArrowTable):
    """A table. Parts of a file are ranges of its batches, and a stream is a single part."""

    name = "arrow"
    endings = (".arrow", ".feather")
    meaning = "a table (needs the extra [parquet])"
    magic = (_FILE, _STREAM, _FEATHER_1)

    def open_table(self, file: IO[bytes]) -> ArrowFile | ArrowStream:
        """Open an IPC file or stream."""
        arrow = need("pyarrow", "parquet", "Reading .arrow")
        ipc = need("pyarrow.ipc", "parquet", "Reading .arrow")
        head = file.read(8)
        file.seek(0)
        if head.startswith(_FEATHER_1):
            raise arrow.ArrowInvalid(
                "it is in version 1 of Feather. Write it in version 2, as pandas does by "
                "read_feather(...).to_feather(...)"
            )
        if head.startswith(_FILE):
            return ArrowFile(ipc, _source(arrow, file))
        if head.startswith(_STREAM):
            return ArrowStream(ipc.open_stream(_source(arrow, file)))
        raise arrow.ArrowInvalid("it begins neither as an IPC file nor as an IPC stream")

    def writer(self, file: IO[bytes], schema: Any) -> AbstractContextManager[Any]:
        """A `pyarrow.ipc.RecordBatchFileWriter`."""
        ipc = need("pyarrow.ipc", "parquet", "Writing .arrow")
        writer: AbstractContextManager[Any] = ipc.new_file(file, schema)
        return writer


class ArrowFile:
    """An open IPC file, whose batches are read in any order.

    Args:
        ipc: The module `pyarrow.ipc`.
        source: Where it is read from.
    """

    def __init__(self, ipc: Any, source: Any) -> None:
        self._ipc = ipc
        self._source = source
        self._file = ipc.open_file(source)
        self.schema = self._file.schema

    def batches(
        self, columns: list[str] | None = None, start: int = 0, end: int | None = None
    ) -> Iterator[RowBatch]:
        """Yield the batches from `start` to `end`. Other columns are not unpacked."""
        file = self._file
        if columns is not None:
            indices = [self.schema.get_field_index(name) for name in columns]
            options = self._ipc.IpcReadOptions(included_fields=indices)
            file = self._ipc.open_file(self._source, options=options)
        stop = file.num_record_batches if end is None else end
        first = 0
        for number in range(start, stop):
            batch = file.get_batch(number)
            if start == 0:
                yield "row", first, batch
                first += len(batch)
            else:  # how many rows are before is unknown
                yield f"batch {number + 1}, row", 0, batch

    def bounds(self, text: str, size: int, part_bytes: int) -> list[Bounds]:
        """Ranges of batches, by the bytes of the file."""
        count = self._file.num_record_batches
        return even_bounds(count, max(1, count * part_bytes // max(1, size)))


class ArrowStream:
    """An open IPC stream, which is read from its start.

    Args:
        stream: A `pyarrow.ipc.RecordBatchStreamReader`.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.schema = stream.schema

    def batches(
        self, columns: list[str] | None = None, start: int = 0, end: int | None = None
    ) -> Iterator[RowBatch]:
        """Yield all batches."""
        first = 0
        for batch in self._stream:
            yield "row", first, batch if columns is None else batch.select(columns)
            first += len(batch)

    def bounds(self, text: str, size: int, part_bytes: int) -> list[Bounds]:
        """The whole."""
        return [(0, None)]


def _source(arrow: Any, file: IO[bytes]) -> Any:
    """The bytes of a file, memory-mapped if it is on this machine: a batch may be all of it."""
    try:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return arrow.PythonFile(file, "r")
    return arrow.BufferReader(arrow.py_buffer(mapped))
