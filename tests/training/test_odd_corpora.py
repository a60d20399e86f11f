"""Vocabularies that list a piece twice, and corpora without next sentences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from minibert import BertConfig, BertForMaskedLM, BertForPreTraining, BertTokenizer, fill_mask
from minibert.training.adaptation import adapt_vocabulary
from minibert.training.options import PretrainOptions
from minibert.training.pretraining import Masking, pretrain

pytestmark = pytest.mark.usefixtures("one_thread")
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat cat".split()


def twice(tmp_path: Path) -> BertTokenizer:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return BertTokenizer(str(tmp_path / "vocab.txt"))


def test_an_id_without_a_piece_is_neither_masked_nor_guessed(tmp_path: Path) -> None:
    tokenizer = twice(tmp_path)
    assert len(tokenizer) == 9
    masking = Masking.for_tokenizer(tokenizer)
    assert masking.special[6] and not masking.special[8]
    model = BertForMaskedLM(BertConfig.from_preset("tiny", vocab_size=9)).eval()
    with torch.no_grad():
        model.cls.predictions.bias[6] = 99
    (guesses,) = fill_mask(model, tokenizer, "the [MASK] sat", top_k=9)
    assert len(guesses) == 8
    assert 6 not in [guess["token"] for guess in guesses]


def test_a_vocabulary_with_a_piece_twice_is_adapted(tmp_path: Path) -> None:
    tokenizer = twice(tmp_path)
    model = BertForMaskedLM(BertConfig.from_preset("tiny", vocab_size=9))
    before = model.get_input_embeddings().weight.clone()
    adapt_vocabulary(model, tokenizer, tokenizer)
    after = model.get_input_embeddings().weight
    assert torch.equal(after[7:], before[7:])
    assert torch.allclose(after[6], before.mean(0), atol=1e-6)


@pytest.mark.parametrize(("single", "is_told"), [(298, True), (100, False)])
def test_a_corpus_of_single_sentences_is_told(
    single: int, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = twice(tmp_path)
    corpus = tmp_path / "corpus.txt"
    several = 100 if single == 100 else 1
    corpus.write_text("the cat\n\n" * single + "the cat\nsat\n\n" * several, encoding="utf-8")
    model = BertForPreTraining(BertConfig.from_preset("tiny", vocab_size=9))
    options = PretrainOptions(steps=1, batch_size=4, max_length=16, held_out=0.0)
    pretrain(model, tokenizer, [str(corpus)], tmp_path / "out", options)
    assert ("have a single sentence" in capsys.readouterr().err) == is_told
