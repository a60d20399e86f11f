"""Long work: progress on stderr, interruption by signals, and a pause of the garbage collector."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import length_hint
from typing import Any, NamedTuple, TypeVar

from minibert.util.errors import Message

T = TypeVar("T")

DELAY = 1.0  # seconds before a bar appears, so that short work shows none
SECONDS_BETWEEN_LINES = 30.0  # in a pipe or a log


class Place(NamedTuple):
    """The place of this process among those of a run, as torchrun sets it."""

    rank: int
    size: int


def place() -> Place:
    """Return the rank of this process and the number of processes: 0 and 1 without torchrun.

    Raises:
        ValueError: The variables RANK and WORLD_SIZE are not whole numbers.
    """
    try:
        return Place(int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1))
    except ValueError:
        raise ValueError(
            "RANK and WORLD_SIZE should be whole numbers, as torchrun sets them."
        ) from None


def is_quiet() -> bool:
    """Whether the logger `minibert` passes on errors only, as with `--quiet`."""
    return logging.getLogger("minibert").getEffectiveLevel() >= logging.ERROR


def tell(sentence: str) -> None:
    """Print a sentence about the work to stderr.

    Only the first process of a run by torchrun prints, and none if the logger `minibert` is quiet.

    Args:
        sentence: The sentence. The arguments of a `Message` are written as `told_by` says.
    """
    if not is_quiet() and place().rank == 0:
        print(_writers[-1](Message(sentence)), file=sys.stderr, flush=True)


_writers: list[Callable[[Message], str]] = [str]


@contextmanager
def told_by(write: Callable[[Message], str]) -> Iterator[None]:
    """Let `write` make the text of the sentences of `tell`, until the block ends."""
    _writers.append(write)
    try:
        yield
    finally:
        _writers.pop()


def is_watched(printing: bool = False) -> bool | None:
    """Whether stderr is a terminal or a notebook, which show a bar, or None for a pipe or log.

    It is False where nothing should be shown: the logger `minibert` is quiet.

    Args:
        printing: The work prints its results as it proceeds. False is returned then if stdout is a
            terminal, because the results show the progress.
    """
    if is_quiet():
        return False
    if printing and sys.stdout is not None and sys.stdout.isatty():
        return False
    ipython = sys.modules.get("IPython")
    in_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    return in_notebook or (sys.stderr is not None and sys.stderr.isatty()) or None


class Progress(AbstractContextManager["Progress"]):
    """A progress bar, or a line of progress every half minute.

    Args:
        show: True shows a bar, None writes lines, False shows nothing. `is_watched` chooses.
        total: Number of items. None: unknown, so that the time left is not shown.
        unit: Name of the items, in the plural.
        done: Number of items that are already done.
    """

    def __init__(
        self, show: bool | None, total: int | None = None, unit: str = "texts", done: int = 0
    ) -> None:
        self._bar: Any = None
        self._total = total
        self._unit = unit
        self._initial = done
        self._done = done
        if show:
            # here, because they are slow to import
            from huggingface_hub.constants import HF_HUB_DISABLE_PROGRESS_BARS
            from huggingface_hub.utils.tqdm import enable_progress_bars, tqdm

            if not HF_HUB_DISABLE_PROGRESS_BARS:
                enable_progress_bars("minibert")  # also where those of the hub are disabled
            self._bar = tqdm(  # type: ignore[no-untyped-call]
                total=total,
                initial=done,
                unit=f" {unit}",
                file=sys.stderr,
                delay=DELAY,
                leave=None,
                name="minibert",
            )
        self._start = time.perf_counter()
        self._next_line = self._start + SECONDS_BETWEEN_LINES
        if show is False:
            self._next_line = float("inf")
        self._tokens = 0

    def add(self, done: int = 1, tokens: int = 0, **more: str) -> None:
        """Count items.

        Args:
            done: Number of items.
            tokens: Tokens of these items.
            more: Other values to show, by name.
        """
        self._tokens += tokens
        self._done += done
        now = time.perf_counter()
        if self._bar is None and now < self._next_line:
            return
        shown = []
        if self._tokens:
            shown.append(f"{self._tokens / (now - self._start):,.0f} tokens/s")
        shown += [f"{name} {value}" for name, value in more.items()]
        if self._bar is not None:
            self._bar.set_postfix_str(", ".join(shown), refresh=False)
            self._bar.update(done)
            return
        self._next_line = now + SECONDS_BETWEEN_LINES
        from huggingface_hub.utils.tqdm import tqdm

        line = tqdm.format_meter(
            self._done,
            self._total,
            now - self._start,
            ncols=0,
            unit=f" {self._unit}",
            postfix=", ".join(shown),
            initial=self._initial,
        )
        print(line.strip(), file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


SILENT = Progress(show=False)


@contextmanager
def interruptible(last_words: type[BaseException] | tuple[()] = ()) -> Iterator[Callable[[], bool]]:
    """Catch the first SIGINT or SIGTERM, so that work can stop where it can be resumed.

    A second signal has its usual effect. Signals never reach other threads than the main thread.

    Args:
        last_words: Type of error after which SIGTERM is ignored, so that the process can report the
            error before it ends: torchrun sends a SIGTERM to the others when a process has died.

    Yields:
        A function that returns whether a signal was received.
    """
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {
        number: handler
        for number, handler in handlers.items()
        if handler not in (None, signal.SIG_IGN)
    }

    def note(number: int = 0, _: Any = None) -> None:
        signals.append(number)
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(signals)
    except KeyboardInterrupt as stop:
        received: int = signal.SIGINT
        if signals:
            received = signals[0]
        stop.signal = received  # type: ignore[attr-defined]
        raise
    except last_words:
        before[signal.SIGTERM] = signal.SIG_IGN
        raise
    finally:
        note()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector while many objects are made that stay in use.

    It would examine all of them again and again. That takes 2/3 of the time of making rows of
    tokens, and a fifth of a second of loading a model after `import torch`.
    """
    paused = gc.isenabled()
    if paused:  # else another thread has paused it, and may resume it at any moment
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def counted(items: Iterable[T], unit: str, show: bool | None = None) -> Iterator[T]:
    """Yield items with a progress bar.

    Args:
        items: The items.
        unit: Name of the items, in the plural.
        show: As in `Progress`. None: as `is_watched` returns.
    """
    if show is None:
        show = is_watched()
    with Progress(show, length_hint(items) or None, unit) as progress:
        for item in items:
            yield item
            progress.add()
