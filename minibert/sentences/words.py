"""Vectors of words: the states of a word's WordPieces merged into one."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from torch import Tensor

from minibert.sentences.pooling import pool
from minibert.sentences.vectors import Vectors
from minibert.tokenization.encoding import Encoding


class WordVectors(NamedTuple):
    """The words of a text, where each lies in it (`[start, end)` in characters), and their vectors (words, D)."""

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: Vectors


def merge_pieces(text: str, encoding: Encoding, states: Tensor, merge: str) -> WordVectors:
    """Merges the states of a text's tokens, (tokens, D), into those of its words.

    Args:
        text: the text.
        encoding: where its tokens lie.
        states: features of the tokens, [CLS] and [SEP] among them.
        merge: "mean" of the pieces of a word, or the "first" of them.
    """
    pieces = [token for token, word in enumerate(encoding.word_ids) if word is not None]
    words = [list(group) for _, group in groupby(pieces, key=lambda token: encoding.word_ids[token])]
    offsets = [(encoding.offsets[word[0]][0], encoding.offsets[word[-1]][1]) for word in words]
    vectors = states[:0]  # for a text without words
    if words:
        vectors = pool(states[pieces], [len(word) for word in words], "mean" if merge == "mean" else "cls")
    return WordVectors([text[start:end] for start, end in offsets], offsets, vectors.cpu().numpy())
