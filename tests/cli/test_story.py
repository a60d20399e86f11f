"""Fourteen commands in a row, from a vocabulary to a served classifier."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Literal

import pytest

from minibert.checkpoints.source import Source
from minibert.cli import main

pytest.importorskip("tokenizers", reason="needs tokenizers: extra [train]")
pytest.importorskip("transformers", reason="needs transformers: extra [parity]")
pytest.importorskip("onnxscript", reason="needs onnxscript: extra [onnx]")

GOOD = {"en": "what a wonderful film", "ko": "정말 훌륭한 영화 입니다"}
BAD = {"en": "what a terrible film", "ko": "정말 지루한 영화 입니다"}
NAMES = {
    "en": ("Ada Lovelace lived in London", "B-PER I-PER O O B-LOC"),
    "ko": ("홍길동 은 서울 에 살았다", "B-PER O B-LOC O O"),
}
PLACE = {"en": "London", "ko": "서울"}
QUESTION = {"en": "Where did Ada live", "ko": "어디 에 살았나"}
TRAINING = ("--epochs", "1", "--batch-size", "4", "--max-length", "24")


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that should succeed and return its stdout."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def write_files(folder: Path, language: str) -> None:
    good = GOOD[language]
    bad = BAD[language]
    sentence, tags = NAMES[language]
    lines = [good, bad, sentence, QUESTION[language], ""] * 40
    (folder / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
    with (folder / "films.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "label", "stars"])
        for number in range(8):
            table.writerow([f"a{number}", good, "good", 5])
            table.writerow([f"b{number}", bad, "bad", 1])
    pairs = zip(sentence.split(), tags.split(), strict=True)
    tagged = "".join(f"{word} {tag}\n" for word, tag in pairs)
    (folder / "names.conll").write_text(f"{tagged}\n" * 8, encoding="utf-8")
    answer = {"text": PLACE[language], "answer_start": sentence.index(PLACE[language])}
    entry = {"id": "1", "question": QUESTION[language], "answers": [answer]}
    squad = {"data": [{"paragraphs": [{"context": sentence, "qas": [entry] * 4}]}]}
    (folder / "questions.json").write_text(json.dumps(squad), encoding="utf-8")


@pytest.mark.parametrize("language", ["en", pytest.param("ko", marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
def test_from_a_vocabulary_to_a_served_classifier(
    language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path, language)
    corpus = tmp_path / "corpus.txt"
    films = tmp_path / "films.csv"
    config = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 32,
        "vocab_size": 200,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    cased = ["--cased"] if language == "ko" else []

    vocabulary = tmp_path / "vocabulary"
    printed = command(
        capsys, "vocab", "--corpus", corpus, "--vocab-size", 200, *cased, "-o", vocabulary
    )
    assert "minibert pretrain" in printed

    base = tmp_path / "base"
    steps = ("--steps", 2, "--batch-size", 4, "--max-length", 24, "--held-out", 0.1)
    start = ("--config", tmp_path / "config.json", "--vocab", vocabulary, "--corpus", corpus)
    printed = command(capsys, "pretrain", *start, *cased, *steps, "-o", base)
    assert "loss" in printed and "minibert finetune classification" in printed

    def finetune(task: str, file: Path, *more: str) -> Path:
        folder = tmp_path / task
        data = ("--train", file, "--dev", file, "--model", base)
        printed = command(capsys, "finetune", task, *data, *TRAINING, *more, "-o", folder)
        assert f"--model {folder}" in printed
        assert str(file) in (folder / "README.md").read_text(encoding="utf-8")
        return folder

    labels = finetune("classification", films)
    scores = json.loads(command(capsys, "evaluate", "-m", labels, films, "--json"))
    assert 0 <= scores["metrics"]["accuracy"] <= 1
    errors = tmp_path / "errors.jsonl"
    assert "accuracy" in command(capsys, "evaluate", labels, films, "--errors", errors)
    assert errors.exists()

    output = tmp_path / "labeled.csv"
    command(capsys, "classify", "-m", labels, "--file", films, "--id-column", "id", "-o", output)
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows][:2] == ["a0", "b0"]
    assert {row["predicted"] for row in rows} <= {"good", "bad"} and "stars" in rows[0]
    best = json.loads(command(capsys, "classify", "-m", labels, GOOD[language], "-k", 2, "--json"))
    assert sum(label["score"] for label in best["output"][0]["labels"]) == pytest.approx(1)

    tagger = finetune("tokens", tmp_path / "names.conll")
    line = command(capsys, "entities", "-m", tagger, NAMES[language][0], "--jsonl")
    assert "entities" in json.loads(line)

    reader = finetune("answers", tmp_path / "questions.json")
    question = ("--question", QUESTION[language], NAMES[language][0])
    assert json.loads(command(capsys, "answer", "-m", reader, *question, "--jsonl"))["answer"]

    check_search(capsys, base, films, GOOD[language])

    ranker = finetune("regression", films, "--label-column", "stars")
    ranked = command(capsys, "rerank", GOOD[language], "-m", ranker, "--file", films, "-k", 3)
    assert len(ranked.splitlines()) == 3

    check_conversions(capsys, labels, GOOD[language])


def check_conversions(capsys: pytest.CaptureFixture[str], labels: Path, text: str) -> None:
    """The model gives the same labels when it is converted or exported, and both are served."""
    converted = labels.parent / "converted"
    exported = labels.parent / "exported"
    command(capsys, "convert", "-m", labels, "-o", converted)
    expected = command(capsys, "classify", "-m", labels, text, "--json")
    assert command(capsys, "classify", "-m", converted, text, "--json") == expected

    verified = command(capsys, "verify", "-m", labels)
    assert "passed: tolerance 0" in verified and "differs" not in verified

    command(capsys, "export", "-m", labels, "-o", exported)
    output = command(capsys, "classify", text, "-m", exported, "--backend", "onnx", "--json")
    scores = [json.loads(printed)["output"][0]["score"] for printed in (output, expected)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)

    assert_served(converted, text, "torch")
    assert_served(exported, text, "onnx")


def check_search(capsys: pytest.CaptureFixture[str], model: Path, films: Path, query: str) -> None:
    """A search in the vectors of a table returns ids and other columns."""
    vectors = films.parent / "vectors.npy"
    command(capsys, "embed", "-m", model, "--file", films, "-o", vectors)
    corpus = ("--corpus", films, "--id-column", "id", "--vectors", vectors)
    printed = command(capsys, "search", query, "-m", model, *corpus, "--jsonl")
    first = json.loads(printed)["results"][0]
    assert first["text"] == query and first["id"].startswith("a")
    assert first["columns"] == {"label": "good", "stars": "5"}


def assert_served(model: Path, text: str, backend: Literal["torch", "onnx"]) -> None:
    """Check the application of `minibert serve`. The test of the command is in test_app."""
    pytest.importorskip("fastapi", reason="needs fastapi: extra [serve]")
    pytest.importorskip("httpx", reason="needs httpx: the test client of fastapi")
    from fastapi.testclient import TestClient

    from minibert.serving.app import create_app
    from minibert.serving.models import load_served

    queue = {"max_wait_ms": 1.0, "max_tokens": 512, "max_pending": 100}
    served = load_served("labels", Source(model), backend=backend, **queue)
    with TestClient(create_app([served])) as client:
        labels = client.post("/predict", json={"inputs": text}).json()
    assert {label["label"] for label in labels} == {"good", "bad"}
