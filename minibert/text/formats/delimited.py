"""Tables of text: .csv with commas and quotation marks, .tsv with tabs and without."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minibert.text.formats.format import RowFormat, RowWriter, text_writer, with_columns
from minibert.text.lines import MAX_LINE_BYTES
from minibert.text.request import RawRow, RowRequest
from minibert.text.rows import SHOWN_CHARACTERS, BadRow, BadRowError
from minibert.text.table import Table
from minibert.util.errors import Argument, Message, message_of
from minibert.util.files import json_text

DELIMITERS = (",", "\t", ";", "|")
QUOTED = Argument("quoting", "quoted", Table)  # of messages
NOT_QUOTED = Argument("quoting", "none", Table)
_QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')
_QUOTED = re.compile(r'[,"\r\n]')
_NOT_IN_TSV = re.compile(r"[\t\r\n]")

Fields = tuple[int, list[str]]
"""The line where a row of a table begins, and its fields."""


class Delimited(RowFormat, RowWriter):
    """A table of text.

    Attributes:
        delimiter: Character between the columns, unless a `Table` names another.
    """

    delimiter: str

    def records(self, request: RowRequest) -> Iterator[RawRow]:
        """A record for each line, or several lines where a field holds line breaks."""
        delimiter = request.table.delimiter or self.delimiter
        quoting = request.table.quoting or ("none" if delimiter == "\t" else "quoted")
        split = _quoted_records if quoting == "quoted" else _plain_records
        records = split(request, delimiter)
        columns = request.table.columns
        width = 0
        if columns is None:
            header = _header_of(request, records)
            if header is None:
                return
            columns = tuple(header)
            width = len(columns)
            _check_header(request, columns, delimiter, quoting)
        advice = Message(" If the file has no header, pass ", Argument("columns", ..., Table), ".")
        request.check_columns(columns, advice)
        for number, record in records:
            # without a header the first row says how many there are, of which some have a name
            width = width or max(len(columns), len(record))
            if len(record) == width:
                yield "line", number, dict(zip(columns, record, strict=False)), "", ""
                continue
            listing = ", ".join(column[:SHOWN_CHARACTERS] for column in columns)
            if width > len(columns):
                listing += f", and {width - len(columns)} more in the first row"
            reason = Message(f"there are {len(record)} columns, not {width} ({listing})")
            content = delimiter.join(record)
            if quoting == "none" and '"' in content:
                reason = Message(reason, ". If fields stand between quotation marks, pass ", QUOTED)
            yield "line", number, record, content, reason

    def write_rows(
        self,
        path: Path,
        rows: Iterator[Mapping[str, Any]],
        encoding: str,
        columns: Sequence[str] = (),
    ) -> None:
        """Write a header and a line for each row."""
        columns, rows = with_columns(rows, columns)
        if columns and columns[0].startswith("\ufeff"):
            raise ValueError(
                f"the column {columns[0]!r:.80} begins with a byte order mark, which readers take "
                "away at the start of a file: rename it, or write .jsonl."
            )
        with text_writer(path, encoding) as file:
            file.write(self.line(columns) + "\n")
            for row in rows:
                file.write(self.line([_cell(row.get(name)) for name in columns]) + "\n")

    def line(self, cells: list[str]) -> str:
        """The line of a row, without its end."""
        raise NotImplementedError


class Csv(Delimited):
    """A table with commas, whose fields may stand between quotation marks."""

    name = "csv"
    endings = (".csv",)
    meaning = "a table, with commas and fields in quotation marks"
    delimiter = ","

    def line(self, cells: list[str]) -> str:
        """The cells, between quotation marks where they need them."""
        return ",".join(map(_csv_field, cells)) or '""'


class Tsv(Delimited):
    """A table with tabs, in which quotation marks are ordinary characters."""

    name = "tsv"
    endings = (".tsv",)
    meaning = "a table, with tabs and without quotation marks"
    delimiter = "\t"

    def line(self, cells: list[str]) -> str:
        """The cells, of which none may need quotation marks."""
        for cell in cells:
            if _NOT_IN_TSV.search(cell) or _is_quoted(cell):
                raise ValueError(
                    f"{cell!r:.80} would be read back as something else from a .tsv, which has no "
                    "quotation marks around tabs and line breaks: write .csv or .jsonl."
                )
        line = "\t".join(cells)
        if not line:
            raise ValueError(
                "an empty cell would be an empty line in a .tsv of one column, which is no row: "
                "write .csv or .jsonl."
            )
        return line


def _header_of(request: RowRequest, records: Iterator[Fields]) -> list[str] | None:
    """Return the first record, or None in a file without any.

    Raises:
        ValueError: It is a bad row, which cannot be left out: the next row would be the header.
    """
    count = len(request.skip or ())
    try:
        first = next(records, None)
    except BadRowError as error:
        raise ValueError(message_of(error)) from None
    if request.skip is not None and len(request.skip) > count:
        place, reason, _ = request.skip[count]
        raise ValueError(Message(f"{place}: ", reason, "."))
    return None if first is None else first[1]


def _quoted_records(request: RowRequest, delimiter: str) -> Iterator[Fields]:
    csv.field_size_limit(2**31 - 1)  # `lines` has a limit of its own
    # a quoted field continues on the next line, so a record is left out as a whole
    bad: list[BadRow] | None = None if request.skip is None else []
    size = 0  # characters of the record

    def lines() -> Iterator[str]:
        nonlocal size
        for _, line in request.lines_with(bad):
            size += len(line)
            if size > MAX_LINE_BYTES:
                raise csv.Error(f"the row has more than {MAX_LINE_BYTES:,} characters")
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    first = 1
    try:
        for record in reader:
            if request.skip is not None and bad:
                request.skip.append(bad[0])
                bad.clear()
            elif record:
                yield first, record
            first = reader.line_num + 1
            size = 0
    except csv.Error as error:
        raise ValueError(
            Message(
                f"{request.file}, line {first}: {error}. Look for a quotation mark too many, or "
                "pass ",
                NOT_QUOTED,
                " if the fields are not quoted.",
            )
        ) from None


def _plain_records(request: RowRequest, delimiter: str) -> Iterator[Fields]:
    for number, line in request.lines():
        line = line.rstrip("\r\n")
        if not line:
            continue
        record = line.split(delimiter)
        if '"' in line and request.table.quoting is None and any(map(_is_quoted, record)):
            raise ValueError(
                Message(
                    f"{request.file}, line {number}: a field stands between quotation marks. Pass ",
                    QUOTED,
                    " if they are not part of the text, else ",
                    NOT_QUOTED,
                    ".",
                )
            )
        yield number, record


def _check_header(
    request: RowRequest, columns: Sequence[str], delimiter: str, quoting: str
) -> None:
    """Raise a ValueError for a header that contradicts how the file is read."""
    table = request.table
    is_guarded = table.quoting is None and quoting == "none"
    if is_guarded and all(map(_QUOTED_FIELD.fullmatch, columns)):
        raise ValueError(
            Message(
                f"{request.file}, line 1: the names of the columns stand between quotation marks. "
                "Pass ",
                QUOTED,
                " if all fields do, else ",
                NOT_QUOTED,
                ".",
            )
        )
    if len(columns) > 1 or table.delimiter is not None:
        return
    for other in DELIMITERS:
        if other in columns[0]:
            raise ValueError(
                Message(
                    f"{request.file}, line 1: the header is a single column, "
                    f"{columns[0][:SHOWN_CHARACTERS]!r}. Pass ",
                    Argument("delimiter", other, Table),
                    " to separate its columns, or ",
                    Argument("delimiter", delimiter, Table),
                    " if it is one name.",
                )
            )


def _is_quoted(field: str) -> bool:
    """Return whether a program that quotes wrote this field: it doubles the marks inside."""
    return '""' in field[1:-1] and _QUOTED_FIELD.fullmatch(field) is not None


def _csv_field(cell: str) -> str:
    # not by csv.writer, which before Python 3.13 leaves a CR alone without quotation marks
    if _QUOTED.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _cell(value: Any) -> str:
    """A value as it stands in a table of text: lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json_text(value)
    return str(value)
