"""Fine-tune a checkpoint on a file of examples (paper, section 4).

    task = SequenceTask(text="sentence", label="label")
    finetune(task, "minibert-tiny", "train.tsv", "dev.tsv", "out/")

A `Task` defines how its files are read and encoded, its loss and its scores.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source
from minibert.checks import check_count
from minibert.config import BertConfig
from minibert.corpus.rows import BadRow, PlacedRow, Quoting, text_fault
from minibert.heads import BertForQuestionAnswering, BertForSequenceClassification
from minibert.inference.packing import run_packed
from minibert.layouts import PackedLayout
from minibert.losses import cross_entropy, regression_loss, span_loss
from minibert.progress import Progress, is_watched, tell
from minibert.tasks import metrics
from minibert.tasks.labels import (
    THRESHOLDS,
    as_label_list,
    best_thresholds,
    labels_in_columns,
    thresholds_of,
)
from minibert.tasks.readers import read_squad
from minibert.tasks.windows import (
    best_answers,
    context_offsets,
    encode_windows,
    pad_windows,
    span_logits,
)
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.checks import check_data
from minibert.training.data import Batch, Example
from minibert.training.journal import Record
from minibert.training.loop import Trainer, default_learning_rate
from minibert.training.options import TrainingOptions
from minibert.training.processes import is_first_process
from minibert.training.rows import read_placed_rows
from minibert.training.state import remove_states, run_folder

LONGEST_ANSWER = 30  # in tokens
Path_ = str | os.PathLike[str]
Rows = Sequence[Any]
"""What a task has read from a file, as it needs it."""


class Task(Protocol):
    """The parts of a task that `finetune` calls. Its head is new where the checkpoint has none."""

    model_class: ClassVar[type[PreTrainedModel]]

    @property
    def metric(self) -> str:
        """The score that chooses the best model."""

    @property
    def fixed(self) -> dict[str, Any]:
        """The training options that the task decides."""
        return {}

    def read(
        self, path: Path_, dev: bool = False, bad_rows: list[BadRow] | None = None
    ) -> list[Any]:
        """The rows of a training file, or with `dev` of an evaluation file.

        `bad_rows` receives rows that are certainly wrong, which are then left out. None: they are
        errors.
        """

    def texts_of(self, row: Any) -> tuple[str, ...]:
        """The texts of a row, for the report of what was read."""

    def labels_of(self, row: Any) -> Sequence[Any]:
        """The labels of a row, or none if it has no classes."""
        return ()

    def config(self, rows: Rows) -> dict[str, Any]:
        """Config fields that follow from the training rows: labels and problem type."""
        return {}

    def load(self, checkpoint: Path_ | Source, rows: Rows) -> tuple[PreTrainedModel, BertTokenizer]:
        """The model in float32, with what the training rows decide about it, and its tokenizer."""
        model = self.model_class.from_pretrained(
            checkpoint, dtype=torch.float32, **self.config(rows)
        )
        return model, BertTokenizer.from_pretrained(checkpoint)

    def examples(
        self, rows: Rows, tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Rows as ids and labels, at most `max_length` tokens each."""

    @property
    def learning_rate(self) -> float | None:
        """The default peak learning rate. None: by the size of the model."""
        return None

    @property
    def keeps_max_length(self) -> bool:
        """Whether predictions truncate texts at the length of training."""
        return True

    def strata(self, rows: Rows) -> list[Any]:
        """A label for each row. Rows are held out in the same share of each label."""
        return [None] * len(rows)

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The summed loss. An `Objective` of the loop."""

    def scores(self, model: Any, rows: Rows, examples: Sequence[Example]) -> dict[str, float]:
        """How good the model is."""


def finetune(
    task: Task,
    checkpoint: Path_ | Source,
    train: Path_,
    dev: Path_ | None,
    folder: Path_,
    options: TrainingOptions | None = None,
    *,
    test: Path_ | None = None,
    held_out: float = 0.1,
    skip_bad_rows: bool = False,
    max_length: int = 128,
    resume: bool | Literal["with other data"] = False,
    callback: Callable[[Record], object] | None = None,
) -> dict[str, float]:
    """Fine-tune a checkpoint, and save the best model on `dev` with its tokenizer in `folder`.

    The tokenizer keeps `max_length`, so predictions truncate texts as training did.

    Args:
        task: `SequenceTask`, `AnswerTask`, `TokenTask` (entities.py) or `SimilarityTask`
            (pairs.py).
        checkpoint: Folder, bundled model or Hub id.
        train: Training file.
        dev: Evaluation file, which chooses the best model. None: a share of the training rows is
            held out.
        folder: For the model, the states and the log.
        options: How to train.
        test: File to score the best model on, once at the end.
        held_out: Share of the training rows that are held out without `dev`, of each label alike.
        skip_bad_rows: Leave out rows that are certainly wrong, and count them. Otherwise they are
            errors.
        max_length: Tokens after which an example is truncated, at most the positions of the model.
        resume: Continue the run in `folder`, as in `Trainer`.
        callback: See `Trainer`.

    Returns:
        The best model's scores on `dev`, and with `test` its scores there as "test_...".

    Raises:
        FileNotFoundError: A file or the checkpoint does not exist.
        ValueError: A file does not hold what the task needs, or `folder` holds another run.
    """
    options = replace(options or TrainingOptions(), **task.fixed)
    with run_folder(folder, bool(resume)):
        rows = _read_rows(task, train, dev, test, held_out, skip_bad_rows, options.seed)
        torch.manual_seed(options.seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*newly initialized: train before")  # a new head
            model, tokenizer = task.load(checkpoint, rows.train)
        max_length = _within_positions(max_length, model.config)
        report = check_data(
            task,
            rows.train,
            rows.dev,
            names=(str(train), rows.dev_name),
            tokenizer=tokenizer,
            max_length=max_length,
            skipped=rows.skipped,
        )
        _announce(report)
        examples = task.examples(rows.train, tokenizer, model.config, max_length)
        dev_examples = task.examples(rows.dev, tokenizer, model.config, max_length)
        if task.keeps_max_length:
            tokenizer.model_max_length = min(tokenizer.model_max_length, max_length)
        if options.learning_rate is None:
            rate = task.learning_rate or default_learning_rate(model.config.hidden_size)
            options = replace(options, learning_rate=rate)
            _announce(f"learning rate {rate:g} (the default for this model)")
        trainer = Trainer(
            model,
            lambda _: examples,
            task.losses,
            Path(folder),
            options,
            tokenizer=tokenizer,
            resume=resume,
            evaluate=lambda: task.scores(model, rows.dev, dev_examples),
            metric=options.metric or task.metric,
            callback=callback,
        )
        trainer.run()
        if trainer.is_first:
            remove_states(folder, options.keep_states)
        scores = dict(trainer.best_scores)
        if isinstance(task, SequenceTask) and task.multi_label:
            best, _ = task.load(Path(folder), rows.train)
            _calibrate(task, best.to(model.device), dev_examples, Path(folder))
            scores = task.scores(best, rows.dev, dev_examples)
        if rows.test:
            scores |= _test_scores(task, rows, Path(folder), max_length, model.device)
    return scores


def _calibrate(task: SequenceTask, model: Any, examples: Sequence[Example], folder: Path) -> None:
    """Keep the best threshold of each label in the config of the best model."""
    thresholds = task.thresholds(model, examples)
    model.config.extra[THRESHOLDS] = thresholds
    if is_first_process():
        model.config.save_pretrained(folder)
    shown = ", ".join(f"{label} {value:.2f}" for label, value in thresholds.items())
    _announce(f"thresholds with the best F1 on the evaluation rows: {shown}")


@dataclass(frozen=True)
class _RowsOfRun:
    """The rows of the files of a run.

    Attributes:
        train: Rows to train on.
        dev: Rows that choose the best model.
        test: Rows to score the best model on, or none without a test file.
        dev_name: The file of the dev rows, as the report names it.
        skipped: Rows that were left out because they have a fault.
    """

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    dev_name: str
    skipped: list[BadRow]


def _read_rows(
    task: Task,
    train: Path_,
    dev: Path_ | None,
    test: Path_ | None,
    held_out: float,
    skip_bad_rows: bool,
    seed: int,
) -> _RowsOfRun:
    """Read the files of a run. Without a dev file hold out a share of the training rows."""
    skipped: list[BadRow] = []
    bad_rows = skipped if skip_bad_rows else None
    train_rows = task.read(train, bad_rows=bad_rows)
    if dev is None:
        dev_name = "the held-out rows"
        train_rows, dev_rows = hold_out(train_rows, task.strata(train_rows), held_out, seed)
        _announce(f"without a dev file {len(dev_rows):,} rows of {train} are held out")
    else:
        dev_name = str(dev)
        dev_rows = task.read(dev, dev=True, bad_rows=bad_rows)
    test_rows = []
    if test is not None:
        test_rows = task.read(test, dev=True, bad_rows=bad_rows)
    return _RowsOfRun(train_rows, dev_rows, test_rows, dev_name, skipped)


def _test_scores(
    task: Task, rows: _RowsOfRun, folder: Path, max_length: int, device: torch.device
) -> dict[str, float]:
    """The scores of the best model on the test rows, as "test_..."."""
    model, tokenizer = task.load(folder, rows.train)
    model.to(device)
    examples = task.examples(rows.test, tokenizer, model.config, max_length)
    scores = task.scores(model, rows.test, examples)
    return {f"test_{name}": score for name, score in scores.items()}


def _announce(sentence: object) -> None:
    """Print a sentence in the first process."""
    if is_first_process():
        tell(sentence)


def hold_out(
    rows: Sequence[Any], strata: Sequence[Any], share: float, seed: int
) -> tuple[list[Any], list[Any]]:
    """Split rows into those to train on and those that are held out.

    Args:
        rows: The rows.
        strata: A label for each row. Of each label the same share is held out, but never all of its
            rows.
        share: Share of the rows to hold out, between 0 and 1.
        seed: The same seed holds out the same rows.

    Raises:
        ValueError: `share` is not between 0 and 1, or there are too few rows to hold any out.
    """
    if not 0 < share < 1:
        raise ValueError(f"held_out should be a share between 0 and 1, not {share!r}.")
    rng = np.random.default_rng(seed)
    by_label: dict[Any, list[int]] = {}
    for index in rng.permutation(len(rows)).tolist():
        by_label.setdefault(strata[index], []).append(index)
    chosen: set[int] = set()
    for label in sorted(by_label, key=str):
        indices = by_label[label]
        count = min(len(indices) - 1, round(share * len(indices)))
        chosen.update(indices[:count])
    if not chosen:
        raise ValueError(
            f"The training rows ({len(rows)}) are too few to hold some out: pass a dev file."
        )
    training = [row for index, row in enumerate(rows) if index not in chosen]
    held_out = [row for index, row in enumerate(rows) if index in chosen]
    return training, held_out


def _within_positions(max_length: int, config: BertConfig) -> int:
    """The tokens of an example that the model has positions for, with a message where it is less.

    Raises:
        ValueError: There is no room for a token beside [CLS] and [SEP].
    """
    check_count("max_length", max_length, minimum=3)
    positions = config.max_position_embeddings
    if max_length > positions:
        _announce(f"max_length is {positions}, not {max_length}: the model has no more positions")
    return min(max_length, positions)


def label_fault(label: Any) -> str | None:
    """What is certainly wrong with a label, or None."""
    if isinstance(label, float) and math.isnan(label):
        return "NaN is not a label"
    if isinstance(label, float) and math.isinf(label):
        return "infinity is not a label"
    if not isinstance(label, str | int | float):
        return f"a label should be a string or a number, not {label!r:.80}"
    if not str(label).strip():
        return "the label is empty"
    return None


def _is_finite(label: Any) -> bool:
    try:
        return math.isfinite(float(label))
    except (ValueError, OverflowError):
        return False


@dataclass(frozen=True)
class SequenceTask(Task):
    """A label, or a number, for a text or a pair of texts in a table.

    Attributes:
        text: Column of the text.
        label: Column of the label.
        pair: Column of the second text, if there is one.
        regression: The label is a number.
        class_weights: A rare class counts as much as a frequent one, where a text has one label.
        multi_label: The label is a list of labels. A text may have several or none.
        label_columns: With `multi_label`, a column of 1 and 0 for each label, instead of `label`.
        columns: Names of the columns, for files without a header line.
        delimiter: See `read_table`.
        quoting: See `read_table`.
        dev_columns: Names of columns in evaluation files, where they differ, by their name in the
            training file.

    Raises:
        ValueError: `class_weights` for several labels a text, or for a number.
    """

    text: str = "text"
    label: str = "label"
    pair: str | None = None
    regression: bool = False
    class_weights: bool = False
    multi_label: bool = False
    label_columns: Sequence[str] = ()
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    quoting: Quoting = "auto"
    dev_columns: Mapping[str, str] = field(default_factory=dict)

    model_class: ClassVar[type[PreTrainedModel]] = BertForSequenceClassification

    def __post_init__(self) -> None:
        if self.class_weights and (self.multi_label or self.regression):
            raise ValueError("class_weights are for tasks with one label a text.")

    @property
    def metric(self) -> str:
        """Spearman's correlation for numbers, micro F1 for several labels, accuracy for one."""
        if self.regression:
            return "spearman"
        if self.multi_label:
            return "f1_micro"
        return "accuracy"

    def read(
        self, path: Path_, dev: bool = False, bad_rows: list[BadRow] | None = None
    ) -> list[PlacedRow]:
        """Rows of a table."""
        labels = self.label_columns or (self.label,)
        needed = [name for name in (self.text, self.pair, *labels) if name]
        rows = read_placed_rows(
            path,
            needed,
            self._fault,
            columns=self.columns,
            delimiter=self.delimiter,
            quoting=self.quoting,
            renamed=self.dev_columns if dev else None,
            bad_rows=bad_rows,
        )
        for row in rows:
            if self.label_columns:
                row[self.label] = labels_in_columns(row, self.label_columns)
            elif self.multi_label:
                row[self.label] = as_label_list(row[self.label])
        return rows

    def _fault(self, row: dict[str, Any]) -> str | None:
        """What is certainly wrong with a row."""
        for name in (self.text, self.pair):
            if name is not None and not isinstance(row[name], str):
                return text_fault(name, row)
        if self.multi_label:
            return self._fault_of_labels(row)
        label = row[self.label]
        fault = label_fault(label)
        if fault:
            return f"{self.label}: {fault}"
        if self.regression and not _is_finite(label):
            return f"{self.label} should be a finite number, not {label!r:.80}"
        return None

    def _fault_of_labels(self, row: dict[str, Any]) -> str | None:
        """What is certainly wrong with the labels of a row that may have several."""
        if self.label_columns:
            try:
                labels_in_columns(row, self.label_columns)
            except ValueError as error:
                return str(error)
            return None
        labels = as_label_list(row[self.label])
        if labels is None:
            return f"{self.label} should be a list of labels, not {row[self.label]!r:.80}"
        faults = [label_fault(label) for label in labels]
        return next((f"{self.label}: {fault}" for fault in faults if fault), None)

    def texts_of(self, row: Any) -> tuple[str, ...]:
        """The text, or both texts."""
        if self.pair is None:
            return (row[self.text],)
        return (row[self.text], row[self.pair])

    def labels_of(self, row: Any) -> Sequence[Any]:
        """The label or labels, or none if it is a number."""
        if self.regression:
            return ()
        if self.multi_label:
            labels: Sequence[Any] = row[self.label]
            return labels
        return (row[self.label],)

    def strata(self, rows: Rows) -> list[Any]:
        """The labels of a classification."""
        return [tuple(map(str, self.labels_of(row))) for row in rows]

    def config(self, rows: Rows) -> dict[str, Any]:
        """The labels by name, in alphabetical order."""
        if self.regression:
            return {"num_labels": 1, "problem_type": "regression"}
        labels = sorted({str(label) for row in rows for label in self.labels_of(row)})
        if self.multi_label:
            labels = list(self.label_columns) or labels
            if not labels:
                raise ValueError(f"No row has a label in the column {self.label!r}.")
            return {
                "id2label": dict(enumerate(labels)),
                "problem_type": "multi_label_classification",
            }
        if len(labels) == 1:
            raise ValueError(
                f"All rows have the label {labels[0]!r}: there is nothing to learn "
                "from a single class."
            )
        if len(labels) > max(50, len(rows) // 2):
            raise ValueError(
                f"Column {self.label!r} holds {len(labels)} different labels in {len(rows)} rows: "
                "name a column of classes, or learn numbers as a regression."
            )
        return {"id2label": dict(enumerate(labels)), "problem_type": "single_label_classification"}

    def examples(
        self, rows: Rows, tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Texts truncated to `max_length` tokens, and the index of the label."""
        texts = [row[self.text] for row in rows]
        pairs = [row[self.pair] for row in rows] if self.pair else None
        encoded = tokenizer(texts, pairs, truncation=True, max_length=max_length)
        labels = [self._target(row[self.label], config) for row in rows]
        weights = [1.0] * len(rows)
        if self.class_weights:
            counts = Counter(labels)
            weights = [len(rows) / len(counts) / counts[label] for label in labels]
        columns = zip(encoded["input_ids"], encoded["token_type_ids"], labels, weights, strict=True)
        return [
            {
                "input_ids": np.array(ids),
                "token_type_ids": np.array(segments),
                "labels": label,
                "weight": weight,
            }
            for ids, segments, label, weight in columns
        ]

    def _target(self, label: Any, config: BertConfig) -> Any:
        """Convert a label to a number, to the index of its class, or to 0 and 1 for each class.

        The latter has shape (1, classes).
        """
        if self.regression:
            return float(label)
        if not self.multi_label:
            return number_of(str(label), config)
        target = np.zeros((1, config.num_labels), dtype=np.float32)
        for each in label:
            target[0, number_of(str(each), config)] = 1
        return target

    def thresholds(self, model: Any, examples: Sequence[Example]) -> dict[str, float]:
        """The threshold of each label with the highest F1 on examples, by name."""
        logits = torch.cat(
            outputs_of(model, examples, lambda output: output.logits, [1] * len(examples))
        )
        expected = np.concatenate([example["labels"] for example in examples])
        thresholds = best_thresholds(expected, logits.sigmoid().numpy()).tolist()
        names = [model.config.id2label[index] for index in range(len(thresholds))]
        return dict(zip(names, thresholds, strict=True))

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Squared error, or cross entropy."""
        labels = batch["labels"]
        logits = model(**inputs_of(batch)).logits
        if self.class_weights:
            return {"labels": (cross_entropy(logits, labels, "none") * batch["weight"]).sum()}
        if self.multi_label:
            loss = binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            return {"labels": loss}
        compute_loss = regression_loss if self.regression else cross_entropy
        return {"labels": compute_loss(logits, labels, "sum")}

    def scores(self, model: Any, rows: Rows, examples: Sequence[Example]) -> dict[str, float]:
        """Correlations, or accuracy and F1."""
        logits = torch.cat(
            outputs_of(model, examples, lambda output: output.logits, [1] * len(examples))
        )
        labels = [example["labels"] for example in examples]
        if self.regression:
            return metrics.regression_scores(labels, logits.squeeze(-1).tolist())
        if self.multi_label:
            predicted = logits.sigmoid().numpy() >= thresholds_of(model.config)
            return metrics.multi_label_scores(np.concatenate(labels), predicted)
        return metrics.classification_scores(labels, logits.argmax(-1).tolist())


@dataclass(frozen=True)
class AnswerTask(Task):
    """Find the answer to a question in a text, from files in SQuAD format.

    See sections 4.2 and 4.3 of the paper.

    A text that is too long is split into windows. In a window without the answer, the target is
    [CLS], and so it is in every window of a question that cannot be answered.

    Attributes:
        stride: Number of tokens that a window repeats from the previous one, at most half of the
            tokens that the longest question leaves.
    """

    stride: int = 64

    model_class: ClassVar[type[PreTrainedModel]] = BertForQuestionAnswering
    metric: ClassVar[str] = "f1"

    def read(
        self, path: Path_, dev: bool = False, bad_rows: list[BadRow] | None = None
    ) -> list[dict[str, Any]]:
        """Questions, contexts and answers."""
        return read_squad(path)

    def texts_of(self, row: Any) -> tuple[str, ...]:
        """Question and context."""
        return (row["question"], row["context"])

    def examples(
        self, rows: Rows, tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Split rows into windows with the position of the first answer.

        Each has the offsets of every token in the context, too (-1 in the question).

        Raises:
            ValueError: A question leaves no room for its context.
        """
        questions = [row["question"] for row in rows]
        question_ids = tokenizer(questions, verbose=False)["input_ids"]
        lengths = [len(ids) + 1 for ids in question_ids]  # and the last [SEP]
        room = max_length - max(lengths)
        if room < 1:
            question = questions[lengths.index(max(lengths))]
            raise ValueError(
                f"max_length={max_length} leaves no room for a context "
                f"beside the question {question!r}."
            )
        contexts = [row["context"] for row in rows]
        stride = min(self.stride, room // 2)
        encoded = encode_windows(tokenizer, questions, contexts, max_length, stride)
        examples = []
        for window, number in enumerate(encoded["overflow_to_sample_mapping"]):
            offsets = context_offsets(encoded, window)
            start, end = _place(offsets, rows[number])
            examples.append(
                {
                    "input_ids": np.array(encoded["input_ids"][window]),
                    "token_type_ids": np.array(encoded["token_type_ids"][window]),
                    "offsets": offsets,
                    "row": number,
                    "start_positions": start,
                    "end_positions": end,
                }
            )
        return examples

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The mean of the cross entropies of the start and the end, over the tokens of a window."""
        logits = span_logits(model(**inputs_of(batch)))
        if "layout" in batch:
            windows = pad_windows(logits, batch["layout"].lengths)
        else:
            lowest = torch.finfo(logits.dtype).min
            windows = logits.masked_fill(batch["attention_mask"][..., None] == 0, lowest)
        start, end = (
            span_loss(windows[..., number], batch[name], "sum")
            for number, name in enumerate(("start_positions", "end_positions"))
        )
        return {"start_positions": (start + end) / 2}

    def scores(self, model: Any, rows: Rows, examples: Sequence[Example]) -> dict[str, float]:
        """Exact match and F1 of the answers' words."""
        return metrics.answer_scores(
            [row["answers"] for row in rows], self.answers(model, rows, examples)
        )

    def answers(self, model: Any, rows: Rows, examples: Sequence[Example]) -> list[str]:
        """Return the best answer to each question, as `minibert.answer_question` does.

        It is "" if the lowest score of [CLS] is higher than that of the best span of all windows,
        where some questions cannot be answered.
        """
        logits = outputs_of(model, examples, span_logits)
        windows = [
            (example["row"], example["offsets"], window_logits)
            for example, window_logits in zip(examples, logits, strict=True)
        ]
        best = best_answers(len(rows), windows, LONGEST_ANSWER)
        some_unanswerable = any(not row["answers"] for row in rows)
        answers = []
        for row, answer in zip(rows, best, strict=True):
            score, start, end = answer.span or (-math.inf, 0, 0)
            if some_unanswerable and answer.no_answer_score > score:
                answers.append("")
            else:
                answers.append(row["context"][start:end])
        return answers


def _place(offsets: Any, row: dict[str, Any]) -> tuple[int, int]:
    """Return the first and last token of the first answer. 0 and 0 if a part of it is outside."""
    if not row["answers"]:
        return 0, 0
    begin = row["starts"][0]
    end = begin + len(row["answers"][0])
    inside = np.flatnonzero((offsets[:, 1] > begin) & (offsets[:, 0] < end) & (offsets[:, 0] >= 0))
    whole = len(inside) and offsets[inside[0], 0] <= begin and offsets[inside[-1], 1] >= end
    if not whole:
        return 0, 0
    return int(inside[0]), int(inside[-1])


def inputs_of(batch: Batch) -> Batch:
    """The arguments of a model's forward, without labels."""
    names = ("input_ids", "token_type_ids", "attention_mask", "layout")
    return {name: batch[name] for name in names if name in batch}


def outputs_of(
    model: Any,
    examples: Sequence[Example],
    choose: Callable[[Any], Tensor],
    sizes: Sequence[int] | None = None,
) -> list[Tensor]:
    """Return what `choose` selects from the outputs of a model for each example.

    The results are on the CPU. See `run_packed`.
    """
    types = [e["token_type_ids"] for e in examples] if "token_type_ids" in examples[0] else None

    def forward(ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
        return choose(model(ids, layout=layout, token_type_ids=types)).float().cpu()

    with Progress(is_watched(), len(examples), "examples") as progress:
        rows = [e["input_ids"] for e in examples]
        return run_packed(
            model, forward, rows, types, sizes, report=lambda batch: progress.add(len(batch))
        )


def number_of(label: str, config: BertConfig) -> int:
    """The index of a label.

    Raises:
        ValueError: The training data do not have the label.
    """
    if label not in config.label2id:
        labels = ", ".join(config.label2id)
        raise ValueError(f"Label {label!r} is not among those of the training data ({labels}).")
    return config.label2id[label]
