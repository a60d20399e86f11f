"""Options of tasks: what they change in a loss, and data that decide less than one thinks."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from minibert import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertTokenizer,
    evaluate,
)
from minibert.tasks.options import LabelOptions
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.tokens import TokenTask
from minibert.text import Table
from minibert.training.data import pack
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions
from minibert.training.steps import count_labels
from minibert.util.checks import option
from minibert.util.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = [{"text": f"tea {n}", "label": "abc"[n % 3]} for n in range(9)]
SETS = [{"text": f"tea {n}", "label": [x for x in "abc" if n % (ord(x) - 95)]} for n in range(9)]


def batch_of(task: SequenceTask, rows: Any) -> tuple[Any, Any, Any]:
    """A model with a random head, a packed batch and its logits."""
    torch.manual_seed(0)
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    read = task.read(rows)
    model = BertForSequenceClassification.from_pretrained("minibert-tiny", **task.config(read))
    torch.nn.init.normal_(model.classifier.weight)
    batch = pack(task.encode(read, tokenizer, model.config, 16))
    inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "layout")}
    return model.eval(), batch, model(**inputs).logits


@pytest.mark.filterwarnings("ignore:.*newly initialized")
@pytest.mark.parametrize("class_weights", [False, True])
def test_label_smoothing_is_that_of_torch(class_weights: bool) -> None:
    task = SequenceTask(label_smoothing=0.2, class_weights=class_weights)
    rows = [*ROWS, *ROWS[:1] * 4]
    model, batch, logits = batch_of(task, rows)
    losses = F.cross_entropy(logits, batch["labels"], reduction="none", label_smoothing=0.2)
    weights = torch.ones(len(rows))
    if class_weights:
        counts = torch.bincount(batch["labels"]).double()
        weights = (len(rows) / 3 / counts)[batch["labels"]]
    expected = (losses * weights).sum()
    assert task.loss(model, batch)["labels"].item() == pytest.approx(expected.item())


@pytest.mark.filterwarnings("ignore:.*newly initialized")
def test_positive_weights_are_those_of_torch() -> None:
    task = SequenceTask(multi_label=True, positive_weights=True)
    model, batch, logits = batch_of(task, SETS)
    labels = batch["labels"]
    positives = labels.sum(0)
    criterion = torch.nn.BCEWithLogitsLoss(
        pos_weight=(len(labels) - positives) / positives, reduction="sum"
    )
    expected = criterion(logits, labels).item()
    assert task.loss(model, batch)["labels"].item() == pytest.approx(expected)


NUMBERS = [{"text": f"tea {n}", "label": n} for n in range(9)]
KINDS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a label": ({}, [*ROWS, *ROWS[:1] * 4]),
    "several labels": ({"multi_label": True}, SETS),
    "a number": ({"regression": True}, NUMBERS),
}
CHANGED: dict[str, Any] = {"bool": True, "int": 2, "float": 0.5}
OPTIONS = {
    one.name: CHANGED[str(one.type)] for one in fields(LabelOptions) if one.name != "multi_label"
}


def loss_with(kind: str, *names: str, certain: bool = False) -> Tensor | None:
    """The loss of a batch with some options, or None if they are refused.

    Its gradients are finite. `certain`: also where the model is certain of every label.
    """
    options, rows = KINDS[kind]
    try:
        task = SequenceTask(**options, **{name: OPTIONS[name] for name in names})
    except ArgumentError as error:
        assert error.argument.name in names
        return None
    model, batch, _ = batch_of(task, rows)
    if certain:
        with torch.no_grad():
            model.classifier.weight.mul_(1e4)
    loss: Tensor = task.loss(model, batch)["labels"]
    loss.backward()
    assert model.classifier.weight.grad.isfinite().all()
    return loss.detach()


@pytest.mark.filterwarnings("ignore:.*newly initialized")
@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_changes_the_loss_or_is_refused(name: str) -> None:
    applied = 0
    for kind in KINDS:
        loss = loss_with(kind, name)
        if loss is not None:
            assert loss != loss_with(kind), f"{name} has no effect on {kind}"
            loss_with(kind, name, certain=True)
            applied += 1
    assert applied, f"{name} is refused for every kind of label"


@pytest.mark.filterwarnings("ignore:.*newly initialized")
@pytest.mark.parametrize(("first", "second"), [*combinations(OPTIONS, 2)])
def test_two_options_change_the_loss_or_are_refused(first: str, second: str) -> None:
    for kind in KINDS:
        alone = [loss_with(kind, first), loss_with(kind, second)]
        both = loss_with(kind, first, second)
        if None in alone:
            assert both is None, f"{first} and {second} are not refused for {kind}"
        else:
            assert both is None or both not in alone, f"{first} or {second} has no effect on {kind}"


def test_options_for_other_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="label_smoothing"):
        SequenceTask(label_smoothing=1.5)
    with pytest.raises(ValueError, match="multi_label=True is not for numbers"):
        SequenceTask(multi_label=True, regression=True)


def test_an_option_of_a_task_has_a_name_of_its_own(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Pooled(SequenceTask):
        pool: int = option(2, "Another pool than that of TrainingOptions.")

    with pytest.raises(ValueError, match="Pooled has an option 'pool', as TrainingOptions"):
        finetune(Pooled(), "minibert-tiny", ROWS, ROWS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_option_is_in_the_card_and_in_the_config(tmp_path: Path) -> None:
    from minibert.cli import main

    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    file = str(tmp_path / "a.jsonl")
    command = ["finetune", "classification", "--model", "minibert-tiny", "--train", file]
    command += ["--dev", file, "--steps", "1", "--label-smoothing", "0.1"]
    assert main([*command, "--output", str(tmp_path / "out")]) == 0
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    for line in ("* label_smoothing: 0.1", "* class_weights: False", "* learning_rate: 0.001"):
        assert line in card
    config = BertConfig.from_pretrained(tmp_path / "out")
    assert config.extra["minibert"]["options"]["label_smoothing"] == 0.1


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([11, 2, 1, 10, 0], ["0", "1", "2", "10", "11"]),
        (["1.5", "-3", "10"], ["-3", "1.5", "10"]),
        (["10", "2", "other"], ["10", "2", "other"]),
        (["nan", "10", "9"], ["10", "9", "nan"]),
    ],
)
def test_numbers_are_in_the_order_of_numbers(labels: list[Any], expected: list[str]) -> None:
    rows = [{"text": "a", "label": label} for label in labels]
    sets = [{"text": "a", "label": [label]} for label in labels]
    for task, data in ((SequenceTask(), rows), (SequenceTask(multi_label=True), sets)):
        assert list(task.config(task.read(data))["id2label"].values()) == expected
    tags = TokenTask().read([([str(label)], [str(label)]) for label in labels])
    assert list(TokenTask().config(tags)["id2label"].values()) == expected


def test_minus_one_hundred_is_a_number_and_not_an_id() -> None:
    numbers = [{"labels": 3.0}, {"labels": -100.0}]
    assert count_labels(numbers, "labels") == 2
    assert count_labels([{"labels": 3}, {"labels": -100}], "labels") == 1
    assert count_labels([{"labels": np.array([-100, 2])}], "labels") == 1


def test_everything_is_trained_on_without_a_score(tmp_path: Path) -> None:
    options = TrainingOptions(epochs=1, batch_size=2)
    data = (SequenceTask(), "minibert-tiny", ROWS, None)
    assert finetune(*data, tmp_path / "a", options, held_out=0) == {}
    model = BertForSequenceClassification.from_pretrained(tmp_path / "a")
    assert model.config.num_labels == 3
    log = (tmp_path / "a" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(log) == 5  # 9 rows, and no evaluation
    scores = finetune(*data, tmp_path / "b", options, held_out=0, test=ROWS)
    assert "test_accuracy" in scores and "accuracy" not in scores
    with pytest.raises(ValueError, match="patience"):
        finetune(*data, tmp_path / "c", TrainingOptions(patience=1), held_out=0)


def test_one_sentence_cannot_be_held_out(tmp_path: Path) -> None:
    file = tmp_path / "t.conll"
    file.write_text("Ann B-PER\nsings O\n" * 150, encoding="utf-8")
    with pytest.raises(ValueError, match=r"one sentence of 300 words.*empty line"):
        finetune(TokenTask(), "minibert-tiny", file, None, tmp_path / "out")


def test_a_regression_of_minus_one_hundred_has_a_plain_loss(tmp_path: Path) -> None:
    rows = [{"text": "tea", "label": label} for label in (3, -100)] * 4
    task = SequenceTask(Table(label="label"), regression=True)
    finetune(task, "minibert-tiny", rows, rows, tmp_path, TrainingOptions(steps=1))
    log = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [json.loads(line) for line in log]
    assert losses[0]["loss"] == pytest.approx(losses[1]["mse"], rel=0.2)


@pytest.mark.parametrize("metric", ["matthews", "auc", "f1_micro", "f1:b"])
def test_a_further_metric_chooses_the_best_model(metric: str, tmp_path: Path) -> None:
    options = TrainingOptions(steps=2, metric=metric)
    scores = finetune(SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path, options, test=ROWS)
    assert scores[metric] == scores[f"test_{metric}"]
    model = BertForSequenceClassification.from_pretrained(tmp_path)
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    result = evaluate(model, tokenizer, ROWS, bootstrap=9, metric=metric)
    assert result.metrics[metric] == pytest.approx(scores[metric])
    assert metric in result.intervals
    assert metric not in evaluate(model, tokenizer, ROWS, bootstrap=0).metrics


def test_the_f1_of_a_class_is_that_of_its_row(tmp_path: Path) -> None:
    data = [(["Ann", "sings", "here"], ["B-PER", "O", "B-LOC"])] * 4
    options = TrainingOptions(steps=2, metric="f1:PER")
    scores = finetune(TokenTask(), "minibert-tiny", data, data, tmp_path, options)
    model = BertForTokenClassification.from_pretrained(tmp_path)
    result = evaluate(model, BertTokenizer.from_pretrained(tmp_path), data, bootstrap=0)
    (row,) = [row for row in result.classes if row.label == "PER"]
    assert scores["f1:PER"] == pytest.approx(row.f1)


@pytest.mark.parametrize("metric", ["f1:d", "f1", "auroc"])
def test_an_unknown_metric_is_refused_before_the_training(metric: str, tmp_path: Path) -> None:
    options = TrainingOptions(steps=1, metric=metric)
    if metric == "f1":
        finetune(SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path, options)
        return
    with pytest.raises(ValueError, match=f"metric is '{metric}'"):
        finetune(SequenceTask(), "minibert-tiny", ROWS, ROWS, tmp_path, options)
