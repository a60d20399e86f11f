"""What was read before training: counts for people, and what may be a mistake in the data.

    report = check_data(task, train_rows, dev_rows, tokenizer=tokenizer)
    print(report)

Mistakes that are certain raise an error. What may be one is a notice.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from minibert.tasks.head_labels import unknown_labels
from minibert.tasks.task import Task
from minibert.text import Row
from minibert.tokenization.coverage import unread_warning
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import amount
from minibert.util.errors import Argument, Message

SAMPLE_ROWS = 2000  # of which the share of truncated texts is measured
SHOWN = 5  # labels of a notice
MAX_LABELS_SHOWN = 20  # of the report of a file
# how libraries and spreadsheets write a value that is missing
NAMES_OF_MISSING = ("nan", "null", "none", "n/a", "na", "#n/a", "<na>", "inf", "-inf")


@dataclass(frozen=True)
class FileReport:
    """What a file holds.

    Attributes:
        name: The file.
        rows: How many rows it has.
        labels: How often each label occurs.
        truncated: Share of the texts that have more tokens than training takes. None: not measured.
        duplicates: Rows whose texts an earlier row has.
        blank_texts: Texts that are empty or blank.
        longest: Tokens of the longest that was measured. 0: not measured.
    """

    name: str
    rows: int
    labels: Counter[str]
    truncated: float | None
    duplicates: int
    blank_texts: int
    longest: int = 0

    def __str__(self) -> str:
        """One line."""
        parts = [amount(self.rows, "row")]
        if self.labels:
            shown = [
                f"{label} ({'once' if count == 1 else f'{count:,} times'})"
                for label, count in self.labels.most_common(MAX_LABELS_SHOWN)
            ]
            hidden = len(self.labels) - len(shown)
            more = f" and {hidden} other labels" if hidden else ""
            parts.append(f"labels {', '.join(shown)}{more}")
        if self.truncated is not None:
            parts.append(f"{self.truncated:.1%} of the texts are truncated")
        if self.duplicates:
            parts.append(amount(self.duplicates, "duplicate"))
        if self.blank_texts:
            parts.append(amount(self.blank_texts, "blank text"))
        return f"{self.name}: {'; '.join(parts)}"


@dataclass(frozen=True)
class DataReport:
    """What was read before training.

    Attributes:
        files: The training file and the evaluation files.
        notices: What may be a mistake, a sentence each.
    """

    files: list[FileReport]
    notices: list[str] = field(default_factory=list)

    @property
    def message(self) -> Message:
        """A line for each file, and one for each notice."""
        notices = [part for notice in self.notices for part in ("\nnotice: ", notice)]
        return Message("\n".join(map(str, self.files)), *notices)

    def __str__(self) -> str:
        return str(self.message)


def check_data(
    task: Task,
    train: Sequence[Row],
    dev: Sequence[Row] = (),
    test: Sequence[Row] = (),
    *,
    names: Sequence[str] = ("train", "dev", "test"),
    tokenizer: BertTokenizer | None = None,
    max_length: int = 128,
    positions: int | None = None,
) -> DataReport:
    """Report what was read, before training begins.

    Args:
        task: Says what the texts and labels of a row are.
        train: Training rows, as the task reads them.
        dev: Evaluation rows, if there are any.
        test: Test rows, if there are any.
        names: The names of the files.
        tokenizer: Measures how many texts are truncated, and whether the vocabulary can spell them.
            None: neither.
        max_length: Tokens after which training truncates.
        positions: The largest `max_length` of the model. None: unknown.

    Raises:
        ValueError: Another file has none of the labels of the training file.
    """
    files = [
        _file_report(task, name, rows, tokenizer, max_length)
        for name, rows in zip(names, (train, dev, test), strict=True)
    ]
    labels = files[0].labels
    notices = _truncation(files, max_length, positions)
    for file, rows in zip(files, (train, dev, test), strict=True):
        notices += _blank_texts(task, file, rows)
    notices += _similar_labels(labels)
    notices += [
        f"the label {label!r} looks like a value that is missing."
        for label in labels
        if label.strip().casefold() in NAMES_OF_MISSING
    ]
    once = [label for label, count in labels.items() if count == 1]
    if once:
        notices.append(f"labels that occur only once in {names[0]}: {_listed(once)}.")
    for file, rows in zip(files[1:], (dev, test), strict=True):
        if labels:
            _, notice = unknown_labels(file.labels, labels, file.name, "the training data")
            notices += filter(None, [notice])
        notices += _duplicates_between(task, train, rows, names[0], file.name)
    missing = labels.keys() - files[1].labels.keys()
    if files[1].labels and missing:
        notices.append(f"labels that are not in {names[1]}: {_listed(missing)}.")
    labels_of_texts: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for row in train:
        labels_of_texts[task.texts_of(row)].add(tuple(task.labels_of(row)))
    contradictions = sum(len(different) > 1 for different in labels_of_texts.values())
    if contradictions:
        notices.append(f"texts of {names[0]} that have different labels: {contradictions:,}.")
    if tokenizer is not None:
        for name, rows in zip(names, (train, dev, test), strict=True):
            warning = unread_warning(
                tokenizer, [text for row in rows for text in task.texts_of(row)]
            )
            if warning:
                notices.append(f"{name}: {warning}")
    return DataReport([file for file in files if file.rows], notices)


def _file_report(
    task: Task,
    name: str,
    rows: Sequence[Row],
    tokenizer: BertTokenizer | None,
    max_length: int,
) -> FileReport:
    labels = Counter(label for row in rows for label in task.labels_of(row))
    texts = [task.texts_of(row) for row in rows]
    blank = sum(not text.strip() for row_texts in texts for text in row_texts)
    truncated = None
    longest = 0
    if tokenizer is not None and rows and task.truncates == "nothing":
        truncated = 0.0
    elif tokenizer is not None and rows:
        sample = texts[:: max(1, len(texts) // SAMPLE_ROWS)]
        flat = [text for row_texts in sample for text in row_texts]
        ids_of_texts = iter(tokenizer(flat, add_special_tokens=False, verbose=False)["input_ids"])
        read_together = max if task.truncates == "text" else sum
        lengths = np.array(
            [
                1 + read_together([len(ids) + 1 for ids in islice(ids_of_texts, len(row_texts))])
                for row_texts in sample  # with [CLS], and a [SEP] behind each text
            ]
        )
        truncated = float((lengths > max_length).mean())
        longest = int(lengths.max())
    duplicates = len(texts) - len(set(texts))
    return FileReport(name, len(rows), labels, truncated, duplicates, blank, longest)


def _truncation(files: Iterable[FileReport], max_length: int, positions: int | None) -> list[str]:
    """A notice of the longest text that is truncated, and what decides it."""
    file = max(files, key=lambda file: file.longest)
    if not file.truncated:
        return []
    advice = Message(
        'The model has no more positions. The guide "What minibert does not do" classifies long '
        "documents."
    )
    if positions is None or max_length < positions:
        upper = "" if positions is None else f", which may be up to {positions}"
        advice = Message("The limit is ", Argument("max_length"), f"{upper}.")
    return [
        Message(
            f"a text of {file.name} has {file.longest:,} tokens, of which training reads "
            f"{max_length}. ",
            advice,
        )
    ]


def _blank_texts(task: Task, file: FileReport, rows: Iterable[Row]) -> list[str]:
    """A notice of texts that are empty, with the place of the first."""
    if not file.blank_texts:
        return []
    first = next(row for row in rows if not all(map(str.strip, task.texts_of(row))))
    return [f"blank texts of {file.name}: {file.blank_texts:,}, the first in {first.place}."]


def _similar_labels(labels: Iterable[str]) -> list[str]:
    """Labels that differ only by case, blanks, Unicode form, or as numbers that are equal."""
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for label in labels:
        text = unicodedata.normalize("NFC", " ".join(label.split()).casefold())
        canonical: Hashable = text
        with suppress(ValueError):
            canonical = float({"true": "1", "false": "0"}.get(text, text))
        groups[canonical].append(label)
    return [
        f"labels that differ only in case, blanks, type or Unicode form are classes of their own: "
        f"{_listed(group)}."
        for group in groups.values()
        if len(group) > 1
    ]


def _listed(labels: Iterable[str]) -> str:
    """The first labels in quotation marks, in alphabetical order."""
    names = sorted(labels)
    others = f" and {len(names) - SHOWN} others" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + others


def _duplicates_between(
    task: Task, train: Sequence[Row], other: Sequence[Row], train_name: str, other_name: str
) -> list[str]:
    """Rows of another file whose texts, or else whose group, is in the training file."""

    def shared(key: Callable[[Row], Any]) -> int:
        seen = {key(row) for row in train} - {None}
        return sum(key(row) in seen for row in other)

    what = ""
    count = shared(task.texts_of)
    if not count:
        what = "the contexts or anchors of "
        count = shared(task.group_of)
    if not count:
        return []
    return [
        f"{what}{count:,} of {len(other):,} rows of {other_name} are in {train_name}, too: the "
        "scores will be too good."
    ]
