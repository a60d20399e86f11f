"""What is asked of the rows of a file: their columns, and what becomes of rows without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any
from unicodedata import normalize

from minibert.text.lines import text_lines
from minibert.text.location import Location
from minibert.text.rows import SHOWN_CHARACTERS, BadRow, Row
from minibert.text.table import COLUMNS, Table
from minibert.util.errors import Argument, Message
from minibert.util.files import json_kind

RawRow = tuple[str, int, Any, Any, str]
"""What a format found: the unit of its number ("line"), its number, the values by column or what
stands in their place, how it looks in the file, and what is wrong with it or nothing."""


class RowRequest:
    """A request for the rows of a file, or of the part `[start, end)` of it.

    What becomes of the lines of text is decided in `lines`, and of the values of a row in `rows`,
    for every format.

    Args:
        file: The file.
        table: How it is read.
        skip: Receives the rows that cannot be used. None: the first is an error.
        columns: Columns that each row must have. None: those that the table names.
        only: Read only these columns, where a format can leave others out.
        start: First byte of text, row of parquet or batch of Arrow.
        end: Byte, row or batch after the last. None: to the end.
    """

    def __init__(
        self,
        file: Location,
        table: Table,
        skip: list[BadRow] | None = None,
        columns: Sequence[str] | None = None,
        only: bool = False,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        self.file = file
        self.name = str(file)
        self.table = table
        self.skip = skip
        self.needed = table.needed if columns is None else tuple(columns)
        self.only = only
        self.start = start
        self.end = end
        self.unit = "byte" if start else "line"

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines of text of the file or part, with their numbers."""
        return text_lines(self.file, self.table.encoding, self.skip, self.start, self.end)

    def lines_with(self, undecoded: list[BadRow] | None) -> Iterator[tuple[int, str]]:
        """All lines of text, also those that `undecoded` receives, with replacement characters."""
        return text_lines(self.file, self.table.encoding, undecoded, keep_bad=True)

    def rows(self, records: Iterable[RawRow], is_typed: bool) -> Iterator[Row]:
        """Yield the rows that records are. Those that cannot be used are left out, or errors.

        Args:
            records: What the format found.
            is_typed: Whether values may be of any type. Otherwise they are strings, and each column
                that is needed is there.
        """
        name, table = self.name, self.table
        for unit, number, values, content, reason in records:
            if is_typed and not reason:
                reason = self.fault(values)
            if reason:
                shown = content if isinstance(content, str) else repr(content)
                BadRow.leave_out(self.skip, f"{name}, {unit} {number}", reason, shown)
            else:
                yield Row(name, number, values, table, unit)

    def check_columns(self, columns: Sequence[str], advice: str = "") -> None:
        """Raise a ValueError where a column that is needed is missing or occurs twice."""
        for name in self.needed:
            if name not in columns:
                fault = _missing(name, columns, self.table)
                raise ValueError(Message(f"{self.file}: ", fault, ".", advice))
            if list(columns).count(name) > 1:
                raise ValueError(f"{self.file} has the column {name!r} twice: rename one.")

    def fault(self, values: Any) -> str:
        """What is wrong with the values of a row, or nothing."""
        if not isinstance(values, dict):
            return f"the row should be a JSON object but is {json_kind(values)}"
        return row_fault(values, self.table, self.needed)


def row_fault(values: Mapping[str, Any], table: Table, needed: Iterable[str]) -> str:
    """What is wrong with the values of a row, or nothing.

    Args:
        values: The values by column.
        table: Which columns hold texts, and which an id.
        needed: The columns that every row has.
    """
    for name in needed:
        if name not in values:
            sentence = _missing(name, list(values), table)
            for key, value in values.items():
                if isinstance(value, list | dict):
                    return Message(
                        sentence,
                        f". {key!r} is nested: write a flat object for each row, with its text",
                    )
            return sentence
        value = values[name]
        if name in (table.text, table.pair) and not isinstance(value, str):
            if value is None:
                return f"{name} is null"
            return f"{name} should be a text, not {value!r:.80}"
        if name == table.id and (not isinstance(value, str | Integral) or isinstance(value, bool)):
            return f"{name} should be a whole number or a string, not {value!r:.80}"
    return ""


def _without_form(name: str) -> str:
    """A name without what is easily overlooked: case, blanks, and how letters are composed."""
    return normalize("NFC", name).strip().casefold()


def _missing(name: str, columns: Sequence[str], table: Table) -> str:
    """What is wrong where a column is missing. It lists those that are there."""
    listing = ", ".join(str(column)[:SHOWN_CHARACTERS] for column in columns) or "none"
    sentence = f"there is no column {name!r}. The columns are {listing}"
    for field in COLUMNS:
        if getattr(table, field) == name:
            alike = [c for c in columns if _without_form(str(c)) == _without_form(name)]
            named = Argument(field, alike[0] if alike else ..., Table)
            if alike and normalize("NFC", alike[0]) == normalize("NFC", name):
                sentence += ". That of the file looks the same, but its letters are composed in "
                sentence += "another way (NFC and NFD)"
            return Message(sentence, ". Name the right one by ", named)
    return sentence
