"""Dynamic batching of single requests from many threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forked import forked
from tiny_folder import VOCABULARY, WORDS, sentence_folder

from minibert import SentenceEmbedder
from minibert.encoders.rows.batched import BusyError

TEXTS = [
    " ".join([first, second] * (1 + index))
    for index, first in enumerate(WORDS)
    for second in WORDS[:4]
]


@pytest.fixture
def embedder(tmp_path: Path) -> SentenceEmbedder:
    prompts = {"prompts": {"query": "query: "}}
    sentence_folder(
        tmp_path, ("Pooling", {"include_prompt": False}), config_sentence_transformers=prompts
    )
    return SentenceEmbedder.from_pretrained(tmp_path, precision=None)


@pytest.fixture
def calls(embedder: SentenceEmbedder, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of rows in each call of the model."""
    sizes: list[int] = []
    encode_rows = embedder.encode_rows

    def counted(rows: object, *arguments: object) -> object:
        sizes.append(len(rows.ids))  # type: ignore[attr-defined]
        return encode_rows(rows, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(embedder, "encode_rows", counted)
    yield sizes


class TestVectors:
    def test_requests_from_many_threads(self, embedder: SentenceEmbedder, calls: list[int]) -> None:
        with embedder.batched() as batched, ThreadPoolExecutor(16) as threads:
            vectors = list(threads.map(batched.encode, TEXTS))
        assert sum(calls) == len(TEXTS)
        np.testing.assert_allclose(vectors, embedder.encode(TEXTS), atol=1e-6)

    def test_different_prompts_at_the_same_time(self, embedder: SentenceEmbedder) -> None:
        with embedder.batched() as batched:
            futures = [
                batched.submit(text, prompt_name=name) for text in TEXTS for name in (None, "query")
            ]
            vectors = np.array([future.result() for future in futures])
        np.testing.assert_allclose(vectors[::2], embedder.encode(TEXTS), atol=1e-6)
        np.testing.assert_allclose(
            vectors[1::2], embedder.encode(TEXTS, prompt_name="query"), atol=1e-6
        )

    def test_awaited(self, embedder: SentenceEmbedder) -> None:
        async def encode_all() -> list[np.ndarray]:
            return await asyncio.gather(*(batched.aencode(text) for text in TEXTS))

        with embedder.batched() as batched:
            np.testing.assert_allclose(asyncio.run(encode_all()), embedder.encode(TEXTS), atol=1e-6)

    def test_batches_have_at_most_max_tokens(
        self, embedder: SentenceEmbedder, calls: list[int]
    ) -> None:
        with embedder.batched(max_wait_ms=1000, max_tokens=9) as batched:
            # 3 tokens each, and one of 22
            futures = [batched.submit(text) for text in ["hello"] * 7 + ["hello " * 20]]
            [future.result() for future in futures]
        assert calls == [3, 3, 1, 1]

    def test_a_single_request_does_not_wait(
        self, embedder: SentenceEmbedder, calls: list[int]
    ) -> None:
        with embedder.batched(max_wait_ms=600_000, max_tokens=20) as batched:
            # this text fills a batch, so it does not wait for others
            batched.submit("hello " * 20).result(60)
            batched.submit("hello").result(60)
        assert calls == [1, 1]

    def test_a_single_text_does_not_wait_for_a_large_request(
        self, embedder: SentenceEmbedder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It has its turn soon, and the texts of the large request stay in their order."""
        settings = embedder.settings()
        encode_rows = embedder.encode_rows
        begun, go = threading.Event(), threading.Event()
        computed: list[str] = []

        def slowly(rows: Any, *arguments: Any) -> Any:
            begun.set()
            assert go.wait(60)
            computed.extend(row.text for row in rows.rows)
            return encode_rows(rows, *arguments)

        monkeypatch.setattr(embedder, "encode_rows", slowly)
        large = [WORDS[0] + " x" * n for n in range(40)]
        with embedder.batched(max_tokens=64) as batched:
            futures = batched.submit_rows(
                [(embedder.rows([text], settings), settings) for text in large]
            )
            assert begun.wait(60)
            futures.append(batched.submit("world"))  # while the first batch is computed
            go.set()
            [future.result(60) for future in futures]
        # the first batch is in progress, and the second may have been begun
        assert computed.index("world") < 20
        assert [text for text in computed if text != "world"] == large


class TestErrors:
    def test_a_bad_text_does_not_fail_its_batch(self, embedder: SentenceEmbedder) -> None:
        with torch.no_grad():
            embedder.model.embeddings.word_embeddings.weight[VOCABULARY.index("trees")] = torch.nan
        with embedder.batched(max_wait_ms=1000, max_tokens=11) as batched:
            futures = [batched.submit(text) for text in ("hello", "tall trees", "world", "x")]
            with pytest.raises(ValueError, match="texts should be strings, but number 0 is 3"):
                batched.submit(3)  # type: ignore[arg-type]
            with pytest.raises(
                ValueError, match="The output of the model for 'tall trees' is not finite"
            ):
                futures[1].result()
            for future, text in ((futures[0], "hello"), (futures[2], "world"), (futures[3], "x")):
                np.testing.assert_allclose(future.result(), embedder.encode(text), atol=1e-6)

    def test_a_long_text_is_reported(self, embedder: SentenceEmbedder) -> None:
        with (
            embedder.batched() as batched,
            pytest.warns(UserWarning, match="the text has more than 64 tokens"),
        ):
            batched.encode("hello " * 80)

    def test_back_pressure(
        self, embedder: SentenceEmbedder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proceed, encode_rows = threading.Event(), embedder.encode_rows

        def waiting(*arguments: object) -> object:
            proceed.wait(20)
            return encode_rows(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(embedder, "encode_rows", waiting)
        with embedder.batched(max_wait_ms=0, max_pending=2) as batched:
            first = batched.submit("hello")
            while batched.pending:
                time.sleep(0.001)
            second, third = batched.submit("world"), batched.submit("x")
            with pytest.raises(
                BusyError, match="2 texts are waiting, of at most 2: try again later"
            ):
                batched.submit("trees")
            assert second.cancel()
            fourth = batched.submit("trees")
            proceed.set()
            assert first.result().shape == third.result().shape == fourth.result().shape == (32,)

    def test_forked_processes(self, embedder: SentenceEmbedder) -> None:
        """A thread does not survive a fork, whether it has worked before or not."""
        expected = embedder.encode("hello world")

        def encode() -> None:
            for _ in range(2):
                vector = batched.submit("hello world").result(30)
                np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-6)

        with embedder.batched() as batched:
            for _ in range(2):
                process = forked(encode)
                process.join()
                assert process.exitcode == 0
                encode()

    def test_closing_finishes_pending_requests(self, embedder: SentenceEmbedder) -> None:
        batched = embedder.batched(max_wait_ms=10_000)
        futures = [batched.submit(text) for text in TEXTS]
        batched.close()
        batched.close()
        assert all(future.done() for future in futures)
        with pytest.raises(RuntimeError, match="this Batched is closed"):
            batched.submit("hello")
        with pytest.raises(ValueError, match="max_wait_ms should be 0 or more"):
            embedder.batched(max_wait_ms=-1)
