"""Scripts for fine-tuning: cross-validation, and a search for hyperparameters."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from conftest import CHECKOUT
from tiny_folder import WORDS, tiny_folder

from minibert.tasks.sequence import SequenceTask
from minibert.text import read
from minibert.training.options import TrainingOptions

sys.path.append(str(CHECKOUT / "scripts"))


@pytest.fixture
def data(tmp_path: Path) -> tuple[str, str]:
    """Paths of a model, and of 40 rows whose label depends on their first word."""
    draw = random.Random(0)
    rows = [
        f"{WORDS[7 + n % 2]} {' '.join(draw.choices(WORDS[9:], k=4))}\t{n % 2}" for n in range(40)
    ]
    (tmp_path / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    return str(tiny_folder(tmp_path / "model")), str(tmp_path / "rows.tsv")


@pytest.mark.usefixtures("one_thread")
def test_every_row_is_evaluated_once(data: tuple[str, str], tmp_path: Path) -> None:
    from k_fold import k_fold

    scores = k_fold(*data, str(tmp_path / "out"), 3, SequenceTask(), TrainingOptions(steps=2))
    assert len(scores) == 3 and all(0 <= score <= 1 for score in scores)
    rows = SequenceTask().read(data[1])
    contents = sorted(str(row.values) for row in rows)
    folds = [SequenceTask().read(tmp_path / "out" / str(fold) / "dev.jsonl") for fold in range(3)]
    assert sorted(str(row.values) for fold in folds for row in fold) == contents
    trained = SequenceTask().read(tmp_path / "out" / "0" / "train.jsonl")
    assert sorted(str(row.values) for row in [*trained, *folds[0]]) == contents
    errors = [row.values for row in read(tmp_path / "out" / "errors.jsonl")]
    count = sum(1 - score for score in scores) * len(rows) / 3  # the folds are about equal
    assert len(errors) == pytest.approx(count, abs=1)
    for error in errors:
        assert error["predicted"] != error["label"]
        row = {name: error[name] for name in ("text", "label")}
        assert str(row) in contents
