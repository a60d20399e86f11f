"""Where the texts of a command come from: arguments, files, folders, URIs or a pipe."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from minibert.cli.results import UsageError

Record = dict[str, Any]  # the columns of a row by name; a line has the column of the text alone


def texts_of(options: argparse.Namespace) -> Iterable[str]:
    """The texts of a command, one at a time: its arguments, or those of `--file` or of a pipe.

    Raises:
        UsageError: No texts, both kinds, or texts that are empty or damaged.
        FileNotFoundError: A file does not exist.
    """
    if options.texts and options.file:
        raise UsageError("give texts or --file, not both.")
    if options.texts:
        return checked_texts(options.texts)
    names = files_of(options)
    id_column = getattr(options, "id_column", None)
    files = (read_file(options, name, id_column) for name in names)
    texts = at_least_one(chain.from_iterable(files), names)
    rank, _ = place_among_processes()
    if id_column is None or rank > 0:
        return texts
    from minibert.corpus.ids import with_checked_ids

    return with_checked_ids(texts, attrgetter("id"))


def place_among_processes() -> tuple[int, int]:
    """The rank of this process and the number of processes, which torchrun sets."""
    try:
        return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
    except ValueError:
        raise UsageError(
            "RANK and WORLD_SIZE should be whole numbers, as torchrun sets them."
        ) from None


def checked_texts(texts: list[str], what: str = "text") -> list[str]:
    """Texts from the command line.

    Raises:
        UsageError: All are blank, or the terminal's encoding is not UTF-8.
    """
    if any("\udc80" <= letter <= "\udcff" for text in texts for letter in text):
        raise UsageError(
            f"the {what} was not read as UTF-8: set LC_ALL=C.UTF-8, or PYTHONUTF8=1, and try again."
        )
    if not any(map(str.strip, texts)):
        raise UsageError(f"the {what} is empty: write one between the quotation marks.")
    return list(texts)


def files_of(options: argparse.Namespace) -> list[str]:
    """The files to read, "-" for stdin.

    Raises:
        UsageError: Neither a file nor a pipe.
        FileNotFoundError: A file does not exist.
    """
    names: list[str] = options.file or ["-"]
    if options.file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("no text given: pass it as arguments, by --file, or through a pipe.")
    check_files(names)
    return names


def check_files(names: Iterable[str | os.PathLike[str] | None]) -> None:
    """FileNotFoundError for a file that does not exist, before anything slow is imported."""
    for name in names:
        if name is None or name == "-" or "://" in os.fspath(name):
            continue  # what is elsewhere is looked up when it is read
        os.stat(name)


def check_single_files(names: Iterable[str | os.PathLike[str] | None]) -> None:
    """As `check_files`, for files that a folder cannot stand for.

    Raises:
        FileNotFoundError: A file does not exist.
        IsADirectoryError: A name is that of a folder.
    """
    names = list(names)
    check_files(names)
    for name in names:
        if name is not None and os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(name))


def read_file(
    options: argparse.Namespace, name: str, id_column: str | None = None
) -> Iterable[str]:
    """The texts of a file, a folder or a URI, or for "-" the lines of stdin."""
    from minibert.corpus.inputs import read_texts

    return read_texts(
        name,
        options.text_column,
        id_column,
        delimiter=options.delimiter,
        quoting=options.quoting,
    )


def records_of(options: argparse.Namespace, *columns: str | None) -> Iterator[Record]:
    """Read the rows of a command's input with all their columns.

    An argument or a line has a single column, the text.

    Args:
        options: The command's, with `text_column`.
        columns: Other columns that each row needs. None is passed over.

    Raises:
        UsageError: As `texts_of`.
        ValueError: A row lacks a column, or the text is something else.
    """
    if options.texts:
        if options.file:
            raise UsageError("give texts or --file, not both.")
        return iter([{column_of(options): text} for text in checked_texts(options.texts)])
    names = files_of(options)
    files = (read_records(options, name, *columns) for name in names)
    return _with_checked_ids(options, at_least_one(chain.from_iterable(files), names))


def records_of_file(
    options: argparse.Namespace, name: str, *columns: str | None
) -> Iterator[Record]:
    """The rows of a file, a folder or a URI, or the lines of stdin ("-"), as in `records_of`."""
    return _with_checked_ids(options, at_least_one(read_records(options, name, *columns), [name]))


def _with_checked_ids(options: argparse.Namespace, records: Iterator[Record]) -> Iterator[Record]:
    """The records. After the last one, it warns of ids that occur more than once."""
    if options.id_column is None:
        return records
    from minibert.corpus.ids import with_checked_ids

    return with_checked_ids(records, itemgetter(options.id_column))


def read_records(options: argparse.Namespace, name: str, *columns: str | None) -> Iterator[Record]:
    """The rows of a file as they are, without a check across rows."""
    from minibert.corpus.inputs import DEFAULT_COLUMN, has_columns, read_rows
    from minibert.corpus.location import Location
    from minibert.corpus.rows import PlacedRow, text_fault

    text_column = options.text_column
    others = [column for column in columns if column is not None]
    needed = others if text_column is None else [text_column, *others]
    column = text_column or DEFAULT_COLUMN
    is_table = name != "-" and has_columns(name, options.delimiter)
    if text_column is None and is_table:
        needed = [column, *others]
    where = str(Location(name))
    rows = read_rows(name, needed, delimiter=options.delimiter, quoting=options.quoting)
    for place, row in rows:
        fault = text_fault(column, row)
        if fault:
            raise ValueError(f"{where}, {place}: {fault}.")
        record = PlacedRow(row)
        record.place = f"{where}, {place}"
        yield record


def column_of(options: argparse.Namespace) -> str:
    """The column of the text, by its name."""
    return options.text_column or "text"


def at_least_one(items: Iterable[Any], names: Iterable[str]) -> Iterator[Any]:
    """The items of files, read only on demand: a pipe may not have any yet."""
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        raise no_text(names)


def no_text(names: Iterable[str]) -> ValueError:
    """The error for files without a text, "-" for stdin."""
    listing = ", ".join("stdin" if name == "-" else name for name in names)
    return ValueError(f"there is no text in {listing}.")


def count_texts(options: argparse.Namespace, at_most: int | None = None) -> int | None:
    """Count the texts where that is quick.

    It is for arguments and for files of lines on this computer. Elsewhere the count is None.

    With `at_most`, no more lines than that are read.
    """
    from minibert.corpus.inputs import is_table
    from minibert.corpus.location import Location

    if options.texts:
        return len(options.texts)
    lines = 0
    names = options.file or ["-"]
    for name in names:
        path = Path(name)
        if not path.is_file() or is_table(name) or Location(path).compressed:
            return None
        with path.open("rb") as file:
            remaining = None if at_most is None else max(0, at_most - lines)
            lines += sum(1 for _ in islice(file, remaining))
    return lines
