"""Metrics on small examples whose scores are computed by hand."""

from __future__ import annotations

import pytest

from minibert.tasks.metrics import (
    answer_scores,
    classification_scores,
    entity_scores,
    regression_scores,
)


def test_classification() -> None:
    scores = classification_scores([0, 0, 1, 1], [0, 1, 1, 1])
    assert scores["accuracy"] == 0.75
    assert scores["f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_regression_has_rank_and_linear_correlation() -> None:
    scores = regression_scores([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])
    assert scores["spearman"] == pytest.approx(1.0)
    assert 0.9 < scores["pearson"] < 1.0
    assert regression_scores([1.0, 2.0], [3.0, 3.0]) == {"pearson": 0.0, "spearman": 0.0}


def test_an_entity_counts_only_as_a_whole() -> None:
    right = [["B-PER", "I-PER", "O", "B-LOC"]]
    assert entity_scores(right, right)["f1"] == 1.0
    half = entity_scores(right, [["B-PER", "O", "O", "B-LOC"]])
    assert half == {"f1": 0.5, "macro_f1": 0.5, "precision": 0.5, "recall": 0.5}
    assert set(entity_scores([["O", "O"]], [["O", "O"]]).values()) == {0.0}


def test_macro_f1_is_the_mean_over_entity_types() -> None:
    """KLUE uses it: seqeval with average="macro", where a type without entities counts as 0."""
    right = [["B-PER", "O", "B-PER", "O", "B-LOC", "O"]]
    scores = entity_scores(right, [["B-PER", "O", "O", "O", "B-LOC", "B-ORG"]])
    # PER has 2/3, LOC 1, and ORG 0, because it is only predicted
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert scores["f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("right", "predicted", "precision", "recall"),
    [
        ("I-PER I-PER O", "B-PER I-PER O", 1, 1),  # I- can begin an entity, as in CoNLL-2003
        ("B-PER B-PER O", "B-PER I-PER O", 0, 0),
        ("B-PER I-LOC O", "B-PER B-LOC O", 1, 1),
        ("B-PER I-PER O", "B-LOC I-LOC O", 0, 0),
        ("B-PER O B-PER", "B-PER O O", 1, 1 / 2),
        ("B-PER O O", "B-PER O B-PER", 1 / 2, 1),
        ("B-PER I-PER I-PER E-PER", "B-PER I-PER E-PER S-PER", 0, 0),
        ("S-PER S-PER B-PER E-PER", "S-PER B-PER E-PER S-PER", 1 / 3, 1 / 3),
    ],
)
def test_where_entities_begin_and_end(
    right: str, predicted: str, precision: float, recall: float
) -> None:
    """The scores are those of seqeval, the most common library."""
    scores = entity_scores([right.split()], [predicted.split()])
    assert (scores["precision"], scores["recall"]) == (
        pytest.approx(precision),
        pytest.approx(recall),
    )
    assert scores["f1"] == pytest.approx(2 * precision * recall / max(1e-9, precision + recall))


def test_an_entity_in_another_sentence_does_not_count() -> None:
    assert entity_scores([["B-PER"], ["O"]], [["O"], ["B-PER"]])["f1"] == 0.0


def test_answers_are_compared_without_articles_case_and_punctuation() -> None:
    answers = [["Denver Broncos", "The Denver Broncos"], ["1963"], []]
    assert answer_scores(answers, ["the denver broncos!", "1963.", ""]) == {
        "exact_match": 1.0,
        "f1": 1.0,
    }
    partial = answer_scores([["in the city of Paris"]], ["Paris"])
    assert partial == {"exact_match": 0.0, "f1": pytest.approx(2 * 1 / (4 + 1))}
    assert answer_scores([[]], ["something"]) == {"exact_match": 0.0, "f1": 0.0}
