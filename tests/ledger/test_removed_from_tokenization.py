"""Checks of the tokenizer that are gone: the smallest input of each, and what it gives now."""

from __future__ import annotations

from typing import Any

import pytest

from minibert import BertTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]


def test_a_multiple_has_no_effect_without_padding() -> None:
    tokenizer = BertTokenizer(WORDS)
    assert tokenizer("a", pad_to_multiple_of=0)["input_ids"] == [2, 5, 3]
    with pytest.raises(ValueError, match="pad_to_multiple_of should be a whole number of 1 or"):
        tokenizer("a", padding=True, pad_to_multiple_of=0)


@pytest.mark.parametrize("name", ["padding_side", "truncation_side"])
def test_no_side_is_the_default_side(name: str) -> None:
    arguments: dict[str, Any] = {name: None}
    assert getattr(BertTokenizer(WORDS, **arguments), name) == "right"


def test_parts_of_bert_in_components_are_no_components() -> None:
    parts = {"pre_tokenizer": {"type": "BertPreTokenizer"}, "clean_text": True}
    assert BertTokenizer(WORDS, components=parts).components == {}


def test_a_tokenizer_file_beside_a_folder_takes_the_options_of_the_folder(tmp_path: Any) -> None:
    BertTokenizer(WORDS, do_lower_case=False).save_pretrained(tmp_path)
    other = tmp_path / "other"
    BertTokenizer([*WORDS, "b"]).save_pretrained(other)
    again = BertTokenizer.from_pretrained(tmp_path, tokenizer_file=other / "tokenizer.json")
    assert len(again) == 7 and again.do_lower_case is False
