"""Learning a vocabulary, and reading it with minibert's tokenizer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from minibert import BertTokenizer
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.learning import count_words, learn_vocabulary
from minibert.training.vocab import SPECIAL_TOKENS, train_vocabulary

ENGLISH = ["The cats sat on the mats.", "The cat sat on the mat.", "Cats and mats: café."] * 5
KOREAN = ["나는 한국을 사랑한다.", "너는 한국을 사랑하니?", "한국 사람"] * 5


def test_a_learned_vocabulary_covers_its_text(tmp_path: Path) -> None:
    train_vocabulary(ENGLISH, tmp_path, vocab_size=60)
    words = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert words[:5] == SPECIAL_TOKENS
    assert len(words) == len(set(words)) <= 60
    assert {"the", "cat"} <= set(words) and "The" not in words

    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    tokens = [token for text in ENGLISH for token in tokenizer.tokenize(text)]
    assert tokenizer.unk_token not in tokens
    assert tokenizer.tokenize("the cat") == ["the", "cat"]


def test_a_cased_vocabulary_does_not_decompose_korean_syllables(tmp_path: Path) -> None:
    tokenizer = train_vocabulary(KOREAN, tmp_path, vocab_size=60, lowercase=False)
    assert not BertTokenizer.from_pretrained(tmp_path).do_lower_case
    tokens = [token for text in KOREAN for token in tokenizer.tokenize(text)]
    assert "한국" in tokens
    assert tokenizer.unk_token not in tokens
    assert not any("\u1100" <= character <= "\u11ff" for token in tokens for character in token)


def test_the_error_names_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        ImportError, match=r"needs tokenizers, which is not installed: pip install .*\[train\]'"
    ):
        train_vocabulary(ENGLISH, tmp_path)


def test_the_same_texts_give_the_same_vocabulary_with_every_letter(tmp_path: Path) -> None:
    # No pair of pieces occurs twice, so every merge is a tie.
    texts = [
        f"{chr(first)}{chr(first + 1)}{chr(first + 2)}." for first in range(0xAC00, 0xAC00 + 1500)
    ]
    tokenizer, other = (
        train_vocabulary(texts, tmp_path / name, vocab_size=8000, lowercase=False)
        for name in ("a", "b")
    )
    assert tokenizer.get_vocab() == other.get_vocab()
    tokens = [token for text in texts for token in tokenizer.tokenize(text)]
    assert tokenizer.unk_token not in tokens


def test_a_small_vocabulary_keeps_the_frequent_letters(tmp_path: Path) -> None:
    train_vocabulary([*ENGLISH, "zebra"], tmp_path, vocab_size=25)
    words = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert "##t" in words and "z" not in words and len(words) <= 25


@pytest.mark.parametrize("vocab_size", [30, 34, 200])
def test_the_pieces_equal_those_of_the_tokenizers_library(vocab_size: int) -> None:
    """In this text, no two pairs that can be merged are equally frequent."""
    tokenizers = pytest.importorskip("tokenizers")
    counts = {
        "Low": 97,
        "lower,": 41,
        "newest": 71,
        "w\u00eddest": 29,
        "\u6f22\u5b57": 11,
        "newer": 5,
        "we": 3,
    }
    texts = [word for word, count in counts.items() for _ in range(count)]
    library = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    library.normalizer = tokenizers.normalizers.BertNormalizer()
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size, min_frequency=2, special_tokens=["[UNK]"], show_progress=False
    )
    library.train_from_iterator(texts, trainer)
    words = count_words(texts, BasicTokenizer())
    assert set(learn_vocabulary(words, vocab_size, ["[UNK]"])) == set(library.get_vocab())


@pytest.mark.parametrize("vocab_size", [0, 3, "90"])
def test_a_vocabulary_without_room_for_letters(vocab_size: Any) -> None:
    tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
    with pytest.raises(ValueError, match="vocab_size should be a whole number of 7 or more"):
        tokenizer.train_new_from_iterator(ENGLISH, vocab_size)


@pytest.mark.parametrize(("vocab_size", "is_told"), [(12, True), (60, False)])
def test_words_without_room_for_their_letters_are_counted(
    vocab_size: int, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A vocabulary smaller than twice its letters reads little of its own text."""
    texts = ["the cat sat", "over lazy fox"] * 5
    tokenizer = train_vocabulary(texts, tmp_path, vocab_size=vocab_size)
    told = capsys.readouterr().err
    assert ("% of the words become [UNK]" in told) == is_told
    assert ("vocab_size" in told) == is_told
    assert ("[UNK]" in tokenizer.tokenize("the cat sat over lazy fox")) == is_told


def test_a_string_is_not_a_list_of_texts(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="should be a list of texts, not the string 'a text'"):
        train_vocabulary("a text", tmp_path)


def test_words_are_counted_as_they_are_split() -> None:
    texts = [*ENGLISH, *KOREAN, "a\x1cb c\x85d\u00a0e\u3000f \u0301 g\n\u6f22h", "", " "]
    for basic in (BasicTokenizer(), BasicTokenizer(do_lower_case=False)):
        words = [word for text in texts for word in basic.words(text)]
        counts = count_words(texts, basic)
        assert list(counts.items()) == [(word, words.count(word)) for word in dict.fromkeys(words)]
