"""Folders that earlier versions wrote are read, resumed, updated and searched by this one.

Each folder beside this file is named after the version that wrote it, by `make.py`. Where a later
version cannot continue one, it says what to do: that sentence is then what is tested here.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import HEADS
from make import TASKS

import minibert
from minibert import open_vectors
from minibert.cli import main
from minibert.training.corpora import TokenCache

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if path.name[0].isdigit())


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of what a version wrote."""
    return Path(shutil.copytree(request.param, tmp_path / "old"))


def expected_of(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("head", HEADS)
def test_a_model_with_each_head(old: Path, head: str) -> None:
    folder = old / "models" / head
    model = getattr(minibert, head).from_pretrained(folder)
    tokenizer = minibert.BertTokenizer.from_pretrained(folder)
    batch = tokenizer(["tall trees", "hello"], ["grow", "world"], padding=True, return_tensors="pt")
    if head == "BertForMultipleChoice":
        batch = {name: ids[None] for name, ids in batch.items()}
    with torch.no_grad():
        outputs = model(**batch)
    expected = expected_of(folder)
    assert list(outputs.keys()) == list(expected)
    for name, values in expected.items():
        torch.testing.assert_close(outputs[name], torch.tensor(values), rtol=0, atol=1e-5)


def test_an_embedder(old: Path) -> None:
    embedder = minibert.SentenceEmbedder.from_pretrained(old / "models" / "embedder")
    vectors = embedder.encode(["tall trees", "hello"], prompt_name="query")
    expected = expected_of(old / "models" / "embedder")
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    assert embedder.similarity_fn_name == "dot"


def test_a_reranker(old: Path) -> None:
    encoder = minibert.CrossEncoder.from_pretrained(old / "models" / "reranker")
    scores = encoder.predict([("how", "tall trees"), ("how", "hello")])
    expected = expected_of(old / "models" / "reranker")
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


def steps_of(run: Path) -> list[int]:
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry["step"] for entry in map(json.loads, lines) if "step" in entry]


def test_pretraining_continues(old: Path) -> None:
    run, corpus = old / "runs" / "pretrained", old / "data" / "corpus.txt"
    options = ["--output", str(run), "--corpus", str(corpus), "--device", "cpu", "--quiet"]
    options += ["--config", str(old / "runs" / "config" / "config.json")]  # the folder has moved
    options += ["--vocab", str(old / "runs" / "vocabulary")]
    assert not main(["pretrain", *options, "--resume", "--steps", "6"])
    assert steps_of(run)[-1] == 6


def test_a_cache_of_tokens_is_read(old: Path) -> None:
    (folder,) = (old / "runs" / "pretrained" / "tokens").glob("*/*")
    tokens = TokenCache(folder)
    tokenizer = minibert.BertTokenizer.from_pretrained(old / "runs" / "pretrained")
    documents = old.joinpath("data", "corpus.txt").read_text(encoding="utf-8").strip().split("\n\n")
    assert len(tokens) == len(documents)
    for ids, document in zip(tokens, documents, strict=True):
        expected = tokenizer(document.split("\n"), add_special_tokens=False)["input_ids"]
        assert [sentence.tolist() for sentence in ids] == expected


@pytest.mark.parametrize("task", TASKS)
def test_fine_tuning_continues(old: Path, task: str) -> None:
    run = old / "runs" / task
    name, *columns = TASKS[task]
    options = ["--output", str(run), "--train", str(old / "data" / name), *columns]
    options += ["--held-out", "0.25", "--batch-size", "4", "--device", "cpu", "--quiet"]
    options += ["--model", str(old / "runs" / "pretrained"), "--resume", "--steps", "6"]
    assert not main(["finetune", task, *options])
    assert steps_of(run)[-1] == 6


@pytest.mark.parametrize("name", ["npy", "safetensors", "jsonl", "parquet"])
def test_vectors_are_opened_searched_and_updated(
    old: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, embedder = old / "data" / "lines.txt", str(old / "models" / "embedder")
    file, folder = old / "vectors" / f"vectors.{name}", old / "vectors" / name
    texts = lines.read_text(encoding="utf-8").splitlines()
    np.testing.assert_allclose(open_vectors(folder)[:], open_vectors(file)[:], rtol=0, atol=1e-6)
    for vectors in (file, folder):
        options = ["--model", embedder, "--corpus", str(lines), "--vectors", str(vectors), "--json"]
        assert not main(["search", texts[5], *options])
        best = json.loads(capsys.readouterr().out)["output"][0]["results"][0]
        assert best["text"] == texts[5]
    lines.write_text("\n".join([*texts[:-1], "hello korea"]) + "\n", encoding="utf-8")
    options = ["--model", embedder, "--file", str(lines), "--output", str(folder), "--update"]
    assert not main(["embed", *options, "--shard-size", "10", "--processes", "1"])
    assert len(open_vectors(folder)) == len(texts)


@pytest.mark.parametrize("name", ["embedder", "BertForSequenceClassification"])
def test_an_export_runs(old: Path, name: str) -> None:
    pytest.importorskip("onnxruntime")
    exported = minibert.load(old / "exports" / name, backend="onnx")
    model = minibert.load(old / "models" / name)
    if name == "embedder":
        found, expected = (part.model.encode(["tall trees"]) for part in (exported, model))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        return
    rows = [{"text": "tall trees", "label": "LABEL_0"}, {"text": "hello", "label": "LABEL_1"}]
    scores = [
        minibert.evaluate(part.model, part.tokenizer, rows, bootstrap=0).metrics
        for part in (exported, model)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
