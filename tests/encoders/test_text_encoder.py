"""What all embedders share: their options, their prompts, and what a folder says of them."""

from __future__ import annotations

import inspect
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_folder import classifier_folder, sentence_folder

from minibert import (
    BertForSequenceClassification,
    CrossEncoder,
    SentenceEmbedder,
    nearest,
    semantic_search,
)
from minibert.checkpoints.source import Source
from minibert.encoders import encoder_options
from minibert.encoders.arithmetic.search import METRICS
from minibert.encoders.encoder_options import EncodeOptions
from minibert.encoders.folders.sentence_folder import copy_modules
from minibert.encoders.text_encoder import TextEncoder, merge_windows


class TestOptions:
    @pytest.mark.parametrize(
        "kind",
        ["Hub", "Load", "TextModel", "Embedder", "Reranker", "Vector", "Encode", "Rank", "Predict"],
    )
    def test_type_checkers_see_all_of_them(self, kind: str) -> None:
        options = fields(getattr(encoder_options, f"{kind}Options"))
        keywords = getattr(encoder_options, f"{kind}Keywords")
        assert sorted(option.name for option in options) == sorted(keywords.__annotations__)

    @pytest.mark.parametrize(
        ("call", "option"),
        [
            (SentenceEmbedder.from_pretrained, "cache_folder"),
            (SentenceEmbedder.from_pretrained, "trust_remote_code"),
            (SentenceEmbedder.from_pretrained, "model_kwargs"),
            (SentenceEmbedder.from_pretrained, "similarity_fn_name"),
            (CrossEncoder.from_pretrained, "num_labels"),
            (CrossEncoder.from_pretrained, "activation_fn"),
            (CrossEncoder, "cache_folder"),
            (CrossEncoder, "trust_remote_code"),
            (CrossEncoder, "backend"),
        ],
    )
    def test_of_sentence_transformers(self, call: Any, option: str) -> None:
        with pytest.raises(TypeError, match=f"no option '{option}': "):
            call("minibert-tiny", **{option: "x"})

    def test_methods_of_sentence_transformers(self, embedder: SentenceEmbedder) -> None:
        for name in ("start_multi_process_pool", "truncate_sentence_embeddings", "fit"):
            assert not hasattr(embedder, name)
            with pytest.raises(AttributeError, match=f"SentenceEmbedder has no {name}: .*[a-z]"):
                getattr(embedder, name)
        with pytest.raises(AttributeError, match="has no attribute 'encod'"):
            embedder.encod  # noqa: B018

    def test_values_in_the_place_of_options(self, embedder: SentenceEmbedder) -> None:
        with pytest.raises(TypeError, match=r"by name \(prompt=, .*, but 'query' has none"):
            embedder.encode(["trees"], "query")  # type: ignore[call-overload]

    def test_of_its_search(self) -> None:
        vectors = np.eye(3, dtype=np.float32)
        with pytest.raises(TypeError, match="no option 'score_function': it is metric="):
            semantic_search(vectors, vectors, score_function=len)

    def test_loading_options_of_a_model_that_is_there(self, embedder: SentenceEmbedder) -> None:
        model = BertForSequenceClassification(embedder.model.config)
        with pytest.raises(TypeError, match="precision is for a model .*by its name"):
            CrossEncoder(model, embedder.tokenizer, precision="int8")

    @pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
    def test_signatures_show_them(self, method: str) -> None:
        parameters = inspect.signature(getattr(TextEncoder, method)).parameters
        assert list(parameters) == ["self", "texts", *(one.name for one in fields(EncodeOptions))]


class TestPrompts:
    @pytest.mark.parametrize(
        ("prompts", "default", "query", "document"),
        [
            ({}, None, "", ""),
            ({"query": "q: "}, None, "q: ", ""),
            ({"query": "q: ", "passage": "p: "}, None, "q: ", "p: "),
            ({"query": "q: ", "passage": "p: ", "document": "d: "}, "query", "q: ", "d: "),
            ({"corpus": "c: ", "other": "o: "}, "other", "o: ", "c: "),
            ({"other": "o: "}, "other", "o: ", "o: "),
        ],
    )
    def test_prompt_for(
        self,
        embedder: SentenceEmbedder,
        prompts: dict[str, str],
        default: str | None,
        query: str,
        document: str,
    ) -> None:
        model = SentenceEmbedder(
            embedder.model, embedder.tokenizer, prompts=prompts, default_prompt_name=default
        )
        assert (model.prompt_for("query"), model.prompt_for("document")) == (query, document)
        for method, prompt in ((model.encode_query, query), (model.encode_document, document)):
            expected = model.encode(["trees grow", "x"], prompt=prompt)
            assert np.array_equal(method(["trees grow", "x"]), expected)


def test_windows_are_weighted_by_their_tokens() -> None:
    pooled = np.array([[1, 0], [0, 3], [5, 5], [1, 1], [2, 2]], dtype=np.float32)
    merged = merge_windows(pooled, [3, 1, 4, 1, 1], [2, 1, 2])
    assert merged.tolist() == [[0.75, 0.75], [5, 5], [1.5, 1.5]]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows", [0, 5, 40])
def test_the_similarity_of_the_folder(
    tmp_path: Path, metric: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minibert.encoders.arithmetic.search.BLOCK_ROWS", 7)
    settings = {"similarity_fn_name": metric}
    sentence_folder(tmp_path, ("Pooling", {}), config_sentence_transformers=settings)
    model = SentenceEmbedder.from_pretrained(tmp_path, precision=None)
    random = np.random.default_rng(rows)
    queries, corpus = random.normal(size=(2, 64)), random.normal(size=(rows, 64))
    indices, scores = nearest(queries, corpus, 3, metric=model.similarity_fn_name)
    expected = model.similarity(queries, corpus).numpy()
    order = np.argsort(-expected, axis=1, kind="stable")[:, :3]
    assert np.array_equal(indices, order)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, order, axis=1), atol=1e-5)


class SimilarityFunction(Enum):
    """The enumeration of sentence-transformers."""

    COSINE = "cosine"
    DOT_PRODUCT = "dot"


def test_a_similarity_that_is_set(tmp_path: Path) -> None:
    model = SentenceEmbedder.from_pretrained("minibert-tiny")
    model.similarity_fn_name = SimilarityFunction.DOT_PRODUCT
    assert model.similarity([[1.0, 2.0]], [[2.0, 2.0]]).item() == 6
    model.save_pretrained(tmp_path)
    assert SentenceEmbedder.from_pretrained(tmp_path).similarity_fn_name == "dot"
    for wrong in ["jaccard", "DOT", 1, ["dot"]]:
        with pytest.raises(ValueError, match="similarity_fn_name .*cosine, dot"):
            model.similarity_fn_name = wrong
    assert model.similarity_fn_name == "dot"
    model.similarity_fn_name = None  # as in sentence-transformers
    assert model.similarity_fn_name == "cosine"


def test_an_unknown_similarity(tmp_path: Path) -> None:
    settings = {"similarity_fn_name": "hamming"}
    sentence_folder(tmp_path, ("Pooling", {}), config_sentence_transformers=settings)
    with pytest.raises(ValueError, match="similarity_fn_name .hamming.*cosine, dot"):
        SentenceEmbedder.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        {"sentence_bert_config.json": '{"max_seq_length": 16}'},
        {"config_sentence_transformers.json": '{"prompts": {"q": "hello "}}'},
    ],
)
def test_a_copy_keeps_what_the_folder_says(tmp_path: Path, files: dict[str, Any]) -> None:
    """A cross-encoder may have the files of its settings without a modules.json."""
    folder = classifier_folder(tmp_path / "model", 1)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    copy = classifier_folder(tmp_path / "copy", 1)
    copy_modules(Source(folder), copy)
    original, copied = CrossEncoder(folder), CrossEncoder(copy)
    assert (copied.max_length, copied.prompts) == (original.max_length, original.prompts)
