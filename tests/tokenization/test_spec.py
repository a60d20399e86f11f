"""A tokenizer and what its files say: one frozen spec, from a folder and to a folder."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from minibert.checkpoints.source import Source
from minibert.tokenization.added import AddedToken
from minibert.tokenization.spec import TokenizerSpec, tokenizer_digest
from minibert.tokenization.tokenizer import BertTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "love", "##ly", "well-known", "!"]
TEXT = "I lovely well-known <x>!"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"do_lower_case": False, "padding_side": "left", "model_max_length": 12},
        {"components": {"pre_tokenizer": {"type": "WhitespaceSplit"}}, "eos_token": "<x>"},
        {"components": {"post_processor": None}, "extra_special_tokens": ["<x>"]},
    ],
)
def test_a_spec_is_all_that_a_tokenizer_is(arguments: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = BertTokenizer(WORDS, **arguments)
    tokenizer.add_tokens(["<y>"])
    spec = tokenizer.spec
    spec.to_folder(tmp_path)
    saved = TokenizerSpec.from_folder(Source.of(tmp_path))
    for again in (BertTokenizer(spec), BertTokenizer(saved), pickle.loads(pickle.dumps(tokenizer))):
        assert again(TEXT) == tokenizer(TEXT)
        kwargs = {**again.init_kwargs, "components": None}
        assert kwargs == {**tokenizer.init_kwargs, "components": None}
        assert again.components.keys() == tokenizer.components.keys()
        assert again.spec.templates == spec.templates


@pytest.mark.parametrize(
    "arguments",
    [
        {"do_lower_case": False},
        {"strip_accents": False},
        {"cls_token": "[MASK]"},
        {"unk_token": "[PAD]"},
        {"extra_special_tokens": ["<x>"]},
        {"extra_special_tokens": ["well-known"]},
        {"extra_special_tokens": [AddedToken("well-known", lstrip=True)]},
        {"components": {"max_input_chars_per_word": 3}},
        {"components": {"post_processor": None}},
    ],
)
def test_the_digest_is_that_of_all_that_decides_the_ids(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    usual, other = BertTokenizer(WORDS), BertTokenizer(WORDS, **arguments)
    other.save_pretrained(tmp_path)
    digest = tokenizer_digest(other).hexdigest()
    assert tokenizer_digest(BertTokenizer.from_pretrained(tmp_path)).hexdigest() == digest
    assert tokenizer_digest(usual).hexdigest() != digest


def test_the_digest_tells_the_flags_of_an_added_token() -> None:
    anywhere, alone = BertTokenizer(WORDS), BertTokenizer(WORDS)
    anywhere.add_tokens(AddedToken("love"))
    alone.add_tokens(AddedToken("love", single_word=True))
    assert anywhere(TEXT)["input_ids"] != alone(TEXT)["input_ids"]
    digest = tokenizer_digest(alone).hexdigest()
    assert tokenizer_digest(anywhere).hexdigest() != digest
    alone.padding_side, alone.model_max_length = "left", 12  # of rows, not of the ids of a text
    assert tokenizer_digest(alone).hexdigest() == digest


def test_arguments_override_a_spec() -> None:
    spec = dataclasses.replace(TokenizerSpec.of(WORDS), padding_side="left", do_lower_case=False)
    tokenizer = BertTokenizer(spec, padding_side="right")
    assert (tokenizer.padding_side, tokenizer.do_lower_case) == ("right", False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("do_lower_case", False),
        ("strip_accents", False),
        ("tokenize_chinese_chars", False),
        ("unk_token", "[MASK]"),
        ("cls_token", "[MASK]"),
        ("sep_token", "[MASK]"),
    ],
)
def test_an_assigned_option_counts_at_once(name: str, value: Any, tmp_path: Path) -> None:
    """Its copies, such as those in the workers of a data loader, and its files had it before."""
    words = [*WORDS, "I", "é", "漢字"]
    text = "I lov é 漢字"
    tokenizer = BertTokenizer(words)
    before = tokenizer(text)["input_ids"]
    setattr(tokenizer, name, value)
    ids = tokenizer(text)["input_ids"]
    assert ids == BertTokenizer(words, **{name: value})(text)["input_ids"] != before
    tokenizer.save_pretrained(tmp_path)
    for again in (pickle.loads(pickle.dumps(tokenizer)), BertTokenizer.from_pretrained(tmp_path)):
        assert again(text)["input_ids"] == ids
    assert tokenizer(text, return_offsets_mapping=True)["input_ids"] == ids


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_max_length", "512"),
        ("model_max_length", None),
        ("padding_side", "Left"),
        ("truncation_side", "Left"),
        ("model_input_names", "input_ids"),
        ("clean_up_tokenization_spaces", "false"),
    ],
)
def test_an_assigned_option_is_checked_as_an_argument(name: str, value: Any) -> None:
    tokenizer = BertTokenizer(WORDS)
    before = getattr(tokenizer, name)
    with pytest.raises(ValueError, match=f"{name} .*{value}"):
        setattr(tokenizer, name, value)
    assert getattr(tokenizer, name) == before
    if value is not None:
        with pytest.raises(ValueError, match=f"{name} .*{value}"):
            BertTokenizer(WORDS, **{name: value})


def test_an_assigned_length_is_a_whole_number() -> None:
    tokenizer = BertTokenizer(WORDS)
    tokenizer.model_max_length = 4.0  # type: ignore[assignment]
    assert tokenizer("i i i i", padding="max_length", truncation=True)["input_ids"] == [2, 5, 5, 3]
    tokenizer.model_max_length = 10**40
    assert tokenizer("i i i i", padding="max_length")["input_ids"] == [2, 5, 5, 5, 5, 3]


@pytest.mark.parametrize("name", ["cls_token", "sep_token"])
def test_rows_need_the_tokens_around_their_texts(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is None, but BERT's rows have one"):
        BertTokenizer(WORDS, **{name: None})
    tokenizer = BertTokenizer(WORDS)
    with pytest.raises(ValueError, match=f"{name} is None"):
        setattr(tokenizer, name, None)
    assert tokenizer("i")["input_ids"] == [2, 5, 3]
    bare = BertTokenizer(WORDS, components={"post_processor": None}, **{name: None})
    assert bare("i")["input_ids"] == [5]


@pytest.mark.parametrize("token_id", [1.0, "1", -1, None])
def test_ids_that_are_none(token_id: Any) -> None:
    """They came out as ids of texts, or ended in an error of JSON when the tokenizer was saved."""
    with pytest.raises(ValueError, match="Ids should be whole numbers from 0"):
        BertTokenizer({"[UNK]": 0, "a": token_id})


def test_a_token_for_unknown_words_that_the_vocabulary_lacks() -> None:
    tokenizer = BertTokenizer(WORDS)
    with pytest.raises(ValueError, match="has no '<unk>' for unknown words"):
        tokenizer.unk_token = "<unk>"
    with pytest.raises(ValueError, match="has no '<unk>' for unknown words"):
        tokenizer.add_special_tokens({"unk_token": "<unk>"})
    assert tokenizer.unk_token == "[UNK]" and len(tokenizer) == len(WORDS)
    assert tokenizer.convert_tokens_to_ids("nothing") == 1


@pytest.mark.parametrize("name", ["mask_token", "pad_token", "eos_token"])
def test_a_special_token_may_be_missing(name: str, tmp_path: Path) -> None:
    tokenizer = BertTokenizer(WORDS, **{name: None})
    assert getattr(tokenizer, name) is None and getattr(tokenizer, f"{name}_id") is None
    assert name not in tokenizer.special_tokens_map
    tokenizer.save_pretrained(tmp_path)


@pytest.mark.parametrize("flags", [{"special": True}, {"lstrip": True, "normalized": False}, {}])
def test_added_tokens_of_the_library_are_taken(flags: dict[str, bool]) -> None:
    library = pytest.importorskip("tokenizers")
    theirs, ours = library.AddedToken("<x>", **flags), AddedToken("<x>", **flags)
    tokenizer, twin = BertTokenizer(WORDS), BertTokenizer(WORDS)
    assert tokenizer.add_tokens([theirs]) == twin.add_tokens([ours])
    assert tokenizer.added_tokens_decoder == twin.added_tokens_decoder
    assert BertTokenizer(WORDS, eos_token=theirs).eos_token == "<x>"
