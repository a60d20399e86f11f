r"""Basic splitting: a text becomes words, whatever vocabulary there is.

```
text        "Héllo,\tpaintings!"
normalised  "hello, paintings!"              control characters dropped, accents stripped, lower case
words       "hello" "," "paintings" "!"      split at white space and around punctuation
```

The steps are those of google-research/bert (tokenization.py, BasicTokenizer); where that and the `tokenizers` library
differ, this follows the library, which is what published models are used with today.
"""

import re
from collections.abc import Sequence
from itertools import groupby

from minibert.tokenization.unicode import CJK, combining, decompose, kind, lower

Chars = list[tuple[str, int]]  # characters, each with the position in the text that it came from

SURROGATE = re.compile("[\ud800-\udfff]")
# Plain text is most text and takes a tenth of the time: nothing in it is dropped, and what is neither a letter nor a
# digit is " " or punctuation
_PLAIN_ASCII, _PLAIN = re.compile("[ -~]*"), re.compile("[ -~가-힣]*")
_PLAIN_WORD = re.compile(r"[^\W_]+|\S")


def clean_text(text: str) -> Chars:
    r"""Drops control characters and makes all white space a space.

    >>> clean_text("a\x00\tb")
    [('a', 0), (' ', 2), ('b', 3)]
    """
    return [
        (" " if what == "space" else char, position)
        for position, char in enumerate(text)
        if (what := kind(char)) != "dropped"
    ]


def space_cjk(chars: Chars) -> Chars:
    """Puts spaces around ideographs, each of which is a word.

    >>> "".join(char for char, _ in space_cjk(clean_text("a漢b")))
    'a 漢 b'
    """
    spaced: Chars = []
    for char, position in chars:
        if kind(char) == "cjk":
            spaced += [(" ", position), (char, position), (" ", position)]
        else:
            spaced.append((char, position))
    return spaced


def drop_accents(chars: Chars) -> Chars:
    """Takes characters apart (Unicode's NFD) and drops non-spacing marks; Hangul falls into jamo.

    >>> drop_accents([("é", 0), ("e", 1)])
    [('e', 0), ('e', 1)]
    >>> len(drop_accents([("한", 0)]))
    3
    """
    parts = [(part, not at) for char, _ in chars for at, part in enumerate(decompose(char))]
    positions = iter([position for _, position in chars])
    position = 0
    stripped: Chars = []
    # canonical order: within a run of combining characters by class; class 0 ends a run
    for is_run, run in groupby(parts, key=lambda part: combining(part[0]) > 0):
        for part, is_first in sorted(run, key=lambda part: combining(part[0])) if is_run else run:
            if (
                is_first
            ):  # the library aligns reordered characters by count, so positions never go back
                position = next(positions)
            if kind(part) != "mark":
                stripped.append((part, position))
    return stripped


def lower_case(chars: Chars) -> Chars:
    """Lower case, each character by itself.

    >>> "".join(char for char, _ in lower_case([("Α", 0), ("Σ", 1)]))
    'ασ'
    """
    return [(part, position) for char, position in chars for part in lower(char)]


def split_words(normalised: str) -> list[tuple[int, int]]:
    """Where the words of a normalised text lie.

    >>> split_words("hello, you")
    [(0, 5), (5, 6), (7, 10)]
    """
    words = []
    start = 0
    for position, char in enumerate(normalised):
        if (what := kind(char)) in ("space", "punctuation"):
            if start < position:
                words.append((start, position))
            start = position + 1
            if what == "punctuation":
                words.append((position, start))
    if start < len(normalised):
        words.append((start, len(normalised)))
    return words


class BasicTokenizer:
    """Splits a text into words.

    Args:
        do_lower_case: lower-case the text.
        strip_accents: drop accents; None does so when lower-casing.
        tokenize_chinese_chars: make every ideograph a word.

    >>> BasicTokenizer().words("Héllo, paintings!")
    ['hello', ',', 'paintings', '!']
    """

    def __init__(
        self,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
    ) -> None:
        self.do_lower_case = do_lower_case
        strip_accents = do_lower_case if strip_accents is None else strip_accents
        chosen = (
            (space_cjk, tokenize_chinese_chars),
            (drop_accents, strip_accents),
            (lower_case, do_lower_case),
        )
        self._steps = [step for step, wanted in chosen if wanted]
        self._changes_letters = do_lower_case or strip_accents
        self._plain = (
            _PLAIN_ASCII if strip_accents else _PLAIN
        )  # in which nothing but capitals changes

    def words(self, text: str) -> list[str]:
        """The words of a text; ValueError as for `normalise`."""
        if self._plain.fullmatch(text):
            text = text.lower() if self.do_lower_case else text
            return (
                [text] if text.isalnum() else _PLAIN_WORD.findall(text)
            )  # most chunks are one word
        normalised, _ = self.normalise(text)
        return [normalised[start:end] for start, end in split_words(normalised)]

    def normalise(self, text: str) -> tuple[str, Sequence[int]]:
        r"""The text as it is split, and for each of its characters the position in `text` that it came from.

        >>> BasicTokenizer().normalise("Né\x00e")
        ('nee', [0, 1, 3])

        Raises:
            ValueError: `text` holds a lone surrogate, half of a character, which no vocabulary can hold.
        """
        if self._plain.fullmatch(text):
            return (text.lower() if self.do_lower_case else text), range(len(text))
        if (
            not self._changes_letters
            and text.isprintable()
            and "\ufffd" not in text
            and not CJK.search(text)
        ):
            return text, range(len(text))  # nothing to drop and no white space but " "
        if SURROGATE.search(text):
            raise ValueError(
                f"The text {text[:60]!r} holds a lone surrogate (half of a character, left by a wrong decoding); "
                "repair it with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
            )
        chars = clean_text(text)
        for step in self._steps:
            chars = step(chars)
        return "".join([char for char, _ in chars]), [position for _, position in chars]
