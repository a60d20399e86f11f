"""Several labels a text: how files hold them, and from which probability on each is predicted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minibert.config import BertConfig

THRESHOLDS = "thresholds"  # a field of config.json: a probability for each label by name
DEFAULT_THRESHOLD = 0.5
MIN_POSITIVES = 5  # a label with fewer examples keeps the default threshold

_FLAGS = {
    "1": True,
    "1.0": True,
    "true": True,
    "yes": True,
    "0": False,
    "0.0": False,
    "false": False,
    "no": False,
}


def as_flag(value: Any) -> bool | None:
    """Whether a text has a label, by the label's own column. None if the value does not tell."""
    return _FLAGS.get(str(value).strip().casefold())


def labels_in_columns(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """The labels of a row that has a column for each label.

    Raises:
        ValueError: A value is neither 1, true or yes nor 0, false or no.
    """
    labels = []
    for name in columns:
        is_set = as_flag(row[name])
        if is_set is None:
            raise ValueError(f"{name} should be 1 or 0 (or true or false), not {row[name]!r:.80}")
        if is_set:
            labels.append(name)
    return labels


def as_label_list(value: Any) -> list[Any] | None:
    """The labels of a text as a list, or None if the value is not a list.

    A table of text holds a list as JSON, such as `["good", "funny"]`.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, list | tuple):
        return list(value)
    return None


def thresholds_of(config: BertConfig) -> npt.NDArray[np.float64]:
    """The probability from which on each label is predicted, (labels,).

    Fine-tuning keeps it in config.json. Without it every label has 0.5.
    """
    by_label = config.extra.get(THRESHOLDS)
    if not isinstance(by_label, Mapping):
        by_label = {}
    names = [config.id2label[index] for index in range(config.num_labels)]
    return np.array([float(by_label.get(name, DEFAULT_THRESHOLD)) for name in names])


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
    return round(float(best[np.abs(best - DEFAULT_THRESHOLD).argmin()]), 6)
