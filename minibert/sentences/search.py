"""Comparing vectors: cosine similarity, and the nearest of a corpus by looking at all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ROWS = 65536  # corpus vectors that are compared at a time


def similarity(a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
    """Cosine of the angle between each vector of `a` and each of `b`: (n, D) and (m, D) to (n, m).

    A single vector (D,) counts as one row. A vector of zeros is similar to nothing, 0.

    Raises:
        ValueError: vectors of different lengths.
    """
    left, right = _unit_rows(a), _unit_rows(b)
    if left.shape[1] != right.shape[1]:
        raise ValueError(f"the vectors should be equally long, but have {left.shape[1]} and {right.shape[1]} numbers.")
    cosines: NDArray[np.float32] = left @ right.T
    return cosines


def nearest(queries: ArrayLike, corpus: ArrayLike, top: int = 5) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `top` rows of `corpus` (N, D) that are most similar to each of `queries` (n, D); exact.

    Returns:
        Row numbers and cosines, (n, min(top, N)) each, the most similar first; equals in the order of the corpus.

    Raises:
        ValueError: `top` below 1, or vectors of different lengths.
    """
    if top < 1:
        raise ValueError(f"top should be 1 or more, not {top}.")
    corpus = np.asarray(corpus)
    queries = np.atleast_2d(np.asarray(queries))
    rows: NDArray[np.int64] = np.empty((len(queries), 0), dtype=np.int64)
    scores: NDArray[np.float32] = np.empty((len(queries), 0), dtype=np.float32)
    for start in range(0, len(corpus), _ROWS):  # the best so far go on against the next rows
        block = similarity(queries, corpus[start : start + _ROWS])
        numbers = np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)
        scores, rows = np.concatenate([scores, block], axis=1), np.concatenate([rows, numbers], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        scores, rows = np.take_along_axis(scores, best, axis=1), np.take_along_axis(rows, best, axis=1)
    return rows, scores


def _unit_rows(vectors: ArrayLike) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32, copy=False)
    return unit
