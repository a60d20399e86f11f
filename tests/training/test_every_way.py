"""A model has one score: by training, evaluation, the printed command, Python, service, export."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import minibert
from minibert.cli import main
from minibert.encoders.rows.entity_tags import entity_spans

pytestmark = pytest.mark.usefixtures("one_thread")
QUEUE: dict[str, Any] = {"max_wait_ms": 1, "max_tokens": 4096, "max_pending": 100}
# the names end before a particle, which is a piece of its own in minibert-ko
SENTENCES = [("부산", "에서"), ("파리", "에"), ("도쿄", "가"), ("제주도", "에"), ("철수", "는")]
QUESTIONS = [
    {
        "question": question,
        "context": f"{name} sings. Tim runs.",
        "answers": [name] if question == "who sings?" else [],
    }
    for name in ("Ann", "Bob", "Eve")
    for question in ("who sings?", "who flies?")
]


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def train(task: str, train: Path, folder: Path, *more: str, capsys: Any) -> tuple[Any, list[str]]:
    """The scores of a training, to four decimals, and the command that it prints at its end."""
    common = ["--train", str(train), "--dev", str(train), "--output", str(folder)]
    common += ["--learning-rate", "1e-3", "--batch-size", "4", "--max-length", "32"]
    output = run("finetune", task, *common, *more, capsys=capsys)
    (usage,) = [line for line in output.splitlines() if line.startswith("Use it: minibert ")]
    usage = usage.removeprefix("Use it: ")
    printed = next(line for line in output.splitlines() if line.startswith("The best model"))
    scores = re.findall(r"(\S+) (-?\d+\.\d{4})[,.]", printed)
    return {name: float(score) for name, score in scores}, shlex.split(usage)[1:]


def tagged(tmp_path: Path) -> tuple[Path, list[tuple[str, list[str]]]]:
    rows = []
    for name, particle in SENTENCES:
        tags = ["B-LC", *["I-LC"] * (len(name) - 1), *["O"] * (len(particle) + 3)]
        rows.append((f"{name}{particle} 간다", tags))
    path = tmp_path / "train.conll"
    blocks = [
        "\n".join(f"{letter}\t{tag}" for letter, tag in zip(text, tags, strict=True))
        for text, tags in rows
    ]
    path.write_text("\n\n".join(blocks * 3) + "\n", encoding="utf-8")
    return path, rows * 3


def name_f1(found: list[list[dict[str, Any]]], rows: list[tuple[str, list[str]]]) -> float:
    """F1 of names by their place in characters."""
    predicted = {
        (number, span["start"], span["end"]) for number, spans in enumerate(found) for span in spans
    }
    expected = {
        (number, span.first, span.end)
        for number, (_, tags) in enumerate(rows)
        for span in entity_spans(tags)
    }
    return 2 * len(predicted & expected) / max(1, len(predicted) + len(expected))


def test_a_tagger_of_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    from starlette.testclient import TestClient

    from minibert.checkpoints.source import Source
    from minibert.serving.app import create_app
    from minibert.serving.models import load_served

    file, rows = tagged(tmp_path)
    folder = tmp_path / "m"
    scores, usage = train(
        "tokens", file, folder, "--model", "minibert-ko", "--steps", "30", capsys=capsys
    )
    assert scores["f1"] > 0.5
    evaluation = json.loads(
        run("evaluate", str(folder), str(file), "--bootstrap", "0", "--json", capsys=capsys)
    )
    assert evaluation["metrics"]["f1"] == pytest.approx(scores["f1"], abs=6e-5)
    texts = [text for text, _ in rows]
    assert usage[-1] == "TEXT"
    printed = json.loads(run(*usage[:-1], *texts, "--json", capsys=capsys))["output"]
    tagger = minibert.Tagger.from_pretrained(folder)
    app = create_app([load_served("ner", Source(folder), precision=None, **QUEUE)])
    with TestClient(app) as client:
        inputs = [[text] for text in texts]
        served = client.post("/predict", json={"inputs": inputs}).json()
    for found in (
        [row["entities"] for row in printed],
        tagger.find_entities(texts),
        minibert.find_entities(tagger.model, tagger.tokenizer, texts),
        served,
    ):
        assert name_f1(found, rows) == pytest.approx(scores["f1"], abs=6e-5)
    by_word = tagger.find_entities(texts, by_piece=False)
    assert name_f1(by_word, rows) < scores["f1"]  # so the test would see the difference


def test_an_answerer_of_questions_without_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("uvicorn")
    from starlette.testclient import TestClient

    from minibert.checkpoints.source import Source
    from minibert.serving.app import create_app
    from minibert.serving.models import load_served

    file = tmp_path / "train.jsonl"
    file.write_text("\n".join(map(json.dumps, QUESTIONS * 2)), encoding="utf-8")
    folder = tmp_path / "m"
    scores, usage = train(
        "answers", file, folder, "--model", "minibert-tiny", "--steps", "60", capsys=capsys
    )
    command = ["evaluate", str(folder), str(file), "--bootstrap", "0", "--json"]
    evaluation = json.loads(run(*command, capsys=capsys))["metrics"]
    assert evaluation["exact_match"] == pytest.approx(scores["exact_match"], abs=6e-5)
    table = tmp_path / "questions.csv"
    with open(table, "w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(["question", "text"])
        writer.writerows((row["question"], row["context"]) for row in QUESTIONS)
    assert usage[-3:] == ["--question", "QUESTION", "TEXT"]
    arguments = [*usage[:-3], "--question-column", "question", "--file", str(table), "--json"]
    printed = json.loads(run(*arguments, capsys=capsys))["output"]
    answerer = minibert.Answerer.from_pretrained(folder)
    found = answerer.answer(
        [row["question"] for row in QUESTIONS], [row["context"] for row in QUESTIONS]
    )
    app = create_app([load_served("m", Source(folder), precision=None, **QUEUE)])
    with TestClient(app) as client:
        inputs = [{"question": row["question"], "context": row["context"]} for row in QUESTIONS]
        served = client.post("/question-answering", json={"inputs": inputs}).json()
    for answers in (printed, found, served):
        right = [
            answer["answer"] == (row["answers"] or [""])[0]
            for answer, row in zip(answers, QUESTIONS, strict=True)
        ]
        assert sum(right) / len(right) == pytest.approx(scores["exact_match"], abs=6e-5)
    assert any("no_answer_score" in row for row in found)


def test_a_classifier_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("tea", other, label) for other, label in (("a drink", "yes"), ("a car", "no"))] * 6
    file = tmp_path / "train.csv"
    with open(file, "w", encoding="utf-8", newline="") as output:
        csv.writer(output).writerows([("text", "other", "label"), *rows])
    folder = tmp_path / "m"
    scores, usage = train(
        "classification",
        file,
        folder,
        *("--pair-column", "other", "--model", "minibert-tiny", "--steps", "20"),
        capsys=capsys,
    )
    command = ["evaluate", str(folder), str(file), "--pair-column", "other", "--json"]
    evaluation = json.loads(run(*command, "--bootstrap", "0", capsys=capsys))["metrics"]
    assert evaluation["accuracy"] == pytest.approx(scores["accuracy"], abs=6e-5)
    assert usage[-3:] == ["TEXT", "--pair", "TEXT"]
    right = 0
    for text, other, label in rows[:2]:
        printed = json.loads(run(*usage[:-3], text, "--pair", other, "--json", capsys=capsys))[
            "output"
        ]
        right += printed[0]["predicted"] == label
    assert right / 2 == pytest.approx(scores["accuracy"], abs=6e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["tokens", "answers"])
def test_an_export_has_the_score_of_the_training(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    file, checkpoint = tmp_path / "train.jsonl", "minibert-tiny"
    if task == "tokens":
        (file, _), checkpoint = tagged(tmp_path), "minibert-ko"
    else:
        file.write_text("\n".join(map(json.dumps, QUESTIONS * 2)), encoding="utf-8")
    folder, exported = str(tmp_path / "m"), str(tmp_path / "onnx")
    scores, _ = train(
        task, file, Path(folder), "--model", checkpoint, "--steps", "30", capsys=capsys
    )
    printed = run("export", "--model", folder, "--output", exported, capsys=capsys)
    assert "--backend onnx" in printed
    command = ["evaluate", exported, str(file), "--backend", "onnx", "--bootstrap", "0", "--json"]
    evaluation = json.loads(run(*command, capsys=capsys))["metrics"]
    assert evaluation["f1"] == pytest.approx(scores["f1"], abs=6e-5)


COLUMNS = ("--text-column", "text", "--pair-column", "other")
OTHERS = ["a hot drink", "a fast car", "a sunny road", "an old book"]
NAMES = ["tea", "bus", "path", "novel"]


class Way(NamedTuple):
    """A kind of model, and how its score is found in what each way gives.

    Attributes:
        task: The task of `minibert finetune`.
        rows: Dicts of columns.
        options: Of the training and of the evaluation.
        metric: The score that is compared.
    """

    task: str
    rows: list[dict[str, Any]]
    options: tuple[str, ...]
    metric: str


def every_pair(score: bool) -> list[dict[str, Any]]:
    return [
        {"text": name, "other": other, "label": float(first == second) * (0.8 if score else 1)}
        for first, name in enumerate(NAMES)
        for second, other in enumerate(OTHERS)
    ]


WAYS = {
    "classifier": Way(
        "classification",
        [
            {"text": f"{name} {number}", "label": label}
            for number, (name, label) in enumerate(zip(NAMES * 3, "abcacb" * 2, strict=True))
        ],
        (),
        "accuracy",
    ),
    "several labels": Way(
        "classification",
        [
            {"text": f"{name} and {other}", "label": sorted({name[0], other[-1]})}
            for name in NAMES
            for other in OTHERS
        ],
        ("--multi-label",),
        "f1_micro",
    ),
    "regression": Way(
        "regression",
        [
            {"text": f"{name} {number}", "label": number % 5 / 2}
            for number, name in enumerate(NAMES * 3)
        ],
        (),
        "mae",
    ),
    "reranker": Way("reranker", every_pair(False), COLUMNS, "mrr@10"),
    "vectors": Way(
        "pairs",
        [{"text": a, "other": b} for a, b in zip(NAMES, OTHERS, strict=True)],
        COLUMNS,
        "recall@1",
    ),
    "vectors with negatives": Way(  # each is the text of another row
        "triplets",
        [
            {"text": a, "other": b, "no": c}
            for a, b, c in zip(NAMES, OTHERS, OTHERS[1:] + OTHERS[:1], strict=True)
        ],
        (*COLUMNS, "--negative-column", "no"),
        "recall@1",
    ),
    "scored vectors": Way("scores", every_pair(True), COLUMNS, "spearman"),
}


def score_of(way: Way, values: Sequence[Any]) -> float:
    """The score of predictions: labels, numbers, or the scores of pairs."""
    from scipy.stats import spearmanr

    labels = [row.get("label") for row in way.rows]
    if way.metric == "accuracy":
        return float(np.mean([value == label for value, label in zip(values, labels, strict=True)]))
    if way.metric == "f1_micro":
        both = [(set(value), set(label)) for value, label in zip(values, labels, strict=True)]
        right = sum(len(a & b) for a, b in both)
        return 2 * right / sum(len(a) + len(b) for a, b in both)
    if way.metric == "mae":
        return float(np.abs(np.array(values) - np.array(labels)).mean())
    scores = np.array(values).reshape(len(NAMES), len(OTHERS))
    if way.metric == "spearman":
        return float(spearmanr(scores.ravel(), labels).statistic)
    ranks = (scores > scores.diagonal()[:, None]).sum(1)
    return float(np.mean(ranks == 0) if way.metric == "recall@1" else np.mean(1 / (1 + ranks)))


def by_command(way: Way, usage: list[str], folder: Path, capsys: Any) -> list[Any]:
    """What the printed command gives, with the texts in place of its placeholders."""
    texts = [row["text"] for row in way.rows]
    if way.task in ("classification", "regression"):
        assert usage[-1] == "TEXT"
        printed = json.loads(run(*usage[:-1], *texts, "--json", capsys=capsys))["output"]
        return [row["predicted"] for row in printed]
    file = folder.parent / "others.txt"
    file.write_text("\n".join(OTHERS) + "\n", encoding="utf-8")
    assert usage[-2:] == [usage[-2], "FILE"]
    values = []
    for name in NAMES:
        filled = [{"QUERY": name, "FILE": str(file)}.get(word, word) for word in usage]
        printed = json.loads(run(*filled, "--top-k", "4", "--json", capsys=capsys))["output"]
        hits = printed if "text" in printed[0] else printed[0]["results"]
        by_text = {hit["text"]: hit["score"] for hit in hits}
        values += [by_text[other] for other in OTHERS]
    return values


def by_python(way: Way, folder: Path) -> list[Any]:
    texts = [row["text"] for row in way.rows]
    if way.task in ("classification", "regression"):
        classifier = minibert.Classifier.from_pretrained(folder)
        found = classifier.classify(texts)
        if way.metric == "f1_micro":
            thresholds = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            return [
                [
                    label["label"]
                    for label in labels
                    if label["score"] >= thresholds["thresholds"][label["label"]]
                ]
                for labels in found
            ]
        return [labels[0]["label" if way.metric == "accuracy" else "score"] for labels in found]
    pairs = [(name, other) for name in NAMES for other in OTHERS]
    if way.task == "reranker":
        return list(minibert.CrossEncoder.from_pretrained(folder).predict(pairs).tolist())
    embedder = minibert.SentenceEmbedder.from_pretrained(folder)
    cosines = embedder.similarity(embedder.encode(NAMES), embedder.encode(OTHERS))
    return list(cosines.flatten().tolist())


def by_service(way: Way, folder: Path) -> list[Any]:
    from starlette.testclient import TestClient

    from minibert.checkpoints.source import Source
    from minibert.serving.app import create_app
    from minibert.serving.models import load_served

    texts = [row["text"] for row in way.rows]
    with TestClient(
        create_app([load_served("m", Source(folder), precision=None, **QUEUE)])
    ) as client:

        def post(route: str, **body: Any) -> Any:
            response = client.post(route, json=body)
            assert response.status_code == 200, response.text
            return response.json()

        if way.metric == "f1_micro":
            return [row["labels"] for row in post("/v1/classify", input=texts)["data"]]
        if way.metric in ("accuracy", "mae"):
            best = [row[0] for row in post("/predict", inputs=[[text] for text in texts])]
            return [row["label" if way.metric == "accuracy" else "score"] for row in best]
        values = []
        for name in NAMES:
            if way.task == "reranker":
                ranked = post("/rerank", query=name, texts=OTHERS)
                by_index = {row["index"]: row["score"] for row in ranked}
                values += [by_index[index] for index in range(len(OTHERS))]
            else:
                values += post("/similarity", inputs={"source_sentence": name, "sentences": OTHERS})
        return values


def check_every_way(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], exports: bool
) -> None:
    """Train a model, and find its score again everywhere."""
    way = WAYS[name]
    file, folder = tmp_path / "train.jsonl", tmp_path / "m"
    file.write_text("\n".join(map(json.dumps, way.rows)), encoding="utf-8")
    more = (*way.options, "--model", "minibert-tiny", "--steps", "12")
    scores, usage = train(way.task, file, folder, *more, capsys=capsys)
    options = [option for option in way.options if option != "--multi-label"]
    command = [str(file), *options, "--bootstrap", "0", "--json"]
    if name == "scored vectors":
        command += ["--task", "scores"]
    evaluation = json.loads(run("evaluate", str(folder), *command, capsys=capsys))["metrics"]
    if name == "several labels":  # the training scores each half with the thresholds of the other
        assert evaluation["map"] == pytest.approx(scores["map"], abs=6e-5)
        assert evaluation["loss"] == pytest.approx(scores["loss"], abs=6e-5)
        scores = evaluation
    expected = pytest.approx(scores[way.metric], abs=6e-5)
    assert evaluation[way.metric] == expected
    assert score_of(way, by_command(way, usage, folder, capsys)) == expected
    assert score_of(way, by_python(way, folder)) == expected
    assert score_of(way, by_service(way, folder)) == expected
    if exports:
        exported = str(tmp_path / "onnx")
        run("export", "--model", str(folder), "--output", exported, capsys=capsys)
        command = [exported, *command, "--backend", "onnx"]
        assert (
            json.loads(run("evaluate", *command, capsys=capsys))["metrics"][way.metric] == expected
        )


@pytest.mark.parametrize("name", ["classifier", "reranker"])
def test_a_score_without_an_export(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("uvicorn")
    check_every_way(name, tmp_path, capsys, exports=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_a_score_everywhere(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    check_every_way(name, tmp_path, capsys, exports=True)
