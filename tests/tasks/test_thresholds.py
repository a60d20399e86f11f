"""Texts with several labels: one column per label, and thresholds that are saved with a model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score
from tiny_folder import classifier_folder, tiny_folder

from minibert import BertConfig, evaluate
from minibert.cli import main
from minibert.encoders.auto import load_with_heads
from minibert.tasks.sequence import Labeled, SequenceTask, as_flag, as_label_list
from minibert.tasks.thresholds import best_thresholds

LABELS = ("good", "funny")


@pytest.mark.parametrize("value", [1, 1.0, True, "1", " TRUE ", "yes"])
def test_values_that_set_a_label(value: object) -> None:
    assert as_flag(value) is True


@pytest.mark.parametrize("value", [0, 0.0, False, "0", "False", "no"])
def test_values_that_unset_a_label(value: object) -> None:
    assert as_flag(value) is False


@pytest.mark.parametrize("value", [2, "", None, "maybe", float("nan"), 0.5])
def test_other_values_are_an_error(value: object) -> None:
    with pytest.raises(ValueError, match=r"good should be 1 or 0 \(or true or false\), not "):
        task = SequenceTask(multi_label=True, label_columns=["good"])
        task.read([{"text": "w1", "good": value}])


def test_a_list_of_labels_is_read_from_json() -> None:
    assert as_label_list('["good", "funny"]') == ["good", "funny"]
    assert as_label_list(["good"]) == ["good"]
    assert as_label_list("good") is None
    assert as_label_list("[good") is None


def test_thresholds_have_the_highest_f1() -> None:
    rng = np.random.default_rng(0)
    expected = rng.random((80, 4)) < [0.5, 0.2, 0.9, 0.02]
    scores = np.clip(0.4 * expected + rng.random((80, 4)) * 0.6, 0, 1)
    thresholds = best_thresholds(expected, scores)
    for label, threshold in enumerate(thresholds):
        if expected[:, label].sum() < 5:
            assert threshold == 0.5
            continue
        best = f1_score(expected[:, label], scores[:, label] >= threshold)
        grid = [f1_score(expected[:, label], scores[:, label] >= x) for x in scores[:, label]]
        assert best == pytest.approx(max(grid))


@pytest.mark.parametrize("scale", [1e-9, 1.0])
def test_thresholds_are_as_fine_as_the_scores(scale: float) -> None:
    """A rare label may have tiny probabilities, of which none is 0 after rounding."""
    scores = scale * np.array([[0.1]] * 50 + [[0.9]] * 10)
    expected = scores > scale / 2
    assert ((scores >= best_thresholds(expected, scores)) == expected).all()


@pytest.mark.parametrize(
    ("scores", "notice"),
    [
        ([[0.2, 0.1], [0.4, 0.3], [0.3, 0.2]], "no text is predicted to have a label."),
        ([[0.9, 0.1], [0.7, 0.3], [0.8, 0.2]], "every text is predicted as 'good'."),
        ([[0.51, 0.1], [0.48, 0.1], [0.5, 0.1]], "differ by 0.03 at most between texts"),
        ([[0.9, 0.1], [0.1, 0.8], [0.8, 0.1]], ""),
    ],
)
def test_texts_that_are_all_scored_alike_give_a_notice(
    scores: list[list[float]], notice: str
) -> None:
    task = SequenceTask(multi_label=True)
    labels: list[list[str]] = [["good"], ["funny"], []]
    rows = task.read([{"text": "w1", "label": one} for one in labels])
    thresholds = np.full(2, 0.5)
    predictions = [Labeled(np.array(row), list(LABELS), thresholds) for row in scores]
    found = task.score(rows, predictions).notice
    assert notice in found if notice else not found


def write_films(path: Path, text: str, count: int = 24) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow([text, *LABELS])
        for number in range(count):
            table.writerow([f"w{number}; and more", number % 2, int(number % 3 == 0)])
    return path


def test_columns_of_labels_and_saved_thresholds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fine-tune with one column per label and another text column in --dev, then label texts."""
    model = tmp_path / "out"
    train = write_films(tmp_path / "train.csv", "text")
    dev = write_films(tmp_path / "dev.csv", "review")
    base = tiny_folder(tmp_path / "base")
    data = ["--train", str(train), "--dev", str(dev), "--dev-text-column", "review"]
    columns = ["--label-columns", ",".join(LABELS), "--delimiter", ";"]
    run = ["--model", str(base), "--epochs", "1", "--output", str(model), "--json"]
    assert main(["finetune", "classification", *data, *columns, *run]) == 0
    captured = capsys.readouterr()
    assert "thresholds with the best F1 on the evaluation rows: good " in captured.err
    scores = json.loads(captured.out.splitlines()[-1])
    config = BertConfig.from_pretrained(model)
    assert list(config.id2label.values()) == list(LABELS)
    thresholds = config.extra["thresholds"]
    assert thresholds.keys() == set(LABELS)

    arguments = [str(model), str(dev), "--text-column", "review", *columns, "--json"]
    assert main(["evaluate", *arguments]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    for name in ("map", "loss"):  # they need no thresholds, which were fitted on all of these rows
        assert metrics[name] == pytest.approx(scores[name])

    assert main(["classify", "-m", str(model), "w1", "w2", "--json"]) == 0
    for result in json.loads(capsys.readouterr().out)["output"]:
        assert all(label["score"] >= thresholds[label["label"]] for label in result["labels"])


def test_classify_and_evaluate_use_the_thresholds_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = "multi_label_classification"
    folder = classifier_folder(tmp_path / "model", 2, problem_type=problem)
    config = BertConfig.from_pretrained(folder)
    config.extra["thresholds"] = {"LABEL_0": 0.0, "LABEL_1": 1.0}
    config.save_pretrained(folder)
    assert main(["classify", "-m", str(folder), "w1", "--jsonl"]) == 0
    labels = json.loads(capsys.readouterr().out)["labels"]
    assert [label["label"] for label in labels] == ["LABEL_0"]
    model, tokenizer = load_with_heads(folder)
    rows = [{"text": "w1", "label": ["LABEL_0"]}]
    assert evaluate(model, tokenizer, rows, bootstrap=0).metrics["accuracy"] == 1
    strict = evaluate(model, tokenizer, rows, threshold=1.0, bootstrap=0)
    assert strict.metrics["accuracy"] == 0
