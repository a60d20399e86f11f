"""Threads: how the sequences of a batch, or many batches, are shared out among them."""

import ctypes
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from minibert.layouts import Layout, PackedLayout, PaddedLayout

# with fewer tokens for each, it is faster if threads share the weights than the batch
MIN_TOKENS_PER_THREAD = 128
# how much larger than the average the largest share may be: all wait for it
MAX_IMBALANCE = 1.1
# with fewer batches for each thread, too many would wait for the last one
MIN_BATCHES_PER_THREAD = 4
# fewer tokens in a batch are not faster, though they would fit into a smaller cache
MIN_BATCH_TOKENS = 1024


def usable_threads() -> int:
    """Torch's number of threads, or one while Python ends.

    It starts no more threads then, though `atexit` handlers may still encode.
    """
    if threading.main_thread().is_alive():
        return torch.get_num_threads()
    return 1


def share_counts(tokens: int) -> Iterator[int]:
    """Into how many even shares a batch of that many tokens may be split, the most first."""
    threads = usable_threads()
    for count in range(min(threads, tokens // MIN_TOKENS_PER_THREAD), 1, -1):
        if threads % count == 0:
            yield count


def even_shares(hidden_states: Tensor, layout: Layout) -> list[tuple[Tensor, Layout]]:
    """Splits a batch into even shares, as many as are worth a thread.

    Returns:
        Hidden states and layout of each share, or an empty list if the batch is better left whole.
    """
    if hidden_states.device.type != "cpu" or torch.compiler.is_compiling():
        return []
    tokens = hidden_states.shape[:-1]
    for count in share_counts(tokens.numel()):
        layouts, sizes = split(layout, tokens, count)
        if max(sizes) * count <= MAX_IMBALANCE * sum(sizes):
            return list(zip(torch.split(hidden_states, sizes), layouts, strict=True))
    return []


def split(layout: Layout, tokens: torch.Size, parts: int) -> tuple[list[Layout], list[int]]:
    """Splits a layout into at most `parts` parts with about as many tokens each.

    Args:
        layout: Of the whole batch.
        tokens: The shape of its tokens, (batch, seq) or (tokens,).
        parts: How many parts.

    Returns:
        The layouts, and the sizes that `Tensor.split` takes to split tokens of this shape
        accordingly: sequences if they are padded, tokens if they are packed, where a sequence
        belongs to the part that has its middle.
    """
    if isinstance(layout, PackedLayout):
        groups: list[list[int]] = [[] for _ in range(parts)]
        start = 0
        for length in layout.lengths:
            doubled_middle = 2 * start + length
            groups[doubled_middle * parts // (2 * tokens[0])].append(length)
            start += length
        groups = [group for group in groups if group]
        return [PackedLayout(group) for group in groups], [sum(group) for group in groups]
    sizes = [len(rows) for rows in torch.arange(tokens[0]).tensor_split(parts) if len(rows)]
    if layout.mask is None or len(layout.mask) == 1:
        return [PaddedLayout(layout.mask) for _ in sizes], sizes
    return [PaddedLayout(mask) for mask in torch.split(layout.mask, sizes)], sizes


@contextmanager
def free_threads(tokens: int) -> Iterator[None]:
    """A context in which a small batch has one thread while other work needs the processors.

    Its threads meet after every operator, and one that waits for a processor holds up all others.
    """
    library = torch_library()
    threads = usable_threads()
    is_small = threads > 1 and tokens < 2 * MIN_TOKENS_PER_THREAD
    if not is_small or library is None or not _has_other_work():
        yield
        return
    # of the calling thread alone
    set_mkl_threads = getattr(library, "MKL_Set_Num_Threads_Local", lambda _: 0)
    library.omp_set_num_threads(1)
    before = set_mkl_threads(1)
    try:
        yield
    finally:
        library.omp_set_num_threads(threads)
        set_mkl_threads(before)


def _has_other_work() -> bool:
    """Whether more threads of all processes could run now than there are processors (Linux)."""
    with suppress(OSError), open("/proc/loadavg", "rb", buffering=0) as file:
        running = file.read(100).split()[3].partition(b"/")[0]
        return int(running) > (os.cpu_count() or 1)
    return False


@cache
def workers(count: int, threads: int, process: int) -> ThreadPoolExecutor:
    """Worker threads for batches, kept because new ones are slow at first.

    Args:
        count: How many workers.
        threads: torch's threads that they have between them.
        process: The id of this process. A forked one has no threads but its first, so it needs
            workers of its own.
    """
    started = threading.Barrier(count)

    def start() -> None:
        set_own_threads(threads // count)
        started.wait()

    pool = ThreadPoolExecutor(count, "minibert", initializer=start)
    list(pool.map(abs, range(count)))  # now all have started
    if torch_library() is None:
        torch.set_num_threads(threads)  # what starting them has changed, see `set_own_threads`
    return pool


def set_own_threads(count: int) -> None:
    """Sets torch's number of threads for the calling thread alone.

    `torch.set_num_threads` also sets it for all threads that start later or have not computed yet.
    So the libraries that torch computes with are called directly, which keep a number for each
    thread. Where they cannot be called, as on Windows and macOS, `torch.set_num_threads` is.
    """
    torch.get_num_threads()  # the first call in a thread initializes its number
    library = torch_library()
    if library is None:
        torch.set_num_threads(count)
        return
    library.omp_set_num_threads(count)
    if hasattr(library, "MKL_Set_Num_Threads_Local"):
        library.MKL_Set_Num_Threads_Local(count)


@cache
def torch_library() -> ctypes.CDLL | None:
    """Torch's library for the CPU, if it computes with OpenMP and can be called, else None."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    if not hasattr(library, "omp_set_num_threads"):
        return None
    return library
