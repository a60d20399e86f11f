"""The rows of parquet files, which need pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from minibert.corpus.encodings import kind_of
from minibert.corpus.location import Location
from minibert.corpus.rows import Row, check_columns
from minibert.extras import need

BATCH_ROWS = 4096
HEAD_BYTES = 512
_MAGIC = b"PAR1"


def parquet_rows(
    location: Location,
    start: int,
    end: int | None,
    needed: Sequence[str],
    required: Sequence[str] = (),
) -> Iterator[Row]:
    """Yield the rows `[start, end)` of a file. Only the row groups that hold them are read.

    Args:
        location: The file.
        start: First row.
        end: Row after the last. None reads to the end.
        needed: Columns to read. Empty reads all of them.
        required: Other columns that the file must have.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: A damaged file, or one without a column.
    """
    with open_parquet(location, [*needed, *required]) as table:
        first = 0
        for group in range(table.metadata.num_row_groups):
            after = first + table.metadata.row_group(group).num_rows
            if after > start and (end is None or first < end):
                yield from _rows_of_group(table, group, first, start, end, needed)
            first = after


def _rows_of_group(
    table: Any, group: int, first: int, start: int, end: int | None, needed: Sequence[str]
) -> Iterator[Row]:
    columns = list(needed) or None
    for batch in table.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
        begin = max(0, start - first)
        stop = len(batch)
        if end is not None:
            stop = max(0, end - first)
        for number, row in enumerate(batch[begin:stop].to_pylist(), first + begin):
            yield f"row {number}", row
        first += len(batch)


def rows_and_bytes(location: Location, column: str) -> tuple[int, int]:
    """Return the number of rows of a file, and the decompressed bytes of a column.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: A damaged file, or one without the column.
    """
    with open_parquet(location, [column]) as table:
        metadata = table.metadata
        index = table.schema_arrow.get_field_index(column)
        size = 0
        for group in range(metadata.num_row_groups):
            size += metadata.row_group(group).column(index).total_uncompressed_size
        return metadata.num_rows, size


def _packed(location: Location) -> str:
    return f"{location} is compressed as a whole: decompress it. Parquet compresses its columns."


def _check_head(location: Location) -> None:
    """Raise a ValueError for a file of another kind, whatever its name says."""
    with location.open() as file:
        head = file.read(HEAD_BYTES)
    kind = kind_of(head)
    if kind is not None and "compressed" in kind:
        raise ValueError(_packed(location))
    if kind is not None and not head.startswith(_MAGIC):
        raise ValueError(f"{location} is {kind}.")
    if head and not head.startswith(_MAGIC):
        raise ValueError(
            f"{location} is not a parquet file but begins with {head[:40]!r}. "
            "Rename it to end as what it is."
        )


def open_parquet(location: Location, columns: Sequence[str]) -> Any:
    """Open a file, and check its columns.

    Returns:
        A `pyarrow.parquet.ParquetFile`.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: A damaged file, or one without a column.
    """
    pyarrow = need("pyarrow", "parquet", "Reading .parquet")
    parquet = need("pyarrow.parquet", "parquet", "Reading .parquet")
    if location.compressed:
        raise ValueError(_packed(location))
    try:
        file = parquet.ParquetFile(location.path, filesystem=location.fs)
    except pyarrow.ArrowInvalid as error:
        _check_head(location)
        raise ValueError(f"{location} is not a complete parquet file: {error}") from None
    check_columns(location, columns, file.schema_arrow.names)
    return file
