"""BERT's text splitting, one step after another: normalise, split into words, cut words into pieces.

```
text        "Héllo, paintings!"
normalised  "hello, paintings!"              control characters dropped, accents stripped, lower case
words       "hello" "," "paintings" "!"      cut at white space and around punctuation
pieces      "hello" "," "painting" "##s" "!" the longest pieces that the vocabulary knows
```

The steps are those of google-research/bert (tokenization.py); where that and the `tokenizers` library differ,
this follows the library, which is what published models are used with today. Nothing here looks across white
space, so a text may be cut into *chunks* there and each chunk remembered: that is what makes pure Python fast.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Chars = list[tuple[str, int]]  # characters, each with the position in the text that it came from


class Token(NamedTuple):
    """A piece: its id, where it lies in the text `[start, end)`, and the number of its word."""

    id: int
    start: int = 0
    end: int = 0
    word: int = -1  # for what was added to the text


WHITE_SPACE = (
    "\t\n\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
CHUNK = re.compile(f"[^{WHITE_SPACE}]+")  # str.split() would also split where BERT drops: \x0b \x0c \x1c-\x1f \x85
_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_WORD = 100  # characters; a longer word is unknown
CONTINUED = "##"  # what pieces inside a word begin with


def _char_class(ranges: str) -> re.Pattern[str]:
    """A pattern for one character out of hexadecimal ranges: "41-43 61" is [A-Ca]."""
    characters = re.sub(r"\w+", lambda code: chr(int(code[0], 16)), ranges)
    return re.compile(f"[{characters.replace(' ', '')}]")


# ideographs are words of their own; not Hangul and kana, which are written in words
_CJK_RANGES = "3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F"
_CJK, _CJK_OR_DROPPED = _char_class(_CJK_RANGES), _char_class(f"{_CJK_RANGES} FFFD")

# The library's tables of categories end with Unicode 8, those of canonical decomposition with Unicode 12, and those
# of lower case are newer than Python's. With these exceptions the result depends on no version of Unicode:
# tests/parity sweeps every code point. Characters without a category in the ranges are letters either way.
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
_CHANGED_CATEGORY = {"\u1734": "mark", "\U0001171e": "mark", "\u166d": "punctuation", "\U000111c9": "punctuation"}
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
    r"""What a character is to BERT: "space", "dropped", "cjk", "mark", "punctuation" or "letter".

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
    if _CJK.match(char):
        return "cjk"
    if category == "Mn":
        return _CHANGED_CATEGORY.get(char, "mark")
    # ASCII symbols such as $ + ~ count as punctuation too, though Unicode says otherwise
    if category[0] == "P" or (char < "\x7f" and not char.isalnum()):
        return "punctuation"
    return _CHANGED_CATEGORY.get(char, "letter")


def clean_text(text: str) -> Chars:
    r"""Drops control characters and makes all white space a space: "a\x00\tb" -> "a b"."""
    return [
        (" " if what == "space" else char, position)
        for position, char in enumerate(text)
        if (what := kind(char)) != "dropped"
    ]


def space_cjk(chars: Chars) -> Chars:
    """Puts spaces around ideographs: "a漢b" -> "a 漢 b"."""
    spaced: Chars = []
    for char, position in chars:
        if kind(char) == "cjk":
            spaced += [(" ", position), (char, position), (" ", position)]
        else:
            spaced.append((char, position))
    return spaced


def drop_accents(chars: Chars) -> Chars:
    """Takes characters apart (Unicode's NFD) and drops non-spacing marks: "é" -> "e"; Hangul falls into jamo."""
    parts = [(part, not at) for char, _ in chars for at, part in enumerate(_decompose(char))]
    positions = iter([position for _, position in chars])
    position = 0
    stripped: Chars = []
    # canonical order: within a run of combining characters by class; class 0 ends a run
    for combining, run in groupby(parts, key=lambda part: _combining(part[0]) > 0):
        for part, is_first in sorted(run, key=lambda part: _combining(part[0])) if combining else run:
            if is_first:  # the library aligns reordered characters by count, so positions never go back
                position = next(positions)
            if kind(part) != "mark":
                stripped.append((part, position))
    return stripped


@lru_cache(maxsize=1 << 16)
def _decompose(char: str) -> str:
    return char if _LATER_DECOMPOSITION.match(char) else unicodedata.normalize("NFD", char)


@lru_cache(maxsize=1 << 16)
def _combining(char: str) -> int:
    return 0 if _LATER_DECOMPOSITION.match(char) else unicodedata.combining(char)


def lower_case(chars: Chars) -> Chars:
    """Lower case, each character by itself: "ΑΣ" -> "ασ", not "ας"."""
    return [(part, at) for char, at in chars for part in _LATER_LOWER.get(char) or char.lower()]


def split_words(text: str) -> list[tuple[int, int]]:
    """Where the words of a normalised text lie: "hello, you" -> (0, 5) (5, 6) (7, 10)."""
    words = []
    start = 0
    for position, char in enumerate(text):
        if (what := kind(char)) in ("space", "punctuation"):
            if start < position:
                words.append((start, position))
            start = position + 1
            if what == "punctuation":
                words.append((position, start))
    if start < len(text):
        words.append((start, len(text)))
    return words


class WordPiece:
    """Cuts a text into pieces of a vocabulary.

    Args:
        vocabulary: piece -> id; pieces inside a word begin with `##`.
        unk_token: the piece that stands for a word which the others cannot spell; must be in the vocabulary.
        do_lower_case: lower-case the text.
        strip_accents: drop accents; None does so when lower-casing.
        tokenize_chinese_chars: make every ideograph a word.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        unk_token: str = "[UNK]",
        *,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
    ) -> None:
        self.vocabulary = vocabulary
        self.unknown = vocabulary[unk_token]
        self.do_lower_case = do_lower_case
        strip_accents = do_lower_case if strip_accents is None else strip_accents
        self.changes_letters = do_lower_case or strip_accents
        chosen = ((space_cjk, tokenize_chinese_chars), (drop_accents, strip_accents), (lower_case, do_lower_case))
        self.steps = [step for step, wanted in chosen if wanted]
        self._longest = max(map(len, vocabulary))

    def normalise(self, text: str) -> tuple[str, Sequence[int]]:
        r"""The text as it is split, and for each of its characters the position in `text` that it came from.

        >>> WordPiece({"[UNK]": 0}).normalise("Né\x00e")
        ('nee', [0, 1, 3])

        Raises:
            ValueError: `text` holds a lone surrogate, half of a character, which no vocabulary can hold.
        """
        if text.isprintable():  # nothing to drop and no white space but " "
            if text.isascii():
                return (text.lower() if self.do_lower_case else text), range(len(text))
            if not (self.changes_letters or _CJK_OR_DROPPED.search(text)):
                return text, range(len(text))
        if _SURROGATE.search(text):
            raise ValueError(
                f"The text {text[:60]!r} holds a lone surrogate (half of a character, left by a wrong decoding); "
                "repair it with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
            )
        chars = clean_text(text)
        for step in self.steps:
            chars = step(chars)
        return "".join(char for char, _ in chars), [position for _, position in chars]

    def pieces(self, word: str) -> list[tuple[int, int, int]]:
        """The ids of a word's pieces and where they lie in it, always taking the longest piece that fits.

        >>> WordPiece({"[UNK]": 0, "em": 1, "##bed": 2, "##ding": 3}).pieces("embedding")
        [(1, 0, 2), (2, 2, 5), (3, 5, 9)]
        """
        found: list[tuple[int, int, int]] = []
        start, rest, prefix = 0, word, 0  # rest is what is left, with "##" before it after the first piece
        while start < len(word) <= MAX_WORD:
            for size in range(min(len(rest), self._longest), prefix, -1):
                piece = self.vocabulary.get(rest[:size])
                if piece is not None:
                    break
            else:
                break
            end = start + size - prefix
            found.append((piece, start, end))
            start, rest, prefix = end, CONTINUED + word[end:], len(CONTINUED)
        return found if start == len(word) else [(self.unknown, 0, len(word))]

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text, its words counted from 0."""
        return self.tokens_of(*self.normalise(text))

    def ids(self, text: str) -> tuple[int, ...]:
        """The ids of these tokens."""
        normalised, _ = self.normalise(text)
        words = split_words(normalised)
        return tuple([piece for start, end in words for piece, _, _ in self.pieces(normalised[start:end])])

    def tokens_of(self, normalised: str, positions: Sequence[int]) -> list[Token]:
        """The tokens of what `normalise` gave, or of a part of it."""
        return [
            Token(piece, positions[start + first], positions[start + last - 1] + 1, number)
            for number, (start, end) in enumerate(split_words(normalised))
            for piece, first, last in self.pieces(normalised[start:end])
        ]


class ChunkCache(dict[str, T]):
    """Remembers what a function gave for a chunk of text; emptied when it is full.

    A `dict` whose misses call the function, so that a hit costs no Python code at all. Safe across threads: every
    step is one atomic operation of `dict`, and two threads that miss the same chunk store the same value.
    """

    MAX_ENTRIES = 1 << 17  # about 30 MB
    MAX_CHUNK = 100  # characters; longer chunks are seldom seen twice

    def __init__(self, compute: Callable[[str], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, chunk: str) -> T:
        value = self._compute(chunk)
        if len(chunk) <= self.MAX_CHUNK:
            if len(self) >= self.MAX_ENTRIES:
                self.clear()
            self[chunk] = value
        return value
