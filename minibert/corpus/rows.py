"""What every reader of a corpus yields: rows and their places, texts, and rows without a text."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
SHOWN_CHARACTERS = 80  # of the name of a column
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


def check_columns(
    location: Location, needed: Sequence[str], columns: Sequence[str], may_lack_header: bool = False
) -> None:
    """Check that a table has the columns that are read, and each of its names once.

    Raises:
        ValueError: A column is missing, or two have one name. The message lists those that exist,
            and names the likely mistake.
    """
    for name in needed:
        if name not in columns:
            raise ValueError(f"{location}: {missing_column(name, columns, may_lack_header)}")
    for name, occurrences in Counter(columns).items():
        if occurrences > 1 and name:  # spreadsheets leave columns without a name
            raise ValueError(f"{location} has the column {name!r} twice: rename one.")


def missing_column(name: str, columns: Sequence[str], may_lack_header: bool = False) -> str:
    """A sentence about a column that a table or a row lacks. See `hint_of_header`."""
    listing = ", ".join(shortened(column) for column in columns) or "none"
    hint = hint_of_header(name, columns, may_lack_header)
    return f"there is no column {name!r}. The columns are {listing}.{hint}"


def shortened(text: str) -> str:
    """A text as a message shows it."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}..."


def text_fault(name: str, row: Mapping[str, Any]) -> str:
    """What is wrong with the text in a column that a row has, or nothing."""
    value = row[name]
    if isinstance(value, str):
        return ""
    if value is None:
        return f"{name} is null"
    return f"{name} should be a text, not {value!r:.80}{_hint_of_columns(row)}"


def missing_in_row(name: str, row: Mapping[str, Any], may_lack_header: bool = False) -> str:
    """A sentence about a column that a row lacks."""
    return missing_column(name, list(row), may_lack_header) + hint_of_nested_rows(row)


def hint_of_nested_rows(row: Mapping[str, Any]) -> str:
    """A sentence about an object that holds the rows, with a blank before it, or nothing."""
    for key, value in row.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return (
                f" The value of {key!r} is a list of objects: if they are the rows, write that "
                f"list alone into the file (jq .{key})."
            )
    if row and all(isinstance(value, dict) for value in row.values()):
        return (
            " Its values are objects: if they are the rows, write them as a list into the file "
            "(jq '[.[]]')."
        )
    return ""


def _hint_of_columns(row: Mapping[str, Any]) -> str:
    """A sentence where a row is a whole table, written by columns."""
    lengths = set()
    for value in row.values():
        if not isinstance(value, list | dict):
            return ""
        lengths.add(len(value))
    if len(row) < 2 or len(lengths) > 1:
        return ""
    return (
        ". The file seems to hold a list for each column: write an object for each row (in pandas "
        "to_json(orient='records', lines=True))"
    )


def hint_of_delimiter(columns: Sequence[str]) -> str:
    """A sentence about a header that was read as a single column, or nothing."""
    if len(columns) != 1:
        return ""
    for delimiter, option in _DELIMITERS.items():
        if delimiter in columns[0]:
            return (
                " The header was read as a single column: pass --delimiter "
                f"{option} (in Python delimiter={delimiter!r})."
            )
    return ""


def hint_of_header(name: str, columns: Sequence[str], may_lack_header: bool = False) -> str:
    """A sentence about what helps where a header is almost right, with a blank before it.

    Args:
        name: A column that is missing.
        columns: Those that the header has.
        may_lack_header: The file is a table of text, and the caller can name its columns.

    Returns:
        The sentence, or "" where nothing is likely to help.
    """
    hint = hint_of_delimiter(columns)
    if hint:
        return hint
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
