"""The kinds of characters that BERT tells apart, whichever version of Unicode this Python has.

The `tokenizers` library, which published models are used with, was built with tables of its own: those of categories
end with Unicode 8, those of canonical decomposition with Unicode 12, and those of lower case are newer than Python's.
The exceptions are listed here, so that a text has the same tokens everywhere; tests/parity sweeps every code point.
"""

import re
import unicodedata
from functools import lru_cache

WHITE_SPACE = "\t\n\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def _char_class(ranges: str) -> re.Pattern[str]:
    """A pattern for one character out of hexadecimal ranges: "41-43 61" is [A-Ca]."""
    characters = re.sub(r"\w+", lambda code: chr(int(code[0], 16)), ranges)
    return re.compile(f"[{characters.replace(' ', '')}]")


# ideographs are words of their own; not Hangul and kana, which are written in words
CJK = _char_class("3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F")

# characters that have a category only since Unicode 9; those in the ranges that still have none are letters either way
_LATER_CATEGORY = _char_class(
    "5C8-5C9 61D 7FD 890-8E2 9FD-9FE A76 AFA-AFF B53-B55 C04-C3C C77 C84 D00 D3B-D3C D81 EBA ECE 180F-1886 1ABF-1AF0 "
    "1B4E-1B4F 1B7D-1B7F 1DF6-1DFB 2E43-2E63 A82C A8C5 A8FF A9BD 10D24-10F89 11070-11074 110C2-110CD 111CF "
    "1123E-11241 1133B 113BB-1145E 11660-1166C 116B9 1182F-11FFF 12FF1-1612F 16D6D-16F4F 16FE2-16FE4 1CF00-1D128 "
    "1D25B-1D25C 1E000-1E6F5 1E944-1E95F"
)
_LATER_DECOMPOSITION = _char_class(
    "5C8-5C9 7FD 897-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1AF0 1DF6-1DFA A82C 105C9-105E4 10D24-10F85 11070 1133B "
    "11383-113D0 1145E 11839-11A99 11D42-1612F 16D68-16FF1 1D127-1D128 1D250-1D281 1E08F-1E6F5"
)
# letters beside a `single_word`, whatever category this Python gives them: joiners, circled and squared letters
# (Other_Alphabetic), and those of Unicode 15 to 17
LETTERLIKE = _char_class(
    "200C-200D 24B6-24E9 1F130-1F149 1F150-1F169 1F170-1F189 897 CF3 ECE 1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 "
    "10D40-10D65 10D69-10D6D 10D6F-10D85 10EC2-10EC4 10EFC-10EFF 1123F-11241 11380-11389 1138B 1138E 11390-113B5 "
    "113B7-113C0 113C2 113C5 113C7-113CA 113CC-113D3 113E1-113E2 116D0-116E3 11BC0-11BE0 11BF0-11BF9 11F00-11F10 "
    "11F12-11F3A 11F3E-11F42 11F50-11F5A 1342F 13440-13455 13460-143FA 16100-16139 16D40-16D6C 16D70-16D79 18CFF 1B132 "
    "1B155 1CCF0-1CCF9 1DF25-1DF2A 1E030-1E06D 1E08F 1E4D0-1E4F9 1E5D0-1E5FA 2B739 2EBF0-2EE5D 31350-323AF"
)
_CHANGED_CATEGORY = {
    "\u1734": "mark",
    "\U0001171e": "mark",
    "\u166d": "punctuation",
    "\U000111c9": "punctuation",
}
_LATER_LOWER = {
    chr(code): chr(code + distance)
    for first, last, step, distance in (
        (0x1C89, 0x1C89, 1, 1),
        (0x2C2F, 0x2C2F, 1, 0x30),
        (0xA7C0, 0xA7C0, 1, 1),
        (0xA7CC, 0xA7DA, 2, 1),
        (0x10570, 0x10595, 1, 0x27),
        (0x10D50, 0x10D65, 1, 0x20),
        (0x16EA0, 0x16EB8, 1, 0x1B),
    )
    for code in range(first, last + 1, step)
    if code not in (0x1057B, 0x1058B, 0x10593)
} | {"\ua7cb": "\u0264", "\ua7dc": "\u019b"}


@lru_cache(maxsize=1 << 16)
def kind(char: str) -> str:
    r"""The kind of a character: "space", "dropped", "cjk", "mark", "punctuation" or "letter".

    >>> [kind(char) for char in "a!漢\u0301\x00"]
    ['letter', 'punctuation', 'cjk', 'mark', 'dropped']
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
    # ASCII symbols such as $ + ~ count as punctuation too, though Unicode says otherwise
    if category[0] == "P" or (char < "\x7f" and not char.isalnum()):
        return "punctuation"
    return _CHANGED_CATEGORY.get(char, "letter")


@lru_cache(maxsize=1 << 16)
def decompose(char: str) -> str:
    r"""A character taken apart (Unicode's NFD).

    >>> [list(decompose(char)) for char in "aé하"]
    [['a'], ['e', '\u0301'], ['\u1112', '\u1161']]
    """
    return char if _LATER_DECOMPOSITION.match(char) else unicodedata.normalize("NFD", char)


@lru_cache(maxsize=1 << 16)
def combining(char: str) -> int:
    """The combining class of a character, by which the marks after a letter are sorted; 0 for a letter."""
    return 0 if _LATER_DECOMPOSITION.match(char) else unicodedata.combining(char)


def lower(char: str) -> str:
    """The lower case of a character by itself: of "Σ" always "σ", never "ς"."""
    return _LATER_LOWER.get(char) or char.lower()
