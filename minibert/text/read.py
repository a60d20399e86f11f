"""Read files of texts row by row. `read` is the one reader of every command.

The ending of the name says how a file is read, and nothing is guessed. `minibert.text.formats` has
the formats and their endings. A file of any other ending has a text a line.

Before the ending of a compressed file (.gz, .bz2, .xz, .zst) it is the same. Upper and lower case
make no difference. `Table` has what overrides it. What evidently contradicts it is an error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from minibert.text.formats import row_format
from minibert.text.lines import whole_text
from minibert.text.location import Location
from minibert.text.request import RowRequest
from minibert.text.rows import BadRow, Row
from minibert.text.table import Table
from minibert.util.files import json_fault

# files about a data set, which lie beside its data
_ABOUT_DATA = re.compile(
    r"(readme|licen[cs]e|notice|changelog|citation)(\.(md|markdown|rst|txt|html?|pdf|cff|bib|json))?"
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
        only: Read only these columns where a format can leave others out, which is faster.

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
        ImportError: A package that reads this kind of file is not installed.
        ValueError: A file is not what its name says, lacks a column, or a row cannot be used. Or
            there are no rows at all.
    """
    table = table or Table()
    location = Location(path)
    names = [""] if location.is_stdin else data_files(location)
    is_empty = True
    for name in names:
        rows = _rows(RowRequest(location / name, table, skip, columns, only))
        first = next(rows, None)
        if first is not None:
            is_empty = False
            yield first
        yield from rows
    if is_empty and not skip:
        raise ValueError(f"there is no text in {location}.")


def read_json_value(path: str | os.PathLike[str], table: Table | None = None) -> Any:
    """Return the value in a .json file, whatever its shape.

    Args:
        path: Path or URI of the file.
        table: Its encoding. None: UTF-8, or what a byte order mark names.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not JSON.
    """
    location = Location(path)
    text = whole_text(location, (table or Table()).encoding)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{location} is not JSON ({json_fault(error)}).") from None


class Part(NamedTuple):
    """A part of a file: rows of parquet, batches of Arrow, else the lines that begin in some bytes.

    Attributes:
        file: Path or URI.
        start: First row, batch or byte.
        end: Row, batch or byte after the last. None reads to the end of the file.
    """

    file: str
    start: int = 0
    end: int | None = None


def parts_of(
    source: str | os.PathLike[str], table: Table | None = None, part_bytes: int = 1 << 21
) -> dict[str, Part]:
    """Split a file or a folder into parts of about `part_bytes` of text.

    Files that can only be read from the beginning are one part each: compressed ones, .csv, .tsv,
    .json, streams of Arrow, and UTF-16.

    Args:
        source: Path or URI of a file or folder.
        table: How the files are read.
        part_bytes: Bytes of text in a part.

    Returns:
        The parts by a name that tells file and place.

    Raises:
        FileNotFoundError: The file does not exist, or the folder has no files.
        ValueError: The source is stdin or a pipe, or a file of parquet or Arrow is damaged or has
            no column of the text.
    """
    table = table or Table()
    location = Location(source)
    if location.is_stdin or location.is_pipe:
        raise ValueError(f"{location} can be read only once: write the texts into a file.")
    files = data_files(location)

    def split(name: str) -> dict[str, Part]:
        file = location / name
        request = RowRequest(file, table, columns=[table.text])
        bounds = row_format(file, table).split(request, files[name][0], part_bytes)
        base = name or Path(file.path).name
        return {f"{base}-{start:012d}": Part(str(file), start, end) for start, end in bounds}

    parts: dict[str, Part] = {}
    with ThreadPoolExecutor(16) as readers:  # who wait for the answers of an object store
        for file_parts in readers.map(split, files):
            parts.update(file_parts)
    return parts


def read_part(
    part: Part, table: Table | None = None, skip: list[BadRow] | None = None
) -> Iterator[Row]:
    """Yield the rows of a part of a file, with the columns that the table names.

    A part may have none. See `read`.
    """
    file = Location(part.file)
    return _rows(RowRequest(file, table or Table(), skip, None, True, part.start, part.end))


def has_columns(path: str | os.PathLike[str], table: Table) -> bool:
    """Return whether the rows of a file have columns with names. Otherwise they are lines."""
    return row_format(Location(path), table).has_columns


def _rows(request: RowRequest) -> Iterator[Row]:
    return row_format(request.file, request.table).read(request)


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
    data = {
        name: about
        for name, about in location.files().items()
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
