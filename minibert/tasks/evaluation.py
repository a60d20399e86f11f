"""Evaluate a fine-tuned model on labeled data.

The scores are those that fine-tuning prints, with intervals and errors.

evaluation = evaluate(model, tokenizer, "dev.tsv", text_column="sentence")
print(evaluation.metrics["accuracy"], evaluation.intervals["accuracy"])
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from minibert.encoders.arithmetic.scoring import label_names, problem_type
from minibert.encoders.folders.reading import Reading
from minibert.encoders.head_models import HeadModel, has_head, token_limit
from minibert.encoders.text_encoder import TextEncoder
from minibert.heads import (
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from minibert.tasks import TaskName
from minibert.tasks.answers import AnswerTask
from minibert.tasks.head_labels import label_ids, unknown_labels
from minibert.tasks.metrics import ClassScores
from minibert.tasks.reranking import RerankTask
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.similarity import SimilarityTask
from minibert.tasks.tables import rows_in_memory
from minibert.tasks.task import (
    Data,
    Mistake,
    Statistic,
    Task,
    read_rows,
    rows_that_fit,
)
from minibert.tasks.tokens import TokenTask
from minibert.text import BadRow, Table, left_out, read
from minibert.text.table import Quoting
from minibert.tokenization.coverage import warn_of_coverage
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count, check_kind, type_of, warn, warn_of_truncation
from minibert.util.errors import Argument, ArgumentError, Message

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`.

    Attributes:
        task: The task, such as "classification".
        rows: How many rows (texts, sentences, questions, pairs or queries) were evaluated.
        metrics: The scores by name, as fine-tuning prints them.
        intervals: Lower and upper bound of each metric at 95% confidence, by bootstrap over the
            rows.
        classes: Precision, recall and F1 of each class, or of each kind of entity.
        labels: The names of the rows and columns of `confusion`.
        confusion: How often each label (rows) is predicted as each label (columns). Empty for other
            tasks.
        errors: The wrong rows, the most confident mistakes first.
        truncated: How many texts had more tokens than the model took.
        unknown_labels: Labels of the data that the model does not have, and how often they occur.
            They count as wrong.
        skipped: How many rows were left out, because they are wrong.
        candidates: Among how many texts was ranked, for a ranking. None for other tasks.
    """

    task: str
    rows: int
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    classes: list[ClassScores] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)
    errors: list[Mistake] = field(default_factory=list)
    truncated: int = 0
    unknown_labels: dict[str, int] = field(default_factory=dict)
    candidates: int | None = None
    skipped: int = 0

    def __repr__(self) -> str:
        scores = ", ".join(f"{name}={value:.4g}" for name, value in self.metrics.items())
        return f"Evaluation({self.task!r}, rows={self.rows}, {scores}, errors={len(self.errors)})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the errors, for JSON."""
        content = asdict(self)
        del content["errors"]
        content["intervals"] = {name: list(bounds) for name, bounds in self.intervals.items()}
        content["error_count"] = len(self.errors)
        return content


def evaluate(
    model: Any,
    tokenizer: BertTokenizer | None,
    data: Data,
    *,
    task: TaskName | Task | None = None,
    text_column: str = "text",
    pair_column: str | None = None,
    label_column: str = "label",
    id_column: str | None = None,
    label_columns: Sequence[str] = (),
    negative_columns: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    quoting: Quoting | None = None,
    encoding: str | None = None,
    skip_bad_rows: bool = False,
    max_length: int | None = None,
    threshold: float | None = None,
    by_piece: bool | None = None,
    no_answer: bool | None = None,
    no_answer_threshold: float | None = None,
    max_answer_length: int | None = None,
    metric: str | Sequence[str] = (),
    bootstrap: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Scores a fine-tuned model on labeled data.

    Args:
        model: A sequence classifier, a token classifier, a question answerer, or a
            `SentenceEmbedder`. Or what `minibert.load(..., backend="onnx")` returns for an export
            of one. Or a `Classifier`, a `Tagger` or an `Answerer`.
        tokenizer: The model's tokenizer. None for an embedder and for the last three, which have
            their own.
        data: A file as for fine-tuning: a table, tagged words, or questions in SQuAD format. Or
            rows: dicts with the columns of a table or of a question, or the words and tags of a
            sentence, as (words, tags) or as {"tokens": words, "ner_tags": tags}. A pandas DataFrame
            is such a table, too.
        task: What to measure. None: what the model does. Of an embedder "scores" if the rows have a
            label, else "pairs". A task object reads the data as it says, whatever the arguments
            that follow.
        text_column: Column of the text, or of the anchor.
        pair_column: Column of the second text, or of the positive.
        label_column: Column of the label, the number, the list of labels, or the similarity.
        id_column: Column of the ids that the errors have. None: `id`, where a row has it.
        label_columns: Columns of a multi-label file that has a column of 1 and 0 for each label.
        negative_columns: Columns of texts that do not belong to the anchor, for an embedder. They
            are candidates as well, as in fine-tuning with triplets.
        columns: Names of the columns of a table of text without a header line.
        delimiter: Character between the columns of a table of text. None: as the ending says.
        quoting: Whether fields of such a table may stand between quotation marks: "quoted" or
            "none". None: as the ending says.
        encoding: Encoding of the file. None: UTF-8, or what a byte order mark names.
        skip_bad_rows: Leave out rows that are certainly wrong, and count them. Otherwise they are
            errors.
        max_length: Tokens of a text or a window. None: what the model and its tokenizer take. An
            embedder has a length of its own.
        threshold: Probability from which a label counts as predicted. None: of several labels the
            thresholds that fine-tuning kept with the model, or 0.5. With one label a text, the
            share of the texts that reach it is reported (coverage), and their accuracy.
        by_piece: Whether each piece of a word has a tag of its own, as of data with a tag for each
            character. None: as the model was trained.
        no_answer: Whether a text may lack the answer. None: as the model was trained. Of a model
            that does not say, whether some questions have none.
        max_answer_length: Tokens of the longest answer. None: as the model was trained, or 30.
        metric: Further metrics to report, one or several: "matthews", "auc" and "f1_micro" of
            classes, and "f1:CLASS", the F1 of a class or of a kind of entity.
        no_answer_threshold: How much higher the score of no answer has to be than that of the best
            answer. None: as the model was trained, or 0.
        bootstrap: How many resamples the intervals are drawn from. 0: no intervals.
        seed: Seed of the resamples.

    Returns:
        The scores, whose metrics depend on the task:

        - "classification": accuracy, f1 (macro), loss
        - "multi_label": f1_micro, f1_macro, accuracy, map, loss
        - "regression": pearson, spearman, mse, mae
        - "scores": pearson, spearman
        - "tokens": f1, macro_f1, precision, recall, accuracy, loss
        - "answers": exact_match, f1, loss, and where some questions have no answer
          has_answer_exact_match, has_answer_f1, no_answer_exact_match
        - "pairs": mrr, recall@k
        - "reranking": mrr@10, ndcg@10, loss

    Raises:
        TypeError: The model is of another kind, or `threshold` is no number.
        ValueError: The data have no rows, lack a column, or have only labels that the model does
            not have. Or an argument has no effect on this model.
    """
    check_count("bootstrap", bootstrap, minimum=0)
    if threshold is not None:
        check_kind("threshold", threshold, Real, "a number")
    table = Table(
        text_column,
        pair=pair_column,
        label=label_column,
        id=id_column,
        columns=None if columns is None else tuple(columns),
        delimiter=delimiter,
        quoting=quoting,
        encoding=encoding,
    )
    if isinstance(data, Iterator):  # whose first row may be looked at before it is read
        data = list(data)
    if isinstance(model, HeadModel):
        tokenizer = model.tokenizer
        max_length = model.max_length if max_length is None else max_length
        model = model.model
    is_own = isinstance(task, Task)
    if not isinstance(task, Task):
        task = _task_of(model, task, table, label_columns, negative_columns, data)
        readings = {
            "by_piece": by_piece,
            "no_answer": no_answer,
            "no_answer_threshold": no_answer_threshold,
            "max_answer_length": max_answer_length,
        }
        task = _with_options(task, readings)
    is_multi_label = isinstance(task, SequenceTask) and task.multi_label
    if label_columns and not is_multi_label:
        raise ArgumentError("label_columns", "is for models with several labels a text: drop it.")
    is_classifier = isinstance(task, SequenceTask) and not task.regression
    if threshold is not None and not is_classifier:
        raise ArgumentError(
            "threshold", "is for labels of texts, and has no effect on this model: drop it."
        )
    skipped: list[BadRow] = []
    # a task of one's own may have another table for evaluation files, which may lack negatives
    rows = read_rows(task, data, dev=is_own, skip=skipped if skip_bad_rows else None)
    examples = []
    unknown: dict[str, int] = {}
    limit = 0
    if isinstance(model, TextEncoder):
        if max_length is not None:
            raise ArgumentError(
                "max_length", "has no effect on an embedder, which has its own: drop it."
            )
    elif tokenizer is None:
        raise ArgumentError("tokenizer", "is None. Only an embedder has its own.")
    else:
        limit = token_limit(model, tokenizer, max_length)
        skip = skipped if skip_bad_rows else None
        rows = rows_that_fit(task, rows, tokenizer, limit, skip)
        warn_of_coverage(tokenizer, [text for row in rows for text in task.texts_of(row)])
        labels = Counter(label for row in rows for label in task.labels_of(row))
        known = label_ids(label_names(model.config))
        unknown, notice = unknown_labels(labels, known, "the data", "the model")
        if notice:
            warn(notice)
        examples = task.encode(rows, tokenizer, model.config, limit)
    if skipped:
        warn(left_out(skipped))
    truncated = sum(bool(example.get("truncated")) for example in examples)
    warn_of_truncation(truncated, len(examples), limit)
    predictions = task.predict(model, rows, examples)
    if threshold is not None:
        fixed = np.full(model.config.num_labels, threshold)
        predictions = [prediction._replace(thresholds=fixed) for prediction in predictions]
    scores = task.score(rows, predictions)
    scores = scores.reporting([metric] if isinstance(metric, str) else metric)
    if scores.notice:
        warn(scores.notice)

    def placed(mistake: Mistake) -> Mistake:
        row = rows[mistake.row]
        row_id = row.values.get("id") if row.table.id is None else row.id
        return replace(mistake, place=row.place, id=None if row_id is None else str(row_id))

    return Evaluation(
        scores.task,
        scores.rows,
        scores.metrics,
        bootstrap_intervals(scores.statistic, scores.rows, bootstrap, seed),
        scores.classes,
        scores.labels,
        scores.confusion,
        sorted(map(placed, scores.errors), key=lambda mistake: -mistake.score),
        truncated,
        unknown,
        scores.candidates,
        len(skipped),
    )


def _task_of(
    model: Any,
    name: TaskName | None,
    table: Table,
    label_columns: Sequence[str],
    negatives: Sequence[str],
    data: Data,
) -> Task:
    """The task of a model, which reads a table as the arguments of `evaluate` say."""
    if isinstance(model, TextEncoder):
        _check_task(name, model, "pairs", "scores")
        if table.pair is None:
            raise ValueError(
                Message(
                    "Evaluating an embedder needs the column of the second text: pass ",
                    Argument("pair_column"),
                    ".",
                )
            )
        is_scored = name == "scores"
        if name is None and not negatives:
            is_scored = _has_column(data, table)
        if is_scored and negatives:
            raise ArgumentError("negative_columns", "is for ranking, and not for scores: drop it.")
        if not is_scored:
            table = replace(table, label=None)
        return SimilarityTask(table, negatives, max_score=None)
    if negatives:
        raise ArgumentError("negative_columns", "is for an embedder: drop it.")
    if has_head(model, BertForTokenClassification):
        _check_task(name, model, "tokens")
        return TokenTask(table)
    if has_head(model, BertForQuestionAnswering):
        _check_task(name, model, "answers")
        return AnswerTask(table)
    if not has_head(model, BertForSequenceClassification):
        raise TypeError(
            "model should be a sequence classifier, a token classifier, a question answerer or a "
            f"SentenceEmbedder, or an export of one, not {type_of(model)}."
        )
    problem = problem_type(model.config)
    own = {"multi_label_classification": "multi_label", "regression": "regression"}.get(
        problem, "classification"
    )
    reading = Reading.of(model.config)
    if reading.pairs and table.pair is None:
        raise ArgumentError("pair_column", "is needed: this model was trained on pairs of texts.")
    if reading.pairs is False and table.pair is not None:
        raise ArgumentError(
            "pair_column", "has no effect here: this model was trained on single texts. Drop it."
        )
    if model.config.problem_type is None and model.config.num_labels == 1:
        _check_task(name, model, own, "reranking")
        if name == "reranking" or (name is None and table.pair is not None):
            return RerankTask(table)
    _check_task(name, model, own)
    if own == "multi_label" and not label_columns and not _has_column(data, table):
        label_columns = label_names(model.config)  # as files with a column for each label
    return SequenceTask(
        table,
        regression=own == "regression",
        multi_label=own == "multi_label",
        label_columns=label_columns if own == "multi_label" else (),
    )


def _with_options(task: Task, values: Mapping[str, Any]) -> Task:
    """The task with the options that are not None.

    Raises:
        ValueError: The task does not have one of them.
    """
    chosen = {name: value for name, value in values.items() if value is not None}
    for name in chosen:
        if not hasattr(task, name):
            raise ArgumentError(name, "has no effect on this model: drop it.")
    return replace(task, **chosen) if is_dataclass(task) else task


def _check_task(name: TaskName | None, model: Any, *own: str) -> None:
    """Raise a ValueError if a model does not do a task."""
    if name is not None and name not in own:
        does = " or ".join(map(repr, own))
        raise ArgumentError("task", f"is {name!r}, but the model, {type_of(model)}, does {does}.")


def _has_column(data: Any, table: Table) -> bool:
    """Whether the first row of a file, or of data in memory, has the column of the label."""
    is_file = isinstance(data, str | os.PathLike)
    rows = read(data, table, columns=()) if is_file else rows_in_memory(data, table)
    row = next(rows, None)
    return row is not None and isinstance(row.values, dict) and table.label in row.values


def bootstrap_intervals(
    statistic: Statistic, rows: int, samples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Compute the interval of each metric by resampling rows with replacement.

    See Efron and Tibshirani 1993, chapter 13.

    Args:
        statistic: The metrics of some rows.
        rows: How many rows there are.
        samples: How many resamples to draw. 0: no intervals.
        seed: Seed of the resamples.
    """
    if samples == 0:
        return {}
    rng = np.random.default_rng(seed)
    draws = [statistic(rng.integers(rows, size=rows)) for _ in range(samples)]
    tail = (1 - CONFIDENCE) / 2
    intervals = {}
    for name in draws[0]:
        low, high = np.nanquantile([draw[name] for draw in draws], [tail, 1 - tail]).tolist()
        intervals[name] = (low, high)
    return intervals
