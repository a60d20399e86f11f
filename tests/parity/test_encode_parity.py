"""`SentenceEmbedder` returns the vectors of sentence-transformers for the same calls.

The cases follow sentence-transformers' own tests of encoding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_folder import sentence_folder

from minibert import SentenceEmbedder
from minibert.encoders.arithmetic.quantization import quantize

sentence_transformers = pytest.importorskip("sentence_transformers")
TEXTS = ["Hello world!", "How tall do trees grow in Korea?", "", "x"]
PROMPTS = {"query": "query: ", "document": "how? "}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[SentenceEmbedder, Any]:
    pooling = ("Pooling", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    folder = tmp_path_factory.mktemp("tiny")
    sentence_folder(folder, pooling, config_sentence_transformers={"prompts": PROMPTS})
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    return SentenceEmbedder.from_pretrained(folder, precision=None), theirs


OPTIONS: list[dict[str, Any]] = [
    {},
    {"batch_size": 2, "show_progress_bar": False},
    {"prompt_name": "query"},
    {"prompt": "x "},
    {"normalize_embeddings": True},
    {"truncate_dim": 10},
    {"truncate_dim": 10, "normalize_embeddings": True},
    {"truncate_dim": 100},
    {"convert_to_tensor": True},
    {"convert_to_tensor": True, "convert_to_numpy": True},
    {"convert_to_numpy": False},
    {"precision": "binary"},
    {"precision": "ubinary"},
    {"precision": None},
    {"precision": "float32"},
    {"output_value": "token_embeddings"},
    {"device": "cpu"},
]


class TestEncode:
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    @pytest.mark.parametrize(
        "texts", [TEXTS, TEXTS[1], [("hello world", "trees"), ("x", "how tall?")]], ids=len
    )
    @pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
    def test_same_results(
        self, both: tuple[SentenceEmbedder, Any], method: str, texts: Any, options: dict[str, Any]
    ) -> None:
        ours, theirs = (getattr(model, method)(texts, **options) for model in both)
        assert type(ours) is type(theirs)
        if not isinstance(ours, list):
            ours, theirs = [ours], [theirs]
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.shape == other.shape and mine.dtype == other.dtype
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=2e-6)

    @pytest.mark.parametrize("precision", ["int8", "uint8", "binary", "ubinary"])
    def test_quantized_vectors(self, both: tuple[SentenceEmbedder, Any], precision: str) -> None:
        """Both quantize the same vectors, because a difference in the last bit can cross a step."""
        vectors = both[1].encode(TEXTS)
        expected = sentence_transformers.util.quantize_embeddings(vectors, precision)
        quantized = quantize(vectors, precision)
        assert quantized.dtype == expected.dtype and np.array_equal(quantized, expected)
        ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
        if precision.endswith("int8"):
            expected = sentence_transformers.util.quantize_embeddings(
                vectors[:1] * 2, precision, ranges=ranges
            )
            assert np.array_equal(quantize(vectors[:1] * 2, precision, ranges), expected)
        encoded = both[0].encode(TEXTS, precision=precision)
        assert encoded.dtype == quantized.dtype and np.array_equal(
            encoded, quantize(both[0].encode(TEXTS), precision)
        )
        tensor = both[0].encode(TEXTS, precision=precision, convert_to_tensor=True)
        assert isinstance(tensor, torch.Tensor) and np.array_equal(tensor.numpy(), encoded)

    def test_tokenize(self, both: tuple[SentenceEmbedder, Any]) -> None:
        for texts in (TEXTS, [("hello world", "trees"), ("x", "how tall?")]):
            ours, theirs = (model.tokenize(texts) for model in both)
            for name in ("input_ids", "attention_mask", "token_type_ids"):
                assert torch.equal(ours[name], theirs[name])

    def test_an_empty_list(self, both: tuple[SentenceEmbedder, Any]) -> None:
        assert len(both[0].encode([])) == len(both[1].encode([])) == 0
        # the reference returns (0,), which cannot be stacked with other vectors
        assert both[0].encode([]).shape == (0, 32)

    def test_pooling_with_and_without_the_prompt(self, both: tuple[SentenceEmbedder, Any]) -> None:
        for include in (False, True):
            both[0].include_prompt = include
            both[1].set_pooling_include_prompt(include)
            ours, theirs = (model.encode(TEXTS, prompt="query: ") for model in both)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)


class TestNames:
    def test_properties(self, both: tuple[SentenceEmbedder, Any]) -> None:
        ours, theirs = both
        assert ours.get_embedding_dimension() == theirs.get_embedding_dimension()
        assert ours.max_seq_length == theirs.max_seq_length and ours.prompts == theirs.prompts
        assert ours.device == theirs.device and ours.similarity_fn_name == theirs.similarity_fn_name
        assert isinstance(ours, torch.nn.Module)

    @pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean", "manhattan"])
    def test_similarity(self, both: tuple[SentenceEmbedder, Any], metric: str) -> None:
        vectors = both[1].encode(TEXTS)
        for model in both:
            model.similarity_fn_name = metric
        ours, theirs = (model.similarity(vectors, vectors[:2]) for model in both)
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-5)
        ours, theirs = (model.similarity_pairwise(vectors[1:], vectors[:3]) for model in both)
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-5)

    def test_the_metric_is_saved(self, both: tuple[SentenceEmbedder, Any], tmp_path: Path) -> None:
        for model, other in (both, both[::-1]):
            model.similarity_fn_name = "dot"
            model.save_pretrained(str(tmp_path / type(model).__name__))
            other.similarity_fn_name = "cosine"
        for name in ("SentenceEmbedder", "SentenceTransformer"):
            assert SentenceEmbedder.from_pretrained(tmp_path / name).similarity_fn_name == "dot"
            again = sentence_transformers.SentenceTransformer(str(tmp_path / name), device="cpu")
            assert again.similarity_fn_name == "dot"
