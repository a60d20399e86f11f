"""Formats of files, a file each: rows of texts and columns of vectors by the same decision.

The ending of a name says its format, and a `Table` can override it. A new format is a class in a
file of this folder and a place in `FORMATS`.
"""

from __future__ import annotations

from minibert.text.formats.arrow import Arrow
from minibert.text.formats.delimited import Csv, Tsv
from minibert.text.formats.format import Chunks, Entry, Format, RowFormat, RowWriter, VectorFormat
from minibert.text.formats.json_array import JsonArray
from minibert.text.formats.json_lines import JsonLines
from minibert.text.formats.npy import Npy
from minibert.text.formats.parquet import Parquet
from minibert.text.formats.plain_lines import Lines
from minibert.text.formats.safetensors import Safetensors
from minibert.text.location import Location
from minibert.text.table import Table

__all__ = [
    "FORMATS",
    "ROW_FORMATS",
    "ROW_WRITERS",
    "SHARD_FORMATS",
    "VECTOR_FORMATS",
    "Chunks",
    "Entry",
    "Format",
    "JsonArray",
    "RowFormat",
    "RowWriter",
    "VectorFormat",
    "row_format",
    "row_writer",
    "vector_format",
]

CSV = Csv()
FORMATS: tuple[Format, ...] = (
    Npy(),
    Safetensors(),
    CSV,
    Tsv(),
    JsonLines(),
    JsonArray(),
    Parquet(),
    Arrow(),
)
ROW_FORMATS = {end: form for form in FORMATS if isinstance(form, RowFormat) for end in form.endings}
LINES = Lines(end for end, form in ROW_FORMATS.items() if form.has_columns)
ROW_WRITERS = {end: form for form in FORMATS if isinstance(form, RowWriter) for end in form.endings}
VECTOR_FORMATS = {
    end: form for form in FORMATS if isinstance(form, VectorFormat) for end in form.endings
}
SHARD_FORMATS = {form.name: form for form in VECTOR_FORMATS.values()}


def row_format(file: Location, table: Table) -> RowFormat:
    """Return the format in which the rows of a file are read.

    An ending that no format has means lines, or a table where a delimiter is named.

    Args:
        file: The file, compressed or not.
        table: How it is read.
    """
    return ROW_FORMATS.get(file.suffix, LINES if table.delimiter is None else CSV)


def row_writer(file: Location) -> RowWriter | None:
    """Return the format in which a file of rows is written, or None. It is not compressed."""
    return None if file.compressed else ROW_WRITERS.get(file.suffix)


def vector_format(file: Location) -> VectorFormat | None:
    """Return the format of a file of vectors, or None. It is not compressed."""
    return None if file.compressed else VECTOR_FORMATS.get(file.suffix)
