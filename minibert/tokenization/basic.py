r"""Basic splitting: a text becomes words, whatever the vocabulary is.

```
text        "Héllo,\tpaintings!"
normalized  "hello, paintings!"              without control characters and accents, lower case
words       "hello" "," "paintings" "!"      split at white space and around punctuation
```

The steps are those of google-research/bert (tokenization.py, BasicTokenizer). Published models are
used with the `tokenizers` library today, so this follows the library where the two differ.

This is the last file of the tokenizer. The words go to wordpiece.py, the first and easiest one.
"""

import re
from collections.abc import Callable, Sequence

from minibert.tokenization.unicode import (
    CJK,
    SPACES,
    combining,
    decompose,
    is_numeric,
    is_word_character,
    kind,
    lower,
)

Chars = list[tuple[str, int]]
"""Characters, each with its position in the original text."""

Spans = list[tuple[int, int]]
"""Parts of a text, each `[start, end)`."""

SURROGATE = re.compile("[\ud800-\udfff]")
# In plain text nothing but capital letters changes, and everything that is neither a letter nor a
# digit is a space or punctuation. Most text is plain, and takes a tenth of the time.
_PLAIN_ASCII = re.compile("[ -~]*")
_PLAIN_ASCII_AND_HANGUL = re.compile("[ -~가-힣]*")
_PLAIN_WORD = re.compile(r"[^\W_]+|\S")


# ---- normalization


def clean_text(text: str) -> Chars:
    r"""Drop control characters and replace all white space by spaces.

    >>> clean_text("a\x00\tb")
    [('a', 0), (' ', 2), ('b', 3)]
    """
    chars: Chars = []
    for position, char in enumerate(text):
        char_kind = kind(char)
        if char_kind == "space":
            chars.append((" ", position))
        elif char_kind != "dropped":
            chars.append((char, position))
    return chars


def space_cjk(chars: Chars) -> Chars:
    """Put spaces around ideographs, each of which is a word.

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
    """Decompose characters (Unicode's NFD) and drop non-spacing marks. Hangul becomes jamo.

    >>> drop_accents([("é", 0), ("e", 1)])
    [('e', 0), ('e', 1)]
    >>> len(drop_accents([("한", 0)]))
    3
    """
    parts: list[str] = []
    begins_char: list[bool] = []
    for char, _ in chars:
        decomposed = decompose(char)
        parts += decomposed
        begins_char += [True] + [False] * (len(decomposed) - 1)

    stripped: Chars = []
    number = -1  # of the original character
    for index in _canonical_order(parts):
        # The library aligns reordered characters by count, so positions never decrease.
        if begins_char[index]:
            number += 1
        if kind(parts[index]) != "mark":
            stripped.append((parts[index], chars[number][1]))
    return stripped


def _canonical_order(parts: list[str]) -> Sequence[int]:
    """Return the indices of characters in Unicode's canonical order.

    A run of combining characters is sorted by combining class. Every other character stays.
    """
    classes = [combining(part) for part in parts]
    if not any(classes):
        return range(len(parts))
    order: list[int] = []
    run: list[int] = []
    for index, combining_class in enumerate(classes):
        if combining_class:
            run.append(index)
            continue
        order += sorted(run, key=classes.__getitem__)
        order.append(index)
        run = []
    return order + sorted(run, key=classes.__getitem__)


def lower_case(chars: Chars) -> Chars:
    """Lower-case each character without looking at its neighbors.

    >>> "".join(char for char, _ in lower_case([("Α", 0), ("Σ", 1)]))
    'ασ'
    """
    return [(part, position) for char, position in chars for part in lower(char)]


# ---- splitting


ALONE = "alone"
"""The class of characters that are parts of their own. Those of class "" are left out."""

_CLASSES = {"space": "", "punctuation": ALONE}


def split_words(normalized: str) -> Spans:
    """Split a normalized text at white space and around punctuation.

    >>> split_words("hello, you")
    [(0, 5), (5, 6), (7, 10)]
    """
    return _runs([_CLASSES.get(kind(char), "word") for char in normalized])


def split_white_space(text: str) -> Spans:
    """Split at white space alone.

    >>> split_white_space("well-known !")
    [(0, 10), (11, 12)]
    """
    return _runs(["" if char in SPACES else "word" for char in text])


def split_word_characters(text: str) -> Spans:
    r"""Split into runs of word characters and runs of other characters, as `\w+|[^\w\s]+` does.

    >>> split_word_characters("don't...")
    [(0, 3), (3, 4), (4, 5), (5, 8)]
    """
    classes = []
    for char in text:
        if char in SPACES:
            classes.append("")
        else:
            classes.append("word" if is_word_character(char) else "other")
    return _runs(classes)


def split_digit_runs(text: str) -> Spans:
    """Split around runs of digits.

    >>> split_digit_runs("a20")
    [(0, 1), (1, 3)]
    """
    return _runs(["digit" if is_numeric(char) else "other" for char in text])


def split_digits(text: str) -> Spans:
    """Split around every digit.

    >>> split_digits("a20")
    [(0, 1), (1, 2), (2, 3)]
    """
    return _runs([ALONE if is_numeric(char) else "other" for char in text])


def split_punctuation(text: str) -> Spans:
    """Split around every punctuation character.

    >>> split_punctuation("a?!")
    [(0, 1), (1, 2), (2, 3)]
    """
    return _runs([ALONE if kind(char) == "punctuation" else "other" for char in text])


def _runs(classes: Sequence[str]) -> Spans:
    """Return the spans of neighbors of one class."""
    spans = []
    start = 0
    for end in range(1, len(classes) + 1):
        before = classes[end - 1]
        if end < len(classes) and classes[end] == before != ALONE:
            continue
        if before:
            spans.append((start, end))
        start = end
    return spans


# ---- the two together


class BasicTokenizer:
    """Splits a text into words.

    Args:
        do_lower_case: Lower-case the text.
        strip_accents: Drop accents. None does so when lower-casing.
        tokenize_chinese_chars: Make every ideograph a word.
        clean: Drop control characters and replace white space by spaces.
        splitters: Functions that split a text. Each splits the parts of the one before.

    >>> BasicTokenizer().words("Héllo, paintings!")
    ['hello', ',', 'paintings', '!']
    """

    def __init__(
        self,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        clean: bool = True,
        splitters: Sequence[Callable[[str], Spans]] = (split_words,),
    ) -> None:
        if strip_accents is None:
            strip_accents = do_lower_case
        self.do_lower_case = do_lower_case
        self._clean = clean
        self._splitters = tuple(splitters)
        self._splits_as_bert = self._splitters == (split_words,)
        self._steps: list[Callable[[Chars], Chars]] = []
        if tokenize_chinese_chars:
            self._steps.append(space_cjk)
        if strip_accents:
            self._steps.append(drop_accents)
        if do_lower_case:
            self._steps.append(lower_case)
        self._changes_letters = do_lower_case or strip_accents
        self._plain = _PLAIN_ASCII if strip_accents else _PLAIN_ASCII_AND_HANGUL

    def words(self, text: str) -> list[str]:
        """Split a text into words.

        Raises:
            ValueError: As for `normalize`.
        """
        if self._splits_as_bert and self._plain.fullmatch(text):
            if self.do_lower_case:
                text = text.lower()
            if text.isalnum():  # most chunks are a single word
                return [text]
            return _PLAIN_WORD.findall(text)
        normalized, _ = self.normalize(text)
        return [normalized[start:end] for start, end in self.split(normalized)]

    def split(self, normalized: str) -> Spans:
        """Split a normalized text into words.

        >>> BasicTokenizer(splitters=[split_words, split_digits]).split("in 20")
        [(0, 2), (3, 4), (4, 5)]
        """
        if self._splits_as_bert:
            return split_words(normalized)
        spans = [(0, len(normalized))] if normalized else []
        for splitter in self._splitters:
            parts: Spans = []
            for start, end in spans:
                inside = splitter(normalized[start:end])
                parts += [(start + first, start + last) for first, last in inside]
            spans = parts
        return spans

    def normalize(self, text: str) -> tuple[str, Sequence[int]]:
        r"""Normalize a text.

        >>> BasicTokenizer().normalize("Né\x00e")
        ('nee', [0, 1, 3])

        Returns:
            The normalized text, and the position in `text` of each of its characters.

        Raises:
            ValueError: `text` contains a lone surrogate, half of a character.
        """
        if self._plain.fullmatch(text):
            if self.do_lower_case:
                return text.lower(), range(len(text))
            return text, range(len(text))
        if self._is_unchanged(text):
            return text, range(len(text))
        if SURROGATE.search(text):
            raise ValueError(
                f"The text {text[:60]!r} contains a lone surrogate (half of a character, left by a "
                "wrong decoding). Repair it with "
                "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
            )
        if self._clean:
            chars = clean_text(text)
        else:
            chars = [(char, position) for position, char in enumerate(text)]
        for step in self._steps:
            chars = step(chars)
        return "".join([char for char, _ in chars]), [position for _, position in chars]

    def _is_unchanged(self, text: str) -> bool:
        """Whether no step changes a text, as far as a quick look tells."""
        if self._changes_letters or not text.isprintable():
            return False
        # printable text has no white space but " "
        return "\ufffd" not in text and not CJK.search(text)
