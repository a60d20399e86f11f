"""Requests from many threads, gathered into packed batches.

    with embedder.batched() as batched:
        batched.encode("one text")              # in any thread; waits for its vector
        batched.submit("one text")              # a concurrent.futures.Future
        await batched.aencode("one text")       # in asyncio

A single text leaves a processor half idle, and 16 threads with a text each get in each other's way. Here callers only
tokenise, and one thread runs the model on all texts that have arrived while it was busy with the batch before.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import NamedTuple

from minibert.sentences.rows import Rows, Settings, Vector, Vectors, join_rows


class BusyError(RuntimeError):
    """Too many requests are waiting; ask again later."""


class _Request(NamedTuple):
    rows: Rows
    settings: Settings
    future: Future[Vector]


class Batched(AbstractContextManager["Batched"]):
    """Encodes single texts of many callers together; made by `SentenceEmbedder.batched`.

    Args:
        read: gives the rows and settings of a text, a prompt and a prompt's name.
        encode_rows: gives the vectors (N, D) of such rows.
        max_wait_ms: how long the first text waits for others when the model has nothing to do; not at all when the
            batch before was a single text, so that a lone caller is answered at once.
        max_tokens: tokens of one batch; a longer text goes alone.
        max_pending: the most texts that may wait.
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
            raise ValueError(
                "max_wait_ms should be 0 or more, max_tokens and max_pending 1 or more."
            )
        self._read, self._encode_rows = read, encode_rows
        self._max_wait, self._max_tokens, self._max_pending = (
            max_wait_ms / 1000,
            max_tokens,
            max_pending,
        )
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._closed = self._alone = False  # alone: the last batch was a single text
        self._thread = threading.Thread(target=self._work, name="minibert-batched", daemon=True)
        self._thread.start()

    def submit(
        self, text: str, *, prompt: str | None = None, prompt_name: str | None = None
    ) -> Future[Vector]:
        """A future of the vector (D,) of a text; cancelling it takes the text out of the queue.

        Raises:
            ValueError: not a string, or a prompt that does not exist; other texts are not affected.
            BusyError: `max_pending` texts are waiting.
            RuntimeError: it has been closed.
        """
        return self.submit_rows([self._read(text, prompt, prompt_name)])[
            0
        ]  # read in the caller's thread

    def submit_rows(self, texts: Sequence[tuple[Rows, Settings]]) -> list[Future[Vector]]:
        """As `submit` for several texts whose rows are made; all of them wait or, when there is an error, none."""
        requests = [_Request(rows, settings, Future[Vector]()) for rows, settings in texts]
        with self._changed:
            if self._closed:
                raise RuntimeError(
                    "this Batched is closed: call embedder.batched() for another one."
                )
            if len(self._waiting) + len(requests) > self._max_pending:
                raise BusyError(
                    f"{len(self._waiting)} texts are waiting, of at most {self._max_pending}; ask later."
                )
            self._waiting.extend(requests)
            self._changed.notify()
        return [request.future for request in requests]

    def encode(
        self, text: str, *, prompt: str | None = None, prompt_name: str | None = None
    ) -> Vector:
        """The vector (D,) of a text; raises as `submit`, and ValueError where the vector is not finite."""
        return self.submit(text, prompt=prompt, prompt_name=prompt_name).result()

    async def aencode(
        self, text: str, *, prompt: str | None = None, prompt_name: str | None = None
    ) -> Vector:
        """`encode` for asyncio."""
        import asyncio  # here: it takes a tenth of the time to the first vector of an exported graph

        return await asyncio.wrap_future(self.submit(text, prompt=prompt, prompt_name=prompt_name))

    @property
    def pending(self) -> int:
        """Texts that are waiting."""
        return len(self._waiting)

    def close(self) -> None:
        """Accepts no more texts, and returns once all that wait have their vectors."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        while batch := self._next_batch():
            self._answer(
                [request for request in batch if request.future.set_running_or_notify_cancel()]
            )

    def _next_batch(self) -> list[_Request]:
        """The next texts to encode together: in the order of arrival, with one prompt; none once it is closed."""
        with self._changed:
            if not self._waiting:  # the model has nothing to do
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._changed.wait_for(
                    lambda: (
                        self._closed
                        or sum(own.rows.tokens for own in self._waiting) >= self._max_tokens
                    ),
                    0 if self._alone else self._max_wait,
                )
            batch: list[_Request] = []
            tokens = 0
            while (
                self._waiting
                and self._waiting[0].settings.skip == (batch or self._waiting)[0].settings.skip
            ):
                tokens += self._waiting[0].rows.tokens
                if batch and tokens > self._max_tokens:
                    break
                batch.append(self._waiting.popleft())
            self._alone = len(batch) == 1
            return batch

    def _answer(self, requests: list[_Request]) -> None:
        if not requests:
            return
        try:
            vectors = self._encode_rows(
                join_rows([request.rows for request in requests]), requests[0].settings
            )
        except (
            BaseException
        ) as error:  # because of one text: each alone, so that the others have their vectors
            if len(requests) == 1:
                return requests[0].future.set_exception(error)
            for request in requests:
                self._answer([request])
        else:
            for request, vector in zip(requests, vectors, strict=True):
                request.future.set_result(
                    vector.copy()
                )  # on its own, so that one does not keep all of the batch
