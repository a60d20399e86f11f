"""Comparing vectors: similarities, and the nearest of a corpus by looking at all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

# corpus vectors that are compared at a time: few enough for the scores of 1,000 queries to take 32 MB
BLOCK_ROWS = 8192
# more than two ways to add up the product of two vectors of length 1 in float32 ever differ by
ROUNDING = 1e-5

# similarity of every two rows, (n, D) and (m, D) to (n, m), the larger the more alike
METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda a, b: F.normalize(a, dim=1) @ F.normalize(b, dim=1).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"),
    "manhattan": lambda a, b: -torch.cdist(a, b, p=1.0),
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
    scores: NDArray[np.float32] = np.asarray(METRICS[metric](left, right))
    return scores


def pairwise_similarity(a: Any, b: Any, metric: str = "cosine") -> NDArray[np.float32]:
    """How similar each vector of `a` is to the one of `b` in its place: (n, D) and (n, D) to (n,); see `similarity`."""
    left, right = _comparable(a, b, metric)
    if len(left) != len(right):
        raise ValueError(f"pairs need equally many vectors, not {len(left)} and {len(right)}.")
    if metric in ("cosine", "dot"):
        left, right = (F.normalize(x, dim=1) for x in (left, right)) if metric == "cosine" else (left, right)
        return (left * right).sum(dim=1).numpy()
    distances: Tensor = torch.linalg.vector_norm(left - right, ord=2 if metric == "euclidean" else 1, dim=1)
    return (-distances).numpy()


def nearest(queries: Any, corpus: Any, top: int = 5) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `top` rows of `corpus` that are most similar to each of `queries`, by cosine; exact.

    Args:
        queries: (n, D).
        corpus: (N, D): an array, memory-mapped or not, or what `open_corpus` gives; a block of it is read at a time.
        top: rows for each query.

    Returns:
        Row numbers and cosines, (n, min(top, N)) each, the most similar first; ties in the order of the corpus.

    Raises:
        ValueError: `top` below 1, or vectors of different lengths.
    """
    if top < 1:
        raise ValueError(f"top should be 1 or more, not {top}.")
    if not hasattr(corpus, "shape"):
        corpus = np.asarray(corpus, dtype=np.float32)
    wanted = F.normalize(_matrix(queries), dim=1)
    scores, rows = wanted.new_empty(len(wanted), 0), torch.empty(len(wanted), 0, dtype=torch.long)
    for start in range(0, len(corpus), BLOCK_ROWS):  # the best so far compete with those of the next block
        block, _ = _comparable(corpus[start : start + BLOCK_ROWS], wanted, "cosine")
        worst = scores[:, -1:] if scores.shape[1] == top else scores.new_full((len(wanted), 1), -torch.inf)
        found, numbers = _best(wanted, F.normalize(block, dim=1), top, worst)
        scores, rows = torch.cat([scores, found], dim=1), torch.cat([rows, numbers + start], dim=1)
        # of equal scores the first stays: those of earlier blocks stand before those of later ones
        best = scores.argsort(dim=1, descending=True, stable=True)[:, :top]
        scores, rows = scores.gather(1, best), rows.gather(1, best)
    return rows.numpy(), scores.numpy()


def _best(queries: Tensor, block: Tensor, top: int, worst: Tensor) -> tuple[Tensor, Tensor]:
    """The `top` largest products of each query with the rows of a block, and the rows; ties in the block's order.

    There are fewer where no query finds `top` that reach `worst`, (n, 1), the last that was good enough before.

    A matrix product rounds the same two vectors differently in another place of the matrix, and topk takes any of
    several ties. So the product only finds candidates; those are multiplied again one by one, and sorted.
    """
    products = queries @ block.T
    values, columns = products.topk(min(top + 1, len(block)), dim=1)
    count = int((values > worst - ROUNDING).any(dim=0).sum())
    values, columns = values[:, :count], columns[:, :count].sort(dim=1).values
    scores = _products(queries, block, columns)
    best = scores.argsort(dim=1, descending=True, stable=True)[:, :top]
    scores, columns = scores.gather(1, best), columns.gather(1, best)
    if values.shape[1] > top:
        for row in (values[:, top - 1] - values[:, top] < ROUNDING).nonzero()[:, 0].tolist():  # one too many for all
            candidates = (products[row] > values[row, top - 1] - ROUNDING).nonzero()[:, 0]
            exact = _products(queries[row : row + 1], block, candidates[None])[0]
            best = exact.argsort(descending=True, stable=True)[:top]
            scores[row], columns[row] = exact[best], candidates[best]
    return scores, columns


def _products(queries: Tensor, block: Tensor, columns: Tensor) -> Tensor:
    """Of each query with the rows of a block that `columns` (n, k) names: (n, k)."""
    at_once = max(1, 2**20 // (columns.shape[1] * block.shape[1] + 1))  # 4 MB
    parts = zip(torch.split(queries, at_once), torch.split(columns, at_once), strict=True)
    return torch.cat([(some[:, None] * block[rows]).sum(dim=2) for some, rows in parts])


def _comparable(a: Any, b: Any, metric: str) -> tuple[Tensor, Tensor]:
    if metric not in METRICS:
        raise ValueError(f"metric should be one of {', '.join(METRICS)}, not {metric!r}.")
    left, right = _matrix(a), _matrix(b)
    if left.shape[1] != right.shape[1]:
        raise ValueError(f"the vectors should be equally long, but have {left.shape[1]} and {right.shape[1]} numbers.")
    return left, right


def _matrix(vectors: Any) -> Tensor:
    """Vectors as a float32 tensor (n, D) on the CPU."""
    if isinstance(vectors, list | tuple) and len(vectors) and isinstance(vectors[0], Tensor):
        vectors = torch.stack(list(vectors))
    if isinstance(vectors, Tensor):
        vectors = vectors.detach().cpu().float().numpy()
    return torch.from_numpy(np.atleast_2d(np.array(vectors, dtype=np.float32)))
