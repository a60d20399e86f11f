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
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

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
_NOT_KEPT = re.compile(rb"\0+")
_COMBINING_RUN = re.compile(rb"[^\0]{2,}")


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
    classes = bytes(map(combining, parts))
    order = list(range(len(parts)))
    for run in _COMBINING_RUN.finditer(classes):
        start, end = run.span()
        order[start:end] = sorted(order[start:end], key=classes.__getitem__)
    return order


def depends_on_neighbors(char: str) -> bool:
    """Whether `drop_accents` may move a character among combining characters around it.

    It moves only those that it drops, except for a hundred rare ones.

    >>> depends_on_neighbors("\u0301"), depends_on_neighbors("\u302e")
    (False, True)
    """
    for part in decompose(char):
        if combining(part) and kind(part) != "mark":
            return True
    return False


def lower_case(chars: Chars) -> Chars:
    """Lower-case each character without looking at its neighbors.

    >>> "".join(char for char, _ in lower_case([("Α", 0), ("Σ", 1)]))
    'ασ'
    """
    return [(part, position) for char, position in chars for part in lower(char)]


# ---- splitting


ALONE = "!"
"""The class of characters that are parts of their own."""

LEFT_OUT = " "
"""The class of characters that are in no part."""

_PART = re.compile(f"{ALONE}|([^{ALONE}{LEFT_OUT}])\\1*")


@lru_cache(maxsize=1 << 16)
def _word_class(char: str) -> str:
    return {"space": LEFT_OUT, "punctuation": ALONE}.get(kind(char), "w")


def split_words(normalized: str) -> Spans:
    """Split a normalized text at white space and around punctuation.

    >>> split_words("hello, you")
    [(0, 5), (5, 6), (7, 10)]
    """
    return _parts(map(_word_class, normalized))


def split_white_space(text: str) -> Spans:
    """Split at white space alone.

    >>> split_white_space("well-known !")
    [(0, 10), (11, 12)]
    """
    return _parts(LEFT_OUT if char in SPACES else "w" for char in text)


def split_word_characters(text: str) -> Spans:
    r"""Split into runs of word characters and runs of other characters, as `\w+|[^\w\s]+` does.

    >>> split_word_characters("don't...")
    [(0, 3), (3, 4), (4, 5), (5, 8)]
    """
    classes = []
    for char in text:
        if char in SPACES:
            classes.append(LEFT_OUT)
        else:
            classes.append("w" if is_word_character(char) else "o")
    return _parts(classes)


def split_digit_runs(text: str) -> Spans:
    """Split around runs of digits.

    >>> split_digit_runs("a20")
    [(0, 1), (1, 3)]
    """
    return _parts("d" if is_numeric(char) else "o" for char in text)


def split_digits(text: str) -> Spans:
    """Split around every digit.

    >>> split_digits("a20")
    [(0, 1), (1, 2), (2, 3)]
    """
    return _parts(ALONE if is_numeric(char) else "o" for char in text)


def split_punctuation(text: str) -> Spans:
    """Split around every punctuation character.

    >>> split_punctuation("a?!")
    [(0, 1), (1, 2), (2, 3)]
    """
    return _parts(ALONE if kind(char) == "punctuation" else "o" for char in text)


def _parts(classes: Iterable[str]) -> Spans:
    """Return the spans of neighbors of one class. A class is a letter, `ALONE` or `LEFT_OUT`."""
    return [part.span() for part in _PART.finditer("".join(classes))]


# ---- the two together


class _Steps(NamedTuple):
    """The steps of normalization, in their order, and whether each is taken."""

    clean_text: bool
    space_cjk: bool
    drop_accents: bool
    lower_case: bool

    def take(self, text: str) -> Chars:
        """Take the steps, one after another."""
        chars = clean_text(text) if self.clean_text else [(c, n) for n, c in enumerate(text)]
        if self.space_cjk:
            chars = space_cjk(chars)
        if self.drop_accents:
            chars = drop_accents(chars)
        if self.lower_case:
            chars = lower_case(chars)
        return chars

    def forms(self, text: str) -> list[str]:
        """Return what each character of a text becomes, by a table of those seen before."""
        table = _TABLES.setdefault(self, {})
        unseen = set(text).difference(table)
        if len(table) + len(unseen) > MAX_TABLE:
            # another table, because other threads may read this one
            table, unseen = {}, set(text)
            if len(unseen) <= MAX_TABLE:
                _TABLES[self] = table
        if unseen:
            table.update(self._table(list(unseen)))
        forms = [table[char] for char in text]
        if None not in forms:
            return forms  # type: ignore[return-value]  # mypy does not look into lists
        # A character moves at most within its run of combining characters, all of which are
        # dropped or may move. Dropped characters do not interrupt a run.
        settled = [form or "" for form in forms]
        is_kept = bytes(map(bool, forms))
        for run in _NOT_KEPT.finditer(is_kept):
            start, end = run.span()
            if None in forms[start:end]:
                for char, position in self.take(text[start:end]):  # positions never decrease
                    settled[start + position] += char
        return settled

    def _table(self, chars: list[str]) -> dict[str, str | None]:
        """Return what each of these characters becomes, or None if its neighbors decide."""
        forms = [""] * len(chars)
        # letters between them, so that none is a neighbor of another
        for form, position in self.take("a".join(chars)):
            if position % 2 == 0:
                forms[position // 2] += form
        table: dict[str, str | None] = dict(zip(chars, forms, strict=True))
        if self.drop_accents:
            moving = [char for char in chars if table[char] and depends_on_neighbors(char)]
            table.update(dict.fromkeys(moving))
        return table


MAX_TABLE = 1 << 16
_TABLES: dict[_Steps, dict[str, str | None]] = {}


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
        self._splitters = tuple(splitters)
        self._splits_as_bert = self._splitters == (split_words,)
        self._steps = _Steps(clean, tokenize_chinese_chars, strip_accents, do_lower_case)
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
        forms = self._forms(text)  # without their positions
        normalized = forms if isinstance(forms, str) else "".join(forms)
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
        forms = self._forms(text)
        if isinstance(forms, str):
            return forms, range(len(text))
        positions = chain.from_iterable(map(repeat, range(len(text)), map(len, forms)))
        return "".join(forms), list(positions)

    def _forms(self, text: str) -> str | list[str]:
        """Return what each character becomes, or a string if each becomes one character."""
        if self._plain.fullmatch(text):
            return text.lower() if self.do_lower_case else text
        if self._is_unchanged(text):
            return text
        if SURROGATE.search(text):
            raise ValueError(
                f"The text {text[:60]!r} contains a lone surrogate (half of a character, left by a "
                "wrong decoding). Repair it with "
                "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
            )
        return self._steps.forms(text)

    def _is_unchanged(self, text: str) -> bool:
        """Whether no step changes a text, as far as a quick look tells."""
        if self._changes_letters or not text.isprintable():
            return False
        # printable text has no white space but " "
        return "\ufffd" not in text and not CJK.search(text)
