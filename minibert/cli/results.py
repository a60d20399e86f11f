"""Print and write the results of commands, for people and for programs.

A command writes only to files that nothing else owns.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from minibert.files import json_text

# reported in one sentence; any other exception is a bug, whose traceback is shown
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError)


PICTURES = (".png", ".svg", ".pdf")


class UsageError(ValueError):
    """Options that do not go together: exit code 2."""


def print_json(content: Any) -> None:
    """Prints one JSON document on a line."""
    print(json.dumps(content, ensure_ascii=False, allow_nan=False))


def report(options: argparse.Namespace, content: dict[str, Any], sentence: str) -> None:
    """Prints the outcome of a command: `content` for programs, or a sentence for people."""
    if options.json:
        print_json(content)
    else:
        print(sentence)


class ResultPrinter(AbstractContextManager["ResultPrinter"]):
    """Prints results as they come: as JSON Lines, inside one JSON document, or as text.

    Args:
        options: The command's, with `json` and `jsonl`.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.as_document = options.json
        self.as_lines = options.jsonl
        self.more: dict[str, Any] = {}  # further fields of the document, known at its end
        self._count = 0

    @property
    def as_text(self) -> bool:
        """Whether a person reads the results."""
        return not (self.as_document or self.as_lines)

    def __enter__(self) -> ResultPrinter:
        if self.as_document:
            print('{"output": [', end="")
        return self

    def show(self, record: dict[str, Any], text: str = "") -> None:
        """Prints one result: `record` for programs, `text` for people."""
        self.show_line(json_text(record), text)

    def show_line(self, line: str, text: str = "") -> None:
        """Prints one result that is JSON already."""
        if self.as_text:
            print(text)
        elif self.as_lines:
            print(line)
        else:
            print(", " if self._count else "", line, sep="", end="")
        self._count += 1

    def __exit__(self, kind: Any, *_: object) -> None:
        if self.as_document:
            further = "".join(
                f", {json_text(key)}: {json_text(self.more[key])}" for key in self.more
            )
            print(f"]{further}}}" if kind is None else "")


def claim_file(path: str, force: bool) -> None:
    """Makes sure that writing a file loses nothing.

    Args:
        path: The file, a path or a URI.
        force: A file that exists may be replaced.

    Raises:
        UsageError: There is a folder, or a file and `force` is False.
    """
    if "://" in path:
        exists = "" in _files_of(path)
    elif os.path.isdir(path):
        raise UsageError(f"{path} is a folder. Name a file to write.")
    else:
        exists = os.path.isfile(path)
    if exists and not force:
        raise UsageError(f"{path} exists already: name another file, or replace it with --force.")


def claim_picture(path: str, force: bool) -> None:
    """As `claim_file`, for a file that matplotlib draws.

    Raises:
        UsageError: Its ending is not that of a picture, or it exists and `force` is False.
    """
    if not path.lower().endswith(PICTURES):
        raise UsageError(f"{os.path.basename(path)!r} should end in {', '.join(PICTURES)}.")
    claim_file(path, force)


def claim_folder(path: str, force: bool) -> None:
    """Makes sure that writing into a folder mixes with nothing and replaces nothing.

    Args:
        path: The folder, a path or a URI.
        force: Other files may be there.

    Raises:
        UsageError: The path is empty or a file's, or the folder has files and `force` is False.
    """
    if not path:
        raise UsageError("the folder to write into has no name.")
    entries: list[str] = []
    if "://" in path:
        entries = _files_of(path)
    elif os.path.lexists(path):
        if not os.path.isdir(path):
            raise UsageError(f"{path} is a file. Name a folder to write into.")
        entries = [entry.name for entry in os.scandir(path) if not entry.name.startswith(".")]
    if entries and not force:
        raise UsageError(
            f"{path} already holds {_first_names(entries)}: name a new or an empty folder, or "
            "write into this one with --force."
        )


def _files_of(uri: str) -> list[str]:
    """The names of the files at a URI, "" for a file itself."""
    from minibert.text.location import Location

    return list(Location(uri).files())


def _first_names(entries: list[str]) -> str:
    shown = ", ".join(sorted(entries)[:3])
    return f"{shown}, ..." if len(entries) > 3 else shown


def is_same_folder(first: str, second: str) -> bool:
    """Whether two paths lead to one folder, which exists."""
    return os.path.isdir(first) and os.path.isdir(second) and Path(first).samefile(second)
