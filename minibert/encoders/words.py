"""Vectors of words: the tokens of each word, merged."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from minibert.encoders.encode import warn_of_truncation
from minibert.encoders.pooling import pool
from minibert.encoders.token_rows import Vectors, check_texts, list_texts, tokenize_rows
from minibert.tokenization.encoding import Encoding

if TYPE_CHECKING:
    from minibert.encoders.encode import TextEncoder


class WordVectors(NamedTuple):
    """The words of a text, where each lies in it (`[start, end)` in characters), and their vectors.

    The vectors are (words, D).
    """

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: Vectors


def word_vectors(
    encoder: TextEncoder, texts: Any, merge: str, batch_tokens: int
) -> WordVectors | list[WordVectors]:
    """What `words` of an embedder returns. Its arguments are described there."""
    if merge not in ("mean", "first"):
        raise ValueError(f'merge should be "mean" or "first", not {merge!r}.')
    single = isinstance(texts, str)
    inputs = check_texts([texts] if single else list_texts(texts))
    if not inputs:
        return []
    settings = encoder.settings(prompt="", batch_tokens=batch_tokens)
    tokenizer = encoder.tokenizer
    rows = tokenize_rows(tokenizer, inputs, encoder.max_length, settings)
    advice = "words past that have no vector."
    warn_of_truncation(encoder, rows.overlong, len(inputs), "truncate", advice)
    distinct = [str(row.text) for row in rows.rows]
    encodings = tokenizer(distinct, truncation=True, max_length=encoder.max_length).encodings
    states = encoder.token_states(rows, batch_tokens)
    results = []
    for text, encoding, features in zip(distinct, encodings, states, strict=True):
        results.append(merge_tokens(text, encoding, features, merge))
    if single:
        return results[0]
    return [results[index] for index in rows.indices]


def merge_tokens(text: str, encoding: Encoding, states: Tensor, merge: str) -> WordVectors:
    """Merges the features of a text's tokens into those of its words.

    Args:
        text: The text.
        encoding: Its tokens.
        states: Their features, (tokens, D).
        merge: "mean" of a word's tokens, or the "first" of them.
    """
    states = torch.as_tensor(states)
    word_ids = encoding.word_ids
    tokens = [token for token, word in enumerate(word_ids) if word is not None]
    words = [list(group) for _, group in groupby(tokens, key=lambda token: word_ids[token])]
    offsets = []
    for word in words:
        start, _ = encoding.offsets[word[0]]
        _, end = encoding.offsets[word[-1]]
        offsets.append((start, end))
    vectors = states[:0]  # for a text without words
    if words:
        pooling = "mean" if merge == "mean" else "cls"
        vectors = pool(states[tokens], [len(word) for word in words], pooling)
    return WordVectors([text[start:end] for start, end in offsets], offsets, vectors.cpu().numpy())
