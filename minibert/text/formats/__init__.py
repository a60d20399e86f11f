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
from minibert.text.formats.lines import Lines
from minibert.text.formats.npy import Npy
from minibert.text.formats.parquet import Parquet
from minibert.text.formats.safetensors import Safetensors
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
]

LINES = Lines()
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
ROW_WRITERS = {end: form for form in FORMATS if isinstance(form, RowWriter) for end in form.endings}
VECTOR_FORMATS = {
    end: form for form in FORMATS if isinstance(form, VectorFormat) for end in form.endings
}
SHARD_FORMATS = {form.name: form for form in VECTOR_FORMATS.values()}


def row_format(ending: str, table: Table) -> RowFormat:
    """Return the format in which rows are read.

    Args:
        ending: The ending of a name in lower case, such as ".csv", without that of a compressed
            file. One that no format has means lines, or a table where a delimiter is named.
        table: How the file is read.
    """
    return ROW_FORMATS.get(ending, LINES if table.delimiter is None else CSV)
