"""Parts of a tokenizer.json that change tokens.

minibert follows them as the `tokenizers` library does, or raises an error that names the part.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from code_points import BLOCK, blocks, characters
from tokenizers import normalizers, pre_tokenizers

from minibert.tokenization import basic
from minibert.tokenization.basic import BasicTokenizer
from minibert.tokenization.tokenizer import BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*can never be found")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
WORDS = [
    "well", "known", "well-known", "-", "2", "0", "20", "a", "##b", "É", "é", "e", "Well", "don",
    "'", "t", "don't", "!", "...", ".", "漢", "a漢b", "b", "20\x00", "½", "2½",
]  # fmt: skip
TOKENS = [*SPECIAL, *WORDS]
TEXTS = [
    "Well-known 20 a漢b",
    "don't... É é 2½ 20!",
    "20\x00 ab\x0bab\x85ab\tabb",
    "[MASK]a <s>20",
    "",
]
BERT_PRE = {"type": "BertPreTokenizer"}
BERT_NORM = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
CONTENT: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for number, token in enumerate(SPECIAL)
    ],
    "normalizer": BERT_NORM,
    "pre_tokenizer": BERT_PRE,
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {token: number for number, token in enumerate(TOKENS)},
    },
}  # fmt: skip


def template(single: str, pair: str, **ids: int) -> dict[str, Any]:
    """A TemplateProcessing entry from templates such as "$A:0 [SEP]:1"."""
    processor = tokenizers.processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, TOKENS.index(token)) for token in SPECIAL]
    )
    return json.loads(processor.__getstate__())


def sequence(*steps: dict[str, Any], key: str = "pretokenizers") -> dict[str, Any]:
    return {"type": "Sequence", key: list(steps)}


DIGITS = {"type": "Digits", "individual_digits": True}
PUNCTUATION = {"type": "Punctuation", "behavior": "Isolated"}
CASED = {**BERT_NORM, "lowercase": False}
SUPPORTED: dict[str, dict[str, Any]] = {
    "BERT's": {},
    "split at white space": {"pre_tokenizer": {"type": "WhitespaceSplit"}},
    "split by word characters": {"pre_tokenizer": {"type": "Whitespace"}},
    "each digit": {"pre_tokenizer": sequence(BERT_PRE, DIGITS)},
    "runs of digits": {
        "pre_tokenizer": sequence(
            {"type": "WhitespaceSplit"}, {**DIGITS, "individual_digits": False}
        )
    },
    "punctuation": {"pre_tokenizer": sequence({"type": "WhitespaceSplit"}, PUNCTUATION)},
    "sequence of one": {"pre_tokenizer": sequence(BERT_PRE)},
    "no special tokens": {"post_processor": None},
    "other special tokens": {
        "post_processor": {"type": "BertProcessing", "sep": ["</s>", 6], "cls": ["<s>", 5]}
    },
    "type ids": {
        "post_processor": template("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0")
    },
    "first text of type 1": {
        "post_processor": template("[CLS]:1 $A:1 [SEP]:1", "[CLS]:1 $A:1 [SEP]:0 $B:0")
    },
    "two separators": {"post_processor": template("<s> $A </s>", "<s> $A </s> </s> $B:1 </s>:1")},
    "template in a sequence": {
        "post_processor": sequence(template("<s> $A", "<s> $A $B"), key="processors")
    },
    "short words": {"model": {**CONTENT["model"], "max_input_chars_per_word": 4}},
    "control characters": {"normalizer": {**BERT_NORM, "clean_text": False}},
    "cased control characters": {
        "normalizer": {**CASED, "clean_text": False},
        "pre_tokenizer": {"type": "Whitespace"},
    },
    "no normalizer": {"normalizer": None},
    "lower case": {"normalizer": {"type": "Lowercase"}},
    "lower case first": {"normalizer": sequence({"type": "Lowercase"}, CASED, key="normalizers")},
    "lower case twice": {
        "normalizer": sequence({"type": "Lowercase"}, BERT_NORM, key="normalizers")
    },
    "lower case last": {
        "normalizer": sequence(
            {**CASED, "strip_accents": True}, {"type": "Lowercase"}, key="normalizers"
        )
    },
    "no decoder": {"decoder": None},
    "no clean-up": {"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False}},
}  # fmt: skip


def write(folder: Path, change: dict[str, Any], **config: Any) -> tokenizers.Tokenizer:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**CONTENT, **change}), encoding="utf-8")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return tokenizers.Tokenizer.from_file(str(path))


def assert_equal(ours: BertTokenizer, theirs: tokenizers.Tokenizer) -> None:
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    for special in (True, False):
        for inputs in (TEXTS, pairs):
            expected = theirs.encode_batch(inputs, add_special_tokens=special)
            batch = ours(inputs, add_special_tokens=special, return_offsets_mapping=True)
            assert batch["input_ids"] == [row.ids for row in expected]
            assert batch["token_type_ids"] == [row.type_ids for row in expected]
            assert batch["offset_mapping"] == [row.offsets for row in expected]
            for mine, yours in zip(batch.encodings, expected, strict=True):
                assert mine.word_ids == yours.word_ids
                assert mine.sequence_ids == yours.sequence_ids
                assert mine.special_tokens_mask == yours.special_tokens_mask
                ids = [token_id for token_id in mine.ids if token_id]
                assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
    theirs.enable_truncation(5)
    batch = ours(pairs, truncation=True, max_length=5)
    assert batch["input_ids"] == [row.ids for row in theirs.encode_batch(pairs)]
    theirs.no_truncation()


@pytest.mark.parametrize("class_name", ["", "PreTrainedTokenizerFast", "TokenizersBackend"])
@pytest.mark.parametrize("change", SUPPORTED.values(), ids=list(SUPPORTED))
def test_supported_parts_are_followed(
    tmp_path: Path, change: dict[str, Any], class_name: str
) -> None:
    config = {}
    if class_name:  # these classes follow the file, whatever the options
        config = {"tokenizer_class": class_name, "do_lower_case": False}
    theirs = write(tmp_path, change, **config)
    ours = BertTokenizer.from_pretrained(tmp_path)
    assert_equal(ours, theirs)
    ours.save_pretrained(tmp_path / "again")
    again = BertTokenizer.from_pretrained(tmp_path / "again")
    assert again.components.keys() == ours.components.keys()
    assert_equal(again, theirs)
    assert_equal(ours, tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json")))
    assert_equal(BertTokenizer(tokenizer_file=tmp_path / "tokenizer.json"), theirs)


def test_bert_has_no_components(tmp_path: Path) -> None:
    for processor in (
        CONTENT["post_processor"],
        template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
    ):
        write(tmp_path, {"post_processor": processor})
        assert BertTokenizer.from_pretrained(tmp_path).components == {}


UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "NFC": ({"normalizer": {"type": "NFC"}}, "its normalizer is 'NFC', but minibert has"),
    "sequence of normalizers": (
        {"normalizer": sequence({"type": "NFD"}, {"type": "StripAccents"}, key="normalizers")},
        "its normalizer is a Sequence of .'NFD', 'StripAccents'",
    ),
    "no pre_tokenizer": (
        {"pre_tokenizer": None}, "its pre_tokenizer is None, but minibert has BertPre"
    ),
    "ByteLevel": (
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                           "use_regex": True}},
        "its pre_tokenizer is 'ByteLevel'",
    ),
    "digits alone": (
        {"pre_tokenizer": DIGITS}, "its pre_tokenizer is 'Digits', but minibert has only"
    ),
    "contiguous punctuation": (
        {"pre_tokenizer": sequence(BERT_PRE, {**PUNCTUATION, "behavior": "Contiguous"})},
        "its pre_tokenizer is 'Punctuation'",
    ),
    "RobertaProcessing": (
        {"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 6], "cls": ["<s>", 5],
                            "trim_offsets": True, "add_prefix_space": False}},
        "its post_processor is 'RobertaProcessing', but minibert has BertProcessing",
    ),
    "text twice": (
        {"post_processor": template("$A $A", "$A $B")},
        "its post_processor has the texts .'A', 'A'",
    ),
    "second text first": ({"post_processor": template("$A", "$B $A")}, "has the texts .'B', 'A'"),
    "other id": (
        {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 4], "cls": ["[CLS]", 2]}},
        r"gives '\[SEP\]' the id 4, but its vocabulary gives it 3",
    ),
    "decoder": (
        {"decoder": {"type": "BPEDecoder", "suffix": "</w>"}}, "its decoder is 'BPEDecoder'"
    ),
    "prefix": (
        {"model": {**CONTENT["model"], "continuing_subword_prefix": "@@"}},
        "its model is 'WordPiece' with the prefix '@@'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), UNSUPPORTED.values(), ids=list(UNSUPPORTED))
def test_an_unsupported_part_raises_an_error_that_names_it(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    write(tmp_path, change)
    with pytest.raises(ValueError, match=message):
        BertTokenizer.from_pretrained(tmp_path)


def test_rows_need_one_special_token_on_each_side(tmp_path: Path) -> None:
    write(tmp_path, SUPPORTED["no special tokens"])
    with pytest.raises(ValueError, match="one special token before and one after .* adds 0 in all"):
        BertTokenizer.from_pretrained(tmp_path).rows(["a"])


SPLITTERS = {
    "white space": (basic.split_white_space, pre_tokenizers.WhitespaceSplit()),
    "word characters": (basic.split_word_characters, pre_tokenizers.Whitespace()),
    "punctuation": (basic.split_punctuation, pre_tokenizers.Punctuation()),
    "digits": (basic.split_digits, pre_tokenizers.Digits(individual_digits=True)),
}


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("split", "theirs"), SPLITTERS.values(), ids=list(SPLITTERS))
def test_every_code_point_is_split(split: Any, theirs: Any, step: int) -> None:
    """The default run takes one block in sixteen where all characters are of one kind."""
    for first in blocks(step):
        text = "".join(f"a{char}" for char in characters(first))
        assert split(text) == [span for _, span in theirs.pre_tokenize_str(text)], hex(first)


def test_lower_casing_before_equals_lower_casing_inside() -> None:
    """`parse_normalizer` relies on this for every code point."""
    lower, strip = normalizers.Lowercase(), normalizers.BertNormalizer(True, True, True, False)
    outside = normalizers.Sequence([lower, strip])
    inside = BasicTokenizer(do_lower_case=True, strip_accents=True)
    for first in range(0, 0x20000, BLOCK):
        assigned = [char for char in characters(first) if unicodedata.category(char) != "Cn"]
        text = " ".join(f"a{char}" for char in assigned)
        assert outside.normalize_str(text) == inside.normalize(text)[0], hex(first)
