"""Sentence vectors in the libraries that store and search them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHECKOUT, tiny_config
from tiny_folder import WORDS, sentence_folder

from minibert import (
    BertForSequenceClassification,
    SentenceEmbedder,
    encode_to_shards,
    nearest,
    open_vectors,
)
from minibert.encoders.rerank import CrossEncoder
from minibert.encoders.sklearn import SentenceVectorizer

pytestmark = pytest.mark.ecosystem
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prompts = {"prompts": {"query": "query: ", "document": ""}}
    steps = ("Pooling", {"pooling_mode": "mean"}), ("Normalize", {})
    return sentence_folder(
        tmp_path_factory.mktemp("tiny"), *steps, config_sentence_transformers=prompts
    )


@pytest.fixture(scope="module")
def embedder(folder: Path) -> SentenceEmbedder:
    return SentenceEmbedder.from_pretrained(folder, precision=None)


def nearest_texts(embedder: SentenceEmbedder, query: str, top: int) -> list[str]:
    rows, _ = nearest(embedder.encode_query(query), embedder.encode_document(TEXTS), top)
    return [TEXTS[row] for row in rows[0]]


@pytest.fixture
def langchain() -> dict[str, Any]:
    """The names that the LangChain recipe defines."""
    pytest.importorskip("langchain_core")
    return runpy.run_path(str(CHECKOUT / "scripts" / "clients" / "with_langchain.py"))


def test_langchain(embedder: SentenceEmbedder, langchain: dict[str, Any]) -> None:
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(langchain["Embeddings"](embedder))
    store.add_texts(TEXTS)
    documents = store.similarity_search("tall trees in korea", k=5)
    assert [document.page_content for document in documents] == nearest_texts(
        embedder, "tall trees in korea", 5
    )


async def _search(store: Any, query: str) -> list[str]:
    await store.aadd_texts(TEXTS)
    return [document.page_content for document in await store.asimilarity_search(query, k=5)]


def test_langchain_async(embedder: SentenceEmbedder, langchain: dict[str, Any]) -> None:
    import asyncio

    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(langchain["Embeddings"](embedder))
    assert asyncio.run(_search(store, "hello world")) == nearest_texts(embedder, "hello world", 5)


def test_langchain_recipe_passes_checks_of_types(
    embedder: SentenceEmbedder, langchain: dict[str, Any]
) -> None:
    """Pydantic models, such as LangChain's filters and chains, accept the recipe's classes."""
    from langchain_core.cross_encoders import BaseCrossEncoder
    from langchain_core.embeddings import Embeddings
    from pydantic import BaseModel, ConfigDict

    class Checked(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        embeddings: Embeddings
        reranker: BaseCrossEncoder

    config = tiny_config(vocab_size=len(embedder.tokenizer), num_labels=1)
    cross_encoder = CrossEncoder(BertForSequenceClassification(config), embedder.tokenizer)
    checked = Checked(
        embeddings=langchain["Embeddings"](embedder), reranker=langchain["Reranker"](cross_encoder)
    )
    pairs = [("hello", "world"), ("trees", "korea")]
    assert checked.reranker.score(pairs) == cross_encoder.predict(pairs).tolist()


def test_faiss(embedder: SentenceEmbedder) -> None:
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(embedder.dimension)
    index.add(embedder.encode_document(TEXTS))
    _, rows = index.search(embedder.encode_query(["tall trees in korea"]), 5)
    assert [TEXTS[row] for row in rows[0]] == nearest_texts(embedder, "tall trees in korea", 5)


@pytest.mark.parametrize("cells", [0, 8])
def test_shards_in_faiss(
    embedder: SentenceEmbedder, folder: Path, tmp_path: Path, cells: int
) -> None:
    """The recipe finds the same vectors as an exhaustive search."""
    pytest.importorskip("faiss")
    recipe = runpy.run_path(str(CHECKOUT / "scripts" / "clients" / "with_faiss.py"))
    encode_to_shards(embedder, TEXTS, tmp_path, shard_size=17)
    corpus = open_vectors(tmp_path)
    queries = embedder.encode(["hello world", "how tall do trees grow"])
    index = recipe["build"](corpus, cells)
    if cells:
        index.nprobe = cells
    rows, scores = nearest(queries, corpus, 5)
    for best_rows, best_scores, matches in zip(
        rows, scores, recipe["search"](index, corpus, queries), strict=True
    ):
        np.testing.assert_allclose([score for _, score in matches], best_scores, atol=1e-6)
        # among rows that tie for the last place, faiss may choose any
        certain = best_rows[best_scores > best_scores[-1] + 1e-6]
        assert set(certain) <= {row for row, _ in matches}


def test_hnswlib(embedder: SentenceEmbedder) -> None:
    hnswlib = pytest.importorskip("hnswlib")
    index = hnswlib.Index(space="cosine", dim=embedder.dimension)
    index.init_index(max_elements=len(TEXTS), random_seed=0)
    index.add_items(embedder.encode_document(TEXTS), num_threads=1)
    index.set_ef(len(TEXTS))
    rows, _ = index.knn_query(embedder.encode_query("tall trees in korea"), k=5)
    assert [TEXTS[row] for row in rows[0]] == nearest_texts(embedder, "tall trees in korea", 5)


def test_pandas(embedder: SentenceEmbedder) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS}).sample(frac=1, random_state=0)
    table["vector"] = list(embedder.encode(table["text"]))
    for text, vector in zip(table["text"], table["vector"], strict=True):
        np.testing.assert_allclose(vector, embedder.encode(text), atol=1e-6)
    assert np.stack(table["vector"]).shape == (100, 32)
    with pytest.raises(ValueError, match="texts should be strings, but number 1 is"):
        embedder.encode(pandas.Series(["a", None]))


class TestScikitLearn:
    LABELS = [int("trees" in text) for text in TEXTS]

    # n_jobs=2 starts two more Python processes that import torch
    @pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
    def test_cross_validation(self, folder: Path, n_jobs: int) -> None:
        pytest.importorskip("sklearn")
        from sklearn.base import clone
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_score
        from sklearn.pipeline import make_pipeline

        pipeline = make_pipeline(
            SentenceVectorizer(str(folder)), LogisticRegression(C=1000, max_iter=1000)
        )
        scores = cross_val_score(pipeline, TEXTS, self.LABELS, cv=2, n_jobs=n_jobs)
        vectors = SentenceEmbedder.from_pretrained(folder).encode(TEXTS)
        assert scores.tolist() == cross_val_score(pipeline[-1], vectors, self.LABELS, cv=2).tolist()
        assert clone(pipeline).get_params()["sentencevectorizer__model"] == str(folder)

    def test_columns_of_tables(self, folder: Path) -> None:
        """A ColumnTransformer passes a one-column table for ["text"], and a series for "text"."""
        pandas = pytest.importorskip("pandas")
        compose = pytest.importorskip("sklearn.compose")
        vectorizer = SentenceVectorizer(str(folder))
        table = pandas.DataFrame({"text": TEXTS[:5], "other": TEXTS[5:10]})
        expected = vectorizer.transform(TEXTS[:5])
        for column in ("text", ["text"]):
            transformer = compose.ColumnTransformer([("vectors", vectorizer, column)])
            assert np.array_equal(transformer.fit_transform(table), expected)
        assert np.array_equal(vectorizer.transform(table[["text"]].to_numpy()), expected)
        with pytest.raises(ValueError, match="should be one column, but this DataFrame has 2"):
            vectorizer.transform(table)
        with pytest.raises(ValueError, match="not a dict, which gives its keys"):
            vectorizer.transform({"text": TEXTS})  # type: ignore[arg-type]

    def test_tables_as_output(self, folder: Path) -> None:
        pandas = pytest.importorskip("pandas")
        pipeline = pytest.importorskip("sklearn.pipeline")
        base = pytest.importorskip("sklearn.base")
        scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
        vectorizer = SentenceVectorizer(str(folder), truncate_dim=4)
        expected = vectorizer.transform(TEXTS[:5])
        both = pipeline.make_pipeline(vectorizer, scaler).set_output(transform="pandas")
        table = base.clone(both).fit_transform(TEXTS[:5])
        assert table.columns.tolist() == ["vector0", "vector1", "vector2", "vector3"]
        column = pandas.Series(TEXTS[:5], index=list("abcde"))
        table = both[0].transform(column)
        assert table.index.tolist() == list("abcde") and np.array_equal(table.to_numpy(), expected)
        assert np.array_equal(
            vectorizer.set_output(transform="default").transform(column), expected
        )
        with pytest.raises(ValueError, match="transform should be"):
            vectorizer.set_output(transform="table")  # type: ignore[arg-type]

    def test_the_model_is_loaded_when_needed(self, folder: Path) -> None:
        import pickle

        vectorizer = SentenceVectorizer("there/is/no/such/folder")
        with pytest.raises(FileNotFoundError):
            vectorizer.fit(TEXTS).transform(TEXTS)
        vectorizer.set_params(model=str(folder), truncate_dim=8)
        assert vectorizer.fit_transform(TEXTS).shape == (100, 8)
        assert vectorizer.get_feature_names_out().tolist()[-1] == "vector7"
        again = pickle.loads(pickle.dumps(vectorizer))
        assert "_embedder" not in vars(again) and again.get_params() == vectorizer.get_params()
        assert repr(again).startswith("SentenceVectorizer(model=")
        with pytest.raises(
            TypeError,
            match="SentenceVectorizer has no option 'truncate'. Did you mean 'truncate_dim'",
        ):
            vectorizer.set_params(truncate=1)
