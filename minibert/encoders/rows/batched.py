"""Requests from many threads, gathered into packed batches.

    with embedder.batched() as batched:
        batched.encode("one text")              # in any thread; waits for its vector
        batched.submit("one text")              # a concurrent.futures.Future
        await batched.aencode("one text")       # in asyncio

A single text leaves a processor half idle, and 16 threads with a text each get in each other's way.
Here callers only tokenize, and one thread runs the model on all texts that have arrived while it
was busy with the previous batch (dynamic batching).

A text has its turn when as many tokens were computed since it arrived as its own request has up to
it. So a single text does not wait for the thousand texts of a request that came just before it, and
nothing waits longer than it would in order of arrival by more than its request takes.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from minibert.encoders.rows.token_rows import Rows, Settings, Vector, Vectors, join_rows
from minibert.util.errors import ArgumentError


class BusyError(RuntimeError):
    """Too many requests are waiting. Ask again later."""


class _Request(NamedTuple):
    turn: int  # tokens that have been computed when it is due
    number: int  # in order of arrival, among those with one turn
    rows: Rows
    settings: Settings
    future: Future[Vector]
    since: float  # by time.monotonic


class Batched(AbstractContextManager["Batched"]):
    """Encodes single texts of many callers together. Made by `SentenceEmbedder.batched`.

    Args:
        read: Returns the rows and settings of a text, a prompt and a prompt's name.
        encode_rows: Returns the vectors (N, D) of such rows.
        max_wait_ms: How long the first text waits for others when the model is idle. It does not
            wait if the previous batch was a single text, so that a lone caller is answered at once.
        max_tokens: Tokens of one batch. A longer text goes alone.
        max_pending: How many texts may wait at most.

    Attributes:
        max_pending: As passed.
        observe: Called with the seconds that each text of a batch has waited.
    """

    def __init__(
        self,
        read: Callable[[str, str | None, str | None], tuple[Rows, Settings]],
        encode_rows: Callable[[Rows, Settings], Vectors],
        max_wait_ms: float,
        max_tokens: int,
        max_pending: int,
    ) -> None:
        if max_wait_ms < 0 or max_tokens < 1 or max_pending < 1:
            raise ArgumentError(
                "max_wait_ms", "should be 0 or more, max_tokens and max_pending 1 or more."
            )
        self._read = read
        self._encode_rows = encode_rows
        self._max_wait = max_wait_ms / 1000
        self._max_tokens = max_tokens
        self.max_pending = max_pending
        self.observe: Callable[[list[float]], object] = lambda seconds: None
        self._waiting: list[_Request] = []  # a heap: the first is the next
        self._numbers = count()
        self._computed = 0  # tokens of all batches so far
        self._changed = threading.Condition()
        self._closed = False
        self._was_single = False  # whether the previous batch was a single text
        self._thread: threading.Thread | None = None  # from the first text on

    def submit(
        self, text: str, *, prompt: str | None = None, prompt_name: str | None = None
    ) -> Future[Vector]:
        """A future of the vector (D,) of a text. Canceling it takes the text out of the queue.

        Args:
            text: The text.
            prompt: As in `encode` of the embedder.
            prompt_name: As in `encode` of the embedder.

        Raises:
            ValueError: Not a string, or a prompt that does not exist. Other texts are not affected.
            BusyError: `max_pending` texts are waiting.
            RuntimeError: It has been closed.
        """
        request = self._read(text, prompt, prompt_name)  # tokenized in the caller's thread
        (future,) = self.submit_rows([request])
        return future

    def submit_rows(self, texts: Sequence[tuple[Rows, Settings]]) -> list[Future[Vector]]:
        """As `submit`, for several tokenized texts. All of them wait or, after an error, none."""
        now = time.monotonic()
        futures = [Future[Vector]() for _ in texts]
        with self._changed:
            if self._closed:
                raise RuntimeError(
                    "this Batched is closed: call embedder.batched() for another one."
                )
            room = self.max_pending - len(texts)
            if len(self._waiting) > room:
                self._waiting = [one for one in self._waiting if not one.future.cancelled()]
                heapify(self._waiting)
            if len(self._waiting) > room:
                raise BusyError(
                    f"{len(self._waiting)} texts are waiting, of at most {self.max_pending}: try "
                    "again later."
                )
            turn = self._computed
            for (rows, settings), future in zip(texts, futures, strict=True):
                turn += rows.tokens
                request = _Request(turn, next(self._numbers), rows, settings, future, now)
                heappush(self._waiting, request)
            # a thread does not survive a fork: a process that was forked gets one of its own
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._work, name="minibert-batched", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()  # one notice could reach a thread that a fork has ended
        return futures

    def encode(
        self, text: str, *, prompt: str | None = None, prompt_name: str | None = None
    ) -> Vector:
        """The vector (D,) of a text.

        Args:
            text: The text.
            prompt: As in `submit`.
            prompt_name: As in `submit`.

        Raises:
            ValueError: As `submit`, or the vector is not finite.
            BusyError: As `submit`.
            RuntimeError: As `submit`.
        """
        return self.submit(text, prompt=prompt, prompt_name=prompt_name).result()

    async def aencode(
        self, text: str, *, prompt: str | None = None, prompt_name: str | None = None
    ) -> Vector:
        """`encode` for asyncio."""
        # imported here: it takes a tenth of the time to the first vector of an exported graph
        import asyncio

        return await asyncio.wrap_future(self.submit(text, prompt=prompt, prompt_name=prompt_name))

    @property
    def pending(self) -> int:
        """Texts that are waiting."""
        return len(self._waiting)

    def close(self, timeout: float | None = None) -> bool:
        """Accepts no more texts, and returns once all that wait have their vectors.

        Args:
            timeout: Seconds to wait at most. None: until all have them.

        Returns:
            Whether all have them.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        is_new = True
        while batch := self._next_batch(is_new):
            is_new = False
            requests = []
            for request in batch:
                if request.future.set_running_or_notify_cancel():
                    requests.append(request)
            now = time.monotonic()
            self.observe([now - request.since for request in requests])
            self._answer(requests)

    def _next_batch(self, is_new: bool) -> list[_Request]:
        """The next texts to encode together, in order of their turns. None once it is closed.

        They have the same prompt length, because pooling leaves out as many tokens of all of them.

        Args:
            is_new: Whether the thread has just begun, because of a text that waits for others.
        """
        with self._changed:
            if is_new or not self._waiting:  # the model is idle
                self._changed.wait_for(lambda: self._waiting or self._closed)
                max_wait = 0.0 if self._was_single else self._max_wait
                self._changed.wait_for(self._has_full_batch, max_wait)
            batch: list[_Request] = []
            tokens = 0
            while self._waiting:
                request = self._waiting[0]
                if batch and request.settings.skip != batch[0].settings.skip:
                    break
                tokens += request.rows.tokens
                if batch and tokens > self._max_tokens:
                    break
                batch.append(heappop(self._waiting))
            self._computed += sum(request.rows.tokens for request in batch)
            self._was_single = len(batch) == 1
            return batch

    def _has_full_batch(self) -> bool:
        """Whether there is nothing to wait for."""
        tokens = sum(request.rows.tokens for request in self._waiting)
        return self._closed or tokens >= self._max_tokens

    def _answer(self, requests: list[_Request]) -> None:
        if not requests:
            return
        rows = join_rows([request.rows for request in requests])
        try:
            vectors = self._encode_rows(rows, requests[0].settings)
        except BaseException as error:
            # because of one text: each is encoded alone, so that the others get their vectors
            if len(requests) == 1:
                requests[0].future.set_exception(error)
                return
            for request in requests:
                self._answer([request])
            return
        for request, vector in zip(requests, vectors, strict=True):
            # a copy, so that one vector does not keep the whole batch in memory
            request.future.set_result(vector.copy())
