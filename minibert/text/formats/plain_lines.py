"""A text a line, in files of any ending that no other format has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from minibert.text.formats.format import Bounds, RowFormat
from minibert.text.lines import HEAD_BYTES, check_is_text, is_wide
from minibert.text.location import Location
from minibert.text.request import RawRow, RowRequest
from minibert.text.table import Table
from minibert.util.errors import Argument, Message
from minibert.util.files import RECIPES


class Lines(RowFormat):
    """Lines of text. Each is a row of its own, so that reading can begin at any line.

    Args:
        table_endings: Endings of the formats that have columns, which an error names.
    """

    name = "lines"
    endings = ()
    meaning = "a text a line"
    has_columns = False
    without_effect = ("quoting",)  # a column that is needed is an error

    def __init__(self, table_endings: Iterable[str]) -> None:
        *endings, last = table_endings
        self._table_endings = f"{', '.join(endings)} or {last}"

    def records(self, request: RowRequest) -> Iterator[RawRow]:
        """A record for each line."""
        others = [
            name for name in (*request.needed, *(request.table.columns or ())) if name != Table.text
        ]
        if others:
            with request.file.open() as file:
                check_is_text(file.read(HEAD_BYTES), request.file)
            raise ValueError(
                Message(
                    f"{request.file} is read as lines, which have no column {others[0]!r}. A table "
                    f"ends in {self._table_endings}, or is read with ",
                    Argument("delimiter", ..., Table),
                    f". {RECIPES}.",
                )
            )
        # looked up once, because there may be millions of lines
        unit, column = request.unit, request.table.text
        lines = request.lines()
        for number, line in lines:
            text = line.rstrip("\r\n")
            if request.start == 0 and text.strip():
                _check_is_no_json(request.file, number, text.strip())
            yield unit, number, {column: text}, "", ""
            if text.strip():
                break
        for number, line in lines:
            yield unit, number, {column: line.rstrip("\r\n")}, "", ""

    def bounds(self, request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
        """Ranges of bytes."""
        return bounds_of_lines(request, size, part_bytes)


def bounds_of_lines(request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
    """Ranges of bytes of a file whose lines are rows of their own."""
    if size <= part_bytes or is_wide(request.file, request.table.encoding):
        return [(0, None)]
    return even_bounds(size, part_bytes)


def even_bounds(count: int, step: int) -> list[Bounds]:
    """Split `count` bytes, rows or batches into parts of `step`."""
    starts = range(0, max(1, count), step)
    return [(start, start + step if start + step < count else None) for start in starts]


def _check_is_no_json(file: Location, number: int, line: str) -> None:
    """Raise a ValueError if the first line of a file of lines is an object, or begins with one."""
    if line[0] not in "{[":
        return
    try:
        value, _ = json.JSONDecoder().raw_decode(line)
    except (ValueError, RecursionError):
        value = [{}] if line in ("{", "[", "[{") else []
    if isinstance(value, dict):
        value = [value] if value else []
    if value and isinstance(value[0], dict):
        raise ValueError(
            f"{file}, line {number}: the line is JSON, but {file} is read as lines of text by its "
            "name. Rename it to end in .jsonl if it has an object a line, or in .json if it is an "
            "array."
        )
