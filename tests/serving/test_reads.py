"""Each file of a model is read once, whatever it is loaded for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tiny_folder import head_folder, sentence_folder, tiny_folder

import minibert
from minibert.checkpoints.source import Source

pytest.importorskip("starlette")

from minibert.serving.models import load_served  # noqa: E402

KINDS = ["reranker", "classifier", "tagger", "answerer", "embedder", "plain BERT"]


def folder_of(kind: str, path: Path) -> Path:
    if kind == "embedder":
        return sentence_folder(path, ("Pooling", {"pooling_mode": "mean"}))
    if kind == "plain BERT":
        return tiny_folder(path)
    head: Any = minibert.BertForSequenceClassification
    if kind == "tagger":
        head = minibert.BertForTokenClassification
    if kind == "answerer":
        return head_folder(path, minibert.BertForQuestionAnswering)
    return head_folder(path, head, num_labels=1 if kind == "reranker" else 3)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file of a checkpoint is asked for."""
    counts: Counter[str] = Counter()
    find = Source.file

    def counting(source: Source, filename: str) -> Path | None:
        path = find(source, filename)
        if path is not None:
            counts[filename] += 1
        return path

    monkeypatch.setattr(Source, "file", counting)
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_reads_each_file_once(kind: str, reads: Counter[str], tmp_path: Path) -> None:
    folder = folder_of(kind, tmp_path)
    reads.clear()
    served = load_served(
        "model", Source(folder), precision="exact", max_wait_ms=1, max_tokens=512, max_pending=9
    )
    served.batched.close()
    assert served.kind == {"embedder": "embedding", "plain BERT": "embedding"}.get(kind, kind)
    assert reads["config.json"] == 1
    assert reads["model.safetensors"] == 1
    assert reads["modules.json"] == (kind == "embedder")


@pytest.mark.parametrize("kind", KINDS)
def test_load_reads_each_file_once(kind: str, reads: Counter[str], tmp_path: Path) -> None:
    folder = folder_of(kind, tmp_path)
    reads.clear()
    minibert.load(folder)
    assert (reads["config.json"], reads["model.safetensors"]) == (1, 1)
