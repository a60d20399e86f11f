"""The service as its clients see it: a local server, called with common client packages."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import WORDS, classifier_folder, head_folder, sentence_folder

from minibert import (
    Answerer,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertTokenizer,
    CrossEncoder,
    SentenceEmbedder,
    classify,
    find_entities,
)
from minibert.checkpoints.source import Source
from minibert.cli import main
from minibert.cli.serve import key_of_clients, listening, name_models
from minibert.encoders.rows.token_rows import Rows, Settings, Vectors
from minibert.encoders.rows.windows import QuestionRow, question_windows

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")
uvicorn = pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from starlette.testclient import TestClient  # noqa: E402

from minibert.serving.app import create_app  # noqa: E402
from minibert.serving.models import Served, load_served  # noqa: E402
from minibert.serving.options import Limits  # noqa: E402

pytestmark = pytest.mark.ecosystem
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS[:3]]
LONG = "tall trees " * 60
KEY = "a key of this test"
QUEUE = {"max_wait_ms": 1.0, "max_tokens": 512, "max_pending": 300}
SAME_ID = {"X-Request-ID": "1"}  # whose responses can be compared as a whole
SECRET = "xyzzyq"  # in every malformed request, and in no response


class Folders:
    """Folders of a tiny embedder, a tiny reranker and a tiny classifier."""

    def __init__(self, root: Path) -> None:
        prompts = {"prompts": {"query": "query: "}}
        steps = ("Pooling", {"pooling_mode": "mean"}), ("Normalize", {})
        self.embedder = sentence_folder(
            root / "embedder", *steps, config_sentence_transformers=prompts
        )
        self.reranker = classifier_folder(root / "reranker", 1)
        self.classifier = classifier_folder(root / "classifier", 3)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(tmp_path_factory.mktemp("models"))


class Server(uvicorn.Server):  # type: ignore[misc]
    """Looks every hundredth of a second, not every tenth, whether it should stop."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)


@contextmanager
def serving(
    models: list[Served],
    limits: Limits | None = None,
    key: str | None = None,
    normalize: bool = True,
    metrics_open: bool = False,
) -> Iterator[str]:
    """Run a server in a thread and yield its address."""
    app = create_app(models, limits, key=key, normalize=normalize, metrics_open=metrics_open)
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = uvicorn.Config(app, log_config=None, access_log=False)
        running = Server(config)
        thread = threading.Thread(target=running.run, args=([server],))
        thread.start()
        while not running.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def url(folders: Folders) -> Iterator[str]:
    names = ("embedder", "reranker", "classifier")
    models = [
        load_served(name, Source(getattr(folders, name)), precision=None, **QUEUE) for name in names
    ]
    with serving(
        models, Limits(100_000, 200, characters=50_000, tokens=3000, seconds=20), KEY
    ) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=30
    ) as client:
        yield client


@pytest.fixture(scope="module")
def embedder(folders: Folders) -> SentenceEmbedder:
    return SentenceEmbedder.from_pretrained(folders.embedder, precision=None)


def assert_same(received: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(received), expected, rtol=0, atol=1e-6)


class TestOpenAI:
    @pytest.fixture
    def openai(self, url: str) -> Any:
        return pytest.importorskip("openai").OpenAI(
            base_url=f"{url}/v1", api_key=KEY, max_retries=0
        )

    def test_embeddings(self, openai: Any, embedder: SentenceEmbedder) -> None:
        # this client requests base64
        response = openai.embeddings.create(model="embedder", input=TEXTS)
        assert_same([entry.embedding for entry in response.data], embedder.encode(TEXTS))
        assert [entry.index for entry in response.data] == list(range(len(TEXTS)))
        ids = embedder.tokenizer(TEXTS)["input_ids"]
        assert response.usage.prompt_tokens == response.usage.total_tokens == sum(map(len, ids))
        floats = openai.embeddings.create(
            model="embedder", input=TEXTS[0], encoding_format="float", dimensions=8
        )
        assert_same(
            floats.data[0].embedding,
            embedder.encode(TEXTS[0], truncate_dim=8, normalize_embeddings=True),
        )
        whole = openai.embeddings.create(model="embedder", input=ids[:2])
        inner = openai.embeddings.create(model="embedder", input=[row[1:-1] for row in ids[:2]])
        for rows in (whole, inner):
            assert_same([entry.embedding for entry in rows.data], embedder.encode(TEXTS[:2]))

    def test_prompts_and_truncated_texts(self, openai: Any, embedder: SentenceEmbedder) -> None:
        query = openai.embeddings.create(
            model="embedder", input=TEXTS[0], extra_body={"prompt_name": "query"}
        )
        assert_same(query.data[0].embedding, embedder.encode_query(TEXTS[0]))
        assert openai.embeddings.create(model="embedder", input=[TEXTS[0], LONG]).truncated == [1]
        ids = openai.embeddings.create(model="embedder", input=[[7], [7] * 100])
        assert ids.truncated == [1] and ids.usage.prompt_tokens == 3 + 64

    def test_models(self, openai: Any) -> None:
        assert [model.id for model in openai.models.list()] == [
            "embedder",
            "reranker",
            "classifier",
        ]
        assert openai.models.retrieve("embedder").dimension == 32

    def test_errors_are_those_of_the_openai_client(self, openai: Any) -> None:
        errors = pytest.importorskip("openai")
        with pytest.raises(errors.NotFoundError, match="embedding model does not exist here"):
            openai.embeddings.create(model="text-embedding-3-small", input="x")
        with pytest.raises(errors.NotFoundError):
            openai.models.retrieve("reranker/else")
        with pytest.raises(errors.AuthenticationError, match="Bearer KEY"):
            openai.with_options(api_key="another").embeddings.create(model="embedder", input="x")
        with pytest.raises(errors.UnprocessableEntityError, match="at most 200 texts, not 201"):
            openai.embeddings.create(model="embedder", input=["x"] * 201)
        with pytest.raises(errors.UnprocessableEntityError, match="at most 3000 tokens"):
            openai.embeddings.create(model="embedder", input=[LONG] * 60)
        with pytest.raises(errors.UnprocessableEntityError, match="at most 50000 characters"):
            openai.embeddings.create(model="embedder", input=["한" * 8334])  # each counts as six
        with pytest.raises(errors.UnprocessableEntityError, match="dimensions is at most 32"):
            openai.embeddings.create(model="embedder", input="x", dimensions=33)

    def test_langchain(self, url: str, embedder: SentenceEmbedder) -> None:
        library = pytest.importorskip("langchain_openai")
        theirs = library.OpenAIEmbeddings(
            model="embedder", base_url=f"{url}/v1", api_key=KEY, check_embedding_ctx_length=False
        )
        assert_same(theirs.embed_documents(TEXTS), embedder.encode(TEXTS))
        assert_same(theirs.embed_query(TEXTS[0]), embedder.encode(TEXTS[0]))


class TestHuggingFace:
    @pytest.fixture(autouse=True)
    def online(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave the Hub's offline mode, which blocks requests even to this machine."""
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def test_inference_client(self, url: str, embedder: SentenceEmbedder) -> None:
        from huggingface_hub import InferenceClient
        from huggingface_hub.errors import HfHubHTTPError

        theirs = InferenceClient(model=url, token=KEY)
        assert_same(theirs.feature_extraction(TEXTS[0])[0], embedder.encode(TEXTS[0]))
        assert_same(
            theirs.feature_extraction(TEXTS[0], prompt_name="query", normalize=True)[0],
            embedder.encode_query(TEXTS[0]),
        )
        with pytest.raises(HfHubHTTPError, match="422"):
            theirs.feature_extraction(TEXTS[0], prompt_name="another")

    def test_text_classification(self, folders: Folders) -> None:
        from huggingface_hub import InferenceClient

        model = BertForSequenceClassification.from_pretrained(folders.classifier)
        expected = classify(model, BertTokenizer.from_pretrained(folders.classifier), TEXTS[0])
        with serving(
            [load_served("classifier", Source(folders.classifier), precision=None, **QUEUE)]
        ) as address:
            labels = InferenceClient(model=address).text_classification(TEXTS[0])
        assert [label.label for label in labels] == [label["label"] for label in expected]
        assert_same([label.score for label in labels], [label["score"] for label in expected])

    def test_embed(self, client: Any, embedder: SentenceEmbedder) -> None:
        answer = client.post("/embed", json={"inputs": [TEXTS[0], LONG]})
        assert answer.headers["x-truncated"] == "1"
        with pytest.warns(UserWarning, match="1 of 2 texts"):
            assert_same(answer.json(), embedder.encode([TEXTS[0], LONG]))
        refused = client.post("/embed", json={"inputs": LONG, "truncate": False})
        assert (
            refused.status_code == 422 and refused.json()["error_type"] == "invalid_request_error"
        )

    def test_truncation_direction(
        self, client: Any, embedder: SentenceEmbedder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(embedder.tokenizer, "truncation_side", "left")
        text = f"{LONG} {TEXTS[0]}"
        (answer,) = client.post(
            "/embed", json={"inputs": text, "truncation_direction": "Left"}
        ).json()
        with pytest.warns(UserWarning, match="truncated"):
            assert_same(answer, embedder.encode(text))
        (usual,) = client.post(
            "/embed", json={"inputs": text, "truncation_direction": "Right"}
        ).json()
        assert not np.allclose(answer, usual, atol=1e-3)

    def test_truncation_direction_of_pairs(self, client: Any, folders: Folders) -> None:
        reranker = CrossEncoder(folders.reranker, precision="exact")
        pair = ("how", f"{LONG} {TEXTS[0]} {TEXTS[1]}")
        for side in ("Right", "Left", None):
            reranker.tokenizer.truncation_side = (side or "right").lower()
            with pytest.warns(UserWarning, match="truncated"):
                expected = reranker.predict([pair])
            side_of_texts = {} if side is None else {"truncation_direction": side}
            ranked = {"query": pair[0], "texts": [pair[1]], **side_of_texts}
            assert_same([client.post("/rerank", json=ranked).json()[0]["score"]], expected)
            predicted = {"inputs": pair, "model": "reranker", **side_of_texts}
            assert_same([client.post("/predict", json=predicted).json()[0]["score"]], expected)

    def test_info(self, client: Any) -> None:
        info = client.get("/info").json()
        assert (info["model_id"], info["max_input_length"]) == ("embedder", 64)
        assert info["model_type"] == {"embedding": {"pooling": "mean"}}


class TestRerankersAndClassifiers:
    DOCUMENTS = ["trees grow in korea", "hello world", LONG, "tall trees"]

    def test_rerank(self, client: Any, folders: Folders) -> None:
        expected = CrossEncoder.from_pretrained(folders.reranker, precision=None).rank(
            "tall trees", self.DOCUMENTS
        )
        documents = [self.DOCUMENTS[0], {"text": self.DOCUMENTS[1]}, *self.DOCUMENTS[2:]]
        body = {"query": "tall trees", "documents": documents, "top_n": 3, "return_documents": True}
        answer = client.post("/v1/rerank", json=body).json()
        results = answer["results"]
        assert [entry["index"] for entry in results] == [
            entry["corpus_id"] for entry in expected[:3]
        ]
        assert results[0]["document"]["text"] == expected[0]["text"]
        assert answer["truncated"] == [2]
        assert_same(
            [entry["relevance_score"] for entry in results],
            [entry["score"] for entry in expected[:3]],
        )
        theirs = client.post(
            "/rerank", json={"query": "tall trees", "texts": self.DOCUMENTS, "raw_scores": True}
        ).json()
        assert [entry["index"] for entry in theirs] == [entry["corpus_id"] for entry in expected]
        assert_same(
            [1 / (1 + np.exp(-entry["score"])) for entry in theirs],
            [entry["score"] for entry in expected],
        )

    def test_classify(self, client: Any, folders: Folders) -> None:
        model = BertForSequenceClassification.from_pretrained(folders.classifier)
        tokenizer = BertTokenizer.from_pretrained(folders.classifier)
        expected = classify(model, tokenizer, TEXTS[:4])
        data = client.post("/v1/classify", json={"input": TEXTS[:4]}).json()["data"]
        assert [entry["label"] for entry in data] == [labels[0]["label"] for labels in expected]
        assert_same(
            [max(entry["probs"]) for entry in data], [labels[0]["score"] for labels in expected]
        )
        predicted = client.post("/predict", json={"inputs": [[text] for text in TEXTS[:4]]}).json()
        for received, labels in zip(predicted, expected, strict=True):
            assert [label["label"] for label in received] == [label["label"] for label in labels]
        pair = client.post("/predict", json={"inputs": TEXTS[:2]}).json()
        (labels,) = classify(model, tokenizer, TEXTS[:1], TEXTS[1:2])
        assert_same([label["score"] for label in pair], [label["score"] for label in labels])

    def test_mounted_below_a_path_of_another_application(self, folders: Folders) -> None:
        """Paths are relative to the mount: the root, the paths without a key, the OpenAI errors."""
        from fastapi import FastAPI

        model = load_served("classifier", Source(folders.classifier), precision=None, **QUEUE)
        host = FastAPI()
        host.mount("/bert", create_app([model], key=KEY))
        try:
            client = TestClient(host)
            assert client.get("/bert/health/ready").status_code == 200
            refused = client.post("/bert/v1/classify", json={"input": TEXTS[0]})
            assert (
                refused.status_code == 401
                and refused.json()["error"]["type"] == "authentication_error"
            )
            client.headers["Authorization"] = f"Bearer {KEY}"
            nested = client.post("/bert/", json={"inputs": TEXTS[0]}).json()
            assert nested == [client.post("/bert/predict", json={"inputs": TEXTS[0]}).json()]
            invalid = client.post("/bert/v1/classify", json={"input": 3})
            assert (
                invalid.status_code == 422
                and invalid.json()["error"]["type"] == "invalid_request_error"
            )
            assert 'path="/predict"' in client.get("/bert/metrics").text
        finally:
            model.batched.close()


def test_alternatives_are_reported_together(client: Any) -> None:
    message = client.post("/v1/embeddings", json={"input": 3, "dimensions": 0}).json()["error"][
        "message"
    ]
    assert message.count("input: ") == message.count("dimensions: ") == 1
    assert (
        "input: Input should be a valid string or Input should be a valid dictionary or Input "
        "should be a valid list; dimensions: " in message
    )


DEEP = "[" * 100_000
MALFORMED: list[tuple[str, Any]] = [
    # path and body: an object is sent as JSON, a string unchanged
    ("/v1/embeddings", body)
    for body in (
        *(
            "",
            "{",
            "nothing",
            '{"input": ',
            '"xyzzyq"',
            "[]",
            "null",
            "[1, 2]",
            '{"input": "xyzzyq"',
            DEEP,
        ),
        *(
            '{"input": "xyzzyq\\ud800"}',
            '{"input": ["x", "\\udfff xyzzyq"]}',
            '{"input": NaN}',
            '{"input": [Infinity]}',
        ),
        *(
            '{"input": [1e999]}',
            '{"input": ' + "9" * 5000 + "}",
            "\x00\x01xyzzyq",
            '{"input": "\\x"}',
        ),
        *(
            {},
            {"input": None},
            {"input": []},
            {"input": [[]]},
            {"input": {"xyzzyq": 1}},
            {"input": 3},
        ),
        *(
            {"input": [True]},
            {"input": [-1]},
            {"input": [10**30]},
            {"input": [1.5]},
            {"input": [[1], "xyzzyq"]},
        ),
        *(
            {"input": ["x", None]},
            {"input": "x", "dimensions": 0},
            {"input": "x", "dimensions": "xyzzyq"},
        ),
        *({"input": "x", "encoding_format": "xyzzyq"}, {"input": "x", "prompt_name": "xyzzyq"}),
        *({"input": "x", "dimensions": 10**30}, {"input": "x", "model": ["xyzzyq"]}),
    )
]
MALFORMED += [
    ("/v1/rerank", {"query": "xyzzyq"}),
    ("/v1/rerank", {"query": "x", "documents": [{"xyzzyq": 1}]}),
    ("/v1/rerank", '{"query": "xyzzyq\\ud800", "documents": ["x"]}'),
    ("/v1/rerank", {"query": "x", "documents": ["x"], "top_n": -1}),
    ("/v1/rerank", {"query": "x", "documents": [{"text": "x"}], "rank_fields": ["xyzzyq"]}),
    ("/v1/embeddings", {"input": "xyzzyq", "dimensions": True}),
    ("/v1/classify", {"input": [["xyzzyq"]]}),
    ("/predict", {"inputs": ["x", "y", "xyzzyq"]}),
    ("/predict", {"inputs": []}),
    ("/embed", {"inputs": "xyzzyq", "truncation_direction": "xyzzyq"}),
    ("/embed", {"texts": ["xyzzyq"]}),
    ("/rerank", {"query": "x", "texts": [None, "xyzzyq"]}),
    ("/", {"inputs": [["xyzzyq", 3]]}),
    ("/v1/embeddings", {"input": "xyzzyq", "output_dtype": "int8"}),
    ("/v1/embeddings", {"input": "xyzzyq", "embedding_type": "uint8"}),
    ("/v1/embeddings", {"input": "xyzzyq " * 90, "truncation": False}),
    ("/tokenize", '{"inputs": "xyzzyq\\ud800"}'),
    ("/tokenize", {"inputs": "x", "prompt_name": "xyzzyq"}),
]


@pytest.mark.parametrize(("path", "body"), MALFORMED)
def test_malformed_requests(path: str, body: Any, client: Any) -> None:
    """The response is a 422 with one sentence that repeats nothing of the request."""
    content = body.encode("utf-8") if isinstance(body, str) else json.dumps(body).encode()
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert SECRET not in answer.text and len(answer.text) < 600
    error = answer.json()["error"]
    assert (error["message"] if path.startswith("/v1") else error).endswith(".")


class TestLimits:
    def test_the_key(self, client: Any) -> None:
        for headers in (
            {"Authorization": ""},
            {"Authorization": "Bearer"},
            {"Authorization": f"Bearer {KEY}x"},
        ):
            for path in ("/v1/models", "/metrics", "/info", "/openapi.json", "/nothing"):
                assert client.get(path, headers=headers).status_code == 401
            assert client.get("/health/live", headers=headers).json() == {"status": "live"}
            for path in ("/health", "/health/live", "/health/ready"):
                assert client.get(path, headers=headers).status_code == 200
                assert client.head(path, headers=headers).status_code == 200
        assert client.get("/docs").status_code == 404  # it would load scripts from other hosts

    @pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer   "])
    def test_the_scheme_is_case_insensitive(self, scheme: str, client: Any) -> None:
        headers = {"Authorization": f"{scheme}{KEY}"}
        assert client.get("/v1/models", headers=headers).status_code == 200
        headers = {"Authorization": f"{scheme}{KEY.upper()}"}
        assert client.get("/v1/models", headers=headers).status_code == 401

    @pytest.mark.parametrize("path", ["/v1/embeddings", "/embed", "/nothing"])
    def test_large_bodies(self, path: str, client: Any) -> None:
        def parts() -> Iterator[bytes]:
            for _ in range(100):
                yield b"x" * 100_000

        headers = {"Content-Type": "application/json"}
        in_chunks = client.post(path, content=parts(), headers=headers)
        assert in_chunks.status_code == (404 if path == "/nothing" else 413)
        answer = client.post(path, content=b"x" * 10_000_000, headers=headers)
        assert answer.status_code == 413 and "at most 100000 bytes" in answer.text

    def test_methods_and_paths(self, client: Any) -> None:
        assert client.get("/v1/embeddings").status_code == 405
        assert client.post("/v1/nothing", json={}).json()["error"]["type"] == "not_found_error"
        plain = client.post(
            "/v1/embeddings", content=b'{"input": "x"}', headers={"Content-Type": "text/plain"}
        )
        assert plain.status_code == 422 and "application/json" in plain.text
        packed = client.post(
            "/v1/embeddings",
            content=gzip.compress(b'{"input": "x"}'),
            headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
        )
        assert packed.status_code == 415 and "compression" in packed.text

    def test_the_schema_has_each_route_once(self, client: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schema = client.get("/openapi.json").json()
        assert {"/", "/health/live", "/v1/embeddings"} <= schema["paths"].keys()

    def test_the_schema_keeps_the_values_that_a_type_names(self, client: Any) -> None:
        bodies = client.get("/openapi.json").json()["components"]["schemas"]
        assert "query" in bodies["EmbeddingsRequest"]["properties"]["task"]["enum"]
        assert bodies["PoolingRequest"]["properties"]["task"]["anyOf"][0]["const"] == "embed"


@pytest.mark.parametrize("name", ["embedder", "reranker", "classifier"])
def test_texts_that_cannot_be_read_are_said_once(
    name: str, folders: Folders, recwarn: pytest.WarningsRecorder
) -> None:
    model = load_served(name, Source(getattr(folders, name)), precision=None, **QUEUE)
    for _ in range(2):
        asyncio.run(model.read(["hello", "\u4eca\u65e5\u306f\u96e8"]))
    (message,) = [str(w.message) for w in recwarn if "1 of 2 texts" in str(w.message)]
    assert "\u4eca" not in message


class Stopped:
    """A model whose batches wait until `go` is set, and whose vectors are token counts."""

    def __init__(self, folder: Path, **queue: Any) -> None:
        self.go, self.began = threading.Event(), threading.Event()
        self.tokenizer, self.max_length = BertTokenizer.from_pretrained(folder), 64
        about = {"dimension": 1, "pooling": "", "precision": None}
        encoder: Any = self
        self.model = Served("stopped", "embedding", encoder, about, **{**QUEUE, **queue})

    def settings(self, prompt_name: str | None) -> Settings:
        return Settings("", "truncate", 512)

    def warn_of_unread(self, rows: Rows, settings: Settings) -> None:
        pass

    def encode_rows(self, rows: Rows, settings: Settings) -> Vectors:
        self.began.set()
        assert self.go.wait(30)
        return np.array([[len(row)] for row in rows.ids], dtype=np.float32)


class TestBusy:
    @pytest.fixture
    def stopped(self, folders: Folders) -> Iterator[Stopped]:
        stopped = Stopped(folders.embedder, max_pending=8)
        yield stopped
        stopped.go.set()

    def test_a_full_queue_and_health(self, stopped: Stopped) -> None:
        errors = pytest.importorskip("openai")
        with serving([stopped.model], normalize=False) as url, ThreadPoolExecutor(4) as threads:
            openai = errors.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0)
            first = threads.submit(openai.embeddings.create, model="stopped", input="hello")
            assert stopped.began.wait(60)
            second = threads.submit(openai.embeddings.create, model="stopped", input=["hello"] * 8)
            while stopped.model.batched.pending < 8:
                time.sleep(0.01)
            with pytest.raises(errors.RateLimitError) as refused:
                openai.embeddings.create(model="stopped", input="hello")
            assert refused.value.response.headers["retry-after"] == "1"
            # these answers do not wait for the model, which is stopped
            assert httpx.get(f"{url}/health/live", timeout=30).status_code == 200
            assert httpx.get(f"{url}/health/ready", timeout=30).json() == {
                "status": "ready",
                "waiting": {"stopped": 8},
            }
            metrics = httpx.get(f"{url}/metrics", timeout=30).text
            assert 'minibert_waiting_texts{model="stopped"} 8.0' in metrics
            stopped.go.set()
            assert first.result().data[0].embedding == [3.0]
            assert len(second.result().data) == 8

    def test_a_disconnected_client_leaves_no_work(self, stopped: Stopped) -> None:
        with serving([stopped.model], normalize=False) as url, ThreadPoolExecutor(1) as threads:
            first = threads.submit(httpx.post, f"{url}/embed", json={"inputs": "hello"}, timeout=30)
            assert stopped.began.wait(60)
            with pytest.raises(httpx.TimeoutException):
                httpx.post(f"{url}/embed", json={"inputs": ["hello"] * 7}, timeout=0.5)
            futures = [request.future for request in list(stopped.model.batched._waiting)]
            while not all(future.cancelled() for future in futures):
                time.sleep(0.01)
            stopped.go.set()
            assert first.result().json() == [[3.0]]

    def test_timeouts(self, stopped: Stopped) -> None:
        with serving([stopped.model], Limits(seconds=0.3)) as url:
            answer = httpx.post(f"{url}/embed", json={"inputs": "hello"}, timeout=30)
            assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
            host, port = url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as slow:  # the body never completes
                slow.sendall(b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
                slow.settimeout(10)
                assert slow.recv(99).startswith(b"HTTP/1.1 408")
            stopped.go.set()

    def test_more_texts_than_the_queue_holds(self, stopped: Stopped) -> None:
        """No later time would be better for them."""
        with TestClient(create_app([stopped.model], Limits(texts=20))) as client:
            assert client.get("/info").json()["max_client_batch_size"] == 8
            answer = client.post("/embed", json={"inputs": ["hello"] * 9})
            assert (answer.status_code, "at most 8 texts" in answer.text) == (422, True)
            stopped.go.set()
            assert len(client.post("/embed", json={"inputs": ["hello"] * 8}).json()) == 8

    def test_nothing_is_tokenized_for_a_client_that_has_left(
        self,
        stopped: Stopped,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The thread ends at its next text, both at a timeout and when the client disconnects."""
        read, threads, go = [], [], threading.Event()
        pipeline = stopped.tokenizer._pipeline
        ids = pipeline.ids

        def slowly(texts: list[str]) -> list[list[int]]:
            read.append(texts)
            threads.append(threading.current_thread())
            assert go.wait(30)
            return ids(texts)

        monkeypatch.setattr(pipeline, "ids", slowly)
        stopped.model._tokenizer_of.cache_clear()
        texts = ["hello " * 1000] * 7  # so many characters are tokenized in a thread
        bodies = {"/embed": {"inputs": texts}, "/tokenize": {"inputs": texts}}
        with (
            serving([stopped.model], Limits(seconds=0.5)) as url,
            caplog.at_level("INFO", "minibert.serve"),
        ):
            for path, body in bodies.items():
                assert httpx.post(f"{url}{path}", json=body, timeout=30).status_code == 503
                with pytest.raises(httpx.TimeoutException):
                    httpx.post(f"{url}{path}", json=body, timeout=0.2)
            deadline = time.monotonic() + 60
            while caplog.text.count("status=") < 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            go.set()
        for thread in threads:
            thread.join(60)
        assert len(read) <= 4  # at most one text of each request

    def test_a_client_that_disconnects_in_the_body(
        self, stopped: Stopped, caplog: pytest.LogCaptureFixture
    ) -> None:
        with serving([stopped.model]) as url, caplog.at_level("INFO", "minibert.serve"):
            host, port = url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
            deadline = time.monotonic() + 60
            while "path=/embed" not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.01)
        assert "status=499 method=POST path=/embed" in caplog.text
        stopped.go.set()


def test_many_clients(url: str, client: Any, embedder: SentenceEmbedder) -> None:
    """Every response belongs to its request, and the metrics count the texts."""

    def count(name: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def ask(text: str) -> list[float]:
        answer: list[float] = (
            client.post("/embed", json={"inputs": text}).raise_for_status().json()[0]
        )
        return answer

    before = count('minibert_texts_total{model="embedder"}')
    with ThreadPoolExecutor(16) as threads:
        vectors = list(threads.map(ask, TEXTS * 4))
    assert_same(vectors, embedder.encode(TEXTS * 4))
    assert count('minibert_texts_total{model="embedder"}') - before == 4 * len(TEXTS)
    assert count("process_resident_memory_bytes") > 1e6
    assert count('minibert_batch_texts_count{model="embedder"}') < count(
        'minibert_texts_total{model="embedder"}'
    )


class TestCommand:
    @contextmanager
    def started(self, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """Start a server process and yield it with its address."""
        command = [sys.executable, "-m", "minibert", "serve", *arguments, "--port", "0"]
        environment = {**os.environ, "MINIBERT_API_KEY": KEY}
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            env=environment,
        ) as run:
            assert run.stdout is not None
            lines = []
            for line in run.stdout:
                lines.append(line)
                if line.startswith("http://"):
                    break
            assert lines and lines[-1].startswith("http://"), "".join(lines)
            try:
                yield run, lines[-1].strip()
            finally:
                run.kill()

    def test_sigterm_while_busy(self, folders: Folders, embedder: SentenceEmbedder) -> None:
        """Accepted requests are answered and logged, and the exit code is 0."""
        with self.started(
            f"tiny={folders.embedder}",
            str(folders.classifier),
            "--log-format",
            "json",
            "--precision",
            "exact",
        ) as (
            run,
            url,
        ):
            texts = [" ".join(TEXTS[n : n + 5]) for n in range(20)] * 4
            headers = {"Authorization": f"Bearer {KEY}"}

            def ask(number: int) -> Any:
                return httpx.post(
                    f"{url}/embed",
                    json={"inputs": texts, "model": "tiny"},
                    headers=headers,
                    timeout=60,
                )

            with ThreadPoolExecutor(4) as threads:
                answers = [threads.submit(ask, number) for number in range(4)]
                # until the first request is answered and others are in progress
                while 'path="/embed"' not in httpx.get(f"{url}/metrics", headers=headers).text:
                    time.sleep(0.01)
                run.send_signal(signal.SIGTERM)
                responses = []
                for answer in answers:
                    try:
                        responses.append(answer.result())
                    except httpx.TransportError:  # the request arrived after the shutdown began
                        pass
            assert run.wait(30) == 0
            lines = [json.loads(line) for line in run.stdout.read().splitlines()]  # type: ignore[union-attr]
        done = [line for line in lines if line["path"] == "/embed"]
        assert [response.status_code for response in responses] == [200] * len(done)
        assert len(responses) >= 1
        assert {line["status"] for line in done} == {200}
        assert {line["texts"] for line in done} == {80}
        assert_same(responses[-1].json(), embedder.encode(texts))

    @pytest.mark.slow
    def test_two_signals(self) -> None:
        """The second does not wait for the requests in progress, and Python does not abort."""
        with self.started("minibert-en", "--precision", "exact") as (run, url):
            headers = {"Authorization": f"Bearer {KEY}"}
            texts = {"inputs": ["the cat sleeps on the mat " * 20] * 2000}
            with ThreadPoolExecutor(1) as threads:
                asked = threads.submit(
                    httpx.post, f"{url}/embed", json=texts, headers=headers, timeout=60
                )
                while not asked.done() and not sum(
                    httpx.get(f"{url}/health").json()["waiting"].values()
                ):
                    time.sleep(0.01)
                run.send_signal(signal.SIGTERM)
                with pytest.raises(httpx.TransportError):
                    while True:
                        httpx.get(f"{url}/health")
                run.send_signal(signal.SIGINT)
                assert run.wait(30) == 130

    def test_a_signal_before_the_server_runs(
        self, folders: Folders, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stops = []

        def run(server: Any, sockets: object) -> None:
            signal.raise_signal(signal.SIGTERM)
            stops.append(server.should_exit)

        monkeypatch.setattr(uvicorn.Server, "run", run)
        assert main(["serve", str(folders.embedder), "--port", "0"]) == 0
        assert stops == [True]

    def test_the_body_of_a_response_does_not_wait_for_the_client(self) -> None:
        """TCP_NODELAY sends the body without waiting until the headers are acknowledged."""
        with listening("127.0.0.1", 0) as server, socket.create_connection(server.getsockname()):
            accepted, _ = server.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    def test_a_port_in_use(self, folders: Folders, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
            code = main(["serve", str(folders.embedder), "--port", port])
        error = capsys.readouterr().err
        assert code == 1 and "in use" in error and error.count("\n") == 1


NULLS = [
    ("/v1/embeddings", {"input": "x"}, ["encoding_format", "dimensions", "normalize", "model"]),
    ("/v1/rerank", {"query": "x", "documents": ["y"]}, ["return_documents", "top_n"]),
    ("/v1/classify", {"input": "x"}, ["truncate", "prompt_name"]),
    ("/embed", {"inputs": "x"}, ["normalize", "truncation_direction", "truncate"]),
    ("/rerank", {"query": "x", "texts": ["y"]}, ["raw_scores", "return_text"]),
    ("/predict", {"inputs": "x"}, ["raw_scores"]),
    ("/similarity", {"inputs": {"source_sentence": "x", "sentences": ["y"]}}, ["parameters"]),
    ("/tokenize", {"inputs": "x"}, ["add_special_tokens"]),
]


@pytest.mark.parametrize(("path", "body", "names"), NULLS)
def test_null_is_the_default(path: str, body: Any, names: list[str], client: Any) -> None:
    expected = client.post(path, json=body, headers=SAME_ID)
    received = client.post(path, json={**body, **dict.fromkeys(names)}, headers=SAME_ID)
    assert (expected.status_code, received.status_code) == (200, 200)
    assert received.json() == expected.json()


def test_many_truncated_texts_make_a_short_header(client: Any) -> None:
    texts = ["tall trees " * 60] * 40
    answer = client.post("/embed", json={"inputs": texts})
    assert answer.headers["x-truncated"] == "0,1,2,3,4,5,6,7,8,9"
    assert answer.headers["x-truncated-count"] == "40"
    answer = client.post("/v1/embeddings", json={"input": texts})
    assert answer.json()["truncated"] == list(range(40))
    assert len(answer.headers["x-truncated"]) < 100


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedder that does not normalize."""
    folder = tmp_path_factory.mktemp("plain")
    return sentence_folder(folder, ("Pooling", {"pooling_mode": "mean"}))


@pytest.fixture(scope="module")
def servers(plain: Path) -> Iterator[dict[bool, str]]:
    """Addresses of a server that normalizes by default, and of one that does not."""
    models = [[load_served("plain", Source(plain), precision=None, **QUEUE)] for _ in range(2)]
    with serving(models[0]) as normalizing, serving(models[1], normalize=False) as other:
        yield {True: normalizing, False: other}


class TestLengthOfVectors:
    @pytest.mark.parametrize("by_default", [True, False])
    @pytest.mark.parametrize("dimensions", [None, 8])
    @pytest.mark.parametrize("normalize", [None, True, False])
    def test_vectors_are_normalized_unless_disabled(
        self,
        plain: Path,
        servers: dict[bool, str],
        by_default: bool,
        dimensions: int | None,
        normalize: bool | None,
    ) -> None:
        vectors = SentenceEmbedder.from_pretrained(plain, precision=None).encode(TEXTS[:3])
        expected = vectors[:, :dimensions]
        if normalize is True or (normalize is None and by_default):
            expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        options = {"dimensions": dimensions, "normalize": normalize}
        with httpx.Client(base_url=servers[by_default]) as client:
            assert_same(
                client.post("/embed", json={"inputs": TEXTS[:3], **options}).json(), expected
            )
            body = {"input": TEXTS[:3], "encoding_format": "float", **options}
            data = client.post("/v1/embeddings", json=body).json()["data"]
            assert_same([entry["embedding"] for entry in data], expected)


class TestTaggersAndRegressions:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = classifier_folder(tmp_path / "model", 1)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config["problem_type"] = "regression"
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return folder

    def test_spans(self, tmp_path: Path, folders: Folders) -> None:
        tokenizer = BertTokenizer.from_pretrained(folders.embedder)
        labels = {0: "O", 1: "B-PER", 2: "I-PER"}
        tagger = BertForTokenClassification.from_pretrained(folders.embedder, id2label=labels)
        tagger.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        expected = find_entities(tagger, tokenizer, [*TEXTS[:3], LONG])
        assert any(expected)
        model = load_served("tagger", Source(tmp_path), precision=None, **QUEUE)
        with serving([model]) as url, httpx.Client(base_url=url, timeout=30) as client:
            inputs = [[text] for text in [*TEXTS[:3], LONG]]
            answer = client.post("/predict", json={"inputs": inputs})
            assert "x-truncated" not in answer.headers
            for received, spans in zip(answer.json(), expected, strict=True):
                assert [span["word"] for span in received] == [span["word"] for span in spans]
                assert_same([span["score"] for span in received], [span["score"] for span in spans])
            single = client.post("/predict", json={"inputs": TEXTS[0]}).json()
            assert [span["word"] for span in single] == [span["word"] for span in expected[0]]
            pair = client.post("/predict", json={"inputs": TEXTS[:2]})
            assert pair.status_code == 422 and "trained on single texts" in pair.text
            assert client.get("/info").json()["model_type"]["tagger"]["id2label"]["1"] == "B-PER"

    def test_regression(self, folder: Path) -> None:
        model = BertForSequenceClassification.from_pretrained(folder)
        expected = classify(model, BertTokenizer.from_pretrained(folder), TEXTS[:2])
        served = load_served("regression", Source(folder), precision=None, **QUEUE)
        with serving([served]) as url:
            body = {"inputs": [[text] for text in TEXTS[:2]]}
            received = httpx.post(f"{url}/predict", json=body, timeout=30).json()
        assert_same(
            [labels[0]["score"] for labels in received],
            [labels[0]["score"] for labels in expected],
        )


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a tiny question answerer."""
    return head_folder(tmp_path_factory.mktemp("answers") / "model", BertForQuestionAnswering)


def load_answerer(folder: Path) -> Served:
    return load_served("answerer", Source(folder), precision=None, **QUEUE)


class TestAnswerers:
    questions = ("how do trees grow", "who grows in korea?", "")
    contexts = ("Tall trees grow. " * 20, "hello, world", "KOREA! tall trees, " * 9)

    def inputs(self) -> list[dict[str, str]]:
        return [
            {"question": question, "context": context}
            for question, context in zip(self.questions, self.contexts, strict=True)
        ]

    def check(self, received: Any, expected: Any) -> None:
        assert len(received) == len(expected)
        for one, other in zip(received, expected, strict=True):
            assert one.keys() == other.keys()
            assert [one[name] for name in ("answer", "start", "end")] == [
                other[name] for name in ("answer", "start", "end")
            ]
            for name in one.keys() & {"score", "no_answer_score"}:
                assert_same(one[name], other[name])

    def test_answers_are_those_of_python(self, answering: Path) -> None:
        answerer = Answerer.from_pretrained(answering)
        expected = answerer.answer(self.questions, self.contexts)
        with TestClient(create_app([load_answerer(answering)])) as client:
            answer = client.post("/question-answering", json={"inputs": self.inputs()})
            self.check(answer.json(), expected)
            assert "x-truncated" not in answer.headers  # long contexts become windows
            single = client.post("/question-answering", json={"inputs": self.inputs()[0]})
            self.check([single.json()], expected[:1])
            assert client.get("/v1/models").json()["data"][0]["kind"] == "answerer"
            assert client.get("/info").json()["model_type"] == {
                "answerer": {"max_answer_length": 30, "no_answer": False, "no_answer_threshold": 0}
            }
            refused = client.post("/predict", json={"inputs": "hello"})
            assert refused.status_code == 404

    @pytest.mark.parametrize("threshold", [-100.0, 100.0])
    def test_what_training_decided(self, threshold: float, answering: Path, tmp_path: Path) -> None:
        shutil.copytree(answering, tmp_path / "model")
        decided = {"no_answer": True, "no_answer_threshold": threshold, "max_answer_length": 2}
        folder = with_config(tmp_path / "model", minibert=decided)
        expected = Answerer.from_pretrained(folder).answer(self.questions, self.contexts)
        with TestClient(create_app([load_answerer(folder)])) as client:
            received = client.post("/question-answering", json={"inputs": self.inputs()}).json()
            assert client.get("/info").json()["model_type"] == {"answerer": decided}
        self.check(received, expected)
        assert all("no_answer_score" in row for row in received)
        assert [row["answer"] != "" for row in received] == [threshold > 0] * 3

    def test_the_tokens_of_all_windows_count(self, answering: Path) -> None:
        served = load_answerer(answering)
        with TestClient(create_app([served])) as client:
            client.post("/question-answering", json={"inputs": self.inputs()})
            metrics = client.get("/metrics").text
        windows = question_windows(
            served._tokenizer, self.questions, self.contexts, served.max_length
        )
        tokens = sum(len(window["input_ids"]) for window in windows)
        assert len(windows) > 3
        assert f'minibert_tokens_total{{model="answerer"}} {float(tokens)}' in metrics
        for most, status in ((3 * tokens, 200), (3 * tokens - 1, 422)):
            with TestClient(create_app([load_answerer(answering)], Limits(tokens=most))) as client:
                answer = client.post("/question-answering", json={"inputs": self.inputs()})
                assert answer.status_code == status

    def test_windows_above_the_limit_are_not_made(
        self, answering: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Behind a long question a window shows one token: there would be as many as tokens."""
        monkeypatch.setattr(QuestionRow, "of", None)
        inputs = {"question": "tall " * 60, "context": "trees " * 2000}
        with TestClient(create_app([load_answerer(answering)])) as client:
            answer = client.post("/question-answering", json={"inputs": inputs})
        assert answer.status_code == 422 and "at most 43690 tokens" in answer.text

    def test_each_question_counts_the_characters_of_its_context(self, answering: Path) -> None:
        limits = Limits(characters=100)
        with TestClient(create_app([load_answerer(answering)], limits)) as client:
            for count, status in ((5, 200), (6, 422)):
                inputs = [{"question": "a", "context": "tall trees grow kor"}] * count
                answer = client.post("/question-answering", json={"inputs": inputs})
                assert answer.status_code == status

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"question": "x", "context": " \n"}, "the text at index 1 has no word in its context"),
            (
                {"question": "tall " * 61, "context": "x"},
                "the text at index 1 has a question that leaves no room for its context in the 64",
            ),
            ({"question": "x", "context": "\ud800"}, "the text at index 1 holds a lone surrogate"),
            ({"question": "x"}, "inputs[1].context: Field required."),
            ({"question": "x", "context": ["x"]}, "inputs[1].context: Input should be a valid str"),
        ],
    )
    def test_errors_name_the_item(self, wrong: Any, message: str, answering: Path) -> None:
        content = json.dumps({"inputs": [{"question": "x", "context": "y"}, wrong]})
        with TestClient(create_app([load_answerer(answering)])) as client:
            headers = {"Content-Type": "application/json"}
            answer = client.post("/question-answering", content=content, headers=headers)
        assert answer.status_code == 422
        assert message in answer.json()["error"]

    def test_the_client_of_hugging_face(
        self, answering: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from huggingface_hub import InferenceClient, constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        expected = Answerer.from_pretrained(answering).answer(self.questions[0], self.contexts[0])
        with serving([load_answerer(answering)]) as address:
            for url in (address, f"{address}/question-answering"):
                answer = InferenceClient(model=url).question_answering(
                    self.questions[0], self.contexts[0]
                )
                self.check([dict(answer)], [expected])


def test_similarity(client: Any, embedder: SentenceEmbedder) -> None:
    body = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:4]}}
    expected = embedder.similarity(embedder.encode(TEXTS[:1]), embedder.encode(TEXTS[1:4]))
    assert_same(client.post("/similarity", json=body).json(), np.asarray(expected)[0])


def test_tokenize(client: Any, embedder: SentenceEmbedder) -> None:
    texts = ["Tall trees", "korea"]
    expected = embedder.tokenizer(texts)["input_ids"]
    received = client.post("/tokenize", json={"inputs": texts}).json()
    assert [[token["id"] for token in tokens] for tokens in received] == expected
    first, word, *_ = received[0]
    assert first == {
        "id": expected[0][0], "text": "[CLS]", "special": True, "start": None, "stop": None,
    }  # fmt: skip
    assert texts[0][word["start"] : word["stop"]] == word["text"] and not word["special"]
    body = {"inputs": "korea", "add_special_tokens": False}
    assert [token["id"] for token in client.post("/tokenize", json=body).json()[0]] == (
        expected[1][1:-1]
    )
    (tokens,) = client.post("/tokenize", json={"inputs": "korea", "prompt_name": "query"}).json()
    assert [token["id"] for token in tokens] == embedder.tokenizer("query: korea")["input_ids"]
    assert "query: korea"[tokens[-2]["start"] : tokens[-2]["stop"]] == tokens[-2]["text"] == "korea"


def test_limits_of_tokenize(client: Any) -> None:
    """They are those of the other routes."""
    refused = client.post("/tokenize", json={"inputs": "trees " * 3001})
    assert refused.status_code == 422 and "at most 3000 tokens" in refused.text
    refused = client.post("/tokenize", json={"inputs": ["trees " * 5000] * 2})
    assert refused.status_code == 422 and "at most 50000 characters" in refused.text


def test_a_query_is_tokenized_once(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_served("reranker", Source(folders.reranker), precision=None, **QUEUE)
    rows, read = model._tokenizer.rows, []
    monkeypatch.setattr(model._tokenizer, "rows", lambda texts: read.append(*texts) or rows(texts))
    with TestClient(create_app([model], Limits(characters=100))) as client:
        body = {"query": "tall trees", "texts": ["a", "b", "a"]}
        assert client.post("/rerank", json=body).status_code == 200
        assert sorted(read) == ["a", "b", "tall trees"]
        # it counts once as well
        body = {"query": "tall trees" * 9, "texts": list("abcdefghij")}
        assert client.post("/rerank", json=body).status_code == 200
        body = {"query": "tall trees" * 9, "texts": list("abcdefghijk")}
        assert client.post("/rerank", json=body).status_code == 422


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/embed", {"inputs": ["a", "b", 3]}, "inputs[2]: Input should be a valid string or"),
        ("/embed", {"inputs": [1, 2, "a"]}, "inputs[2]: Input should be a valid integer."),
        ("/embed", {"inputs": [[1], [2, "a"]]}, "inputs[1][1]: Input should be a valid integer."),
        ("/embed", {"inputs": [[1], [10**6]]}, "the text at index 1 holds token ids"),
        ("/embed", {"inputs": None}, "inputs: null stands for the default, and there is none."),
        ("/embed", {}, "inputs: Field required."),
        ("/rerank", {"query": "a", "documents": ["a", {}]}, "documents[1].text: Field required."),
        ("/rerank", {"query": "a", "texts": ["a", None]}, "texts[1]: Input should be a valid"),
        (
            "/similarity",
            {"inputs": {"source_sentence": "a", "sentences": ["a", 1]}},
            "inputs.sentences[1]: Input should be a valid string.",
        ),
        ("/predict", {"inputs": [["a"], ["a", 3]]}, "inputs[1][1]: Input should be a valid string"),
        ("/embed", {"inputs": ["a", LONG], "truncate": False}, "the text at index 1 has more than"),
        ("/v1/embeddings", {"input": "a", "input_type": "qurey"}, "input_type or task: should be"),
        ("/v1/embeddings", {"input": "a", "task": "qurey"}, "input_type or task: should be one of"),
        ("/v2/embed", {"texts": ["a"], "input_type": "qurey"}, "input_type or task: should be one"),
        ("/embed", {"inputs": "a", "normalize": "off"}, "normalize: Input should be a valid bool"),
        ("/score", {"text_1": ["a", "b"], "text_2": "c"}, "text_1 has 2 texts and text_2 1"),
    ],
)
def test_errors_name_the_item(path: str, body: Any, message: str, client: Any) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert message in json.dumps(answer.json()), answer.text


def test_whole_numbers_of_json(client: Any) -> None:
    expected = client.post("/embed", json={"inputs": [[7, 8]], "dimensions": 3}).json()
    received = client.post("/embed", json={"inputs": [[7.0, 8]], "dimensions": 3.0}).json()
    assert_same(received, expected)


def test_texts_that_are_objects(client: Any) -> None:
    """As Jina's clients send them."""
    body = {"input": [{"text": TEXTS[0]}, TEXTS[1]], "model": "embedder"}
    strings = {**body, "input": TEXTS[:2]}
    expected = client.post("/v1/embeddings", json=strings, headers=SAME_ID).json()
    assert client.post("/v1/embeddings", json=body, headers=SAME_ID).json() == expected


def test_a_single_object_of_jina(client: Any) -> None:
    expected, received = (
        client.post("/v1/embeddings", json={"input": text}, headers=SAME_ID).json()
        for text in (TEXTS[0], {"text": TEXTS[0]})
    )
    assert received == expected
    refused = client.post("/v1/embeddings", json={"input": {"image": "x"}})
    assert refused.status_code == 422 and "input.text" in refused.json()["error"]["message"]


def test_pooling_of_vllm(client: Any) -> None:
    vectors = client.post("/embed", json={"inputs": TEXTS[:2]}).json()
    answer = client.post("/pooling", json={"model": "embedder", "input": TEXTS[:2]}).json()
    assert [entry["data"] for entry in answer["data"]] == vectors
    assert {entry["object"] for entry in answer["data"]} == {"pooling"}
    body = {"input": TEXTS[0], "dimensions": 4, "normalize": False, "task": "embed"}
    assert len(client.post("/pooling", json=body).json()["data"][0]["data"]) == 4
    assert client.post("/pooling", json={**body, "task": "token_embed"}).status_code == 422


def test_tokenize_of_vllm(client: Any, embedder: SentenceEmbedder) -> None:
    ids = embedder.tokenizer("Tall trees")["input_ids"]
    answer = client.post("/tokenize", json={"model": "embedder", "prompt": "Tall trees"}).json()
    about = {"count": len(ids), "max_model_len": embedder.max_length}
    assert answer == {**about, "tokens": ids, "token_strs": None}
    body = {"prompt": "Tall trees", "add_special_tokens": False, "return_token_strs": True}
    answer = client.post("/tokenize", json={"model": "embedder", **body}).json()
    assert answer["tokens"] == ids[1:-1]
    assert answer["token_strs"] == embedder.tokenizer.convert_ids_to_tokens(ids[1:-1])
    for wrong in ({}, {"inputs": "a", "prompt": "b"}, {"prompt": ["a"]}):
        assert client.post("/tokenize", json=wrong).status_code == 422
    assert client.post("/tokenize", json={"prompt": ""}).json()["count"] == 2


def test_reranking_of_mixedbread(client: Any) -> None:
    body = {"query": "tall trees", "input": TEXTS[:3]}
    ranked = client.post("/v1/rerank", json={"query": "tall trees", "documents": TEXTS[:3]}).json()
    answer = client.post("/v1/reranking", json=body).json()
    assert [(entry["index"], entry["score"]) for entry in answer["data"]] == [
        (entry["index"], entry["relevance_score"]) for entry in ranked["results"]
    ]
    assert answer["top_k"] == 3 and answer["return_input"] is False
    objects = [{"text": text} for text in TEXTS[:3]]
    body = {"query": "tall trees", "input": objects, "top_k": 1, "return_input": True}
    (first,) = client.post("/v1/reranking", json=body).json()["data"]
    assert first["input"] == objects[first["index"]]


@pytest.mark.parametrize(("kind", "dtype"), [("binary", np.int8), ("ubinary", np.uint8)])
def test_bits_in_base64_are_decoded_by_their_type(client: Any, kind: str, dtype: Any) -> None:
    """Clients of Voyage ask for base64, whatever the type of the numbers is."""
    body = {"input": TEXTS[0], "output_dtype": kind}
    (numbers,) = (entry["embedding"] for entry in embeddings_of(client, body))
    (text,) = (entry["embedding"] for entry in embeddings_of(client, {**body, **BASE64}))
    assert np.frombuffer(base64.b64decode(text), dtype).tolist() == numbers


BASE64 = {"encoding_format": "base64"}


def embeddings_of(client: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = client.post("/v1/embeddings", json=body).json()["data"]
    return data


def test_routes_of_vllm(client: Any, folders: Folders, tmp_path: Path) -> None:
    """Scores of pairs, by a reranker or by cosines, and paths without /v1."""
    ranked = client.post("/rerank", json={"query": "tall trees", "texts": TEXTS[:3]}).json()
    as_object = {"query": {"text": "tall trees"}, "texts": TEXTS[:3]}  # of Jina
    assert client.post("/rerank", json=as_object).json() == ranked
    expected = [entry["score"] for entry in sorted(ranked, key=lambda entry: entry["index"])]
    for path in ("/score", "/v1/score"):
        body = {"text_1": "tall trees", "text_2": TEXTS[:3]}
        answer = client.post(path, json=body).json()
        assert_same([entry["score"] for entry in answer["data"]], expected)
        assert [entry["index"] for entry in answer["data"]] == [0, 1, 2]
        body = {"text_1": ["tall trees"] * 3, "text_2": TEXTS[:3]}
        assert client.post(path, json=body).json() == answer
        for names in (("queries", "documents"), ("queries", "items"), ("data_1", "data_2")):
            body = dict(zip(names, ("tall trees", TEXTS[:3]), strict=True))
            assert client.post(path, json=body).json() == answer
    body = {"text_1": TEXTS[0], "text_2": TEXTS[1:4], "model": "embedder"}
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:4]}
    cosines = client.post("/similarity", json={"inputs": inputs}).json()
    scores = [entry["score"] for entry in client.post("/score", json=body).json()["data"]]
    assert_same(scores, cosines)
    assert client.get("/models").json() == client.get("/v1/models").json()
    assert client.get("/models/embedder").json() == client.get("/v1/models/embedder").json()
    classified = client.post("/classify", json={"input": TEXTS[:2]}).json()
    (entry, _) = classified["data"]
    assert entry["label"] == classified["classes"][int(np.argmax(entry["probs"]))]
    assert classified == client.post("/v1/classify", json={"input": TEXTS[:2]}).json()


def test_pages_may_call_a_private_network(folders: Folders) -> None:
    model = fixed(folders, "embedding", LOGITS)
    client = TestClient(create_app([model], cors=["https://a.example"]))
    ask = {
        "Origin": "https://a.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Private-Network": "true",
    }
    answer = client.options("/v1/embeddings", headers=ask)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-private-network"] == "true"
    refused = client.options("/v1/embeddings", headers={**ask, "Origin": "https://b.example"})
    assert refused.status_code == 400


def test_methods_of_a_path_with_two_routes(client: Any) -> None:
    refused = client.put("/", json={})
    assert refused.status_code == 405
    assert refused.headers["allow"].split(", ") == ["GET", "HEAD", "POST"]


def test_metrics_may_be_open(folders: Folders) -> None:
    model = load_served("embedder", Source(folders.embedder), precision=None, **QUEUE)
    with serving([model], key=KEY, metrics_open=True) as url:
        assert httpx.get(f"{url}/metrics").status_code == 200
        assert httpx.get(f"{url}/info").status_code == 401


def with_config(folder: Path, **fields: Any) -> Path:
    """Change fields of the config.json of a folder."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **fields}), encoding="utf-8")
    return folder


@pytest.mark.parametrize("activation", ["Identity", "Sigmoid", "Tanh", None])
@pytest.mark.parametrize("factor", [1, 100])
def test_scores_of_a_reranker_are_sigmoids_of_its_logits(
    activation: str | None, factor: int, tmp_path: Path
) -> None:
    """Whatever the folder names, and in the order of the logits where scores are equal."""
    folder = classifier_folder(tmp_path / "reranker", 1)
    model = BertForSequenceClassification.from_pretrained(folder)
    model.classifier.weight.data *= factor
    model.classifier.bias.data.fill_(30.0 if factor > 1 else 0.0)
    model.save_pretrained(folder)
    if activation is not None:
        with_config(
            folder,
            sentence_transformers={"activation_fn": f"torch.nn.modules.activation.{activation}"},
        )
    tokenizer = BertTokenizer.from_pretrained(folder)
    documents = TEXTS[:6]
    inputs = tokenizer(["tall trees"] * 6, documents, padding=True, return_tensors="pt")
    logits = model.eval()(**inputs).logits[:, 0].detach().numpy()
    order = np.argsort(-logits, kind="stable").tolist()
    served = load_served("reranker", Source(folder), precision=None, **QUEUE)
    with serving([served]) as url, httpx.Client(base_url=url) as client:
        for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
            name = "texts" if path == "/rerank" else "documents"
            body = {"query": "tall trees", name: documents}
            answer = client.post(path, json=body).json()
            results = answer if path == "/rerank" else answer["results"]
            assert [entry["index"] for entry in results] == order
            scores = [entry.get("score", entry.get("relevance_score")) for entry in results]
            assert_same(scores, 1 / (1 + np.exp(-logits[order])))
        raw = client.post("/rerank", json={**body, "raw_scores": True}).json()
        np.testing.assert_allclose([entry["score"] for entry in raw], logits[order], rtol=1e-5)
        pair = {"inputs": ["tall trees", documents[0]]}
        (label,) = client.post("/predict", json=pair).json()
        assert_same(label["score"], 1 / (1 + np.exp(-logits[0])))
        (label,) = client.post("/predict", json={**pair, "raw_scores": True}).json()
        np.testing.assert_allclose(label["score"], logits[0], rtol=1e-5)


def test_thresholds_of_several_labels(tmp_path: Path) -> None:
    folder = with_config(
        classifier_folder(tmp_path / "several", 3),
        problem_type="multi_label_classification",
        thresholds={"LABEL_0": 0.0, "LABEL_1": 1.0, "LABEL_2": 0.0},
    )
    served = load_served("several", Source(folder), precision=None, **QUEUE)
    with serving([served]) as url, httpx.Client(base_url=url) as client:
        (entry,) = client.post("/v1/classify", json={"input": "trees"}).json()["data"]
        assert entry["labels"] == ["LABEL_0", "LABEL_2"] and len(entry["probs"]) == 3
        thresholds = client.get("/info").json()["model_type"]["classifier"]["thresholds"]
        assert thresholds == {"LABEL_0": 0.0, "LABEL_1": 1.0, "LABEL_2": 0.0}
        assert client.get("/v1/models").json()["data"][0]["thresholds"] == thresholds


TWO = {"inputs": TEXTS[:2]}
SEVERAL = {"inputs": [[TEXTS[0]], [TEXTS[1]]]}
OF_A_QUERY = {"query": TEXTS[0], "texts": TEXTS[1:3]}
PAIR_LAST = {"inputs": [[TEXTS[0]], TEXTS[:2]]}
PAIRS = {"inputs": [TEXTS[:2], TEXTS[1:3]]}


@pytest.mark.parametrize(
    ("trained_on_pairs", "labels", "path", "body", "refused"),
    [
        (False, 3, "/predict", TWO, 0),
        (False, 3, "/", TWO, 0),
        (False, 3, "/predict", PAIR_LAST, 1),
        (False, 3, "/predict", SEVERAL, None),
        (False, 3, "/v1/classify", {"input": TEXTS[:2]}, None),
        (False, 1, "/rerank", OF_A_QUERY, 0),
        (False, 1, "/score", {"text_1": "a", "text_2": "b"}, 0),
        (False, 1, "/predict", SEVERAL, None),
        (True, 3, "/predict", TWO, None),
        (True, 3, "/predict", PAIRS, None),
        (True, 3, "/predict", SEVERAL, 0),
        (True, 3, "/v1/classify", {"input": TEXTS[0]}, 0),
        (True, 1, "/rerank", OF_A_QUERY, None),
        (True, 1, "/predict", {"inputs": TEXTS[0]}, 0),
        (None, 3, "/predict", PAIR_LAST, None),
    ],
)
def test_texts_and_pairs_are_read_as_in_training(
    trained_on_pairs: bool | None,
    labels: int,
    path: str,
    body: Any,
    refused: int | None,
    tmp_path: Path,
) -> None:
    folder = classifier_folder(tmp_path / "trained", labels)
    if trained_on_pairs is not None:
        with_config(folder, minibert={"pairs": trained_on_pairs})
    served = load_served("trained", Source(folder), precision=None, **QUEUE)
    with TestClient(create_app([served])) as client:
        answer = client.post(path, json=body)
    if refused is None:
        assert answer.status_code == 200, answer.text
    else:
        assert answer.status_code == 422
        noun = "pairs of texts" if trained_on_pairs else "single texts"
        assert f"the text at index {refused} is " in answer.text
        assert f"this model was trained on {noun}" in answer.text


def test_saturated_scores_keep_the_order_of_the_logits(tmp_path: Path) -> None:
    folder = classifier_folder(tmp_path, 3, problem_type="multi_label_classification")
    model = BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([60.0, 100.0, 80.0]))
    model.save_pretrained(folder)
    served = load_served("several", Source(folder), precision=None, **QUEUE)
    with serving([served]) as url, httpx.Client(base_url=url) as client:
        (entry,) = client.post("/v1/classify", json={"input": "trees"}).json()["data"]
        assert entry["label"] == "LABEL_1" and entry["probs"] == [1.0, 1.0, 1.0]
        labels = client.post("/predict", json={"inputs": "trees"}).json()
        assert [label["label"] for label in labels] == ["LABEL_1", "LABEL_2", "LABEL_0"]


def test_what_clients_of_mistral_and_voyage_need(client: Any) -> None:
    """Those of Mistral need an id in the response, and those of Voyage the detail of an error."""
    answer = client.post("/v1/embeddings", json={"input": "hello"})
    assert answer.json()["id"] == answer.headers["x-request-id"]
    for body in ({"input": 3}, {"input": "hello", "model": "another"}):
        refused = client.post("/v1/embeddings", json=body).json()
        assert refused["detail"] == refused["error"]["message"]


def test_documents_as_voyage_ranks_them(client: Any) -> None:
    body = {"query": "trees", "documents": TEXTS[:4], "return_documents": True}
    expected = client.post("/v1/rerank", json=body).json()
    answer = client.post("/v1/rerank", json={**body, "top_k": 2, "truncation": True}).json()
    for entry in expected["results"]:
        entry["document"] = entry["document"]["text"]
    assert answer["data"] == expected["results"][:2]
    assert answer["usage"]["total_tokens"] > 0 and "results" not in answer
    overlong = {**body, "documents": [LONG], "truncation": False}
    assert client.post("/v1/rerank", json=overlong).status_code == 422


def test_documents_at_the_path_of_texts(client: Any) -> None:
    """vLLM and Infinity have the API of Cohere at /rerank."""
    body = {"query": "trees", "documents": TEXTS[:4], "top_n": 2, "return_documents": True}
    assert client.post("/rerank", json=body).json() == client.post("/v1/rerank", json=body).json()
    for path in ("/rerank", "/v1/rerank"):
        refused = client.post(path, json={"query": "trees"})
        assert refused.status_code == 422 and "texts: Field required" in refused.text
        refused = client.post(path, json={**body, "texts": TEXTS[:2]})
        assert refused.status_code == 422 and "documents and texts" in refused.text


def test_options_of_one_api_of_rerankers_are_options_of_the_others(client: Any) -> None:
    """What is sent decides the form of the response, and no known option is ignored."""
    texts = {"query": "trees", "texts": TEXTS[:4]}
    documents = {"query": "trees", "documents": TEXTS[:4]}
    full = client.post("/rerank", json={**texts, "return_text": True}).json()
    logits = client.post("/rerank", json={**texts, "raw_scores": True}).json()
    for option in ({"top_n": 2}, {"top_k": 2}):
        short = client.post("/rerank", json={**texts, **option, "return_documents": True})
        assert short.json() == full[:2]
    assert client.post("/v1/rerank", json={**texts, "return_text": True}).json() == full
    overlong = {**texts, "texts": [LONG], "truncation": False}
    assert client.post("/rerank", json=overlong).status_code == 422
    body = {**documents, "raw_scores": True, "return_text": True}
    results = client.post("/rerank", json=body).json()["results"]
    assert [entry["document"]["text"] for entry in results] == [entry["text"] for entry in full]
    assert_same(
        [entry["relevance_score"] for entry in results], [entry["score"] for entry in logits]
    )


class TestBehindAProxy:
    def test_probes_need_no_key(self, url: str) -> None:
        for path in ("/", "/ping", "/health", "/health/"):
            for method in ("GET", "HEAD"):
                assert httpx.request(method, f"{url}{path}").status_code == 200
        assert httpx.post(f"{url}/", json={"inputs": "x"}).status_code == 401

    @pytest.mark.parametrize("path", ["/v1/embeddings/", "/embeddings", "/embeddings/"])
    def test_embeddings(self, path: str, client: Any, embedder: SentenceEmbedder) -> None:
        answer = client.post(path, json={"input": TEXTS[0]}, headers={"Host": "api.example.org"})
        assert_same(answer.json()["data"][0]["embedding"], embedder.encode(TEXTS[0]))

    def test_other_paths(self, client: Any, embedder: SentenceEmbedder) -> None:
        assert client.get("/v1/models/").json() == client.get("/v1/models").json()
        (vector,) = client.post("/invocations", json={"inputs": TEXTS[0]}).json()
        assert_same(vector, embedder.encode(TEXTS[0]))

    def test_info_of_each_model(self, client: Any) -> None:
        assert client.get("/info").json() == client.get("/info/embedder").json()
        assert list(client.get("/info/reranker").json()["model_type"]) == ["reranker"]
        assert client.get("/info/nothing").status_code == 404

    def test_request_ids(self, client: Any, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO", "minibert.serve"):
            answer = client.get("/v1/models", headers={"X-Request-ID": "a-1"})
            assert answer.headers["x-request-id"] == "a-1"
            answer = client.get("/v1/models", headers={"X-Request-ID": "a 1\tstatus=200"})
            assert len(answer.headers["x-request-id"]) == 32
            refused = client.get("/v1/models", headers={"Authorization": ""})
            deadline = time.monotonic() + 10
            while refused.headers["x-request-id"] not in caplog.text:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert "id=a-1" in caplog.text

    def test_pages_of_other_origins(self, folders: Folders) -> None:
        model = load_served("embedder", Source(folders.embedder), precision=None, **QUEUE)
        ask = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        origins = ((), 401), (("https://a.example",), 200), (("https://a.example/",), 200)
        for cors, status in (*origins, (("*",), 200)):
            client = TestClient(create_app([model], key=KEY, cors=cors))
            answer = client.options("/v1/embeddings", headers=ask)
            assert answer.status_code == status
            assert ("access-control-allow-origin" in answer.headers) == bool(cors)
        model.batched.close()

    @pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY} ", f"{KEY}\r\n"])
    def test_a_key_with_blanks_around_it(self, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MINIBERT_API_KEY", key)
        assert key_of_clients() == KEY

    @pytest.mark.parametrize("key", ["비밀", "clé"])
    def test_a_key_in_any_script(self, key: str, folders: Folders) -> None:
        with serving([fixed(folders, "embedding", LOGITS)], key=key) as url:
            for sent, status in ((key, 200), (key[:-1], 401)):
                headers = {"Authorization": f"Bearer {sent}".encode()}
                assert httpx.get(f"{url}/v1/models", headers=headers).status_code == status

    def test_a_key_of_several_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MINIBERT_API_KEY", f"# of the service\n{KEY}\n")
            assert main(["serve", "--port", "0"]) == 2
        assert "MINIBERT_API_KEY holds several lines" in capsys.readouterr().err

    def test_a_key_of_blanks(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MINIBERT_API_KEY", " \n")
            assert main(["serve", "--port", "0"]) == 2
        assert "MINIBERT_API_KEY holds blanks alone" in capsys.readouterr().err

    def test_addresses_of_both_families(self) -> None:
        if not socket.has_dualstack_ipv6():
            pytest.skip("this system has no sockets of both families")
        with listening("::", 0) as server:
            port = server.getsockname()[1]
            for host in ("127.0.0.1", "::1"):
                socket.create_connection((host, port), timeout=5).close()


@pytest.mark.parametrize(
    ("fields", "prompt_name"),
    [
        ({"input_type": "query"}, "query"),
        ({"input_type": "search_query"}, "query"),
        ({"task": "retrieval.query"}, "query"),
        ({"input_type": "search_document"}, None),  # this folder has no prompt for documents
        ({"input_type": "classification"}, None),
        ({"input_type": "passage", "prompt_name": "query"}, "query"),
    ],
)
def test_what_other_apis_call_prompts(
    fields: dict[str, str], prompt_name: str | None, client: Any, embedder: SentenceEmbedder
) -> None:
    body = {"input": TEXTS[0], "model": "embedder", **fields}
    received = client.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]
    assert_same(received, embedder.encode(TEXTS[0], prompt_name=prompt_name))


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"output_dimension": 8, "output_dtype": "float"}, {"truncate_dim": 8}),
        ({"normalized": False}, {}),
        ({"truncation": True, "embedding_type": "float"}, {}),
    ],
)
def test_what_other_apis_call_options(
    fields: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    folder = sentence_folder(tmp_path, ("Pooling", {"pooling_mode": "mean"}))
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None)
    model = load_served("m", Source(folder), precision=None, **QUEUE)
    with TestClient(create_app([model])) as client:
        answer = client.post("/v1/embeddings", json={"input": TEXTS[0], **fields}).json()
        in_base64 = client.post("/v1/embeddings", json={"input": "a", "embedding_type": "base64"})
    received = answer["data"][0]["embedding"]
    is_normalized = fields.get("normalized", True)
    assert_same(received, embedder.encode(TEXTS[0], normalize_embeddings=is_normalized, **options))
    decoded = np.frombuffer(base64.b64decode(in_base64.json()["data"][0]["embedding"]), "<f4")
    assert_same(decoded, embedder.encode("a", normalize_embeddings=True))


def test_prompts_and_dimensions_of_the_command_line(folders: Folders) -> None:
    """A folder without prompts, such as E5's, gets its prompts from the options."""
    embedder = SentenceEmbedder.from_pretrained(folders.embedder, precision=None, truncate_dim=8)
    options = {"query_prompt": "search: ", "document_prompt": "query", "truncate_dim": 8}
    model = load_served("m", Source(folders.embedder), precision=None, **options, **QUEUE)
    words = {"query": "search: ", "document": embedder.prompts["query"], None: ""}
    with TestClient(create_app([model])) as client:
        for side, prompt in words.items():
            body = {"input": TEXTS[0], "input_type": side}
            (answer,) = client.post("/v1/embeddings", json=body).json()["data"]
            expected = embedder.encode(TEXTS[0], prompt=prompt, normalize_embeddings=True)
            assert_same(answer["embedding"], expected)


@pytest.mark.parametrize(
    "option", [["--truncate-dim", "8"], ["--query-prompt", "a"], ["--document-prompt", "a"]]
)
def test_options_of_embedders_without_one(
    option: list[str], folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(folders.classifier), "--port", "0", *option]) == 2
    assert f"{option[0]} is for embedders" in capsys.readouterr().err


@pytest.mark.parametrize("include_prompt", [True, False])
def test_token_ids_give_the_vector_of_their_text(include_prompt: bool, tmp_path: Path) -> None:
    """With the prompt that the text would have, and whichever special tokens they come with."""
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    folder = sentence_folder(
        tmp_path,
        ("Pooling", {"pooling_mode": "mean", "include_prompt": include_prompt}),
        config_sentence_transformers=prompts,
    )
    ids = BertTokenizer.from_pretrained(folder)(TEXTS[0])["input_ids"]
    inputs = [ids, ids[1:-1], ids[:-1], ids[1:]]
    model = load_served("m", Source(folder), precision=None, **QUEUE)
    with TestClient(create_app([model])) as client:
        expected = client.post("/embed", json={"inputs": TEXTS[0]}).json()
        assert_same(client.post("/embed", json={"inputs": inputs}).json(), expected * 4)


def test_unknown_paths_are_logged(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    line = "path=/embeddings%0Ainjected"
    with caplog.at_level("INFO", "minibert.serve"):
        assert client.get("/embeddings%0Ainjected").status_code == 404
        deadline = time.monotonic() + 60
        # a request is logged after its answer has been sent
        while line not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)
    assert line in caplog.text


class TestNames:
    @pytest.mark.parametrize(
        ("argument", "name", "model"),
        [
            ("out/lr=2e-5,seed=1", "lr=2e-5,seed=1", "out/lr=2e-5,seed=1"),
            ("mine=out/lr=2e-5,seed=1", "mine", "out/lr=2e-5,seed=1"),
            ("mine=org/model", "mine", "org/model"),
            ("org/model", "org/model", "org/model"),
        ],
    )
    def test_an_existing_path_is_not_split_at_its_equals_sign(
        self, argument: str, name: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "out" / "lr=2e-5,seed=1").mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        assert name_models([argument]) == [(name, model)]

    def test_equal_folder_names_get_longer_names(self, tmp_path: Path) -> None:
        folders = [tmp_path / "a" / "best", tmp_path / "b" / "best", tmp_path / "b" / "last"]
        for folder in folders:
            folder.mkdir(parents=True)
        names = [name for name, _ in name_models([str(folder) for folder in folders])]
        assert names == ["a/best", "b/best", "last"]
        with pytest.raises(ValueError, match="two models have the same name"):
            name_models(["x=org/a", "x=org/b"])


def test_a_model_that_cannot_be_served(
    folders: Folders,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = BertForMultipleChoice.from_pretrained(folders.embedder)
    model.save_pretrained(tmp_path / "choices")
    BertTokenizer.from_pretrained(folders.embedder).save_pretrained(tmp_path / "choices")
    assert main(["serve", str(tmp_path / "choices"), "--port", "0"]) == 1
    assert "choices cannot be served: " in capsys.readouterr().err
    # only the command sends the request log to stdout
    with caplog.at_level("INFO", "minibert.serve"):
        logging.getLogger("minibert.serve").info("logged after the command")
    assert "logged after the command" in caplog.text


def test_loading_warms_up_the_models(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[Any] = []
    monkeypatch.setattr("minibert.inference.optimize.warm_up", warmed.append)
    for folder in (folders.embedder, folders.classifier):
        load_served("tiny", Source(folder), precision="fp32", **QUEUE).batched.close()
    assert [type(model).__name__ for model in warmed] == [
        "BertModel",
        "BertForSequenceClassification",
    ]


@pytest.mark.slow
def test_memory_does_not_grow(folders: Folders) -> None:
    """After a minute of warm-up, a minute of random texts adds less than 20 MB and no errors.

    MINIBERT_SOAK sets the seconds after the warm-up.
    """
    seconds = float(os.environ.get("MINIBERT_SOAK") or 60)
    random = np.random.default_rng(0)
    with TestCommand().started(str(folders.embedder), "--precision", "bf16") as (run, url):
        assert run.stdout is not None
        reader = threading.Thread(target=run.stdout.read)  # a full pipe would stop the service
        reader.start()
        headers = {"Authorization": f"Bearer {KEY}"}
        sizes, statuses = [], set()
        begin = time.monotonic()
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            for until in (60, 60 + seconds):
                while time.monotonic() < begin + until:
                    texts = [
                        " ".join(random.choice(WORDS, size=size))
                        for size in random.integers(1, 60, size=16)
                    ]
                    statuses.add(client.post("/embed", json={"inputs": texts}).status_code)
                pages = Path(f"/proc/{run.pid}/statm").read_text(encoding="ascii").split()[1]
                sizes.append(int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0
        reader.join()
    assert statuses == {200}
    assert sizes[1] - sizes[0] < 20, sizes


def test_vectors_for_clients_of_cohere(client: httpx.Client) -> None:
    """A prompt is chosen by the type of input, and long texts are truncated as asked for."""
    expected = client.post("/embed", json={"inputs": TEXTS[:2]}).json()
    body = {"texts": TEXTS[:2], "embedding_types": ["float", "base64"], "model": "embedder"}
    answer = client.post("/v2/embed", json=body).json()
    assert answer["id"] and answer["embeddings"]["float"] == expected
    assert client.post("/v1/embed", json=body).json()["embeddings"] == answer["embeddings"]
    first = client.post("/v1/embed", json={"texts": TEXTS[:2]}).json()
    assert first["embeddings"] == expected and first["response_type"] == "embeddings_floats"
    decoded = np.frombuffer(base64.b64decode(answer["embeddings"]["base64"][1]), dtype="<f4")
    assert_same(decoded, expected[1])
    short = client.post("/v2/embed", json={**body, "output_dimension": 8}).json()
    assert len(short["embeddings"]["float"][0]) == 8
    long = {"texts": [" ".join(TEXTS) * 40]}
    sides = [client.post("/v2/embed", json={**long, "truncate": side}) for side in ("START", "END")]
    assert sides[0].json()["embeddings"] != sides[1].json()["embeddings"]
    assert client.post("/v2/embed", json={**long, "truncate": "NONE"}).status_code == 422
    assert client.post("/v2/embed", json={**body, "embedding_types": ["int8"]}).status_code == 422


def test_signs_of_vectors_are_those_of_encode(client: httpx.Client, folders: Folders) -> None:
    embedder = SentenceEmbedder.from_pretrained(folders.embedder)
    codes = {kind: embedder.encode(TEXTS[:2], precision=kind) for kind in ("binary", "ubinary")}
    body = {"texts": TEXTS[:2], "embedding_types": ["binary", "ubinary"]}
    cohere = client.post("/v2/embed", json=body).json()["embeddings"]
    for kind, expected in codes.items():
        assert cohere[kind] == expected.tolist()
        for name in ("embedding_type", "output_dtype"):  # of Jina and of Voyage
            answer = client.post("/v1/embeddings", json={"input": TEXTS[:2], name: kind}).json()
            assert [entry["embedding"] for entry in answer["data"]] == expected.tolist()


def test_inputs_of_version_2_of_cohere(client: httpx.Client) -> None:
    def parts(*texts: str) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": text} for text in texts]}

    expected = client.post("/v2/embed", json={"texts": TEXTS[:2]}).json()["embeddings"]
    inputs = {"inputs": [parts(text) for text in TEXTS[:2]]}
    assert client.post("/v2/embed", json=inputs).json()["embeddings"] == expected
    image = {"content": [{"type": "image_url", "image_url": {"url": "a"}}]}
    for wrong, place in ((image, "inputs[1].content[0]"), (parts("a", "b"), "inputs[1].content")):
        answer = client.post("/v2/embed", json={"inputs": [parts("a"), wrong]})
        assert answer.status_code == 422 and place in answer.json()["error"]
    for body in ({}, {"texts": ["a"], **inputs}):
        answer = client.post("/v2/embed", json=body)
        assert answer.status_code == 422 and "texts or inputs" in answer.json()["error"]


def test_cohere_says_which_side_is_truncated(folders: Folders) -> None:
    """START and END are sides of the text, whichever side the model truncates."""
    model = load_served("model", Source(folders.embedder), precision=None, **QUEUE)
    long = {"texts": [" ".join(TEXTS) * 40]}

    def vectors() -> list[Any]:
        bodies = [long, {**long, "truncate": "START"}, {**long, "truncate": "END"}]
        return [client.post("/v2/embed", json=body).json()["embeddings"] for body in bodies]

    with TestClient(create_app([model])) as client:
        usual, start, end = vectors()
        assert usual == end != start
        model._tokenizer.truncation_side = "left"
        assert vectors() == [start, start, end]


class Fixed:
    """Computes the same values for each text."""

    def __init__(self, folder: Path, values: Any) -> None:
        self.values = values
        self.tokenizer, self.max_length = BertTokenizer.from_pretrained(folder), 64

    def settings(self, prompt_name: str | None) -> Settings:
        return Settings("", "truncate", 512)

    def warn_of_unread(self, rows: Rows, settings: Settings) -> None:
        pass

    def encode_rows(self, rows: Rows, settings: Settings) -> Any:
        if isinstance(self.values, list | dict):
            return [self.values for _ in rows.ids]
        return np.stack([self.values for _ in rows.ids])


def fixed(folders: Folders, kind: str, values: Any) -> Served:
    """A model that computes these values for each text, called as its kind is."""
    about: dict[str, Any] = {"precision": None, "pooling": "mean"}
    if kind != "embedding":
        about["labels"] = ["no", "yes"][: len(values)]
    encoder: Any = Fixed(folders.embedder, values)
    return Served(kind, kind, encoder, about, "Sigmoid", **QUEUE)


SPAN = {"entity_group": "PER", "score": 1.0, "word": "trees", "start": 0, "end": 5}
ANSWER = {"answer": "trees", "score": 1.0, "start": 0, "end": 5}
LOGITS = np.array([1, 2], dtype=np.float32)


@pytest.mark.parametrize("path", ["/", "/invocations"])
def test_the_first_model_answers_whatever_its_kind(path: str, folders: Folders) -> None:
    """The model that /info describes, whichever kind another route would prefer."""
    kinds = {"tagger": [SPAN], "classifier": LOGITS, "embedding": LOGITS}
    for first, answer_of in (("tagger", "word"), ("classifier", "label")):
        rest = [kind for kind in kinds if kind != first]
        models = [fixed(folders, kind, kinds[kind]) for kind in (first, *rest)]
        with TestClient(create_app(models)) as client:
            assert client.get("/info").json()["model_id"] == first
            ((found, *_),) = client.post(path, json={"inputs": TEXTS[0]}).json()
            assert answer_of in found
            # a name is a choice of its own, and /predict has no first model
            named = client.post(path, json={"inputs": TEXTS[0], "model": "classifier"})
            assert "label" in named.json()[0][0]
            assert "label" in client.post("/predict", json={"inputs": TEXTS[0]}).json()[0]
            assert client.post(path, json={"inputs": "x", "model": "none"}).status_code == 404


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("embedding", "/embed", {"inputs": "x"}),
        ("embedding", "/v1/embeddings", {"input": "x", "encoding_format": "base64"}),
        ("reranker", "/rerank", {"query": "x", "texts": ["y"], "raw_scores": True}),
        ("tagger", "/predict", {"inputs": "x"}),
        ("answerer", "/question-answering", {"inputs": {"question": "x", "context": "y"}}),
    ],
)
def test_values_that_json_does_not_have_are_an_error(
    kind: str, path: str, body: Any, number: float, folders: Folders
) -> None:
    values: Any = np.array([number, 1][: 1 if kind == "reranker" else 2], dtype=np.float32)
    if kind == "tagger":
        values = [SPAN, {**SPAN, "score": number}]
    if kind == "answerer":
        values = {**ANSWER, "no_answer_score": number}
    with TestClient(create_app([fixed(folders, kind, values)])) as client:
        answer = client.post(path, json=body)
    assert answer.status_code == 500
    assert "NaN or infinity" in json.dumps(answer.json())


def test_a_service_needs_a_model() -> None:
    with pytest.raises(ValueError, match="models is empty"):
        create_app([])


@pytest.mark.parametrize("key", ["", " \n"])
def test_a_blank_key_is_none(key: str, folders: Folders) -> None:
    with pytest.raises(ValueError, match="key is blank"):
        create_app([fixed(folders, "embedding", LOGITS)], key=key)


def test_each_model_needs_a_name_of_its_own(folders: Folders) -> None:
    models = [fixed(folders, kind, LOGITS) for kind in ("embedding", "reranker")]
    for model in models:
        model.name = "one"
    with pytest.raises(ValueError, match="models should have a name each, not one, one"):
        create_app(models)


def test_the_first_model_tokenizes(folders: Folders) -> None:
    first = fixed(folders, "reranker", LOGITS[:1])
    first._tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    with TestClient(create_app([first, fixed(folders, "embedding", LOGITS)])) as client:
        (tokens,) = client.post("/tokenize", json={"inputs": "trees"}).json()
    expected = asyncio.run(first.tokens(["trees"], True))
    assert tokens == expected[0]
    assert tokens[0]["id"] == first._tokenizer.cls_token_id
