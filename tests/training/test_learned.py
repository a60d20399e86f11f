"""A model that is trained further says which evaluation rows it has learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minibert.tasks.answers import AnswerTask
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.task import Task
from minibert.tasks.tokens import TokenTask
from minibert.training.finetuning import finetune
from minibert.training.learned import LEARNED, Learned
from minibert.training.options import TrainingOptions

pytestmark = pytest.mark.usefixtures("one_thread")


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"text": f"text {number}", "label": "ab"[number % 2]} for number in range(first, last)]


def train(base: Any, folder: Path, train_rows: Any, dev: Any, **more: Any) -> None:
    options = TrainingOptions(steps=1, **more)
    finetune(SequenceTask(), base, train_rows, dev, folder, options, max_length=8)


def test_rows_that_were_learned_before_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train("minibert-tiny", tmp_path / "a", rows(0, 20), None)
    train(tmp_path / "a", tmp_path / "same", rows(0, 20), None)  # the same rows are held out
    assert "was trained on" not in capsys.readouterr().err
    train(tmp_path / "a", tmp_path / "seed", rows(0, 20), None, seed=1)
    assert f"{tmp_path / 'a'} was trained on" in capsys.readouterr().err
    train(tmp_path / "a", tmp_path / "b", rows(30, 40), rows(18, 24))
    assert "of the 6 rows of the dev rows" in capsys.readouterr().err
    train(tmp_path / "b", tmp_path / "c", rows(50, 60), rows(30, 34))
    assert "was trained on 4 of the 4 rows" in capsys.readouterr().err
    train(tmp_path / "b", tmp_path / "d", rows(50, 60), rows(70, 80))
    assert "was trained on" not in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b"not an array"])
def test_a_folder_that_does_not_say_is_no_error(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / LEARNED).parent.mkdir()
        (tmp_path / LEARNED).write_bytes(content)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert not len(Learned.of(tmp_path).digests)


def test_without_states_nothing_is_kept(tmp_path: Path) -> None:
    train("minibert-tiny", tmp_path, rows(0, 20), None, keep_states=0)
    assert not (tmp_path / LEARNED).exists()


@pytest.mark.parametrize(
    ("task", "data"),
    [
        (AnswerTask(), [{"id": "q7", "question": "who?", "context": "Ann.", "answers": ["Ann"]}]),
        (TokenTask(), [{"id": "s7", "tokens": ["Ann"], "tags": ["B-PER"]}]),
    ],
)
def test_an_entry_keeps_its_id(task: Task, data: list[Any]) -> None:
    (row,) = task.read(data)
    assert row.values["id"] == data[0]["id"]
    assert all(data[0]["id"] not in text for text in task.texts_of(row))
