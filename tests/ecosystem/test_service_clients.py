"""Clients written for other services get from one `minibert serve` what Python computes.

Each test is one way to call the service: a client and a route. Its docstring names both and what is
compared. Clients that are not installed are skipped: group `service-clients` of pyproject.toml, and
for Node.js the packages that tests/README.md names.
"""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHROMIUM
from tiny_folder import WORDS, classifier_folder, head_folder, sentence_folder

from minibert import (
    Answerer,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertTokenizer,
    CrossEncoder,
    SentenceEmbedder,
    classify,
    find_entities,
)

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("ignore")]
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS[:3]]
QUERY = "tall trees in korea"
CONTEXT = "hello world tall trees grow in korea"
LONG = "tall trees " * 60  # of a model that takes 64 tokens
KEY = "a-key-of-this-test"  # a word, because some clients quote the others
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
ORIGIN = "https://page.example"


def need(library: str) -> Any:
    return pytest.importorskip(
        library, reason=f"{library} is not installed: see 'service-clients' in tests/README.md"
    )


def assert_same(received: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(received), expected, rtol=0, atol=2e-6)


class Models:
    """What the service serves: a folder of each kind, and what Python computes with it."""

    def __init__(self, root: Path) -> None:
        steps = ("Pooling", {"pooling_mode": "mean"}), ("Normalize", {})
        prompts = {"prompts": {"query": "query: ", "document": ""}}
        self.folders = {  # the first is the model of requests to /
            "embedder": sentence_folder(
                root / "embedder", *steps, config_sentence_transformers=prompts
            ),
            "reranker": classifier_folder(root / "reranker", 1),
            "classifier": classifier_folder(root / "classifier", 3),
            "tagger": head_folder(
                root / "tagger",
                BertForTokenClassification,
                id2label={0: "O", 1: "B-X", 2: "I-X"},
            ),
            "answerer": head_folder(root / "answerer", BertForQuestionAnswering),
        }
        # a client that takes only the names of Cohere
        self.folders["embed-english-v3.0"] = self.folders["embedder"]
        self.embedder = SentenceEmbedder.from_pretrained(self.folders["embedder"])
        self.cross_encoder = CrossEncoder.from_pretrained(self.folders["reranker"])
        self.answerer = Answerer.from_pretrained(self.folders["answerer"])

    def encode(self, texts: Any, **options: Any) -> Any:
        return self.embedder.encode(texts, **options)

    def tokens(self, texts: Sequence[str]) -> int:
        return sum(map(len, self.embedder.tokenizer(list(texts))["input_ids"]))

    def ranks(self, texts: Sequence[str], top: int | None = None) -> list[tuple[int, float]]:
        """The index and the score of each text for the query, the best first."""
        scores = self.cross_encoder.predict([(QUERY, text) for text in texts])
        order = sorted(range(len(texts)), key=lambda index: -scores[index])
        return [(index, float(scores[index])) for index in order[:top]]

    def labels(self, text: str) -> list[dict[str, Any]]:
        folder = self.folders["classifier"]
        model = BertForSequenceClassification.from_pretrained(folder)
        found: list[dict[str, Any]] = classify(model, BertTokenizer.from_pretrained(folder), text)
        return found

    def entities(self, text: str) -> list[dict[str, Any]]:
        folder = self.folders["tagger"]
        model = BertForTokenClassification.from_pretrained(folder)
        found: list[dict[str, Any]] = find_entities(
            model, BertTokenizer.from_pretrained(folder), text
        )
        return found


def assert_ranks(received: Any, expected: list[tuple[int, float]]) -> None:
    """Compare pairs of an index and a score with what the reranker computes."""
    received = list(received)
    assert [index for index, _ in received] == [index for index, _ in expected]
    assert_same([score for _, score in received], [score for _, score in expected])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The address of a page that is not the service's."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def url(models: Models, page: str) -> Iterator[str]:
    """The address of one service, in a process of its own, that all tests call."""
    named = [f"{name}={folder}" for name, folder in models.folders.items()]
    command = [sys.executable, "-m", "minibert", "serve", *named, "--port", "0"]
    command += ["--cors", f"{ORIGIN},{page}"]
    environment = {**os.environ, "MINIBERT_API_KEY": KEY}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=environment,
    ) as run:
        assert run.stdout is not None
        lines: list[str] = []
        while not (lines and lines[-1].startswith("http://")):
            line = run.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
        # the log of later requests would fill the pipe
        threading.Thread(target=run.stdout.read, daemon=True).start()
        try:
            yield lines[-1].strip()
        finally:
            run.kill()


@pytest.fixture
def http_client(url: str) -> Iterator[Any]:
    with httpx.Client(base_url=url, headers=AUTHORIZED, timeout=60) as client:
        yield client


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the Hub's offline mode, which blocks requests even to this machine."""
    for name in ("ANONYMIZED_TELEMETRY", "HAYSTACK_TELEMETRY_ENABLED"):
        monkeypatch.setenv(name, "False")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


class TestOpenAI:
    @pytest.fixture
    def client(self, url: str) -> Any:
        return need("openai").OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)

    @pytest.mark.parametrize("encoding", [None, "float", "base64"])
    def test_vectors(self, client: Any, models: Models, encoding: str | None) -> None:
        """POST /v1/embeddings: vectors, order, usage, in each encoding."""
        options = {} if encoding is None else {"encoding_format": encoding}
        answer = client.embeddings.create(model="embedder", input=TEXTS, **options)
        vectors = [entry.embedding for entry in answer.data]
        if encoding == "base64":
            vectors = [np.frombuffer(base64.b64decode(text), "<f4") for text in vectors]
        assert_same(vectors, models.encode(TEXTS))
        assert [entry.index for entry in answer.data] == list(range(len(TEXTS)))
        assert answer.usage.prompt_tokens == answer.usage.total_tokens == models.tokens(TEXTS)

    def test_encodings_have_the_same_bits(self, client: Any) -> None:
        """POST /v1/embeddings: the numbers of JSON are those of base64, to the bit."""
        text, floats = (
            client.embeddings.create(model="embedder", input=QUERY, encoding_format=encoding)
            .data[0]
            .embedding
            for encoding in ("base64", "float")
        )
        assert base64.b64decode(text) == np.asarray(floats, "<f4").tobytes()

    def test_asynchronous(self, url: str, models: Models) -> None:
        """POST /v1/embeddings: eight requests at a time keep their vectors."""

        async def ask() -> list[Any]:
            async with need("openai").AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
                requests = (
                    client.embeddings.create(model="embedder", input=text) for text in TEXTS[:8]
                )
                return list(await asyncio.gather(*requests))

        answers = asyncio.run(ask())
        assert_same([answer.data[0].embedding for answer in answers], models.encode(TEXTS[:8]))

    def test_token_ids(self, client: Any, models: Models) -> None:
        """POST /v1/embeddings: ids of one text and of several."""
        ids = models.embedder.tokenizer(TEXTS[:3])["input_ids"]
        several = client.embeddings.create(model="embedder", input=ids)
        one = client.embeddings.create(model="embedder", input=ids[2])
        vectors = [entry.embedding for entry in (*several.data, *one.data)]
        assert_same(vectors, models.encode([*TEXTS[:3], TEXTS[2]]))

    def test_dimensions_and_prompts(self, client: Any, models: Models) -> None:
        """POST /v1/embeddings: `dimensions`, `prompt_name`, `input_type`, and a prompt by hand."""
        short = client.embeddings.create(model="embedder", input=QUERY, dimensions=8)
        expected = models.encode(QUERY, truncate_dim=8, normalize_embeddings=True)
        assert_same(short.data[0].embedding, expected)
        for body in ({"prompt_name": "query"}, {"input_type": "query"}):
            answer = client.embeddings.create(model="embedder", input=QUERY, extra_body=body)
            assert_same(answer.data[0].embedding, models.embedder.encode_query(QUERY))
        answer = client.embeddings.create(model="embedder", input=f"query: {QUERY}")
        assert_same(answer.data[0].embedding, models.embedder.encode_query(QUERY))

    @pytest.mark.parametrize("path", ["", "/v1"])
    def test_models(self, url: str, models: Models, path: str) -> None:
        """GET /v1/models and /models: all names, and the dimension of one."""
        client = need("openai").OpenAI(base_url=url + path, api_key=KEY)
        assert [model.id for model in client.models.list()] == list(models.folders)
        assert client.models.retrieve("embedder").dimension == 32

    def test_errors(self, client: Any) -> None:
        """POST /v1/embeddings: the errors of the client, and the place of the wrong item."""
        errors = need("openai")
        create = client.embeddings.create
        with pytest.raises(errors.NotFoundError, match="embedding model does not exist here"):
            create(model="text-embedding-3-small", input="x")
        with pytest.raises(errors.AuthenticationError):
            client.with_options(api_key="another").embeddings.create(model="embedder", input="x")
        with pytest.raises(errors.UnprocessableEntityError, match=r"input\[2\]"):
            create(model="embedder", input=["a", "b", 3.5, "d"])
        with pytest.raises(errors.UnprocessableEntityError, match="dimensions is at most 32"):
            create(model="embedder", input="x", dimensions=33)
        with pytest.raises(errors.UnprocessableEntityError, match="'float' or 'base64'"):
            create(model="embedder", input="x", encoding_format="md5")
        with pytest.raises(errors.UnprocessableEntityError, match="the text at index 1"):
            create(model="embedder", input=["a", LONG], extra_body={"truncate": False})


class TestCohere:
    @pytest.fixture
    def client(self, url: str) -> Any:
        return need("cohere").ClientV2(KEY, base_url=url)

    @pytest.fixture
    def first_version(self, url: str) -> Any:
        return need("cohere").Client(KEY, base_url=url)

    def test_vectors(self, client: Any, models: Models) -> None:
        """POST /v2/embed: vectors of documents and of a query, and usage."""
        options: Any = {"model": "embedder", "embedding_types": ["float"]}
        answer = client.embed(texts=TEXTS[:5], input_type="search_document", **options)
        assert_same(answer.embeddings.float_, models.encode(TEXTS[:5]))
        assert answer.meta.billed_units.input_tokens == models.tokens(TEXTS[:5])
        query = client.embed(texts=[QUERY], input_type="search_query", **options)
        assert_same(query.embeddings.float_, [models.embedder.encode_query(QUERY)])

    def test_types(self, client: Any, models: Models) -> None:
        """POST /v2/embed: bits and base64, and int8 is refused by name."""
        options: Any = {"model": "embedder", "texts": TEXTS[:5], "input_type": "search_document"}
        types = ["float", "binary", "ubinary", "base64"]
        vectors = client.embed(embedding_types=types, **options).embeddings
        for kind in ("binary", "ubinary"):
            expected = models.encode(TEXTS[:5], precision=kind)
            assert np.array_equal(getattr(vectors, kind), expected)
        decoded = [np.frombuffer(base64.b64decode(text), "<f4") for text in vectors.base64]
        assert_same(decoded, models.encode(TEXTS[:5]))
        with pytest.raises(need("cohere").UnprocessableEntityError, match=r"embedding_types\[1\]"):
            client.embed(embedding_types=["float", "int8"], **options)

    def test_inputs(self, client: Any, models: Models) -> None:
        """POST /v2/embed: `inputs` of version 2, and fewer dimensions."""
        inputs: Any = [{"content": [{"type": "text", "text": text}]} for text in TEXTS[:3]]
        answer = client.embed(
            model="embedder",
            inputs=inputs,
            input_type="search_document",
            embedding_types=["float"],
            output_dimension=8,
        )
        expected = models.encode(TEXTS[:3], truncate_dim=8, normalize_embeddings=True)
        assert_same(answer.embeddings.float_, expected)

    def test_ranks(self, client: Any, models: Models) -> None:
        """POST /v2/rerank: order and scores, all and the best."""
        for top in (None, 3):
            options = {} if top is None else {"top_n": top}
            answer = client.rerank(model="reranker", query=QUERY, documents=TEXTS[:7], **options)
            received = [(entry.index, entry.relevance_score) for entry in answer.results]
            assert_ranks(received, models.ranks(TEXTS[:7], top))

    def test_vectors_of_the_first_version(self, first_version: Any, models: Models) -> None:
        """POST /v1/embed: a list of vectors, and vectors by type."""
        options: Any = {"model": "embedder", "texts": TEXTS[:3], "input_type": "search_document"}
        assert_same(first_version.embed(**options).embeddings, models.encode(TEXTS[:3]))
        by_type = first_version.embed(**options, embedding_types=["float"])
        assert_same(by_type.embeddings.float_, models.encode(TEXTS[:3]))

    def test_ranks_of_the_first_version(self, first_version: Any, models: Models) -> None:
        """POST /v1/rerank: documents as objects, and their texts in the response."""
        documents: Any = [{"text": text} for text in TEXTS[:5]]
        answer = first_version.rerank(
            model="reranker", query=QUERY, documents=documents, return_documents=True
        )
        received = [(entry.index, entry.relevance_score) for entry in answer.results]
        assert_ranks(received, models.ranks(TEXTS[:5]))
        for entry in answer.results:
            assert entry.document.text == TEXTS[entry.index]

    def test_errors(self, client: Any, url: str) -> None:
        """POST /v2/embed: the errors of the client."""
        cohere = need("cohere")
        options: Any = {"texts": ["a"], "input_type": "search_query", "embedding_types": ["float"]}
        with pytest.raises(cohere.NotFoundError):
            client.embed(model="embed-v4.0", **options)
        with pytest.raises(cohere.UnauthorizedError):
            cohere.ClientV2("another", base_url=url).embed(model="embedder", **options)
        with pytest.raises(cohere.UnprocessableEntityError, match="the text at index 1"):
            client.embed(model="embedder", **{**options, "texts": ["a", LONG]}, truncate="NONE")

    def test_langchain(self, url: str, models: Models) -> None:
        """langchain-cohere, POST /v2/embed (or /v1) and /v2/rerank."""
        library = need("langchain_cohere")
        options: Any = {"cohere_api_key": KEY, "base_url": url}
        embeddings = library.CohereEmbeddings(model="embedder", **options)
        assert_same(embeddings.embed_documents(TEXTS[:5]), models.encode(TEXTS[:5]))
        assert_same(embeddings.embed_query(QUERY), models.embedder.encode_query(QUERY))
        reranker = library.CohereRerank(model="reranker", top_n=3, **options)
        received = reranker.rerank(TEXTS[:7], QUERY)
        pairs = [(entry["index"], entry["relevance_score"]) for entry in received]
        assert_ranks(pairs, models.ranks(TEXTS[:7], 3))

    def test_llama_index(self, url: str, models: Models) -> None:
        """llama-index-embeddings-cohere, POST /v2/embed or /v1/embed."""
        library = need("llama_index.embeddings.cohere")
        embedding = library.CohereEmbedding(
            api_key=KEY, base_url=url, model_name="embed-english-v3.0"
        )
        assert_same(embedding.get_text_embedding_batch(TEXTS[:5]), models.encode(TEXTS[:5]))
        assert_same(embedding.get_query_embedding(QUERY), models.embedder.encode_query(QUERY))

    def test_llama_index_ranks(self, url: str, models: Models) -> None:
        """llama-index-postprocessor-cohere-rerank, POST /v1/rerank."""
        library = need("llama_index.postprocessor.cohere_rerank")
        reranker = library.CohereRerank(top_n=3, model="reranker", api_key=KEY, base_url=url)
        check_nodes(reranker, models)


def check_nodes(reranker: Any, models: Models, top: int = 3) -> None:
    """Compare how a reranker of LlamaIndex ranks nodes."""
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(text=text), score=0.0) for text in TEXTS[:7]]
    answer = reranker.postprocess_nodes(nodes, query_str=QUERY)
    pairs = [(TEXTS.index(node.node.get_content()), node.score) for node in answer]
    assert_ranks(pairs, models.ranks(TEXTS[:7], top))


class TestVoyage:
    @pytest.fixture
    def client(self, url: str) -> Any:
        return need("voyageai").Client(api_key=KEY, base_url=f"{url}/v1")

    def test_vectors(self, client: Any, models: Models) -> None:
        """POST /v1/embeddings: vectors, a query, dimensions, bits, tokens."""
        answer = client.embed(TEXTS[:5], model="embedder", input_type="document")
        assert_same(answer.embeddings, models.encode(TEXTS[:5]))
        assert answer.total_tokens == models.tokens(TEXTS[:5])
        query = client.embed([QUERY], model="embedder", input_type="query")
        assert_same(query.embeddings, [models.embedder.encode_query(QUERY)])
        short = client.embed(TEXTS[:2], model="embedder", output_dimension=8)
        expected = models.encode(TEXTS[:2], truncate_dim=8, normalize_embeddings=True)
        assert_same(short.embeddings, expected)
        for kind in ("binary", "ubinary"):
            bits = client.embed(TEXTS[:5], model="embedder", output_dtype=kind)
            assert np.array_equal(bits.embeddings, models.encode(TEXTS[:5], precision=kind))

    def test_ranks(self, client: Any, models: Models) -> None:
        """POST /v1/rerank: order, scores and documents."""
        for top in (None, 2):
            answer = client.rerank(QUERY, TEXTS[:7], model="reranker", top_k=top)
            received = [(entry.index, entry.relevance_score) for entry in answer.results]
            assert_ranks(received, models.ranks(TEXTS[:7], top))
            assert [entry.document for entry in answer.results] == [
                TEXTS[index] for index, _ in received
            ]

    def test_errors(self, client: Any, url: str) -> None:
        """POST /v1/embeddings: the errors of the client."""
        errors = need("voyageai.error")
        with pytest.raises(errors.MalformedRequestError, match="the text at index 1"):
            client.embed(["a", LONG], model="embedder", truncation=False)
        with pytest.raises(errors.AuthenticationError):
            need("voyageai").Client(api_key="another", base_url=f"{url}/v1").embed(
                ["a"], model="embedder"
            )


class TestMistral:
    @pytest.fixture
    def client(self, url: str) -> Any:
        return need("mistralai.client").Mistral(api_key=KEY, server_url=url)

    def test_vectors(self, client: Any, models: Models) -> None:
        """POST /v1/embeddings: vectors, usage and dimensions."""
        answer = client.embeddings.create(model="embedder", inputs=TEXTS[:5])
        assert_same([entry.embedding for entry in answer.data], models.encode(TEXTS[:5]))
        assert answer.usage.total_tokens == models.tokens(TEXTS[:5])
        short = client.embeddings.create(model="embedder", inputs=QUERY, output_dimension=8)
        expected = models.encode(QUERY, truncate_dim=8, normalize_embeddings=True)
        assert_same(short.data[0].embedding, expected)

    @pytest.mark.slow  # it looks for a tokenizer on the Hub, several times
    def test_langchain(self, url: str, models: Models) -> None:
        """langchain-mistralai, POST /v1/embeddings."""
        library = need("langchain_mistralai")
        embeddings = library.MistralAIEmbeddings(
            model="embedder", mistral_api_key=KEY, endpoint=f"{url}/v1/"
        )
        assert_same(embeddings.embed_documents(TEXTS[:5]), models.encode(TEXTS[:5]))
        assert_same(embeddings.embed_query(QUERY), models.encode(QUERY))


class TestMixedbread:
    @pytest.fixture
    def client(self, url: str) -> Any:
        return need("mixedbread").Mixedbread(api_key=KEY, base_url=url, max_retries=0)

    def test_vectors(self, client: Any, models: Models) -> None:
        """POST /v1/embeddings: vectors, usage and dimensions."""
        answer = client.embed(model="embedder", input=TEXTS[:5])
        assert_same([entry.embedding for entry in answer.data], models.encode(TEXTS[:5]))
        assert answer.usage.total_tokens == models.tokens(TEXTS[:5])
        short = client.embed(model="embedder", input=[QUERY], dimensions=8, normalized=True)
        expected = models.encode([QUERY], truncate_dim=8, normalize_embeddings=True)
        assert_same([entry.embedding for entry in short.data], expected)

    def test_ranks(self, client: Any, models: Models) -> None:
        """POST /v1/reranking: order, scores and inputs."""
        answer = client.rerank(
            model="reranker", query=QUERY, input=TEXTS[:7], top_k=3, return_input=True
        )
        received = [(entry.index, entry.score) for entry in answer.data]
        assert_ranks(received, models.ranks(TEXTS[:7], 3))
        assert [entry.input for entry in answer.data] == [TEXTS[index] for index, _ in received]


class TestLiteLLM:
    """Each provider of LiteLLM sends and expects a form of its own."""

    @pytest.mark.parametrize(
        ("provider", "path"),
        [
            ("openai", "/v1"),
            ("hosted_vllm", "/v1"),
            ("infinity", "/v1"),
            ("jina_ai", "/v1"),
            ("cohere", "/v2/embed"),
            ("mistral", "/v1"),
            ("huggingface", "/embed"),
        ],
    )
    def test_vectors(self, url: str, models: Models, provider: str, path: str) -> None:
        """POST /v1/embeddings, /v2/embed and /embed."""
        options: dict[str, Any] = {
            "openai": {"encoding_format": "float"},
            "cohere": {"input_type": "search_document"},
            "huggingface": {"input_type": "feature-extraction"},  # else it asks the Hub
        }.get(provider, {})
        answer = need("litellm").embedding(
            f"{provider}/embedder", TEXTS[:5], api_base=url + path, api_key=KEY, **options
        )
        vectors = [entry["embedding"] for entry in answer.data]
        assert_same(vectors, models.encode(TEXTS[:5]))

    @pytest.mark.parametrize(
        ("provider", "path"),
        [
            ("cohere", ""),
            ("hosted_vllm", "/v1"),
            ("infinity", "/v1"),
            ("jina_ai", ""),
            ("voyage", "/v1"),
        ],
    )
    def test_ranks(self, url: str, models: Models, provider: str, path: str) -> None:
        """POST /v1/rerank, /v2/rerank and /rerank."""
        options: Any = {"return_documents": False} if provider == "infinity" else {}
        answer = need("litellm").rerank(
            f"{provider}/reranker",
            QUERY,
            TEXTS[:7],
            top_n=3,
            api_base=url + path,
            api_key=KEY,
            **options,
        )
        received = [(entry["index"], entry["relevance_score"]) for entry in answer.results]
        assert_ranks(received, models.ranks(TEXTS[:7], 3))

    def test_errors(self, url: str) -> None:
        """POST /v1/embeddings: the errors of LiteLLM."""
        litellm = need("litellm")
        options: Any = {"api_base": f"{url}/v1", "max_retries": 0, "encoding_format": "float"}
        with pytest.raises(litellm.AuthenticationError):
            litellm.embedding("openai/embedder", ["a"], api_key="another", **options)
        with pytest.raises(litellm.NotFoundError):
            litellm.embedding("openai/other", ["a"], api_key=KEY, **options)


class TestHuggingFace:
    """The address of a client is that of a route, or of the first model, an embedder."""

    @pytest.fixture
    def client(self, url: str) -> Any:
        return need("huggingface_hub").InferenceClient(model=url, token=KEY)

    @pytest.mark.parametrize("path", ["", "/embed"])
    def test_vectors(self, url: str, models: Models, path: str) -> None:
        """POST / and /embed, feature_extraction: a text, and a text with a prompt."""
        client = need("huggingface_hub").InferenceClient(model=url + path, token=KEY)
        assert_same(client.feature_extraction(QUERY)[0], models.encode(QUERY))
        prompted = client.feature_extraction(QUERY, prompt_name="query", normalize=True)
        assert_same(prompted[0], models.embedder.encode_query(QUERY))

    def test_asynchronous(self, url: str, models: Models) -> None:
        """POST /, feature_extraction of AsyncInferenceClient."""

        async def ask() -> Any:
            async with need("huggingface_hub").AsyncInferenceClient(url, token=KEY) as client:
                return await asyncio.gather(*map(client.feature_extraction, TEXTS[:4]))

        assert_same([vectors[0] for vectors in asyncio.run(ask())], models.encode(TEXTS[:4]))

    def test_similarity(self, url: str, models: Models) -> None:
        """POST /similarity, sentence_similarity: cosines."""
        client = need("huggingface_hub").InferenceClient(model=f"{url}/similarity", token=KEY)
        received = client.sentence_similarity(QUERY, TEXTS[:5])
        vectors = models.encode([QUERY, *TEXTS[:5]])
        assert_same(received, vectors[1:] @ vectors[0])

    def test_answers(self, url: str, models: Models) -> None:
        """POST /question-answering: the answer, its place and score."""
        address = f"{url}/question-answering"
        client = need("huggingface_hub").InferenceClient(model=address, token=KEY)
        received = client.question_answering("how tall", CONTEXT)
        expected = models.answerer.answer("how tall", CONTEXT)
        for name in ("answer", "start", "end"):
            assert received[name] == expected[name]
        assert_same(received["score"], expected["score"])

    def test_errors(self, client: Any) -> None:
        """POST /: an unknown prompt is refused."""
        errors = need("huggingface_hub.errors")
        with pytest.raises(errors.HfHubHTTPError, match="422"):
            client.feature_extraction(QUERY, prompt_name="another")

    def test_langchain(self, url: str, client: Any, models: Models) -> None:
        """langchain-huggingface, POST /: documents and a query."""
        library = need("langchain_huggingface")
        embeddings = library.HuggingFaceEndpointEmbeddings(huggingfacehub_api_token=KEY)
        embeddings.client = client
        assert_same(embeddings.embed_documents(TEXTS[:5]), models.encode(TEXTS[:5]))
        assert_same(embeddings.embed_query(QUERY), models.encode(QUERY))


class TestLangChainAndLlamaIndex:
    def test_langchain_openai(self, url: str, models: Models) -> None:
        """langchain-openai, POST /v1/embeddings: documents and a query."""
        library = need("langchain_openai")
        options: Any = {"check_embedding_ctx_length": False, "base_url": f"{url}/v1"}
        embeddings = library.OpenAIEmbeddings(model="embedder", api_key=KEY, **options)
        assert_same(embeddings.embed_documents(TEXTS), models.encode(TEXTS))
        assert_same(embeddings.embed_query(QUERY), models.encode(QUERY))

    def test_openai(self, url: str, models: Models) -> None:
        """llama-index-embeddings-openai, POST /v1/embeddings."""
        library = need("llama_index.embeddings.openai")
        embedding = library.OpenAIEmbedding(
            model_name="embedder", api_base=f"{url}/v1", api_key=KEY, embed_batch_size=7
        )
        assert_same(embedding.get_text_embedding_batch(TEXTS), models.encode(TEXTS))
        assert_same(embedding.get_query_embedding(QUERY), models.encode(QUERY))

    def test_openai_like(self, url: str, models: Models) -> None:
        """llama-index-embeddings-openai-like, POST /v1/embeddings: fewer dimensions."""
        library = need("llama_index.embeddings.openai_like")
        embedding = library.OpenAILikeEmbedding(
            model_name="embedder", api_base=f"{url}/v1", api_key=KEY, dimensions=8
        )
        expected = models.encode(TEXTS[:5], truncate_dim=8, normalize_embeddings=True)
        assert_same(embedding.get_text_embedding_batch(TEXTS[:5]), expected)

    def test_text_embeddings_inference(self, url: str, models: Models) -> None:
        """llama-index-embeddings-text-embeddings-inference, POST /embed."""
        library = need("llama_index.embeddings.text_embeddings_inference")
        embedding = library.TextEmbeddingsInference(
            model_name="embedder", base_url=url, auth_token=KEY, query_instruction="query: "
        )
        received = embedding.get_text_embedding_batch(TEXTS[:15])
        assert_same(received, models.encode(TEXTS[:15]))
        assert_same(embedding.get_query_embedding(QUERY), models.embedder.encode_query(QUERY))

    def test_ranks_of_text_embeddings_inference(self, url: str, models: Models) -> None:
        """llama-index-postprocessor-tei-rerank, POST /rerank."""
        library = need("llama_index.postprocessor.tei_rerank")
        reranker = library.TextEmbeddingInference(
            base_url=url, top_n=3, auth_token=f"Bearer {KEY}", model_name="reranker"
        )
        check_nodes(reranker, models)


class TestHaystack:
    def test_vectors(self, url: str, models: Models) -> None:
        """OpenAITextEmbedder and OpenAIDocumentEmbedder, POST /v1/embeddings."""
        embedders = need("haystack.components.embedders")
        from haystack import Document
        from haystack.utils import Secret

        options: Any = {"model": "embedder", "api_base_url": f"{url}/v1"}
        options["api_key"] = Secret.from_token(KEY)
        query = embedders.OpenAITextEmbedder(**options, prefix="query: ").run(QUERY)
        assert_same(query["embedding"], models.embedder.encode_query(QUERY))
        documents = [Document(content=text) for text in TEXTS[:5]]
        answer = embedders.OpenAIDocumentEmbedder(**options, batch_size=2).run(documents)
        vectors = [document.embedding for document in answer["documents"]]
        assert_same(vectors, models.encode(TEXTS[:5]))


class TestInfinity:
    def test_vectors(self, url: str, models: Models) -> None:
        """infinity_client, POST /embeddings: vectors, of which it always says the dimensions."""
        client = need("infinity_client").AuthenticatedClient(base_url=url, token=KEY)
        from infinity_client.api.default import embeddings
        from infinity_client.models import OpenAIEmbeddingInputText

        body = OpenAIEmbeddingInputText(input_=TEXTS[:5], model="embedder", dimensions=32)
        answer = embeddings.sync(client=client, body=body)
        assert_same([entry.embedding for entry in answer.data], models.encode(TEXTS[:5]))
        assert answer.usage.total_tokens == models.tokens(TEXTS[:5])


class TestVectorStores:
    def test_chroma_openai(self, url: str, models: Models) -> None:
        """OpenAIEmbeddingFunction of Chroma, POST /v1/embeddings."""
        functions = need("chromadb.utils.embedding_functions")
        function = functions.OpenAIEmbeddingFunction(
            api_key=KEY, api_base=f"{url}/v1", model_name="embedder"
        )
        assert_same(function(TEXTS[:5]), models.encode(TEXTS[:5]))

    def test_chroma_text_embeddings_inference(self, url: str, models: Models) -> None:
        """HuggingFaceEmbeddingServer of Chroma, POST /embed."""
        functions = need("chromadb.utils.embedding_functions")
        function = functions.HuggingFaceEmbeddingServer(url=f"{url}/embed", api_key=KEY)
        assert_same(function(TEXTS[:5]), models.encode(TEXTS[:5]))

    def test_lancedb(self, url: str, models: Models) -> None:
        """The registered function `openai` of LanceDB, POST /v1/embeddings."""
        registry = need("lancedb.embeddings").get_registry()
        registry.set_var("key", KEY)
        function = registry.get("openai").create(
            name="embedder", api_key="$var:key", base_url=f"{url}/v1", max_retries=0
        )
        vectors = function.generate_embeddings(TEXTS[:5])
        assert_same(vectors, models.encode(TEXTS[:5]))

    def test_bertopic(self, url: str, models: Models) -> None:
        """OpenAIBackend of BERTopic, POST /v1/embeddings."""
        client = need("openai").OpenAI(base_url=f"{url}/v1", api_key=KEY)
        backend = need("bertopic.backend").OpenAIBackend(client, "embedder", batch_size=4)
        assert_same(backend.embed_documents(TEXTS[:9]), models.encode(TEXTS[:9]))


class TestTextEmbeddingsInference:
    """Requests as text-embeddings-inference documents them."""

    def test_vectors(self, http_client: Any, models: Models) -> None:
        """POST /embed: several texts, and one with a prompt."""
        answer = http_client.post("/embed", json={"inputs": TEXTS[:5], "truncate": True})
        assert_same(answer.json(), models.encode(TEXTS[:5]))
        one = http_client.post("/embed", json={"inputs": QUERY, "prompt_name": "query"})
        assert_same(one.json(), [models.embedder.encode_query(QUERY)])

    def test_ranks(self, http_client: Any, models: Models) -> None:
        """POST /rerank: `texts`, and logits."""
        body = {"query": QUERY, "texts": TEXTS[:7], "return_text": True}
        answer = http_client.post("/rerank", json=body).json()
        received = [(entry["index"], entry["score"]) for entry in answer]
        assert_ranks(received, models.ranks(TEXTS[:7]))
        assert [entry["text"] for entry in answer] == [TEXTS[index] for index, _ in received]
        raw = http_client.post("/rerank", json={**body, "raw_scores": True}).json()
        scores = [1 / (1 + np.exp(-entry["score"])) for entry in raw]
        assert_same(scores, [score for _, score in received])

    def test_labels_and_entities(self, http_client: Any, models: Models) -> None:
        """POST /predict: labels of texts, and what a tagger finds."""
        answer = http_client.post("/predict", json={"inputs": [[QUERY], [TEXTS[3]]]}).json()
        for received, text in zip(answer, (QUERY, TEXTS[3]), strict=True):
            expected = models.labels(text)
            assert [label["label"] for label in received] == [label["label"] for label in expected]
            assert_same(
                [label["score"] for label in received], [label["score"] for label in expected]
            )
        body = {"inputs": CONTEXT, "model": "tagger"}
        spans = http_client.post("/predict", json=body).json()
        expected = models.entities(CONTEXT)
        assert [(span["start"], span["end"]) for span in spans] == [
            (span["start"], span["end"]) for span in expected
        ]

    def test_tokens_and_info(self, http_client: Any, models: Models) -> None:
        """POST /tokenize and GET /info."""
        tokens = http_client.post("/tokenize", json={"inputs": TEXTS[:3]}).json()
        ids = models.embedder.tokenizer(TEXTS[:3])["input_ids"]
        assert [[token["id"] for token in row] for row in tokens] == ids
        assert http_client.get("/info").json()["max_input_length"] == 64

    def test_errors(self, http_client: Any) -> None:
        """POST /embed: the form of errors, and the place of the wrong item."""
        answer = http_client.post("/embed", json={"inputs": ["a", None]})
        assert answer.status_code == 422 and "inputs[1]" in answer.json()["error"]


class TestVLLM:
    """Requests as vLLM documents them."""

    @pytest.mark.parametrize("path", ["/score", "/v1/score"])
    def test_scores(self, http_client: Any, models: Models, path: str) -> None:
        """POST /score and /v1/score: one text with several, and pairs."""
        scores = [score for _, score in sorted(models.ranks(TEXTS[:5]))]
        body = {"model": "reranker", "text_1": QUERY, "text_2": TEXTS[:5]}
        answer = http_client.post(path, json=body).json()
        assert_same([entry["score"] for entry in answer["data"]], scores)
        pairs = {"model": "reranker", "queries": [QUERY] * 5, "documents": TEXTS[:5]}
        answer = http_client.post(path, json=pairs).json()
        assert_same([entry["score"] for entry in answer["data"]], scores)

    def test_cosines(self, http_client: Any, models: Models) -> None:
        """POST /score: cosines of an embedder."""
        body = {"model": "embedder", "text_1": QUERY, "text_2": TEXTS[:5]}
        answer = http_client.post("/score", json=body).json()
        vectors = models.encode([QUERY, *TEXTS[:5]])
        assert_same([entry["score"] for entry in answer["data"]], vectors[1:] @ vectors[0])

    def test_errors(self, http_client: Any) -> None:
        """POST /score: lists of unequal length and empty ones name their field."""
        body = {"model": "reranker", "text_1": ["a", "b"], "text_2": ["a", "b", "c"]}
        answer = http_client.post("/score", json=body)
        assert answer.status_code == 422 and "text_1 has 2" in answer.text
        answer = http_client.post("/score", json={**body, "text_2": []})
        assert answer.status_code == 422 and "text_2" in answer.text

    def test_pooling(self, http_client: Any, models: Models) -> None:
        """POST /pooling: vectors."""
        answer = http_client.post("/pooling", json={"model": "embedder", "input": TEXTS[:3]}).json()
        assert_same([entry["data"] for entry in answer["data"]], models.encode(TEXTS[:3]))

    @pytest.mark.parametrize("path", ["/classify", "/v1/classify"])
    def test_labels(self, http_client: Any, models: Models, path: str) -> None:
        """POST /classify: labels and probabilities."""
        answer = http_client.post(path, json={"model": "classifier", "input": TEXTS[:3]}).json()
        for entry, text in zip(answer["data"], TEXTS[:3], strict=True):
            expected = models.labels(text)
            assert entry["label"] == expected[0]["label"]
            assert_same(sorted(entry["probs"])[::-1], [label["score"] for label in expected])

    def test_ranks(self, http_client: Any, models: Models) -> None:
        """POST /rerank: order and scores of `documents`."""
        body = {"model": "reranker", "query": QUERY, "documents": TEXTS[:7], "top_n": 3}
        answer = http_client.post("/rerank", json=body).json()
        received = [(entry["index"], entry["relevance_score"]) for entry in answer["results"]]
        assert_ranks(received, models.ranks(TEXTS[:7], 3))

    def test_tokens(self, http_client: Any, models: Models) -> None:
        """POST /tokenize: a prompt."""
        answer = http_client.post("/tokenize", json={"model": "embedder", "prompt": QUERY}).json()
        assert answer["tokens"] == models.embedder.tokenizer(QUERY)["input_ids"]


class TestJina:
    """Requests as Jina documents them."""

    def test_vectors(self, http_client: Any, models: Models) -> None:
        """POST /v1/embeddings: texts as objects, tasks and bits."""
        objects = [{"text": text} for text in TEXTS[:3]]
        body: Any = {"model": "embedder", "input": objects, "normalized": True}
        answer = http_client.post("/v1/embeddings", json=body).json()
        assert_same([entry["embedding"] for entry in answer["data"]], models.encode(TEXTS[:3]))
        query = {"model": "embedder", "input": [QUERY], "task": "retrieval.query"}
        answer = http_client.post("/v1/embeddings", json=query).json()
        vectors = [entry["embedding"] for entry in answer["data"]]
        assert_same(vectors, [models.embedder.encode_query(QUERY)])
        bits = http_client.post("/v1/embeddings", json={**body, "embedding_type": "binary"}).json()
        expected = models.encode(TEXTS[:3], precision="binary")
        assert np.array_equal([entry["embedding"] for entry in bits["data"]], expected)

    def test_ranks(self, http_client: Any, models: Models) -> None:
        """POST /v1/rerank: a query and documents as objects."""
        body = {
            "model": "reranker",
            "query": {"text": QUERY},
            "documents": [{"text": text} for text in TEXTS[:7]],
            "top_n": 3,
            "return_documents": True,
        }
        answer = http_client.post("/v1/rerank", json=body).json()
        received = [(entry["index"], entry["relevance_score"]) for entry in answer["results"]]
        assert_ranks(received, models.ranks(TEXTS[:7], 3))
        assert answer["results"][0]["document"]["text"] == TEXTS[received[0][0]]

    def test_unknown_task(self, http_client: Any) -> None:
        """POST /v1/embeddings: a word that no API has is refused by its field."""
        for body in ({"input_type": "qurey"}, {"task": "retrieval.qurey"}):
            answer = http_client.post("/v1/embeddings", json={"input": "a", **body})
            assert answer.status_code == 422 and "input_type or task" in answer.text


class TestCurl:
    """Commands as the guides of services print them."""

    def ask(self, url: str, path: str, body: Any) -> Any:
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        command = ["curl", "-sS", url + path, "-H", f"Authorization: Bearer {KEY}"]
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    def test_vectors(self, url: str, models: Models) -> None:
        """POST /v1/embeddings."""
        answer = self.ask(url, "/v1/embeddings", {"model": "embedder", "input": QUERY})
        assert_same(answer["data"][0]["embedding"], models.encode(QUERY))

    def test_ranks(self, url: str, models: Models) -> None:
        """POST /rerank."""
        answer = self.ask(url, "/rerank", {"query": QUERY, "texts": TEXTS[:5]})
        received = [(entry["index"], entry["score"]) for entry in answer]
        assert_ranks(received, models.ranks(TEXTS[:5]))

    def test_errors(self, url: str) -> None:
        """POST /v1/embeddings: the form of OpenAI's errors."""
        answer = self.ask(url, "/v1/embeddings", {"model": "embedder", "input": ["a", 1.5]})
        assert "input[1]" in answer["error"]["message"]


NODE = {
    "openai": """
        const {OpenAI} = require('openai');
        const client = new OpenAI({baseURL: url + '/v1', apiKey: key});
        const answer = await client.embeddings.create({model: 'embedder', input: texts});
        return answer.data.map(entry => Array.from(entry.embedding));
    """,
    "@huggingface/inference": """
        const {InferenceClient} = require('@huggingface/inference');
        const client = new InferenceClient(key).endpoint(url);
        return await client.featureExtraction({inputs: texts});
    """,
    "cohere-ai": """
        const {CohereClientV2} = require('cohere-ai');
        const client = new CohereClientV2({token: key, environment: url});
        const answer = await client.embed({model: 'embedder', texts,
            inputType: 'search_document', embeddingTypes: ['float']});
        return answer.embeddings.float;
    """,
    "voyageai": """
        const {VoyageAIClient} = require('voyageai');
        const client = new VoyageAIClient({apiKey: key, environment: url + '/v1'});
        const answer = await client.embed({model: 'embedder', input: texts});
        return answer.data.map(entry => entry.embedding);
    """,
    "@langchain/openai": """
        const {OpenAIEmbeddings} = require('@langchain/openai');
        const client = new OpenAIEmbeddings(
            {model: 'embedder', apiKey: key, configuration: {baseURL: url + '/v1'}});
        return await client.embedDocuments(texts);
    """,
    "@ai-sdk/openai-compatible": """
        const {createOpenAICompatible} = require('@ai-sdk/openai-compatible');
        const {embedMany} = require('ai');
        const provider = createOpenAICompatible(
            {name: 'minibert', apiKey: key, baseURL: url + '/v1'});
        const model = provider.textEmbeddingModel('embedder');
        return (await embedMany({model, values: texts})).embeddings;
    """,
}


class TestNode:
    def ask(self, package: str, program: str, url: str, texts: list[str]) -> Any:
        """Run a program in Node.js, which finds packages by NODE_PATH."""
        node = shutil.which("node")
        if node is None:
            pytest.skip("Node.js is not installed")
        found = subprocess.run(
            [node, "-e", f"require.resolve({package!r})"], capture_output=True, check=False
        )
        if found.returncode:
            pytest.skip(f"{package} is not installed: see 'service-clients' in tests/README.md")
        values = f"const [url, key, texts] = {json.dumps([url, KEY, texts])};"
        code = f"{values}(async () => {{{program}}})().then(v => console.log(JSON.stringify(v)))"
        run = subprocess.run([node, "-e", code], capture_output=True, text=True, encoding="utf-8")
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    @pytest.mark.parametrize("package", NODE)
    def test_vectors(self, url: str, models: Models, package: str) -> None:
        """POST /v1/embeddings, / and /v2/embed: vectors of several texts."""
        vectors = self.ask(package, NODE[package], url, TEXTS[:5])
        assert_same(vectors, models.encode(TEXTS[:5]))

    def test_ranks(self, url: str, models: Models) -> None:
        """cohere-ai, POST /v2/rerank."""
        program = f"""
            const {{CohereClientV2}} = require('cohere-ai');
            const client = new CohereClientV2({{token: key, environment: url}});
            const answer = await client.rerank(
                {{model: 'reranker', query: {QUERY!r}, documents: texts, topN: 3}});
            return answer.results.map(entry => [entry.index, entry.relevanceScore]);
        """
        received = self.ask("cohere-ai", program, url, TEXTS[:7])
        assert_ranks(received, models.ranks(TEXTS[:7], 3))

    def test_errors(self, url: str) -> None:
        """openai: the error of a wrong item, with its place."""
        program = """
            const {OpenAI} = require('openai');
            const client = new OpenAI({baseURL: url + '/v1', apiKey: key, maxRetries: 0});
            try {
                await client.embeddings.create({model: 'embedder', input: ['a', 1.5]});
            } catch (error) {
                return [error.constructor.name, error.message];
            }
        """
        name, message = self.ask("openai", program, url, [])
        assert name == "UnprocessableEntityError" and "input[1]" in message


class TestPages:
    """Pages of another origin, which a browser lets call the service."""

    def test_preflight(self, http_client: Any) -> None:
        """OPTIONS /v1/embeddings: of an allowed origin, also for a private network."""
        headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
        private = {**headers, "Access-Control-Request-Private-Network": "true"}
        answer = http_client.options("/v1/embeddings", headers=headers)
        assert answer.status_code == 200
        answer = http_client.options("/v1/embeddings", headers=private)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-private-network"] == "true"
        other = {**private, "Origin": "https://other.example"}
        assert http_client.options("/v1/embeddings", headers=other).status_code == 400

    @pytest.mark.browser
    def test_fetch(self, url: str, page: str, models: Models) -> None:
        """POST /v1/embeddings: fetch of Chromium, with a key, from the page of another origin."""
        api = pytest.importorskip("playwright.sync_api", reason="needs playwright: extra [test]")
        if CHROMIUM is None:
            pytest.skip("needs chromium: apt-get install chromium")
        script = """async ([url, key, input]) => {
          const headers = {"Authorization": `Bearer ${key}`, "Content-Type": "application/json"};
          const body = JSON.stringify({input});
          const answer = await fetch(`${url}/v1/embeddings`, {method: "POST", headers, body});
          return [(await answer.json()).data[0].embedding, answer.headers.get("X-Request-ID")];
        }"""
        with api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            tab = browser.new_page()
            tab.goto(page)
            vector, identity = tab.evaluate(script, [url, KEY, QUERY])
            browser.close()
        assert_same(vector, models.encode(QUERY))
        assert identity
