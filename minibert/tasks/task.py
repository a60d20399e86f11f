"""What a task is: it reads rows, encodes them, has a loss, predicts and scores.

    rows = task.read("dev.tsv")
    examples = task.encode(rows, tokenizer, model.config, max_length=128)
    predictions = task.predict(model, rows, examples)
    print(task.score(rows, predictions).metrics)

`finetune` adds `task.loss` to it, and `evaluate` intervals. A task of one's own is a class with
these five methods in a file: `minibert/tasks/reranking.py` is an example of under two hundred
lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.folders.reading import Reading
from minibert.encoders.head_models import (
    Example as Example,
    encode_texts as encode_texts,
    logits_of as logits_of,
    outputs_of as outputs_of,
)
from minibert.tasks.head_labels import load_with_labels
from minibert.tasks.metrics import ClassScores
from minibert.text import BadRow, BadRowError, Row, left_out
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.errors import Argument, ArgumentError, Message, message_of

FilePath = str | os.PathLike[str]
Data = FilePath | Sequence[Any]
"""A file, or rows in memory: dicts of columns, or a pandas DataFrame."""
Batch = dict[str, Any]
"""Examples side by side, as tensors: keyword arguments of a model's forward, and labels."""
Skipped = list[BadRow] | None
"""Receives the rows that are left out. None: such a row is an error."""
Indices = npt.NDArray[np.int64]
Statistic = Callable[[Indices], dict[str, float]]
"""The metrics of some rows, by their indices, which may repeat."""


@dataclass(frozen=True)
class Mistake:
    """A row whose prediction is wrong.

    Attributes:
        row: The index of the row among those that were scored, from 0.
        text: The text, or the texts of a pair separated by a tab.
        expected: What the data say.
        predicted: What the model says.
        score: How confident the model is, or for a regression the distance to the label.
        place: Where the row stands, such as "dev.csv, line 7".
        id: Its value in a column `id`, if there is one.
    """

    row: int
    text: str
    expected: str
    predicted: str
    score: float
    place: str = ""
    id: str | None = None


@dataclass(frozen=True)
class Scores:
    """How good predictions are.

    Attributes:
        task: Name of the task.
        rows: Number of what is resampled for intervals: rows, or queries.
        statistic: Computes the metrics of some of them.
        classes: Precision, recall and F1 of each class.
        labels: Names of the rows and columns of `confusion`.
        confusion: How often each label (rows) is predicted as each label (columns).
        errors: The wrong rows.
        notice: What may be wrong with the model, a sentence, or nothing.
        candidates: Among how many texts was ranked, for a ranking: the more, the lower its scores.
        further: Computes metrics that are only reported if they are named, of some rows.
    """

    task: str
    rows: int
    statistic: Statistic
    classes: list[ClassScores] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)
    errors: list[Mistake] = field(default_factory=list)
    notice: str = ""
    candidates: int | None = None
    further: Mapping[str, Callable[[Indices], float]] = field(default_factory=dict)

    def reporting(self, names: Iterable[str]) -> Scores:
        """The same scores, with further metrics among those that are reported.

        Raises:
            ArgumentError: A metric does not exist.
        """
        known = self.metrics
        chosen = {name: self.further.get(name) for name in names if name not in known}
        for name, compute in chosen.items():
            if compute is None:
                others = ", ".join([*known, *self.further])
                raise ArgumentError("metric", f"is {name!r}, but these scores are {others}.")

        def statistic(rows: Indices) -> dict[str, float]:
            more = {name: compute(rows) for name, compute in chosen.items() if compute is not None}
            return {**self.statistic(rows), **more}

        return replace(self, statistic=statistic) if chosen else self

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of all rows."""
        return self.statistic(np.arange(self.rows))

    @classmethod
    def means(cls, task: str, values: Mapping[str, npt.ArrayLike], **more: Any) -> Scores:
        """Scores that are means over the rows, from their values in each row by name."""
        columns = {name: np.asarray(column, dtype=np.float64) for name, column in values.items()}

        def statistic(rows: Indices) -> dict[str, float]:
            return {name: float(column[rows].mean()) for name, column in columns.items()}

        count = len(next(iter(columns.values())))
        return cls(task, count, statistic, **more)


class Task:
    """The parts of a task that `finetune` and `evaluate` call.

    Attributes:
        model_class: Its head is new where the checkpoint has none.
        metrics: Names of the scores. The first one chooses the best model unless another is named.
        further: Names of scores that are only reported if they are named. "f1:" stands for the
            F1 of any class, such as "f1:spam".
        fixed: Training options that the task decides.
        learning_rate: The default peak learning rate. None: by the size of the model.
        keeps_max_length: Predictions truncate texts at the length of training.
        row_name: What a row is, with its article.
        row_advice: What helps where a whole file is one row, such as "separate the sentences, or ".
        truncates: What training truncates: the texts of a row together, each text, or nothing,
            because it splits long rows into windows.
    """

    model_class: ClassVar[type[PreTrainedModel]]
    metrics: ClassVar[Sequence[str]] = ()
    further: ClassVar[Sequence[str]] = ()
    fixed: ClassVar[Mapping[str, Any]] = {}
    learning_rate: ClassVar[float | None] = None
    keeps_max_length: ClassVar[bool] = True
    row_name: ClassVar[str] = "a single row"
    row_advice: ClassVar[str] = ""
    truncates: ClassVar[Literal["row", "text", "nothing"]] = "row"

    def read(self, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
        """The rows of a training file or of data in memory, or with `dev` of evaluation data.

        `skip` receives rows that are certainly wrong, which are left out. None: they are errors.
        """
        raise NotImplementedError

    def faults(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, max_length: int
    ) -> dict[int, str]:
        """What is wrong with rows that cannot be encoded, without a period, by their indices."""
        return {}

    def choice_fault(self, rows: Sequence[Row], metric: str) -> str:
        """Why a metric of these rows cannot choose the best model, or nothing."""
        return ""

    def notices(
        self, rows: Sequence[Row], examples: Sequence[Example], config: BertConfig
    ) -> list[str]:
        """What may be a mistake in rows that are encoded, a sentence each.

        Args:
            rows: The rows of a file.
            examples: What `encode` made of them.
            config: The model's.
        """
        return []

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Rows as ids and labels, at most `max_length` tokens each. A row may have several."""
        raise NotImplementedError

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The summed loss of each kind of label in a batch, by its name in the examples.

        Labels may be `IGNORED`, and probabilities may be rounded to 0 or 1: gradients are finite
        there, too.
        """
        raise NotImplementedError

    def predict(
        self, model: Any, rows: Sequence[Row], examples: Sequence[Example]
    ) -> Sequence[Any]:
        """A prediction for each row, from the examples that `encode` made of them."""
        raise NotImplementedError

    def score(self, rows: Sequence[Row], predictions: Sequence[Any]) -> Scores:
        """How good the predictions are."""
        raise NotImplementedError

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """The texts of a row, for the report of what was read: its strings, and lists of words."""
        texts = []
        for value in row.values.values():
            if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
                value = " ".join(value)
            if isinstance(value, str):
                texts.append(value)
        return tuple(texts)

    def labels_of(self, row: Row) -> Sequence[str]:
        """The labels of a row, or none if it has no classes."""
        return ()

    def group_of(self, row: Row) -> Hashable:
        """Rows of one group are held out together. None: the row is in no group."""
        return None

    @property
    def options(self) -> dict[str, Any]:
        """How it is trained, by name: the fields of the task that `option` has declared.

        Those of a `Reading` are not among them.
        """
        values: dict[str, Any] = {}
        if not is_dataclass(self):
            return values
        for one in fields(self):
            if "help" in one.metadata and one.name not in Reading.__dataclass_fields__:
                value = getattr(self, one.name)
                values[one.name] = list(value) if isinstance(value, tuple) else value
        return values

    def reading(self, rows: Sequence[Row]) -> Reading:
        """How the model reads its inputs from now on, as the training rows decide it."""
        return Reading(options=self.options)

    def config(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Config fields that follow from the training rows: labels, problem type, `reading`."""
        return self.reading(rows).as_fields()

    def load(self, checkpoint: FilePath | Source, rows: Sequence[Row]) -> tuple[Any, BertTokenizer]:
        """The model in float32, with what the training rows decide about it, and its tokenizer."""
        model = load_with_labels(self.model_class, checkpoint, self.config(rows))
        return model, BertTokenizer.from_pretrained(checkpoint)

    def calibrate(
        self, model: Any, rows: Sequence[Row], examples: Sequence[Example]
    ) -> Sequence[Any] | None:
        """Fit what the best model's config keeps beside its weights, such as thresholds.

        Args:
            model: The best model, in eval mode.
            rows: The evaluation rows.
            examples: What `encode` has made of them.

        Returns:
            Predictions, each without the help of its own row's labels. None where the task has
            nothing to fit.
        """
        return None


def read_rows(task: Task, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
    """As `task.read`, and the error of a bad row names the argument that leaves it out."""
    with _advice_of_bad_rows():
        return task.read(data, dev, skip)


def rows_that_fit(
    task: Task,
    rows: Sequence[Row],
    tokenizer: BertTokenizer,
    max_length: int,
    skip: Skipped = None,
) -> list[Row]:
    """The rows that can be encoded. The others are errors, or go to `skip`."""
    faults = task.faults(rows, tokenizer, max_length)
    fitting = []
    with _advice_of_bad_rows():
        for index, row in enumerate(rows):
            if index in faults:
                BadRow.leave_out(skip, row.place, faults[index], repr(row.values))
            else:
                fitting.append(row)
    if rows and not fitting:
        raise ValueError(f"{rows[0].file} has no row that can be used: {left_out(skip or [])}.")
    return fitting


@contextmanager
def _advice_of_bad_rows() -> Iterator[None]:
    """Add to the error of a bad row the argument that leaves it out."""
    try:
        yield
    except BadRowError as error:
        message, skip = message_of(error), Argument("skip_bad_rows", True)
        advice = Message(" Correct it, or pass ", skip, " to leave such rows out.")
        if any(isinstance(part, Argument) for part in message.parts):  # it may be every row
            advice = Message(" If only some rows are wrong, pass ", skip, " to leave them out.")
        raise BadRowError(Message(message, advice)) from None


def inputs_of(batch: Batch) -> Batch:
    """The arguments of a model's forward, without labels."""
    names = ("input_ids", "token_type_ids", "attention_mask", "layout")
    return {name: batch[name] for name in names if name in batch}
