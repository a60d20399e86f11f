"""Writing rows with columns, atomically, in the formats that `minibert.text.formats` has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minibert.text.formats import ROW_WRITERS, RowWriter, row_writer
from minibert.text.location import Location
from minibert.text.table import check_encoding
from minibert.util.errors import ArgumentError


def write_rows(
    path: str,
    rows: Iterable[Mapping[str, Any]],
    output_encoding: str | None = None,
    columns: Sequence[str] = (),
) -> int:
    """Write rows into a file, and return their number.

    Args:
        path: The file, a path or a URI. Its ending determines the format.
        rows: The columns of each row by name. All rows have those of the first.
        output_encoding: Encoding of a file of text. None: UTF-8.
        columns: Columns of a table without any row, which has a header nevertheless.

    Raises:
        ValueError: No format of rows has this ending, or a value cannot stand in such a file, as a
            tab in .tsv, or a character that the encoding lacks.
        OSError: The file cannot be written.
    """
    writer = writer_of(path, output_encoding)
    count = 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    with Location(path).replacing() as temporary:
        writer.write_rows(temporary, counted(), output_encoding or "utf-8", columns)
    return count


def writer_of(path: str, output_encoding: str | None = None) -> RowWriter:
    """Return the format in which a file of rows is written.

    Raises:
        ValueError: No format has its ending, or the encoding does not exist or has no effect.
    """
    writer = row_writer(Location(path))
    if writer is None:
        raise ValueError(f"{Path(path).name!r} should end in {', '.join(ROW_WRITERS)}.")
    if output_encoding is not None:
        check_encoding("output_encoding", output_encoding)
        if writer.is_binary:
            name = Path(path).name
            raise ArgumentError(
                "output_encoding", f"has no effect on {name!r}, which is not text: drop it."
            )
    return writer
