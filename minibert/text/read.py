"""Read files of texts row by row. `read` is the one reader of every command.

The ending of the name says how a file is read, and nothing is guessed:

    .csv              a table: commas, fields may be quoted, the first line names the columns
    .tsv              a table: tabs, quotation marks are ordinary characters
    .jsonl, .ndjson   an object a line
    .json             an array of objects
    .parquet          a table (needs pyarrow)
    others            a text a line

Before the ending of a compressed file (.gz, .bz2, .xz, .zst) it is the same. Upper and lower case
make no difference. `Table` has what overrides it. What evidently contradicts it is an error.
"""

from __future__ import annotations

import csv
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn

from minibert.extras import need
from minibert.files import json_fault, json_kind
from minibert.text.lines import HEAD_BYTES, OnBad, check_kind, is_wide, text_lines
from minibert.text.location import Location
from minibert.text.rows import BadRow, Row
from minibert.text.table import Table

JSON_LINES = (".jsonl", ".ndjson")
DELIMITERS = (",", "\t", ";", "|")
BATCH_ROWS = 4096  # of parquet, at a time
SHOWN_CHARACTERS = 200  # of a bad row, or of the name of a column

_SPACE = re.compile(r"[ \t\r\n]*")
_SEPARATOR = re.compile(r"[ \t\r\n]*(,|\]|$)[ \t\r\n]*")
_QUOTED_FIELD = re.compile(r'"(?:[^"]|"")*"')

# files about a data set, which lie beside its data
_ABOUT_DATA = re.compile(
    r"(readme|licen[cs]e|notice|changelog|citation)(\.[a-z]+)?"
    r"|readme[._-][a-z]{2}(\.[a-z]+)?"  # in another language
    r"|licen[cs]e-(mit|apache|bsd|cc|gpl).*"
    r"|(copying|authors|contributors|contributing|code_of_conduct)(\.(md|rst|txt))?"
    r"|dataset_infos?\.json|dataset_dict\.json|state\.json|croissant\.json"
    r"|(md5|sha\d+)sums?(\.txt)?|.*\.(md5|sha1|sha256|sha512)"
    r"|thumbs\.db|desktop\.ini"
    # copies of editors, and files that are still being written
    r"|.*~|#.*#|.*\.(bak|swp|tmp|part|partial|crdownload|lock)",
    re.IGNORECASE,
)


def read(
    path: str | os.PathLike[str],
    table: Table | None = None,
    skip: list[BadRow] | None = None,
    columns: Sequence[str] | None = None,
    only: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a file, or of all files of a folder in alphabetical order.

    Args:
        path: Path or URI of a file or a folder, or "-" for stdin.
        table: How the files are read. None: by their endings, with the text in the column "text".
        skip: Receives the rows that cannot be used, which are left out. None: the first is an
            error.
        columns: Columns that each row must have. None: those that the table names.
        only: Read only these columns of parquet, which is faster.

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
        ImportError: A package that reads this kind of file is not installed.
        ValueError: A file is not what its name says, lacks a column, or a row cannot be used. Or
            there are no rows at all.
    """
    table = table or Table()
    location = Location(path)
    names = ["-"] if location.is_stdin else data_files(location)
    is_empty = True
    for name in names:
        file = location if location.is_stdin else location / name
        rows = _rows(file, table, skip, columns, only)
        for row in rows:
            is_empty = False
            yield row
            break
        yield from rows
    if is_empty and not skip:
        raise ValueError(f"there is no text in {location}.")


def has_columns(path: str | os.PathLike[str] | Location, table: Table) -> bool:
    """Return whether a file is read as a table, and not as lines."""
    location = path if isinstance(path, Location) else Location(path)
    endings = (".csv", ".tsv", ".json", ".parquet", *JSON_LINES)
    return table.delimiter is not None or location.suffix in endings


def read_json(path: str | os.PathLike[str], table: Table | None = None) -> Any:
    """Return the value in a .json file, whatever its shape.

    Args:
        path: Path or URI of the file.
        table: Its encoding. None: UTF-8, or what a byte order mark names.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not JSON.
    """
    location = Location(path)
    lines = text_lines(location, (table or Table()).encoding, _raise)
    text = "".join(line for _, line in lines)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{location} is not JSON ({json_fault(error)}).") from None


class Part(NamedTuple):
    """A part of a file: rows of parquet, else the lines that begin in a range of bytes.

    Attributes:
        file: Path or URI.
        start: First row or byte.
        end: Row or byte after the last. None reads to the end of the file.
    """

    file: str
    start: int = 0
    end: int | None = None


def parts_of(
    source: str | os.PathLike[str], table: Table | None = None, part_bytes: int = 1 << 21
) -> dict[str, Part]:
    """Split a file or a folder into parts of about `part_bytes` of text.

    Files that can only be read from the beginning are one part each: compressed ones, .csv, .tsv,
    .json, and UTF-16.

    Args:
        source: Path or URI of a file or folder.
        table: How the files are read.
        part_bytes: Bytes of text in a part.

    Returns:
        The parts by a name that tells file and place.

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
        ValueError: The source is stdin, or a parquet file is damaged or has no column of the text.
    """
    table = table or Table()
    location = Location(source)
    if location.is_stdin:
        raise ValueError("stdin can be read only once: write the texts into a file.")
    files = data_files(location)

    def split(name: str) -> dict[str, Part]:
        file = location / name
        size, step = _size_and_step(file, files[name][0], table, part_bytes)
        base = name or file.path.replace("\\", "/").rpartition("/")[2]
        return {
            f"{base}-{start:012d}": Part(
                str(file), start, start + step if start + step < size else None
            )
            for start in range(0, size, step)
        }

    parts: dict[str, Part] = {}
    with ThreadPoolExecutor(16) as readers:  # who wait for the answers of an object store
        for file_parts in readers.map(split, files):
            parts.update(file_parts)
    return parts


def _size_and_step(file: Location, size: int, table: Table, part_bytes: int) -> tuple[int, int]:
    """The size of a file and of its parts, in bytes or in rows of parquet."""
    if file.suffix == ".parquet":
        with _open_parquet(file, [table.text]) as parquet:
            index = parquet.schema_arrow.get_field_index(table.text)
            groups = [parquet.metadata.row_group(n) for n in range(parquet.num_row_groups)]
            text_bytes = sum(group.column(index).total_uncompressed_size for group in groups)
            rows = parquet.metadata.num_rows
        return rows, max(1, rows * part_bytes // max(1, text_bytes))
    is_whole = (
        size <= part_bytes
        or file.compressed
        or (has_columns(file, table) and file.suffix not in JSON_LINES)
        or is_wide(file, table.encoding)
    )
    return size, max(1, size) if is_whole else part_bytes


def read_part(
    part: Part,
    table: Table | None = None,
    skip: list[BadRow] | None = None,
    columns: Sequence[str] | None = None,
    only: bool = False,
) -> Iterator[Row]:
    """Yield the rows of a part of a file, as `read` those of all. A part may have none."""
    file = Location(part.file)
    return _rows(file, table or Table(), skip, columns, only, part.start, part.end)


def data_files(location: Location) -> dict[str, tuple[int, float]]:
    """Return the files that hold the texts of a file or folder.

    Files that accompany data are left out: names that begin with a dot or an underscore, READMEs,
    licenses, the descriptions that libraries write (dataset_infos.json), copies that editors keep
    and files that are still being downloaded.

    Returns:
        Size in bytes and time of the last change, by the path below the location. A file's own name
        is "".

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
    """
    files = location.files()
    if "" in files:
        return files
    data = {
        name: about
        for name, about in files.items()
        if not _ABOUT_DATA.fullmatch(name.rpartition("/")[2])
    }
    if data:
        return data
    if location.fs is None and os.path.isdir(location.path):
        raise FileNotFoundError(
            f"the folder {location} has no files of text. Hidden files, READMEs and the like do "
            "not count."
        )
    raise FileNotFoundError(f"there is no file {location}, and no folder with files in it.")


def _raise(row: BadRow) -> NoReturn:
    raise ValueError(f"{row.place}: {row.reason}.")


def _rows(
    file: Location,
    table: Table,
    skip: list[BadRow] | None,
    columns: Sequence[str] | None,
    only: bool,
    start: int = 0,
    end: int | None = None,
) -> Iterator[Row]:
    """The rows of one file, or of the part `[start, end)` of it."""
    on_bad = _raise if skip is None else skip.append
    needed = table.needed if columns is None else tuple(columns)
    is_packed = file.compressed
    try:
        if file.suffix == ".parquet":
            is_packed = True
            yield from _parquet_rows(file, table, on_bad, needed, only, start, end)
        elif file.suffix == ".json":
            yield from _array_rows(file, table, on_bad, needed)
        elif file.suffix in JSON_LINES:
            yield from _json_rows(file, table, on_bad, needed, start, end)
        elif has_columns(file, table):
            yield from _table_rows(file, table, on_bad, needed)
        else:
            yield from _line_rows(file, table, on_bad, needed, start, end)
    except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is not None:
                raise
            raise OSError(f"{file} cannot be read to its end ({error.strerror}).") from None
        is_of_reader = isinstance(error, ValueError) and not isinstance(error, UnicodeError)
        if (is_packed and not is_of_reader) or type(error).__module__.startswith("pyarrow"):
            raise ValueError(f"{file} is damaged ({error}). Get it again.") from None
        raise


def _line_rows(
    file: Location,
    table: Table,
    on_bad: OnBad,
    needed: Sequence[str],
    start: int,
    end: int | None,
) -> Iterator[Row]:
    others = [name for name in (*needed, *(table.columns or ())) if name != Table.text]
    if others:
        raise ValueError(
            f"{file} is read as lines, which have no column {others[0]!r}. A table ends in .csv, "
            ".tsv, .jsonl or .parquet, or is read with Table(delimiter=...)."
        )
    name = str(file)
    column = table.text
    unit = "byte" if start else "line"
    lines = text_lines(file, table.encoding, on_bad, start, end)
    for number, line in lines:
        text = line.rstrip("\r\n")
        if start == 0 and text.strip():
            _check_is_no_json(file, number, text.strip())
        yield Row(name, number, {column: text}, table, unit)
        if text.strip():
            break
    for number, line in lines:
        yield Row(name, number, {column: line.rstrip("\r\n")}, table, unit)


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


def _table_rows(
    file: Location, table: Table, on_bad: OnBad, needed: Sequence[str]
) -> Iterator[Row]:
    """The rows of a table of text."""
    default = "\t" if file.suffix == ".tsv" else ","
    delimiter = table.delimiter or default
    quoting = table.quoting
    if quoting is None:
        is_quoted = file.suffix != ".tsv" and not (file.suffix != ".csv" and delimiter == "\t")
        quoting = "quoted" if is_quoted else "none"
    split = _quoted_records if quoting == "quoted" else _plain_records
    records = split(file, table, delimiter, on_bad)
    columns = table.columns
    if columns is None:
        _, header = next(records, (0, None))
        if header is None:
            return
        columns = tuple(header)
        _check_header(file, table, columns, delimiter, quoting)
    _check_columns(file, table, columns, needed, is_named=table.columns is not None)
    name = str(file)
    width = len(columns)
    for number, record in records:
        if len(record) != width and (table.columns is None or len(record) < width):
            on_bad(_of_other_width(file, number, record, columns, delimiter, quoting))
        else:
            yield Row(name, number, dict(zip(columns, record, strict=False)), table)


def _quoted_records(
    file: Location, table: Table, delimiter: str, on_bad: OnBad
) -> Iterator[tuple[int, list[str]]]:
    """The first line and the fields of each record whose fields may be quoted."""
    csv.field_size_limit(2**31 - 1)  # a text may be as long as the file
    # a quoted field continues on the next line, so a line that cannot be decoded cannot be left out
    lines = (line for _, line in text_lines(file, table.encoding, _raise))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first = 1
    try:
        for record in reader:
            if record:
                yield first, record
            first = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{file}, line {first}: {error}. Look for a quotation mark too many, or pass "
            "Table(quoting='none') if the fields are not quoted."
        ) from None


def _plain_records(
    file: Location, table: Table, delimiter: str, on_bad: OnBad
) -> Iterator[tuple[int, list[str]]]:
    """The line and the fields of each record without quoted fields."""
    for number, line in text_lines(file, table.encoding, on_bad):
        line = line.rstrip("\r\n")
        if not line:
            continue
        record = line.split(delimiter)
        if '"' in line and table.quoting is None and any(map(_is_evidently_quoted, record)):
            raise ValueError(
                f"{file}, line {number}: a field stands between quotation marks. Pass "
                "Table(quoting='quoted') if they are not part of the text, else "
                "Table(quoting='none')."
            )
        yield number, record


def _is_evidently_quoted(field: str) -> bool:
    """Whether only a program that quotes fields writes one so: it doubles the marks inside."""
    return '""' in field[1:-1] and _QUOTED_FIELD.fullmatch(field) is not None


def _check_header(
    file: Location, table: Table, columns: Sequence[str], delimiter: str, quoting: str
) -> None:
    """Raise a ValueError for a header that contradicts how the file is read."""
    if table.quoting is None and quoting == "none" and all(map(_QUOTED_FIELD.fullmatch, columns)):
        raise ValueError(
            f"{file}, line 1: the names of the columns stand between quotation marks. Pass "
            "Table(quoting='quoted') if all fields do, else Table(quoting='none')."
        )
    if len(columns) > 1 or table.delimiter is not None:
        return
    for other in DELIMITERS:
        if other in columns[0]:
            shown = columns[0][:SHOWN_CHARACTERS]
            raise ValueError(
                f"{file}, line 1: the header is a single column, {shown!r}. Pass "
                f"Table(delimiter={other!r}) to separate its columns, or "
                f"Table(delimiter={delimiter!r}) if it is one name."
            )


def _check_columns(
    file: Location, table: Table, columns: Sequence[str], needed: Sequence[str], is_named: bool
) -> None:
    """Raise a ValueError where a column that is needed is missing or occurs twice."""
    for name in needed:
        if name not in columns:
            advice = ""
            if not is_named:
                advice = " If the file has no header, name them by Table(columns=...)."
            raise ValueError(f"{file}: {_missing(name, columns, table)}.{advice}")
        if list(columns).count(name) > 1:
            raise ValueError(f"{file} has the column {name!r} twice: rename one.")


def _missing(name: str, columns: Sequence[str], table: Table) -> str:
    """What is wrong where a column is missing. It lists those that are there."""
    listing = ", ".join(str(column)[:SHOWN_CHARACTERS] for column in columns) or "none"
    sentence = f"there is no column {name!r}. The columns are {listing}"
    for field in ("text", "pair", "label", "id"):
        if getattr(table, field) == name:
            alike = [c for c in columns if str(c).strip().casefold() == name.casefold()]
            value = repr(alike[0]) if alike else "..."
            return f"{sentence}. Name the right one by Table({field}={value})"
    return sentence


def _of_other_width(
    file: Location,
    number: int,
    record: Sequence[str],
    columns: Sequence[str],
    delimiter: str,
    quoting: str,
) -> BadRow:
    listing = ", ".join(column[:SHOWN_CHARACTERS] for column in columns)
    reason = f"there are {len(record)} columns, not {len(columns)} ({listing})"
    content = delimiter.join(record)
    if quoting == "none" and '"' in content:
        reason += ". If fields stand between quotation marks, pass Table(quoting='quoted')"
    return BadRow(f"{file}, line {number}", reason, content[:SHOWN_CHARACTERS])


def _json_rows(
    file: Location,
    table: Table,
    on_bad: OnBad,
    needed: Sequence[str],
    start: int,
    end: int | None,
) -> Iterator[Row]:
    """The objects of a file with one a line."""
    name = str(file)
    unit = "byte" if start else "line"
    fault_of = _faults(table, needed)
    for number, line in text_lines(file, table.encoding, on_bad, start, end):
        if line.isspace():
            continue
        reason = ""
        try:
            values = json.loads(line)
            reason = fault_of(values)
            if not reason and "\\u" in line and _has_surrogate(values):
                reason = "the line has half a character, a surrogate"
        except (ValueError, RecursionError) as error:
            reason = f"the line is not JSON ({json_fault(error)})"
        if reason:
            on_bad(BadRow(f"{name}, {unit} {number}", reason, line[:SHOWN_CHARACTERS]))
        else:
            yield Row(name, number, values, table, unit)


def _array_rows(
    file: Location, table: Table, on_bad: OnBad, needed: Sequence[str]
) -> Iterator[Row]:
    """The objects of an array, which is held in memory as a whole."""
    name = str(file)
    fault_of = _faults(table, needed)
    text = "".join(line for _, line in text_lines(file, table.encoding, _raise))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for number, values in _entries(file, text):
        reason = fault_of(values)
        if not reason and _has_surrogate(values):
            reason = "the entry has half a character, a surrogate"
        if reason:
            content = json.dumps(values)[:SHOWN_CHARACTERS]
            on_bad(BadRow(f"{name}, line {number}", reason, content))
        else:
            yield Row(name, number, values, table)


def _entries(file: Location, text: str) -> Iterator[tuple[int, Any]]:
    """The line where each entry of an array begins, and the entry."""
    decoder = json.JSONDecoder()
    position = _SPACE.match(text).end()  # type: ignore[union-attr]
    if position == len(text):
        return
    if text[position] != "[":
        raise ValueError(
            f"{file} is not an array of objects, as .json files are. Rename it to end in .jsonl if "
            "it has an object a line, else write an object for each row."
        )
    line = 1
    counted = 0
    position = _SPACE.match(text, position + 1).end()  # type: ignore[union-attr]
    is_closed = text[position : position + 1] == "]"
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
        if separator is None or not separator[1]:
            raise ValueError(f"{file}: its array has no end. Get the file again.")
        is_closed = separator[1] == "]"
        position = separator.end()
    if text[position:].strip(" \t\r\n]"):
        raise ValueError(f"{file}: there is more text after the end of its array.")


def _parquet_rows(
    file: Location,
    table: Table,
    on_bad: OnBad,
    needed: Sequence[str],
    only: bool,
    start: int,
    end: int | None,
) -> Iterator[Row]:
    """The rows `[start, end)` of a parquet file. Only the row groups that hold them are read."""
    name = str(file)
    fault_of = _faults(table, needed)
    with _open_parquet(file, needed, table) as parquet:
        first = 0
        stop = parquet.metadata.num_rows if end is None else end
        for group in range(parquet.num_row_groups):
            rows = parquet.metadata.row_group(group).num_rows
            if first + rows <= start or first >= stop:
                first += rows
                continue
            names = list(needed) if only else None
            for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=names):
                begin = max(0, start - first)
                values_of_rows = batch[begin : max(0, stop - first)].to_pylist()
                for number, values in enumerate(values_of_rows, first + begin + 1):
                    reason = fault_of(values)
                    if reason:
                        content = repr(values)[:SHOWN_CHARACTERS]
                        on_bad(BadRow(f"{name}, row {number}", reason, content))
                    else:
                        yield Row(name, number, values, table, "row")
                first += len(batch)


def _open_parquet(file: Location, needed: Sequence[str], table: Table | None = None) -> Any:
    """Open a parquet file, and check its columns.

    Returns:
        A `pyarrow.parquet.ParquetFile`.
    """
    arrow = need("pyarrow", "parquet", "Reading .parquet")
    parquet = need("pyarrow.parquet", "parquet", "Reading .parquet")
    source: Any = file.path
    if file.compressed:
        with file.open() as stream:
            source = arrow.BufferReader(stream.read())
    elif file.fs is not None:
        source = file.open()
    try:
        opened = parquet.ParquetFile(source)
    except arrow.ArrowInvalid as error:
        with file.open() as stream:
            head = stream.read(HEAD_BYTES)
        if not head.startswith(b"PAR1"):
            check_kind(head, file)
        raise ValueError(f"{file} is not a complete parquet file: {error}") from None
    _check_columns(file, table or Table(), opened.schema_arrow.names, needed, is_named=True)
    return opened


def _faults(table: Table, needed: Sequence[str]) -> Callable[[Any], str]:
    """A function that says what is wrong with an object of JSON or a row of parquet, or nothing."""
    texts = [name for name in needed if name in (table.text, table.pair)]
    ids = [name for name in needed if name == table.id]

    def fault_of(values: Any) -> str:
        if not isinstance(values, dict):
            return f"the row should be a JSON object but is {json_kind(values)}"
        for name in needed:
            if name not in values:
                nested = [key for key, value in values.items() if isinstance(value, list | dict)]
                advice = ""
                if nested:
                    advice = (
                        f". {nested[0]!r} is nested: write a flat object for each row, with its "
                        "text"
                    )
                return _missing(name, list(values), table) + advice
        for name in texts:
            value = values[name]
            if not isinstance(value, str):
                if value is None:
                    return f"{name} is null"
                return f"{name} should be a text, not {value!r:.80}"
        for name in ids:
            value = values[name]
            if not isinstance(value, str | int) or isinstance(value, bool):
                return f"{name} should be a whole number or a string, not {value!r:.80}"
        return ""

    return fault_of


def _has_surrogate(values: Any) -> bool:
    """Whether a text holds half a character, which JSON can escape and UTF-8 cannot encode."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
