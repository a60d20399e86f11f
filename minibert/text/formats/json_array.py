"""An array of JSON objects, held in memory as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from minibert.text.formats.format import RowFormat
from minibert.text.lines import whole_text
from minibert.text.location import Location
from minibert.text.request import RawRow, RowRequest
from minibert.util.files import json_fault

_SPACE = re.compile(r"[ \t\r\n]*")
_SEPARATOR = re.compile(r"[ \t\r\n]*(,|\]|$)[ \t\r\n]*")


class JsonArray(RowFormat):
    """An array of objects."""

    name = "json"
    endings = (".json",)
    meaning = "an array of JSON objects"
    is_typed = True
    without_effect = ("columns", "delimiter", "quoting")

    def records(self, request: RowRequest) -> Iterator[RawRow]:
        """A record for each entry, with the line where it begins."""
        text = whole_text(request.file, request.table.encoding)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        for number, values in _entries(request.file, text):
            fault = "the entry has half a character, a surrogate" if has_surrogate(values) else ""
            yield "line", number, values, values, fault


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


def has_surrogate(values: Any) -> bool:
    """Return whether a text holds a surrogate, which JSON can escape and UTF-8 cannot encode."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
