"""The rows of a file, and those that cannot be used."""

from __future__ import annotations

from typing import Any, NamedTuple

from minibert.text.table import Table
from minibert.util.checks import amount
from minibert.util.errors import Message

SHOWN_CHARACTERS = 200  # of a bad row, or of the name of a column


class BadRow(NamedTuple):
    """A row that cannot be used.

    Attributes:
        place: Its file and line (or row).
        reason: What is wrong with it.
        content: How it begins.
    """

    place: str
    reason: str
    content: str

    @classmethod
    def leave_out(cls, skip: list[BadRow] | None, place: str, reason: str, content: str) -> None:
        """Leave a row out.

        Args:
            skip: Receives the row. None: it is an error.
            place: Its file and line (or row).
            reason: What is wrong with it, without a period.
            content: What it holds, of which the beginning is kept.

        Raises:
            BadRowError: There is no `skip`.
        """
        if skip is None:
            raise BadRowError(Message(f"{place}: ", reason, ".")) from None
        skip.append(cls(place, reason, content[:SHOWN_CHARACTERS]))


class BadRowError(ValueError):
    """A row that cannot be used, where bad rows are errors."""


def left_out(rows: list[BadRow]) -> str:
    """Say how many rows were left out, and what is wrong with the first."""
    first = rows[0]
    count = amount(len(rows), "bad row")
    return Message(f"{count} left out, the first at {first.place}: ", first.reason)


class Row:
    """A row of a file.

    Attributes:
        file: Path or URI of the file, or "stdin".
        line: Its number from 1: the line where it begins, or the row of parquet or Arrow.
        values: Its values by column. Those of .csv and .tsv are strings, a line of text has the
            column of the text alone, and all others keep their types.
        table: How the file is read, which names the columns.
        unit: What `line` counts: "line" or "row", and in a part of a file "byte" or "batch 2, row".
    """

    __slots__ = ("file", "line", "table", "unit", "values")

    def __init__(
        self, file: str, line: int, values: dict[str, Any], table: Table, unit: str = "line"
    ) -> None:
        self.file = file
        self.line = line
        self.values = values
        self.table = table
        self.unit = unit

    def __repr__(self) -> str:
        return f"Row({self.place!r}, {self.values!r})"

    @property
    def place(self) -> str:
        """File and line, as "notes.txt, line 7"."""
        return f"{self.file}, {self.unit} {self.line}"

    @property
    def text(self) -> str:
        """The text."""
        text: str = self.values[self.table.text]
        return text

    @property
    def pair(self) -> str | None:
        """The second text of a pair, or None where the table names none."""
        return None if self.table.pair is None else self.values[self.table.pair]

    @property
    def label(self) -> Any:
        """The label, or None where the table names none."""
        return None if self.table.label is None else self.values[self.table.label]

    @property
    def id(self) -> str | int | None:
        """The id, or None where the table names none."""
        return None if self.table.id is None else self.values[self.table.id]
