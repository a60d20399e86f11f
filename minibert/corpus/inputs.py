"""Corpora as they are: files and folders of texts, read row by row.

    .jsonl, .ndjson, .json   an object a line, or in .json an array of objects
    .csv, .tsv, .tab         a table with a header line
    .parquet, .pq            needs pyarrow
    others                   a text a line

Endings are compared without regard to case. Each file but parquet may be compressed (.gz, .bz2,
.xz, .zst), and may lie anywhere that `minibert.corpus.location.Location` reaches. Text is UTF-8,
with or without a byte order mark, or what the mark names. See `minibert.corpus.encodings`.

    read_texts(source)    the texts of a file or folder, for whatever wants texts
    read_rows(source)     their rows, with all columns
    read_table(path)      the rows of one table in a list, as fine-tuning reads it
    parts_of(source)      a corpus in parts, which `read_part` reads one by one
"""

from __future__ import annotations

import lzma
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any

from minibert.corpus.delimited import SAMPLE_LINES, delimited_rows, evident_delimiter
from minibert.corpus.json_rows import (
    check_not_json,
    is_json_object,
    is_object_a_line,
    json_rows,
    raise_for_json,
)
from minibert.corpus.lines import is_wide, read_lines
from minibert.corpus.location import Location
from minibert.corpus.parquet import parquet_rows, rows_and_bytes
from minibert.corpus.rows import (
    BadRow,
    OnBad,
    Part,
    PlacedRow,
    Quoting,
    Row,
    Text,
    missing_in_row,
    refuse,
    text_fault,
)

__all__ = [
    "BadRow",
    "OnBad",
    "Part",
    "Row",
    "Text",
    "has_columns",
    "is_table",
    "iter_rows",
    "parts_of",
    "read_part",
    "read_rows",
    "read_table",
    "read_texts",
    "refuse",
]

DEFAULT_COLUMN = "text"

JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
DELIMITED_ENDINGS = (".csv", ".tsv", ".tab")
PARQUET_ENDINGS = (".parquet", ".pq")

_NOT_TEXT = {
    ".xlsx": "a spreadsheet: save it as .csv",
    ".xls": "a spreadsheet: save it as .csv",
    ".ods": "a spreadsheet: save it as .csv",
    ".zip": "an archive: unpack it",
    ".7z": "an archive: unpack it",
    ".tar": "an archive: unpack it",
    ".tgz": "an archive: unpack it",
    ".rar": "an archive: unpack it",
    ".z": "compressed by compress: decompress it",
    ".lz4": "lz4-compressed: decompress it",
    ".gzip": "gzip-compressed: rename it to end in .gz",
    ".arrow": "an Arrow file: write it as .parquet",
    ".feather": "an Arrow file: write it as .parquet",
    ".avro": "an Avro file: write it as .parquet",
    ".orc": "an ORC file: write it as .parquet",
    ".pdf": "a PDF document: extract its text",
    ".doc": "a Word document: save it as .txt",
    ".docx": "a Word document: save it as .txt",
    ".hwp": "a Hangul document: save it as .txt",
    ".hwpx": "a Hangul document: save it as .txt",
    ".odt": "a document: save it as .txt",
    ".rtf": "a document: save it as .txt",
    ".npy": "an array of NumPy, not text",
    ".npz": "arrays of NumPy, not text",
    ".pkl": "a pickle of Python objects: write its texts as .jsonl",
    ".pickle": "a pickle of Python objects: write its texts as .jsonl",
    ".safetensors": "a file of tensors, not text",
}

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

# a corpus may hold a line of JSON somewhere; a file of JSON shows it at once
LINES_WITHOUT_JSON = 100


def read_texts(
    source: str | os.PathLike[str],
    column: str | None = None,
    id_column: str | None = None,
    on_bad: OnBad = refuse,
    *,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
) -> Iterator[Text]:
    """Yield the texts of a file, or of all files of a folder in alphabetical order.

    Args:
        source: Path or URI. "-" reads lines from stdin.
        column: Column of the texts in tables. None: "text". Files of plain lines have no columns.
        id_column: Column of the ids, which are integers or strings. None: texts without ids.
        on_bad: Receives each row without a text. The default raises its ValueError.
        delimiter: Character between the columns of a table of text. None: as the ending says.
            With it a file of any other ending is read as a table, too. "": the file is no table,
            and each line is a text.
        quoting: Whether fields of .tsv and .tab stand between quotation marks. See
            `minibert.corpus.delimited.delimited_rows`.

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
        ValueError: A table without the columns, columns of a file that has none, a file that cannot
            be read, or what `on_bad` raises.
    """
    for file in _locations(source):
        part = Part(file.name, delimiter=delimiter, quoting=quoting)
        yield from read_part(part, column, id_column, on_bad)


def read_rows(
    source: str | os.PathLike[str],
    columns: Sequence[str] = (),
    on_bad: OnBad = refuse,
    *,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
) -> Iterator[Row]:
    """Yield the rows of a file, or of all files of a folder, with all their columns.

    Args:
        source: Path or URI. "-" reads lines from stdin.
        columns: Columns that every table must have. A file of plain lines has the column "text"
            alone.
        on_bad: Receives each row that cannot be read or lacks a column. The default raises its
            ValueError.
        delimiter: As in `read_texts`.
        quoting: As in `read_texts`.

    Returns:
        An iterator of the place of a row ("line 7") and its values by column.

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
        ValueError: As `read_texts`.
    """
    for file in _locations(source):
        if has_columns(file, delimiter):
            rows = iter_rows(
                file, required=columns, delimiter=delimiter, quoting=quoting, on_bad=on_bad
            )
        else:
            _check_has_columns(file, columns)
            rows = _text_rows(file, 0, None, on_bad, may_be_table=delimiter == "")
        for place, row in rows:
            missing = [name for name in columns if name not in row]
            if missing:
                reason = missing_in_row(missing[0], row).removesuffix(".")
                on_bad(BadRow(f"{file}, {place}", reason, repr(row)[:200]))
            else:
                yield place, row


def read_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    needed: Sequence[str] = (),
    quoting: Quoting = "auto",
) -> list[dict[str, Any]]:
    """Read all rows of one table.

    Args:
        path: Path or URI of a file: .csv, .jsonl, .ndjson, .json, .parquet, or any other with tabs
            between its columns.
        columns: Names of the first columns, for a file without a header line.
        delimiter: Character between the columns of a table of text. None: a comma in .csv, a tab
            elsewhere.
        needed: Columns that every row must have.
        quoting: Whether fields stand between quotation marks: "quoted", "none", or "auto", which
            reads a .csv as quoted, and a table with tabs where it evidently is.

    Returns:
        A dict for each row, with its values by column.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A row that cannot be read or has another number of columns, a column that is
            needed and missing, or no rows at all.
    """
    rows: list[dict[str, Any]] = []
    location = Location(path)
    rows_of_file = iter_rows(
        location, required=needed, names=columns, delimiter=delimiter, quoting=quoting
    )
    for place, row in rows_of_file:
        rows.append(row)
        for column in needed:
            if column not in row:
                raise ValueError(f"{path}, {place}: {missing_in_row(column, row)}")
    if not rows:
        raise ValueError(f"{path} has no rows.")
    return rows


def read_part(
    part: Part,
    column: str | None = None,
    id_column: str | None = None,
    on_bad: OnBad = refuse,
) -> Iterator[Text]:
    """Yield the texts of a part of a file.

    Args:
        part: One of those that `parts_of` returns, or a whole file.
        column: As in `read_texts`, like the others.
        id_column: Column of the ids.
        on_bad: Receives each row without a text.

    Raises:
        ValueError: As `read_texts`.
    """
    location = Location(part.file)
    names = [column or DEFAULT_COLUMN]
    if id_column is not None:
        names.append(id_column)
    if has_columns(location, part.delimiter):
        rows = iter_rows(
            location,
            part.start,
            part.end,
            names,
            delimiter=part.delimiter,
            quoting=part.quoting,
            on_bad=on_bad,
        )
    else:
        _check_has_columns(location, [name for name in (column, id_column) if name is not None])
        may_be_table = part.delimiter == ""
        rows = _text_rows(location, part.start, part.end, on_bad, may_be_table)
    for place, row in rows:
        reason = _fault(row, names)
        if reason:
            on_bad(BadRow(f"{location}, {place}", reason, repr(row)[:200]))
        elif id_column is None:
            yield Text(row[names[0]])
        else:
            yield Text(row[names[0]], row[id_column])


def placed_rows(
    path: str | os.PathLike[str],
    *,
    required: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
    on_bad: OnBad = refuse,
) -> Iterator[PlacedRow]:
    """Yield the rows of a table, which know their file and line.

    Args:
        path: A table as of `read_table`, like the other arguments.
        required: Columns that a table with a header must have.
        columns: Names of the first columns, for a file without a header line.
        delimiter: Character between the columns.
        quoting: Whether fields stand between quotation marks.
        on_bad: Receives each row that cannot be read.
    """
    location = Location(path)
    for place, columns_of_row in iter_rows(
        location,
        required=required,
        names=columns,
        may_name_columns=True,
        delimiter=delimiter,
        quoting=quoting,
        on_bad=on_bad,
    ):
        row = PlacedRow(columns_of_row)
        row.place = f"{path}, {place}"
        row.may_lack_header = may_lack_header(location)
        yield row


def iter_rows(
    location: Location,
    start: int = 0,
    end: int | None = None,
    needed: Sequence[str] = (),
    *,
    required: Sequence[str] = (),
    names: Sequence[str] | None = None,
    may_name_columns: bool = False,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
    on_bad: OnBad = refuse,
) -> Iterator[Row]:
    """Yield the rows of a table.

    Args:
        location: A file of JSON, a parquet file, or a table of text: .csv, or anything else with
            tabs.
        start: First row or byte of the part that is read, as in `Part`.
        end: Row or byte after the last.
        needed: Columns that the table must have. Of parquet, only these are read.
        required: Columns that a table with a header must have, of which all columns are read.
        names: Names of the first columns, for a table of text without a header line.
        may_name_columns: The caller could pass `names`, so a message may advise it.
        delimiter: Character between the columns of a table of text.
        quoting: As in `minibert.corpus.delimited.delimited_rows`.
        on_bad: Receives each row that cannot be read.

    Raises:
        ValueError: A file that is damaged or lacks a column, or what `on_bad` raises.
    """
    _check_kind(location)
    if location.suffix in JSON_ENDINGS:
        rows = json_rows(location, start, end, on_bad)
    elif location.suffix in PARQUET_ENDINGS:
        rows = parquet_rows(location, start, end, needed, required)
    else:
        rows = delimited_rows(
            location,
            [*needed, *required],
            names,
            delimiter,
            quoting,
            on_bad,
            may_name_columns=may_name_columns,
        )
    return _undamaged(location, rows)


def is_table(source: str | Location) -> bool:
    """Return whether the texts of a file are a column of it, and not its lines."""
    if not isinstance(source, Location):
        source = Location(source)
    return source.suffix in (*JSON_ENDINGS, *DELIMITED_ENDINGS, *PARQUET_ENDINGS)


def has_columns(source: str | Location, delimiter: str | None) -> bool:
    """Return whether a file is read as a table, by its ending or the delimiter of `read_texts`."""
    if delimiter is None:
        return is_table(source)
    return delimiter != ""


def may_lack_header(location: Location) -> bool:
    """Return whether a table is one of text, whose columns are named by a header line."""
    return location.suffix not in (*JSON_ENDINGS, *PARQUET_ENDINGS)


def data_files(location: Location) -> dict[str, tuple[int, float]]:
    """Return the files that hold the texts of a corpus.

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


def parts_of(
    source: str | os.PathLike[str],
    column: str | None,
    part_bytes: int,
    *,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
) -> dict[str, Part]:
    """Split a corpus into parts of about `part_bytes` of text.

    Files that can only be read from the beginning are one part each: compressed ones, tables of
    text (a quoted field may hold line ends), arrays of JSON, and UTF-16.

    Args:
        source: Path or URI of a file or folder.
        column: Column of the texts in tables. None: "text".
        part_bytes: Bytes of text in a part.
        delimiter: As in `read_texts`.
        quoting: As in `read_texts`.

    Returns:
        The parts by a name that tells file and place.

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
        ValueError: A parquet file that is damaged or has no such column.
    """
    location = Location(source)
    if location.is_stdin:
        raise ValueError("stdin can be read only once: write the corpus into a file.")
    files = data_files(location)

    def split(name: str) -> dict[str, Part]:
        whole = Part(str(location / name), delimiter=delimiter, quoting=quoting)
        return _parts_of_file(whole, name, files[name][0], column, part_bytes)

    parts: dict[str, Part] = {}
    with ThreadPoolExecutor(16) as readers:  # who wait for the answers of an object store
        for file_parts in readers.map(split, files):
            parts.update(file_parts)
    return parts


def _parts_of_file(
    whole: Part, name: str, size: int, column: str | None, part_bytes: int
) -> dict[str, Part]:
    file = Location(whole.file)
    if file.suffix in PARQUET_ENDINGS:
        rows, text_bytes = rows_and_bytes(file, column or DEFAULT_COLUMN)
        size = rows
        step = max(1, rows * part_bytes // max(1, text_bytes))
    elif size > part_bytes and not whole.delimiter and _can_be_split(file):
        step = part_bytes
    else:
        step = max(1, size)
    base = name or file.path.replace("\\", "/").rpartition("/")[2]
    parts: dict[str, Part] = {}
    for start in range(0, size, step):
        end: int | None = start + step
        if start + step >= size:
            end = None
        parts[f"{base}-{start:012d}"] = whole._replace(start=start, end=end)
    return parts


def _can_be_split(file: Location) -> bool:
    """Whether a reader can begin in the middle of a file."""
    if file.compressed or file.suffix in DELIMITED_ENDINGS or is_wide(file):
        return False
    return file.suffix not in JSON_ENDINGS or is_object_a_line(file)


def _locations(source: str | os.PathLike[str]) -> list[Location]:
    location = Location(source)
    if location.is_stdin:
        return [location]
    return [location / name for name in data_files(location)]


def _text_rows(
    location: Location,
    start: int,
    end: int | None,
    on_bad: OnBad,
    may_be_table: bool = False,
) -> Iterator[Row]:
    """The lines of a file, each as the row of a table with one column."""
    _check_kind(location)
    lines = read_lines(location, start, end, on_bad)
    if start == 0 and not may_be_table:
        lines = _without_table(location, lines)
    if start == 0:
        lines = _without_json(location, lines)
    rows = ((place, {DEFAULT_COLUMN: line.rstrip("\r\n")}) for place, line in lines)
    return _undamaged(location, rows)


def _without_table(
    location: Location, lines: Iterator[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The lines of a file. Raises a ValueError for a table under another name."""
    size = SAMPLE_LINES
    if location.is_stdin:  # whose writer may wait
        size = 2
    sample = list(islice(lines, size))
    delimiter = evident_delimiter([line for _, line in sample])
    if delimiter is not None:
        option = "tab" if delimiter == "\t" else f"'{delimiter}'"
        raise ValueError(
            f"{location}, line 1: the lines are a table, but files that do not end in .csv or .tsv "
            f"are read as lines of text. Rename the file, or pass --delimiter {option} "
            f"(in Python delimiter={delimiter!r}), and name the column of the texts where it is "
            'not "text". --delimiter none (in Python delimiter="") reads each line as a text.'
        )
    yield from chain(sample, lines)


def _without_json(
    location: Location, lines: Iterator[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The lines of a file. Raises a ValueError for JSON under another name."""
    is_first = True
    for place, line in islice(lines, LINES_WITHOUT_JSON):
        content = line.strip()
        if is_first:
            check_not_json(location, place, line)
        elif is_json_object(content.removesuffix(",")):
            raise_for_json(location, place)
        is_first = is_first and not content
        yield place, line
    yield from lines


def _check_has_columns(location: Location, columns: Sequence[str]) -> None:
    if columns:
        _check_kind(location)
        raise ValueError(
            f"{location} is read as lines, without a column {columns[0]!r}: "
            "use .jsonl, .csv, .tsv or .parquet."
        )


def _check_kind(location: Location) -> None:
    kind = _NOT_TEXT.get(location.suffix) or _NOT_TEXT.get(Path(location.path).suffix.lower())
    if kind:
        raise ValueError(f"{location} is {kind}.")


def _fault(row: dict[str, Any], names: Sequence[str]) -> str:
    """What is wrong with the text, and perhaps the id, in the columns `names`, or nothing."""
    for name in names:
        if name not in row:
            return missing_in_row(name, row).removesuffix(".")
    if not isinstance(row[names[0]], str):
        return text_fault(names[0], row)
    for name in names[1:]:
        if not isinstance(row[name], str | int) or isinstance(row[name], bool):
            return f"{name} is {row[name]!r}, neither a whole number nor a string"
    return ""


def _undamaged(location: Location, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows. A ValueError names the file where decompressing or pyarrow fails."""
    is_packed = location.compressed or location.suffix in PARQUET_ENDINGS
    try:
        yield from rows
    except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        is_of_disk = getattr(error, "errno", None) is not None
        is_unpacking = is_packed and not is_of_disk and not isinstance(error, ValueError)
        if not is_unpacking and not type(error).__module__.startswith("pyarrow"):
            raise
        raise ValueError(f"{location} is damaged ({error}). Get it again.") from None
