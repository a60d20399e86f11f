"""Scores of fine-tuned models. They equal those of scikit-learn, scipy and seqeval."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minibert.tasks.entities import entity_spans

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.float64]
"""Right, predicted and expected items of each class, (3, classes)."""


@dataclass(frozen=True)
class ClassScores:
    """How well a class is predicted.

    Attributes:
        label: The class.
        precision: Share of its predictions that are right.
        recall: Share of its items that are predicted.
        f1: Harmonic mean of the two.
        support: How many items the class has.
    """

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def ratio(part: Any, whole: Any) -> Floats:
    """`part / whole`, and 0 where the whole is 0."""
    part = np.asarray(part, dtype=np.float64)
    whole = np.asarray(whole, dtype=np.float64)
    result: Floats = np.zeros(np.broadcast(part, whole).shape)
    np.divide(part, whole, out=result, where=whole != 0)
    return result


def f1_of_counts(counts: Counts) -> Floats:
    """F1 of each class."""
    right, predicted, expected = counts
    return ratio(2 * right, predicted + expected)


def class_scores_of_counts(labels: Sequence[str], counts: Counts) -> list[ClassScores]:
    """Precision, recall and F1 of each class."""
    right, predicted, expected = counts
    columns = (ratio(right, predicted), ratio(right, expected), f1_of_counts(counts), expected)
    rows = zip(labels, *columns, strict=True)
    return [
        ClassScores(label, float(precision), float(recall), float(f1), int(support))
        for label, precision, recall, f1, support in rows
    ]


def confusion_matrix(
    labels: npt.ArrayLike, predictions: npt.ArrayLike, classes: int
) -> npt.NDArray[np.int64]:
    """How often each class (rows) is predicted as each class (columns)."""
    cells = np.asarray(labels) * classes + np.asarray(predictions)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def classification_scores(labels: Sequence[int], predictions: Sequence[int]) -> dict[str, float]:
    """Accuracy, and F1 averaged over the classes that occur in labels or predictions."""
    classes = 1 + max(*labels, *predictions)
    return confusion_scores(confusion_matrix(labels, predictions, classes))


def confusion_scores(confusion: npt.NDArray[np.int64]) -> dict[str, float]:
    """Accuracy and macro F1 of a confusion matrix."""
    counts = confusion_counts(confusion)
    occurs = counts[1:].sum(0) > 0
    return {
        "accuracy": float(ratio(confusion.trace(), confusion.sum())),
        "f1": float(f1_of_counts(counts)[occurs].mean()),
    }


def confusion_counts(confusion: npt.NDArray[np.int64]) -> Counts:
    """The counts of each class in a confusion matrix."""
    return np.stack([confusion.diagonal(), confusion.sum(0), confusion.sum(1)]).astype(np.float64)


def multi_label_scores(labels: Any, predictions: Any) -> dict[str, float]:
    """Compute micro and macro F1, and the share of rows whose labels are all right.

    Both arguments are (rows, labels) of bool.
    """
    expected = np.asarray(labels, dtype=bool)
    predicted = np.asarray(predictions, dtype=bool)
    counts = multi_label_counts(expected, predicted)
    return {
        "f1_micro": float(f1_of_counts(counts.sum(1))),
        "f1_macro": float(f1_of_counts(counts).mean()),
        "accuracy": float((expected == predicted).all(1).mean()),
    }


def multi_label_counts(expected: Any, predicted: Any) -> Counts:
    """The counts of each label. Both arguments are (rows, labels) of bool."""
    right = (expected & predicted).sum(0)
    return np.stack([right, predicted.sum(0), expected.sum(0)]).astype(np.float64)


def regression_scores(labels: Sequence[float], predictions: Sequence[float]) -> dict[str, float]:
    """Pearson's and Spearman's correlation, or 0 if labels or predictions are all the same."""
    expected = np.asarray(labels, dtype=np.float64)
    predicted = np.asarray(predictions, dtype=np.float64)
    return {
        "pearson": _correlation(expected, predicted),
        "spearman": _correlation(average_ranks(expected), average_ranks(predicted)),
    }


def _correlation(x: Floats, y: Floats) -> float:
    if x.min() == x.max() or y.min() == y.max():
        return 0.0
    x = x - x.mean()
    y = y - y.mean()
    cosine = (x / np.linalg.norm(x)) @ (y / np.linalg.norm(y))
    return float(np.clip(cosine, -1, 1))


def average_ranks(values: Floats) -> Floats:
    """Ranks from 1. Equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    means = last - (counts - 1) / 2
    ranks: Floats = means[inverse]
    return ranks


Entity = tuple[int, str, int, int]
"""Sentence, kind, first word and the word after the last."""


def entities_of(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> tuple[set[Entity], set[Entity]]:
    """The entities that sentences have, and those that were predicted."""
    all_tags = {tag for rows in (labels, predictions) for row in rows for tag in row}
    expected, predicted = (
        {(number, *span) for number, row in enumerate(rows) for span in entity_spans(row, all_tags)}
        for rows in (labels, predictions)
    )
    return expected, predicted


def entity_counts(
    expected: set[Entity], predicted: set[Entity], sentences: int
) -> tuple[list[str], Floats]:
    """The kinds of entities, and their counts in each sentence, (sentences, 3, kinds)."""
    kinds = sorted({entity[1] for entity in expected | predicted})
    counts = np.zeros((sentences, 3, len(kinds)))
    for row, entities in enumerate((expected & predicted, predicted, expected)):
        for sentence, kind, _, _ in entities:
            counts[sentence, row, kinds.index(kind)] += 1
    return kinds, counts


def entity_scores(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Compute precision, recall and F1 of whole entities.

    Entities are counted as in the CoNLL-2003 task, with tags such as B-PER, I-PER and O.

    `macro_f1` is the mean over the kinds of entities, the "entity F1" of KLUE (Park et al. 2021,
    section 3.4).

    An entity is what `minibert.find_entities` makes of the tags. It is right if kind, first and
    last word are.
    """
    expected, predicted = entities_of(labels, predictions)
    _, counts = entity_counts(expected, predicted, len(labels))
    return entity_scores_of_counts(counts.sum(0))


def entity_scores_of_counts(counts: Counts) -> dict[str, float]:
    """The scores of `entity_scores`. Kinds that do not occur are left out."""
    occurs = counts[1:].sum(0) > 0
    kinds_f1 = f1_of_counts(counts)[occurs]
    right, predicted, expected = counts.sum(1)
    return {
        "f1": float(ratio(2 * right, predicted + expected)),
        "macro_f1": float(kinds_f1.mean()) if len(kinds_f1) else 0.0,
        "precision": float(ratio(right, predicted)),
        "recall": float(ratio(right, expected)),
    }


def answer_scores(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Compute exact match and F1 of answers.

    Answers are normalized as in the SQuAD paper (Rajpurkar et al. 2016, section 6.1).

    Args:
        answers: The right answers of each question, one of which has to be matched. None if it has
            no answer.
        predictions: One for each question.
    """
    exact, overlap = answer_agreements(answers, predictions).mean(0).tolist()
    return {"exact_match": exact, "f1": overlap}


def answer_agreements(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> Floats:
    """Exact match and F1 of each prediction with the best of its answers, (questions, 2)."""
    rows = []
    for expected, prediction in zip(answers, predictions, strict=True):
        agreements = [_agreement(answer, prediction) for answer in expected or [""]]
        rows.append(np.max(agreements, axis=0))
    return np.array(rows)


def _agreement(answer: str, prediction: str) -> tuple[float, float]:
    """Whether two answers have the same words, 0 or 1, and the F1 of the words in common."""
    expected = _words(answer)
    predicted = _words(prediction)
    exact = float(expected == predicted)
    if not expected or not predicted:
        return exact, exact
    common = sum((Counter(expected) & Counter(predicted)).values())
    return exact, 2 * common / (len(expected) + len(predicted))


def _words(text: str) -> list[str]:
    """In lower case, without punctuation and articles."""
    text = "".join(char for char in text.lower() if char not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()
