"""The rows of one file, by the reader that its ending and a `Table` name."""

from __future__ import annotations

import csv
import json
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from minibert.text.lines import HEAD_BYTES, check_kind, is_wide, text_lines
from minibert.text.location import Location
from minibert.text.rows import SHOWN_CHARACTERS, BadRow, Row
from minibert.text.table import COLUMNS, Table
from minibert.util.checks import warn
from minibert.util.extras import need
from minibert.util.files import RECIPES, json_fault, json_kind

DELIMITERS = (",", "\t", ";", "|")
BATCH_ROWS = 4096  # of parquet, at a time

# lines have no columns, which is an error
_WITHOUT_EFFECT = {
    "lines": ("quoting",),
    "objects": ("columns", "delimiter", "quoting"),
    "array": ("columns", "delimiter", "quoting"),
    "parquet": ("columns", "delimiter", "quoting", "encoding"),
}
_SPACE = re.compile(r"[ \t\r\n]*")
_SEPARATOR = re.compile(r"[ \t\r\n]*(,|\]|$)[ \t\r\n]*")
_QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')

Record = tuple[int, list[str]]
"""The first line of a record of a table of text, and its fields."""


class FileRows:
    """Reads the rows of one file, or of the part `[start, end)` of it.

    Args:
        file: The file.
        table: How it is read.
        skip: Receives the rows that cannot be used. None: the first is an error.
        columns: Columns that each row must have. None: those that the table names.
        only: Read only these columns of parquet.
        start: First byte of lines, or first row of parquet.
        end: Byte or row after the last. None: to the end.
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
        self.format = table.format_of(file.suffix)
        self.skip = skip
        self.needed = table.needed if columns is None else tuple(columns)
        self.only = only
        self.start = start
        self.end = end
        self.unit = "byte" if start else "line"

    def __iter__(self) -> Iterator[Row]:
        self._warn_of_options()
        readers = {
            "lines": self._of_lines,
            "table": self._of_table,
            "objects": self._of_json_lines,
            "array": self._of_array,
            "parquet": self._of_parquet,
        }
        with self._naming_damage():
            yield from readers[self.format.kind]()

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        """Let the errors of other libraries name the file."""
        is_packed = self.file.compressed or self.format.kind == "parquet"
        try:
            yield
        except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the system
                if error.filename is not None:
                    raise
                sentence = f"{self.file} cannot be read to its end ({error.strerror})."
                raise OSError(sentence) from None
            # the reader's own errors are sentences. Others mean damage where bytes were unpacked
            is_of_reader = isinstance(error, ValueError) and not isinstance(error, UnicodeError)
            if (is_packed and not is_of_reader) or type(error).__module__.startswith("pyarrow"):
                other = ", or not compressed as its ending says" if self.file.compressed else ""
                raise ValueError(
                    f"{self.file} is damaged ({error}){other}. Get it again."
                ) from None
            raise

    def spans(self, size: int, part_bytes: int) -> list[tuple[int, int | None]]:
        """Say where the file can be split.

        Args:
            size: Its bytes, or 0 if they are unknown.
            part_bytes: Bytes of text in a part.

        Returns:
            The start and the end of each part, in bytes or in rows of parquet. None is the end of
            the file.
        """
        step = part_bytes
        if self.format.kind == "parquet":
            text = self.table.text
            with self._naming_damage(), self.open_parquet() as parquet:
                index = parquet.schema_arrow.get_field_index(text)
                groups = [parquet.metadata.row_group(n) for n in range(parquet.num_row_groups)]
                text_bytes = sum(group.column(index).total_uncompressed_size for group in groups)
                size = parquet.metadata.num_rows
            step = max(1, size * part_bytes // max(1, text_bytes))
        elif (
            size <= part_bytes
            or self.file.compressed
            or not self.format.has_row_per_line
            or is_wide(self.file, self.table.encoding)
        ):
            return [(0, None)]
        starts = range(0, max(1, size), step)
        return [(start, start + step if start + step < size else None) for start in starts]

    def _warn_of_options(self) -> None:
        """Warn of options without an effect, which may be meant for another file of a run."""
        for name in _WITHOUT_EFFECT.get(self.format.kind, ()):
            if self.start == 0 and getattr(self.table, name) is not None:
                warn(f"the option {name} has no effect on {self.file}.")

    def _lines(self) -> Iterator[tuple[int, str]]:
        return text_lines(self.file, self.table.encoding, self.skip, self.start, self.end)

    def _bad(self, number: int, unit: str, reason: str, content: str) -> None:
        """Leave a row out, or raise a ValueError for it."""
        BadRow.leave_out(self.skip, f"{self.name}, {unit} {number}", reason, content)

    # --- lines

    def _of_lines(self) -> Iterator[Row]:
        others = [
            name for name in (*self.needed, *(self.table.columns or ())) if name != Table.text
        ]
        if others:
            with self.file.open() as file:
                check_kind(file.read(HEAD_BYTES), self.file)
            raise ValueError(
                f"{self.file} is read as lines, which have no column {others[0]!r}. A table ends "
                "in .csv, .tsv, .jsonl or .parquet, or is read with Table(delimiter=...). "
                f"{RECIPES}."
            )
        # looked up once, because there may be millions of lines
        name, table, unit, column = self.name, self.table, self.unit, self.table.text
        lines = self._lines()
        for number, line in lines:
            text = line.rstrip("\r\n")
            if self.start == 0 and text.strip():
                _check_is_no_json(self.file, number, text.strip())
            yield Row(name, number, {column: text}, table, unit)
            if text.strip():
                break
        for number, line in lines:
            yield Row(name, number, {column: line.rstrip("\r\n")}, table, unit)

    # --- tables of text

    def _of_table(self) -> Iterator[Row]:
        _, delimiter, quoting = self.format
        split = self._quoted_records if quoting == "quoted" else self._plain_records
        records = split(delimiter)
        columns = self.table.columns
        width = 0
        if columns is None:
            _, header = next(records, (0, None))
            if header is None:
                return
            columns = tuple(header)
            width = len(columns)
            self._check_header(columns, delimiter, quoting)
        self._check_columns(columns, " If the file has no header, pass Table(columns=...).")
        name, table = self.name, self.table
        for number, record in records:
            # without a header the first row says how many there are, of which some have a name
            width = width or max(len(columns), len(record))
            if len(record) == width:
                yield Row(name, number, dict(zip(columns, record, strict=False)), table)
                continue
            listing = ", ".join(column[:SHOWN_CHARACTERS] for column in columns)
            if width > len(columns):
                listing += f", and {width - len(columns)} more in the first row"
            reason = f"there are {len(record)} columns, not {width} ({listing})"
            content = delimiter.join(record)
            if quoting == "none" and '"' in content:
                reason += ". If fields stand between quotation marks, pass Table(quoting='quoted')"
            self._bad(number, "line", reason, content)

    def _quoted_records(self, delimiter: str) -> Iterator[Record]:
        csv.field_size_limit(2**31 - 1)  # a text may be as long as the file
        # a quoted field continues on the next line, so a record is left out as a whole
        bad: list[BadRow] | None = None if self.skip is None else []
        encoding = self.table.encoding
        lines = (line for _, line in text_lines(self.file, encoding, bad, keep_bad=True))
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        first = 1
        try:
            for record in reader:
                if self.skip is not None and bad:
                    self.skip.append(bad[0])
                    bad.clear()
                elif record:
                    yield first, record
                first = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"{self.file}, line {first}: {error}. Look for a quotation mark too many, or pass "
                "Table(quoting='none') if the fields are not quoted."
            ) from None

    def _plain_records(self, delimiter: str) -> Iterator[Record]:
        for number, line in self._lines():
            line = line.rstrip("\r\n")
            if not line:
                continue
            record = line.split(delimiter)
            if '"' in line and self.table.quoting is None and any(map(is_quoted, record)):
                raise ValueError(
                    f"{self.file}, line {number}: a field stands between quotation marks. Pass "
                    "Table(quoting='quoted') if they are not part of the text, else "
                    "Table(quoting='none')."
                )
            yield number, record

    def _check_header(self, columns: Sequence[str], delimiter: str, quoting: str) -> None:
        """Raise a ValueError for a header that contradicts how the file is read."""
        is_guarded = self.table.quoting is None and quoting == "none"
        if is_guarded and all(map(_QUOTED_FIELD.fullmatch, columns)):
            raise ValueError(
                f"{self.file}, line 1: the names of the columns stand between quotation marks. "
                "Pass Table(quoting='quoted') if all fields do, else Table(quoting='none')."
            )
        if len(columns) > 1 or self.table.delimiter is not None:
            return
        for other in DELIMITERS:
            if other in columns[0]:
                raise ValueError(
                    f"{self.file}, line 1: the header is a single column, "
                    f"{columns[0][:SHOWN_CHARACTERS]!r}. Pass Table(delimiter={other!r}) to "
                    f"separate its columns, or Table(delimiter={delimiter!r}) if it is one name."
                )

    # --- JSON

    def _of_json_lines(self) -> Iterator[Row]:
        name, table, unit = self.name, self.table, self.unit
        for number, line in self._lines():
            if line.isspace():
                continue
            try:
                values = json.loads(line)
                reason = self._fault(values)
                if not reason and "\\u" in line and _has_surrogate(values):
                    reason = "the line has half a character, a surrogate"
            except (ValueError, RecursionError) as error:
                reason = f"the line is not JSON ({json_fault(error)})"
            if reason and line.startswith("["):
                reason += ". Rename the file to end in .json if it is an array as a whole"
            if reason:
                self._bad(number, unit, reason, line)
            else:
                yield Row(name, number, values, table, unit)

    def _of_array(self) -> Iterator[Row]:
        """The objects of an array, which is held in memory as a whole."""
        text = "".join(line for _, line in text_lines(self.file, self.table.encoding))
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        for number, values in _entries(self.file, text):
            reason = self._fault(values)
            if not reason and _has_surrogate(values):
                reason = "the entry has half a character, a surrogate"
            if reason:
                self._bad(number, "line", reason, json.dumps(values))
            else:
                yield Row(self.name, number, values, self.table)

    # --- parquet

    def _of_parquet(self) -> Iterator[Row]:
        """The rows of a parquet file. Only the row groups that hold them are read."""
        name, table = self.name, self.table
        columns = list(self.needed) if self.only else None
        with self.open_parquet() as parquet:
            first = 0
            stop = parquet.metadata.num_rows if self.end is None else self.end
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                if first + rows <= self.start or first >= stop:
                    first += rows
                    continue
                for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                    begin = max(0, self.start - first)
                    chosen = batch[begin : max(0, stop - first)].to_pylist()
                    for number, values in enumerate(chosen, first + begin + 1):
                        reason = self._fault(values)
                        if reason:
                            self._bad(number, "row", reason, repr(values))
                        else:
                            yield Row(name, number, values, table, "row")
                    first += len(batch)

    def open_parquet(self) -> Any:
        """Open a parquet file, and check its columns.

        Returns:
            A `pyarrow.parquet.ParquetFile`.
        """
        arrow = need("pyarrow", "parquet", "Reading .parquet")
        parquet = need("pyarrow.parquet", "parquet", "Reading .parquet")
        source: Any = self.file.path
        if self.file.compressed:
            with self.file.open() as stream:
                source = arrow.BufferReader(stream.read())
        elif self.file.fs is not None:
            source = self.file.open()
        try:
            opened = parquet.ParquetFile(source)
        except arrow.ArrowInvalid as error:
            with self.file.open() as stream:
                head = stream.read(HEAD_BYTES)
            if not head.startswith(b"PAR1"):
                check_kind(head, self.file)
            raise ValueError(f"{self.file} is not a complete parquet file: {error}") from None
        self._check_columns(opened.schema_arrow.names)
        return opened

    # --- what every row needs

    def _check_columns(self, columns: Sequence[str], advice: str = "") -> None:
        """Raise a ValueError where a column that is needed is missing or occurs twice."""
        for name in self.needed:
            if name not in columns:
                raise ValueError(f"{self.file}: {_missing(name, columns, self.table)}.{advice}")
            if list(columns).count(name) > 1:
                raise ValueError(f"{self.file} has the column {name!r} twice: rename one.")

    def _fault(self, values: Any) -> str:
        """What is wrong with an object of JSON or a row of parquet, or nothing."""
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
                    return (
                        f"{sentence}. {key!r} is nested: write a flat object for each row, "
                        "with its text"
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


def _missing(name: str, columns: Sequence[str], table: Table) -> str:
    """What is wrong where a column is missing. It lists those that are there."""
    listing = ", ".join(str(column)[:SHOWN_CHARACTERS] for column in columns) or "none"
    sentence = f"there is no column {name!r}. The columns are {listing}"
    for field in COLUMNS:
        if getattr(table, field) == name:
            alike = [c for c in columns if str(c).strip().casefold() == name.casefold()]
            value = repr(alike[0]) if alike else "..."
            return f"{sentence}. Name the right one by Table({field}={value})"
    return sentence


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


def is_quoted(field: str) -> bool:
    """Return whether a program that quotes wrote this field: it doubles the marks inside."""
    return '""' in field[1:-1] and _QUOTED_FIELD.fullmatch(field) is not None


def _entries(file: Location, text: str) -> Iterator[tuple[int, Any]]:
    """The line where each entry of an array begins, and the entry."""
    decoder = json.JSONDecoder()
    position = _SPACE.match(text).end()  # type: ignore[union-attr]
    if position == len(text):
        return
    if text[position] != "[":
        raise ValueError(f"{file} is not an array of objects, as .json files are{_other(text)}")
    line = 1
    counted = 0
    position = _SPACE.match(text, position + 1).end()  # type: ignore[union-attr]
    is_closed = text[position : position + 1] == "]"
    position += is_closed
    while not is_closed:
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", position)
            broken = 1 + text.count("\n", 0, at)
            raise ValueError(f"{file}, line {broken}: not JSON ({json_fault(error)}).") from None
        yield line, value
        separator = _SEPARATOR.match(text, end)
        if separator is None:
            broken = 1 + text.count("\n", 0, end)
            raise ValueError(f"{file}, line {broken}: an entry of the array ends without a comma.")
        if not separator[1]:
            raise ValueError(f"{file}: its array has no end. Get the file again.")
        is_closed = separator[1] == "]"
        position = separator.end()
    if text[position:].strip(" \t\r\n"):
        raise ValueError(f"{file}: there is more text after the end of its array.")


def _other(text: str) -> str:
    """The end of a sentence about a .json file that is no array: what it is, and what to do."""
    try:
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        value, end = None, len(text)
    if text.lstrip()[end:].strip():
        return ", but has several values. Rename it to end in .jsonl if it has an object a line."
    if isinstance(value, dict):
        keys = ", ".join(f"{key:.40}" for key in list(value)[:8]) or "none"
        return f", but one object with the keys {keys}. Write an array of the rows in it."
    return ". Write an object for each row."


def _has_surrogate(values: Any) -> bool:
    """Whether a text holds half a character, which JSON can escape and UTF-8 cannot encode."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
