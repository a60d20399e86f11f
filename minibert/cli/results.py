"""Print and write the results of commands, for people and for programs.

A command writes only to files that nothing else owns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from minibert.text.location import claim
from minibert.text.write import writer_of
from minibert.util.errors import message_of
from minibert.util.files import json_text

if TYPE_CHECKING:
    from minibert.config import BertConfig

# reported in one sentence; any other exception is a bug, whose traceback is shown
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError)


PICTURES = (".png", ".svg", ".pdf")
USES = {
    "embedder": "minibert search --model {model} QUERY --corpus FILE",
    "reranker": "minibert rerank --model {model} QUERY --file FILE",
    "classifier": "minibert classify --model {model} TEXT",
    "tagger": "minibert entities --model {model} TEXT",
    "answers": "minibert answer --model {model} --question QUESTION TEXT",
    "masked": 'minibert fill-mask --model {model} "... [MASK] ..."',
}
"""How a model is used, by its kind."""


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


def usage_of(kind: str, folder: str, config: BertConfig, backend: str = "torch") -> str:
    """A command that uses a model. Empty for a kind without one.

    Args:
        kind: What the model is.
        folder: Where it is.
        config: Its configuration, which says whether it compares two texts.
        backend: "torch", or "onnx" for an export.
    """
    from minibert.encoders.folders.reading import Reading

    if kind not in USES:
        return ""
    usage = USES[kind].format(model=folder)
    if kind == "classifier" and Reading.of(config).pairs:
        usage += " --pair TEXT"
    return usage if backend == "torch" else f"{usage} --backend {backend}"


def claim_file(path: str, force: bool) -> None:
    """Check that a file can be written, before anything slow is done.

    Args:
        path: The file.
        force: Whether one that is there may be replaced.

    Raises:
        UsageError: It cannot, or something is there.
    """
    with _as_usage():
        claim(path, force)


def claim_folder(path: str, force: bool) -> None:
    """As `claim_file`, for a folder. With `force` it may hold other files."""
    with _as_usage():
        claim(path, force, folder=True)


def claim_rows(path: str, force: bool, encoding: str | None = None) -> None:
    """As `claim_file`, for rows, which are written in a few formats and in an encoding."""
    with _as_usage():
        writer_of(path, encoding)
    claim_file(path, force)


def claim_picture(path: str, force: bool) -> None:
    """As `claim_file`, for a picture, which has one of a few endings."""
    if not path.lower().endswith(PICTURES):
        raise UsageError(f"{os.path.basename(path)!r} should end in {', '.join(PICTURES)}.")
    claim_file(path, force)


@contextmanager
def _as_usage() -> Iterator[None]:
    """Raise what is wrong with the name of an output as a UsageError."""
    try:
        yield
    except (ValueError, FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise UsageError(message_of(error)) from None
