"""Texts to rows of token ids: what is too long is cut off, or read in windows whose vectors are put together again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from minibert.tokenization.tokenizer import BertTokenizer

Vectors = NDArray[np.float32]  # (N, D)
Pair = tuple[str, str]  # goes through the model as [CLS] a a [SEP] b b [SEP]

# Texts that are tokenised and sorted together; bounds the memory that token lists take
CHUNK_TEXTS = 16384

_LISTS: dict[str, Any] = {"return_attention_mask": False, "verbose": False}


class Rows(NamedTuple):
    """Rows for the model.

    Attributes:
        ids: token ids of each row.
        types: token types of each row, None where all are 0.
        windows: how many rows each text has.
        overlong: which texts are too long for one row.
    """

    ids: list[list[int]]
    types: list[list[int]] | None
    windows: list[int]
    overlong: list[int]

    def texts_done(self, copies: Sequence[int]) -> list[int]:
        """How many texts count as done with each row: a text's `copies` with its first row, none with the others."""
        return [0 if number else n for n, own in zip(copies, self.windows, strict=True) for number in range(own)]


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of single texts as those of all of them."""
    return Rows([row for part in parts for row in part.ids], None, [len(part.ids) for part in parts], [])


def rows_of(tokenizer: BertTokenizer, texts: Sequence[Any], prompt: str, limit: int, overflow: str, head: int) -> Rows:
    """Rows of at most `limit` tokens.

    Args:
        tokenizer: what makes them.
        texts: texts, or pairs of texts.
        prompt: put before every text, and before the first text of every pair.
        limit: tokens of a row, [CLS] and [SEP] included.
        overflow: "truncate" or "mean", as in `SentenceEmbedder.encode`.
        head: tokens that begin every window: [CLS] and the prompt's.

    Raises:
        ValueError: windows of pairs.
    """
    if texts and isinstance(texts[0], tuple):
        if overflow == "mean":
            raise ValueError('overflow="mean" is for single texts; pairs can only be cut.')
        return _rows_of_pairs(tokenizer, [(prompt + first, second) for first, second in texts], limit)
    with_prompt = [prompt + text for text in texts] if prompt else list(texts)
    ids: list[list[int]] = tokenizer(with_prompt, return_token_type_ids=False, **_LISTS)["input_ids"]
    overlong = [number for number, row in enumerate(ids) if len(row) > limit]
    if overflow == "mean":
        windows = [split_row(row, limit, head) for row in ids]
        return Rows(list(chain.from_iterable(windows)), None, [len(own) for own in windows], overlong)
    for number in overlong:
        ids[number] = truncate_row(ids[number], limit, tokenizer.truncation_side)
    return Rows(ids, None, [1] * len(ids), overlong)


def _rows_of_pairs(tokenizer: BertTokenizer, pairs: Sequence[Pair], limit: int) -> Rows:
    """A row for each pair, of which the longer text is cut."""
    first, second = (list(texts) for texts in zip(*pairs, strict=True))
    whole = tokenizer(first, second, return_token_type_ids=False, **_LISTS)["input_ids"]
    batch = tokenizer(first, second, truncation=True, max_length=limit, **_LISTS)
    overlong = [number for number, row in enumerate(whole) if len(row) > limit]
    return Rows(batch["input_ids"], batch["token_type_ids"], [1] * len(pairs), overlong)


def truncate_row(row: list[int], limit: int, side: str) -> list[int]:
    """The ids of a text without what is past `limit`, or without the beginning when `side` is "left"."""
    return row[: limit - 1] + row[-1:] if side == "right" else row[:1] + row[len(row) - limit + 1 :]


def split_row(row: list[int], limit: int, head: int) -> list[list[int]]:
    """The ids of a text in windows of at most `limit`, side by side; each has the first `head` ids and [SEP]."""
    if len(row) <= limit:
        return [row]
    size = limit - head - 1
    return [row[:head] + row[start:-1][:size] + row[-1:] for start in range(head, len(row) - 1, size)]


def merge_windows(pooled: Tensor, lengths: Sequence[int], counts: Sequence[int]) -> Tensor:
    """Mean over the windows of each text, each counting as many times as it has tokens.

    Args:
        pooled: (windows, D).
        lengths: tokens of each window.
        counts: windows of each text.

    Returns:
        (texts, D).
    """
    weights = torch.tensor(lengths, dtype=pooled.dtype, device=pooled.device)
    merged = []
    for vectors, tokens in zip(torch.split(pooled, list(counts)), torch.split(weights, list(counts)), strict=True):
        merged.append(vectors[0] if len(vectors) == 1 else tokens @ vectors / tokens.sum())
    return torch.stack(merged)


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
