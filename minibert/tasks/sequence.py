"""Labels, or a number, for texts or pairs of texts: their task, and `classify`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn
from torch.nn import functional as F

from minibert.base import PreTrainedModel
from minibert.config import BertConfig
from minibert.encoders.arithmetic.scoring import (
    activate,
    class_activation,
    label_names,
)
from minibert.encoders.folders.reading import Reading
from minibert.heads import BertForSequenceClassification
from minibert.losses import IGNORED, cross_entropy, regression_loss
from minibert.tasks import metrics
from minibert.tasks.head_labels import label_ids, sorted_labels
from minibert.tasks.options import LabelOptions
from minibert.tasks.tables import TableTask, as_list, number_of
from minibert.tasks.task import (
    Batch,
    Data,
    Example,
    Indices,
    Mistake,
    Scores,
    Skipped,
    encode_texts,
    inputs_of,
    logits_of,
)
from minibert.tasks.thresholds import THRESHOLDS, best_thresholds, thresholds_of
from minibert.text import Row, Table
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.errors import Argument, ArgumentError, Message
from minibert.util.files import RECIPES
from minibert.util.progress import tell

SMALLEST = 1e-12
"""Lower bound of a probability in a loss, so that the loss of one wrong row is not infinite."""
NOISE = 1e-6
"""Difference of numbers that a model gives for one text, in one batch and another."""
SMALL_SPREAD = 0.05
"""Difference of a label's probabilities between texts, up to which the texts are scored alike."""
MULTI_LABEL = Argument("multi_label", True)  # of messages
REGRESSION = Argument("regression", True)
_FLAGS = {"1": True, "1.0": True, "true": True, "yes": True}
_FLAGS |= {"0": False, "0.0": False, "false": False, "no": False}


class Labeled(NamedTuple):
    """The prediction for a text.

    Attributes:
        scores: The score of each label, (labels,), as `classify` explains it.
        names: The labels.
        thresholds: From which score on a label is predicted, where a text may have several.
    """

    scores: npt.NDArray[np.float64]
    names: list[str]
    thresholds: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True)
class SequenceTask(LabelOptions, TableTask):
    """A label, or a number, for a text or a pair of texts in a table.

    How labels are learned is said by the fields of `LabelOptions`.

    Attributes:
        table: How files are read: the columns of the text, the label and the second text.
        regression: The label is a number.
        label_columns: With `multi_label`, a column of 1 and 0 for each label, instead of
            `table.label`.
        dev_table: How evaluation files are read, where they differ.

    Raises:
        ValueError: An option does not fit: `class_weights` and `label_smoothing` are for one label
            a text, `positive_weights` and `label_columns` for several. `multi_label` is not for
            a `regression`.
    """

    table: Table = Table(label="label")
    regression: bool = False
    label_columns: Sequence[str] = ()
    dev_table: Table | None = None

    model_class: ClassVar[type[PreTrainedModel]] = BertForSequenceClassification

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("class_weights", "label_smoothing"):
            if getattr(self, name) and (self.multi_label or self.regression):
                raise ArgumentError(name, "is for one label a text: drop it.")
        if self.multi_label and self.regression:
            raise ArgumentError(MULTI_LABEL, "is not for numbers: drop it, or ", REGRESSION, ".")
        if self.positive_weights and not self.multi_label:
            raise ArgumentError("positive_weights", "is for several labels a text: drop it.")
        if self.label_columns and not self.multi_label:
            raise ArgumentError(
                "label_columns", "are for several labels a text: pass ", MULTI_LABEL, "."
            )

    @property
    def metrics(self) -> Sequence[str]:  # type: ignore[override]
        """Those of several labels begin with one that needs no thresholds."""
        if self.regression:
            return ("spearman", "pearson", "mse", "mae")
        if self.multi_label:
            return ("map", "f1_micro", "f1_macro", "accuracy", "loss")
        return ("accuracy", "f1", "loss")

    @property
    def further(self) -> Sequence[str]:  # type: ignore[override]
        """Those of labels. Matthews' correlation is of one label a text."""
        if self.regression:
            return ()
        if self.multi_label:
            return ("auc", metrics.OF_CLASS)
        return ("matthews", "auc", "f1_micro", metrics.OF_CLASS)

    def read(self, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
        """Rows of a table.

        Raises:
            ValueError: The lists of labels have 1 or 0 for each class instead of names of labels.
        """
        rows = super().read(data, dev, skip)
        if self.multi_label and not self.label_columns:
            lists = [self.labels_of(row) for row in rows]
            lengths = set(map(len, lists))
            flags = {label for labels in lists for label in labels}
            values_of_flags = {"0", "1", "0.0", "1.0", "False", "True"}
            if len(lengths) == 1 and lengths.pop() > 1 and flags <= values_of_flags:
                raise ValueError(
                    Message(
                        f"{rows[0].place}: the lists in {rows[0].table.label!r} have 1 or 0 for "
                        "each class. Write the names of a text's labels, or a column of 1 and 0 "
                        "for each class and pass ",
                        Argument("label_columns"),
                        ".",
                    )
                )
        return rows

    def columns(self, table: Table, dev: bool) -> list[str]:
        """The texts, and the label or the columns of the labels."""
        labels = self.label_columns or (table.label,)
        return [name for name in (table.text, table.pair, *labels) if name]

    def check(self, row: Row) -> None:
        """Raise a ValueError if the labels of a row are certainly wrong."""
        name = row.table.label
        for column in self.label_columns:
            value = row.values[column]
            if as_flag(value) is None:
                raise ValueError(f"{column} should be 1 or 0 (or true or false), not {value!r:.80}")
        if self.label_columns:
            return
        labels = [row.label]
        if self.multi_label:
            values = as_label_list(row.label)
            if values is None or any(isinstance(label, list | dict) for label in values):
                raise ValueError(
                    f"{name} should be a list of labels, not {row.label!r:.80}. {RECIPES}"
                )
            labels = values
        for label in labels:
            if fault := label_fault(label):
                raise ValueError(Message(f"{name}: ", fault))
        if self.regression and not math.isfinite(number_of(row.label)):
            raise ValueError(f"{name} should be a finite number, not {row.label!r:.80}")

    def labels_of(self, row: Row) -> list[str]:
        """The label or labels, or none if it is a number."""
        if self.regression:
            return []
        if self.label_columns:
            return [name for name in self.label_columns if as_flag(row.values[name])]
        if self.multi_label:
            return [str(label) for label in as_label_list(row.label) or []]
        return [str(row.label)]

    def reading(self, rows: Sequence[Row]) -> Reading:
        """What is learned, and whether of pairs."""
        task = "multi_label" if self.multi_label else "classification"
        if self.regression:
            task = "regression"
        return Reading(task=task, pairs=self.table.pair is not None, options=self.options)

    def config(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The labels by name, in the order of `sorted_labels`."""
        return super().config(rows) | self._labels(rows)

    def _labels(self, rows: Sequence[Row]) -> dict[str, Any]:
        if self.regression:
            return {"num_labels": 1, "problem_type": "regression"}
        labels = sorted_labels(label for row in rows for label in self.labels_of(row))
        if self.multi_label:
            labels = list(self.label_columns) or labels
            if not labels:
                raise ValueError(f"No row has a label in the column {self.table.label!r}.")
            problem = "multi_label_classification"
            return {"id2label": dict(enumerate(labels)), "problem_type": problem}
        if len(labels) == 1:
            raise ValueError(
                f"All rows have the label {labels[0]!r}: there is nothing to learn "
                "from a single class."
            )
        share = 0.5 if all(math.isfinite(number_of(label)) for label in labels) else 0.9
        if len(labels) > max(50, share * len(rows)):
            raise ValueError(
                f"Column {self.table.label!r} holds {len(labels)} different labels in {len(rows)} "
                "rows: name a column of classes, or learn numbers as a regression."
            )
        return {"id2label": dict(enumerate(labels)), "problem_type": "single_label_classification"}

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Texts truncated to `max_length` tokens, and the index of the label.

        A label that the model does not have is `IGNORED`.
        """
        if not rows:
            return []
        texts, *pairs = map(list, zip(*map(self.texts_of, rows), strict=True))
        examples = encode_texts(tokenizer, texts, pairs[0] if pairs else None, max_length)
        ids = label_ids(label_names(config))
        targets = [self._target(row, ids, config.num_labels) for row in rows]
        weights: Sequence[Any] = [1.0] * len(rows)
        if self.class_weights:
            counts = Counter(targets)
            weights = [len(rows) / len(counts) / counts[target] for target in targets]
        if self.positive_weights:
            weights = _positive_weights(np.concatenate(targets))
        for example, target, weight in zip(examples, targets, weights, strict=True):
            example |= {"labels": target, "weight": weight}
        return examples

    def _target(self, row: Row, ids: Mapping[str, int], classes: int) -> Any:
        """A number, the index of a class, or 0 and 1 for each class, (1, classes)."""
        if self.regression:
            return float(row.label)
        indices = [ids.get(label, IGNORED) for label in self.labels_of(row)]
        if not self.multi_label:
            return indices[0]
        target = np.zeros((1, classes), dtype=np.float32)
        target[0, [index for index in indices if index != IGNORED]] = 1
        return target

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Squared error, or cross entropy."""
        labels = batch["labels"]
        logits = model(**inputs_of(batch)).logits
        if self.multi_label:
            weight = batch["weight"] if self.positive_weights else None
            loss = F.binary_cross_entropy_with_logits(logits, labels, weight, reduction="sum")
            return {"labels": loss}
        if self.class_weights or self.label_smoothing:
            losses = F.cross_entropy(
                logits, labels, reduction="none", label_smoothing=self.label_smoothing
            )
            return {"labels": (losses * batch["weight"]).sum()}
        compute_loss = regression_loss if self.regression else cross_entropy
        return {"labels": compute_loss(logits, labels, "sum")}

    def predict(
        self, model: Any, rows: Sequence[Row], examples: Sequence[Example]
    ) -> list[Labeled]:
        """The score of each label of each text."""
        logits = logits_of(model, examples).double()  # float32 is 1 for large logits
        scores = activate(logits, class_activation(model.config)).numpy()
        names = label_names(model.config)
        thresholds = thresholds_of(model.config) if self.multi_label else None
        return [Labeled(row, names, thresholds) for row in scores]

    def calibrate(
        self, model: Any, rows: Sequence[Row], examples: Sequence[Example]
    ) -> list[Labeled] | None:
        """Put the threshold of each label with the highest F1 into the config.

        The scores that are reported must not come from rows that the thresholds were fitted on. So
        each half of the rows gets those that were fitted on the other half.
        """
        if not self.multi_label:
            return None
        predictions = self.predict(model, rows, examples)
        names = label_names(model.config)
        expected = self._label_sets(rows, label_ids(names), len(names))
        scores = _served([prediction.scores for prediction in predictions])
        thresholds = best_thresholds(expected, scores)
        model.config.extra[THRESHOLDS] = dict(zip(names, thresholds.tolist(), strict=True))
        shown = ", ".join(map("{} {:.2f}".format, names, thresholds))
        tell(f"thresholds with the best F1 on the evaluation rows: {shown}")
        halves = [best_thresholds(expected[half::2], scores[half::2]) for half in (0, 1)]
        return [
            prediction._replace(thresholds=halves[(index + 1) % 2])
            for index, prediction in enumerate(predictions)
        ]

    def _label_sets(
        self, rows: Sequence[Row], ids: Mapping[str, int], count: int
    ) -> npt.NDArray[np.bool_]:
        """Which of `count` labels each row has, (rows, count). `ids` has the index of each."""
        expected = np.zeros((len(rows), count), dtype=bool)
        for number, row in enumerate(rows):
            for label in self.labels_of(row):
                if label in ids:
                    expected[number, ids[label]] = True
        return expected

    def score(self, rows: Sequence[Row], predictions: Sequence[Labeled]) -> Scores:
        """Correlations and errors, or accuracy and F1."""
        scores = np.array([prediction.scores for prediction in predictions])
        texts = ["\t".join(self.texts_of(row)) for row in rows]
        if self.regression:
            numbers = np.array([float(row.label) for row in rows])
            return number_scores("regression", texts, numbers, scores[:, 0])
        names = list(predictions[0].names)
        ids = label_ids(names)
        labels = {label for row in rows for label in self.labels_of(row)}
        for label in sorted(labels - ids.keys()):  # classes that are never predicted
            ids[label] = len(names)
            names.append(label)
        if self.multi_label:
            thresholds = np.array([prediction.thresholds for prediction in predictions])
            sets = self._label_sets(rows, ids, len(names))
            return _scores_of_sets(texts, sets, scores, thresholds, names)
        expected = np.array([ids[self.labels_of(row)[0]] for row in rows])
        scored = _scores_of_classes(texts, expected, scores, names)
        threshold = predictions[0].thresholds
        return scored if threshold is None else _with_coverage(scored, expected, scores, threshold)


def number_scores(
    task: Literal["regression", "scores"],
    texts: Sequence[str],
    expected: npt.NDArray[np.float64],
    predicted: npt.NDArray[np.float64],
) -> Scores:
    """Correlations, and the errors of a regression. The scale of a similarity is its own."""
    compute = metrics.regression_scores if task == "regression" else metrics.correlations

    def statistic(rows: Indices) -> dict[str, float]:
        return compute(expected[rows].tolist(), predicted[rows].tolist())

    distances = np.abs(expected - predicted).tolist()
    errors = [
        Mistake(row, texts[row], f"{expected[row]:g}", f"{predicted[row]:.4g}", distances[row])
        for row in range(len(texts))
    ]
    notice = ""
    if len(np.unique(expected)) == 1 < len(expected):
        notice = f"all {len(expected)} labels are {expected[0]:g}, so the correlations say nothing."
    elif len(predicted) > 1 and np.allclose(predicted, predicted[0], rtol=NOISE, atol=NOISE):
        notice = f"every text is predicted as {predicted[0]:.4g}, so the correlations say nothing."
    return Scores(task, len(texts), statistic, errors=errors, notice=notice)


def _scores_of_classes(
    texts: Sequence[str],
    expected: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    names: list[str],
) -> Scores:
    """Accuracy, F1 and loss of one label a text.

    Args:
        texts: The texts, as mistakes show them.
        expected: The index of each text's label, (rows,).
        scores: Probabilities of the labels that the model has, (rows, classes).
        names: These labels, and behind them those that only the data have.
    """
    predicted = scores.argmax(-1)
    is_known = expected < scores.shape[1]
    right = np.take_along_axis(scores, np.where(is_known, expected, 0)[:, None], 1)[:, 0]
    losses = -np.log(np.maximum(right, SMALLEST))

    def statistic(sample: Indices) -> dict[str, float]:
        known = sample[is_known[sample]]
        loss = float(losses[known].mean()) if len(known) else math.nan
        accuracy = metrics.classification_scores(expected[sample], predicted[sample])
        return accuracy | {"loss": loss}

    errors = [
        Mistake(
            row,
            texts[row],
            names[expected[row]],
            names[predicted[row]],
            float(scores[row, predicted[row]]),
        )
        for row in np.flatnonzero(expected != predicted).tolist()
    ]
    confusion = metrics.confusion_matrix(expected, predicted, len(names))
    classes = np.arange(len(names))
    is_label = expected[:, None] == classes  # (rows, classes)
    is_predicted = predicted[:, None] == classes
    known = np.arange(scores.shape[1])

    def matthews(sample: Indices) -> float:
        return metrics.matthews_correlation(expected[sample], predicted[sample])

    def auc(sample: Indices) -> float:
        return metrics.area_under_curve(is_label[sample][:, known], scores[sample])

    def f1_micro(sample: Indices) -> float:
        return metrics.multi_label_scores(is_label[sample], is_predicted[sample])["f1_micro"]

    further = {"matthews": matthews, "auc": auc, "f1_micro": f1_micro}
    further |= _f1_of_classes(names, is_label, is_predicted)
    notice = ""
    if len(np.unique(predicted)) == 1 and len(np.unique(expected)) > 1:
        notice = f"every text is predicted as {names[predicted[0]]!r}."
    return Scores(
        "classification",
        len(texts),
        statistic,
        metrics.class_scores_of_counts(names, metrics.confusion_counts(confusion)),
        names,
        confusion.tolist(),
        errors,
        notice,
        further=further,
    )


def _with_coverage(
    scored: Scores,
    expected: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    thresholds: npt.NDArray[np.float64],
) -> Scores:
    """The scores with the share of the texts that reach a threshold, and their accuracy.

    Args:
        scored: The scores of all texts.
        expected: The index of each text's label, (rows,).
        scores: Probabilities of the labels that the model has, (rows, classes).
        thresholds: From which probability on each label is predicted, (classes,).
    """
    best = scores.argmax(1)
    is_covered = _served(scores.max(1)) >= thresholds[best]
    is_right = best == expected

    def statistic(sample: Indices) -> dict[str, float]:
        covered = sample[is_covered[sample]]
        accuracy = float(is_right[covered].mean()) if len(covered) else math.nan
        coverage = {"coverage": len(covered) / len(sample), "covered_accuracy": accuracy}
        return {**scored.statistic(sample), **coverage}

    return replace(scored, statistic=statistic)


def _f1_of_classes(
    names: Sequence[str], expected: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]
) -> dict[str, Callable[[Indices], float]]:
    """The F1 of each class, as a metric of its own. Both arrays are (rows, classes)."""

    def f1_of(index: int) -> Callable[[Indices], float]:
        def f1(sample: Indices) -> float:
            column = slice(index, index + 1)
            counts = metrics.multi_label_counts(expected[sample, column], predicted[sample, column])
            return float(metrics.f1_of_counts(counts)[0])

        return f1

    return {f"{metrics.OF_CLASS}{name}": f1_of(index) for index, name in enumerate(names)}


def _scores_of_sets(
    texts: Sequence[str],
    expected: npt.NDArray[np.bool_],
    scores: npt.NDArray[np.float64],
    thresholds: npt.NDArray[np.float64],
    names: list[str],
) -> Scores:
    """mAP, F1, accuracy and loss of several labels a text.

    Args:
        texts: The texts, as mistakes show them.
        expected: Which labels each text has, (rows, labels).
        scores: Probabilities of the labels that the model has, (rows, classes).
        thresholds: From which probability on a label is predicted, (rows, classes).
        names: These labels, and behind them those that only the data have.
    """
    classes = scores.shape[1]
    predicted = np.zeros_like(expected)
    predicted[:, :classes] = _served(scores) >= thresholds
    known = expected[:, :classes]
    losses = -np.log(np.maximum(np.where(known, scores, 1 - scores), SMALLEST)).mean(1)

    def statistic(sample: Indices) -> dict[str, float]:
        return {
            **metrics.multi_label_scores(expected[sample], predicted[sample]),
            "map": metrics.mean_average_precision(known[sample], scores[sample]),
            "loss": float(losses[sample].mean()),
        }

    def joined(chosen: npt.NDArray[np.bool_]) -> str:
        return ", ".join(names[index] for index in np.flatnonzero(chosen).tolist())

    errors = []
    for row in np.flatnonzero((expected != predicted).any(1)).tolist():
        wrong = np.flatnonzero(known[row] != predicted[row, :classes])
        confidence = float(np.abs(scores[row] - thresholds[row])[wrong].max(initial=0.0))
        errors.append(
            Mistake(row, texts[row], joined(expected[row]), joined(predicted[row]), confidence)
        )
    counts = metrics.multi_label_counts(expected, predicted)
    spread = float(np.ptp(scores, axis=0).max(initial=0.0))
    notice = ""
    if len(np.unique(expected, axis=0)) > 1:
        if len(np.unique(predicted, axis=0)) == 1:
            labels = joined(predicted[0])
            notice = f"every text is predicted as {labels!r}."
            if not labels:
                notice = "no text is predicted to have a label."
        elif spread < SMALL_SPREAD:
            notice = (
                f"the probabilities of a label differ by {spread:.2g} at most between texts, "
                "so the model hardly tells them apart."
            )
    return Scores(
        "multi_label",
        len(texts),
        statistic,
        metrics.class_scores_of_counts(names, counts),
        names,
        errors=errors,
        notice=notice,
        further={
            "auc": lambda sample: metrics.area_under_curve(known[sample], scores[sample]),
            **_f1_of_classes(names, expected, predicted),
        },
    )


def _served(scores: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Scores in the precision in which predictions compare them with thresholds."""
    return np.array(scores, dtype=np.float32)


def _positive_weights(targets: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    """The weight of each entry of the targets, (1, labels) for each row.

    Where a row has a label, it is how many rows lack that label for each that has it, as
    `pos_weight` of torch's BCEWithLogitsLoss. Elsewhere it is 1.
    """
    positives = targets.sum(0)
    negatives = len(targets) - positives
    ratio = np.where(negatives > 0, negatives / np.maximum(positives, 1), 1)
    weights = np.where(targets > 0, ratio, 1).astype(np.float32)
    return list(weights[:, None])


def as_flag(value: Any) -> bool | None:
    """Whether a text has a label, by the label's own column. None if the value does not tell."""
    return _FLAGS.get(str(value).strip().casefold())


def as_label_list(value: Any) -> list[Any] | None:
    """The labels of a text as a list, or None if the value is not a list.

    A table of text holds a list as JSON, such as `["good", "funny"]`.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return as_list(value)


def label_fault(label: Any) -> str | None:
    """What is certainly wrong with a label, or None."""
    if isinstance(label, np.generic):  # such as an element of an array of labels
        label = label.item()
    if isinstance(label, float) and math.isnan(label):
        return "NaN is not a label"
    if isinstance(label, float) and math.isinf(label):
        return "infinity is not a label"
    if isinstance(label, list | tuple) and any(isinstance(item, list | dict) for item in label):
        return f"{label!r:.80} are no labels. For spans, write words and tags. {RECIPES}"
    if isinstance(label, list | tuple):
        return Message(
            f"{label!r:.80} is a list of labels: pass ", MULTI_LABEL, ", or write a single one"
        )
    if not isinstance(label, str | int | float):
        return f"a label should be a string or a number, not {label!r:.80}"
    if not str(label).strip():
        return "the label is empty"
    return None
