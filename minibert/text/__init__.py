"""Texts as they are: files and folders, tables and lines, here or elsewhere, row by row."""

from minibert.text.read import Part, parts_of, read, read_json_value, read_part
from minibert.text.rows import BadRow, BadRowError, Row, left_out
from minibert.text.table import Table

__all__ = [
    "BadRow",
    "BadRowError",
    "Part",
    "Row",
    "Table",
    "left_out",
    "parts_of",
    "read",
    "read_json_value",
    "read_part",
]
