"""The scores; what the libraries compute is theirs to test, what is written here is checked by hand."""

from __future__ import annotations

import sys

import pytest

from minibert.training.metrics import answer_scores, classification_scores, entity_scores, regression_scores


def test_classification() -> None:
    scores = classification_scores([0, 0, 1, 1], [0, 1, 1, 1])
    assert scores["accuracy"] == 0.75
    assert scores["f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_regression_tells_order_from_line() -> None:
    scores = regression_scores([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])
    assert scores["spearman"] == pytest.approx(1.0)
    assert 0.9 < scores["pearson"] < 1.0
    assert regression_scores([1.0, 2.0], [3.0, 3.0]) == {"pearson": 0.0, "spearman": 0.0}


def test_an_entity_counts_only_as_a_whole() -> None:
    right = [["B-PER", "I-PER", "O", "B-LOC"]]
    assert entity_scores(right, right)["f1"] == 1.0
    half = entity_scores(right, [["B-PER", "O", "O", "B-LOC"]])
    assert half == {"f1": 0.5, "precision": 0.5, "recall": 0.5}


def test_answers_are_compared_without_articles_case_and_punctuation() -> None:
    answers = [["Denver Broncos", "The Denver Broncos"], ["1963"], []]
    assert answer_scores(answers, ["the denver broncos!", "1963.", ""]) == {"exact_match": 1.0, "f1": 1.0}
    partly = answer_scores([["in the city of Paris"]], ["Paris"])
    assert partly == {"exact_match": 0.0, "f1": pytest.approx(2 * 1 / (4 + 1))}
    assert answer_scores([[]], ["something"]) == {"exact_match": 0.0, "f1": 0.0}


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "seqeval.metrics", None)
    with pytest.raises(ImportError, match=r"Measuring needs seqeval, which is not installed: pip install .*\[train\]'"):
        entity_scores([["O"]], [["O"]])
