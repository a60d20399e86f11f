"""Several labels a text: from which probability on each is predicted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from minibert.config import BertConfig
from minibert.encoders.arithmetic.scoring import label_names

THRESHOLDS = "thresholds"  # a field of config.json: a probability for each label by name
DEFAULT_THRESHOLD = 0.5
MIN_POSITIVES = 5  # a label with fewer examples keeps the default threshold


def thresholds_of(config: BertConfig) -> npt.NDArray[np.float64]:
    """The probability from which on each label is predicted, (labels,).

    Fine-tuning keeps it in config.json. Without it every label has 0.5.
    """
    by_label = config.extra.get(THRESHOLDS)
    if not isinstance(by_label, Mapping):
        by_label = {}
    return np.array([float(by_label.get(n, DEFAULT_THRESHOLD)) for n in label_names(config)])


def best_thresholds(expected: npt.ArrayLike, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The threshold of each label with the highest F1.

    Args:
        expected: Whether each text has each label, (texts, labels).
        scores: Probabilities, (texts, labels).

    Returns:
        The thresholds, (labels,). A threshold lies midway between two scores. Of several with the
        same F1 it is the one nearest to 0.5. A label of fewer than `MIN_POSITIVES` texts has 0.5.
    """
    truth = np.asarray(expected, dtype=bool)
    probabilities = np.asarray(scores, dtype=np.float64)
    thresholds = np.full(truth.shape[1], DEFAULT_THRESHOLD)
    for label in range(truth.shape[1]):
        if truth[:, label].sum() >= MIN_POSITIVES:
            thresholds[label] = _best_threshold(truth[:, label], probabilities[:, label])
    return thresholds


def _best_threshold(truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]) -> float:
    values = np.unique(scores)
    midpoints = (values[:-1] + values[1:]) / 2
    candidates = np.concatenate([[DEFAULT_THRESHOLD], midpoints])
    descending = np.argsort(-scores, kind="stable")
    hits = np.concatenate([[0], np.cumsum(truth[descending])])
    ascending_scores = scores[descending][::-1]
    predicted = len(scores) - np.searchsorted(ascending_scores, candidates, "left")
    f1 = 2 * hits[predicted] / np.maximum(1, predicted + truth.sum())
    best = candidates[f1 == f1.max()]
    return float(best[np.abs(best - DEFAULT_THRESHOLD).argmin()])
