"""Warnings name the line of the caller, however many frames of minibert lie between."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import minibert
from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.util.checks import warn


@pytest.fixture
def ambiguous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with the name of a bundled model, whose vocabulary has a token twice."""
    folder = shutil.copytree(BUNDLED_MODELS / "minibert-tiny", tmp_path / "minibert-tiny")
    vocabulary = folder / "vocab.txt"
    tokens = vocabulary.read_text(encoding="utf-8").split("\n")
    tokens[tokens.index("the") + 1] = "the"
    vocabulary.write_text("\n".join(tokens), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return folder.name


@pytest.mark.parametrize(
    ("load", "count"),
    [
        (minibert.BertConfig.from_pretrained, 1),
        (minibert.BertTokenizer.from_pretrained, 2),
        (minibert.AutoTokenizer.from_pretrained, 2),
        (minibert.BertModel.from_pretrained, 1),
        (minibert.AutoModel.from_pretrained, 1),
        (minibert.BertForSequenceClassification.from_pretrained, 2),  # the head is new
        (minibert.SentenceEmbedder.from_pretrained, 2),
        (minibert.load, 2),
    ],
)
def test_loading(load: Callable[[str], Any], count: int, ambiguous: str) -> None:
    with pytest.warns(UserWarning) as caught:
        load(ambiguous)
    assert [warning.filename for warning in caught] == [__file__] * count


def test_cross_encoder(ambiguous: str) -> None:
    (Path(ambiguous) / "modules.json").unlink()
    model = minibert.BertForSequenceClassification(
        minibert.BertConfig.from_pretrained(f"./{ambiguous}", num_labels=1)
    )
    model.save_pretrained(f"./{ambiguous}")
    with pytest.warns(UserWarning) as caught:
        minibert.CrossEncoder.from_pretrained(ambiguous)
    assert [warning.filename for warning in caught] == [__file__] * 2


def test_frames_of_torch_are_passed_over() -> None:
    within: dict[str, Any] = {"__name__": "minibert.somewhere", "warn": warn}
    exec("def compute():\n    warn('a sentence')", within)
    with pytest.warns(UserWarning, match="a sentence") as caught:
        torch.no_grad()(within["compute"])()
    assert caught[0].filename == __file__
