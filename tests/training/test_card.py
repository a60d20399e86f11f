"""The model card of a run: its content, and when it is rewritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minibert import SentenceEmbedder
from minibert.training.card import write_card


def write(folder: Path, score: float) -> str:
    write_card(folder, "A model", {"train": "a.csv"}, {"steps": 3}, {"f1": score}, "minibert x")
    return (folder / "README.md").read_text(encoding="utf-8")


def test_a_resumed_run_rewrites_its_card(tmp_path: Path) -> None:
    assert "f1: 0.5" in write(tmp_path, 0.5)
    assert "f1: 0.75" in write(tmp_path, 0.75)


def test_an_edited_card_is_not_overwritten(tmp_path: Path) -> None:
    text = write(tmp_path, 0.5).replace("A model", "My model")
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    assert write(tmp_path, 0.75) == text


def test_a_file_whose_name_is_not_utf8(tmp_path: Path) -> None:
    """As unzip writes the Korean names of an archive of Windows."""
    name = b"\xc7\xd1.csv".decode("utf-8", "surrogateescape")
    write_card(tmp_path, "A model", {"train": name}, {}, {}, "minibert x")
    assert ".csv" in (tmp_path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("architecture", "has_labels"),
    [("BertForSequenceClassification", True), ("BertForPreTraining", False)],
)
def test_only_cards_of_classifiers_list_labels(
    architecture: str, has_labels: bool, tmp_path: Path
) -> None:
    config = {"architectures": [architecture], "id2label": {"0": "good", "1": "bad"}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert ("good, bad" in write(tmp_path, 0.5)) == has_labels


def test_the_card_of_an_embedder_gets_scores_and_data(tmp_path: Path) -> None:
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    embedder.save_pretrained(tmp_path)
    alone = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "library_name: sentence-transformers" in alone and "f1" not in alone
    first = write(tmp_path, 0.5)
    again = write(tmp_path, 0.75)
    assert "f1: 0.5" in first and "f1: 0.75" in again
    for text in (first, again):
        assert text.startswith("---\nlibrary_name: sentence-transformers")
        assert text.count("SentenceEmbedder.from_pretrained") == text.count("train: a.csv") == 1
