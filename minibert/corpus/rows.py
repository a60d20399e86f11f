"""What every reader of a corpus yields: rows and their places, texts, and rows without a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minibert.corpus.location import Location


class Text(str):
    """A str that carries the id of its row.

    Attributes:
        id: The value of the id column; None where no id column was requested.
    """

    id: str | int | None

    def __new__(cls, text: str, id: str | int | None = None) -> Text:
        """Create the text with its id."""
        instance = super().__new__(cls, text)
        instance.id = id
        return instance


class BadRow(NamedTuple):
    """A row without a text.

    Attributes:
        place: Its file and line (or row).
        reason: What is wrong with it.
        content: How it begins.
    """

    place: str
    reason: str
    content: str


class Part(NamedTuple):
    """A part of a file: rows of parquet, else the lines that begin in a range of bytes.

    Attributes:
        file: Path or URI.
        start: First row or byte.
        end: Row or byte after the last; None reads to the end of the file.
    """

    file: str
    start: int = 0
    end: int | None = None


OnBad = Callable[[BadRow], object]
Row = tuple[str, dict[str, Any]]
"""Where a row stands ("line 7"), and its values by column."""


def refuse(row: BadRow) -> None:
    """Stop at a row without a text.

    Raises:
        ValueError: Always, with the place and the reason.
    """
    raise ValueError(f"{row.place}: {row.reason}.")


def check_columns(location: Location, needed: Sequence[str], columns: Sequence[str]) -> None:
    """Check that a table has the columns that are read.

    Raises:
        ValueError: A column is missing. The message lists those that exist, and names the likely
            mistake.
    """
    for name in needed:
        if name not in columns:
            listing = ", ".join(columns) or "none"
            advice = _advice(name, columns)
            raise ValueError(
                f"{location} has no column {name!r}; its columns are {listing}{advice}."
            )


def _advice(name: str, columns: Sequence[str]) -> str:
    for column in columns:
        if column.strip().casefold() == name.strip().casefold():
            return f". Did you mean {column!r}"
    if len(columns) == 1:
        for delimiter in (";", "\t", "|", ","):
            if delimiter in columns[0]:
                return f". The header looks delimited by {delimiter!r}: pass it as the delimiter"
    return ""
