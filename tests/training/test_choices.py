"""What training and evaluation say or refuse where a number would mislead."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from minibert import BertForSequenceClassification, BertTokenizer, evaluate
from minibert.cli import main
from minibert.tasks.reranking import RerankTask
from minibert.tasks.sequence import SequenceTask, number_scores
from minibert.text import Table
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions

pytestmark = pytest.mark.usefixtures("one_thread")
ROWS: list[dict[str, Any]] = [{"text": f"tea {n}", "label": "abc"[n % 3]} for n in range(9)]


def test_an_added_class_keeps_the_rows_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = TrainingOptions(steps=3, learning_rate=1e-3)
    finetune(SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path / "a", options)
    rows = [*ROWS, {"text": "a bus", "label": "0 new"}]
    first = BertForSequenceClassification.from_pretrained(tmp_path / "a")
    model, _ = SequenceTask().load(tmp_path / "a", SequenceTask().read(rows))
    assert list(model.config.id2label.values()) == ["a", "b", "c", "0 new"]
    assert torch.equal(model.classifier.weight[:3], first.classifier.weight)
    assert torch.equal(model.classifier.bias[:3], first.classifier.bias)
    assert "0 new" in capsys.readouterr().err
    scores = finetune(SequenceTask(), tmp_path / "a", rows, rows, tmp_path / "b", options)
    assert 0 <= scores["accuracy"] <= 1


@pytest.mark.filterwarnings("ignore:.*newly initialized")
def test_other_classes_get_a_new_head(tmp_path: Path) -> None:
    options = TrainingOptions(steps=1)
    finetune(SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path, options)
    rows = SequenceTask().read([{"text": "a", "label": label} for label in "cxyz"])
    model, _ = SequenceTask().load(tmp_path, rows)
    assert list(model.config.id2label.values()) == list("cxyz")


def test_a_ranking_of_single_documents_cannot_choose(tmp_path: Path) -> None:
    rows = [{"query": f"q{n}", "document": f"d{n}", "label": n % 2} for n in range(20)]
    rows.append({**rows[0], "document": "d"})
    with pytest.raises(ValueError, match="metric mrr@10 ranks .* 1 of 20 queries"):
        finetune(RerankTask(), "minibert-tiny", rows, rows, tmp_path, TrainingOptions(steps=1))
    options = TrainingOptions(steps=1, metric="loss")
    finetune(RerankTask(), "minibert-tiny", rows, rows, tmp_path, options)


def test_the_f1_of_a_class_that_only_training_has_cannot_choose(tmp_path: Path) -> None:
    dev = [row for row in ROWS if row["label"] != "c"]
    options = TrainingOptions(steps=1, metric="f1:c")
    with pytest.raises(ValueError, match="the classes of .* are a, b"):
        finetune(SequenceTask(), "minibert-tiny", ROWS, dev, tmp_path, options)
    options = TrainingOptions(steps=1, metric="f1:b")
    assert "f1:b" in finetune(SequenceTask(), "minibert-tiny", ROWS, dev, tmp_path, options)


@pytest.mark.parametrize(("labels", "is_said"), [([3.0, 3.0], True), ([3.0, 4.0], False)])
def test_correlations_with_equal_labels_are_said_to_say_nothing(
    labels: list[float], is_said: bool
) -> None:
    scores = number_scores("regression", ["a", "b"], np.array(labels), np.array([1.0, 2.0]))
    assert scores.metrics["pearson"] == pytest.approx(0 if is_said else 1)
    assert ("all 2 labels are 3" in scores.notice) == is_said
    for rounding in (0.0, 1e-7):  # of the same text in two batches
        predicted = np.array([2.5, 2.5 + rounding])
        constant = number_scores("regression", ["a", "b"], np.array([3.0, 4.0]), predicted)
        assert "every text is predicted as 2.5" in constant.notice


def test_rows_that_are_left_out_name_the_option_at_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.tsv"
    lines = [f"tea {n}\t{n % 2}\n" for n in range(8)]
    file.write_text("".join(["text\tlabel\n", *lines, 'tea "\t1\tmore\n']), encoding="utf-8")
    files = ["--train", str(file), "--dev", str(file), "--output", str(tmp_path / "out")]
    options = ["--model", "minibert-tiny", "--steps", "1", "--skip-bad-rows"]
    assert main(["finetune", "classification", *options, *files]) == 0
    shown = capsys.readouterr().err
    assert "2 bad rows left out" in shown
    assert "--quoting quoted" in shown and "Table(" not in shown


@pytest.mark.parametrize(("steps", "is_told"), [(8, True), (4, False)])
def test_another_schedule_is_told(
    steps: int, is_told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class StopError(Exception):
        pass

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 2:
            raise StopError

    data = (SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path)
    options = TrainingOptions(steps=4, save_every=1)
    with pytest.raises(StopError):
        finetune(*data, options, callback=stop)
    with caplog.at_level(logging.INFO, logger="minibert"):
        finetune(*data, TrainingOptions(steps=steps, save_every=1), resume=True)
    assert ("the learning rate of step" in caplog.text) == is_told


def test_rows_of_errors_count_from_one_and_have_their_place(tmp_path: Path) -> None:
    options = TrainingOptions(steps=1)
    finetune(SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path / "m", options)
    lines = [f"r{n},{row['text']},{row['label']}" for n, row in enumerate(ROWS)]
    file = tmp_path / "dev.csv"
    file.write_text("\n".join(["id,text,label", *lines]), encoding="utf-8")
    errors = tmp_path / "errors.jsonl"
    command = ["evaluate", str(tmp_path / "m"), str(file), "--bootstrap", "0"]
    assert main([*command, "--errors", str(errors)]) == 0
    written = list(map(json.loads, errors.read_text(encoding="utf-8").splitlines()))
    assert written
    for error in written:
        row = ROWS[error["row"] - 1]
        assert (error["text"], error["expected"]) == (row["text"], row["label"])
        assert error["id"] == f"r{error['row'] - 1}"
        assert error["place"] == f"{file}, line {error['row'] + 1}"


def test_a_threshold_trades_coverage_for_accuracy(tmp_path: Path) -> None:
    options = TrainingOptions(steps=4, learning_rate=1e-3)
    finetune(SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path, options)
    model = BertForSequenceClassification.from_pretrained(tmp_path).eval()
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    predicted = SequenceTask().predict(
        model,
        read := SequenceTask().read(ROWS),
        SequenceTask().encode(read, tokenizer, model.config, 16),
    )
    best = np.array([max(scores.scores) for scores in predicted])
    ordered = np.sort(best)
    gap = np.diff(ordered).argmax()
    threshold = float(ordered[gap : gap + 2].mean())  # no row is near it
    covered = best >= threshold
    right = np.array(
        [
            scores.names[scores.scores.argmax()] == row["label"]
            for scores, row in zip(predicted, ROWS, strict=True)
        ]
    )
    result = evaluate(model, tokenizer, ROWS, bootstrap=0, threshold=threshold).metrics
    assert 0 < covered.mean() < 1
    assert result["coverage"] == pytest.approx(covered.mean())
    assert result["covered_accuracy"] == pytest.approx(right[covered].mean())
    everything = evaluate(model, tokenizer, ROWS, bootstrap=0, threshold=0.0).metrics
    assert everything["coverage"] == 1
    assert everything["covered_accuracy"] == everything["accuracy"]


def test_many_classes_of_words_are_learned_and_many_numbers_are_not() -> None:
    names = [{"text": "a", "label": f"class {n % 200}"} for n in range(350)]
    task = SequenceTask(Table(label="label"))
    assert len(task.config(task.read(names))["id2label"]) == 200
    numbers = [{"text": "a", "label": n % 200 / 7} for n in range(350)]
    ids = [{"text": "a", "label": f"id {n}"} for n in range(350)]
    for rows in (numbers, ids):
        with pytest.raises(ValueError, match="different labels"):
            task.config(task.read(rows))
