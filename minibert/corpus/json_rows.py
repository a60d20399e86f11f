"""The rows of JSON files: an object a line, or an array of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, NoReturn

from minibert.corpus.lines import Line, read_lines
from minibert.corpus.location import Location
from minibert.corpus.rows import BadRow, OnBad, Row
from minibert.files import json_kind, parse_json

BEGINNINGS_OF_JSON = ("{", "[", "[{")  # the first line of a file of JSON that has been indented
_SPACE = " \t\r\n"


def json_rows(
    location: Location,
    start: int,
    end: int | None,
    on_bad: OnBad,
    lines: Iterator[Line] | None = None,
) -> Iterator[Row]:
    """Yield the objects of a file.

    An array, or an object that is printed over several lines, is held in memory as a whole.

    Args:
        location: The file.
        start: First byte of the part that is read. Above 0 only for a file with an object a line.
        end: Byte after the last.
        on_bad: Receives each line or entry that is not a JSON object.
        lines: The lines of the file, where they have been read. None: they are read.

    Raises:
        ValueError: An array or object that is not complete, or what `on_bad` raises.
    """
    if lines is None:
        lines = read_lines(location, start, end, on_bad)
    for place, line in lines:
        if not line.strip():
            continue
        if start == 0 and _spans_lines(location, line.strip()):
            text = line + "".join(more for _, more in lines)
            yield from _entries(location, text, int(place.removeprefix("line ")), on_bad)
        else:
            yield from _objects(location, chain([(place, line)], lines), on_bad)


def check_not_json(location: Location, place: str, line: str) -> None:
    """Check that the first line of a file, which is not read as JSON, is not JSON.

    Raises:
        ValueError: It is an object or an array of objects, or begins one over several lines.
    """
    content = line.strip()
    is_json = is_json_object(content.removesuffix(",")) or _holds_several(content)
    if is_json or content in BEGINNINGS_OF_JSON:
        raise_for_json(location, place)
    if content.startswith("[") and content.endswith("]"):
        try:
            items = parse_json(content, place, list)
        except ValueError:
            return
        if items and all(isinstance(item, dict) for item in items):
            raise_for_json(location, place)


def is_json_object(line: str) -> bool:
    """Whether a line is a JSON object with a key."""
    if not (line.startswith("{") and line.endswith("}")):
        return False
    try:
        return bool(parse_json(line, "the line", dict))
    except ValueError:
        return False


def raise_for_json(location: Location, place: str) -> NoReturn:
    """Raise the ValueError for JSON under another name."""
    raise ValueError(
        f"{location}, {place}: the line is JSON, but files that do not end in .jsonl, "
        ".ndjson or .json are read as lines or tables of text. Rename the file to end in .json, "
        'and name the column of the texts where it is not "text".'
    )


def is_object_a_line(location: Location) -> bool:
    """Return whether a file holds one JSON object a line, so that it can be split at line ends."""
    for _, line in read_lines(location, on_bad=lambda row: None):
        if line.strip():
            return not _spans_lines(location, line.strip())
    return True


def _spans_lines(location: Location, line: str) -> bool:
    """Whether the first line is not the object of one row.

    Then it begins a value of several lines or an array of objects, or it holds several objects.
    """
    if line.startswith("["):
        return location.suffix == ".json" or line[1:].lstrip()[:1] in ("", "{")
    if location.suffix == ".json" and line.startswith("{") and not line.endswith("}"):
        return True
    return line == "{" or _holds_several(line)


def _holds_several(line: str) -> bool:
    """Whether a line is objects without a line end between them."""
    if not (line.startswith("{") and line.endswith("}") and "}{" in line.replace(" ", "")):
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(line)
    except (ValueError, RecursionError):
        return False
    return line[end:].lstrip().startswith("{")


def _objects(location: Location, lines: Iterator[Line], on_bad: OnBad) -> Iterator[Row]:
    for place, line in lines:
        if not line.strip():
            continue
        try:
            row = parse_json(line, "the line", dict)
        except ValueError as error:
            reason = str(error).removesuffix(".")
            on_bad(BadRow(f"{location}, {place}", reason, line[:200]))
            continue
        if _has_surrogate(row):
            reason = "the line has half a character, a surrogate"
            on_bad(BadRow(f"{location}, {place}", reason, line[:200]))
            continue
        yield place, row


def _entries(location: Location, text: str, number: int, on_bad: OnBad) -> Iterator[Row]:
    """The objects of an array, or of several objects in a row. `text` begins in line `number`."""
    counted = 0
    for position, value in _values(location, text, number):
        number += text.count("\n", counted, position)
        counted = position
        place = f"line {number}"
        reason = ""
        if not isinstance(value, dict):
            reason = f"the entry should be a JSON object but is {json_kind(value)}"
        elif _has_surrogate(value):
            reason = "the entry has half a character, a surrogate"
        if reason:
            on_bad(BadRow(f"{location}, {place}", reason, repr(value)[:200]))
        else:
            yield place, value


def _values(location: Location, text: str, number: int) -> Iterator[tuple[int, Any]]:
    """Where each value begins in `text`, and the value."""
    decoder = json.JSONDecoder()
    position = _skip(text, 0, _SPACE)
    is_array = text[position] == "["
    separators = _SPACE
    if is_array:
        separators = _SPACE + ","
        position = _skip(text, position + 1, _SPACE)
    closed = False
    while position < len(text):
        if is_array and text[position] == "]":
            closed = True
            position = _skip(text, position + 1, _SPACE)
            break
        try:
            value, after = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise ValueError(_not_json(location, text, number, position, error)) from None
        yield position, value
        position = _skip(text, after, separators)
    if is_array and not closed:
        raise ValueError(f"{location}: its JSON array has no end. Get the file again.")
    if position < len(text):
        raise ValueError(f"{location}: there is more text after the end of its JSON array.")


def _not_json(location: Location, text: str, number: int, position: int, error: Exception) -> str:
    """A sentence about a value that cannot be read. `text` begins in line `number`."""
    reason = str(error)
    if isinstance(error, json.JSONDecodeError):
        position = error.pos
        reason = f"{error.msg}: column {error.colno}"
    line = number + text.count("\n", 0, position)
    return f"{location}, line {line}: not JSON ({reason})."


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position


def _has_surrogate(row: dict[str, Any]) -> bool:
    """Whether a text holds half a character, which JSON can escape and UTF-8 cannot encode."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
