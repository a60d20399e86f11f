"""The rows of tables of text: .csv and .tsv, or any other file whose columns a character separates.

In a .csv a field may stand between quotation marks, which are doubled inside it. In a .tsv some
programs write quotation marks so (pandas, spreadsheets), and for others they are ordinary
characters (the files of GLUE). Nothing in the file says which, so `quoting="auto"` reads the fields
as quoted only where they can hardly be anything else.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from minibert.corpus.json_rows import check_not_json
from minibert.corpus.lines import read_lines
from minibert.corpus.location import Location
from minibert.corpus.rows import (
    BadRow,
    OnBad,
    Quoting,
    Row,
    check_columns,
    hint_of_delimiter,
    refuse,
    shortened,
)

QUOTINGS = ("auto", "quoted", "none")

SAMPLE_CHARACTERS = 1 << 20  # after the first quotation mark, to detect quoting
# the first line of some spreadsheets, which names the delimiter
_DELIMITER_LINE = re.compile(r"sep=(.)[\r\n]*", re.IGNORECASE)
_QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')

SAMPLE_LINES = 20  # to detect a table under the name of a text
MIN_TABLE_LINES = 3
HEADER_DELIMITERS = (",", ";", "|", "\t")
# names of a header. A text whose first line is nothing but such names is hardly one
USUAL_COLUMNS = frozenset(
    ("text", "sentence", "sentence1", "premise", "document", "content", "review", "label", "labels")
    + ("문장", "본문", "라벨")
)
_COLUMN_NAME = re.compile(r"(?! )[\w .#-]{0,32}")

Record = tuple[int, list[str]]
"""The number of a record's last line, and its fields."""


def delimited_rows(
    location: Location,
    needed: Sequence[str] = (),
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
    on_bad: OnBad = refuse,
    *,
    may_name_columns: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a table of text.

    Args:
        location: The file.
        needed: Columns that it must have.
        names: Names of the first columns, for a file without a header line.
        delimiter: Character between columns. None: a comma in .csv, a tab in other files.
        quoting: "quoted": fields may stand between quotation marks. "none": quotation marks are
            ordinary characters. "auto": quoted, but with tabs only where the file evidently is.
        on_bad: Receives each row with another number of columns than the header.
        may_name_columns: The caller could pass `names`, so a message may advise it.

    Raises:
        ValueError: A delimiter or quoting that does not exist, a column that is missing or that
            occurs twice, a field without its closing quotation mark, JSON instead of a table, or
            what `on_bad` raises.
    """
    if delimiter is None:
        delimiter = _default_delimiter(location)
    _check_format(delimiter, quoting)
    delimiter, records = _records(location, delimiter, quoting)
    if names is None:
        first = next(records, None)
        if first is None:
            return
        columns = first[1]
    else:
        columns = list(names)
    check_columns(location, needed, columns, may_name_columns)
    for number, record in records:
        if _is_blank(record, columns):
            continue
        if len(record) < len(columns) or (len(record) > len(columns) and names is None):
            reason = _other_width(record, columns, delimiter)
            content = delimiter.join(record)
            on_bad(BadRow(f"{location}, line {number}", reason, content[:200]))
        else:
            yield f"line {number}", dict(zip(columns, record, strict=False))


def _check_format(delimiter: str, quoting: Quoting) -> None:
    if len(delimiter) != 1:
        raise ValueError(f"delimiter should be one character, not {delimiter!r}.")
    if quoting not in QUOTINGS:
        raise ValueError(f"quoting should be one of {', '.join(QUOTINGS)}, not {quoting!r}.")


def _is_blank(record: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether a line has nothing but blanks, where more than one column is expected."""
    return len(record) == 1 < len(columns) and not record[0].strip()


def _other_width(record: Sequence[str], columns: Sequence[str], delimiter: str) -> str:
    """What is wrong with a row of another number of columns than the header."""
    listing = ", ".join(shortened(column) for column in columns)
    reason = f"there are {len(record)} columns, not {len(columns)} ({listing})"
    if delimiter == "\t" and any('"' in field for field in record):
        reason += (
            ". If its fields stand between quotation marks, pass --quoting quoted "
            "(in Python quoting='quoted')"
        )
    return f"{reason}.{hint_of_delimiter(columns)}".removesuffix(".")


def evident_delimiter(lines: Sequence[str]) -> str | None:
    """The character between the columns of a table of text, where the lines evidently are one.

    Args:
        lines: The first lines of a file, `SAMPLE_LINES` where it has them.

    Returns:
        A tab where every line has as many, or the character between the names of a header that
        names a usual column. None: the lines may be a text each.
    """
    contents = [line.strip() for line in lines if line.strip()]
    if len(contents) < 2:
        return None
    tabs = {content.count("\t") for content in contents}
    if len(contents) >= MIN_TABLE_LINES and len(tabs) == 1 and tabs != {0}:
        return "\t"
    for delimiter in HEADER_DELIMITERS:
        if _is_header(contents[0], contents[1], delimiter):
            return delimiter
    return None


def _is_header(line: str, next_line: str, delimiter: str) -> bool:
    """Whether a line is evidently the header of a table, of which the next line is a row."""
    names = [name.strip("\"'").casefold() for name in line.split(delimiter)]
    if len(names) < 2 or next_line.count(delimiter) < len(names) - 1:
        return False
    return all(map(_COLUMN_NAME.fullmatch, names)) and not USUAL_COLUMNS.isdisjoint(names)


def _default_delimiter(location: Location) -> str:
    if location.suffix == ".csv":
        return ","
    return "\t"


def _records(location: Location, delimiter: str, quoting: Quoting) -> tuple[str, Iterator[Record]]:
    """The records of a file, without blank lines, and the character between their fields."""
    csv.field_size_limit(2**31 - 1)  # a text may be as long as the file
    # a quoted field continues on the next line, so a line that cannot be decoded cannot be left out
    lines: Iterator[str] = (line for _, line in read_lines(location, on_bad=refuse))
    before = 0  # lines before the records
    first_line = next(lines, "")
    named = _DELIMITER_LINE.fullmatch(first_line)
    if named:
        delimiter = named[1]
        before = 1
    else:
        check_not_json(location, "line 1", first_line)
        lines = chain([first_line], lines)
    if quoting == "auto" and delimiter == "\t":
        records = _detect_quoting(location, lines, delimiter, before)
    else:
        records = _split(location, lines, delimiter, quoting != "none", before)
    return delimiter, (record for record in records if record[1])


def _split(
    location: Location, lines: Iterator[str], delimiter: str, is_quoted: bool, before: int = 0
) -> Iterator[Record]:
    """Split lines into fields. `before` is the number of lines before them."""
    if is_quoted:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    first = before + 1
    try:
        for record in reader:
            first = before + reader.line_num + 1
            yield before + reader.line_num, record
    except csv.Error as error:
        raise ValueError(
            f"{location}, line {first}: {error}. Look for a quotation mark too many."
        ) from None


def _detect_quoting(
    location: Location, lines: Iterator[str], delimiter: str, before: int
) -> Iterator[Record]:
    """Split lines, and decide at the first quotation mark: only from there does it matter."""
    number = before
    width = 0
    for line in lines:
        if '"' in line:
            sample = [line, *_take(lines, SAMPLE_CHARACTERS)]
            is_quoted = _is_quoted(sample, delimiter, width)
            yield from _split(location, chain(sample, lines), delimiter, is_quoted, number)
            return
        number += 1
        record: list[str] = []
        if line.strip("\r\n"):
            record = line.rstrip("\r\n").split(delimiter)
        width = width or len(record)
        yield number, record


def _take(lines: Iterator[str], size: int) -> list[str]:
    """The next lines, about `size` characters of them."""
    taken: list[str] = []
    while size > 0:
        line = next(lines, None)
        if line is None:
            break
        taken.append(line)
        size -= len(line)
    return taken


def _is_quoted(sample: Sequence[str], delimiter: str, width: int) -> bool:
    """Whether lines of a table were evidently written with quoted fields.

    Args:
        sample: Lines, of which the first has a quotation mark.
        delimiter: Character between columns.
        width: Columns of the lines before, or 0 where the sample begins with the header.
    """
    rows = [line.rstrip("\r\n").split(delimiter) for line in sample if line.strip("\r\n")]
    if not width and all(map(_QUOTED_FIELD.fullmatch, rows[0])):
        return True  # only a program that quotes puts every name of a header between marks
    fields = [field for row in rows for field in row if '"' in field]
    if all(map(_QUOTED_FIELD.fullmatch, fields)):
        return any('""' in field[1:-1] for field in fields)
    # quoted fields may hold tabs and line ends: then only one of the two readings is a table
    expected = width or len(rows[0])
    if all(len(row) == expected for row in rows):
        return False
    return _quoted_widths(sample, delimiter) == {expected}


def _quoted_widths(sample: Sequence[str], delimiter: str) -> set[int]:
    """The numbers of columns of the records that a sample holds, read as quoted."""
    widths = []
    try:
        for record in csv.reader(sample, delimiter=delimiter, strict=True):
            if record:
                widths.append(len(record))
    except csv.Error:  # the sample may end within a field
        if not widths:
            return set()
    return set(widths)
