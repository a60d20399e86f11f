"""Many rows through a model: sorted by length, packed into passes without padding, and put back in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from minibert.inference import BATCH_TOKENS, Report, batches
from minibert.inference.fused import FusedEncoder, rounded_rows, without_autocast
from minibert.inference.threads import MIN_BATCHES_PER_THREAD, MIN_TOKENS_PER_THREAD, usable_threads, workers
from minibert.layouts import PackedLayout
from minibert.pretrained import PreTrainedModel

Batch = TypeVar("Batch")
Result = TypeVar("Result")
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
    device = model.device

    def tensor(lists: IdRows, batch: list[int]) -> Tensor:
        return torch.from_numpy(np.fromiter(chain.from_iterable(lists[n] for n in batch), np.int64)).to(device)

    def run(batch: list[int]) -> Sequence[Tensor]:
        layout = PackedLayout([lengths[n] for n in batch])

        def compute() -> Tensor:
            with torch.inference_mode(), without_autocast(device.type):
                return forward(tensor(rows, batch), layout, None if types is None else tensor(types, batch))

        encoder, tokens, threads = model.base_model.encoder, sum(layout.lengths), usable_threads()
        small = 1 < threads and tokens < 2 * MIN_TOKENS_PER_THREAD and device.type == "cpu"
        if small and isinstance(encoder, FusedEncoder) and not any(encoder.hooks):
            found = encoder.meetings.run(compute, rounded_rows(tokens), threads)
        else:
            found = compute()
        return found.split_with_sizes([sizes[n] for n in batch])

    results: list[Tensor] = [torch.empty(0)] * len(rows)
    training = model.training
    if training:
        model.eval()
    try:
        todo = batches(lengths, batch_tokens)
        for batch, parts in zip(todo, map_batches(model, run, todo), strict=True):
            for n, part in zip(batch, parts, strict=True):
                results[n] = part
            if report is not None:
                report(batch)
    finally:
        if training:
            model.train()
    return results


def map_batches(model: PreTrainedModel, run: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """Runs a model on each batch, and yields the results in order.

    An optimised model on the CPU runs many batches side by side, each in a thread of its own, which waits for the
    others only at the end; a few run one after the other, each shared among all threads.

    Args:
        model: what `run` calls.
        run: called in other threads, which have modes (`torch.inference_mode`) of their own.
        batches: about equally large.
    """
    if len(batches) == 1 or len(batches) < MIN_BATCHES_PER_THREAD * (threads := usable_threads()) or threads == 1:
        return map(run, batches)
    if not isinstance(model.base_model.encoder, FusedEncoder) or model.device.type != "cpu":
        return map(run, batches)
    return workers(threads, threads, os.getpid()).map(run, batches)
