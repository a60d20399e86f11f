"""Threads: how the sequences of a batch, or many batches, are shared out among them."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch
from torch import Tensor

from minibert.inference.batching import rounded_rows
from minibert.layouts import Layout, PackedLayout, PaddedLayout

# with fewer tokens for each, threads do better to share the weights than the batch
MIN_TOKENS_PER_THREAD = 128
# how much larger than the average the largest share may be: all wait for it
MAX_IMBALANCE = 1.1
# milliseconds are what another process keeps a core for; threads on cores of their own meet within microseconds
MAX_WAIT = 1e-3
# how many batches go by one thread at most before several are tried again
MAX_ALONE = 256
# with fewer batches for each thread, too many would wait for the last one
MIN_BATCHES_PER_THREAD = 4


def usable_threads() -> int:
    """As many as torch has; one while Python ends, which starts no more though `atexit` handlers may still encode."""
    return torch.get_num_threads() if threading.main_thread().is_alive() else 1


def even_shares(hidden_states: Tensor, layout: Layout) -> list[tuple[Tensor, Layout]]:
    """The batch cut into even shares, as many as are worth a thread; none if it is better left whole."""
    if hidden_states.device.type != "cpu" or torch.compiler.is_compiling():
        return []
    tokens, threads = hidden_states.shape[:-1], usable_threads()
    for count in range(min(threads, tokens.numel() // MIN_TOKENS_PER_THREAD), 1, -1):
        if threads % count == 0:
            layouts, sizes = split(layout, tokens, count)
            if max(sizes) * count <= MAX_IMBALANCE * sum(sizes):
                return list(zip(torch.split(hidden_states, sizes), layouts, strict=True))
    return []


def split(layout: Layout, tokens: torch.Size, parts: int) -> tuple[list[Layout], list[int]]:
    """Layouts of the same sequences in at most `parts` parts of about as many tokens, and their sizes.

    The sizes are what `Tensor.split` takes to cut tokens of this shape accordingly: sequences when they are padded,
    tokens when they are packed, where a sequence belongs to the part that has its middle.
    """
    if isinstance(layout, PackedLayout):
        cuts: list[list[int]] = [[] for _ in range(parts)]
        start = 0
        for length in layout.lengths:
            cuts[(2 * start + length) * parts // (2 * tokens[0])].append(length)
            start += length
        cuts = [lengths for lengths in cuts if lengths]
        return [PackedLayout(lengths) for lengths in cuts], [sum(lengths) for lengths in cuts]
    sizes = [len(rows) for rows in torch.arange(tokens[0]).tensor_split(parts) if len(rows)]
    if layout.mask is None or len(layout.mask) == 1:
        return [PaddedLayout(layout.mask) for _ in sizes], sizes
    return [PaddedLayout(mask) for mask in torch.split(layout.mask, sizes)], sizes


class Meetings:
    """Notices that other work keeps the threads of a small batch from meeting, which they do after every operator.

    A batch that waited for longer than its thread worked has missed a core. Those after it are left to one thread,
    twice as many each time that several threads have been tried again in vain.
    """

    def __init__(self) -> None:
        self._alone, self._next = 0, 1
        self._same: dict[int, bool] = {}  # whether one thread gives the same bits, by rows

    def run(self, batch: Callable[[], Tensor], tokens: int) -> Tensor:
        """What a batch of so many tokens gives, by one thread or by all: the same bits either way."""
        threads, rows = usable_threads(), rounded_rows(tokens)
        if threads == 1 or tokens >= 2 * MIN_TOKENS_PER_THREAD:
            return batch()
        if self._alone and self._same.get(rows, True):
            self._alone -= 1
            # in no queue with the batches of a corpus
            found = workers(threads, threads, os.getpid(), "small").submit(batch).result()
            if rows in self._same:
                return found
            together = batch()
            self._same[rows] = torch.equal(found, together)
            return together
        start, worked = time.perf_counter(), time.thread_time()
        found = batch()
        worked = time.thread_time() - worked
        if time.perf_counter() - start - worked < max(MAX_WAIT, worked):
            self._next = 1
        else:
            self._alone, self._next = self._next, min(2 * self._next, MAX_ALONE)
        return found


@cache
def workers(count: int, threads: int, process: int, batches: str = "large") -> ThreadPoolExecutor:
    """Threads for such batches that have torch's `threads` between them, kept because new ones are slow at first.

    In torch each thread has a number of threads for its operators. Setting it also sets that of all threads to come,
    and those that have not asked for theirs yet. A forked process has no threads but its first, so it needs workers of
    its own.
    """
    started = threading.Barrier(count)

    def start() -> None:
        torch.get_num_threads()  # asks, see above
        torch.set_num_threads(threads // count)
        started.wait()

    workers = ThreadPoolExecutor(count, "minibert", initializer=start)
    list(workers.map(abs, range(count)))  # now all have started
    torch.set_num_threads(threads)
    return workers
