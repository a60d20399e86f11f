"""Which texts go through the model together, and how texts that are too long are cut and put together again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# Tokens of one pass through the model: enough for the matrix products to run at full speed in every thread, few enough
# for what lies between two of them to stay in the processor's cache
BATCH_TOKENS = 4096


def batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Numbers of rows, longest first, in batches of at most `batch_tokens` tokens (or of a single longer row).

    Sorting makes neighbours equally long, which a `PackedLayout` attends to together; the longest come first, so
    that memory runs out at once if it does at all.
    """
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and tokens + lengths[index] > batch_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += lengths[index]
    if batch:
        yield batch


def cut(row: list[int], limit: int, side: str) -> list[int]:
    """The ids of a text without what is past `limit`, or without the beginning when `side` is "left"."""
    return row[: limit - 1] + row[-1:] if side == "right" else row[:1] + row[len(row) - limit + 1 :]


def windows(row: list[int], limit: int, head: int) -> list[list[int]]:
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
    weights = torch.tensor(lengths, dtype=pooled.dtype)
    merged = []
    for vectors, tokens in zip(torch.split(pooled, list(counts)), torch.split(weights, list(counts)), strict=True):
        merged.append(vectors[0] if len(vectors) == 1 else tokens @ vectors / tokens.sum())
    return torch.stack(merged)


class Progress:
    """A tqdm bar on stderr that counts texts and shows tokens per second; nothing at all when not shown."""

    def __init__(self, show: bool, total: int | None = None) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(total=total, unit=" texts", disable=not show, file=sys.stderr)
        self._start = time.perf_counter()
        self._tokens = 0

    def add(self, texts: int, tokens: int = 0) -> None:
        """Counts texts that are done, and the tokens they took."""
        self._tokens += tokens
        if not self._bar.disable:
            rate = self._tokens / (time.perf_counter() - self._start)
            self._bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)
            self._bar.update(texts)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
