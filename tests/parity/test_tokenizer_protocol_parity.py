"""The rest of the reference's API of tokenizers and batches returns the reference's values."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import given, strategies as st
from transformers import AddedToken as TheirToken, BertTokenizer as Theirs

from minibert.tokenization.added import AddedToken
from minibert.tokenization.tokenizer import BertTokenizer

transformers.logging.set_verbosity_error()
CORPUS = [
    "the cat sat on the mat",
    "the dog sat on the log",
    "cats and dogs",
    "한국어 문장 하나",
    "한국어 문장 둘",
] * 3


@functools.cache
def both(path: str) -> tuple[BertTokenizer, Any]:
    return BertTokenizer.from_pretrained(path), Theirs.from_pretrained(path)


def new_pair(path: str, **options: Any) -> tuple[BertTokenizer, Any]:
    """Load both tokenizers again, for tests that change them."""
    return BertTokenizer.from_pretrained(path, **options), Theirs.from_pretrained(path, **options)


TEXT = st.lists(
    st.sampled_from(
        ["unaffable", "Paris", "!", "e\u0301", "세계", "[MASK]", "漢字", "don't", "\x00", "  "]
    ),
    max_size=6,
)


@given(
    first=TEXT,
    second=st.none() | TEXT,
    words=st.booleans(),
    max_length=st.sampled_from([None, 5, 9]),
    side=st.sampled_from(["right", "left"]),
)
def test_origins_of_any_tokens(
    minilm: str,
    first: list[str],
    second: list[str] | None,
    words: bool,
    max_length: int | None,
    side: str,
) -> None:
    """Every lookup between tokens, words and characters of a batch agrees."""
    ours, theirs = both(minilm)
    join = (lambda text: text) if words else " ".join
    columns = [[join(first), join(["Paris"])]] + (
        [] if second is None else [[join(second), join(["a"])]]
    )
    how = {
        "is_split_into_words": words,
        "padding": True,
        "truncation": True,
        "max_length": max_length,
    }
    mine, yours = (
        ours(*columns, **how, padding_side=side),
        theirs(*columns, **how, padding_side=side),
    )
    assert (
        mine.is_fast == yours.is_fast and mine.data.keys() == dict(mine).keys() == yours.data.keys()
    )
    # the reference counts only texts that have tokens
    if any(index == 1 for index in mine.sequence_ids(0)) or second is None:
        assert mine.n_sequences == yours.n_sequences
    for row in range(2):
        for token in range(len(mine["input_ids"][row])):
            for name in ("token_to_sequence", "token_to_word", "token_to_chars"):
                answer = getattr(yours, name)(row, token)
                assert getattr(mine, name)(row, token) == answer, (name, row, token)
                assert row or getattr(mine, name)(token) == answer
        for index in range(14):
            for sequence in range(len(columns)):
                for name in ("word_to_tokens", "char_to_token", "char_to_word"):
                    answer = getattr(yours, name)(row, index, sequence)
                    case = (name, row, index, sequence)
                    assert getattr(mine, name)(row, index, sequence) == answer, case
                    assert row or getattr(mine, name)(index, sequence_index=sequence) == answer
                chars = mine.word_to_chars(row, index, sequence)
                if yours.word_to_tokens(row, index, sequence) is None:
                    assert chars is None  # the reference raises a TypeError
                else:
                    assert chars == yours.word_to_chars(row, index, sequence)


def test_attributes(minilm: str) -> None:
    for ours, theirs in (
        both(minilm),
        new_pair(minilm, bos_token="<s>", eos_token="[SEP]", model_max_length=50),
    ):
        for name in (
            "vocab", "added_tokens_encoder", "pad_token_type_id", "max_len_single_sentence",
            "max_len_sentences_pair", "model_input_names", "special_tokens_map",
            "all_special_tokens", "all_special_ids", "bos_token", "eos_token", "bos_token_id",
            "eos_token_id", "extra_special_tokens", "vocab_files_names",
        ):  # fmt: skip
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.get_added_vocab() == theirs.get_added_vocab() and bool(ours) == bool(theirs)
        row = ours("a [MASK] b", "c")["input_ids"]
        mask = theirs.get_special_tokens_mask(row, already_has_special_tokens=True)
        assert ours.get_special_tokens_mask(row, already_has_special_tokens=True) == mask
        for key in ("model_max_length", "mask_token", "bos_token"):
            assert str(ours.init_kwargs.get(key)) == str(theirs.init_kwargs.get(key))


def test_special_tokens_can_be_assigned(minilm: str) -> None:
    for tokenizer, token in zip(new_pair(minilm), (AddedToken, TheirToken), strict=True):
        tokenizer.eos_token = token("[SEP]")
        tokenizer.pad_token_id = 1037
        tokenizer.mask_token = "the"
        assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("[SEP]", 102)
        assert (tokenizer.pad_token, tokenizer.pad_token_id, tokenizer.mask_token_id) == (
            "a",
            1037,
            1996,
        )
        assert tokenizer(["x", "x y"], padding=True)["input_ids"][0][-1] == 1037
        tokenizer.bos_token_id = tokenizer.pad_token = None
        assert tokenizer.bos_token is None and tokenizer.pad_token_id is None
        assert (
            tokenizer.special_tokens_map["mask_token"] == "the"
            and "pad_token" not in tokenizer.special_tokens_map
        )
        with pytest.raises(ValueError, match="pad"):
            tokenizer(["x", "x y"], padding=True)
        with pytest.raises(ValueError):
            tokenizer.eos_token = 3


@pytest.mark.parametrize("replace", [True, False])
def test_extra_special_tokens_are_replaced_or_extended(
    minilm: str, replace: bool, tmp_path: Path
) -> None:
    lists = []
    for tokenizer in new_pair(minilm):
        tokenizer.add_special_tokens({"extra_special_tokens": ["<a>", "<b>"]})
        tokenizer.add_special_tokens(
            {"extra_special_tokens": ["<b>", "<c>"], "bos_token": "<s>"},
            replace_extra_special_tokens=replace,
        )
        tokenizer.add_special_tokens({"extra_special_tokens": []})
        ids = tokenizer("<a> <b> <c> <s> x")["input_ids"]
        lists.append(
            (
                tokenizer.extra_special_tokens,
                tokenizer.all_special_tokens,
                ids,
                tokenizer.decode(ids, True),
            )
        )
    assert lists[0] == lists[1]


def test_vocabulary_is_saved(minilm: str, tmp_path: Path) -> None:
    ours, _ = both(minilm)
    (path,) = ours.save_vocabulary(str(tmp_path), "my")
    assert Path(path).name == "my-vocab.txt"
    assert Theirs(vocab=path).get_vocab() == BertTokenizer(path).get_vocab() == ours.get_vocab()


@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}], ids=str)
def test_a_new_vocabulary_is_learned(minilm: str, options: dict[str, Any]) -> None:
    """Both vocabularies have the same size, letters and special tokens."""
    names = {"new_special_tokens": ["<new>"], "special_tokens_map": {"[MASK]": "<mask>"}}
    mine, yours = (
        each.train_new_from_iterator([CORPUS], 90, **names) for each in new_pair(minilm, **options)
    )
    # the reference adds the old name of a renamed token again at the end
    assert (
        len(mine) == mine.vocab_size == yours.vocab_size
        and mine.mask_token == yours.mask_token == "<mask>"
    )
    assert mine.extra_special_tokens == yours.extra_special_tokens == ["<new>"]
    assert mine.convert_tokens_to_ids(mine.all_special_tokens) == yours.convert_tokens_to_ids(
        mine.all_special_tokens
    )
    assert mine.do_lower_case == yours.do_lower_case
    letters = [token for token in yours.get_vocab() if len(token.removeprefix("##")) == 1]
    assert set(letters) <= set(mine.get_vocab())
    for text in CORPUS:
        row = mine(text)["input_ids"]
        assert mine.unk_token_id not in row
        assert mine.decode(row, skip_special_tokens=True) == yours.decode(
            yours(text)["input_ids"], True
        )
