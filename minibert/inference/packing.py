"""Many rows through a model: sorted by length, packed without padding, returned in their order."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert.base import PreTrainedModel
from minibert.inference.batching import BATCH_TOKENS, Report, batches
from minibert.inference.fused import FusedEncoder, without_autocast
from minibert.inference.threads import (
    MAX_IMBALANCE,
    MIN_BATCHES_PER_THREAD,
    MIN_TOKENS_PER_THREAD,
    usable_threads,
    workers,
)
from minibert.layouts import PackedLayout

IdRows = Sequence[Sequence[int]]  # token ids or token types, a list or an array for each row


class PackedBatch:
    """Rows that go through a model in one pass, one after the other without padding."""

    def __init__(self, indices: list[int], rows: IdRows, types: IdRows | None, device: Any) -> None:
        self.layout = PackedLayout([len(rows[index]) for index in indices])
        self.ids = _joined(rows, indices, device)
        self.types = None
        if types is not None:
            self.types = _joined(types, indices, device)


def _joined(rows: IdRows, indices: list[int], device: Any) -> Tensor:
    """Ids of some rows, (tokens,)."""
    ids = np.fromiter(chain.from_iterable(rows[index] for index in indices), np.int64)
    return torch.from_numpy(ids).to(device)


def run_packed(
    model: PreTrainedModel,
    forward: Callable[[Tensor, PackedLayout, Tensor | None], Tensor],
    rows: IdRows,
    types: IdRows | None = None,
    sizes: Sequence[int] | None = None,
    *,
    batch_tokens: int = BATCH_TOKENS,
    report: Report | None = None,
) -> list[Tensor]:
    """Runs a model on rows of token ids, many of them in one pass. No row attends to another.

    It runs without dropout and gradients, and in the model's own precision whatever
    `torch.autocast` around the call says.

    An optimized model on the CPU runs many batches side by side, each in a thread of its own, which
    waits for the others only at the end. A few batches run one after the other, each shared among
    all threads.

    Args:
        model: It is in eval mode meanwhile.
        forward: Runs it on ids (tokens,) with their layout and token types (tokens,), and returns
            (sum of sizes, ...).
        rows: Token ids of each row.
        types: Token types of each row. None: all 0.
        sizes: How many results each row has. None: one for each of its tokens.
        batch_tokens: Tokens of one pass.
        report: Progress callback. Receives the indices of finished rows.

    Returns:
        The results of each row, (size, ...).
    """
    lengths = [len(row) for row in rows]
    if sizes is None:
        sizes = lengths
    encoder = model.base_model.encoder
    device = model.device
    is_fused = isinstance(encoder, FusedEncoder) and device.type == "cpu"

    def run(indices: list[int]) -> Tensor:
        batch = PackedBatch(indices, rows, types, device)
        with torch.inference_mode(), without_autocast(device.type):
            return forward(batch.ids, batch.layout, batch.types)

    groups = batches(lengths, batch_tokens)
    run_all: Callable[..., Iterable[Tensor]] = map
    if is_fused:
        run_all = _side_by_side(len(groups))
    results = [torch.empty(0)] * len(rows)
    with eval_mode(model):
        for indices, outputs in zip(groups, run_all(run, groups), strict=True):
            parts = outputs.split_with_sizes([sizes[index] for index in indices])
            for index, part in zip(indices, parts, strict=True):
                results[index] = part
            if report is not None:
                report(indices)
    return results


@contextmanager
def eval_mode(model: PreTrainedModel) -> Iterator[None]:
    """A context in which a model is in eval mode."""
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()


def _side_by_side(count: int) -> Callable[..., Iterable[Tensor]]:
    """A `map` in worker threads if there are batches enough for all of them, else Python's."""
    if count > 1:
        threads = usable_threads()
        if threads > 1 and count >= MIN_BATCHES_PER_THREAD * threads:
            return workers(threads, threads, os.getpid()).map
    return map


def warm_up(model: PreTrainedModel, batch_tokens: int = BATCH_TOKENS) -> None:
    """Does now what the first batch of each size would do, so that the memory of a service is flat.

    oneDNN keeps what it compiles: with two threads a third of a gigabyte, most of which would
    otherwise come within an hour. It takes a second or two, up to seven for a BERT of base size. A
    model whose products are not compiled needs nothing.

    Args:
        model: An optimized model, or any other.
        batch_tokens: Tokens of the largest batch.
    """
    encoder = model.base_model.encoder
    threads = usable_threads()
    if not isinstance(encoder, FusedEncoder) or not encoder.is_compiled:
        return
    for count in range(min(threads, batch_tokens // MIN_TOKENS_PER_THREAD), 1, -1):
        if threads % count == 0:
            share = int(MAX_IMBALANCE * batch_tokens / count)
            workers(count, threads, os.getpid()).submit(encoder.compile_products, share).result()
    # Batches that are not shared out; with several threads such batches are seldom larger. In a
    # thread that ends: OpenMP threads kept for the caller would outnumber the cores, and then those
    # of all callers sleep whenever they wait
    with ThreadPoolExecutor(1, initializer=torch.get_num_threads) as worker:
        worker.submit(encoder.compile_products, batch_tokens // min(threads, 2)).result()
