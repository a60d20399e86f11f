"""Many rows through a model: sorted by length, packed into passes without padding, and put back in their order."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

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
    """Runs a model on rows of token ids, each alone in its sequence, many in one pass.

    Without dropout and gradients, and in the model's own precision, whatever `torch.autocast` around the call says.

    An optimised model on the CPU runs many batches side by side, each in a thread of its own, which waits for the
    others only at the end; a few run one after the other, each shared among all threads.

    Args:
        model: which is in eval mode meanwhile.
        forward: runs it on ids (tokens,) with their layout and token types (tokens,); gives (sum of sizes, ...).
        rows: token ids of each row.
        types: token types of each row; None: all 0.
        sizes: how many results each row has; None: one for each of its tokens.
        batch_tokens: tokens of one pass.
        report: is told the numbers of the rows that are done.

    Returns:
        The results of each row, (size, ...).
    """
    lengths = [len(row) for row in rows]
    sizes = lengths if sizes is None else sizes
    encoder, device, training = model.base_model.encoder, model.device, model.training
    fused = isinstance(encoder, FusedEncoder) and device.type == "cpu"

    def tensor(lists: IdRows, batch: list[int]) -> Tensor:
        return torch.from_numpy(
            np.fromiter(chain.from_iterable(lists[n] for n in batch), np.int64)
        ).to(device)

    def run(batch: list[int]) -> Sequence[Tensor]:
        layout = PackedLayout([lengths[n] for n in batch])

        def compute() -> Tensor:
            with torch.inference_mode(), without_autocast(device.type):
                return forward(
                    tensor(rows, batch), layout, None if types is None else tensor(types, batch)
                )

        alone = fused and not encoder.has_hooks  # it may run a batch twice, which hooks would see
        found = encoder.meetings.run(compute, sum(layout.lengths)) if alone else compute()
        return found.split_with_sizes([sizes[n] for n in batch])

    todo, results = batches(lengths, batch_tokens), [torch.empty(0)] * len(rows)
    threads = usable_threads() if fused and len(todo) > 1 else 1
    side_by_side = 1 < threads and MIN_BATCHES_PER_THREAD * threads <= len(todo)
    if training:
        model.eval()
    try:
        done = (
            workers(threads, threads, os.getpid()).map(run, todo)
            if side_by_side
            else map(run, todo)
        )
        for batch, parts in zip(todo, done, strict=True):
            for n, part in zip(batch, parts, strict=True):
                results[n] = part
            if report is not None:
                report(batch)
    finally:
        if training:
            model.train()
    return results


def warm_up(model: PreTrainedModel, batch_tokens: int = BATCH_TOKENS) -> None:
    """Does now what the first batch of each size would do, so that the memory of a service stays as it is.

    oneDNN keeps what it compiles: with two threads a third of a gigabyte, most of which would come within an hour. It
    takes a second or two, up to seven for a BERT of base size. A model whose products are not compiled needs nothing.
    """
    encoder, threads = model.base_model.encoder, usable_threads()
    if not isinstance(encoder, FusedEncoder) or not encoder.is_compiled:
        return
    for count in range(min(threads, batch_tokens // MIN_TOKENS_PER_THREAD), 1, -1):
        if threads % count == 0:
            share = int(MAX_IMBALANCE * batch_tokens / count)
            workers(count, threads, os.getpid()).submit(encoder.compile_products, share).result()
    # what is not shared out; with several threads such batches are seldom larger. In a thread that ends: OpenMP threads
    # kept for the caller would outnumber the cores, and then those of all callers sleep whenever they wait
    with ThreadPoolExecutor(1, initializer=torch.get_num_threads) as worker:
        worker.submit(encoder.compile_products, batch_tokens // min(threads, 2)).result()
