"""Where the texts of a command come from: arguments, files, folders, URIs or a pipe."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from minibert.cli.options import OF_FILES, refuse_options, table_of
from minibert.cli.results import UsageError
from minibert.text import Row, Table, read
from minibert.text.location import Location
from minibert.text.read import data_files, has_columns
from minibert.util.checks import TruncationWarning
from minibert.util.progress import tell

logger = logging.getLogger("minibert")


def rows_of(
    options: argparse.Namespace, *columns: str | None, texts_alone: bool = False
) -> Iterator[Row]:
    """The rows of a command's input. An argument is a row, too.

    Args:
        options: The command's.
        columns: Columns that each row needs besides those of the options. None is passed over.
        texts_alone: The command uses the texts and ids alone.

    Raises:
        UsageError: No texts, both kinds, or texts that are empty or damaged.
        FileNotFoundError: A file does not exist.
        ValueError: A file cannot be read, or lacks a column.
    """
    table = table_of(options)
    if options.texts:
        if options.file:
            raise UsageError(
                f"give texts or --file, not both. {options.texts[0]!r:.80} is read as a text: "
                "repeat --file for each file, or name a folder."
            )
        refuse_options(
            options, OF_FILES, "says how --file is read. Texts as arguments are read as they stand."
        )
        for text in filter(os.path.isfile, options.texts):
            tell(f"{text!r} is read as a text, though a file has that name: --file reads the file.")
        return iter(rows_of_arguments(options.texts, table))
    needed = [*table.needed, *(name for name in columns if name is not None)]
    if options.file is None and not has_pipe():
        raise UsageError("no text given: pass it as arguments, by --file, or through a pipe.")
    files: list[str] = options.file or ["-"]
    check_files(files)
    output = getattr(options, "output", None)
    if output is not None:
        _check_output(output, files)
    return chain.from_iterable(
        read(name, table, columns=needed, only=texts_alone) for name in files
    )


def has_pipe() -> bool:
    """Whether stdin can hold texts: it is open, and nobody would have to type them."""
    return sys.stdin is not None and not sys.stdin.isatty()


def place_of(row: Row, number: int) -> dict[str, Any]:
    """What a result says of its row: its number in the input from 1, its file and line, its id."""
    place: dict[str, Any] = {"row": number, "file": row.file, "line": row.line}
    if row.table.id is not None:
        place["id"] = row.id
    return place


def shown_place(row: Row, source: str) -> str:
    """A short name of a row for people: its id, else its line, with its file in a folder."""
    if row.table.id is not None:
        return str(row.id)
    if row.file in (source, "stdin"):
        return str(row.line)
    return f"{row.file}:{row.line}"


def rows_of_arguments(texts: list[str], table: Table, what: str = "text") -> list[Row]:
    """Texts of the command line as rows.

    Raises:
        UsageError: All are blank, one is the name of stdin, or the terminal's encoding is not
            UTF-8.
    """
    if any("\udc80" <= letter <= "\udcff" for text in texts for letter in text):
        raise UsageError(
            f"the {what} was not read as UTF-8: set LC_ALL=C.UTF-8, or PYTHONUTF8=1, and try again."
        )
    if "-" in texts:
        raise UsageError(f"- is not a {what}. An option reads stdin, such as --file -.")
    if not any(map(str.strip, texts)):
        raise UsageError(f"the {what} is empty: write one between the quotation marks.")
    return [
        Row("arguments", number, {table.text: text}, table) for number, text in enumerate(texts, 1)
    ]


def check_files(names: Iterable[str | None], folders: bool = True) -> None:
    """Check that files exist, before anything slow is imported.

    Args:
        names: The files. None and "-" are passed over, and what is elsewhere is looked up when it
            is read.
        folders: Whether a folder can stand for its files.

    Raises:
        FileNotFoundError: A file does not exist.
        IsADirectoryError: A name is that of a folder, which cannot stand for a file.
    """
    for name in names:
        if name is None or name == "-" or "://" in name:
            continue
        if stat.S_ISDIR(os.stat(name).st_mode) and not folders:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)


def _check_output(output: str, files: Iterable[str]) -> None:
    """Check that what an earlier command has written is not read as texts.

    Raises:
        UsageError: The output, or a shard in it, is among the files of a folder that is read.
    """
    target = Location(output)
    for source in map(Location, files):
        paths = [target.path, source.path]
        if source.fs is None and target.fs is None:
            paths = [os.path.realpath(path) for path in paths]
        inside = os.path.relpath(*paths).replace(os.sep, "/")
        is_apart = type(source.fs) is not type(target.fs) or inside.startswith("..")
        if is_apart or source.is_stdin:
            continue
        names = data_files(source)
        is_folder_itself = inside == "." and "" not in names
        if is_folder_itself or any(f"{name}/".startswith(f"{inside}/") for name in names):
            raise UsageError(
                f"--output {output} is in the folder {source}, whose files are read as texts: "
                "name another place."
            )


def count_texts(options: argparse.Namespace, at_most: int | None = None) -> int | None:
    """Count the texts where that is quick.

    It is for arguments and for files of lines on this computer. Elsewhere the count is None.

    With `at_most`, no more lines than that are read.
    """
    if options.texts:
        return len(options.texts)
    lines = 0
    table = table_of(options)
    names = options.file or ["-"]
    for name in names:
        path = Path(name)
        location = Location(path)
        if not path.is_file() or has_columns(path, table) or location.compressed:
            return None
        with path.open("rb") as file:
            remaining = None if at_most is None else max(0, at_most - lines)
            lines += sum(1 for _ in islice(file, remaining))
    return lines


@contextmanager
def truncations() -> Iterator[list[TruncationWarning]]:
    """Collect the warnings of truncated texts, of which each is about a batch."""
    truncated: list[TruncationWarning] = []
    show = warnings.showwarning

    def collect(message: Warning | str, *about: Any, **more: Any) -> None:
        if isinstance(message, TruncationWarning):
            truncated.append(message)
        else:
            show(message, *about, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TruncationWarning)
        warnings.showwarning = collect
        yield truncated


def count_truncated(
    truncated: list[TruncationWarning],
    total: int,
    kind: str = "texts",
    advice: str = "The limit is --max-length.",
) -> int:
    """Say once how many of all texts were truncated, and return their number."""
    count = sum(warning.count for warning in truncated)
    if count:
        limit = truncated[0].limit
        logger.warning("%s", TruncationWarning(count, total, limit, advice, kind))
    return count
