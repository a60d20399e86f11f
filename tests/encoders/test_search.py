"""Similarity metrics, nearest neighbors in a corpus, and corpora in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from tiny_folder import WORDS, as_if_stopped, tiny_folder

from minibert import (
    SentenceEmbedder,
    encode_to_file,
    encode_to_shards,
    nearest,
    open_vectors,
    semantic_search,
    similarity,
)
from minibert.cli import main
from minibert.encoders.arithmetic.quantization import quantize
from minibert.encoders.arithmetic.search import METRICS, Metric, pairwise_similarity
from minibert.encoders.arithmetic.steps import Normalize

TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS[:3]]


class TestSimilarity:
    def test_the_default_is_the_cosine(self) -> None:
        a, b = np.random.default_rng(0).normal(size=(2, 4, 8))
        expected = [[x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in b] for x in a]
        np.testing.assert_allclose(similarity(a, b), expected, atol=1e-6)
        np.testing.assert_allclose(similarity(a[0], b), expected[:1], atol=1e-6)
        assert similarity(np.zeros(8), b).tolist() == [[0.0] * 4]
        with pytest.raises(
            ValueError, match="should have equally many dimensions, but have 8 and 7"
        ):
            similarity(a, b[:, :7])
        with pytest.raises(ValueError, match="metric should be one of cosine, dot, .*, not 'cos'"):
            similarity(a, b, "cos")
        np.testing.assert_allclose(similarity(1e-4 * a, b), expected, atol=1e-6)

    @pytest.mark.parametrize("metric", METRICS)
    def test_no_vectors_have_no_similarities(self, metric: str) -> None:
        for rows, others in ((0, 2), (2, 0)):
            scores = similarity(np.empty((rows, 3)), np.ones((others, 3)), metric)
            assert (scores.shape, scores.dtype) == ((rows, others), np.float32)

    @pytest.mark.parametrize("metric", METRICS)
    def test_against_sentence_transformers(self, metric: str) -> None:
        functions = pytest.importorskip("sentence_transformers").SimilarityFunction
        a, b = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
        expected = functions.to_similarity_fn(metric)(a, b)
        np.testing.assert_allclose(similarity(a, b, metric), expected, atol=1e-6)
        np.testing.assert_allclose(
            similarity(torch.from_numpy(a), list(torch.from_numpy(b)), metric), expected, atol=1e-6
        )
        pairwise = functions.to_similarity_pairwise_fn(metric)(a, b)
        np.testing.assert_allclose(pairwise_similarity(a, b, metric), pairwise, atol=1e-6)
        np.testing.assert_allclose(pairwise, expected.diag(), atol=1e-6)
        with pytest.raises(ValueError, match="equally many vectors, not 4 and 1"):
            pairwise_similarity(a, b[:1], metric)


class TestNearest:
    @given(rows=st.integers(0, 40), top=st.integers(1, 50), block=st.integers(1, 15))
    def test_every_row_is_compared(self, rows: int, top: int, block: int) -> None:
        random = np.random.default_rng(rows)
        corpus = np.eye(3, dtype=np.float32)[random.integers(0, 3, size=rows)]  # many equal rows
        queries = random.normal(size=(2, 3))
        with pytest.MonkeyPatch.context() as patch:
            for limit in ("BLOCK_ROWS", "BLOCK_SCORES"):
                patch.setattr(f"minibert.encoders.arithmetic.search.{limit}", block)
            indices, scores = nearest(queries, corpus, top)
        cosines = similarity(queries, corpus)
        expected = np.argsort(-cosines, axis=1, kind="stable")[:, :top]
        assert np.array_equal(indices, expected)
        np.testing.assert_allclose(scores, np.take_along_axis(cosines, expected, axis=1), atol=1e-6)

    def test_ties_across_blocks(self) -> None:
        """Equal vectors are returned in corpus order, whatever block they are in."""
        random = np.random.default_rng(0)
        corpus = random.normal(size=(20_003, 48)).astype(np.float32)
        equal = [0, 7, 8191, 16383, 16384, 16390, 20_001, 20_002]
        corpus[equal] = corpus[0]
        for rows in (corpus, corpus.astype(np.float64)):  # in one piece, and block by block
            indices, scores = nearest(corpus[0], rows, 5)
            assert indices[0].tolist() == equal[:5]
            np.testing.assert_allclose(scores[0], 1, atol=1e-6)

    @pytest.mark.parametrize("metric", METRICS)
    @pytest.mark.parametrize("length", [50, 1e-3])
    def test_vectors_of_any_length(self, metric: Metric, length: float) -> None:
        """Of vectors that are not normalized a product can be rounded by more than 1e-5."""
        random = np.random.default_rng(0)
        lengths = length * random.uniform(0.1, 1, size=(2_000, 1))
        corpus = (lengths * random.normal(size=(2_000, 48))).astype(np.float32)
        equal = [3, 700, 1_996]  # the last stands where the four largest of sorted scores begin
        corpus[equal] = 30 * corpus[3]
        indices, scores = nearest(corpus[3], corpus, 4, metric=metric)
        assert indices[0, :3].tolist() == equal
        expected = similarity(corpus[3], corpus, metric)[0]
        assert indices[0, 3] == np.argsort(-expected, kind="stable")[3]
        np.testing.assert_allclose(scores[0], expected[indices[0]], rtol=1e-5)
        _, half = nearest(corpus[3], corpus, 900, metric=metric)  # far from sorted by a partition
        np.testing.assert_allclose(half[0], -np.sort(-expected)[:900], rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("block", [50, 500])
    @pytest.mark.parametrize("metric", ["dot", "cosine"])
    def test_the_rounding_of_a_matrix_product_decides_nothing(
        self, metric: Metric, block: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Sums of the same values in different orders are equal but for their rounding."""
        random = np.random.default_rng(0)
        values = 50 * random.normal(size=48).astype(np.float32)
        corpus = np.stack([random.permutation(values) for _ in range(500)])
        for limit in ("BLOCK_ROWS", "BLOCK_SCORES"):
            monkeypatch.setattr(f"minibert.encoders.arithmetic.search.{limit}", block)
        query = np.full((1, 48), 9, dtype=np.float32)
        expected = pairwise_similarity(query.repeat(500, axis=0), corpus, metric)
        indices, scores = nearest(query, corpus, 5, metric=metric)
        assert indices[0].tolist() == np.argsort(-expected, kind="stable")[:5].tolist()
        assert scores.dtype == np.float32
        assert scores[0].tolist() == expected[indices[0]].tolist()

    @pytest.mark.parametrize("metric", METRICS)
    def test_what_is_not_a_number_comes_last(self, metric: Metric) -> None:
        corpus = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
        numbers = np.delete(np.arange(30), [3, 7, 9])
        expected, scores = nearest(corpus[0], corpus[numbers], 27, metric=metric)
        corpus[[3, 7, 9]] = np.nan
        for top in (5, 28, 30):
            indices, found = nearest(corpus[0], corpus, top, metric=metric)
            assert indices[0, :27].tolist() == numbers[expected[0, :top]].tolist()
            assert found[0, :27].tolist() == scores[0, :top].tolist()
            assert np.isnan(found[0, 27:]).all()

    @pytest.mark.parametrize("kind", [list, torch.tensor, np.asarray])
    def test_a_single_vector_is_a_corpus_of_one(self, kind: Any) -> None:
        indices, scores = nearest([[1.0, 2.0], [3.0, 4.0]], kind([1.0, 0.0]), 5, metric="dot")
        assert indices.tolist() == [[0], [0]]
        assert scores.tolist() == [[1.0], [3.0]]

    def test_semantic_search_equals_sentence_transformers(self) -> None:
        util = pytest.importorskip("sentence_transformers.util")
        random = np.random.default_rng(0)
        corpus = random.normal(size=(30, 8)).astype(np.float32)
        queries = random.normal(size=(3, 8)).astype(np.float32)
        expected = util.semantic_search(
            torch.from_numpy(queries), torch.from_numpy(corpus), top_k=4
        )
        hits = semantic_search(queries, corpus, top_k=4)
        assert [[hit["corpus_id"] for hit in row] for row in hits] == [
            [hit["corpus_id"] for hit in row] for row in expected
        ]
        scores = [[hit["score"] for hit in row] for row in expected]
        np.testing.assert_allclose(
            [[hit["score"] for hit in row] for row in hits], scores, atol=1e-5
        )

    @pytest.mark.parametrize("dtype", ["int8", "uint8"])
    @pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy, list])
    def test_quantized_vectors(self, dtype: Any, kind: Any) -> None:
        """Their codes have other similarities: sentence-transformers raises an error, too."""
        vectors = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
        codes = kind(quantize(vectors, dtype))
        for a, b in ((codes, vectors), (vectors, codes), (codes, codes)):
            for compare in (nearest, similarity, semantic_search, pairwise_similarity):
                with pytest.raises(ValueError, match=f"vectors should be .*, not {dtype}"):
                    compare(a, b)

    @pytest.mark.parametrize(
        ("vectors", "message"),
        [
            ("a text", "vectors should be numbers of shape .*, not 'a text'"),
            (["a", "b"], r"vectors should be numbers of shape .*, not \['a', 'b'\]"),
            ([[1.0], [1.0, 2.0]], "vectors should be numbers of shape"),
            (None, "vectors should be those that `encode` returns, not None"),
            (np.zeros((1, 2, 3)), r"vectors should be of shape .*, not \(1, 2, 3\)"),
        ],
    )
    def test_what_is_not_vectors(self, vectors: Any, message: str) -> None:
        for function in (similarity, nearest, semantic_search):
            with pytest.raises(ValueError, match=message):
                function(vectors, np.eye(3))

    def test_invalid_arguments_and_an_empty_corpus(self) -> None:
        with pytest.raises(ValueError, match="top_k should be .* 1 or more, not 0"):
            nearest([[1.0]], [[1.0]], 0)
        unknown: Any
        for unknown in ("max", ["dot"]):
            for corpus in ([[1.0]], np.empty((0, 1))):
                with pytest.raises(ValueError, match="metric should be one of cosine, dot, eucli"):
                    nearest([[1.0]], corpus, metric=unknown)
        with pytest.raises(
            ValueError, match="should have equally many dimensions, but have 3 and 2"
        ):
            nearest([[1.0, 2.0]], np.ones((2, 3)))
        assert nearest([[1.0]], np.empty((0, 1)))[0].shape == (1, 0)

    @pytest.mark.parametrize(
        "kind",
        [
            list,
            torch.tensor,
            lambda rows: torch.tensor(rows, dtype=torch.bfloat16, requires_grad=True),
            lambda rows: np.array(rows, np.float16),
        ],
    )
    def test_dot_products_of_any_kind(self, kind: Any) -> None:
        indices, scores = nearest(
            [[1.0, 2.0], [-1.0, 0.0]], kind([[1.0, 0.0], [3.0, 1.0], [0.0, 2.0]]), 2, metric="dot"
        )
        assert indices.tolist() == [[1, 2], [2, 0]]
        assert scores.tolist() == [[5.0, 4.0], [0.0, -1.0]]

    def test_a_corpus_that_is_not_in_memory_is_read_by_blocks(self) -> None:
        class Corpus:
            ndim = 2
            unit = True  # it says so: no vector is normalized again
            blocks: list[int] = []

            def __len__(self) -> int:
                return 40_000

            def __getitem__(self, rows: slice) -> Any:
                block = np.arange(40_000, dtype=np.float32)[rows, None] * [1, 0]
                self.blocks.append(len(block))
                return block

        corpus = Corpus()
        indices, scores = nearest([[3.0, 0.0]], corpus, 2)
        assert indices.tolist() == [[39_999, 39_998]]
        assert scores.tolist() == [[39_999, 39_998]]
        assert sum(corpus.blocks) == len(corpus) and max(corpus.blocks) <= 20_000

    def test_no_queries_have_no_neighbors(self) -> None:
        for corpus in (np.ones((4, 3), np.float32), np.ones((4, 3))):
            indices, scores = nearest(np.empty((0, 3)), corpus, 2)
            assert indices.shape == scores.shape == (0, 2)


class TestCorpora:
    @pytest.mark.parametrize("file_format", ["npy", "safetensors", "jsonl", "parquet", "arrow"])
    def test_files_and_folders(
        self, embedder: SentenceEmbedder, tmp_path: Path, file_format: str
    ) -> None:
        expected = embedder.encode(TEXTS)
        encode_to_file(embedder, TEXTS, tmp_path / f"vectors.{file_format}")
        encode_to_shards(
            embedder, TEXTS, tmp_path / "shards", file_format=file_format, shard_size=7
        )
        for name in (f"vectors.{file_format}", "shards"):
            corpus = open_vectors(tmp_path / name)
            assert (corpus.shape, corpus.dtype, len(corpus)) == ((30, 32), np.float32, 30)
            np.testing.assert_allclose(np.asarray(corpus), expected, atol=1e-6)
            for rows in (slice(0, 0), slice(5, 8), slice(6, 22), slice(25, 99), slice(-3, None)):
                np.testing.assert_allclose(corpus[rows], expected[rows], atol=1e-6)
            np.testing.assert_allclose(corpus[-1], expected[-1], atol=1e-6)
            indices, _ = nearest(expected[[3, 29]], corpus, 2)
            assert indices[:, 0].tolist() == [3, 29]

    def test_normalized_shards(self, embedder: SentenceEmbedder, tmp_path: Path) -> None:
        """Shards record whether the model L2-normalizes, and then the cosine is a dot product."""
        encode_to_shards(embedder, TEXTS, tmp_path / "any")
        unit = SentenceEmbedder(embedder.model, embedder.tokenizer, steps=[Normalize()])
        encode_to_shards(unit, TEXTS, tmp_path / "unit")
        corpus: Any = [open_vectors(tmp_path / name) for name in ("any", "unit")]
        assert [vectors.unit for vectors in corpus] == [False, True]
        (rows, scores), (same, close) = (
            nearest(unit.encode(TEXTS[:3]), vectors) for vectors in corpus
        )
        assert np.array_equal(rows, same)
        np.testing.assert_allclose(scores, close, atol=1e-6)

    @pytest.mark.parametrize("normalized_again", [False, True])
    def test_shards_truncated_after_the_normalization(
        self, normalized_again: bool, embedder: SentenceEmbedder, tmp_path: Path
    ) -> None:
        unit = SentenceEmbedder(embedder.model, embedder.tokenizer, steps=[Normalize()])
        options: Any = {"truncate_dim": 8, "normalize_embeddings": normalized_again}
        encode_to_shards(unit, TEXTS, tmp_path, **options)
        corpus: Any = open_vectors(tmp_path)
        assert corpus.unit == normalized_again
        queries = unit.encode(TEXTS[:3], truncate_dim=8)
        for found, expected in zip(
            nearest(queries, corpus), nearest(queries, unit.encode(TEXTS, **options)), strict=True
        ):
            np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_rows_of_one_shard_are_memory_mapped(
        self, embedder: SentenceEmbedder, tmp_path: Path
    ) -> None:
        encode_to_shards(embedder, TEXTS, tmp_path, shard_size=7)
        part = open_vectors(tmp_path)[8:12]
        assert isinstance(part.base, np.memmap) or isinstance(part, np.memmap)

    def test_mistakes(self, embedder: SentenceEmbedder, tmp_path: Path) -> None:
        encode_to_shards(embedder, TEXTS, tmp_path / "shards", shard_size=7)
        corpus: Any = open_vectors(tmp_path / "shards")
        with pytest.raises(ValueError, match="neighboring rows"):
            corpus[::2]
        as_if_stopped(tmp_path / "shards")
        with pytest.raises(
            ValueError, match="is not complete: run minibert embed --output DIR/ again"
        ):
            open_vectors(tmp_path / "shards")
        with pytest.raises(
            ValueError, match="should be a folder of shards, or end in .npy, .safetensors"
        ):
            open_vectors(tmp_path / "x.txt")
        for name in ("x.npy", "x.safetensors", "x.jsonl", "x.parquet"):
            (tmp_path / name).write_bytes(b"\x93")
            with pytest.raises(ValueError, match=f"{name} is not a complete .{name[2:]} file"):
                open_vectors(tmp_path / name)

    def test_the_command(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "lines.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
        model = str(tiny_folder(tmp_path / "bert"))
        arguments = ["--model", model, "--file", str(tmp_path / "lines.txt")]
        assert (
            main(["embed", *arguments, "--output", str(tmp_path / "shards"), "--shard-size", "8"])
            == 0
        )
        capsys.readouterr()
        vectors = ["--vectors", str(tmp_path / "shards"), "--corpus", str(tmp_path / "lines.txt")]
        assert main(["search", TEXTS[20], "--model", model, *vectors, "--top-k", "1"]) == 0
        assert capsys.readouterr().out.split() == ["1.0000", "21", *TEXTS[20].split()]
        jsonl = ["--jsonl", "--top-k", "2"]
        assert main(["search", TEXTS[20], TEXTS[3], "--model", model, *vectors, *jsonl]) == 0
        records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [record["query"] for record in records] == [TEXTS[20], TEXTS[3]]
        assert [record["results"][0]["line"] for record in records] == [21, 4]


def test_how_many_are_found_by_default() -> None:
    assert nearest(np.eye(12), np.eye(12))[0].shape == (12, 5)
    assert {len(hits) for hits in semantic_search(np.eye(12), np.eye(12))} == {10}


def test_semantic_search_by_another_metric() -> None:
    [hits] = semantic_search([[1.0, 0.0]], [[1.0, 0.0], [3.0, 3.0]], metric="dot")
    assert hits == [{"corpus_id": 1, "score": 3.0}, {"corpus_id": 0, "score": 1.0}]


def test_an_option_that_does_not_exist_raises_an_error() -> None:
    with pytest.raises(TypeError, match="semantic_search has no option 'score_function'"):
        semantic_search(np.eye(2), np.eye(2), score_function=None)
    for option in ("top_k", "metric"):
        with pytest.raises(TypeError, match=f"'{option}'"):
            semantic_search(np.eye(2), np.eye(2), **{f"{option}s": 1})
