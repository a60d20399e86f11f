"""Corpora as they are: files and folders of texts, read row by row.

    .jsonl         an object a line
    .csv, .tsv     a table with a header line; quoted, or not
    .parquet       needs pyarrow
    others         a text a line

Each also compressed (.gz, .bz2, .xz, .zst), but parquet, and anywhere that `minibert.corpus.location.Location` reaches.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, count
from typing import Any, NamedTuple

from minibert.corpus.location import Location
from minibert.extras import need
from minibert.files import NOT_UTF8, parse_json


class Text(str):
    """A text that knows the id of its row; otherwise a string like any other."""

    id: str | int | None

    def __new__(cls, text: str, id: str | int | None = None) -> Text:
        """The text, and the id."""
        made = super().__new__(cls, text)
        made.id = id
        return made


class BadRow(NamedTuple):
    """A row without a text: its file and place, what is wrong with it, and how it begins."""

    place: str
    reason: str
    content: str


class Part(NamedTuple):
    """Some rows of a file: row numbers `[start, end)` of parquet, bytes of lines; `end` None: to the last one."""

    file: str
    start: int = 0
    end: int | None = None


OnBad = Callable[[BadRow], object]
Row = tuple[str, dict[str, Any]]  # where it stands, and its columns by name


def refuse(row: BadRow) -> None:
    """Ends the reading at a row without a text, by a ValueError."""
    raise ValueError(f"{row.place}: {row.reason}.")


def read_texts(
    source: str, column: str = "text", id_column: str | None = None, on_bad: OnBad = refuse
) -> Iterator[Text]:
    """The texts of a file, or of all files of a folder in alphabetical order.

    Args:
        source: path or URI.
        column: of the texts, in tables.
        id_column: of the ids, whole numbers or strings.
        on_bad: is given each row without a text.

    Raises:
        FileNotFoundError: no such file, or a folder without files.
        ValueError: a table without the columns, a file that cannot be read, or what `on_bad` raises.
    """
    location = Location(source)
    for name in _files(location):
        yield from read_part(Part(str(location / name)), column, id_column, on_bad)


def _files(location: Location) -> dict[str, tuple[int, float]]:
    if files := location.files():
        return files
    raise FileNotFoundError(f"there is no file {location}, and no folder with files in it.")


def read_part(
    part: Part, column: str = "text", id_column: str | None = None, on_bad: OnBad = refuse
) -> Iterator[Text]:
    """The texts of a part of a file; see `read_texts`."""
    location = Location(part.file)
    wanted = [column] if id_column is None else [column, id_column]
    if is_table(part.file):
        rows = iter_rows(location, part.start, part.end, wanted, on_bad=on_bad)
    elif id_column is not None:
        raise ValueError(
            f"{location} is read as lines, without a column {id_column!r}: use jsonl, csv or parquet."
        )
    else:
        lines = _lines(location, part.start, part.end, on_bad)
        rows = _undamaged(
            location, ((place, {column: line.rstrip("\r\n")}) for place, line in lines)
        )
    for place, row in rows:
        if missing := [name for name in wanted if name not in row]:
            reason = f"there is no column {missing[0]!r}"
        elif not isinstance(text := row[column], str):
            reason = f"{column} is {'null' if text is None else f'of type {type(text).__name__}'}"
        elif id_column is not None and not isinstance(row[id_column], str | int):
            reason = f"{id_column} is {row[id_column]!r}, neither a whole number nor a string"
        else:
            yield Text(text, None if id_column is None else row[id_column])
            continue
        on_bad(BadRow(f"{location}, {place}", reason, repr(row)[:200]))


def iter_rows(
    location: Location,
    start: int = 0,
    end: int | None = None,
    wanted: Sequence[str] = (),
    *,
    names: Sequence[str] | None = None,
    delimiter: str | None = None,
    on_bad: OnBad = refuse,
) -> Iterator[Row]:
    """The rows of a table: where each stands, and its columns by name.

    Args:
        location: `.jsonl`, one JSON object a line; `.parquet`; `.csv`, separated by commas and quoted; or anything
            else, separated by tabs and not quoted. Each but parquet also compressed.
        start: of the part that is read, as in `Part`.
        end: of the part.
        wanted: columns that a table should have.
        names: of the first columns, for a file whose first line does not give them.
        delimiter: what separates the columns, where the file's name does not tell.
        on_bad: is given each row that cannot be read.

    Raises:
        ValueError: a file that is damaged or lacks a column, or what `on_bad` raises.
    """
    if location.suffix == ".jsonl":
        rows = _jsonl(location, start, end, on_bad)
    elif location.suffix == ".parquet":
        rows = _rows_of_parquet(location, start, end, wanted)
    else:
        rows = _csv(
            location,
            wanted,
            names,
            delimiter or ("," if location.suffix == ".csv" else "\t"),
            on_bad,
        )
    return _undamaged(location, rows)


def parts_of(source: str, column: str, part_bytes: int) -> dict[str, Part]:
    """A corpus in parts of about `part_bytes` of text, by a name that tells file and place.

    A compressed file and a .csv, whose quoted texts may hold line breaks, are one part.

    Raises:
        FileNotFoundError: no such file, or a folder without files.
        ValueError: a parquet file that is damaged or has no such column.
    """
    location = Location(source)
    files = _files(location)

    def cut(name: str) -> dict[str, Part]:
        file, size = location / name, files[name][0]
        if file.suffix == ".parquet":
            with _parquet(file, [column]) as table:
                rows, own = table.metadata.num_rows, table.schema_arrow.get_field_index(column)
                groups = range(table.metadata.num_row_groups)
                text = sum(
                    table.metadata.row_group(g).column(own).total_uncompressed_size for g in groups
                )
            size, step = rows, max(1, rows * part_bytes // max(1, text))
        else:
            step = (
                max(1, size) if file.compressed or file.suffix in (".csv", ".tsv") else part_bytes
            )
        base = name or file.path.replace("\\", "/").rpartition("/")[2]
        starts = range(0, size, step)
        return {
            f"{base}-{n:012d}": Part(str(file), n, None if n + step >= size else n + step)
            for n in starts
        }

    with ThreadPoolExecutor(16) as readers:  # who wait for the answers of an object store
        return {name: part for parts in readers.map(cut, files) for name, part in parts.items()}


def _undamaged(location: Location, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows; ValueError that names the file where decompressing or a library's own reader fails."""
    try:
        yield from rows
    except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        of_the_disk = getattr(error, "errno", None) is not None
        unpacking = location.compressed and not of_the_disk and not isinstance(error, ValueError)
        if not unpacking and not type(error).__module__.startswith("pyarrow"):
            raise
        raise ValueError(f"{location} is damaged ({error}); get it again.") from None


def _lines(
    location: Location, start: int, end: int | None, on_bad: OnBad
) -> Iterator[tuple[str, str]]:
    """Where the lines are that begin in `[start, end)`, and they, with their ends."""
    with location.open() as file:
        position = 0
        if start:
            file.seek(start - 1)
            position = (
                start - 1 + len(file.readline())
            )  # a line that began before belongs to the part before
        for number in count(1):
            if (end is not None and position >= end) or not (line := file.readline()):
                return
            place = f"byte {position}" if start else f"line {number}"
            position += len(line)
            try:
                yield (
                    place,
                    (line.removeprefix(codecs.BOM_UTF8) if place == "line 1" else line).decode(
                        "utf-8"
                    ),
                )
            except UnicodeDecodeError:
                on_bad(BadRow(f"{location}, {place}", f"the line {NOT_UTF8}", repr(line[:200])))


def _jsonl(location: Location, start: int, end: int | None, on_bad: OnBad) -> Iterator[Row]:
    for place, line in _lines(location, start, end, on_bad):
        if not line.strip():
            continue
        try:
            row = parse_json(line, "the line", dict)
            json.dumps(
                row, ensure_ascii=False
            ).encode()  # fails for half a character, which JSON can hold
        except ValueError as error:
            halved = isinstance(error, UnicodeEncodeError)
            reason = (
                "the line has half a character, a surrogate"
                if halved
                else str(error).removesuffix(".")
            )
            on_bad(BadRow(f"{location}, {place}", reason, line[:200]))
        else:
            yield place, row


def _csv(
    location: Location,
    wanted: Sequence[str],
    names: Sequence[str] | None,
    delimiter: str,
    on_bad: OnBad,
) -> Iterator[Row]:
    if len(delimiter) != 1:
        raise ValueError(f"delimiter should be one character, not {delimiter!r}.")
    csv.field_size_limit(2**31 - 1)  # a text may be as long as the file

    def lines() -> Iterator[str]:
        for _, line in _lines(
            location, 0, None, refuse
        ):  # what is quoted may go on in the next line
            yield from io.StringIO(
                line, newline=""
            )  # an old Macintosh ends its lines in another way

    # in tables separated by tabs a quotation mark is only a quotation mark
    table = csv.reader(
        lines(),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    try:
        rows = filter(None, table)  # empty lines are no rows
        columns = next(rows, []) if names is None else list(names)
        _check_columns(location, wanted, columns)
        if twice := [name for name, count in Counter(columns).items() if count > 1]:
            raise ValueError(f"{location} has the column {twice[0]!r} twice: rename one.")
        for row in rows:
            place = f"line {table.line_num}"
            if len(row) < len(columns) or (len(row) > len(columns) and names is None):
                reason = f"there are {len(row)} columns, not {len(columns)} ({', '.join(columns)})"
                on_bad(BadRow(f"{location}, {place}", reason, delimiter.join(row)[:200]))
            else:
                yield place, dict(zip(columns, row, strict=False))
    except csv.Error as error:
        raise ValueError(
            f"{location}, line {table.line_num}: {error}; look for a quotation mark too many."
        ) from None


def _rows_of_parquet(
    location: Location, start: int, end: int | None, wanted: Sequence[str]
) -> Iterator[Row]:
    with _parquet(location, wanted) as table:
        rows = [
            table.metadata.row_group(group).num_rows
            for group in range(table.metadata.num_row_groups)
        ]
        for group, last in enumerate(accumulate(rows)):
            first = last - rows[group]
            if last <= start or (end is not None and first >= end):
                continue
            for batch in table.iter_batches(
                batch_size=4096, row_groups=[group], columns=list(wanted) or None
            ):
                begin, stop = max(0, start - first), max(0, (last if end is None else end) - first)
                for number, row in enumerate(batch[begin:stop].to_pylist(), first + begin):
                    yield f"row {number}", row
                first += len(batch)


def _parquet(location: Location, columns: Sequence[str]) -> Any:
    """The open file, its columns checked."""
    pyarrow, parquet = (
        need(module, "parquet", "Reading .parquet") for module in ("pyarrow", "pyarrow.parquet")
    )
    try:
        file = parquet.ParquetFile(location.path, filesystem=location.fs)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{location} is not a complete parquet file: {error}") from None
    _check_columns(location, columns, file.schema_arrow.names)
    return file


def _check_columns(location: Location, columns: Sequence[str], known: Sequence[str]) -> None:
    if missing := [name for name in columns if name not in known]:
        raise ValueError(
            f"{location} has no column {missing[0]!r}; its columns are {', '.join(known) or 'none'}."
        )


def is_table(source: str) -> bool:
    """Whether the texts of a file are a column of it, and not its lines."""
    return Location(source).suffix in (".jsonl", ".csv", ".tsv", ".parquet")
