"""Train a fine-tuned checkpoint further: which heads keep their labels, and which are new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_folder import tiny_folder
from torch import nn

import minibert
from minibert import BertConfig, BertModel, BertPreTrainedModel, BertTokenizer, PaddedLayout
from minibert.outputs import LogitsOutput
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.task import Task
from minibert.tasks.tokens import TokenTask
from minibert.training.finetuning import finetune, hold_out
from minibert.training.options import TrainingOptions
from minibert.training.state import saved_states

pytestmark = pytest.mark.usefixtures("one_thread")

CLASSES = "BertForSequenceClassification"
TAGS = "BertForTokenClassification"
ANSWERS = "BertForQuestionAnswering"
MULTI = {"problem_type": "multi_label_classification"}
REGRESSION = {"num_labels": 1, "problem_type": "regression"}


def names(*labels: str) -> dict[str, Any]:
    return {"id2label": dict(enumerate(labels))}


def head(folder: Path, kind: str, fields: dict[str, Any]) -> Path:
    """Save a checkpoint with a head whose weights are all 7."""
    base = tiny_folder(folder / "base")
    model = getattr(minibert, kind).from_pretrained(base, **fields)
    for name, parameter in model.named_parameters():
        if name.startswith(("classifier", "qa_outputs")):
            parameter.data.fill_(7)
    model.save_pretrained(folder / "model")
    BertTokenizer.from_pretrained(base).save_pretrained(folder / "model")
    return folder / "model"


def rows_of(task: Task, labels: Sequence[Any]) -> list[Any]:
    if isinstance(task, TokenTask):
        return task.read([(["a"] * len(labels), list(labels))])
    return task.read([{"text": "a", "label": label} for label in labels])


SEQUENCE, TOKENS = SequenceTask(), TokenTask()
SEVERAL, NUMBER = SequenceTask(multi_label=True), SequenceTask(regression=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "fields", "task", "labels", "expected"),
    [
        (CLASSES, names("positive", "negative"), SEQUENCE, ["negative", "positive"], None),
        (CLASSES, names("c", "a", "b"), SEQUENCE, ["a", "b"], None),  # one is missing in the data
        (TAGS, names("O", "I-A", "B-A"), TOKENS, ["B-A", "I-A", "O"], None),
        (CLASSES, {**names("x", "a"), **MULTI}, SEVERAL, [["a", "x"], []], None),
        (CLASSES, REGRESSION, NUMBER, [0.5, 1], None),
        (CLASSES, {"num_labels": 1}, NUMBER, [0.5, 1], None),  # a cross-encoder
        (CLASSES, {"num_labels": 3}, SEQUENCE, [2, 0], ["0", "1", "2"]),  # names by default
        (CLASSES, names("a", "b"), SEQUENCE, ["c", "a", "d"], ["a", "c", "d"]),
        (CLASSES, names("a", "b"), SEQUENCE, ["d", "c"], ["c", "d"]),  # as many, but others
        (CLASSES, names("a", "b"), SEVERAL, [["a"], ["b"]], ["a", "b"]),
        (CLASSES, names("a", "b"), NUMBER, [1, 2], ["LABEL_0"]),
        (CLASSES, REGRESSION, SEQUENCE, ["a", "b"], ["a", "b"]),
        (CLASSES, {"num_labels": 1}, SEQUENCE, ["a", "b"], ["a", "b"]),
        (CLASSES, names("a", "b"), TOKENS, ["a", "b"], ["a", "b"]),
        (TAGS, names("O", "B-A"), TOKENS, ["B-B", "O"], ["B-B", "O"]),
        (ANSWERS, {}, SEQUENCE, ["a", "b"], ["a", "b"]),
    ],
)
def test_which_heads_stay(
    kind: str,
    fields: dict[str, Any],
    task: Task,
    labels: Sequence[Any],
    expected: list[str] | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`expected` are the labels of a new head, or of one whose default names get numbers."""
    folder = head(tmp_path, kind, fields)
    torch.manual_seed(0)
    model, _ = task.load(folder, rows_of(task, labels))
    is_kept = bool((model.classifier.weight == 7).all())
    told = capsys.readouterr().err
    assert is_kept == ("the head is new" not in told) and told.count("\n") <= 1
    present = list(BertConfig.from_pretrained(folder).id2label.values())
    has_default_names = expected == ["0", "1", "2"]
    assert is_kept == (expected is None or has_default_names)
    assert [model.config.id2label[i] for i in range(model.config.num_labels)] == (
        expected or present
    )


class Classifier(BertPreTrainedModel):
    """A class of a user's own, whose head has a name that minibert's heads have."""

    name = "classifier"

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.add_module(self.name, self.head(config))
        self.post_init()

    def head(self, config: BertConfig) -> nn.Module:
        return nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids: Any, layout: Any = None, **options: Any) -> LogitsOutput:
        options = {name: options.get(name) for name in ("token_type_ids", "attention_mask")}
        layout = layout or PaddedLayout(options.pop("attention_mask"))
        states = self.bert(input_ids, layout=layout, **options).last_hidden_state
        return LogitsOutput(logits=self.get_submodule(self.name)(layout.pad(states).sum(1)))


class Deep(Classifier):
    def head(self, config: BertConfig) -> nn.Module:
        size = config.hidden_size
        return nn.Sequential(nn.Linear(size, size), nn.Tanh(), super().head(config))


class Scorer(Classifier):
    """Its head has a name of its own."""

    name = "scorer"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_class", [Classifier, Deep, Scorer])
def test_the_head_of_a_users_class_stays(
    model_class: type[Classifier], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scores on test rows are those of the model that is saved, not of a new head.

    Trained further on rows without one of its labels, it keeps them all.
    """
    own_class = model_class

    class OwnTask(SequenceTask):
        model_class = own_class

    base = tiny_folder(tmp_path / "base")
    rows = [{"text": "good", "label": "yes"}, {"text": "bad", "label": "no"}]
    rows.append({"text": "so so", "label": "maybe"})
    options = TrainingOptions(steps=12, learning_rate=3e-3)
    scores = finetune(OwnTask(), base, rows, rows, tmp_path / "out", options, test=rows)
    assert scores["test_loss"] == pytest.approx(scores["loss"])
    assert "the head is new" not in capsys.readouterr().err
    saved = own_class.from_pretrained(tmp_path / "out").state_dict()
    loaded, _ = OwnTask().load(tmp_path / "out", OwnTask().read(rows[:2]))
    assert all(torch.equal(value, saved[name]) for name, value in loaded.state_dict().items())


class DeepScorer(Deep, Scorer):
    pass


class Counting(Classifier):
    """It takes the number of labels as an argument of its own."""

    def __init__(self, config: BertConfig, num_labels: int = 2) -> None:
        super().__init__(config.replace(num_labels=num_labels))


@pytest.mark.filterwarnings("ignore")
def test_a_class_whose_labels_are_an_argument_gets_a_new_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class OwnTask(SequenceTask):
        model_class = Counting

    Counting(BertConfig.from_pretrained(tiny_folder(tmp_path))).save_pretrained(tmp_path)
    task = OwnTask(regression=True)
    loaded, _ = task.load(tmp_path, task.read([{"text": "good", "label": 0.5}]))
    assert loaded.classifier.out_features == 1
    assert "the head is new:" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("own_class", [Deep, DeepScorer])
@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"]])
def test_only_what_depends_on_the_labels_is_new(
    own_class: type[Classifier],
    labels: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class OwnTask(SequenceTask):
        model_class = own_class

    config = BertConfig.from_pretrained(tiny_folder(tmp_path / "base"))
    config = config.replace(id2label={0: "yes", 1: "no", 2: "maybe"})
    own_class(config).save_pretrained(tmp_path / "out")
    BertTokenizer.from_pretrained(tmp_path / "base").save_pretrained(tmp_path / "out")
    saved = own_class.from_pretrained(tmp_path / "out").state_dict()
    capsys.readouterr()
    rows = [{"text": "good", "label": label} for label in labels]
    loaded, _ = OwnTask().load(tmp_path / "out", OwnTask().read(rows))
    new = [f"{own_class.name}.2.{part}" for part in ("bias", "weight")]
    assert f"the head is new ({', '.join(new)})" in capsys.readouterr().err
    values = loaded.state_dict()
    assert values[new[1]].shape == (len(labels), config.hidden_size)
    assert not torch.equal(values[new[1]][:2], saved[new[1]][:2])
    assert all(torch.equal(values[name], saved[name]) for name in saved.keys() - set(new))


def test_training_further_begins_where_it_ended(tmp_path: Path) -> None:
    base = tiny_folder(tmp_path / "base")
    lines = [f"{'good' if n % 2 else 'bad'} w{n}\t{'yes' if n % 2 else 'no'}\n" for n in range(40)]
    file = tmp_path / "train.tsv"
    file.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    options = TrainingOptions(epochs=8, learning_rate=5e-3)
    before = finetune(SequenceTask(), base, file, file, tmp_path / "first", options)
    config = BertConfig.from_pretrained(tmp_path / "first")
    assert before["accuracy"] == 1 and config.id2label == {0: "no", 1: "yes"}
    # as a checkpoint of others, whose labels have another order
    model = minibert.BertForSequenceClassification.from_pretrained(tmp_path / "first")
    model.config.id2label = {0: "yes", 1: "no"}
    model.classifier.weight.data = model.classifier.weight.data.flip(0)
    model.classifier.bias.data = model.classifier.bias.data.flip(0)
    model.save_pretrained(tmp_path / "first")
    still = TrainingOptions(steps=1, learning_rate=1e-12)
    after = finetune(SequenceTask(), tmp_path / "first", file, file, tmp_path / "second", still)
    assert after["accuracy"] == 1


@pytest.mark.parametrize(
    ("labels", "least", "most"),
    [
        ([n % 77 for n in range(77 * 5)], 36, 40),
        ([0] * 4 + [1] * 4, 1, 1),
        ([tuple({n % 7, n % 11, n % 13}) for n in range(3000)], 280, 300),
        ([["O"], ["O", "B"]] * 50 + [["O", "B-RARE"]], 9, 11),
        ([n for n in range(50)] + [0] * 50, 5, 10),
        ([()] * 30, 3, 3),
        ([0] * 1000 + [1] * 10 + [2], 100, 101),
    ],
)
def test_about_a_tenth_is_held_out_and_every_label_stays(
    labels: list[Any], least: int, most: int
) -> None:
    def as_set(label: Any) -> set[Any]:
        return set(label) if isinstance(label, tuple | list) else {label}

    for seed in range(3):
        train, dev = hold_out(labels, labels, 0.1, seed)
        assert least <= len(dev) <= most and len(train) + len(dev) == len(labels)
        every = set().union(*map(as_set, labels))
        assert set().union(*map(as_set, train)) == every


def test_groups_are_held_out_together_where_that_is_possible() -> None:
    groups = [n // 3 for n in range(36)]
    train, dev = hold_out(groups, [()] * 36, 0.1, 0, groups)
    assert dev and not set(train) & set(dev)
    large = [n // 50 for n in range(100)]  # of which none is a tenth
    train, dev = hold_out(large, [()] * 100, 0.1, 0, large)
    assert dev and not set(train) & set(dev)
    train, dev = hold_out(["a"] * 20, [()] * 20, 0.1, 0, ["a"] * 20)
    assert len(dev) == 2  # there is only one group


def test_rows_that_are_added_leave_most_held_out_rows_as_they_are() -> None:
    """A run that is resumed with them was trained on few of those that are held out now."""
    labels = [("a", "b", "b")[number % 3] for number in range(600)]
    trained, _ = hold_out(range(500), labels[:500], 0.1, 0)
    _, held = hold_out(range(600), labels, 0.1, 0)
    assert len(held) == 60 and len(set(held) & set(trained)) < 6


def test_equal_texts_are_held_out_together() -> None:
    task = SequenceTask()
    data = [{"text": f"text {n // 2}", "label": "xy"[n // 2 % 2]} for n in range(100)]
    rows = task.read(data)
    labels, groups = map(task.labels_of, rows), map(task.group_of, rows)
    train, dev = hold_out(rows, list(labels), 0.1, 0, list(groups))
    assert len(dev) == 10 and not {row.text for row in train} & {row.text for row in dev}


def test_a_run_that_is_stopped_behind_its_last_step_can_be_resumed(tmp_path: Path) -> None:
    class Stopped(SequenceTask):
        def calibrate(self, model: Any, rows: Any, examples: Any) -> Any:
            raise KeyboardInterrupt

    data = [{"text": "abcdef"[n % 6], "label": "xy"[n % 2]} for n in range(20)]
    base = tiny_folder(tmp_path / "base")
    options = TrainingOptions(steps=2, keep_states=0)
    with pytest.raises(KeyboardInterrupt):
        finetune(Stopped(), base, data, data, tmp_path / "out", options)
    scores = finetune(SequenceTask(), base, data, data, tmp_path / "out", options, resume=True)
    assert scores and not saved_states(tmp_path / "out")


@pytest.mark.parametrize("steps", [4, 6])
def test_scores_on_another_dev_file_are_not_those_of_the_first(steps: int, tmp_path: Path) -> None:
    data = [{"text": "abcdef"[n % 6], "label": "xy"[n % 2]} for n in range(20)]
    swapped = [{**row, "label": "yx"[n % 2]} for n, row in enumerate(data)]
    base = tiny_folder(tmp_path / "base")
    options = TrainingOptions(steps=4, learning_rate=0.0)
    first = finetune(SequenceTask(), base, data, data, tmp_path / "out", options)
    options = replace(options, steps=steps)
    with pytest.raises(ValueError, match="labels to evaluate with: resume with the same data"):
        finetune(SequenceTask(), base, data, swapped, tmp_path / "out", options, resume=True)
    other: Any = "with other data"
    scores = finetune(SequenceTask(), base, data, swapped, tmp_path / "out", options, resume=other)
    assert scores["accuracy"] == pytest.approx(1 - first["accuracy"])
    assert scores["loss"] != first["loss"]


def test_a_metric_chooses_the_best_model(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("text\tlabel\n" + "a b\tx\nc d\ty\n" * 10, encoding="utf-8")
    base = tiny_folder(tmp_path / "base")
    options = TrainingOptions(steps=4, evaluate_every=1, metric="loss")
    log: list[dict[str, Any]] = []
    scores = finetune(
        SequenceTask(), base, file, file, tmp_path / "out", options, callback=log.append
    )
    assert scores["loss"] == min(record["loss"] for record in log if "accuracy" in record)
    options = TrainingOptions(metric="f2")
    with pytest.raises(ValueError, match="metric is 'f2', but .* are accuracy, f1, loss"):
        finetune(SequenceTask(), base, file, file, tmp_path / "other", options)


@pytest.mark.parametrize(
    "labels", [[[1, 0], [0, 1]], [[0.0, 1.0, 1.0]] * 2, [[True, False]], ["[1, 0, 1]"]]
)
def test_lists_of_one_and_zero_for_each_class_are_refused(labels: list[Any]) -> None:
    task = SequenceTask(multi_label=True)
    with pytest.raises(ValueError, match="have 1 or 0 for each class. .*label_columns"):
        task.read([{"text": "a", "label": label} for label in labels])


@pytest.mark.parametrize("labels", [[["1"], ["0"]], [[1, 0], [1]], [["a", "b"]] * 2, [[]]])
def test_lists_of_names_are_not(labels: list[Any]) -> None:
    task = SequenceTask(multi_label=True)
    assert task.read([{"text": "a", "label": label} for label in labels])


def test_labels_that_only_a_test_file_has_count_as_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tiny_folder(tmp_path / "base")
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    options = TrainingOptions(steps=1)

    def write(path: Path, rows: list[dict[str, Any]]) -> None:
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    for number, (task, known, other) in enumerate(
        [
            (SEQUENCE, {"text": "a", "label": "x"}, {"text": "b", "label": "z"}),
            (SEVERAL, {"text": "a", "label": ["x"]}, {"text": "b", "label": ["z"]}),
            (TOKENS, {"tokens": ["a"], "tags": ["B-X"]}, {"tokens": ["b"], "tags": ["B-Z"]}),
        ]
    ):
        second = {
            name: (["y"] if isinstance(value, list) else "y")
            if name in ("label", "tags")
            else value
            for name, value in known.items()
        }
        write(train, [known, second] * 5)
        write(test, [known, other])
        scores = finetune(task, base, train, train, tmp_path / f"out{number}", options, test=test)
        told = capsys.readouterr().err
        assert told.index("count as wrong: ") < told.index("step 1")
        assert scores["test_accuracy"] <= 0.5
