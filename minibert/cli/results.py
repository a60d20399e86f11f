"""Print and write the results of commands, for people and for programs.

A command writes only to files that nothing else owns.
"""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager
from typing import Any, Literal

from minibert.text.location import claim as claim_path
from minibert.text.write import writer_of
from minibert.util.errors import message_of
from minibert.util.files import json_text

# reported in one sentence; any other exception is a bug, whose traceback is shown
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError)


PICTURES = (".png", ".svg", ".pdf")


class UsageError(ValueError):
    """Options that do not go together: exit code 2, as for any error that begins with an option."""


def print_json(content: Any) -> None:
    """Prints one JSON document on a line."""
    print(json_text(content))


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
        self.count = 0  # results that were printed

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
            print(", " if self.count else "", line, sep="", end="")
        self.count += 1

    def __exit__(self, kind: Any, *_: object) -> None:
        if self.as_document:
            further = "".join(
                f", {json_text(key)}: {json_text(self.more[key])}" for key in self.more
            )
            print(f"]{further}}}" if kind is None else "")


def claim(path: str, force: bool, kind: Literal["file", "folder", "rows", "picture"]) -> None:
    """Check that an output can be written, before anything slow is done.

    Args:
        path: The file or the folder.
        force: Whether something that is there may be replaced.
        kind: What it is. A file of rows or a picture has one of a few endings.

    Raises:
        UsageError: It has another ending, or something is there.
    """
    try:
        if kind == "rows":
            writer_of(path)
        if kind == "picture" and not path.lower().endswith(PICTURES):
            raise ValueError(f"{os.path.basename(path)!r} should end in {', '.join(PICTURES)}.")
        claim_path(path, force, kind == "folder")
    except (ValueError, FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise UsageError(message_of(error)) from None
