"""The recipes of scripts/clients with the real libraries (extra `[clients]`): each has the embedder's own numbers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHECKOUT
from tiny_folder import WORDS, sentence_folder

from minibert import SentenceEmbedder, nearest

pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("ignore")]
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS]
QUERY = "tall trees in korea"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prompts = {"prompts": {"query": "query: ", "document": ""}}
    steps = ("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean"}), ("Normalize", {})
    return sentence_folder(tmp_path_factory.mktemp("tiny"), *steps, config_sentence_transformers=prompts)


@pytest.fixture(scope="module")
def embedder(folder: Path) -> SentenceEmbedder:
    return SentenceEmbedder.from_pretrained(folder)


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a recipe; skips where its library is not installed."""
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "False")
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    monkeypatch.syspath_prepend(str(CHECKOUT / "scripts" / "clients"))

    def load(name: str, *libraries: str) -> Any:
        for library in libraries:
            pytest.importorskip(library, reason=f"{library} is not installed; extra [clients] brings it")
        return importlib.import_module(name)

    return load


def found(embedder: SentenceEmbedder, top: int = 5) -> list[str]:
    rows, _ = nearest(embedder.encode_query(QUERY), embedder.encode_document(TEXTS), top)
    return [TEXTS[row] for row in rows[0]]


def test_keybert(embedder: SentenceEmbedder, recipe: Any) -> None:
    extractor = recipe("with_keybert", "keybert", "sentence_transformers").keyword_extractor(embedder)
    document = "hello tall trees grow in korea"
    keywords = dict(extractor.extract_keywords(document, stop_words=None, top_n=6))
    text, *words = embedder.encode([document, *keywords])
    np.testing.assert_allclose(list(keywords.values()), [text @ word for word in words], atol=1e-3)


def test_bertopic(embedder: SentenceEmbedder, recipe: Any) -> None:
    module = recipe("with_keybert", "bertopic", "sentence_transformers")
    from bertopic.dimensionality import BaseDimensionalityReduction

    model = module.topic_model(embedder, min_topic_size=5, umap_model=BaseDimensionalityReduction())
    topics, _ = model.fit_transform(TEXTS)
    assert len(topics) == len(TEXTS)
    np.testing.assert_allclose(model.embedding_model.embed(TEXTS), embedder.encode(TEXTS), atol=1e-5)


def test_chroma(embedder: SentenceEmbedder, recipe: Any, tmp_path: Path) -> None:
    made = recipe("with_chroma", "chromadb").Embeddings(embedder)
    import chromadb

    collection = chromadb.PersistentClient(str(tmp_path)).create_collection(
        "texts", embedding_function=made, configuration={"hnsw": {"space": "cosine"}}
    )
    collection.add(ids=TEXTS, documents=TEXTS)
    assert collection.query(query_texts=[QUERY], n_results=5)["ids"] == [found(embedder)]


def test_llama_index(embedder: SentenceEmbedder, recipe: Any) -> None:
    made = recipe("with_llama_index", "llama_index.core").Embedding(embedder)
    from llama_index.core import Document, VectorStoreIndex

    index = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS], embed_model=made)
    nodes = index.as_retriever(similarity_top_k=5).retrieve(QUERY)
    assert [node.text for node in nodes] == found(embedder)


def test_haystack(embedder: SentenceEmbedder, recipe: Any) -> None:
    module = recipe("with_haystack", "haystack")
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    documents = [Document(content=text) for text in TEXTS]
    store.write_documents(module.DocumentEmbedder(embedder).run(documents)["documents"])
    pipeline = Pipeline()
    pipeline.add_component("query", module.TextEmbedder(embedder))
    pipeline.add_component("search", InMemoryEmbeddingRetriever(store, top_k=5))
    pipeline.connect("query.embedding", "search.query_embedding")
    answer = pipeline.run({"query": {"text": QUERY}})["search"]["documents"]
    assert [document.content for document in answer] == found(embedder)


def test_lancedb(folder: Path, embedder: SentenceEmbedder, recipe: Any, tmp_path: Path) -> None:
    recipe("with_lancedb", "lancedb")
    import lancedb
    from lancedb.embeddings import get_registry
    from lancedb.pydantic import LanceModel, Vector
    from pydantic import create_model

    made = get_registry().get("minibert").create(name=str(folder))
    fields: Any = {"text": (str, made.SourceField()), "vector": (Vector(made.ndims()), made.VectorField())}
    table = lancedb.connect(tmp_path).create_table("texts", schema=create_model("Row", __base__=LanceModel, **fields))
    table.add([{"text": text} for text in TEXTS])
    rows = table.search(QUERY).distance_type("cosine").limit(5).to_list()
    assert [row["text"] for row in rows] == found(embedder)


def test_semantic_router(embedder: SentenceEmbedder, recipe: Any) -> None:
    made = recipe("with_semantic_router", "semantic_router").Encoder(embedder=embedder, score_threshold=0.0)
    from semantic_router import IndexedRouter, Route

    assert made(TEXTS[:3]) == embedder.encode_document(TEXTS[:3]).tolist()
    routes = [Route(name=word, utterances=[word, f"{word} {word}"]) for word in WORDS[:3]]
    router = IndexedRouter(encoder=made, routes=routes)
    assert [router(word).name for word in WORDS[:3]] == WORDS[:3]


def test_mteb(embedder: SentenceEmbedder, recipe: Any) -> None:
    module = recipe("with_mteb", "mteb", "sentence_transformers")
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskSTS

    rows = {"sentence1": TEXTS[:20], "sentence2": TEXTS[20:40], "score": [float(n % 6) for n in range(20)]}

    class Tiny(AbsTaskSTS):
        metadata = mteb.get_task("STSBenchmark").metadata.model_copy(update={"name": "Tiny"})
        min_score, max_score = 0, 5

        def load_data(self, **_: Any) -> None:
            self.dataset, self.data_loaded = DatasetDict({"test": Dataset.from_dict(rows)}), True

    result = module.evaluate(embedder, [Tiny()])
    score = result.task_results[0].scores["test"][0]["cosine_spearman"]
    scipy = pytest.importorskip("scipy.stats")
    cosines = (embedder.encode(TEXTS[:20]) * embedder.encode(TEXTS[20:40])).sum(axis=1)
    assert score == pytest.approx(scipy.spearmanr(cosines, rows["score"]).statistic, abs=1e-4)


def test_txtai(embedder: SentenceEmbedder, recipe: Any) -> None:
    index = recipe("with_txtai", "txtai").index(embedder, content=False)
    index.index(TEXTS)
    rows, cosines = nearest(embedder.encode(QUERY), embedder.encode(TEXTS), 5)
    numbers, scores = zip(*index.search(QUERY, 5), strict=True)
    assert list(numbers) == rows[0].tolist()
    np.testing.assert_allclose(scores, cosines[0], atol=1e-4)


def test_spacy(folder: Path, embedder: SentenceEmbedder, recipe: Any) -> None:
    recipe("with_spacy", "spacy")
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("minibert", config={"name_or_path": str(folder)})
    one, other = nlp("hello tall trees"), nlp("trees in korea")
    assert np.array_equal(one.vector, embedder.encode(one.text)) and one.has_vector
    assert np.array_equal(one[1:].vector, embedder.encode("tall trees"))
    assert one.similarity(other) == pytest.approx(float(one.vector @ other.vector), abs=1e-5)
