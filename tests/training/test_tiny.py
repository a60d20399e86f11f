"""The bundled model minibert-tiny: its files, and the scores on its card."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from conftest import shared_data, sts_dev
from recipe import measures
from safetensors.torch import load_file
from scipy.stats import spearmanr

from minibert import BertForPreTraining, BertModel, BertTokenizer, SentenceEmbedder
from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.training.corpora import encode_documents

FOLDER = BUNDLED_MODELS / "minibert-tiny"


def card_score(name: str, column: int = 1) -> float:
    """Return a score from the card's table (column 1) or its baseline (column 2)."""
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| {re.escape(name)} \|.*", card, re.MULTILINE)
    assert match, f"the card has no score called {name}"
    return float(match[0].strip("| ").split(" | ")[column])


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
    model = BertForPreTraining.from_pretrained("minibert-tiny").eval()
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    documents = measures.wikitext(shared_data("data", "wikitext2", "test.txt"))
    scores = measures.masked_words(model, tokenizer, list(encode_documents(documents, tokenizer)))
    name = "WikiText-2 test, masked words"
    assert scores["accuracy"] == pytest.approx(card_score(name), abs=0.002)
    assert scores["most_frequent"] == pytest.approx(card_score(name, column=2), abs=0.002)


@pytest.mark.slow
def test_next_sentences_have_the_score_of_the_card() -> None:
    import make_tiny

    score = make_tiny.measure(FOLDER, shared_data("data"))["next_sentence_accuracy"]
    expected = card_score("WikiText-2 test, next sentence or not")
    assert score == pytest.approx(expected, abs=0.002)
