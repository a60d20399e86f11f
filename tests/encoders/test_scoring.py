"""Logits to scores: one rule for torch, ONNX Runtime and the service, and an order for ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from tiny_folder import classifier_folder
from torch import nn

from minibert import CrossEncoder, classify, rerank
from minibert.encoders.arithmetic.scoring import (
    activate,
    best_first,
    class_activation,
    label_scores,
)
from minibert.encoders.auto import load_with_heads
from minibert.encoders.folders.sentence_folder import ACTIVATION_CLASSES
from minibert.util.checks import TruncationWarning


@pytest.mark.parametrize("name", [*ACTIVATION_CLASSES, "Softmax"])
@pytest.mark.parametrize("texts", [2, 0])
def test_arrays_and_tensors_have_the_same_scores(name: str, texts: int) -> None:
    logits = np.array([[-200, -3, 0, 0.5], [1, 2, 30, 200]], dtype=np.float32)[:texts]
    with np.errstate(all="raise", under="ignore"):
        scores = activate(logits, name)
    assert scores.dtype == np.float32
    expected = activate(torch.from_numpy(logits), name)
    np.testing.assert_allclose(scores, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("num_labels", "problem", "expected"),
    [
        (1, None, "Identity"),
        (1, "regression", "Identity"),
        (1, "multi_label_classification", "Sigmoid"),
        (2, None, "Softmax"),
        (3, "single_label_classification", "Softmax"),
        (3, "multi_label_classification", "Sigmoid"),
        (3, "regression", "Identity"),
    ],
)
def test_the_rule_of_classifiers(num_labels: int, problem: Any, expected: str) -> None:
    assert class_activation(tiny_config(num_labels=num_labels, problem_type=problem)) == expected


class TestTies:
    """Scores that are equal after rounding keep the order of their logits."""

    def test_best_first(self) -> None:
        logits = np.array([20.0, 40.0, 30.0, 40.0, -5.0], dtype=np.float32)
        scores = activate(logits, "Sigmoid")
        assert len(set(scores.tolist())) == 2
        assert best_first(scores, logits) == [1, 3, 2, 0, 4]
        assert best_first(scores, logits, 2) == [1, 3]

    @pytest.mark.parametrize("bias", [-120.0, 0.0, 30.0, 90.0])
    @pytest.mark.parametrize("activation", [nn.Sigmoid(), nn.Tanh(), nn.Identity()])
    def test_rank(self, tmp_path: Path, bias: float, activation: nn.Module) -> None:
        encoder = CrossEncoder(classifier_folder(tmp_path, 1), activation_fn=activation)
        with torch.no_grad():
            encoder.model.classifier.bias.fill_(bias)
        documents = ["trees grow", "hello world", "in korea", "", "tall trees", "how do trees"]
        by_logits = encoder.rank("hello", documents, activation_fn=nn.Identity())
        ranking = encoder.rank("hello", documents)
        assert [one["corpus_id"] for one in ranking] == [one["corpus_id"] for one in by_logits]

    @pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
    @pytest.mark.parametrize(
        ("problem", "logits"),
        [
            ("multi_label_classification", [20.0, 40.0, 30.0]),
            ("multi_label_classification", [-300.0, -150.0, -200.0]),
            ("single_label_classification", [-300.0, 0.0, -200.0]),
            ("regression", [-1.0, 2.0, 1.0]),
        ],
    )
    def test_labels(self, problem: str, logits: list[float], kind: Any) -> None:
        config = tiny_config(id2label=dict(enumerate("abc")), problem_type=problem)
        labels = label_scores(config, kind(np.array(logits, dtype=np.float32)))
        assert [label["label"] for label in labels] == ["b", "c", "a"]

    def test_classify(self, tmp_path: Path) -> None:
        several = {"problem_type": "multi_label_classification"}
        model, tokenizer = load_with_heads(classifier_folder(tmp_path, 3, **several))
        with torch.no_grad():
            model.classifier.bias.copy_(torch.tensor([60.0, 100.0, 80.0]))
        labels = classify(model, tokenizer, "hello", top_k=2)
        assert labels == [{"label": f"LABEL_{best}", "score": 1.0} for best in (1, 2)]


class TestTruncation:
    """A reranker says how many pairs it has truncated."""

    @pytest.fixture
    def encoder(self, tmp_path: Path) -> CrossEncoder:
        return CrossEncoder(classifier_folder(tmp_path, 1), max_length=12)

    DOCUMENTS = ("trees", "tall trees grow in korea " * 3, "hello", "how do trees grow " * 5)

    def test_rank(self, encoder: CrossEncoder) -> None:
        with pytest.warns(UserWarning, match="2 of 4 pairs have more than 12 tokens") as caught:
            ranking = encoder.rank("hello", self.DOCUMENTS)
        assert caught[0].filename == __file__
        assert list(ranking.truncated) == [1, 3] and len(ranking) == 4

    def test_predict(self, encoder: CrossEncoder) -> None:
        pairs = [("hello", document) for document in self.DOCUMENTS]
        with pytest.warns(UserWarning, match="2 of 4 pairs have more than 12 tokens") as caught:
            encoder.predict(pairs)
        assert caught[0].filename == __file__

    def test_rerank(self, encoder: CrossEncoder) -> None:
        encoder.tokenizer.model_max_length = 12
        with pytest.warns(UserWarning, match="2 of 4 pairs have more than 12 tokens"):
            rerank(encoder.model, encoder.tokenizer, "hello", self.DOCUMENTS)

    def test_nothing_is_said_of_texts_that_fit(
        self, encoder: CrossEncoder, recwarn: pytest.WarningsRecorder
    ) -> None:
        assert list(encoder.rank("hello", self.DOCUMENTS[:1]).truncated) == []
        # Python's collector may warn of what other tests left open
        assert not [warned for warned in recwarn if warned.category is TruncationWarning]
