"""Which texts go through the model together, and a bar that counts them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

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
