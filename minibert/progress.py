"""Long work: how far it is and how long it will take, on stderr; how it is interrupted; what should not disturb it."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import length_hint
from typing import Any, TypeVar

T = TypeVar("T")

DELAY = 1.0  # seconds before a bar appears: what is done sooner needs none
SECONDS_BETWEEN_LINES = 30.0  # where nobody watches a bar


def is_watched(printing: bool = False) -> bool | None:
    """Whether a person looks at stderr: at a terminal or in a notebook. None: it is a pipe or a log.

    Args:
        printing: the work prints its results as it goes, so that at a terminal they show how far it
            is.
    """
    if printing and sys.stdout is not None and sys.stdout.isatty():
        return False
    ipython = sys.modules.get("IPython")
    in_notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    return in_notebook or (sys.stderr is not None and sys.stderr.isatty()) or None


class Progress(AbstractContextManager["Progress"]):
    """A bar that counts what is done, or a line every half minute; nothing at all when not shown.

    Args:
        show: True is a bar, None lines, as `is_watched` says.
        total: how much there is to do; without it there is a rate, but no time left.
        unit: what is counted.
        done: how much is done already.
    """

    def __init__(
        self, show: bool | None, total: int | None = None, unit: str = "texts", done: int = 0
    ) -> None:
        self._bar: Any = None
        self._total, self._unit, self._before, self._done = total, unit, done, done
        if show:
            from huggingface_hub.constants import (
                HF_HUB_DISABLE_PROGRESS_BARS,  # here, because it is slow to import
            )
            from huggingface_hub.utils.tqdm import enable_progress_bars, tqdm

            if not HF_HUB_DISABLE_PROGRESS_BARS:
                enable_progress_bars("minibert")  # whatever others have said of theirs
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
        self._next_line = float("inf") if show is False else self._start + SECONDS_BETWEEN_LINES
        self._tokens = 0

    def add(self, done: int = 1, tokens: int = 0, **more: str) -> None:
        """Counts what is done, and the tokens that it took; `more` is what else to show, by name."""
        self._tokens, self._done = self._tokens + tokens, self._done + done
        now = time.perf_counter()
        if self._bar is None and now < self._next_line:
            return
        shown = [f"{self._tokens / (now - self._start):,.0f} tokens/s"] if self._tokens else []
        shown += [f"{name} {value}" for name, value in more.items()]
        if self._bar is not None:
            self._bar.set_postfix_str(", ".join(shown), refresh=False)
            self._bar.update(done)
            return
        self._next_line = now + SECONDS_BETWEEN_LINES
        from huggingface_hub.utils.tqdm import tqdm

        how = {
            "unit": f" {self._unit}",
            "postfix": ", ".join(shown),
            "initial": self._before,
            "ncols": 0,
        }
        line = tqdm.format_meter(self._done, self._total, now - self._start, **how)
        print(line.strip(), file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


SILENT = Progress(show=False)


@contextmanager
def interruptible(last_words: type[BaseException] | tuple[()] = ()) -> Iterator[Callable[[], bool]]:
    """Says whether SIGINT or SIGTERM has come, so that work can stop where it can be taken up again.

    The first one is noted; a second does what it did before. In other threads than the main one,
    which signals never reach, it is never true.

    Args:
        last_words: an error after which SIGTERM is ignored, until the process has said it and
            ended: torchrun sends one to the others as soon as a process has died.
    """
    told: list[int] = []
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
        told.append(number)
        for own, handler in before.items():
            signal.signal(own, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(told)
    except KeyboardInterrupt as stop:
        stop.signal = told[0] if told else signal.SIGINT  # type: ignore[attr-defined]
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
    if paused:  # else another thread has paused it, and may let it go on at any moment
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def counted(items: Iterable[T], unit: str, show: bool | None = None) -> Iterator[T]:
    """The items one by one, and a bar that counts them; `show` as in `Progress`, None: as `is_watched` says."""
    with Progress(
        is_watched() if show is None else show, length_hint(items) or None, unit
    ) as progress:
        for item in items:
            yield item
            progress.add()
