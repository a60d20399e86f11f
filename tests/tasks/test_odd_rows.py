"""One odd row, in training, in evaluation or in neither, changes nothing of the other rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert import BertTokenizer
from minibert.tasks.answers import AnswerTask
from minibert.tasks.reranking import RerankTask
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.similarity import SimilarityTask
from minibert.tasks.task import Task
from minibert.tasks.tokens import TokenTask
from minibert.text import Table

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*newly initialized"),
]

ODD = [
    "\u200b \u2764\ufe0f 1\ufe0f\u20e3",
    "Ann\nsings",
    "123",
    "NaN",
    'a "quoted" word',
    "word " * 90,
]
PAIR = Table("text", pair="other", label="label")
COLUMNS: dict[str, tuple[Task, list[str]]] = {
    "classification": (SequenceTask(), ["text", "label"]),
    "pairs of texts": (SequenceTask(PAIR), ["text", "other", "label"]),
    "regression": (SequenceTask(regression=True), ["text", "label"]),
    "several labels": (
        SequenceTask(multi_label=True, label_columns=("yes", "no")),
        ["text", "yes", "no"],
    ),
    "reranker": (RerankTask(PAIR), ["text", "other", "label"]),
    "pairs": (SimilarityTask(Table("text", pair="other")), ["text", "other"]),
    "scores": (SimilarityTask(PAIR), ["text", "other", "label"]),
    "answers": (AnswerTask(), ["question", "context", "answer"]),
    "tokens": (TokenTask(), []),
}


def cells(columns: list[str], number: int, text: str) -> list[str]:
    """A row of the table, whose texts contain `text`."""
    values = {
        "text": f"{text} {number // 2}",
        "other": f"other {text} {number}",
        "label": str(number % 2),
        "yes": str(number % 2),
        "no": str(1 - number % 2),
        "question": f"who {text}?",
        "context": f"{text} sings {number}.",
        "answer": f"sings {number}" if number % 2 else "",
    }
    return [values[name] for name in columns]


def write(path: Path, columns: list[str], odd: str | None) -> Path:
    """A file of ten rows, and at its end perhaps an odd one."""
    texts = ["Ann"] * 10 + ([] if odd is None else [odd])
    with open(path, "w", encoding="utf-8", newline="") as file:
        if columns:
            rows = [cells(columns, number, text) for number, text in enumerate(texts)]
            csv.writer(file).writerows([columns, *rows])
        else:
            for text in texts:
                words = [*text.split(), "sings"]
                lines = [f"{word}\t{'O' if index else 'B-P'}" for index, word in enumerate(words)]
                file.write("\n".join(lines) + "\n\n")
    return path


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", COLUMNS)
def test_an_odd_row_changes_no_other_row(name: str, odd: str, tmp_path: Path) -> None:
    task, columns = COLUMNS[name]
    ending = "csv" if columns else "conll"
    plain = write(tmp_path / f"plain.{ending}", columns, None)
    with_odd = write(tmp_path / f"odd.{ending}", columns, odd)
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    results: list[Any] = []
    for train, dev in ((plain, plain), (with_odd, plain), (plain, with_odd)):
        model, _ = task.load("minibert-tiny", task.read(str(train)))
        for index, parameter in enumerate(model.parameters()):
            if parameter.shape[0] < 5:  # a new head, which is random
                parameter.data = (parameter.data * 0 + 0.1).cumsum(0) * (1 + index % 2)
        rows = task.read(str(dev), dev=True)[:10]
        examples = task.encode(rows, tokenizer, model.config, 32)
        scores = task.score(rows, task.predict(model.eval(), rows, examples))
        ids = [np.asarray(example["input_ids"]).tolist() for example in examples]
        results.append((ids, model.config.id2label, scores.metrics))
    assert results[0] == results[1] == results[2]
