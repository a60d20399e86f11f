"""What may be encoded: texts or pairs of texts, and how many of them are sorted together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Pair = tuple[str, str]  # goes through the model as [CLS] a a [SEP] b b [SEP]

# Texts that are tokenised and sorted together; bounds the memory that token lists take
CHUNK_TEXTS = 16384


def iter_texts(texts: Iterable[str]) -> Iterator[str]:
    """Any number of texts, one at a time.

    Raises:
        ValueError: a single string, whose letters would be taken for texts.
    """
    if isinstance(texts, (str, os.PathLike)):
        raise ValueError(f"texts should be several strings, not {texts!r}; minibert.files.read_lines reads a file's.")
    return iter(texts)


def check_texts(texts: Sequence[str]) -> list[str]:
    """The texts in a list; ValueError for what is not a string."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts should be strings, but number {index} is {text!r:.60}.")
    return list(texts)


def check_pairs(pairs: Sequence[object]) -> list[Pair]:
    """The pairs in a list; ValueError for what is not two strings."""
    checked = []
    for index, pair in enumerate(pairs):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise ValueError(f"pairs should be two strings each, but number {index} is {pair!r:.60}.")
        checked.append((pair[0], pair[1]))
    return checked


def check_inputs(texts: Sequence[Any]) -> list[Any]:
    """Pairs if the first is one, else texts."""
    return check_pairs(texts) if texts and isinstance(texts[0], tuple | list) else check_texts(texts)
