"""A model has one score: by training, evaluation, the printed command, Python, service, export."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

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
    """The scores of a training, and the command that it prints at its end."""
    common = ["--train", str(train), "--dev", str(train), "--output", str(folder)]
    common += ["--learning-rate", "1e-3", "--batch-size", "4", "--max-length", "32"]
    run("finetune", task, *common, *more, capsys=capsys)
    card = (folder / "README.md").read_text(encoding="utf-8")
    (usage,) = [line for line in card.splitlines() if line.startswith("minibert ")]
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("## Scores") + 2
    scores = dict(line[2:].split(": ") for line in lines[start : lines.index("", start)])
    return {name: float(score) for name, score in scores.items()}, shlex.split(usage)[1:]


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
    from minibert.serving.models import load

    file, rows = tagged(tmp_path)
    folder = tmp_path / "m"
    scores, usage = train(
        "tokens", file, folder, "--model", "minibert-ko", "--steps", "30", capsys=capsys
    )
    assert scores["f1"] > 0.5
    evaluation = json.loads(
        run("evaluate", str(folder), str(file), "--bootstrap", "0", "--json", capsys=capsys)
    )
    assert evaluation["metrics"]["f1"] == pytest.approx(scores["f1"], abs=1e-5)
    texts = [text for text, _ in rows]
    assert usage[-1] == "TEXT"
    printed = json.loads(run(*usage[:-1], *texts, "--json", capsys=capsys))["output"]
    tagger = minibert.Tagger.from_pretrained(folder)
    app = create_app([load("ner", Source(folder), precision=None, **QUEUE)])
    with TestClient(app) as client:
        inputs = [[text] for text in texts]
        served = client.post("/predict", json={"inputs": inputs}).json()
    for found in (
        [row["entities"] for row in printed],
        tagger.find_entities(texts),
        minibert.find_entities(tagger.model, tagger.tokenizer, texts),
        served,
    ):
        assert name_f1(found, rows) == pytest.approx(scores["f1"], abs=1e-5)
    by_word = tagger.find_entities(texts, by_piece=False)
    assert name_f1(by_word, rows) < scores["f1"]  # so the test would see the difference


def test_an_answerer_of_questions_without_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text("\n".join(map(json.dumps, QUESTIONS * 2)), encoding="utf-8")
    folder = tmp_path / "m"
    scores, usage = train(
        "answers", file, folder, "--model", "minibert-tiny", "--steps", "60", capsys=capsys
    )
    command = ["evaluate", str(folder), str(file), "--bootstrap", "0", "--json"]
    evaluation = json.loads(run(*command, capsys=capsys))["metrics"]
    assert evaluation["exact_match"] == pytest.approx(scores["exact_match"], abs=1e-5)
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
    for answers in ([row["answer"] for row in printed], [row["answer"] for row in found]):
        right = [
            answer == (row["answers"] or [""])[0]
            for answer, row in zip(answers, QUESTIONS, strict=True)
        ]
        assert sum(right) / len(right) == pytest.approx(scores["exact_match"], abs=1e-5)
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
    assert evaluation["accuracy"] == pytest.approx(scores["accuracy"], abs=1e-5)
    assert usage[-3:] == ["TEXT", "--pair", "TEXT"]
    right = 0
    for text, other, label in rows[:2]:
        printed = json.loads(run(*usage[:-3], text, "--pair", other, "--json", capsys=capsys))[
            "output"
        ]
        right += printed[0]["predicted"] == label
    assert right / 2 == pytest.approx(scores["accuracy"], abs=1e-5)


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
    assert evaluation["f1"] == pytest.approx(scores["f1"], abs=1e-5)
