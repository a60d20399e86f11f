"""The kinds of characters that BERT distinguishes, whichever version of Unicode this Python has.

The `tokenizers` library, which published models are used with, has tables of its own. Those of
categories end with Unicode 8 and those of canonical decomposition with Unicode 12, but those of
lower case and of word characters are newer than Python's. `unicode_tables.py` lists the
differences, so that a text has the same tokens everywhere. The sweeps over every code point in
tests/parity check them.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from minibert.tokenization import unicode_tables as tables

WHITE_SPACE = (
    "\t\n\r \xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What basic splitting replaces by spaces. It drops the other white space as control characters."""

SPACES = WHITE_SPACE + "\x0b\x0c\x85"
"""All white space. `str.strip()` takes more."""


def _pattern(ranges: Iterable[tuple[int, int]]) -> re.Pattern[str]:
    """Return a pattern that matches one character of the ranges."""
    return re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) + "]")


CJK = _pattern(tables.IDEOGRAPHS)
_LATER_CATEGORY = _pattern(tables.LATER_CATEGORY)
_LATER_DECOMPOSITION = _pattern(tables.LATER_DECOMPOSITION)
_LATER_NUMERIC = _pattern(tables.LATER_NUMERIC)
_LETTERLIKE = _pattern(tables.LETTERLIKE)
_CHANGED_CATEGORY = {
    "\u1734": "mark",
    "\U0001171e": "mark",
    "\u166d": "punctuation",
    "\U000111c9": "punctuation",
}
_LATER_LOWER_CASE = {
    chr(code): chr(code + distance)
    for first, last, step, distance in tables.LATER_LOWER_CASE
    for code in range(first, last + 1, step)
}


@lru_cache(maxsize=1 << 16)
def kind(char: str) -> str:
    r"""Return the kind of a character.

    >>> [kind(char) for char in "a!漢\u0301\x00"]
    ['letter', 'punctuation', 'cjk', 'mark', 'dropped']

    Returns:
        "space", "dropped", "cjk", "mark", "punctuation" or "letter".
    """
    category = unicodedata.category(char)
    if char in WHITE_SPACE:
        return "space"
    if _LATER_CATEGORY.match(char):
        return "letter"
    if category in ("Cc", "Cf", "Co") or char == "\ufffd":
        return "dropped"
    if CJK.match(char):
        return "cjk"
    if category == "Mn":
        return _CHANGED_CATEGORY.get(char, "mark")
    # ASCII symbols such as $ + ~ are punctuation for BERT, though not in Unicode
    if category[0] == "P" or (char < "\x7f" and not char.isalnum()):
        return "punctuation"
    return _CHANGED_CATEGORY.get(char, "letter")


def decompose(char: str) -> str:
    r"""Return the canonical decomposition of a character (Unicode's NFD).

    >>> [list(decompose(char)) for char in "aé하"]
    [['a'], ['e', '\u0301'], ['\u1112', '\u1161']]
    """
    if _LATER_DECOMPOSITION.match(char):
        return char
    return unicodedata.normalize("NFD", char)


def combining(char: str) -> int:
    """Return the combining class, by which marks after a letter are sorted, or 0 for a letter."""
    if _LATER_DECOMPOSITION.match(char):
        return 0
    return unicodedata.combining(char)


def lower(char: str) -> str:
    """Return the lower case of a single character: of "Σ" always "σ", never "ς"."""
    return _LATER_LOWER_CASE.get(char) or char.lower()


def is_numeric(char: str) -> bool:
    """Whether a character is a digit or another numeral (Unicode's categories N).

    >>> [is_numeric(char) for char in "2½a"]
    [True, True, False]
    """
    return unicodedata.category(char)[0] == "N" or _LATER_NUMERIC.match(char) is not None


def is_word_character(char: str) -> bool:
    r"""Whether regular expressions of the library match a character by `\\w`.

    >>> [is_word_character(char) for char in "a2_漢-"]
    [True, True, True, True, False]
    """
    category = unicodedata.category(char)
    if category[0] in "LM" or category in ("Nd", "Nl", "Pc"):
        return True
    return _LETTERLIKE.match(char) is not None
