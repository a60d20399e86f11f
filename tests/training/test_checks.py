"""Checks of the data before training: errors with file and line, notices, and skipped rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from minibert import BertTokenizer
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.task import Task
from minibert.text import BadRow, Row, Table
from minibert.training.checks import check_data

TASK = SequenceTask()
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]


def values(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"text": text, "label": label} for text, label in pairs]


def rows(*pairs: tuple[str, Any]) -> list[Row]:
    return TASK.read(values(*pairs))


def notices(train: list[Row], dev: Sequence[Row] = ()) -> str:
    return "\n".join(check_data(TASK, train, dev).notices)


def test_counts() -> None:
    train = rows(("a", 1), ("a", 1), ("b b b b b b", 2), (" ", 2))
    report = check_data(TASK, train, rows(("c", 1)), tokenizer=BertTokenizer(WORDS), max_length=5)
    first = report.files[0]
    assert (first.rows, first.labels, first.duplicates) == (4, {"1": 2, "2": 2}, 1)
    assert (first.truncated, first.blank_texts) == (0.25, 1)
    line = (
        "train: 4 rows; labels 1 (2 times), 2 (2 times); 25.0% of the texts are truncated; "
        "1 duplicate; 1 blank text"
    )
    assert str(report).splitlines()[0] == line


def test_a_truncated_text_is_named_with_its_length_and_the_option() -> None:
    """The notice says what decides, and beyond the positions of the model what else helps."""

    def said(max_length: int, positions: int | None = None) -> str:
        train = rows(("a", 1), ("b b b b b b", 2))
        tokenizer = BertTokenizer(WORDS)
        report = check_data(
            TASK, train, tokenizer=tokenizer, max_length=max_length, positions=positions
        )
        return "\n".join(report.notices)

    assert "has 8 tokens, of which training reads 5." in said(5)
    assert "The limit is max_length, which may be up to 64" in said(5, 64)
    assert "no more positions" in said(5, 5) and "max_length" not in said(5, 5)
    assert "of which training reads" not in said(8)


@pytest.mark.parametrize(("task", "truncated"), [("row", 1.0), ("text", 0.5), ("nothing", 0.0)])
def test_truncated_is_what_the_task_truncates(task: Any, truncated: float) -> None:
    """Texts that go through the model one by one are measured one by one."""

    class Pairs(SequenceTask):
        truncates = task

    pairs = Pairs(Table(pair="pair", label="label"))
    train = pairs.read(
        [{"text": "a b", "pair": "b c", "label": 1}, {"text": "a b c a", "pair": "a", "label": 2}]
    )
    report = check_data(pairs, train, tokenizer=BertTokenizer(WORDS), max_length=5)
    assert report.files[0].truncated == truncated


def test_lists_of_words_are_texts_of_a_task_of_ones_own() -> None:
    """Such rows are not all equal."""

    class Words(Task):
        """It says nothing of its texts."""

    train, dev = (
        [Row(name, 1, {"tokens": words, "tags": [[], ["x"]]}, Table()) for words in sentences]
        for name, sentences in (("train", (["a", "b"], ["b", "c"])), ("dev", (["b", "c"], ["c"])))
    )
    report = check_data(Words(), train, dev, tokenizer=BertTokenizer(WORDS), max_length=3)
    assert (report.files[0].duplicates, report.files[0].truncated) == (0, 1.0)
    assert any("1 of 2 rows of dev are in train" in notice for notice in report.notices)


@pytest.mark.parametrize(
    ("labels", "notice"),
    [
        (["positive", "Positive "], "are classes of their own: 'Positive ', 'positive'."),
        ([1, 1.0], "are classes of their own: '1', '1.0'."),
        ([True, "1"], "are classes of their own: '1', 'True'."),
        (["\uae0d", "\u1100\u1173\u11bc"], "Unicode form are classes of their own"),
        (["x", "y", "y"], "only once in train: 'x'."),
        (["x", "NaN", "NaN"], "the label 'NaN' looks like a value that is missing"),
    ],
)
def test_labels_that_may_be_mistakes(labels: list[Any], notice: str) -> None:
    assert notice in notices(rows(*((f"a{index}", label) for index, label in enumerate(labels))))


def test_a_blank_text_is_named_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path / "data.csv", "text,label\na,x\n,y\nb,y\n  ,x\n")
    assert f"blank texts of train: 2, the first in {file}, line 3." in notices(TASK.read(file))


def test_overlaps_and_conflicts_of_train_and_dev_give_notices() -> None:
    train = rows(("a", "x"), ("b", "y"), ("b", "x"), ("c", "y"))
    text = notices(train, rows(("a", "x"), ("z", "x")))
    assert "1 of 2 rows of dev are in train, too" in text
    assert "texts of train that have different labels: 1." in text
    assert "labels that are not in dev: 'y'." in text
    assert notices(rows(("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"))) == ""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\na,x\nb,\n", r"data\.csv, line 3: label: the label is empty"),
        ("text,label\na,x\nb\n", r"data\.csv, line 3"),
        (
            "Text,label\na,x\n",
            r"no column 'text'. The columns are Text, label\. Name the right one by Table",
        ),
        ("text;label\na;x\n", r"a single column, 'text;label'. Pass Table\(delimiter=';'\)"),
        ("a great film,1\nbad,0\n", r"no header, pass Table\(columns="),
    ],
)
def test_certain_mistakes_are_errors(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        TASK.read(write(tmp_path / "data.csv", content))


@pytest.mark.parametrize("label", [float("nan"), None, ["x"], ""])
def test_values_that_are_not_labels_raise_an_error(label: Any, tmp_path: Path) -> None:
    content = "\n".join(map(json.dumps, values(("a", "x"), ("b", label))))
    with pytest.raises(ValueError, match=r"data\.jsonl, line 2: "):
        TASK.read(write(tmp_path / "data.jsonl", content))


def test_labels_of_a_regression_must_be_finite(tmp_path: Path) -> None:
    file = write(tmp_path / "data.csv", "text,label\na,1.5\nb,inf\n")
    with pytest.raises(ValueError, match="line 3: label should be a finite number, not 'inf'"):
        SequenceTask(regression=True).read(file)


def test_bad_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "data.csv", "text,label\na,x\nb,\nc\nd,y\n")
    bad_rows: list[BadRow] = []
    read = TASK.read(file, skip=bad_rows)
    assert [row.values for row in read] == values(("a", "x"), ("d", "y"))
    assert [row.place for row in bad_rows] == [f"{file}, line 3", f"{file}, line 4"]


def test_labels_that_training_never_sees_are_counted_before_it_starts() -> None:
    train = rows(("a", "x"), ("b", "y"))
    report = check_data(
        TASK, train, rows(("c", "z"), ("d", "x")), rows(("e", "v"), ("f", "y"), ("g", "w"))
    )
    assert "labels of dev that the training data lacks count as wrong: z, 1 of 2." in report.notices
    assert (
        "labels of test that the training data lacks count as wrong: v, w, 2 of 3."
        in report.notices
    )
    with pytest.raises(ValueError, match=r"dev \(z\) are not among .* training data \(x, y\)"):
        check_data(TASK, train, rows(("c", "z")))
    with pytest.raises(ValueError, match="normalize both to NFC"):
        check_data(TASK, rows(("a", "\u00e9"), ("b", "y")), rows(("c", "e\u0301")))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_not_labels(value: str, tmp_path: Path) -> None:
    file = write(tmp_path / "data.jsonl", f'{{"text": "a", "label": {value}}}\n')
    with pytest.raises(ValueError, match=r"data\.jsonl, line 1: label: (NaN|infinity) is not a"):
        TASK.read(file)


@pytest.mark.parametrize("name", ["nan", "N/A", "NULL", "inf"])
def test_labels_that_stand_for_a_missing_value(name: str, tmp_path: Path) -> None:
    rows = TASK.read(write(tmp_path / "data.csv", f"text,label\na,{name}\nb,x\n"))
    assert f"the label {name!r} looks like a value that is missing." in str(check_data(TASK, rows))
