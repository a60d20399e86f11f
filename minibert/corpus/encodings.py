"""Encodings of text files.

UTF-8 is read, and so is what a byte order mark names (UTF-16, UTF-32). Korean files without a mark
are often cp949, the code page of Korean Windows. They are read where their bytes can hardly be
anything else. For all others `guess_encoding` names the likely encoding, so that the error can say
how to convert the file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

# UTF-32 first: its little-endian mark begins with that of UTF-16
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_COMPRESSED = "compressed: rename it to end in "
_ARCHIVE = "an archive: unpack it"
_ARROW = "an Arrow file: write it as .parquet"
_PICKLE = "a pickle of Python objects: write its texts as .jsonl"
_PICTURE = "a picture, not text"
# how files begin that hold no text, or no text as it is
_KINDS = {
    b"\x1f\x8b": f"gzip-{_COMPRESSED}.gz",
    b"\xfd7zXZ": f"xz-{_COMPRESSED}.xz",
    b"\x28\xb5\x2f\xfd": f"zstd-{_COMPRESSED}.zst",
    **{b"BZh%d1AY&SY" % level: f"bzip2-{_COMPRESSED}.bz2" for level in range(1, 10)},
    b"\x04\x22\x4d\x18": "lz4-compressed: decompress it",
    b"\x1f\x9d": "compressed by compress (.Z): decompress it",
    b"PAR1": "a parquet file: rename it to end in .parquet",
    b"PK\x03\x04": "a zip archive or an Office document: unpack it, or save it as .csv",
    b"7z\xbc\xaf\x27\x1c": _ARCHIVE,
    b"Rar!\x1a\x07": _ARCHIVE,
    b"\xd0\xcf\x11\xe0": "an Office document: save it as .csv",
    b"{\\rtf": "a document in Rich Text Format: save it as .txt",
    b"%PDF-": "a PDF document: extract its text",
    b"ARROW1": _ARROW,
    b"\xff\xff\xff\xff": _ARROW,  # a stream, as data sets of Hugging Face are stored
    b"Obj\x01": "an Avro file: write it as .parquet",
    b"\x93NUMPY": "an array of NumPy, not text",
    b"\x89HDF": "an HDF5 file: write its texts as .parquet",
    b"SQLite format 3\0": "an SQLite database: export the table as .csv",
    b"\x80\x03": _PICKLE,
    b"\x80\x04": _PICKLE,
    b"\x80\x05": _PICKLE,
    b"\x89PNG": _PICTURE,
    b"\xff\xd8\xff": _PICTURE,
    b"version https://git-lfs.github.com/": "a pointer of Git LFS and not the file itself: "
    "get the file (git lfs pull)",
}
_TAR_MAGIC = b"ustar"
_TAR_MAGIC_START = 257
_MARKUP = {
    b"<!doctype html": "an HTML page: extract its text",
    b"<html": "an HTML page: extract its text",
    b"<?xml": "an XML file: extract its text",
}
# control characters that occur in text: tab, line ends, form feed, the end-of-file mark of DOS,
# the escape character of terminals, and the separators of records
_TEXT_CONTROLS = b"\x08\t\n\v\f\r\x1a\x1b\x1c\x1d\x1e\x1f"
_BINARY_CONTROLS = bytes(sorted(set(range(32)) - set(_TEXT_CONTROLS)))
MIN_CONTROLS = 4

# Half of the syllables of running Korean text are among these; 4% of syllables drawn at random
# would be.
_FREQUENT_SYLLABLES = frozenset(
    "이다는에의을가고를한지로서도하기은자사리인그대시어들해나정아일스라게원보전주"
    "장제상수여부구있으만것안요세면과와년니우동성공국경생신소오중방조선발학실무문적"
    "회체되관분미용연행비영산물위내모진람없않말음거러네까같습된할좋너무야마했었"
)
MIN_SYLLABLES = 4


def wide_encoding(head: bytes) -> str | None:
    """Return the encoding of two or four bytes a character that a byte order mark names.

    Args:
        head: The first bytes of a file, four or more where it has them.

    Returns:
        "utf-16" or "utf-32", or None for UTF-8, with a mark or without.
    """
    for mark, encoding in _WIDE_MARKS.items():
        if head.startswith(mark):
            return encoding
    return None


def check_is_text(head: bytes, where: object) -> None:
    """Check the first bytes of a file that is about to be read as text.

    Args:
        head: The first bytes, 512 or more where the file has them.
        where: The file, for the message.

    Raises:
        ValueError: It is compressed, markup or another kind of file that holds no text as it is,
            whatever its name says, or it is UTF-16 without a byte order mark.
    """
    kind = kind_of(head)
    if kind is not None:
        raise ValueError(f"{where} is {kind}.")
    encoding = _wide_without_mark(head)
    if encoding is not None:
        raise ValueError(
            f"{where} is encoded in {encoding} without a byte order mark. "
            f"Convert the file (iconv -f {encoding} -t utf-8)."
        )
    if is_binary(head):
        raise ValueError(f"{where} is a binary file, not text.")


def kind_of(head: bytes) -> str | None:
    """Return what a file is whose first bytes show that it holds no text as it is, or None."""
    for magic, kind in _KINDS.items():
        if head.startswith(magic):
            return kind
    if head[_TAR_MAGIC_START:].startswith(_TAR_MAGIC):
        return _ARCHIVE
    beginning = head.removeprefix(codecs.BOM_UTF8).lstrip().lower()
    for tag, kind in _MARKUP.items():
        if beginning.startswith(tag):
            return kind
    return None


def is_binary(data: bytes) -> bool:
    """Return whether bytes have more control characters than any text."""
    controls = len(data) - len(data.translate(None, _BINARY_CONTROLS))
    return controls >= max(MIN_CONTROLS, 0.05 * len(data))


def _wide_without_mark(head: bytes) -> str | None:
    """The encoding of two bytes a character in which a text begins, or None."""
    for first, encoding in ((1, "utf-16le"), (0, "utf-16be")):
        characters = head[first : len(head) // 2 * 2 : 2]
        if len(characters) > 1 and not any(characters):
            return encoding
        if b"\0" in characters and not _is_utf8(head) and _has_spaces(head, encoding):
            return encoding
    return None


def _is_utf8(head: bytes) -> bool:
    """Whether bytes are UTF-8, of which the last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _has_spaces(head: bytes, encoding: str) -> bool:
    """Whether bytes are printable in an encoding, and blanks or line ends separate words."""
    text = head[: len(head) // 2 * 2].decode(encoding, errors="ignore")
    spaces = sum(map(text.count, " \r\n"))
    printable = all(char.isprintable() or char in "\t\r\n" for char in text)
    return printable and 50 * spaces >= len(text)


def is_cp949(data: bytes) -> bool:
    """Return whether whole lines of bytes are Korean in cp949 and can hardly be anything else."""
    try:
        text = data.decode("cp949")
    except UnicodeDecodeError:
        return False
    letters = [char for char in text if char > "\x7f" and char.isalpha()]
    syllables = [char for char in letters if "가" <= char <= "힣"]
    frequent = [char for char in syllables if char in _FREQUENT_SYLLABLES]
    return (
        len(syllables) >= MIN_SYLLABLES
        and len(syllables) >= 0.9 * len(letters)
        and len(frequent) >= 0.3 * len(syllables)
    )


def guess_encoding(data: bytes) -> str | None:
    """Return the likely encoding, as iconv names it, of bytes that are not UTF-8, or None."""
    if is_cp949(data):
        return "cp949"
    for encoding, is_likely in _LIKELY.items():
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if is_likely(text):
            return encoding
    return None


def is_damaged_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8 of which a few are missing or changed.

    Then most characters beyond ASCII are complete, or the first bytes of one are there.
    """
    text = data.decode("utf-8", errors="replace")
    broken = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    complete = sum(char > "\x7f" for char in text) - text.count("\ufffd")
    is_begun = broken == 1 and _BEGUN.search(data) is not None
    return is_begun or 4 * broken <= complete


# the first two bytes of a character of three or four, which has no third
_BEGUN = re.compile(rb"[\xe0-\xf4][\x80-\xbf](?![\x80-\xbf])")


def _share(text: str, belongs: Callable[[str], bool]) -> float:
    """The share of a text's characters beyond ASCII for which `belongs` holds."""
    beyond = [char for char in text if char > "\x7f"]
    return sum(map(belongs, beyond)) / max(1, len(beyond))


def _is_kana(char: str) -> bool:
    return "぀" <= char <= "ヿ"


def _is_ideograph(char: str) -> bool:
    return "一" <= char <= "鿿"


def _is_japanese(text: str) -> bool:
    return _share(text, _is_kana) >= 0.25


def _is_chinese(text: str) -> bool:
    return _share(text, _is_ideograph) >= 0.8


def _is_western(text: str) -> bool:
    """Accents among many letters without, as in French or German."""
    beyond = sum(char > "\x7f" for char in text)
    return beyond <= 0.3 * len(text) and _share(text, str.isprintable) == 1


_LIKELY: dict[str, Callable[[str], bool]] = {
    "euc-jp": _is_japanese,
    "cp932": _is_japanese,
    "gb18030": _is_chinese,
    "cp1252": _is_western,
}
