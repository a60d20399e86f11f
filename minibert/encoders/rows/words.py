"""Vectors of words: the tokens of each word, merged."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minibert.encoders.rows.token_rows import Vectors

if TYPE_CHECKING:
    from minibert.tokenization.encoding import Encoding


class WordVectors(NamedTuple):
    """The words of a text, where each lies in it (`[start, end)` in characters), and their vectors.

    The vectors are (words, D).
    """

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: Vectors


def merge_tokens(text: str, encoding: Encoding, states: Any, merge: str) -> WordVectors:
    """Merges the features of a text's tokens into those of its words.

    Args:
        text: The text.
        encoding: Its tokens.
        states: Their features, (tokens, D), an array or a tensor.
        merge: "mean" of a word's tokens, or the "first" of them.
    """
    features: Vectors = states if isinstance(states, np.ndarray) else states.cpu().numpy()
    word_ids = encoding.word_ids
    tokens = [token for token, word in enumerate(word_ids) if word is not None]
    words = [list(group) for _, group in groupby(tokens, key=lambda token: word_ids[token])]
    offsets = []
    vectors = np.empty((len(words), features.shape[1]), np.float32)
    for index, word in enumerate(words):
        start, _ = encoding.offsets[word[0]]
        _, end = encoding.offsets[word[-1]]
        offsets.append((start, end))
        vectors[index] = features[word[0]]
        if merge == "mean":
            vectors[index] = features[word].sum(axis=0) / np.float32(len(word))
    return WordVectors([text[start:end] for start, end in offsets], offsets, vectors)
