"""The lines of a text file, or of a part of it, with their places. LF, CR LF and CR end a line."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO

from minibert.corpus.encodings import (
    check_is_text,
    guess_encoding,
    is_binary,
    is_cp949,
    is_damaged_utf8,
    wide_encoding,
)
from minibert.corpus.location import Location
from minibert.corpus.rows import BadRow, OnBad, refuse

HEAD_BYTES = 512
END_OF_FILE = b"\x1a"  # which DOS programs write behind the last line
SAMPLE_BYTES = 1 << 16  # of lines that are not UTF-8, to detect the encoding

# the escapes that switch to Korean or Japanese letters in encodings of seven bits
_ESCAPE = b"\x1b"
_ISO_2022 = {
    b"\x1b$)C": "iso-2022-kr",
    b"\x1b$B": "iso-2022-jp",
    b"\x1b$@": "iso-2022-jp",
    b"\x1b(J": "iso-2022-jp",
}

Line = tuple[str, str]
"""Where a line stands ("line 7"), and the line with its end."""


def read_lines(
    location: Location, start: int = 0, end: int | None = None, on_bad: OnBad = refuse
) -> Iterator[Line]:
    """Yield the lines that begin in bytes `[start, end)` of a file.

    Args:
        location: The file, compressed or not.
        start: First byte. Above 0 only for files that `parts_of` splits.
        end: Byte after the last. None reads to the end.
        on_bad: Receives each line that cannot be decoded.

    Raises:
        ValueError: The file is binary or its encoding is not read, or what `on_bad` raises.
    """
    with location.open() as file, _naming(location):
        if start == 0:
            head = file.peek(HEAD_BYTES)[:HEAD_BYTES]  # type: ignore[attr-defined]
            encoding = wide_encoding(head)
            if encoding is not None:
                yield from _wide_lines(file, encoding, location)
                return
            check_is_text(head, location)
        yield from _decode(_byte_lines(file, start, end), location, on_bad)


@contextmanager
def _naming(location: Location) -> Iterator[None]:
    """Name the file where the system cannot read on in it."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(f"{location} cannot be read to its end ({error.strerror}).") from None


def is_wide(location: Location) -> bool:
    """Return whether a file is in UTF-16 or UTF-32, which cannot be split at a byte."""
    with location.open() as file:
        return wide_encoding(file.read(4)) is not None


def _byte_lines(file: IO[bytes], start: int, end: int | None) -> Iterator[tuple[str, bytes]]:
    position = 0
    if start:
        # a line that began before `start` belongs to the part before
        file.seek(start - 1)
        position = start - 1 + len(file.readline())
    number = 0
    while end is None or position < end:
        block = file.readline()
        if not block:
            return
        for line in block.splitlines(keepends=True):
            if line.startswith(codecs.BOM_UTF8):
                line = _without_marks(line)
            if line in (b"", END_OF_FILE):
                continue
            number += 1
            if start:
                yield f"byte {position}", line
            else:
                yield f"line {number}", line
        position += len(block)


def _without_marks(line: bytes) -> bytes:
    """A line without the byte order marks that it begins with.

    The first line of a file may have one, and so has every file in a concatenation.
    """
    while line.startswith(codecs.BOM_UTF8):
        line = line.removeprefix(codecs.BOM_UTF8)
    return line


def _decode(
    lines: Iterator[tuple[str, bytes]], location: Location, on_bad: OnBad
) -> Iterator[Line]:
    """Decode lines as UTF-8, or as cp949 where the first lines beyond ASCII are."""
    rest: Iterator[tuple[str, bytes]] = iter(())
    encoding = "utf-8"
    for place, line in lines:
        if _is_plain(line):
            yield place, line.decode("ascii")
            continue
        sample = [(place, line)]
        if not _is_utf8(line):
            sample += _take(lines, SAMPLE_BYTES)
            if is_cp949(b"".join(data for _, data in sample)):
                encoding = "cp949"
        rest = chain(sample, lines)
        break
    for place, line in rest:
        try:
            text = _text_of(line, encoding)
        except ValueError as error:
            on_bad(BadRow(f"{location}, {place}", str(error), repr(line[:200])))
        else:
            yield place, text


def _is_plain(line: bytes) -> bool:
    """Whether a line is ASCII and nothing else."""
    if not line.isascii() or b"\0" in line:
        return False
    return _ESCAPE not in line or _seven_bit_encoding(line) is None


def _seven_bit_encoding(line: bytes) -> str | None:
    """The encoding that an escape in a line of ASCII names, or None."""
    if not line.isascii():
        return None
    return next((name for escape, name in _ISO_2022.items() if escape in line), None)


def _text_of(line: bytes, encoding: str) -> str:
    """Decode a line.

    Raises:
        ValueError: It is not in this encoding, or no text at all.
    """
    if _ESCAPE in line:  # hardly any line has one, and there are many lines
        seven_bit = _seven_bit_encoding(line)
        if seven_bit is not None:
            raise ValueError(f"the line looks like {seven_bit}. {_conversion(seven_bit)}")
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(_not_encoded(line, encoding, error.start)) from None
    if "\0" in text:
        raise ValueError(
            "the line has a NUL byte, as damaged and binary files do. "
            "Delete it (tr -d '\\000') if the rest is right"
        )
    return text


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _take(lines: Iterator[tuple[str, bytes]], size: int) -> list[tuple[str, bytes]]:
    """The next lines, about `size` bytes of them."""
    taken: list[tuple[str, bytes]] = []
    while size > 0:
        entry = next(lines, None)
        if entry is None:
            break
        taken.append(entry)
        size -= len(entry[1])
    return taken


def _not_encoded(line: bytes, encoding: str, position: int) -> str:
    name = encoding
    if name == "utf-8":
        name = "UTF-8"
    if is_binary(line):
        return f"the line is not {name} but binary data, and not text"
    if encoding == "utf-8" and is_damaged_utf8(line):
        return f"the line is not {name}: a character is damaged at its byte {position + 1}"
    guess = guess_encoding(line)
    if guess is None or guess == encoding:
        return f"the line is not {name}. Convert the file (iconv -t utf-8)"
    return f"the line is not {name} but looks like {guess}. {_conversion(guess)}"


def _conversion(encoding: str) -> str:
    return f"Convert the file (iconv -f {encoding} -t utf-8)"


def _wide_lines(file: IO[bytes], encoding: str, location: Location) -> Iterator[Line]:
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    number = 0
    try:
        for line in text:
            number += 1
            yield f"line {number}", line
    except UnicodeDecodeError:
        raise ValueError(
            f"{location} begins as {encoding} but is damaged after line {number}. Get it again."
        ) from None
    finally:
        text.detach()  # whoever opened the file closes it
