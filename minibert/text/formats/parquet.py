"""Parquet: tables of columns, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import IO, Any

from minibert.text.formats.arrow_tables import SLICE_ROWS, ArrowTable, RowBatch
from minibert.text.formats.format import Bounds
from minibert.text.formats.plain_lines import even_bounds
from minibert.util.extras import need


class Parquet(ArrowTable):
    """A table. Parts are ranges of rows."""

    name = "parquet"
    endings = (".parquet",)
    meaning = "a table (needs the extra [parquet])"
    magic = (b"PAR1",)

    def open_table(self, file: IO[bytes]) -> ParquetTable:
        """Open a file of parquet."""
        return ParquetTable(
            need("pyarrow.parquet", "parquet", "Reading .parquet").ParquetFile(file)
        )

    def writer(self, file: IO[bytes], schema: Any) -> AbstractContextManager[Any]:
        """A `pyarrow.parquet.ParquetWriter`."""
        parquet = need("pyarrow.parquet", "parquet", "Writing .parquet")
        writer: AbstractContextManager[Any] = parquet.ParquetWriter(file, schema)
        return writer


class ParquetTable:
    """An open file of parquet.

    Args:
        file: A `pyarrow.parquet.ParquetFile`.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.schema = file.schema_arrow

    def batches(
        self, columns: list[str] | None = None, start: int = 0, end: int | None = None
    ) -> Iterator[RowBatch]:
        """Yield rows. Only the row groups that hold them are read."""
        first = 0
        stop = self._file.metadata.num_rows if end is None else end
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if first + rows <= start or first >= stop:
                first += rows
                continue
            # few rows, because a dictionary of one long text is small, and its rows are not
            for batch in self._file.iter_batches(SLICE_ROWS, row_groups=[group], columns=columns):
                begin = max(0, start - first)
                yield "row", first + begin, batch[begin : max(0, stop - first)]
                first += len(batch)

    def bounds(self, text: str, size: int, part_bytes: int) -> list[Bounds]:
        """Ranges of rows, by the bytes that the column of the text has."""
        metadata = self._file.metadata
        index = self.schema.get_field_index(text)
        groups = [metadata.row_group(number) for number in range(self._file.num_row_groups)]
        text_bytes = sum(group.column(index).total_uncompressed_size for group in groups)
        rows = metadata.num_rows
        return even_bounds(rows, max(1, rows * part_bytes // max(1, text_bytes)))
