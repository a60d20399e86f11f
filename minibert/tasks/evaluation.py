"""Evaluate a fine-tuned model on labeled data.

The scores are those that fine-tuning prints, with intervals and errors.

evaluation = evaluate(model, tokenizer, "dev.tsv", text_column="sentence")
print(evaluation.metrics["accuracy"], evaluation.intervals["accuracy"])
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from minibert.checks import check_count
from minibert.config import BertConfig
from minibert.corpus.inputs import placed_rows
from minibert.corpus.rows import PlacedRow, Quoting, missing_in_row, text_fault
from minibert.encoders.embedder import SentenceEmbedder
from minibert.encoders.search import pairwise_similarity
from minibert.heads import (
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from minibert.inference.logits import logits_of_rows, run_rows
from minibert.tasks import metrics
from minibert.tasks.answers import answer_question
from minibert.tasks.arguments import token_limit
from minibert.tasks.classification import class_scores
from minibert.tasks.labels import as_label_list, labels_in_columns, thresholds_of
from minibert.tasks.metrics import ClassScores
from minibert.tasks.readers import TaggedSentence, read_conll, read_squad, tagged_object
from minibert.tasks.retrieval import positive_ranks
from minibert.tasks.tagging import are_characters, encode_sentences, tags_of_sentences
from minibert.tokenization.tokenizer import BertTokenizer

TaskName = Literal[
    "classification", "multi_label", "regression", "tokens", "answers", "pairs", "scores"
]
Data = str | os.PathLike[str] | Sequence[Any]
Statistic = Callable[[npt.NDArray[np.int64]], dict[str, float]]
"""The metrics of some rows, by their indices, which may repeat."""

CONFIDENCE = 0.95
RECALL_AT = (1, 10)


@dataclass(frozen=True)
class Mistake:
    """A row whose prediction is wrong.

    Attributes:
        row: The index of the row, from 0.
        text: The text, or the texts of a pair separated by a tab.
        expected: What the data say.
        predicted: What the model says.
        score: How confident the model is, or for a regression the distance to the label.
    """

    row: int
    text: str
    expected: str
    predicted: str
    score: float


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`.

    Attributes:
        task: The task, such as "classification".
        rows: How many rows (texts, sentences, questions or pairs) were evaluated.
        metrics: The scores by name, as fine-tuning prints them.
        intervals: Lower and upper bound of each metric at 95% confidence, by bootstrap over the
            rows.
        classes: Precision, recall and F1 of each class, or of each kind of entity.
        labels: The names of the rows and columns of `confusion`.
        confusion: How often each label (rows) is predicted as each label (columns). Empty for other
            tasks.
        errors: The wrong rows, the most confident mistakes first.
    """

    task: str
    rows: int
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    classes: list[ClassScores] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)
    errors: list[Mistake] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the errors, for JSON."""
        content = asdict(self)
        del content["errors"]
        content["intervals"] = {name: list(bounds) for name, bounds in self.intervals.items()}
        content["error_count"] = len(self.errors)
        return content


@dataclass(frozen=True)
class _Columns:
    text: str
    pair: str | None
    label: str
    labels: Sequence[str] = ()
    negatives: Sequence[str] = ()


def evaluate(
    model: Any,
    tokenizer: BertTokenizer | None,
    data: Data,
    *,
    task: TaskName | None = None,
    text_column: str = "text",
    pair_column: str | None = None,
    label_column: str = "label",
    label_columns: Sequence[str] = (),
    negative_columns: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
    max_length: int | None = None,
    threshold: float | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Scores a fine-tuned model on labeled data.

    Args:
        model: A sequence classifier, a token classifier, a question answerer, or a
            `SentenceEmbedder`.
        tokenizer: The model's tokenizer. None for a `SentenceEmbedder`, which has its own.
        data: A file as for fine-tuning: a table, tagged words, or questions in SQuAD format. Or
            rows: dicts with the columns of a table or of a question, or the words and tags of a
            sentence, as (words, tags) or as {"tokens": words, "ner_tags": tags}. A pandas DataFrame
            is such a table, too.
        task: What to measure. None: what the model does. Of an embedder "scores" if the rows have a
            label, else "pairs".
        text_column: Column of the text, or of the anchor.
        pair_column: Column of the second text, or of the positive.
        label_column: Column of the label, the number, the list of labels, or the similarity.
        label_columns: Columns of a multi-label file that has a column of 1 and 0 for each label.
        negative_columns: Columns of texts that do not belong to the anchor, for an embedder. They
            are candidates as well, as in fine-tuning with triplets.
        columns: Names of the columns of a table of text without a header line.
        delimiter: Character between the columns of a table of text. None: as the ending says.
        quoting: Whether fields of such a table stand between quotation marks, as in `read_table`.
        max_length: Tokens of a text or a window. None: what the model and its tokenizer take.
        threshold: Probability from which a label of a multi-label classifier counts as predicted.
            None: the thresholds that fine-tuning kept with the model, or 0.5.
        bootstrap: How many resamples the intervals are drawn from. 0: no intervals.
        seed: Seed of the resamples.

    Returns:
        The scores, whose metrics depend on the task:

        - "classification": accuracy, f1 (macro)
        - "multi_label": f1_micro, f1_macro, accuracy
        - "regression": pearson, spearman, mse, mae
        - "scores": pearson, spearman
        - "tokens": f1, macro_f1, precision, recall, accuracy
        - "answers": exact_match, f1
        - "pairs": mrr, recall@k

    Raises:
        TypeError: The model is of another kind.
        ValueError: The data have no rows, lack a column, or have a label that the model does not
            have.
    """
    check_count("bootstrap", bootstrap, minimum=0)
    names = _Columns(text_column, pair_column, label_column, label_columns, negative_columns)
    if negative_columns and not isinstance(model, SentenceEmbedder):
        raise ValueError(
            "--negative-column (in Python negative_columns) is for an embedder: drop it."
        )
    rows: list[Any] = []
    if _is_table_task(model):
        read_rows = partial(
            _read_rows,
            required=[
                name for name in (text_column, pair_column, *negative_columns) if name is not None
            ],
            columns=columns,
            delimiter=delimiter,
            quoting=quoting,
        )
        data = rows = _table(data, read_rows)
    if isinstance(model, SentenceEmbedder):
        result, statistic = _evaluate_embedder(model, rows, names, task)
    else:
        if tokenizer is None:
            raise ValueError("tokenizer is None. Only a SentenceEmbedder has its own.")
        limit = token_limit(model, tokenizer)
        if max_length is not None:
            limit = min(limit, max_length)
        result, statistic = _evaluate_head(model, tokenizer, data, names, limit, threshold, task)
    intervals = bootstrap_intervals(statistic, result.rows, bootstrap, seed)
    return Evaluation(**{**vars(result), "intervals": intervals})


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
        low, high = np.quantile([draw[name] for draw in draws], [tail, 1 - tail]).tolist()
        intervals[name] = (low, high)
    return intervals


def _read_rows(
    path: Any,
    *,
    required: Sequence[str],
    columns: Sequence[str] | None,
    delimiter: str | None,
    quoting: Quoting,
) -> list[PlacedRow]:
    """The rows of a file, which know their lines."""
    rows = list(
        placed_rows(path, required=required, columns=columns, delimiter=delimiter, quoting=quoting)
    )
    if not rows:
        raise ValueError(f"{path} has no rows.")
    return rows


def _rows(data: Data, read: Callable[[Any], list[Any]]) -> list[Any]:
    """The rows of a file, or as they are."""
    if isinstance(data, str | os.PathLike):
        return read(data)
    items: Any = data
    if hasattr(items, "iloc"):  # a pandas DataFrame, whose items are names of columns
        items = items.to_dict("records")
    rows = list(items)
    if not rows:
        raise ValueError("data has no rows.")
    return rows


def _is_table_task(model: Any) -> bool:
    """Whether the data of the model are rows of a table."""
    return isinstance(model, SentenceEmbedder | BertForSequenceClassification)


def _table(data: Data, read: Callable[[Any], list[Any]]) -> list[dict[str, Any]]:
    """The rows of a table."""
    rows = _rows(data, read)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise ValueError(f"Row {number} of data should be a dict of columns, not {row!r:.60}.")
    return rows


def _places(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where each row stands: its file and line, or its number where it is of no file."""
    return [getattr(row, "place", f"Row {number}") for number, row in enumerate(rows, 1)]


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    for place, row in zip(_places(rows), rows, strict=True):
        if name not in row:
            may_lack_header = getattr(row, "may_lack_header", False)
            raise ValueError(f"{place}: {missing_in_row(name, row, may_lack_header)}")
    return [row[name] for row in rows]


def _label_columns(
    rows: Sequence[Mapping[str, Any]], columns: _Columns, config: BertConfig
) -> Sequence[str]:
    """The columns of a label each: those that were named, or one for each label of the model."""
    names = list(config.label2id)
    if columns.labels or columns.label in rows[0] or any(name not in rows[0] for name in names):
        return columns.labels
    return names


def _labels(rows: Sequence[Mapping[str, Any]], columns: _Columns) -> list[Any]:
    """The label of each row, or from a column for each label the list of those that are set."""
    if not columns.labels:
        return _column(rows, columns.label)
    for name in columns.labels:
        _column(rows, name)
    labels = []
    for place, row in zip(_places(rows), rows, strict=True):
        try:
            labels.append(labels_in_columns(row, columns.labels))
        except ValueError as error:
            raise ValueError(f"{place}: {error}.") from None
    return labels


def _texts(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    texts = _column(rows, name)
    for place, row in zip(_places(rows), rows, strict=True):
        fault = text_fault(name, row)
        if fault:
            raise ValueError(f"{place}: {fault}.")
    return texts


Result = tuple[Evaluation, Statistic]


def _evaluate_head(
    model: Any,
    tokenizer: BertTokenizer,
    data: Any,
    columns: _Columns,
    limit: int,
    threshold: float | None,
    task: TaskName | None,
) -> Result:
    expected_task = _task_of(model)
    if task is not None and task != expected_task:
        raise ValueError(
            f"task is {task!r}, but the model, a {type(model).__name__}, does {expected_task!r}."
        )
    if threshold is not None and expected_task != "multi_label":
        raise ValueError(
            f"threshold has no effect on a model that does {expected_task!r}: drop it. It is for "
            "models with several labels a text."
        )
    if expected_task == "tokens":
        return _evaluate_tokens(model, tokenizer, data, limit)
    if expected_task == "answers":
        return _evaluate_answers(model, tokenizer, data)
    return _evaluate_classifier(model, tokenizer, data, columns, limit, threshold)


def _evaluate_classifier(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    rows: list[Any],
    columns: _Columns,
    limit: int,
    threshold: float | None,
) -> Result:
    texts = _texts(rows, columns.text)
    pairs = None if columns.pair is None else _texts(rows, columns.pair)
    task = _task_of(model)
    expected = _expected(task, rows, columns, model.config)  # before anything is computed
    batch = tokenizer(texts, pairs, truncation=True, max_length=limit)
    logits = logits_of_rows(model, batch["input_ids"], batch["token_type_ids"])
    shown = texts
    if pairs is not None:
        shown = [f"{text}\t{pair}" for text, pair in zip(texts, pairs, strict=True)]
    scores = class_scores(model.config, logits)
    if task == "regression":
        return _regression("regression", shown, expected, scores[:, 0])
    if task == "multi_label":
        thresholds = thresholds_of(model.config)
        if threshold is not None:
            thresholds = np.full_like(thresholds, threshold)
        return _multi_label(shown, expected, scores, model.config, thresholds)
    return _classification(shown, expected, scores, model.config)


def _expected(
    task: TaskName, rows: Sequence[Mapping[str, Any]], columns: _Columns, config: BertConfig
) -> npt.NDArray[Any]:
    """What the rows say: numbers or ids of labels (rows,), or labels that are set (rows, labels).

    Raises:
        ValueError: A row has no label, or one that the model does not have.
    """
    if task == "multi_label":
        columns = replace(columns, labels=_label_columns(rows, columns, config))
    labels = _labels(rows, columns)
    places = _places(rows)
    if task == "regression":
        return _numbers(labels, columns.label, places)
    if task == "multi_label":
        return _label_sets(labels, places, config)
    pairs = zip(labels, places, strict=True)
    return np.array([_label_id(label, place, config) for label, place in pairs])


def _task_of(model: Any) -> TaskName:
    if isinstance(model, BertForTokenClassification):
        return "tokens"
    if isinstance(model, BertForQuestionAnswering):
        return "answers"
    if not isinstance(model, BertForSequenceClassification):
        raise TypeError(
            "model should be a sequence classifier, a token classifier, a question answerer or a "
            f"SentenceEmbedder, not a {type(model).__name__}."
        )
    if model.config.problem_type == "multi_label_classification":
        return "multi_label"
    if model.config.problem_type == "regression" or model.config.num_labels == 1:
        return "regression"
    return "classification"


def _numbers(labels: Sequence[Any], name: str, places: Sequence[str]) -> npt.NDArray[np.float64]:
    numbers = []
    for place, label in zip(places, labels, strict=True):
        try:
            number = float(label)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
        if not np.isfinite(number):
            raise ValueError(f"{place}: {name} should be a finite number, not {label!r:.60}.")
        numbers.append(number)
    return np.array(numbers)


def _label_sets(
    labels: Sequence[Any], places: Sequence[str], config: BertConfig
) -> npt.NDArray[np.bool_]:
    """Which labels each row has, (rows, labels)."""
    expected = np.zeros((len(labels), config.num_labels), dtype=bool)
    for row, (place, value) in enumerate(zip(places, labels, strict=True)):
        row_labels = as_label_list(value)
        if row_labels is None:
            raise ValueError(f"{place}: expected a list of labels, not {value!r:.60}.")
        for label in row_labels:
            expected[row, _label_id(label, place, config)] = True
    return expected


def _label_id(label: Any, place: str, config: BertConfig) -> int:
    if str(label) not in config.label2id:
        names = ", ".join(config.label2id)
        raise ValueError(f"{place}: the model does not have the label {label!r:.60} ({names}).")
    return config.label2id[str(label)]


def _classification(
    texts: Sequence[str], expected: npt.NDArray[np.int64], scores: Tensor, config: BertConfig
) -> Result:
    predicted = scores.argmax(-1).numpy()
    names = [config.id2label[index] for index in range(config.num_labels)]

    def statistic(rows: npt.NDArray[np.int64]) -> dict[str, float]:
        confusion = metrics.confusion_matrix(expected[rows], predicted[rows], len(names))
        return metrics.confusion_scores(confusion)

    errors = []
    for row in np.flatnonzero(expected != predicted).tolist():
        score = scores[row, predicted[row]].item()
        mistake = Mistake(row, texts[row], names[expected[row]], names[predicted[row]], score)
        errors.append(mistake)
    confusion = metrics.confusion_matrix(expected, predicted, len(names))
    result = Evaluation(
        task="classification",
        rows=len(expected),
        metrics=metrics.confusion_scores(confusion),
        intervals={},
        classes=metrics.class_scores_of_counts(names, metrics.confusion_counts(confusion)),
        labels=names,
        confusion=confusion.tolist(),
        errors=_most_confident_first(errors),
    )
    return result, statistic


def _most_confident_first(errors: list[Mistake]) -> list[Mistake]:
    return sorted(errors, key=lambda mistake: -mistake.score)


def _multi_label(
    texts: Sequence[str],
    expected: npt.NDArray[np.bool_],
    scores: Tensor,
    config: BertConfig,
    thresholds: npt.NDArray[np.float64],
) -> Result:
    names = [config.id2label[index] for index in range(config.num_labels)]
    probabilities = scores.numpy()
    predicted = probabilities >= thresholds

    def statistic(rows: npt.NDArray[np.int64]) -> dict[str, float]:
        return metrics.multi_label_scores(expected[rows], predicted[rows])

    errors = []
    for row in np.flatnonzero((expected != predicted).any(1)).tolist():
        wrong = np.flatnonzero(expected[row] != predicted[row])
        confidence = float(np.abs(probabilities[row] - thresholds)[wrong].max())
        mistake = Mistake(
            row, texts[row], _join(names, expected[row]), _join(names, predicted[row]), confidence
        )
        errors.append(mistake)
    result = Evaluation(
        task="multi_label",
        rows=len(expected),
        metrics=metrics.multi_label_scores(expected, predicted),
        intervals={},
        classes=metrics.class_scores_of_counts(
            names, metrics.multi_label_counts(expected, predicted)
        ),
        labels=names,
        errors=_most_confident_first(errors),
    )
    return result, statistic


def _join(names: Sequence[str], chosen: npt.NDArray[np.bool_]) -> str:
    return ", ".join(names[index] for index in np.flatnonzero(chosen).tolist())


def _regression(
    task: str, texts: Sequence[str], expected: npt.NDArray[np.float64], predictions: Any
) -> Result:
    predicted = np.asarray(predictions, dtype=np.float64)
    # the scale of a similarity has no meaning of its own
    compute = metrics.correlations if task == "scores" else metrics.regression_scores

    def statistic(rows: npt.NDArray[np.int64]) -> dict[str, float]:
        return compute(expected[rows].tolist(), predicted[rows].tolist())

    distances = np.abs(expected - predicted)
    errors = [
        Mistake(
            row, texts[row], f"{expected[row]:g}", f"{predicted[row]:.4g}", distances[row].item()
        )
        for row in range(len(texts))
    ]
    result = Evaluation(
        task=task,
        rows=len(texts),
        metrics=statistic(np.arange(len(texts))),
        intervals={},
        errors=_most_confident_first(errors),
    )
    return result, statistic


def _tagged(place: str, row: Any) -> TaggedSentence:
    """A sentence that is words and tags, or an object with both."""
    if not isinstance(row, Mapping):
        words, tags = row
        row = {"tokens": list(words), "tags": list(tags)}
    return tagged_object(place, row)


def _evaluate_tokens(
    model: BertForTokenClassification, tokenizer: BertTokenizer, data: Data, limit: int
) -> Result:
    rows = _rows(data, read_conll)
    sentences = [_tagged(f"Row {number}", row) for number, row in enumerate(rows, 1)]
    predictions, confidences = _predict_tags(model, tokenizer, sentences, limit)
    tags = [sentence_tags for _, sentence_tags in sentences]
    expected, predicted = metrics.entities_of(tags), metrics.entities_of(predictions)
    kinds, counts = metrics.entity_counts(expected, predicted, len(sentences))
    tag_counts = metrics.tag_counts(tags, predictions)

    def statistic(rows: npt.NDArray[np.int64]) -> dict[str, float]:
        right, words = tag_counts[rows].sum(0)
        scores = metrics.entity_scores_of_counts(counts[rows].sum(0))
        return scores | {"accuracy": float(metrics.ratio(right, words))}

    separator = "" if are_characters(sentences) else " "
    errors = []
    for row, (words, sentence_tags) in enumerate(sentences):
        expected_names = _entity_names(words, sentence_tags, separator)
        predicted_names = _entity_names(words, predictions[row], separator)
        if expected_names != predicted_names:
            text = separator.join(words)
            errors.append(Mistake(row, text, expected_names, predicted_names, confidences[row]))
    result = Evaluation(
        task="tokens",
        rows=len(sentences),
        metrics=statistic(np.arange(len(sentences))),
        intervals={},
        classes=metrics.class_scores_of_counts(kinds, counts.sum(0)),
        labels=kinds,
        errors=_most_confident_first(errors),
    )
    return result, statistic


def _predict_tags(
    model: BertForTokenClassification,
    tokenizer: BertTokenizer,
    sentences: Sequence[TaggedSentence],
    limit: int,
) -> tuple[list[list[str]], list[float]]:
    """The tags of each sentence, and the mean probability of its tokens' tags."""

    def compute(ids: Tensor, **inputs: Any) -> Tensor:
        logits: Tensor = model(ids, **inputs).logits
        return logits

    by_character = are_characters(sentences)
    windows = encode_sentences(sentences, tokenizer, limit, by_character)
    logits = run_rows(model, compute, [window.ids.tolist() for window in windows])
    tagged = []
    confidences: list[list[float]] = [[] for _ in sentences]
    for window, window_logits in zip(windows, logits, strict=True):
        scores, label_ids = window_logits.softmax(-1).max(-1)
        names = [model.config.id2label[label_id] for label_id in label_ids.tolist()]
        tagged.append((window.sentence, window.words, names))
        confidences[window.sentence] += scores[torch.from_numpy(window.words >= 0)].tolist()
    means = [float(np.mean(scores)) if scores else 0.0 for scores in confidences]
    return tags_of_sentences(sentences, tagged, by_character), means


def _entity_names(words: Sequence[str], tags: Sequence[str], separator: str) -> str:
    """The entities of a sentence, such as "PER Ann Lee; LOC Seoul"."""
    names = []
    for kind, first, end in metrics.entity_spans(tags):
        names.append(f"{kind} {separator.join(words[first:end])}")
    return "; ".join(names)


def _answer_texts(place: str, answers: Any) -> list[str]:
    """The texts of the answers to a question, also where they stand as in SQuAD or in datasets.

    SQuAD has {"text", "answer_start"} for each answer, and datasets have one with a list of each.
    """
    if isinstance(answers, Mapping):
        answers = answers.get("text")
    if isinstance(answers, str) or not isinstance(answers, Iterable):
        raise ValueError(f"{place}: answers should be a list of texts, not {answers!r:.80}.")
    texts: list[str] = []
    for answer in answers:
        text = answer
        if isinstance(answer, Mapping):
            text = answer.get("text")
        if not isinstance(text, str):
            raise ValueError(f"{place}: answers should be texts, not {text!r:.80}.")
        if text.strip():
            texts.append(text)
    return texts


def _evaluate_answers(
    model: BertForQuestionAnswering, tokenizer: BertTokenizer, data: Data
) -> Result:
    rows = _rows(data, read_squad)
    questions = _texts(rows, "question")
    contexts = _texts(rows, "context")
    answers = [
        _answer_texts(place, row_answers)
        for place, row_answers in zip(_places(rows), _column(rows, "answers"), strict=True)
    ]
    some_unanswerable = any(not row_answers for row_answers in answers)
    results = answer_question(model, tokenizer, questions, contexts, no_answer=some_unanswerable)
    predictions = [result["answer"] for result in results]
    agreements = metrics.answer_agreements(answers, predictions)

    def statistic(sample: npt.NDArray[np.int64]) -> dict[str, float]:
        exact, overlap = agreements[sample].mean(0).tolist()
        return {"exact_match": exact, "f1": overlap}

    errors = []
    for row in np.flatnonzero(agreements[:, 0] == 0).tolist():
        expected = " | ".join(answers[row])
        score = results[row]["score"]
        errors.append(Mistake(row, questions[row], expected, predictions[row], score))
    result = Evaluation(
        task="answers",
        rows=len(rows),
        metrics=metrics.answer_scores(answers, predictions),
        intervals={},
        errors=_most_confident_first(errors),
    )
    return result, statistic


def _evaluate_embedder(
    model: SentenceEmbedder,
    rows: Sequence[Mapping[str, Any]],
    columns: _Columns,
    task: TaskName | None,
) -> Result:
    if columns.pair is None:
        raise ValueError(
            "Evaluating an embedder needs the column of the second text: pass --pair-column "
            "(in Python pair_column)."
        )
    has_labels = columns.label in rows[0] and not columns.negatives
    if task == "scores" or (task is None and has_labels):
        return _evaluate_scores(model, rows, columns)
    return _evaluate_pairs(model, rows, columns)


def _encode_pairs(
    model: SentenceEmbedder, rows: Sequence[Mapping[str, Any]], columns: _Columns
) -> tuple[list[str], list[str], Any, Any]:
    anchors = _texts(rows, columns.text)
    positives = _texts(rows, str(columns.pair))
    return anchors, positives, model.encode(anchors, prompt=""), model.encode(positives, prompt="")


def _evaluate_scores(
    model: SentenceEmbedder, rows: Sequence[Mapping[str, Any]], columns: _Columns
) -> Result:
    labels = _numbers(_column(rows, columns.label), columns.label, _places(rows))
    anchors, positives, anchor_vectors, positive_vectors = _encode_pairs(model, rows, columns)
    cosines = pairwise_similarity(anchor_vectors, positive_vectors)
    shown = [f"{anchor}\t{positive}" for anchor, positive in zip(anchors, positives, strict=True)]
    return _regression("scores", shown, labels, cosines)


def _evaluate_pairs(
    model: SentenceEmbedder, rows: Sequence[Mapping[str, Any]], columns: _Columns
) -> Result:
    anchors, positives, anchor_vectors, positive_vectors = _encode_pairs(model, rows, columns)
    answers = list(positives)
    candidates = [positive_vectors]
    for name in columns.negatives:
        negatives = _texts(rows, name)
        answers += negatives
        candidates.append(model.encode(negatives, prompt=""))
    ranks = positive_ranks(anchor_vectors, np.concatenate(candidates), anchors, answers)

    def statistic(sample: npt.NDArray[np.int64]) -> dict[str, float]:
        chosen = ranks[sample]
        scores = {"mrr": float((1 / (chosen + 1)).mean())}
        for k in RECALL_AT:
            scores[f"recall@{k}"] = float((chosen < k).mean())
        return scores

    errors = [
        Mistake(row, anchors[row], positives[row], f"rank {ranks[row] + 1}", float(ranks[row]))
        for row in np.flatnonzero(ranks > 0).tolist()
    ]
    result = Evaluation(
        task="pairs",
        rows=len(rows),
        metrics=statistic(np.arange(len(rows))),
        intervals={},
        errors=_most_confident_first(errors),
    )
    return result, statistic
