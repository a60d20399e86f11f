"""Searches shards of vectors with faiss, for corpora that are too large for exact search.

    pip install faiss-cpu
    minibert embed --file lines.txt --output vectors/ --normalize
    python scripts/clients/with_faiss.py vectors "a question" --corpus lines.txt

The index stores one byte per dimension, a quarter of the memory of float32. Its matches are
rescored with the exact vectors, which stay on disk.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from minibert import SentenceEmbedder, open_vectors
from minibert.text import read
from minibert.vectors.folder import ShardedVectors

ROWS = 16384  # read at a time


def build(corpus: ShardedVectors, cells: int = 0) -> Any:
    """Builds a cosine index of a corpus of shape (N, D).

    Args:
        corpus: The vectors.
        cells: Number of clusters. A query is compared with the nearest sixteenth of them. With 0,
            it is compared with all vectors.
    """
    dimension = corpus.shape[1]
    coarse = faiss.IndexScalarQuantizer(
        dimension, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index: Any = coarse
    if cells:
        index = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(dimension),
            dimension,
            cells,
            faiss.ScalarQuantizer.QT_8bit,
            faiss.METRIC_INNER_PRODUCT,
        )
        index.nprobe = max(1, cells // 16)
    # learns the range of each dimension, and the centroids of the cells
    index.train(l2_normalize(corpus[: max(ROWS, 40 * cells)]))
    for start in range(0, len(corpus), ROWS):
        index.add(l2_normalize(corpus[start : start + ROWS]))
    return index


def search(
    index: Any, corpus: ShardedVectors, queries: np.ndarray[Any, Any], top: int = 5
) -> list[list[Any]]:
    """Finds the nearest rows of each query.

    Args:
        index: What `build` returns.
        corpus: The vectors of the index, for exact cosines.
        queries: Vectors of the queries, (n, D).
        top: Number of results for each query. Four times as many candidates are rescored.

    Returns:
        For each query, (row, cosine) pairs in descending order of the cosine.
    """
    results = []
    normalized = l2_normalize(queries)
    for query, rows in zip(normalized, index.search(normalized, 4 * top)[1], strict=True):
        scores = {}
        for row in rows:
            if row >= 0:  # faiss fills up with -1
                scores[int(row)] = float(l2_normalize(corpus[int(row)]) @ query)
        results.append(sorted(scores.items(), key=lambda pair: -pair[1])[:top])
    return results


def l2_normalize(vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns L2-normalized vectors."""
    return np.ascontiguousarray(
        vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vectors", help="Folder that minibert embed --output wrote.")
    parser.add_argument("queries", nargs="+", help="Texts to search for.")
    parser.add_argument("--corpus", required=True, help="File of the texts, one per line.")
    parser.add_argument("--model", default="minibert-en", help="Model of the vectors.")
    parser.add_argument(
        "--cells",
        type=int,
        default=0,
        help="Number of clusters, about sqrt(N) for millions of vectors (default: 0, no clusters).",
    )
    parser.add_argument("--top", type=int, default=5, help="Number of results for each query.")
    options = parser.parse_args()
    corpus: Any = open_vectors(Path(options.vectors))
    texts = [row.text for row in read(options.corpus)]
    embedder = SentenceEmbedder.from_pretrained(options.model)
    queries = embedder.encode_query(options.queries)
    matches = search(build(corpus, options.cells), corpus, queries, options.top)
    for query, hits in zip(options.queries, matches, strict=True):
        print(query)
        for row, score in hits:
            print(f"{score:.4f}  {row + 1:>6}  {texts[row]}")


if __name__ == "__main__":
    main()
