"""Shards of vectors in faiss, for corpora that are too large to look at every vector: `pip install faiss-cpu`.

    minibert embed --file lines.txt --output vectors/ --normalize
    python scripts/clients/with_faiss.py vectors "a question" --corpus lines.txt

The index keeps a byte for each number (a quarter of the memory); what it finds is compared again with the vectors
themselves, which stay on disk.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from minibert import SentenceEmbedder, open_vectors
from minibert.corpus.formats import ShardedVectors
from minibert.files import read_lines

ROWS = 16384  # that are read at a time


def build(corpus: ShardedVectors, cells: int = 0) -> Any:
    """An index of the cosines of a corpus, (N, D); with `cells`, only the nearest of so many are looked at."""
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
    index.train(
        unit(corpus[: max(ROWS, 40 * cells)])
    )  # the range of each number, and where the cells are
    for start in range(0, len(corpus), ROWS):
        index.add(unit(corpus[start : start + ROWS]))
    return index


def search(
    index: Any, corpus: ShardedVectors, queries: np.ndarray[Any, Any], top: int = 5
) -> list[list[Any]]:
    """Row numbers and exact cosines of the `top` rows for each query, (n, D); four times as many are compared."""
    results = []
    wanted = unit(queries)
    for query, rows in zip(wanted, index.search(wanted, 4 * top)[1], strict=True):
        scores = {int(row): float(unit(corpus[int(row)]) @ query) for row in rows if row >= 0}
        results.append(sorted(scores.items(), key=lambda pair: -pair[1])[:top])
    return results


def unit(vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Vectors of length 1."""
    return np.ascontiguousarray(
        vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vectors", help="folder that minibert embed --output wrote")
    parser.add_argument("queries", nargs="+")
    parser.add_argument("--corpus", required=True, help="the texts, one a line")
    parser.add_argument("--model", default="minibert-en")
    parser.add_argument(
        "--cells", type=int, default=0, help="more than 0 for millions of vectors: about sqrt(N)"
    )
    parser.add_argument("--top", type=int, default=5)
    options = parser.parse_args()
    corpus: Any = open_vectors(Path(options.vectors))
    texts, embedder = (
        list(read_lines(options.corpus)),
        SentenceEmbedder.from_pretrained(options.model),
    )
    found = search(
        build(corpus, options.cells), corpus, embedder.encode_query(options.queries), options.top
    )
    for query, hits in zip(options.queries, found, strict=True):
        print(query)
        for row, score in hits:
            print(f"{score:.4f}  {row + 1:>6}  {texts[row]}")


if __name__ == "__main__":
    main()
