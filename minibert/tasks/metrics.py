"""Scores of fine-tuned models, by scipy and scikit-learn where they have them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from minibert.extras import need
from minibert.tasks.entities import entity_spans


def check() -> None:
    """ImportError when a library that computes a score is not installed."""
    for module in ("scipy.stats", "sklearn.metrics"):
        need(module, "train", "Measuring")


def classification_scores(labels: Sequence[int], predictions: Sequence[int]) -> dict[str, float]:
    """Accuracy, and F1 averaged over the classes."""
    metrics = need("sklearn.metrics", "train", "Measuring")
    return {
        "accuracy": float(metrics.accuracy_score(labels, predictions)),
        "f1": float(metrics.f1_score(labels, predictions, average="macro")),
    }


def regression_scores(labels: Sequence[float], predictions: Sequence[float]) -> dict[str, float]:
    """Pearson's and Spearman's correlation; 0 where labels or predictions are all the same."""
    stats = need("scipy.stats", "train", "Measuring")
    if min(len(set(predictions)), len(set(labels))) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": float(stats.pearsonr(labels, predictions).statistic),
        "spearman": float(stats.spearmanr(labels, predictions).statistic),
    }


def entity_scores(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 of whole entities, as the CoNLL-2003 task counts them (tags such as B-PER, I-PER, O).

    `macro_f1` is the mean over the kinds of entities, the "entity F1" of KLUE (Park et al. 2021, section 3.4).

    An entity is what `minibert.find_entities` makes of the tags, and found if kind, first and last word are right.
    """
    known = {tag for rows in (labels, predictions) for row in rows for tag in row}
    right, given = (
        {(number, *span) for number, row in enumerate(rows) for span in entity_spans(row, known)}
        for rows in (labels, predictions)
    )
    found = len(right & given)
    right_kinds, all_kinds = (
        Counter(kind for _, kind, *_ in spans) for spans in (right & given, [*right, *given])
    )
    apart = [2 * right_kinds[kind] / count for kind, count in all_kinds.items()]
    return {
        "f1": 2 * found / max(1, len(right) + len(given)),
        "macro_f1": sum(apart) / max(1, len(apart)),
        "precision": found / max(1, len(given)),
        "recall": found / max(1, len(right)),
    }


def answer_scores(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Exact match and F1 of answers, in the normalisation of the SQuAD paper (Rajpurkar et al. 2016, section 6.1).

    Args:
        answers: the right answers of each question, one of which has to be met; none for a question without one.
        predictions: one for each question.
    """
    best = [
        np.max([_agreement(right, given) for right in rights or [""]], axis=0)
        for rights, given in zip(answers, predictions, strict=True)
    ]
    exact, overlap = np.mean(best, axis=0).tolist()
    return {"exact_match": exact, "f1": overlap}


def _agreement(right: str, given: str) -> tuple[float, float]:
    """Whether two answers are of the same words, 0 or 1, and the F1 of the words in common."""
    rights, givens = _words(right), _words(given)
    same, common = float(rights == givens), sum((Counter(rights) & Counter(givens)).values())
    return same, 2 * common / (len(rights) + len(givens)) if rights and givens else same


def _words(text: str) -> list[str]:
    """In lower case, without punctuation and articles."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()
