"""Comparing vectors: similarities, and the nearest of a corpus by looking at all of them."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from minibert.checks import check_count
from minibert.sentences.rows import Vectors

Metric = Literal["cosine", "dot", "euclidean", "manhattan"]
Found = tuple[
    NDArray[np.float32], NDArray[np.int64]
]  # similarities and row numbers, the most similar first

# corpus vectors that are compared at a time: few enough for the scores of 1,000 queries to take 64 MB; of those that
# lie in memory as many as that, for a few queries would wait for threads at every block
BLOCK_ROWS = 16384
BLOCK_SCORES = 2**24
# more than two ways to add up the product of two vectors of length 1 in float32 ever differ by
ROUNDING = 1e-5


def unit(vectors: Vectors) -> Vectors:
    """Vectors (n, D), each divided by its length."""
    found: Vectors = vectors / np.maximum(
        np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12)
    )
    return found


def _distances(a: Vectors, b: Vectors, order: int) -> Vectors:
    rows = [
        np.linalg.norm(vector - b, ord=order, axis=1) for vector in a
    ]  # (m,) each: never (n, m, D) at once
    return np.array(rows, dtype=np.float32).reshape(len(a), len(b))


# similarity of every two rows, (n, D) and (m, D) to (n, m), the larger the more alike
METRICS: dict[str, Callable[[Vectors, Vectors], Vectors]] = {
    "cosine": lambda a, b: unit(a) @ unit(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -_distances(a, b, 2),
    "manhattan": lambda a, b: -_distances(a, b, 1),
}


def similarity(a: Any, b: Any, metric: str = "cosine") -> NDArray[np.float32]:
    """How similar each vector of `a` and each of `b` are: (n, D) and (m, D) to (n, m).

    A single vector (D,) counts as one row. A vector of zeros has the cosine 0 with everything.

    Args:
        a: NumPy arrays, tensors or lists of numbers.
        b: the same.
        metric: "cosine" of the angle, "dot" product, or the negative "euclidean" or "manhattan" distance.

    Raises:
        ValueError: vectors of different lengths, or an unknown metric.
    """
    left, right = _comparable(a, b, metric)
    return METRICS[metric](left, right)


def pairwise_similarity(a: Any, b: Any, metric: str = "cosine") -> NDArray[np.float32]:
    """How similar each vector of `a` is to the one of `b` in its place: (n, D) and (n, D) to (n,); see `similarity`."""
    left, right = _comparable(a, b, metric)
    if len(left) != len(right):
        raise ValueError(f"pairs need equally many vectors, not {len(left)} and {len(right)}.")
    found: Vectors
    if metric in ("cosine", "dot"):
        found = (unit(left) * unit(right) if metric == "cosine" else left * right).sum(axis=1)
    else:
        found = -np.linalg.norm(left - right, ord=2 if metric == "euclidean" else 1, axis=1)
    return found


def nearest(
    queries: Any, corpus: Any, top: int = 5, *, metric: str = "cosine"
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `top` rows of `corpus` that are most similar to each of `queries`; exact.

    Args:
        queries: (n, D).
        corpus: (N, D): an array, memory-mapped or not, or what `open_vectors` gives; a block of it is read at a time.
        top: rows for each query.
        metric: "cosine", or the "dot" product, which is the same for vectors of length 1 and takes half the time. Where
            `open_vectors` knows that they are, "cosine" is as quick.

    Returns:
        Row numbers and similarities, (n, min(top, N)) each, the most similar first; ties in the order of the corpus.

    Raises:
        ValueError: `top` below 1, vectors of different lengths, or another metric.
    """
    check_count("top", top)
    if metric not in ("cosine", "dot"):
        raise ValueError(f'metric should be "cosine" or "dot", not {metric!r}.')
    if not hasattr(corpus, "shape"):
        corpus = _matrix(corpus)
    wanted = _matrix(queries)
    best = _compare_all(unit(wanted) if metric == "cosine" else wanted, corpus, top, metric)
    scores, rows = zip(*best, strict=True) if best else ((), ())
    shape = len(wanted), min(top, len(corpus))
    return np.array(rows, dtype=np.int64).reshape(shape), np.array(
        scores, dtype=np.float32
    ).reshape(shape)


def _compare_all(wanted: Vectors, corpus: Any, top: int, metric: str) -> list[Found]:
    cosine = metric == "cosine" and not getattr(corpus, "unit", False)
    in_place = isinstance(corpus, np.ndarray) and corpus.dtype == np.float32
    step = max(BLOCK_ROWS, BLOCK_SCORES // max(1, len(wanted))) if in_place else BLOCK_ROWS
    best = [(np.empty(0, np.float32), np.empty(0, np.int64))] * len(wanted)
    for start in range(0, len(corpus), step):
        block, _ = _comparable(corpus[start : start + step], wanted, metric)
        products = wanted @ block.T
        if cosine:
            products /= np.maximum(np.sqrt(np.einsum("ij,ij->i", block, block)), np.float32(1e-12))
        for number, found in enumerate(products):
            scores, rows = best[number]
            # a matrix product rounds the same two vectors differently in another place of the matrix: so it only finds
            # candidates, which are multiplied again one by one
            candidates = (
                np.flatnonzero(~(found <= scores[-1] - ROUNDING))
                if len(scores) == top
                else np.arange(len(block))
            )
            if len(candidates) > top:
                last = np.partition(found[candidates], -top)[-top]
                candidates = candidates[~(found[candidates] <= last - ROUNDING)]
            chosen = unit(block[candidates]) if cosine else block[candidates]
            scores = np.concatenate([scores, (chosen * wanted[number]).sum(axis=1)])
            rows = np.concatenate([rows, candidates + start])
            # of equal scores the first stays: those of earlier blocks stand before those of later ones
            order = np.argsort(-scores, kind="stable")[:top]
            best[number] = scores[order], rows[order]
    return best


def _comparable(a: Any, b: Any, metric: str) -> tuple[Vectors, Vectors]:
    if metric not in METRICS:
        raise ValueError(f"metric should be one of {', '.join(METRICS)}, not {metric!r}.")
    left, right = _matrix(a), _matrix(b)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"the vectors should be equally long, but have {left.shape[1]} and {right.shape[1]} numbers."
        )
    return left, right


def _matrix(vectors: Any) -> Vectors:
    """Vectors as float32 (n, D): of NumPy, of torch, or in lists of either."""
    if isinstance(vectors, list | tuple):
        vectors = [_array(vector) for vector in vectors]
    return np.atleast_2d(np.asarray(_array(vectors), dtype=np.float32))


def _array(vectors: Any) -> Any:
    return vectors.detach().cpu().float().numpy() if hasattr(vectors, "detach") else vectors
