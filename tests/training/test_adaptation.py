"""Adapting a checkpoint to another vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import tiny_config

from minibert import BertForPreTraining, BertTokenizer
from minibert.cli import main
from minibert.training.adaptation import adapt_vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OLD = BertTokenizer([*SPECIAL, "cat", "sat", "play", "##ing", "dog"])
NEW = BertTokenizer([*SPECIAL, "playing", "dog", "cat", "한국", "##s", "sat", "x"])


def build() -> BertForPreTraining:
    torch.manual_seed(0)
    model = BertForPreTraining(tiny_config(vocab_size=len(OLD))).eval()
    with torch.no_grad():
        model.cls.predictions.bias.copy_(torch.randn(len(OLD)))
    return model


def test_known_pieces_keep_their_embeddings_and_new_ones_start_from_the_mean() -> None:
    model = build()
    old = model.get_input_embeddings().weight.detach().clone()
    bias = model.cls.predictions.bias.detach().clone()
    adapt_vocabulary(model, OLD, NEW)
    weight = model.get_input_embeddings().weight
    assert weight.shape[0] == model.config.vocab_size == len(NEW)
    for piece in ("cat", "sat", "dog", "[CLS]"):
        row, source = NEW.get_vocab()[piece], OLD.get_vocab()[piece]
        assert torch.equal(weight[row], old[source])
        assert model.cls.predictions.bias[row] == bias[source]
    torch.testing.assert_close(weight[5], old[[7, 8]].mean(0))  # play, ##ing
    torch.testing.assert_close(weight[8], old.mean(0))  # has no tokens in the old vocabulary
    assert model.get_output_embeddings().weight is weight


def test_predictions_of_known_pieces_stay_the_same() -> None:
    model = build()
    text = "cat sat dog"
    expected = model(**OLD(text, return_tensors="pt")).prediction_logits
    adapt_vocabulary(model, OLD, NEW)
    logits = model(**NEW(text, return_tensors="pt")).prediction_logits
    pieces = ["cat", "sat", "dog"]
    old_ids = OLD.convert_tokens_to_ids(pieces)
    new_ids = NEW.convert_tokens_to_ids(pieces)
    torch.testing.assert_close(logits[..., new_ids], expected[..., old_ids])


def test_another_vocabulary_needs_adapt_vocab(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build().save_pretrained(tmp_path / "model")
    OLD.save_pretrained(tmp_path / "model")
    NEW.save_pretrained(tmp_path / "vocab")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("cat sat dog\ndog sat\n\ncat playing\nsat cat\n", encoding="utf-8")
    command = ["pretrain", "--model", str(tmp_path / "model"), "--vocab", str(tmp_path / "vocab")]
    command += ["--corpus", str(corpus), "--max-length", "16", "--steps", "1", "--batch-size", "2"]
    assert main([*command, "--output", str(tmp_path / "out")]) == 2
    assert "pass --adapt-vocab to carry the embeddings over" in capsys.readouterr().err
    assert main([*command, "--output", str(tmp_path / "adapted"), "--adapt-vocab"]) == 0
    assert BertTokenizer.from_pretrained(tmp_path / "adapted").tokenize("playing") == ["playing"]
    model = BertForPreTraining.from_pretrained(tmp_path / "adapted")
    assert model.config.vocab_size == len(NEW)
