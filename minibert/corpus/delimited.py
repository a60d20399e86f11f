"""The rows of tables of text: .csv and .tsv, or any other file whose columns a character separates.

In a .csv a field may stand between quotation marks, which are doubled inside it. In a .tsv some
programs write quotation marks so (pandas, spreadsheets), and for others they are ordinary
characters (the files of GLUE). Nothing in the file says which, so `quoting="auto"` reads the fields
as quoted only where they can hardly be anything else.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from minibert.corpus.lines import read_lines
from minibert.corpus.location import Location
from minibert.corpus.rows import BadRow, OnBad, Quoting, Row, check_columns, refuse

QUOTINGS = ("auto", "quoted", "none")

SAMPLE_CHARACTERS = 1 << 20  # after the first quotation mark, to detect quoting
_QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')

Record = tuple[int, list[str]]
"""The number of a record's last line, and its fields."""


def delimited_rows(
    location: Location,
    needed: Sequence[str] = (),
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
    on_bad: OnBad = refuse,
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

    Raises:
        ValueError: A delimiter or quoting that does not exist, a column that is missing or that
            occurs twice, a field without its closing quotation mark, or what `on_bad` raises.
    """
    if delimiter is None:
        delimiter = _default_delimiter(location)
    if len(delimiter) != 1:
        raise ValueError(f"delimiter should be one character, not {delimiter!r}.")
    if quoting not in QUOTINGS:
        raise ValueError(f"quoting should be one of {', '.join(QUOTINGS)}, not {quoting!r}.")
    records = _records(location, delimiter, quoting)
    if names is None:
        _, columns = next(records, (0, []))
    else:
        columns = list(names)
    check_columns(location, needed, columns)
    _check_unique(location, columns)
    for number, record in records:
        too_long = len(record) > len(columns) and names is None
        if len(record) < len(columns) or too_long:
            reason = f"there are {len(record)} columns, not {len(columns)} ({', '.join(columns)})"
            content = delimiter.join(record)
            if '"' in content and delimiter == "\t":
                reason += (
                    ". If its fields stand between quotation marks, pass --quoting quoted "
                    "(in Python quoting='quoted')"
                )
            on_bad(BadRow(f"{location}, line {number}", reason, content[:200]))
        else:
            yield f"line {number}", dict(zip(columns, record, strict=False))


def _default_delimiter(location: Location) -> str:
    if location.suffix == ".csv":
        return ","
    return "\t"


def _check_unique(location: Location, columns: Sequence[str]) -> None:
    for name, occurrences in Counter(columns).items():
        if occurrences > 1:
            raise ValueError(f"{location} has the column {name!r} twice: rename one.")


def _records(location: Location, delimiter: str, quoting: Quoting) -> Iterator[Record]:
    """The records of a file, without blank lines."""
    csv.field_size_limit(2**31 - 1)  # a text may be as long as the file
    # a quoted field continues on the next line, so a line that cannot be decoded cannot be left out
    lines = (line for _, line in read_lines(location, on_bad=refuse))
    if quoting == "auto" and delimiter == "\t":
        records = _detect_quoting(location, lines, delimiter)
    else:
        records = _split(location, lines, delimiter, is_quoted=quoting != "none")
    return (record for record in records if record[1])


def _split(
    location: Location, lines: Iterator[str], delimiter: str, is_quoted: bool, before: int = 0
) -> Iterator[Record]:
    """Split lines into fields. `before` is the number of lines before them."""
    if is_quoted:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    try:
        for record in reader:
            yield before + reader.line_num, record
    except csv.Error as error:
        number = before + reader.line_num
        raise ValueError(
            f"{location}, line {number}: {error}. Look for a quotation mark too many."
        ) from None


def _detect_quoting(location: Location, lines: Iterator[str], delimiter: str) -> Iterator[Record]:
    """Split lines, and decide at the first quotation mark: only from there does it matter."""
    number = 0
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
