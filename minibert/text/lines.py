"""The lines of a file as text, with their numbers. LF, CR LF and CR end a line."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from typing import IO

from minibert.text.location import Location
from minibert.text.rows import SHOWN_CHARACTERS, BadRow
from minibert.text.table import Table
from minibert.util.errors import Argument, Message

HEAD_BYTES = 512
# Longer lines are errors. A small compressed file may hold one that fills the memory.
MAX_LINE_BYTES = 100 * 2**20
MAX_WHOLE_BYTES = 2**30  # the same of a compressed file that is read as a whole

# kinds of files that people take for text, by their first bytes
_KINDS = {
    b"PK\x03\x04": "a zip archive, as .xlsx, .docx and .hwpx are: save it as .csv or .txt",
    b"\xd0\xcf\x11\xe0": "a document of Hangul or Office (.hwp, .xls, .doc): save it as .csv or "
    ".txt",
    b"\x1f\x8b": "gzip-compressed: rename it to end in .gz, or decompress it",
    b"PAR1\x15": "a parquet file: rename it to end in .parquet",
    b"ARROW1\0\0": "an Arrow file: rename it to end in .arrow",
    b"FEA1": "a Feather file: rename it to end in .feather",
    b"%PDF-": "a PDF document: extract its text",
    b"\x80\x02": "a pickle of Python objects: write its texts as .jsonl",
    b"\x80\x03": "a pickle of Python objects: write its texts as .jsonl",
    b"\x80\x04": "a pickle of Python objects: write its texts as .jsonl",
    b"\x80\x05": "a pickle of Python objects: write its texts as .jsonl",
    b"version https://git-lfs.github.com/": "a pointer of Git LFS and not the file itself: "
    "get the file (git lfs pull)",
}
# the same for markup, by the first tag in lower case
_MARKUP = {
    b"<!doctype html": "an HTML page: extract its text",
    b"<html": "an HTML page: extract its text",
    b"<doc id=": "of WikiExtractor, with tags around each document: run it with --json and let its "
    r"files end in .jsonl, or delete the tags (sed 's/^<\/*doc.*//')",
}

# UTF-32 first: its little-endian mark begins with that of UTF-16
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def text_lines(
    location: Location,
    encoding: str | None,
    skip: list[BadRow] | None = None,
    start: int = 0,
    end: int | None = None,
    keep_bad: bool = False,
    max_bytes: int = MAX_LINE_BYTES,
) -> Iterator[tuple[int, str]]:
    """Yield the lines that begin in bytes `[start, end)` of a file, with their ends.

    Args:
        location: The file, compressed or not.
        encoding: Its encoding. None: UTF-8, or UTF-16 or UTF-32 where a mark says so.
        skip: Receives the lines that cannot be decoded. None: the first is an error.
        start: First byte. Above 0 only for files that can be split (see `is_wide`).
        end: Byte after the last. None reads to the end.
        keep_bad: Yield the lines that `skip` receives, too, with replacement characters.
        max_bytes: Bytes of a line that is not an error yet.

    Returns:
        An iterator of the number of a line from 1, or of its first byte if `start` is not 0, and
        the line.

    Raises:
        ValueError: The file is not text, a line is too long, or one cannot be decoded and there is
            no `skip`.
    """
    head = b""
    with location.open() as file:
        if start == 0:
            head = file.peek(HEAD_BYTES)[:HEAD_BYTES]  # type: ignore[attr-defined]
            check_is_text(head, location)
            encoding = encoding or _marked_encoding(head)
        name = _codec(encoding)
        if not _has_lines_of_bytes(name):
            yield from _wide_lines(file, name, location, max_bytes)
            return
        for number, line in _byte_lines(file, start, end, location, max_bytes):
            try:
                text = line.decode(name)
                if "\0" in text:
                    raise ValueError
            except ValueError:
                unit = "byte" if start else "line"
                place = f"{location}, {unit} {number}"
                reason = _decoding_fault(line, name, encoding, is_binary=b"\0" in head)
                BadRow.leave_out(skip, place, reason, repr(line[:SHOWN_CHARACTERS]))
                if keep_bad:
                    yield number, line.decode(name, "replace")
            else:
                yield number, text


def whole_text(location: Location, encoding: str | None) -> str:
    """Return the text of a file whose lines may be of any length, such as one of JSON.

    Raises:
        ValueError: As `text_lines`, or the text of a compressed file is too long.
    """
    limit = MAX_WHOLE_BYTES if location.compressed else sys.maxsize
    size = 0
    lines = []
    for _, line in text_lines(location, encoding, max_bytes=limit):
        size += len(line)
        if size > limit:
            raise ValueError(
                f"{location} has more than {limit:,} characters. Decompress it, or write .jsonl."
            )
        lines.append(line)
    return "".join(lines)


def check_is_text(head: bytes, where: object) -> None:
    """Check the first bytes of a file that is about to be read as text.

    Args:
        head: The first bytes, 512 or more where the file has them.
        where: The file, for the message.

    Raises:
        ValueError: The file is of a kind that is not text.
    """
    first = head.removeprefix(codecs.BOM_UTF8).lstrip().lower()
    kinds = [kind for magic, kind in _KINDS.items() if head.startswith(magic)]
    kinds += [kind for tag, kind in _MARKUP.items() if first.startswith(tag)]
    if head[4:10] == b'\0\0\0\0{"':  # after the length of the header, which is below 4 GiB
        kinds.append("a safetensors file of tensors, not of text")
    if kinds:
        raise ValueError(f"{where} is {kinds[0]}.")


def is_wide(location: Location, encoding: str | None) -> bool:
    """Return whether a file cannot be split at the bytes of its line ends, as UTF-16."""
    if encoding is None:
        with location.open() as file:
            encoding = _marked_encoding(file.read(4))
    return not _has_lines_of_bytes(_codec(encoding))


def _codec(encoding: str | None) -> str:
    """The name of a codec, without the byte order mark, which `_byte_lines` removes."""
    return codecs.lookup(encoding or "utf-8").name.removesuffix("-sig")


def _marked_encoding(head: bytes) -> str | None:
    """The encoding of two or four bytes a character that a byte order mark names, or None."""
    for mark, encoding in _WIDE_MARKS.items():
        if head.startswith(mark):
            return encoding
    return None


def _has_lines_of_bytes(encoding: str) -> bool:
    """Whether the bytes of line ends are those of ASCII, and each line can be decoded alone."""
    begins_with_header = codecs.lookup(encoding).name == "iso2022_kr"
    return "\r\n".encode(encoding) == b"\r\n" and not begins_with_header


def _byte_lines(
    file: IO[bytes], start: int, end: int | None, location: Location, max_bytes: int
) -> Iterator[tuple[int, bytes]]:
    position = 0
    if start:
        # a line that began before `start` belongs to the part before
        file.seek(start - 1)
        position = start - 1
        while block := file.readline(max_bytes):
            position += len(block)
            if block.endswith(b"\n"):
                break
    number = 0
    rest = b""
    while block := rest + file.readline(max_bytes):
        if end is not None and position >= end and not rest:
            return
        text = block
        if not number and not start:
            text = block.removeprefix(codecs.BOM_UTF8)
            if not text:
                return
        lines = text.splitlines(keepends=True) if b"\r" in text else [text]
        rest = b""
        if len(block) >= max_bytes and not block.endswith(b"\n"):
            rest = lines.pop()  # may go on, as where all lines end in CR
        for line in lines:
            number += 1
            yield (position if start else number), line
        position += len(block) - len(rest)
        if len(rest) >= max_bytes:
            place = f"byte {position}" if start else f"line {number + 1}"
            raise _too_long(location, place, max_bytes)


def _too_long(location: Location, place: str, max_bytes: int) -> ValueError:
    return ValueError(
        f"{location}, {place}: the line has more than {max_bytes:,} bytes. Write a line for each "
        "text."
    )


def _decoding_fault(line: bytes, name: str, encoding: str | None, is_binary: bool) -> str:
    """What is wrong with a line that is not text in an encoding.

    Args:
        line: The line.
        name: The encoding that was tried.
        encoding: The encoding that the caller named.
        is_binary: Whether the file begins with NUL bytes among others, whatever the line has.
    """
    if b"\0" in line or is_binary:
        subject = "the line has a NUL byte" if b"\0" in line else "the file has NUL bytes"
        return Message(
            f"{subject}, as binary files have, and UTF-16 without a byte order mark (",
            Argument("encoding", "utf-16-le", Table),
            ")",
        )
    if encoding is not None:
        return Message(
            f"the line is not {name}, as ", Argument("encoding", encoding, Table), " says"
        )
    # which one it is cannot be told: many lines of Western European text are valid cp949
    return Message(
        "the line is not UTF-8. Pass its encoding, such as ",
        Argument("encoding", "cp949", Table),
        " for Korean or cp1252 for Western European text, or get the file again if it is damaged",
    )


def _wide_lines(
    file: IO[bytes], encoding: str, location: Location, max_characters: int
) -> Iterator[tuple[int, str]]:
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    number = 0
    try:
        while line := text.readline(max_characters):
            number += 1
            if len(line) >= max_characters:
                raise _too_long(location, f"line {number}", max_characters)
            # the decoders of utf-16 and utf-32 have removed the mark that they need
            if number == 1 and encoding not in ("utf-16", "utf-32"):
                line = line.removeprefix("\ufeff")
            yield number, line
    except UnicodeError:
        raise ValueError(f"{location} is not {encoding} after line {number}.") from None
