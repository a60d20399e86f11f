"""Comparing vectors: similarities, and the nearest of a corpus by comparing all of them."""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from minibert.encoders.encoder_options import check_names
from minibert.encoders.rows.token_rows import Vectors
from minibert.util.checks import check_count
from minibert.util.errors import ArgumentError

Metric = Literal["cosine", "dot", "euclidean", "manhattan"]

# Corpus vectors that are compared at a time: few enough for the scores of 1,000 queries to take
# 64 MB. Vectors in memory are taken by as many scores, because a few queries would otherwise wait
# for threads at every block
BLOCK_ROWS = 16384
BLOCK_SCORES = 2**24
# upper bound on the rounding difference between two summation orders of the product of two float32
# vectors, as a share of the product of their lengths
ROUNDING = 1e-5
# what `quantize` makes of vectors: numbers of steps, or eight bits in a byte
CODES = ("int8", "uint8")


class Hit(TypedDict):
    """A row of the corpus, and its similarity to a query."""

    corpus_id: int
    score: float


def unit(vectors: Vectors) -> Vectors:
    """L2-normalizes vectors (n, D)."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    normalized: Vectors = vectors / np.maximum(norms, np.float32(1e-12))
    return normalized


def _distances(a: Vectors, b: Vectors, order: int) -> Vectors:
    # (m,) for each vector: never (n, m, D) at once
    rows = [np.linalg.norm(vector - b, ord=order, axis=1) for vector in a]
    return np.array(rows, dtype=np.float32).reshape(len(a), len(b))


# similarity of every two rows, (n, D) and (m, D) to (n, m), the larger the more alike
METRICS: dict[str, Callable[[Vectors, Vectors], Vectors]] = {
    "cosine": lambda a, b: unit(a) @ unit(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -_distances(a, b, 2),
    "manhattan": lambda a, b: -_distances(a, b, 1),
}


def similarity(a: Any, b: Any, metric: Metric = "cosine") -> NDArray[np.float32]:
    """Similarity of each vector of `a` and each of `b`: (n, D) and (m, D) to (n, m).

    A single vector (D,) counts as one row. A vector of zeros has the cosine 0 with everything.

    Args:
        a: NumPy arrays, tensors or lists of numbers.
        b: The same.
        metric: "cosine", "dot" product, or the negative "euclidean" or "manhattan" distance.

    Returns:
        (n, m) float32.

    Raises:
        ValueError: Vectors of different dimensions, quantized ones, or an unknown metric.
    """
    left, right = _comparable(a, b, metric)
    return METRICS[metric](left, right)


def pairwise_similarity(a: Any, b: Any, metric: Metric = "cosine") -> NDArray[np.float32]:
    """Similarity of vectors with the same index: (n, D) and (n, D) to (n,).

    Args:
        a: As in `similarity`.
        b: As in `similarity`, with as many rows.
        metric: As in `similarity`.

    Raises:
        ValueError: As `similarity`, or different numbers of rows.
    """
    left, right = _comparable(a, b, metric)
    if len(left) != len(right):
        raise ValueError(f"pairs need equally many vectors, not {len(left)} and {len(right)}.")
    scores: Vectors
    if metric == "cosine":
        scores = (unit(left) * unit(right)).sum(axis=1)
    elif metric == "dot":
        scores = (left * right).sum(axis=1)
    else:
        order = 2 if metric == "euclidean" else 1
        scores = -np.linalg.norm(left - right, ord=order, axis=1)
    return scores


def nearest(
    queries: Any,
    corpus: Any,
    top_k: int = 5,
    *,
    metric: Metric = "cosine",
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `top_k` rows of `corpus` that are most similar to each of `queries`, exactly.

    Args:
        queries: (n, D).
        corpus: (N, D): an array, memory-mapped or not, or what `open_vectors` returns. A block of
            it is read at a time.
        top_k: Rows for each query.
        metric: As in `similarity`. The "dot" product is the cosine of L2-normalized vectors and
            takes half the time. If `open_vectors` knows that the vectors are normalized, "cosine"
            is as fast.

    Returns:
        Row indices and similarities, (n, min(top_k, N)) each, the most similar first. Ties in the
        order of the corpus, and similarities that are not numbers last.

    Raises:
        ValueError: `top_k` below 1, vectors of different dimensions, quantized ones, or another
            metric.
    """
    check_count("top_k", top_k)
    check_metric("metric", metric)
    if getattr(corpus, "ndim", None) != 2:  # lists, or a single vector
        corpus = _matrix(corpus)
    query_vectors = _matrix(queries)
    if metric == "cosine":
        query_vectors = unit(query_vectors)
    normalize = metric == "cosine" and not getattr(corpus, "unit", False)
    is_distance = metric in ("euclidean", "manhattan")
    step = BLOCK_ROWS
    if isinstance(corpus, np.ndarray) and corpus.dtype == np.float32 and not is_distance:
        step = max(BLOCK_ROWS, BLOCK_SCORES // max(1, len(query_vectors)))
    # the best of the blocks so far: as many of each query
    shape = len(query_vectors), min(top_k, len(corpus))
    best_rows = np.empty(shape, dtype=np.int64)
    best_scores = np.empty(shape, dtype=np.float32)
    for start in range(0, len(corpus), step):
        block, _ = _comparable(corpus[start : start + step], query_vectors, metric)
        # (n, rows of the block)
        products = METRICS[metric](query_vectors, block) if is_distance else query_vectors @ block.T
        if normalize:
            norms = np.sqrt(np.einsum("ij,ij->i", block, block))
            products /= np.maximum(norms, np.float32(1e-12))
        rounding = np.full(len(products), ROUNDING)
        if metric == "dot":  # not of unit vectors: about as long as the nearest is
            nearest_rows = block[products.argmax(axis=1)]
            rounding *= np.linalg.norm(query_vectors, axis=1) * np.linalg.norm(nearest_rows, axis=1)
        count = min(top_k, start)
        for index, query in enumerate(query_vectors):
            candidates = _candidates(
                products[index], best_scores[index, :count], top_k, rounding[index]
            )
            if is_distance:  # each is computed by itself already
                similarities = products[index][candidates]
            else:
                vectors = unit(block[candidates]) if normalize else block[candidates]
                similarities = (vectors * query).sum(axis=1)
            scores = np.concatenate([best_scores[index, :count], similarities])
            rows = np.concatenate([best_rows[index, :count], candidates + start])
            # stable: of equal scores those of earlier blocks come first, as they stand first
            order = np.argsort(-scores, kind="stable")[:top_k]
            best_scores[index, : len(order)] = scores[order]
            best_rows[index, : len(order)] = rows[order]
    return best_rows, best_scores


def semantic_search(
    queries: Any,
    corpus: Any,
    top_k: int = 10,
    *,
    metric: Metric = "cosine",
    **others: Any,
) -> list[list[Hit]]:
    """`nearest`, with the results that sentence-transformers' `util.semantic_search` returns.

    Args:
        queries: (n, D).
        corpus: (N, D), as in `nearest`.
        top_k: Hits for each query.
        metric: As in `nearest`.
        others: None. The error says what to do instead of sentence-transformers' own.

    Returns:
        For each query a list of `{"corpus_id", "score"}`, the most similar first.

    Raises:
        ValueError: As `nearest`.
        TypeError: An option that does not exist.
    """
    check_names("semantic_search", others, ["top_k", "metric"])
    rows, scores = nearest(queries, corpus, top_k, metric=metric)
    results = []
    for query_rows, query_scores in zip(rows.tolist(), scores.tolist(), strict=True):
        hits = zip(query_rows, query_scores, strict=True)
        results.append([Hit(corpus_id=row, score=score) for row, score in hits])
    return results


def _candidates(
    products: Vectors, best_scores: Vectors, top_k: int, rounding: float
) -> NDArray[np.int64]:
    """Rows of a block that may be among the `top_k` nearest.

    A matrix product rounds the product of two vectors differently in another place of the matrix.
    So it only finds candidates, whose products are computed again one by one. The comparisons are
    negated in order to keep all where a score or a length is not a finite number.
    """
    if np.isnan(products.max()):  # which np.partition has as the largest
        products = np.where(np.isnan(products), -np.inf, products)
    if len(best_scores) == top_k:
        candidates = np.flatnonzero(~(products < best_scores[-1] - rounding))
    else:
        candidates = np.arange(len(products))
    if len(candidates) > top_k:
        last = np.partition(products[candidates], -top_k)[-top_k]
        candidates = candidates[~(products[candidates] < last - rounding)]
    return candidates


def check_metric(name: str, metric: Any) -> None:
    """Refuses a metric that is none of `METRICS`.

    Args:
        name: What the caller calls it, for the error.
        metric: The metric.
    """
    if not isinstance(metric, str) or metric not in METRICS:
        raise ArgumentError(name, f"should be one of {', '.join(METRICS)}, not {metric!r}.")


def _comparable(a: Any, b: Any, metric: str) -> tuple[Vectors, Vectors]:
    check_metric("metric", metric)
    left = _matrix(a)
    right = _matrix(b)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            "the vectors should have equally many dimensions, but have "
            f"{left.shape[1]} and {right.shape[1]}."
        )
    return left, right


def _matrix(vectors: Any) -> Vectors:
    """Vectors as float32 (n, D): of NumPy, of torch, or in lists of either."""
    if isinstance(vectors, list | tuple):
        vectors = [_array(vector) for vector in vectors]
    array = _array(vectors)
    if array is None:
        raise ArgumentError("vectors", "should be those that `encode` returns, not None.")
    try:
        matrix = np.atleast_2d(np.asarray(array, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            "vectors",
            "should be numbers of shape (texts, dimensions), as `encode` returns them, "
            f"not {array!r:.80}.",
        ) from error
    if matrix.ndim != 2:
        raise ArgumentError(
            "vectors",
            "should be of shape (texts, dimensions), or a single one of (dimensions,), "
            f"not {matrix.shape}.",
        )
    return matrix


def _array(vectors: Any) -> Any:
    dtype = str(getattr(vectors, "dtype", None)).removeprefix("torch.")
    if dtype in CODES:
        raise ArgumentError(
            "vectors",
            f"should be floating-point numbers, not {dtype}: the similarity of quantized vectors "
            "is not that of their codes. Compare codes by faiss, or the vectors before they are "
            "quantized.",
        )
    if hasattr(vectors, "detach"):
        return vectors.detach().cpu().float().numpy()
    return vectors
