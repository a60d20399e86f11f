"""Rerankers: trained with the loss of the score that is served, and scored query by query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from tiny_folder import tiny_folder
from torch.nn.functional import binary_cross_entropy_with_logits

from minibert import (
    BertForSequenceClassification,
    BertForTokenClassification,
    CrossEncoder,
    evaluate,
)
from minibert.cli import main
from minibert.encoders.auto import load_with_heads
from minibert.tasks.reranking import RerankTask
from minibert.tasks.sequence import SequenceTask
from minibert.tasks.tables import TableTask
from minibert.tasks.task import Example, Scores, Task, inputs_of, outputs_of
from minibert.tasks.tokens import Tagged, TokenTask
from minibert.text import Row, Table
from minibert.training.data import pack, pad
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions

pytestmark = pytest.mark.usefixtures("one_thread")
LETTERS = "abcdefgh"


def rows(seed: int, queries: int = 40) -> list[dict[str, Any]]:
    """A document is relevant if it begins with y."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(queries):
        first, second, other = rng.choice(list(LETTERS), 3, replace=False)
        query = f"{first} {second}"
        result += [
            {"query": query, "document": f"y {second} {first}", "label": 1},
            {"query": query, "document": f"x {first} {other}", "label": 0},
            {"query": query, "document": f"z {other} {other}", "label": 0},
        ]
    return result


def write(path: Path, content: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return path


def test_scores_are_means_over_the_queries() -> None:
    task = RerankTask()
    values = [
        ("q", "a", 0), ("r", "d", 1), ("q", "b", 1), ("q", "c", 0), ("r", "e", 0), ("s", "f", 0),
    ]  # fmt: skip
    data = task.read(
        [{"query": query, "document": text, "label": label} for query, text, label in values]
    )
    scores = task.score(data, [0.9, 0.8, 0.5, 0.4, 0.1, 0.2])
    assert scores.rows == 2 and scores.candidates == 2  # 3 and 2 documents, and "s" has none
    assert scores.metrics["mrr@10"] == pytest.approx((1 / 2 + 1) / 2)
    assert scores.metrics["ndcg@10"] == pytest.approx((1 / np.log2(3) + 1) / 2)
    assert scores.notice == "1 queries have no relevant document."
    (mistake,) = scores.errors
    assert (mistake.text, mistake.expected, mistake.predicted) == ("q", "b", "a")
    (mistake,) = task.score(data, [0.4, 0.1, 0.9, 0.5, 0.8, 0.2]).errors
    assert data[mistake.row].values == {"query": "r", "document": "e", "label": 0}
    with pytest.raises(ValueError, match="No query has a relevant document"):
        task.score(data[:1], [0.5])


def test_saturated_scores_are_ranked_by_their_logits(tmp_path: Path) -> None:
    """The order is the one in which `CrossEncoder.rank` returns the documents."""
    task = RerankTask()
    values = rows(2, 6)
    data = task.read(values)
    model, tokenizer = task.load(tiny_folder(tmp_path / "base"), data)
    metrics = []
    for bias in (0.0, 30.0, -60.0):
        with torch.no_grad():
            model.classifier.bias.fill_(bias)
        metrics.append(evaluate(model, tokenizer, values, task=task, bootstrap=0).metrics)
    assert metrics[0]["mrr@10"] == metrics[1]["mrr@10"] == metrics[2]["mrr@10"]
    assert metrics[0]["ndcg@10"] == metrics[1]["ndcg@10"] == metrics[2]["ndcg@10"]


@pytest.mark.parametrize("label", ["2", "x", None, -0.5, float("nan")])
def test_labels_lie_between_0_and_1(label: Any) -> None:
    row = {"query": "a", "document": "b", "label": label}
    with pytest.raises(ValueError, match="label should be a number from 0 to 1"):
        RerankTask().read([row])


def test_a_file_without_a_relevant_document_is_refused_before_training(tmp_path: Path) -> None:
    row = {"query": "a", "document": "b", "label": 0}
    train = [{**row, "label": 1}, {**row, "document": "c"}]
    base = tiny_folder(tmp_path / "base")
    records: list[Any] = []
    with pytest.raises(ValueError, match="no document is relevant"):
        finetune(RerankTask(), base, train, [row], tmp_path / "out", callback=records.append)
    assert not records


def test_the_loss_is_that_of_the_served_score(tmp_path: Path) -> None:
    task = RerankTask()
    data = task.read([{**row, "label": row["label"] / 2} for row in rows(0, 2)])
    model, tokenizer = task.load(tiny_folder(tmp_path / "base"), data)
    examples = task.encode(data, tokenizer, model.config, 16)
    loss = task.loss(model.eval(), pack(examples))["labels"]
    served = CrossEncoder(model, tokenizer).predict([task.texts_of(row) for row in data])
    labels = torch.tensor([float(row.label) for row in data])
    expected = torch.nn.functional.binary_cross_entropy(
        torch.as_tensor(np.asarray(served)).float(), labels, reduction="sum"
    )
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)


def test_a_trained_reranker_is_served_and_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = write(tmp_path / "train.jsonl", rows(0, 60))
    dev = write(tmp_path / "dev.jsonl", rows(1))
    model = str(tmp_path / "out")
    command = ["finetune", "reranker", "--model", str(tiny_folder(tmp_path / "base"))]
    command += ["--train", str(train), "--dev", str(dev), "--text-column", "query"]
    assert main([*command, "--output", model]) == 2
    assert "give --pair-column" in capsys.readouterr().err
    command += ["--pair-column", "document", "--epochs", "8", "--learning-rate", "3e-3"]
    assert main([*command, "--output", model, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["mrr@10"] > 0.9
    reranker = CrossEncoder.from_pretrained(model)
    ranking = reranker.rank("a b", ["x c c", "y b a", "z a c"])
    assert ranking[0]["corpus_id"] == 1
    command = ["evaluate", model, str(dev), "--text-column", "query", "--pair-column", "document"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "reranking, 26 queries, ranked among 5 texts each, 0 errors" in shown
    assert "mrr@10" in shown and "ndcg@10" in shown


def test_a_regression_without_pairs_is_no_reranker(tmp_path: Path) -> None:
    model = BertForSequenceClassification(tiny_config(num_labels=1)).eval()
    _, tokenizer = load_with_heads(tiny_folder(tmp_path / "base"))
    data = [{"text": letter, "label": number} for number, letter in enumerate("abc")]
    assert evaluate(model, tokenizer, data, bootstrap=0).task == "regression"


class Stars(SequenceTask):
    """A task of one's own: ratings, where a neighboring one is half right."""

    metrics = ("half_right",)  # type: ignore[assignment]

    def score(self, rows: Any, predictions: Any) -> Scores:
        predicted = [int(p.names[p.scores.argmax()]) for p in predictions]
        distances = np.abs([int(row.label) for row in rows] - np.array(predicted))
        return Scores.means("stars", {"half_right": np.maximum(0, 1 - distances / 2)})


def test_a_task_of_ones_own_is_trained_and_evaluated(tmp_path: Path) -> None:
    data = [{"text": letter, "label": number % 5 + 1} for number, letter in enumerate("abcdefghij")]
    file = write(tmp_path / "train.jsonl", data)
    options = TrainingOptions(epochs=3, learning_rate=3e-3)
    base = tiny_folder(tmp_path / "base")
    scores = finetune(Stars(), base, file, file, tmp_path / "out", options)
    model, tokenizer = load_with_heads(tmp_path / "out")
    result = evaluate(model, tokenizer, file, task=Stars(), bootstrap=10)
    assert result.task == "stars" and result.metrics == scores
    low, high = result.intervals["half_right"]
    assert low <= scores["half_right"] <= high


class Titled(SequenceTask):
    """A task of one's own that joins two columns."""

    def texts_of(self, row: Row) -> tuple[str, ...]:
        return (f"{row.values['title']} {row.text}",)


class Coarse(TokenTask):
    """A task of one's own that merges kinds of entities."""

    def labels_of(self, row: Row) -> list[str]:
        return [tag.partition("/")[0] for tag in row.values["tags"]]


def test_the_texts_and_tags_of_a_task_of_ones_own_are_those_it_trains_on(tmp_path: Path) -> None:
    _, tokenizer = load_with_heads(tiny_folder(tmp_path / "base"))
    titled, coarse = Titled(), Coarse()
    rows = titled.read([{"title": "a", "text": "b", "label": label} for label in "xy"])
    config = tiny_config(**titled.config(rows))
    example = titled.encode(rows, tokenizer, config, 8)[0]
    assert example["input_ids"].tolist() == tokenizer("a b")["input_ids"]

    rows = coarse.read([(["a", "b"], ["B-PER/x", "O"])])
    config = tiny_config(**coarse.config(rows))
    assert coarse.encode(rows, tokenizer, config, 8)[0]["labels"].tolist() == [-100, 0, 1, -100]
    predictions = [Tagged(["B-PER", "O"], 1.0, [0.0])]
    assert coarse.score(rows, predictions).metrics["f1"] == 1


class Lengths(Task):
    """The least that a task needs: how many tokens a text has, as a regression."""

    model_class = BertForSequenceClassification
    metrics = ("mae",)

    def read(self, path: Any, dev: bool = False, skip: Any = None) -> list[Row]:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        return [Row(str(path), n, {"text": line}, Table()) for n, line in enumerate(lines, 1)]

    def config(self, rows: Any) -> dict[str, Any]:
        return {"num_labels": 1}

    def encode(self, rows: Any, tokenizer: Any, config: Any, max_length: int) -> list[Example]:
        ids = tokenizer([row.text for row in rows])["input_ids"]
        return [{"input_ids": np.array(row), "labels": float(len(row))} for row in ids]

    def loss(self, model: Any, batch: Any) -> dict[str, Any]:
        logits = model(batch["input_ids"], layout=batch["layout"]).logits[:, 0]
        return {"labels": (logits - batch["labels"]).square().sum()}

    def predict(self, model: Any, rows: Any, examples: Any) -> Any:
        from minibert.tasks.task import logits_of

        return list(zip(logits_of(model, examples)[:, 0].tolist(), examples, strict=True))

    def score(self, rows: Any, predictions: Any) -> Scores:
        errors = [abs(value - example["labels"]) for value, example in predictions]
        return Scores.means("lengths", {"mae": errors})


def test_a_task_needs_five_methods(tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_text("\n".join("a " * number for number in range(1, 30)), encoding="utf-8")
    options = TrainingOptions(epochs=2, learning_rate=3e-3)
    base = tiny_folder(tmp_path / "base")
    assert finetune(Lengths(), base, file, None, tmp_path / "out", options)["mae"] < 30


TAGS = ("NAME", "PLACE")


class Several(TableTask):
    """A task of one's own of another kind: a word may have several tags."""

    table = Table()
    model_class = BertForTokenClassification
    metrics = ("f1",)

    def columns(self, table: Table, dev: bool) -> tuple[str, ...]:
        return ("tokens", "tags")

    def texts_of(self, row: Row) -> tuple[str, ...]:
        return (" ".join(row.values["tokens"]),)

    def config(self, rows: Any) -> dict[str, Any]:
        return {"id2label": dict(enumerate(TAGS))}

    def encode(self, rows: Any, tokenizer: Any, config: Any, max_length: int) -> list[Example]:
        examples = []
        for row in rows:
            batch = tokenizer([row.values["tokens"]], is_split_into_words=True)
            labels = np.full((len(batch["input_ids"][0]), len(TAGS)), -100.0)
            for position, word in enumerate(batch.word_ids(0)):
                if word is not None:
                    labels[position] = [tag in row.values["tags"][word] for tag in TAGS]
            examples.append({"input_ids": np.array(batch["input_ids"][0]), "labels": labels})
        return examples

    def loss(self, model: Any, batch: Any) -> dict[str, Any]:
        logits = model(**inputs_of(batch)).logits
        labels = batch["labels"]
        losses = binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return {"labels": losses[labels != -100].sum()}

    def predict(self, model: Any, rows: Any, examples: Any) -> Any:
        outputs = outputs_of(model, examples, lambda output: output.logits)
        return [
            (logits.numpy() > 0, example["labels"])
            for logits, example in zip(outputs, examples, strict=True)
        ]

    def score(self, rows: Any, predictions: Any) -> Scores:
        right = [((found == labels) | (labels == -100)).mean() for found, labels in predictions]
        return Scores.means("several", {"f1": right})


def test_a_task_may_have_several_labels_for_each_token(tmp_path: Path) -> None:
    """Packed, and padded as in a plain loop, from a file and from memory."""
    data = [
        {"tokens": [*words], "tags": [TAGS[: "abc".index(word)] for word in words]}
        for words in ("ab", "cab", "b", "ccba", "a", "bb")
    ]
    task, base = Several(), tiny_folder(tmp_path / "base")
    rows = task.read(data)
    model, tokenizer = task.load(base, rows)
    examples = task.encode(rows, tokenizer, model.config, 8)
    batches = pack(examples), pad(examples, 0)
    packed, padded = (task.loss(model.eval(), batch) for batch in batches)
    assert torch.isclose(packed["labels"], padded["labels"])

    file = write(tmp_path / "train.jsonl", data)
    options = TrainingOptions(steps=2, batch_size=3, exact=True)
    scores = finetune(task, base, file, data, tmp_path / "out", options)
    model, tokenizer = load_with_heads(tmp_path / "out")
    assert evaluate(model, tokenizer, file, task=task, bootstrap=0).metrics == scores
