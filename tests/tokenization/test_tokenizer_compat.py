"""Options and calls of transformers' tokenizers: supported, without effect, or an error."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from minibert.compat.keywords import ANYTHING
from minibert.compat.tokenizer_names import KEYWORDS
from minibert.tokenization.encoding import BatchEncoding
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.files import write_json

REFUSED = {name: value for name, value in KEYWORDS.items() if value[0] is not ANYTHING}
WITHOUT_EFFECT = KEYWORDS.keys() - REFUSED.keys()
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "love", "korea"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    BertTokenizer(WORDS).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_options_without_effect(folder: Path, name: str) -> None:
    plain = BertTokenizer.from_pretrained(folder)
    for value in (True, False, None, "x"):
        tokenizer = BertTokenizer.from_pretrained(folder, **{name: value})
        assert tokenizer("I love") == plain("I love") and tokenizer.init_kwargs == plain.init_kwargs
        assert BertTokenizer(WORDS, **{name: value}).encode("I") == plain.encode("I")


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_options_raise_an_error(folder: Path, name: str) -> None:
    usual, instead = REFUSED[name]
    other = not usual if isinstance(usual, bool) else ["x"]
    for value in (usual, None):
        assert BertTokenizer.from_pretrained(folder, **{name: value}).encode("I") == [2, 5, 3]
    for call in (
        lambda: BertTokenizer.from_pretrained(folder, **{name: other}),
        lambda: BertTokenizer(WORDS, **{name: other}),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert re.fullmatch(
            rf"{name}(=(True|False))? is not supported: {re.escape(instead)}", str(caught.value)
        )


def test_locations_of_files(folder: Path) -> None:
    BertTokenizer([*WORDS, "paris"]).save_pretrained(folder / "inner")
    (folder / "inner" / "vocab.txt").rename(folder / "words.txt")
    assert len(BertTokenizer.from_pretrained(pretrained_model_name_or_path=folder)) == 8
    for inner in ("inner", "inner/", Path("inner")):
        assert len(BertTokenizer.from_pretrained(folder, subfolder=inner)) == 9
    file = folder / "inner" / "tokenizer.json"
    assert len(BertTokenizer.from_pretrained(folder, tokenizer_file=file)) == 9
    for options in ({}, {"subfolder": None}, {"local_files_only": True, "token": "t"}):
        assert len(BertTokenizer.from_pretrained(folder / "words.txt", **options)) == 9
    with pytest.raises(FileNotFoundError, match="cannot be a Hub id"):
        BertTokenizer.from_pretrained("x" * 5000)


def test_a_method_is_not_an_argument() -> None:
    with pytest.raises(
        AttributeError, match="add_special_tokens is a method of BertTokenizer, not an argument"
    ):
        BertTokenizer(WORDS, add_special_tokens=True)


def test_split_special_tokens_raises_an_error() -> None:
    assert BertTokenizer(WORDS)("[MASK]", split_special_tokens=False)["input_ids"] == [2, 4, 3]
    with pytest.raises(
        ValueError,
        match="split_special_tokens=True is not supported: special tokens in a text stand",
    ):
        BertTokenizer(WORDS)("[MASK]", split_special_tokens=True)


def test_added_tokens_decoder_is_an_argument() -> None:
    tokens = BertTokenizer([*WORDS, "<x>"], extra_special_tokens=["<x>"]).added_tokens_decoder
    tokenizer = BertTokenizer(WORDS, added_tokens_decoder=tokens)
    assert tokenizer.added_tokens_decoder == tokens and tokenizer.encode("I <x>")[2] == 8


def test_a_batch_has_the_inputs_of_the_model(folder: Path) -> None:
    """DistilBERT, for example, takes no token_type_ids."""
    names = ["input_ids", "attention_mask"]
    tokenizer = BertTokenizer(WORDS, model_input_names=names)
    assert list(tokenizer("i")) == names == tokenizer.model_input_names
    assert "token_type_ids" in tokenizer("i", return_token_type_ids=True)
    assert BertTokenizer.model_input_names == ["input_ids", "token_type_ids", "attention_mask"]
    config = {"do_lower_case": True, "model_input_names": names}
    write_json(folder / "tokenizer_config.json", config)
    assert list(BertTokenizer.from_pretrained(folder)("i")) == names


def test_masks_of_special_tokens() -> None:
    tokenizer = BertTokenizer(WORDS)
    assert tokenizer.get_special_tokens_mask([5, 6], [7]) == [1, 0, 0, 1, 0, 1]
    assert tokenizer.get_special_tokens_mask([5, 1]) == [1, 0, 0, 1]
    assert tokenizer.create_token_type_ids_from_sequences([5, 6], [7]) == [0, 0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="token_ids_1 has to be None"):
        tokenizer.get_special_tokens_mask([5], [5], already_has_special_tokens=True)


def test_optional_special_tokens_are_saved(tmp_path: Path) -> None:
    tokenizer = BertTokenizer(WORDS, bos_token="[CLS]", eos_token="<e>")
    tokenizer.save_pretrained(tmp_path)
    again = BertTokenizer.from_pretrained(tmp_path)
    assert again.special_tokens_map == tokenizer.special_tokens_map and again.eos_token_id == 8
    assert "bos_token" not in BertTokenizer(WORDS).special_tokens_map
    assert BertTokenizer(WORDS).bos_token_id is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 10.5}, "max_length should be a whole number of 0 or more, not 10.5"),
        ({"max_length": True}, "max_length should be a whole number of 0 or more, not True"),
        ({"max_length": "8"}, "max_length should be a whole number of 0 or more, not '8'"),
        ({"pad_to_multiple_of": -8, "padding": True}, "multiple_of should be .* 1 or more, not -8"),
        ({"pad_to_multiple_of": 0, "padding": True}, "multiple_of should be .* 1 or more, not 0"),
        ({"stride": 1.5, "max_length": 4}, "stride should be a whole number of 0 or more, not 1.5"),
    ],
)
def test_counts_that_are_not_whole_numbers_raise_an_error(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        BertTokenizer(WORDS)(["i love korea i love"], **options)


def test_options_of_a_call() -> None:
    tokenizer = BertTokenizer(WORDS)
    assert tokenizer("I love", src_lang="en_XX", split_special_tokens=False) == tokenizer("I love")
    assert tokenizer("I", tgt_lang="de", text_target=None) == tokenizer("I")
    for name, value in {
        "text_target": "love",
        "text_pair_target": "love",
        "max_target_length": 3,
    }.items():
        with pytest.raises(ValueError, match=f"{name}=.* is not supported: BERT has no decoder"):
            tokenizer("I", **{name: value})
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'max_len'"):
        tokenizer("I love", max_len=3)


def test_init_kwargs_rebuild_the_tokenizer() -> None:
    tokenizer = BertTokenizer(
        WORDS, bos_token="i", add_bos_token=True, model_input_names=["input_ids"]
    )
    tokenizer.add_tokens(["<name>"])
    tokenizer.add_special_tokens({"extra_special_tokens": ["<x>"]})
    again = BertTokenizer(tokenizer.base_vocab, **tokenizer.init_kwargs)
    text = "I love <name> <x>"
    assert again(text) == tokenizer(text) == {"input_ids": [2, 5, 6, 8, 9, 3]}
    assert again.bos_token == "i"
    assert again.extra_special_tokens_ids == [9] and again.init_kwargs == tokenizer.init_kwargs
    again.extra_special_tokens_ids = [8]
    assert again.extra_special_tokens == ["<name>"]


TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"]
ORIGINS = {
    "word_ids": {"batch_index": 1},
    "tokens": {"batch_index": 1},
    "sequence_ids": {"batch_index": 1},
    "token_to_sequence": {"batch_or_token_index": 0, "token_index": 1},
    "token_to_word": {"batch_or_token_index": 0, "token_index": 1},
    "token_to_chars": {"batch_or_token_index": 0, "token_index": 1},
    "word_to_tokens": {"batch_or_word_index": 0, "word_index": 0, "sequence_index": 0},
    "word_to_chars": {"batch_or_word_index": 0, "word_index": 0, "sequence_index": 0},
    "char_to_token": {"batch_or_char_index": 0, "char_index": 1, "sequence_index": 0},
    "char_to_word": {"batch_or_char_index": 0, "char_index": 1, "sequence_index": 0},
}


@pytest.mark.parametrize(("method", "arguments"), ORIGINS.items())
def test_origins_take_the_arguments_of_transformers(method: str, arguments: dict[str, int]) -> None:
    batch = BertTokenizer(TOKENS)([["ab", "a"], ["a"]], is_split_into_words=True)
    by_name = getattr(batch, method)(**arguments)
    assert by_name == getattr(batch, method)(*arguments.values())


def test_a_batch_takes_the_arguments_of_transformers() -> None:
    row = BertTokenizer(TOKENS)("ab").encodings[0]
    data = {"input_ids": row.ids}
    batch = BatchEncoding(data, encoding=row, tensor_type="np", prepend_batch_axis=True)
    assert batch["input_ids"].shape == (1, 4)
    assert batch.tokens(0) == row.tokens
    assert BatchEncoding({}, n_sequences=2).n_sequences == 2
    assert pickle.loads(pickle.dumps(BatchEncoding({}, n_sequences=2))).n_sequences == 2


def folder_with(folder: Path, files: dict[str, dict[str, object]], tokens: list[str]) -> Path:
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_the_older_name_of_the_longest_row(tmp_path: Path) -> None:
    config: dict[str, object] = {"do_lower_case": False, "max_len": 8}
    folder = folder_with(tmp_path, {"tokenizer_config.json": config}, TOKENS)
    tokenizer = BertTokenizer.from_pretrained(folder)
    assert len(tokenizer("a " * 20, truncation=True)["input_ids"]) == 8
    assert BertTokenizer.from_pretrained(folder, max_len=5).model_max_length == 5
    assert BertTokenizer(TOKENS, max_len=6).model_max_length == 6
    config["model_max_length"] = 7
    folder_with(tmp_path, {"tokenizer_config.json": config}, TOKENS)
    assert BertTokenizer.from_pretrained(folder).model_max_length == 7


@pytest.mark.parametrize("named_in", ["config.json", "tokenizer_config.json"])
def test_another_tokenizer_is_refused(named_in: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {named_in: {"tokenizer_class": "BertJapaneseTokenizer"}}, TOKENS)
    with pytest.raises(ValueError, match="BertJapaneseTokenizer"):
        BertTokenizer.from_pretrained(folder)


def test_the_warning_names_the_option_that_changes_words() -> None:
    with pytest.warns(UserWarning, match="tokenize_chinese_chars=False"):
        BertTokenizer([*TOKENS, "県民", "神奈川"], do_lower_case=False)
    with pytest.warns(UserWarning, match="do_lower_case=False"):
        BertTokenizer([*TOKENS, "나는", "한국"])


def test_save_pretrained_takes_the_arguments_of_transformers(tmp_path: Path) -> None:
    tokenizer = BertTokenizer(TOKENS)
    assert tokenizer.save_pretrained(save_directory=tmp_path, push_to_hub=False)
    assert tokenizer.save_pretrained(tmp_path, legacy_format=False, filename_prefix=None)
    with pytest.raises(ValueError, match="filename_prefix"):
        tokenizer.save_pretrained(tmp_path, filename_prefix="mine")
    with pytest.raises(TypeError, match="unknown"):
        tokenizer.save_pretrained(tmp_path, unknown=True)


def test_splitting_special_tokens_is_refused_in_a_file_too(folder: Path) -> None:
    write_json(folder / "tokenizer_config.json", {"split_special_tokens": True})
    with pytest.raises(ValueError, match="tokenizer_config.json: split_special_tokens=True is not"):
        BertTokenizer.from_pretrained(folder)
    write_json(folder / "tokenizer_config.json", {"split_special_tokens": False})
    assert BertTokenizer.from_pretrained(folder).encode("I") == [2, 5, 3]


def test_a_switch_that_is_a_string_raises_an_error() -> None:
    """It would count as true."""
    tokenizer = BertTokenizer(WORDS)
    with pytest.raises(ValueError, match="add_special_tokens should be True or False, not 'False'"):
        tokenizer("I", add_special_tokens="False")  # type: ignore[arg-type]
    for decode in (tokenizer.decode, tokenizer.batch_decode):
        with pytest.raises(ValueError, match="skip_special_tokens should be True or False"):
            decode([2, 5, 3], skip_special_tokens="False")  # type: ignore[operator]


def test_no_name_at_all(folder: Path) -> None:
    with pytest.raises(TypeError, match="name of a checkpoint should be a folder.*not NoneType"):
        BertTokenizer.from_pretrained(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="folder to save into should be a path, not None"):
        BertTokenizer(WORDS).save_pretrained(None)  # type: ignore[arg-type]


def test_the_older_name_of_extra_special_tokens_can_be_assigned() -> None:
    tokenizer = BertTokenizer(WORDS)
    tokenizer.additional_special_tokens = ["<e>"]
    assert tokenizer.extra_special_tokens == tokenizer.additional_special_tokens == ["<e>"]


def test_a_token_of_another_library_is_added_alone_or_in_a_list() -> None:
    token = pytest.importorskip("tokenizers").AddedToken("<e>", lstrip=True)
    alone, listed = BertTokenizer(WORDS), BertTokenizer(WORDS)
    assert alone.add_tokens(token) == listed.add_tokens([token]) == 1
    assert alone("I <e> I") == listed("I <e> I") and alone.added_tokens_decoder[8].lstrip


def test_a_batch_is_not_cast() -> None:
    batch = BertTokenizer(WORDS)("I love", return_tensors="pt")
    with pytest.warns(UserWarning, match="not cast to torch.float16"):
        assert batch.to(torch.float16)["input_ids"].dtype == torch.long
