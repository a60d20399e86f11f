"""Comparing vectors: cosines and other metrics, and the nearest of a corpus."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from minibert.sentences.search import nearest, similarity


class TestSearch:
    def test_similarity_is_the_cosine(self) -> None:
        a, b = np.random.default_rng(0).normal(size=(2, 4, 8))
        expected = [[x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in b] for x in a]
        np.testing.assert_allclose(similarity(a, b), expected, atol=1e-6)
        np.testing.assert_allclose(similarity(a[0], b), expected[:1], atol=1e-6)
        assert similarity(np.zeros(8), b).tolist() == [[0.0] * 4]
        with pytest.raises(ValueError, match="should be equally long, but have 8 and 7 numbers"):
            similarity(a, b[:, :7])

    @settings(max_examples=30, deadline=None)
    @given(rows=st.integers(0, 40), top=st.integers(1, 50), block=st.integers(1, 15))
    def test_nearest_looks_at_everything(self, rows: int, top: int, block: int) -> None:
        numbers = np.random.default_rng(rows)
        corpus = np.eye(3, dtype=np.float32)[numbers.integers(0, 3, size=rows)]  # with many equals
        queries = numbers.normal(size=(2, 3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("minibert.sentences.search.BLOCK_ROWS", block)
            found, scores = nearest(queries, corpus, top)
        cosines = similarity(queries, corpus)
        expected = np.argsort(-cosines, axis=1, kind="stable")[:, :top]
        assert np.array_equal(found, expected)
        assert np.array_equal(scores, np.take_along_axis(cosines, expected, axis=1))

    def test_top_of_nothing(self) -> None:
        with pytest.raises(ValueError, match="top should be 1 or more, not 0"):
            nearest([[1.0]], [[1.0]], 0)
