"""Scores of fine-tuned models: arithmetic on numpy arrays and lists, without a model.

They equal those of scikit-learn, scipy, seqeval, conlleval and SQuAD's script.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minibert.encoders.rows.entity_tags import entity_spans

OF_CLASS = "f1:"
"""Beginning of the name of a metric that is the F1 of one class."""
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


def is_lower_better(metric: str) -> bool:
    """Whether a metric is an error or a loss, which is best when lowest."""
    return metric.endswith(("loss", "mse", "mae")) and not metric.startswith(OF_CLASS)


def ratio(part: Any, whole: Any) -> Floats:
    """`part / whole`, and 0 where the whole is 0."""
    result: Floats = np.zeros(np.shape(whole))
    np.divide(part, whole, out=result, where=np.not_equal(whole, 0))
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


def classification_scores(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> dict[str, float]:
    """Accuracy, and F1 averaged over the classes that occur in labels or predictions."""
    confusion = confusion_matrix(labels, predictions, 1 + max(np.max(labels), np.max(predictions)))
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


def matthews_correlation(labels: npt.ArrayLike, predictions: npt.ArrayLike) -> float:
    """Matthews' correlation, of two classes or more (Gorodkin 2004). 0 where it is not defined."""
    classes = 1 + int(max(np.max(labels), np.max(predictions)))
    confusion = confusion_matrix(labels, predictions, classes).astype(np.float64)
    total = confusion.sum()
    expected, predicted = confusion.sum(1), confusion.sum(0)
    covariance = confusion.trace() * total - expected @ predicted
    spread = (total**2 - predicted @ predicted) * (total**2 - expected @ expected)
    return float(ratio(covariance, np.sqrt(spread)))


def area_under_curve(labels: Any, scores: Any) -> float:
    """The area under the ROC curve, its mean over the classes.

    Of two classes it is that of either. NaN if no class has rows with and without it.

    Args:
        labels: Whether each row has each class, (rows, classes).
        scores: (rows, classes).
    """
    expected = np.asarray(labels, dtype=bool)
    values = np.asarray(scores)
    positives = expected.sum(0)
    areas = []
    for index in np.flatnonzero((positives > 0) & (positives < len(expected))).tolist():
        count = positives[index]
        ranks = average_ranks(values[:, index])[expected[:, index]]
        pairs = count * (len(expected) - count)
        areas.append((ranks.sum() - count * (count + 1) / 2) / pairs)
    return float(np.mean(areas)) if areas else math.nan


def mean_average_precision(labels: Any, scores: Any) -> float:
    """The mean over the labels of the area under the curve of precision and recall.

    It needs no threshold. Labels that no row has are left out.

    Args:
        labels: Whether each row has each label, (rows, labels).
        scores: (rows, labels).
    """
    expected = np.asarray(labels, dtype=bool)
    values = np.asarray(scores, dtype=np.float64)
    occurring = np.flatnonzero(expected.any(0))
    if not len(occurring):
        return 0.0
    return float(np.mean([_average_precision(expected[:, i], values[:, i]) for i in occurring]))


def _average_precision(expected: npt.NDArray[np.bool_], scores: Floats) -> float:
    order = np.argsort(-scores)
    # rows of equal scores are predicted together
    last_of_equal = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(expected[order])[last_of_equal]
    return float((np.diff(hits, prepend=0) * hits / (last_of_equal + 1)).sum() / hits[-1])


def ranking_scores(labels: npt.ArrayLike, scores: npt.ArrayLike, k: int = 10) -> Floats:
    """Reciprocal rank and nDCG of one query, both among the first `k` documents, (2,).

    Documents of equal scores are in a random order: the rank is the expected one, and so are the
    gains.

    Args:
        labels: How relevant each document is. 0 or less is not at all.
        scores: The documents are ranked by them, highest first.
        k: Number of documents that count.

    Returns:
        Both are 0 if no document is relevant.
    """
    relevance = np.maximum(0, labels)
    values = np.asarray(scores, dtype=np.float64)
    if not relevance.any():
        return np.zeros(2)
    is_relevant = relevance > 0
    highest = values[is_relevant].max()
    is_equal = values == highest
    others_before = (is_equal & ~is_relevant).sum() / (1 + (is_equal & is_relevant).sum())
    best = 1 + (values > highest).sum() + others_before
    _, groups = np.unique(-values, return_inverse=True)
    gains = np.bincount(groups, relevance) / np.bincount(groups)
    discounts = 1 / np.log2(np.arange(min(k, len(values))) + 2)
    gained = np.sort(groups)[:k]
    ideal = np.sort(relevance)[::-1][:k]
    return np.array(
        [1 / best if best <= k else 0.0, (gains[gained] @ discounts) / (ideal @ discounts)]
    )


def regression_scores(labels: Sequence[float], predictions: Sequence[float]) -> dict[str, float]:
    """Correlations, mean squared error and mean absolute error."""
    errors = np.subtract(predictions, labels, dtype=np.float64)
    return {
        **correlations(labels, predictions),
        "mse": float(np.square(errors).mean()),
        "mae": float(np.abs(errors).mean()),
    }


def correlations(labels: Sequence[float], predictions: Sequence[float]) -> dict[str, float]:
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


def entity_counts(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> tuple[list[str], Floats]:
    """The kinds of entities in tagged sentences, and their counts, (sentences, 3, kinds)."""
    expected, predicted = (
        {(number, span) for number, tags in enumerate(sentences) for span in entity_spans(tags)}
        for sentences in (labels, predictions)
    )
    kinds = sorted({span.kind for _, span in expected | predicted})
    counts = np.zeros((len(labels), 3, len(kinds)))
    for row, entities in enumerate((expected & predicted, predicted, expected)):
        for sentence, span in entities:
            counts[sentence, row, kinds.index(span.kind)] += 1
    return kinds, counts


def entity_scores(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Compute precision, recall and F1 of whole entities, and the accuracy of the tags.

    An entity is what `entity_spans` makes of the tags. It is right if kind, first and last word
    are.

    `macro_f1` is the mean over the kinds of entities, the "entity F1" of KLUE (Park et al. 2021,
    section 3.4).
    """
    _, counts = entity_counts(labels, predictions)
    right, words = tag_counts(labels, predictions).sum(0)
    return entity_scores_of_counts(counts.sum(0)) | {"accuracy": float(ratio(right, words))}


def tag_counts(labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> Floats:
    """How many tags of each sentence are right, and how many it has, (sentences, 2)."""
    counts = [
        (sum(map(str.__eq__, expected, predicted)), len(expected))
        for expected, predicted in zip(labels, predictions, strict=True)
    ]
    return np.array(counts, dtype=np.float64).reshape(-1, 2)


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

    The scores are those of SQuAD's script (Rajpurkar et al. 2016, section 6.1; 2018).

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
        # as in SQuAD's script, an answer of articles and punctuation alone counts as none
        answer_texts = [answer for answer in expected if _words(answer)] or [""]
        agreements = [_agreement(answer, prediction) for answer in answer_texts]
        rows.append(np.max(agreements, axis=0))
    return np.array(rows)


def scores_by_answer(agreements: Floats, has_answer: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Scores of questions with and without an answer, or nothing where all are of one kind.

    They are HasAns_exact, HasAns_f1 and NoAns_exact of SQuAD's script.

    Args:
        agreements: As `answer_agreements` returns them, (questions, 2).
        has_answer: Whether each question has an answer, (questions,).
    """
    if has_answer.all() or not has_answer.any():
        return {}
    exact, overlap = agreements[has_answer].mean(0).tolist()
    return {
        "has_answer_exact_match": exact,
        "has_answer_f1": overlap,
        "no_answer_exact_match": float(agreements[~has_answer, 0].mean()),
    }


def _agreement(answer: str, prediction: str) -> tuple[float, float]:
    """Whether two answers have the same words, 0 or 1, and the F1 of the words in common."""
    expected = _words(answer)
    predicted = _words(prediction)
    if expected == predicted:  # also where neither has any
        return 1.0, 1.0
    common = sum((Counter(expected) & Counter(predicted)).values())
    return 0.0, 2 * common / (len(expected) + len(predicted))


def _words(text: str) -> list[str]:
    """In lower case, without punctuation and articles."""
    text = "".join(char for char in text.lower() if char not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()
