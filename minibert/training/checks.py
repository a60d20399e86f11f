"""What was read before training: counts for people, and what may be a mistake in the data.

    report = check_data(task, train_rows, dev_rows, tokenizer=tokenizer)
    print(report)

Mistakes that are certain raise an error. What may be one is a notice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from minibert.tasks.task import Task
from minibert.text import BadRow, Row, left_out
from minibert.tokenization.coverage import coverage_warning
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.files import DOCUMENTS

SAMPLE_ROWS = 2000  # of which the share of truncated texts is measured
SHOWN = 5  # labels or rows of a notice
MAX_LABELS_SHOWN = 20
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
        longest: Tokens of the longest that was measured. None: not measured.
    """

    name: str
    rows: int
    labels: Counter[str]
    truncated: float | None
    duplicates: int
    blank_texts: int
    longest: int | None = None

    def __str__(self) -> str:
        """One line."""
        parts = [_count(self.rows, "row")]
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
            lines.append(left_out(self.skipped))
        lines += [f"notice: {notice}" for notice in self.notices]
        return "\n".join(lines)


def check_data(
    task: Task,
    train: Sequence[Row],
    dev: Sequence[Row] = (),
    test: Sequence[Row] = (),
    *,
    names: tuple[str, str, str] = ("train", "dev", "test"),
    tokenizer: BertTokenizer | None = None,
    max_length: int = 128,
    positions: int | None = None,
    skipped: Sequence[BadRow] = (),
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
        skipped: Rows that were left out when the files were read.

    Raises:
        ValueError: Another file has none of the labels of the training file.
    """
    files = [
        _file_report(task, name, rows, tokenizer, max_length)
        for name, rows in zip(names, (train, dev, test), strict=True)
    ]
    labels = files[0].labels
    notices = _truncation(files, max_length, positions)
    notices += _similar_labels(labels)
    notices += [
        f"the label {label!r} looks like a value that is missing."
        for label in labels
        if label.strip().casefold() in NAMES_OF_MISSING
    ]
    once = sorted(label for label, count in labels.items() if count == 1)
    if once:
        occur = _verb(once, "occurs", "occur")
        notices.append(f"{_some(once)} {occur} only once in {names[0]}.")
    for file, rows in zip(files[1:], (dev, test), strict=True):
        notices += _unknown_labels(labels, file.labels, file.name)
        notices += _duplicates_between(task, train, rows, names[0], file.name)
    missing = sorted(set(labels) - set(files[1].labels))
    if files[1].labels and missing:
        notices.append(f"{_some(missing)} {_verb(missing, 'is', 'are')} not in {names[1]}.")
    labels_of_texts: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for row in train:
        if row_labels := tuple(map(str, task.labels_of(row))):
            labels_of_texts[task.texts_of(row)].add(row_labels)
    contradictions = sum(len(different) > 1 for different in labels_of_texts.values())
    if contradictions:
        occur = "occurs" if contradictions == 1 else "occur"
        texts = _count(contradictions, "text")
        notices.append(f"{texts} of {names[0]} {occur} with different labels.")
    if tokenizer is not None:
        sample = [text for row in train[: SHOWN * 4] for text in task.texts_of(row)]
        warning = coverage_warning(tokenizer, " ".join(sample))
        if warning:
            notices.append(warning)
    return DataReport([file for file in files if file.rows], notices, list(skipped))


def _file_report(
    task: Task,
    name: str,
    rows: Sequence[Row],
    tokenizer: BertTokenizer | None,
    max_length: int,
) -> FileReport:
    labels = Counter(str(label) for row in rows for label in task.labels_of(row))
    texts = [task.texts_of(row) for row in rows]
    blank = sum(not text.strip() for row_texts in texts for text in row_texts)
    truncated = longest = None
    if tokenizer is not None and rows and task.truncates == "nothing":
        truncated = 0.0
    elif tokenizer is not None and rows:
        sample = texts[:: max(1, len(texts) // SAMPLE_ROWS)]
        columns = [
            tokenizer(list(column), add_special_tokens=False, verbose=False)["input_ids"]
            for column in zip(*sample, strict=True)
        ]
        tokens = np.array([[len(ids) + 1 for ids in column] for column in columns])  # with [SEP]
        lengths = 1 + (tokens.max(axis=0) if task.truncates == "text" else tokens.sum(axis=0))
        truncated = float((lengths > max_length).mean())
        longest = int(lengths.max())
    duplicates = len(texts) - len(set(texts))
    return FileReport(name, len(rows), labels, truncated, duplicates, blank, longest)


def _truncation(files: Iterable[FileReport], max_length: int, positions: int | None) -> list[str]:
    """A notice of the longest text that is truncated, and what decides it."""
    file = max(files, key=lambda file: file.longest or 0)
    if not file.truncated or file.longest is None:
        return []
    advice = f"The model has no more positions. {DOCUMENTS}."
    if positions is None or max_length < positions:
        upper = "" if positions is None else f", which may be up to {positions}"
        advice = f"The limit is max_length (--max-length){upper}."
    return [
        f"a text of {file.name} has {file.longest:,} tokens, of which training reads {max_length}. "
        f"{advice}"
    ]


def _unknown_labels(labels: Counter[str], others: Counter[str], name: str) -> list[str]:
    """A notice of the labels of a file that training never sees. All of them are an error."""
    unknown = sorted(set(others) - set(labels))
    if not labels or not unknown:
        return []
    if labels.keys().isdisjoint(others):
        listing = ", ".join(sorted(labels)[:MAX_LABELS_SHOWN])
        raise ValueError(
            f"{name} has none of the labels of the training data ({listing}), but {_some(unknown)}."
        )
    count = sum(others[label] for label in unknown)
    counts = _verb(unknown, "counts", "count")
    return [
        f"{_some(unknown)} of {name} {_verb(unknown, 'is', 'are')} not in the training data, so "
        f"{_verb(unknown, 'it', 'they')} {counts} as wrong: {count:,} of {sum(others.values()):,}."
    ]


def _similar_labels(labels: Iterable[str]) -> list[str]:
    """Labels that differ only by case, by blanks, or as numbers that are equal."""
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for label in labels:
        text = " ".join(label.split()).casefold()
        try:
            canonical: Hashable = float({"true": "1", "false": "0"}.get(text, text))
        except ValueError:
            canonical = text
        groups[canonical].append(label)
    notices = []
    for group in groups.values():
        if len(group) > 1:
            shown = ", ".join(map(repr, sorted(group)))
            notices.append(
                f"the labels {shown} differ only in case, blanks or type, "
                "and are classes of their own."
            )
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


def _duplicates_between(
    task: Task, train: Sequence[Row], other: Sequence[Row], train_name: str, other_name: str
) -> list[str]:
    """Rows of another file whose texts, or group, is in the training file."""
    for what, key in (("rows", task.texts_of), ("contexts or anchors", task.group_of)):
        seen = {key(row) for row in train} - {None}
        count = sum(key(row) in seen for row in other)
        if count:
            of = f"rows of {other_name}"
            if what == "rows":
                found = f"{count:,} of {len(other):,} {of} are in {train_name}, too"
            else:
                found = f"the {what} of {count:,} of {len(other):,} {of} are in {train_name}, too"
            return [f"{found}: the scores will be too good."]
    return []
