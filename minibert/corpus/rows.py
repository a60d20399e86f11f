"""What every reader of a corpus yields: rows and their places, texts, and rows without a text."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from minibert.corpus.location import Location

Quoting = Literal["auto", "quoted", "none"]
"""Whether fields of a table of text may stand between quotation marks (see `delimited_rows`)."""


class Text(str):
    """A str that carries the id of its row.

    Attributes:
        id: The value of the id column, or None where no id column was requested.
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


class PlacedRow(dict[str, Any]):
    """The columns of a row by name.

    Attributes:
        place: Its file and line, as an editor counts them.
        may_lack_header: The file is a table of text, and may have no header line.
    """

    place: str = ""
    may_lack_header: bool = False


class Part(NamedTuple):
    """A part of a file: rows of parquet, else the lines that begin in a range of bytes.

    Attributes:
        file: Path or URI.
        start: First row or byte.
        end: Row or byte after the last. None reads to the end of the file.
        delimiter: Character between the columns of a table of text. None: as the ending says. With
            it a file of any other ending is read as a table, too.
        quoting: Whether fields stand between quotation marks.
    """

    file: str
    start: int = 0
    end: int | None = None
    delimiter: str | None = None
    quoting: Quoting = "auto"


# delimiters that a header may show, as a shell takes them
_DELIMITERS = {"\t": "tab", ";": "';'", "|": "'|'", ",": ","}
_DEFAULT_COLUMNS = ("text", "label")  # read unless an option names others
NO_HEADER = (
    " If the file has no header line, name its columns in order, as by --columns text,label."
)

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
            raise ValueError(
                f"{location} has no column {name!r}. Its columns are {listing}."
                f"{hint_of_header(name, columns)}"
            )


def hint_of_header(name: str, columns: Sequence[str], may_lack_header: bool = False) -> str:
    """A sentence about what helps where a header is almost right, with a blank before it.

    Args:
        name: A column that is missing.
        columns: Those that the header has.
        may_lack_header: The file is a table of text, and the caller can name its columns.

    Returns:
        The sentence, or "" where nothing is likely to help.
    """
    if len(columns) == 1:
        for delimiter, option in _DELIMITERS.items():
            if delimiter in columns[0]:
                return (
                    " The header was read as a single column: pass --delimiter "
                    f"{option} (in Python delimiter={delimiter!r})."
                )
    for column in columns:
        if column.strip().casefold() == name.strip().casefold():
            option = f"pass --{name}-column" if name in _DEFAULT_COLUMNS else "name it as"
            return f" The column {column!r} differs only in case or blanks: {option} {column!r}."
    matches = difflib.get_close_matches(name, columns, n=1, cutoff=0.75)
    if matches:
        return f" The nearest name is {matches[0]!r}."
    advice = ""
    if name in _DEFAULT_COLUMNS:
        advice = f" Name the column of the {name} by --{name}-column."
    if may_lack_header:
        advice += NO_HEADER
    return advice
