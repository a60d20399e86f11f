"""Write a folder of each kind as this version writes it: python tests/artifacts/make.py FOLDER.

What it writes is part of the repository, below the version that wrote it, and later versions read
it (`test_artifacts.py`). It is never written again for a version that was released.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from conftest import HEADS, tiny_config
from tiny_folder import LINES, VOCABULARY, head_folder, sentence_folder

import minibert
from minibert.cli import main

TEXTS = [line for line in LINES if line]
SENTENCES = "\n".join(TEXTS[:24])
DOCUMENTS = [TEXTS[start : start + 3] for start in range(0, 24, 3)]
CORPUS = "\n\n".join("\n".join(document) for document in DOCUMENTS) + "\n"
LABELED = [{"text": text, "label": "tall" if "tall" in text else "other"} for text in TEXTS[:24]]
TAGGED = [[(word, "B-TREE" if word == "trees" else "O") for word in text.split()] for text in TEXTS]
QUESTIONS = [
    {
        "id": str(number),
        "question": "how",
        "context": text,
        "answers": {"text": ["trees"], "answer_start": [text.index("trees")]}
        if "trees" in text
        else {"text": [], "answer_start": []},
    }
    for number, text in enumerate(TEXTS[:24])
]
# three texts for each query, of which the first is the right one
PAIRS = [
    {"text": TEXTS[number // 3], "pair": TEXTS[number + 1], "score": str(int(number % 3 == 0))}
    for number in range(24)
]
SCORED = ("pairs.csv", "--pair-column", "pair", "--label-column", "score")
# the file of data and the columns of each task
TASKS: dict[str, tuple[str, ...]] = {
    "classification": ("labels.csv",),
    "tokens": ("tags.conll",),
    "answers": ("questions.jsonl",),
    "scores": SCORED,
    "reranker": SCORED,
}


def command(*arguments: object) -> None:
    code = main([str(argument) for argument in arguments])
    if code:
        raise SystemExit(f"minibert {' '.join(map(str, arguments))}: {code}")


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_data(folder: Path) -> None:
    """Write the files that the artifacts are made from, and that later versions continue with."""
    folder.mkdir()
    (folder / "corpus.txt").write_text(CORPUS, encoding="utf-8")
    (folder / "lines.txt").write_text(SENTENCES + "\n", encoding="utf-8")
    write_table(folder / "labels.csv", LABELED)
    write_table(folder / "pairs.csv", PAIRS)
    sentences = ["".join(f"{word} {tag}\n" for word, tag in row) for row in TAGGED[:24]]
    (folder / "tags.conll").write_text("\n".join(sentences), encoding="utf-8")
    lines = [json.dumps(row) + "\n" for row in QUESTIONS]
    (folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")


def write_models(folder: Path) -> None:
    """Write a model with each head, an embedder with all that its folder may hold, a reranker."""
    for head in HEADS:
        path = head_folder(folder / head, getattr(minibert, head))
        model = getattr(minibert, head).from_pretrained(path)
        tokenizer = minibert.BertTokenizer.from_pretrained(path)
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
        batch = tokenizer(["tall trees", "hello"], ["grow", "world"], padding=True)
        with torch.no_grad():
            inputs = {name: torch.tensor(ids) for name, ids in batch.items()}
            if head == "BertForMultipleChoice":
                inputs = {name: ids[None] for name, ids in inputs.items()}
            outputs = model.eval()(**inputs)
        values = {name: tensor.tolist() for name, tensor in outputs.items()}
        (path / "expected.json").write_text(json.dumps(values), encoding="utf-8")
    source = sentence_folder(
        folder / "source",
        ("Pooling", {"pooling_mode_mean_tokens": True, "word_embedding_dimension": 32}),
        ("Normalize", {}),
        config_sentence_transformers={"prompts": {"query": "query "}, "similarity_fn_name": "dot"},
    )
    embedder = minibert.SentenceEmbedder.from_pretrained(source)
    embedder.save_pretrained(folder / "embedder")
    vectors = embedder.encode(["tall trees", "hello"], prompt_name="query")
    expected = json.dumps(vectors.tolist())
    (folder / "embedder" / "expected.json").write_text(expected, encoding="utf-8")
    shutil.rmtree(source)
    reranker = head_folder(
        folder / "reranker", minibert.BertForSequenceClassification, id2label={0: "LABEL_0"}
    )
    encoder = minibert.CrossEncoder.from_pretrained(reranker)
    encoder.save_pretrained(reranker)
    scores = encoder.predict([("how", "tall trees"), ("how", "hello")])
    (reranker / "expected.json").write_text(json.dumps(scores.tolist()), encoding="utf-8")


def write_runs(folder: Path, data: Path) -> None:
    """Write a finished run of each kind with its state, which more steps continue."""
    folder.mkdir()
    (folder / "vocabulary").mkdir()
    words = "\n".join(VOCABULARY) + "\n"
    (folder / "vocabulary" / "vocab.txt").write_text(words, encoding="utf-8")
    config = tiny_config(vocab_size=len(VOCABULARY), num_hidden_layers=1)
    config.save_pretrained(folder / "config")
    short = ("--steps", 4, "--device", "cpu", "--quiet")
    command(
        *("pretrain", "--config", folder / "config" / "config.json"),
        *("--corpus", data / "corpus.txt", "--vocab", folder / "vocabulary"),
        *("--output", folder / "pretrained", "--max-length", 32, "--batch-size", 4, *short),
    )
    model = ("--model", folder / "pretrained", "--held-out", 0.25, "--batch-size", 4, *short)
    for task, (train, *columns) in TASKS.items():
        path = folder / task
        command("finetune", task, "--train", data / train, "--output", path, *model, *columns)


def write_vectors(folder: Path, data: Path, embedder: Path) -> None:
    """Write vectors as one file and as a folder of shards, in each format."""
    folder.mkdir()
    text = ("--model", embedder, "--file", data / "lines.txt", "--quiet")
    for name in ("npy", "safetensors", "jsonl", "parquet"):
        command("embed", *text, "--output", folder / f"vectors.{name}")
        shards = ("--format", name, "--shard-size", 10, "--processes", 1)
        command("embed", *text, "--output", folder / name, *shards)


def write_addresses(folder: Path) -> None:
    """Write addresses of the page in both languages, with what each shows."""
    folder.mkdir()
    script = Path(__file__).parents[1] / "page" / "addresses.js"
    for language in ("en", "ko"):
        page = folder / "page.html"
        command("learn", "--lang", language, "--output", page, "--no-open")
        environment = {**os.environ, "ARTICLE": language, f"PAGE_{language.upper()}": str(page)}
        addresses = subprocess.run(
            ["node", str(script)], stdout=subprocess.PIPE, check=True, env=environment
        )
        (folder / f"{language}.json").write_bytes(addresses.stdout)
        page.unlink()


def write_all(folder: Path) -> None:
    """Write all artifacts of this version into a new folder."""
    folder.mkdir(parents=True)
    write_data(folder / "data")
    write_models(folder / "models")
    write_runs(folder / "runs", folder / "data")
    write_vectors(folder / "vectors", folder / "data", folder / "models" / "embedder")
    (folder / "exports").mkdir()
    for name in ("embedder", "BertForSequenceClassification"):
        path = folder / "exports" / name
        command("export", "--model", folder / "models" / name, "--output", path, "--quiet")
    write_addresses(folder / "addresses")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    write_all(Path(sys.argv[1]).resolve())
