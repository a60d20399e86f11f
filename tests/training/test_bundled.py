"""Bundled models of `scripts/make_models.py`: their files, and the scores on their cards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import shared_data
from recipe import measures, table, texts
from safetensors.torch import load_file

from minibert import BertForPreTraining, BertTokenizer, SentenceEmbedder
from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.training.corpora import encode_documents

SIZES = {"minibert-en": 26_000_000, "minibert-ko": 24_000_000}

pytestmark = pytest.mark.usefixtures("one_thread")


def card_score(model: str, name: str) -> float:
    """Return a number from a card's table of scores."""
    card = (BUNDLED_MODELS / model / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| {re.escape(name)} \| ([\d.]+)", card, re.MULTILINE)
    assert match, f"the card has no score called {name}"
    return float(match[1])


def load(name: str) -> tuple[BertForPreTraining, Any]:
    return BertForPreTraining.from_pretrained(name).eval(), BertTokenizer.from_pretrained(name)


@pytest.mark.parametrize("name", SIZES)
def test_files_are_in_the_official_format_and_fit_the_wheel(name: str) -> None:
    path = BUNDLED_MODELS / name / "model.safetensors"
    assert path.stat().st_size < SIZES[name]
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.bfloat16}
    model, tokenizer = load(name)
    assert model.dtype == torch.float32
    assert model.load_report is not None
    assert model.load_report.problems("BertForPreTraining") == []
    assert len(tokenizer) == model.config.vocab_size


def test_everyday_prompts_have_the_score_of_the_card() -> None:
    fitting = measures.fitting_words(
        *load("minibert-en"), measures.read_prompts(table.PROMPTS["en"])
    )
    assert sum(fitting) >= 88
    score = card_score("minibert-en", "everyday prompts, a fitting word among the first five")
    assert sum(fitting) == pytest.approx(score, abs=1)


@pytest.mark.parametrize(
    ("name", "file", "score"),
    [
        ("minibert-en", "stsb/stsb-dev.csv", "STS-B dev, Spearman"),
        ("minibert-ko", "korsts/sts-dev.tsv", "KorSTS dev, Spearman"),
    ],
)
@pytest.mark.slow
def test_sentence_vectors_have_the_score_of_the_card(name: str, file: str, score: str) -> None:
    """The vectors are L2-normalized, so their dot product is the cosine."""
    rows = measures.sts_rows(Path(shared_data("data")) / file)
    embedder = SentenceEmbedder.from_pretrained(name)
    first, second = (np.asarray(embedder.encode([row[n] for row in rows])) for n in (5, 6))
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    spearman = float(
        measures.spearmanr((first * second).sum(-1), [float(row[4]) for row in rows]).statistic
    )
    assert spearman == pytest.approx(card_score(name, score), abs=0.001)


@pytest.mark.slow
def test_a_korean_sentence_finds_its_english_translation() -> None:
    """The models share a vector space. The search is over all 1,500 first sentences."""
    vectors = []
    for name, file in (("minibert-ko", "korsts/sts-dev.tsv"), ("minibert-en", "stsb/stsb-dev.csv")):
        sentences = [row[5] for row in measures.sts_rows(Path(shared_data("data")) / file)]
        model, tokenizer = load(name)
        vectors.append(measures.vectors(model.bert, tokenizer, sentences))
    score = card_score("minibert-ko", "Korean finds English")
    assert measures.retrieval_accuracy(*vectors, sentences) == pytest.approx(score, abs=0.002)


@pytest.mark.slow
def test_masked_words_have_the_scores_of_the_cards() -> None:
    data = Path(shared_data("data"))
    wikitext = measures.wikitext(data / "wikitext2" / "test.txt")
    reviews = texts.lines_as_documents(data / "korean" / "nsmc-reviews.txt.xz")
    held_back = [review for review in reviews if texts.is_held_back(review)]
    for name, label, documents in (
        ("minibert-en", "WikiText-2 test", wikitext),
        ("minibert-ko", "held-back reviews", held_back),
    ):
        model, tokenizer = load(name)
        encoded = list(encode_documents(documents, tokenizer))
        scores = measures.masked_words(model, tokenizer, encoded)
        accuracy = card_score(name, f"{label}, masked words")
        most_frequent = card_score(name, f"{label}, the most frequent piece")
        assert scores["accuracy"] == pytest.approx(accuracy, abs=0.002)
        assert scores["most_frequent"] == pytest.approx(most_frequent, abs=0.002)
