"""What was read before training: counts for people, and what may be a mistake in the data.

    report = check_data(task, train_rows, dev_rows, tokenizer=tokenizer)
    print(report)

Mistakes that are certain raise an error. What may be one is a notice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from minibert.corpus.rows import BadRow
from minibert.coverage import coverage_warning
from minibert.tokenization.tokenizer import BertTokenizer

SAMPLE_ROWS = 2000  # of which the share of truncated texts is measured
SHOWN = 5  # labels or rows of a notice
MAX_LABELS_SHOWN = 20
# how libraries and spreadsheets write a value that is missing
NAMES_OF_MISSING = ("nan", "null", "none", "n/a", "na", "#n/a", "<na>", "inf", "-inf")


class CheckedTask(Protocol):
    """The parts of a task that `check_data` calls."""

    def texts_of(self, row: Any) -> tuple[str, ...]:
        """The texts of a row."""

    def labels_of(self, row: Any) -> Sequence[Any]:
        """The labels of a row, or none if they are numbers."""


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
    """

    name: str
    rows: int
    labels: Counter[str]
    truncated: float | None
    duplicates: int
    blank_texts: int

    def __str__(self) -> str:
        """One line."""
        parts = [f"{self.rows:,} rows"]
        if self.labels:
            shown = [
                f"{label} {count:,}" for label, count in self.labels.most_common(MAX_LABELS_SHOWN)
            ]
            hidden = len(self.labels) - len(shown)
            more = f" and {hidden} other labels" if hidden else ""
            parts.append(f"{', '.join(shown)}{more}")
        if self.truncated is not None:
            parts.append(f"{self.truncated:.1%} of the texts are truncated")
        if self.duplicates:
            parts.append(_count(self.duplicates, "duplicate"))
        if self.blank_texts:
            parts.append(_count(self.blank_texts, "blank text"))
        return f"{self.name}: {'; '.join(parts)}"


def _count(number: int, noun: str) -> str:
    """Such as "1 duplicate" or "1,200 duplicates"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@dataclass(frozen=True)
class DataReport:
    """What was read before training.

    Attributes:
        files: The training file and the evaluation file.
        notices: What may be a mistake, a sentence each.
        skipped: Rows that were left out because they have a fault.
    """

    files: list[FileReport]
    notices: list[str] = field(default_factory=list)
    skipped: list[BadRow] = field(default_factory=list)

    def __str__(self) -> str:
        """A line for each file, and one for each notice."""
        lines = [str(file) for file in self.files]
        if self.skipped:
            first = self.skipped[0]
            lines.append(
                f"{len(self.skipped):,} bad rows were left out, "
                f"the first at {first.place}: {first.reason}"
            )
        lines += [f"notice: {notice}" for notice in self.notices]
        return "\n".join(lines)


def check_data(
    task: CheckedTask,
    train: Sequence[Any],
    dev: Sequence[Any] = (),
    *,
    names: tuple[str, str] = ("train", "dev"),
    tokenizer: BertTokenizer | None = None,
    max_length: int = 128,
    skipped: Sequence[BadRow] = (),
) -> DataReport:
    """Reports what was read, before training begins.

    Args:
        task: Says what the texts and labels of a row are.
        train: Training rows, as the task reads them.
        dev: Evaluation rows, if there are any.
        names: The names of the two files.
        tokenizer: Measures how many texts are truncated, and whether the vocabulary can spell them.
            None: neither.
        max_length: Tokens after which training truncates.
        skipped: Rows that were left out when the files were read.

    Raises:
        ValueError: A label occurs in `dev` and not in `train`.
    """
    files = []
    for name, rows in zip(names, (train, dev), strict=True):
        if rows:
            files.append(_file_report(task, name, rows, tokenizer, max_length))
    labels = files[0].labels
    dev_labels = files[1].labels if len(files) > 1 else Counter[str]()
    _check_dev_labels(task, dev, labels, names)
    notices = [
        *_similar_labels(labels),
        *_rare_labels(labels, dev_labels, names),
        *_nan_labels(labels),
        *_duplicates_between(task, train, dev, names),
        *_contradictions(task, train, names[0]),
    ]
    if tokenizer is not None:
        sample = [text for row in train[: SHOWN * 4] for text in task.texts_of(row)]
        warning = coverage_warning(tokenizer, " ".join(sample))
        if warning:
            notices.append(warning)
    return DataReport(files, notices, list(skipped))


def _file_report(
    task: CheckedTask,
    name: str,
    rows: Sequence[Any],
    tokenizer: BertTokenizer | None,
    max_length: int,
) -> FileReport:
    labels = Counter(str(label) for row in rows for label in task.labels_of(row))
    texts = [task.texts_of(row) for row in rows]
    blank = sum(not text.strip() for row_texts in texts for text in row_texts)
    truncated = None
    if tokenizer is not None:
        truncated = _truncated_share(tokenizer, texts, max_length)
    return FileReport(name, len(rows), labels, truncated, len(texts) - len(set(texts)), blank)


def _truncated_share(
    tokenizer: BertTokenizer, texts: Sequence[tuple[str, ...]], max_length: int
) -> float:
    """The share of rows with more tokens than `max_length`, in a sample of all rows."""
    step = max(1, len(texts) // SAMPLE_ROWS)
    sample = texts[::step]
    lengths = np.ones(len(sample))  # [CLS]
    for column in zip(*sample, strict=True):
        ids = tokenizer(list(column), add_special_tokens=False, verbose=False)["input_ids"]
        lengths += [len(row) + 1 for row in ids]  # [SEP]
    return float((lengths > max_length).mean())


def _check_dev_labels(
    task: CheckedTask, dev: Sequence[Any], labels: Counter[str], names: tuple[str, str]
) -> None:
    for index, row in enumerate(dev, 1):
        for label in task.labels_of(row):
            if str(label) not in labels:
                place = getattr(row, "place", f"{names[1]}, row {index}")
                training_labels = ", ".join(sorted(labels)[:MAX_LABELS_SHOWN])
                raise ValueError(
                    f"{place}: the label {str(label)!r:.60} is not among "
                    f"those of the training data ({training_labels})."
                )


def _similar_labels(labels: Iterable[str]) -> list[str]:
    """Labels that differ only by case, by blanks, or as numbers that are equal."""
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for label in labels:
        groups[_canonical(label)].append(label)
    notices = []
    for group in groups.values():
        if len(group) > 1:
            shown = ", ".join(map(repr, sorted(group)))
            notices.append(
                f"the labels {shown} differ only in case, blanks or type, "
                "and are classes of their own."
            )
    return notices


def _canonical(label: str) -> Hashable:
    text = " ".join(label.split()).casefold()
    booleans = {"true": 1.0, "false": 0.0}
    if text in booleans:
        return booleans[text]
    try:
        return float(text)
    except ValueError:
        return text


def _rare_labels(
    labels: Counter[str], dev_labels: Counter[str], names: tuple[str, str]
) -> list[str]:
    notices = []
    once = sorted(label for label, count in labels.items() if count == 1)
    if once:
        notices.append(f"{_some(once)} {_verb(once, 'occurs', 'occur')} only once in {names[0]}.")
    missing = sorted(set(labels) - set(dev_labels))
    if dev_labels and missing:
        notices.append(f"{_some(missing)} {_verb(missing, 'is', 'are')} not in {names[1]}.")
    return notices


def _some(labels: Sequence[str]) -> str:
    shown = ", ".join(map(repr, labels[:SHOWN]))
    if len(labels) > SHOWN:
        shown += f" and {len(labels) - SHOWN} others"
    return f"the {_verb(labels, 'label', 'labels')} {shown}"


def _verb(labels: Sequence[str], singular: str, plural: str) -> str:
    if len(labels) == 1:
        return singular
    return plural


def _nan_labels(labels: Iterable[str]) -> list[str]:
    missing = [label for label in labels if label.strip().casefold() in NAMES_OF_MISSING]
    return [f"the label {label!r} looks like a value that is missing." for label in missing]


def _duplicates_between(
    task: CheckedTask, train: Sequence[Any], dev: Sequence[Any], names: tuple[str, str]
) -> list[str]:
    seen = {task.texts_of(row) for row in train}
    count = sum(task.texts_of(row) in seen for row in dev)
    if not count:
        return []
    return [
        f"{count:,} of {len(dev):,} rows of {names[1]} are in {names[0]}, too: "
        "the scores will be too good."
    ]


def _contradictions(task: CheckedTask, rows: Sequence[Any], name: str) -> list[str]:
    labels: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for row in rows:
        row_labels = tuple(map(str, task.labels_of(row)))
        if row_labels:
            labels[task.texts_of(row)].add(row_labels)
    count = sum(len(different) > 1 for different in labels.values())
    if not count:
        return []
    return [f"{count:,} texts of {name} occur with different labels."]
