"""Learning a vocabulary, and reading it with our own tokenizer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from minibert import BertTokenizer
from minibert.training.vocab import SPECIAL_TOKENS, train_vocabulary

ENGLISH = ["The cats sat on the mats.", "The cat sat on the mat.", "Cats and mats: café."] * 5
KOREAN = ["나는 한국을 사랑한다.", "너는 한국을 사랑하니?", "한국 사람"] * 5


def test_learned_vocabulary_covers_its_text(tmp_path: Path) -> None:
    train_vocabulary(ENGLISH, tmp_path, vocab_size=60)
    words = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert words[:5] == SPECIAL_TOKENS
    assert len(words) == len(set(words)) <= 60
    assert {"the", "cat"} <= set(words) and "The" not in words

    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    assert tokenizer.unk_token not in [token for text in ENGLISH for token in tokenizer.tokenize(text)]
    assert tokenizer.tokenize("the cat") == ["the", "cat"]


def test_cased_vocabulary_leaves_korean_syllables_whole(tmp_path: Path) -> None:
    tokenizer = train_vocabulary(KOREAN, tmp_path, vocab_size=60, lowercase=False)
    assert not BertTokenizer.from_pretrained(tmp_path).do_lower_case
    tokens = [token for text in KOREAN for token in tokenizer.tokenize(text)]
    assert "한국" in tokens
    assert tokenizer.unk_token not in tokens
    assert not any("\u1100" <= character <= "\u11ff" for token in tokens for character in token)


def test_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"needs tokenizers, which is not installed: pip install .*\[train\]'"):
        train_vocabulary(ENGLISH, tmp_path)


def test_the_same_texts_give_the_same_vocabulary_with_every_letter(tmp_path: Path) -> None:
    texts = [
        f"{chr(first)}{chr(first + 1)}{chr(first + 2)}." for first in range(0xAC00, 0xAC00 + 1500)
    ]  # no piece twice
    tokenizer, other = (
        train_vocabulary(texts, tmp_path / name, vocab_size=8000, lowercase=False) for name in ("a", "b")
    )
    assert tokenizer.get_vocab() == other.get_vocab()
    assert tokenizer.unk_token not in [token for text in texts for token in tokenizer.tokenize(text)]


def test_a_small_vocabulary_keeps_the_frequent_letters(tmp_path: Path) -> None:
    train_vocabulary([*ENGLISH, "zebra"], tmp_path, vocab_size=25)
    words = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert "##t" in words and "z" not in words and len(words) <= 25
