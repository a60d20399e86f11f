"""The bundled model minibert-tiny: its files, and the scores on its card."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import shared_data, sts_dev
from safetensors.torch import load_file
from scipy.stats import spearmanr

from minibert import BertForPreTraining, BertModel, SentenceEmbedder
from minibert.checkpoints.source import BUNDLED_MODELS

FOLDER = BUNDLED_MODELS / "minibert-tiny"


def card_score(name: str) -> float:
    """Return a number from the card's table of scores."""
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| {re.escape(name)} \| ([\d.]+)", card, re.MULTILINE)
    assert match, f"the card has no score called {name}"
    return float(match[1])


def test_files_fit_the_wheel() -> None:
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) < 10_000_000
    tensors = load_file(FOLDER / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_no_tensor_is_missing_or_unexpected() -> None:
    model = BertForPreTraining.from_pretrained("minibert-tiny")
    assert model.dtype == torch.float32
    assert model.load_report is not None
    assert model.load_report.problems("BertForPreTraining") == []
    config = BertModel.from_pretrained("minibert-tiny").config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (2, 128, 2)


def test_sentence_vectors_have_the_score_of_the_card() -> None:
    first, second, scores = sts_dev()
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    a = np.asarray(embedder.encode(first))
    b = np.asarray(embedder.encode(second))
    cosines = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    spearman = float(spearmanr(cosines, scores).statistic)
    assert spearman >= 0.82
    assert spearman == pytest.approx(card_score("STS-B dev, Spearman"), abs=0.001)


@pytest.mark.slow
def test_masked_words_have_the_scores_of_the_card() -> None:
    import make_tiny

    scores = make_tiny.measure(FOLDER, Path(shared_data("data")))
    assert scores["masked_accuracy"] >= 2 * scores["most_frequent_word"]
    names = {
        "masked_accuracy": "WikiText-2 test, masked words",
        "most_frequent_word": "WikiText-2 test, always the most frequent word",
        "next_sentence_accuracy": "WikiText-2 test, next sentence or not",
    }
    for key, name in names.items():
        assert scores[key] == pytest.approx(card_score(name), abs=0.002), json.dumps(scores)
