"""The tokenizer: published examples, invalid input, warnings, caching, threads, pickles, files."""

from __future__ import annotations

import copy
import doctest
import importlib
import json
import pickle
import sys
import threading
import unicodedata
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import shared_data, tiny_config
from hypothesis import HealthCheck, example, given, settings, strategies as st
from torch import Tensor

import minibert
import minibert.tokenization
from minibert.tokenization.added import AddedToken, TokenFinder
from minibert.tokenization.basic import (
    BasicTokenizer,
    clean_text,
    drop_accents,
    lower_case,
    space_cjk,
    split_words,
)
from minibert.tokenization.batch_rows import plan_rows
from minibert.tokenization.encoding import BatchEncoding
from minibert.tokenization.pipeline import CHUNK, ChunkCache, Pipeline
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.tokenization.wordpiece import WordPiece

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "i",
    "love",
    "korea",
    "paint",
    "##ing",
    "##s",
    "!",
    ",",
    "e",
    "##e",
]
PAD, UNK, CLS, SEP, MASK, I, LOVE, KOREA, PAINT, ING, S = range(11)  # noqa: E741


@pytest.fixture
def tokenizer() -> BertTokenizer:
    return BertTokenizer(WORDS)


def write_vocabulary(folder: Path, words: list[str] = WORDS, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    folder.joinpath("vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    for name, content in files.items():
        folder.joinpath(f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


# --- published examples


def test_golden_english(minilm: str) -> None:
    """The vocabulary is that of bert-base-uncased."""
    tokenizer = BertTokenizer.from_pretrained(minilm)
    golden = shared_data("golden", "bert-base-uncased.json").read_text(encoding="utf-8")
    for case in json.loads(golden)["tokenizer"]:
        batch = tokenizer(case["text"], padding="max_length", max_length=case["padded_to"])
        assert tokenizer.tokenize(case["text"]) == case["tokens"]
        assert batch["input_ids"] == case["input_ids"]
        assert batch["attention_mask"] == case["attention_mask"]


def test_golden_korean() -> None:
    tokenizer = BertTokenizer.from_pretrained(shared_data("data", "kcbert-base"))
    golden = shared_data("golden", "kcbert-base.json").read_text(encoding="utf-8")
    for case in json.loads(golden)["tokenizer"]:
        batch = tokenizer(
            case["texts"],
            padding=case["padding"],
            max_length=case["max_length"],
            truncation=case["truncation"],
        )
        assert batch["input_ids"] == case["input_ids"]
        assert batch["attention_mask"] == case["attention_mask"]


# --- the steps


MODULES = sorted(path.stem for path in Path(minibert.tokenization.__path__[0]).glob("[!_]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_an_example_that_works(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"minibert.tokenization.{name}"))
    assert result.attempted and not result.failed


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("Né\x00e\tİΣ 漢字\u3000e\u0301\u0323 \u0344\U0001171e")
def test_normalized_characters_have_positions_in_the_text(text: str) -> None:
    normalized, positions = BasicTokenizer().normalize(text)
    assert len(normalized) == len(positions)
    assert list(positions) == sorted(positions)
    assert all(0 <= position < len(text) for position in positions)
    assert not any(unicodedata.category(char) == "Cc" for char in normalized)
    ends = [0, *(place for span in split_words(normalized) for place in span), len(normalized)]
    assert ends == sorted(ends)  # words do not overlap
    between = [normalized[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]
    assert not "".join(between).strip(" ")  # only spaces are between them


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_white_space_separates_words(text: str) -> None:
    """The words of a text are those of its chunks, so the ids of chunks can be cached."""
    words = BasicTokenizer().words
    assert words(text) == [word for chunk in CHUNK.findall(text) for word in words(chunk)]


@given(st.text("aZ09 _-.,!~가힣漢é"), st.booleans(), st.sampled_from([None, True, False]))
def test_plain_text_is_split_like_any_text(text: str, lower: bool, accents: bool | None) -> None:
    """The fast path for plain text gives the same words as the steps for all of Unicode."""
    tokenizer = BasicTokenizer(lower, accents)
    chars = space_cjk(clean_text(text))
    if accents or (accents is None and lower):
        chars = drop_accents(chars)
    if lower:
        chars = lower_case(chars)
    expected = "".join(char for char, _ in chars)
    assert tokenizer.words(text) == [expected[start:end] for start, end in split_words(expected)]
    normalized, positions = tokenizer.normalize(text)
    assert normalized == expected and list(positions) == [position for _, position in chars]


@given(data=st.data(), count=st.integers(0, 12), pair=st.booleans())
def test_truncation_needs_only_the_beginning_of_a_long_text(
    data: st.DataObject, count: int, pair: bool
) -> None:
    """The row is the same as without this shortcut, wherever the beginning ends."""
    parts = st.sampled_from(
        ["painting", "s", " ", "!", "[MASK]", "<both>", "<one>", "e", "é", "\u0301", "\x00", "漢"]
    )
    texts = ["".join(data.draw(st.lists(parts, max_size=40))) for _ in range(2 if pair else 1)]
    tokenizer = BertTokenizer(
        WORDS, extra_special_tokens=[AddedToken("<both>", lstrip=True, rstrip=True)]
    )
    tokenizer.add_tokens([AddedToken("<one>", single_word=True, normalized=False)])
    options: dict[str, Any] = {
        "truncation": True,
        "max_length": count + 3,
        "return_offsets_mapping": True,
    }
    expected = tokenizer(*texts, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pipeline, "LONG", data.draw(st.integers(1, 9)))
        assert tokenizer(*texts, **options) == expected


@pytest.mark.parametrize(
    "text", ["word " * 20_000_000, "a!" * 50_000_000, "[MASK]" * 17_000_000], ids=len
)
def test_truncation_stops_early(tokenizer: BertTokenizer, text: str, monkeypatch: Any) -> None:
    """For 16 tokens of 100 MB, only the beginning is processed."""
    lengths: list[int] = []
    normalize = BasicTokenizer.normalize
    monkeypatch.setattr(
        BasicTokenizer,
        "normalize",
        lambda self, part: lengths.append(len(part)) or normalize(self, part),
    )
    assert len(tokenizer(text, truncation=True, max_length=16)["input_ids"]) == 16
    assert sum(lengths) < 100_000


def test_windows_of_a_long_text_tokenize_it_once(
    tokenizer: BertTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Pipeline.tokens
    texts: list[Any] = []

    def counted(pipeline: Pipeline, text: Any) -> Any:
        texts.append(text)
        return tokens(pipeline, text)

    monkeypatch.setattr(Pipeline, "tokens", counted)
    batch = tokenizer(
        ["a b " * 50, "b " * 50],
        truncation=True,
        max_length=8,
        stride=2,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    assert len(batch["input_ids"]) > 30
    assert texts == ["a b " * 50, "b " * 50]


def test_added_tokens_take_linear_time() -> None:
    """Each character is read at most twice, also if tokens strip the spaces around them."""
    finder = TokenFinder({"<b>": AddedToken("<b>", lstrip=True, rstrip=True, single_word=True)})

    class Counting(str):
        reads = 0

        def __getitem__(self, key: Any) -> str:
            Counting.reads += len(range(len(self))[key]) if isinstance(key, slice) else 1
            return super().__getitem__(key)

    for text in ("  <b>  " * 3000, "a<b>" * 3000, " " * 9000 + "<b>"):
        Counting.reads = 0
        parts = list(finder.split(Counting(text)))
        assert Counting.reads <= 2 * len(text) and parts[-1][1] == len(text)


@given(st.text("abc", max_size=12), st.sets(st.text("abc#", min_size=1, max_size=4), max_size=20))
def test_pieces_are_the_longest_and_spell_the_word(word: str, tokens: set[str]) -> None:
    vocabulary = dict.fromkeys(["[UNK]", "##", *tokens, *(f"##{token}" for token in tokens)], 0)
    spans = WordPiece(vocabulary).spans(word)
    if [piece for piece, _, _ in spans] == ["[UNK]"]:
        return
    assert "".join(piece.removeprefix("##") for piece, _, _ in spans) == word
    for piece, start, end in spans:
        assert word[start:end] == piece.removeprefix("##")
        assert piece.startswith("##") == (start > 0)
        prefix = "##" if start else ""
        for longer in range(end + 1, len(word) + 1):
            assert prefix + word[start:longer] not in vocabulary


@given(st.text("paintges!, 漢é\u0301[]MASK\t\x0b\x85\u2028"))
def test_tokens_offsets_and_ids_agree(text: str) -> None:
    tokenizer = BertTokenizer(WORDS)
    tokenizer.add_tokens(["ta", AddedToken("<e>", lstrip=True)])
    row = tokenizer(text).encodings[0]
    assert row.ids == tokenizer(text)["input_ids"] == tokenizer.convert_tokens_to_ids(row.tokens)
    assert all(0 <= start <= end <= len(text) for start, end in row.offsets)
    words = [word for word in row.word_ids if word is not None]
    assert words == sorted(words) and set(words) == set(range(len(set(words))))


def test_long_words_are_unknown(tokenizer: BertTokenizer) -> None:
    expected = [WORDS.index("e")] + [WORDS.index("##e")] * 99
    assert tokenizer.encode("e" * 100, add_special_tokens=False) == expected
    assert tokenizer.encode("e" * 101, add_special_tokens=False) == [UNK]


def test_long_texts_without_a_space(tokenizer: BertTokenizer) -> None:
    assert tokenizer.encode("é" * 250_000, add_special_tokens=False) == [UNK]
    assert len(tokenizer.encode("e!" * 50_000, verbose=False)) == 100_002


# --- the batch


def test_batch_is_a_dict_with_attributes(tokenizer: BertTokenizer) -> None:
    batch = tokenizer(["I love Korea", "paintings"], padding=True, return_tensors="pt")
    assert list(batch) == ["input_ids", "token_type_ids", "attention_mask"]
    assert (lambda **inputs: inputs)(**batch).keys() == batch.keys()
    assert batch.input_ids is batch["input_ids"]
    assert batch.input_ids.tolist()[1] == [CLS, PAINT, ING, S, SEP]
    assert batch.attention_mask.dtype == torch.int64
    assert batch.to("meta") is batch and batch.input_ids.device.type == "meta"
    assert batch[1].tokens == ["[CLS]", "paint", "##ing", "##s", "[SEP]"]
    with pytest.raises(
        AttributeError, match="no 'labels', only input_ids, token_type_ids, attention_mask"
    ):
        _ = batch.labels


COPIES = {
    "copy": copy.copy,
    "method": lambda batch: batch.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda batch: pickle.loads(pickle.dumps(batch)),
}


@pytest.mark.parametrize("tensors", [None, "pt"])
@pytest.mark.parametrize("make_copy", COPIES.values(), ids=list(COPIES))
def test_copied_batches_keep_the_token_origins(
    tokenizer: BertTokenizer, make_copy: Any, tensors: str | None
) -> None:
    """It does not matter whether they were computed before the batch was copied."""
    text = "I love Korea"
    expected = tokenizer([text])
    assert expected.word_ids() == [None, 0, 1, 2, None]
    for batch in (expected, tokenizer([text])):
        again = make_copy(batch.convert_to_tensors(tensors))
        assert isinstance(again, BatchEncoding) and list(again) == list(batch)
        assert np.array_equal(again["input_ids"], batch["input_ids"])
        assert again.word_ids() == expected.word_ids()
        assert again[0] == expected[0] and again.is_fast


def test_pickled_batches_do_not_contain_the_tokenizer(tokenizer: BertTokenizer) -> None:
    assert len(pickle.dumps(tokenizer(["I love Korea"]))) < 800
    padded = tokenizer.pad([tokenizer("I love")])
    with pytest.raises(ValueError, match="from pad.. has no token origins. Query the original"):
        pickle.loads(pickle.dumps(padded)).word_ids()


def tokenize_in_worker(texts: list[str]) -> BatchEncoding:
    return BertTokenizer(WORDS)(texts, return_tensors="pt", padding=True)


@pytest.mark.timeout(120)
def test_batches_of_workers_keep_the_token_origins(tokenizer: BertTokenizer) -> None:
    texts = ["i love", "korea", "paintings", "i"]
    loader = torch.utils.data.DataLoader(
        texts, batch_size=2, num_workers=1, collate_fn=tokenize_in_worker
    )
    assert [batch.word_ids(0) for batch in loader] == [[None, 0, 1, None], [None, 0, 0, 0, None]]


def test_a_warning_does_not_change_the_pickle() -> None:
    tokenizer = BertTokenizer(WORDS, model_max_length=4)
    before = pickle.dumps(tokenizer)
    with pytest.warns(UserWarning, match="A text has 5 tokens"):
        tokenizer("i love korea")
    assert pickle.dumps(tokenizer) == before


def test_token_origins_survive_a_change_of_the_list_of_texts(tokenizer: BertTokenizer) -> None:
    texts = ["i love", "korea"]
    batch = tokenizer(texts)
    texts.clear()
    assert batch.tokens(1) == ["[CLS]", "korea", "[SEP]"]


def test_empty_input(tokenizer: BertTokenizer) -> None:
    assert tokenizer([]) == {"input_ids": [], "token_type_ids": [], "attention_mask": []}
    for batch in (
        tokenizer([], return_tensors="pt"),
        tokenizer([], [], padding=True, truncation=True, return_tensors="pt"),
    ):
        assert [tuple(value.shape) for value in batch.values()] == [(0, 0)] * 3
        assert batch.input_ids.dtype == torch.int64
    assert tokenizer("")["input_ids"] == [CLS, SEP]
    assert tokenizer(["", "i"], ["", ""])["input_ids"] == [[CLS, SEP, SEP], [CLS, I, SEP, SEP]]
    # An empty second text keeps its [SEP].
    assert tokenizer("i", "")["input_ids"] == [CLS, I, SEP, SEP]
    assert tokenizer("", add_special_tokens=False, return_tensors="np")["input_ids"].shape == (1, 0)
    # A single text without words.
    assert tokenizer([], is_split_into_words=True)["input_ids"] == [CLS, SEP]


def test_pairs_can_be_passed_in_three_ways(tokenizer: BertTokenizer) -> None:
    expected = {
        "input_ids": [[CLS, I, SEP, LOVE, SEP]],
        "token_type_ids": [[0, 0, 0, 1, 1]],
        "attention_mask": [[1] * 5],
    }
    assert tokenizer(["i"], ["love"]) == expected
    assert tokenizer([("i", "love")]) == expected
    assert tokenizer([["i", "love"]]) == expected
    assert tokenizer("i", "love") == {name: rows[0] for name, rows in expected.items()}
    assert tokenizer([(["i"], ["love"])], is_split_into_words=True) == expected
    assert tokenizer.build_inputs_with_special_tokens([I], [LOVE]) == expected["input_ids"][0]
    assert tokenizer.build_inputs_with_special_tokens([I]) == [CLS, I, SEP]


def test_names_from_before_transformers_5(tokenizer: BertTokenizer) -> None:
    assert tokenizer.encode_plus("i", "love") == tokenizer("i", "love")
    assert tokenizer.batch_encode_plus(["i", "love"]) == tokenizer(["i", "love"])
    assert BertTokenizer(vocab_file=WORDS).get_vocab() == tokenizer.get_vocab()


@given(
    lengths=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=4),
    room=st.integers(0, 40),
    stride=st.integers(0, 5),
    side=st.sampled_from(["left", "right"]),
)
def test_overflow_covers_both_texts(
    lengths: list[tuple[int, int]], room: int, stride: int, side: str
) -> None:
    columns = [list(column) for column in zip(*lengths, strict=True)]
    try:
        rows = plan_rows(columns, room, "longest_first", stride, side, overflow=True)
    except ValueError as error:
        assert "stride" in str(error)
        return
    for sample, pair in enumerate(lengths):
        for text_index, length in enumerate(pair):
            covered: set[int] = set()
            for row_sample, slices in rows:
                if row_sample == sample:
                    covered.update(range(length)[slices[text_index]])
            assert covered == set(range(length))


# --- errors and warnings


@pytest.mark.parametrize(
    ("text", "pair", "message"),
    [
        (None, None, "text is None. Pass a str, or a list of such texts"),
        (3, None, "text is an int. Pass a str"),
        (["i", None], None, r"text\[1\] is None, not a str"),
        (["i", "love"], ["i", float("nan")], r"text_pair\[1\] is a float \(nan\), not a str"),
        (np.array(["i"]), None, "text is a ndarray. Pass a str, or a list"),
        ("i", 3, r"text_pair is an int \(3\), not a str"),
        (["i"], "love", "text_pair is a str. Pass a str, or a list"),
        (["i"], ["love", "korea"], "There are 1 texts, but 2 in text_pair"),
        ([["i"]], None, r"text\[0\] is a list"),
        ([b"i"], None, r"text\[0\] is a bytes"),
    ],
)
def test_inputs_that_are_not_texts_raise_an_error(
    tokenizer: BertTokenizer, text: Any, pair: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tokenizer(text, pair)


def test_words_have_to_be_lists(tokenizer: BertTokenizer) -> None:
    with pytest.raises(ValueError, match=r"text\[1\] is a str \('love'\), not a list of words"):
        tokenizer([["i"], "love"], is_split_into_words=True)
    with pytest.raises(ValueError, match="text is a str. Pass a list of words"):
        tokenizer("i love", is_split_into_words=True)


@pytest.mark.parametrize("text", ["a \ud800 b", "\udfff", "[MASK]\ud83d", "i" * 200 + "\udc00"])
def test_lone_surrogates(tokenizer: BertTokenizer, text: str) -> None:
    """They raise an error, as in transformers, because the text was decoded incorrectly."""
    with pytest.raises(
        ValueError, match=r"lone surrogate.*Repair it with text.encode\('utf-16', 'surrogatepass'\)"
    ):
        tokenizer(["fine", text])
    repaired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert tokenizer(repaired)["input_ids"][0] == CLS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"padding": "longst"},
            "padding is 'longst', but it can be False, 'do_not_pad', True, 'longest', 'max_length'",
        ),
        (
            {"truncation": "first"},
            "truncation is 'first', but it can be None, False, .*'only_second'",
        ),
        ({"padding_side": "top"}, "padding_side is 'top', but it can be 'right', 'left'"),
        ({"return_tensors": "tf"}, r"return_tensors should be 'pt' \(PyTorch\), 'np' .* not 'tf'"),
        ({"max_length": -1}, "max_length should be a whole number of 0 or more, not -1"),
        ({"max_length": 1}, "max_length is 1, but the special tokens take 2"),
        (
            {"max_length": 5, "stride": 3},
            "stride is 3, but has to be from 0 to less than the 3 tokens",
        ),
        (
            {"max_length": 5, "truncation": "only_second"},
            "text 0 is too long and has no second text",
        ),
        (
            {"max_length": 6, "truncation": True, "padding": True, "pad_to_multiple_of": 4},
            "max_length=6 is not a multiple of",
        ),
    ],
)
def test_impossible_options(
    tokenizer: BertTokenizer, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tokenizer(["i love korea paintings"], **options)


def test_texts_that_cannot_be_truncated_that_far_raise_an_error(tokenizer: BertTokenizer) -> None:
    with pytest.raises(ValueError, match="'only_first' .*2 tokens from text 1, which has 1"):
        tokenizer(["i", "i"], ["i", "i love korea"], truncation="only_first", max_length=5)


def test_ragged_rows_cannot_become_a_tensor(tokenizer: BertTokenizer) -> None:
    with pytest.raises(
        ValueError,
        match="input_ids have 3 to 5 tokens.*padding=True",
    ):
        tokenizer(["i", "i love korea"], return_tensors="pt")
    with pytest.raises(ValueError, match="labels contains 'x', which makes no tensor"):
        tokenizer.pad([{"input_ids": [1], "labels": "x"}], return_tensors="pt")
    with pytest.raises(ValueError, match="needs input_ids, but got labels"):
        tokenizer.pad([{"labels": 1}])


@pytest.mark.parametrize(("kind", "expected"), [("pt", Tensor), ("np", np.ndarray), (None, list)])
def test_padding_keeps_the_kind_of_the_rows(
    tokenizer: BertTokenizer, kind: str | None, expected: type
) -> None:
    batch = tokenizer(["i", "i"], return_tensors=kind)
    rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    rows[0] = {name: values[:1] for name, values in rows[0].items()}
    for inputs, width in ((batch, 3), (rows, 3), (rows[0], 1)):
        padded = tokenizer.pad(inputs)
        assert isinstance(padded["input_ids"], expected)
        assert np.asarray(padded["attention_mask"]).shape[-1] == width
    assert isinstance(tokenizer.pad(rows, return_tensors="np")["input_ids"], np.ndarray)


def test_ids_outside_the_vocabulary_raise_an_error(tokenizer: BertTokenizer) -> None:
    message = "is not an id of this vocabulary: its 15 tokens have ids 0 to 14"
    for ids in ([CLS, 15], [-100], 15, torch.tensor([15])):
        for call in (tokenizer.decode, tokenizer.convert_ids_to_tokens):
            with pytest.raises(ValueError, match=message):
                call(ids)
    with pytest.raises(ValueError, match=message):
        tokenizer.decode([[CLS], [15]])


def test_decode_takes_lists_arrays_and_tensors(tokenizer: BertTokenizer) -> None:
    ids = [CLS, PAINT, ING, S, WORDS.index("!"), SEP, PAD]
    for form in (list, tuple, np.array, torch.tensor):
        assert tokenizer.decode(form(ids), skip_special_tokens=True) == "paintings!"
        texts = tokenizer.batch_decode(form([ids, ids]), skip_special_tokens=True)
        assert texts == ["paintings!"] * 2
    assert tokenizer.decode(PAINT) == "paint" and tokenizer.decode([]) == ""
    assert tokenizer.batch_decode([]) == [""]


def test_texts_too_long_for_the_model_warn_once() -> None:
    tokenizer = BertTokenizer(WORDS, model_max_length=4)
    with pytest.warns(UserWarning, match="5 tokens, .*takes 4: pass truncation=True"):
        tokenizer("i love korea")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer("i love korea")
        assert tokenizer("i love korea", truncation=True)["input_ids"] == [CLS, I, LOVE, SEP]
        assert len(tokenizer("i", padding="max_length")["input_ids"]) == 4
    with pytest.warns(UserWarning, match="max_length has no effect with padding=True"):
        tokenizer("i", padding=True, max_length=9)


def test_cased_vocabulary_with_lower_casing_warns(tmp_path: Path) -> None:
    kcbert = shared_data("data", "kcbert-base", "vocab.txt")
    with pytest.warns(
        UserWarning,
        match=r"9\d% of the words .*such as '[가-힣]+', can never be found.*do_lower_case=False",
    ):
        lower_casing = BertTokenizer.from_pretrained(kcbert)
    ids = lower_casing("안녕하세요 세계")["input_ids"]
    assert set(ids[1:-1]) == {lower_casing.unk_token_id}
    with pytest.warns(UserWarning, match="pass do_lower_case=False for a cased vocabulary"):
        BertTokenizer([*WORDS, *(chr(code) for code in range(ord("A"), ord("Z") + 1))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({"do_lower_case": False}, {"strip_accents": False}):
            cased = BertTokenizer.from_pretrained(kcbert, **options)
            assert cased.tokenize("안녕하세요") == ["안녕", "##하세요"]


def test_uncased_vocabulary_does_not_warn(minilm: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BertTokenizer.from_pretrained(minilm)


def test_incomplete_vocabularies(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"no '\[UNK\]' .*Pass unk_token=",
    ):
        BertTokenizer(["a", "b"])
    with pytest.warns(UserWarning, match=r"lacks \[MASK\]. They are appended with ids from 4"):
        tokenizer = BertTokenizer(WORDS[:4])
    assert tokenizer.mask_token_id == 4 and len(tokenizer) == 5 and tokenizer.vocab_size == 4
    for empty in (None, [], {}, tmp_path / "empty.txt"):
        (tmp_path / "empty.txt").touch()
        with pytest.raises(ValueError, match="The vocabulary is empty. Pass a vocab.txt file"):
            BertTokenizer(empty)
    with pytest.raises(ValueError, match="BertTokenizer has no argument do_lowercase"):
        BertTokenizer(WORDS, do_lowercase=False)
    with pytest.raises(ValueError, match="string or an object with 'content', .* 3"):
        BertTokenizer(WORDS, mask_token=3)


def test_lines_of_a_vocabulary_file(tmp_path: Path) -> None:
    """Trailing white space and a byte order mark are stripped, and only a line feed ends a line."""
    lines = [
        "\ufeff[PAD]",
        "[UNK]\r",
        "[CLS] ",
        "[SEP]",
        "[MASK]",
        "a\x85b",
        "c\u2028d",
        "\u3000",
        "e\u00a0",
    ]
    tmp_path.joinpath("vocab.txt").write_bytes("\n".join(lines).encode())
    vocabulary = BertTokenizer(tmp_path / "vocab.txt").get_vocab()
    assert list(vocabulary) == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a\x85b",
        "c\u2028d",
        "",
        "e",
    ]


def test_duplicate_lines_warn_and_the_last_counts(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="more than once, such as 'love' as number 6"):
        tokenizer = BertTokenizer.from_pretrained(write_vocabulary(tmp_path, [*WORDS, "love"]))
    assert tokenizer.encode("love", add_special_tokens=False) == [15]
    tokenizer.add_tokens("new")
    assert tokenizer.convert_tokens_to_ids("new") == 16  # an unused id


# --- added tokens


def test_special_tokens_in_the_text(tokenizer: BertTokenizer) -> None:
    assert tokenizer.tokenize("i [MASK] korea[SEP]") == ["i", "[MASK]", "korea", "[SEP]"]
    assert tokenizer.tokenize("[mask]")[0] == "[UNK]"  # the case must match
    # The mask is 0 for special tokens that are in the text.
    assert tokenizer("[MASK]").encodings[0].special_tokens_mask == [1, 0, 1]


def test_add_tokens(tokenizer: BertTokenizer) -> None:
    assert tokenizer.add_tokens(["Seoul", "paint"]) == 2
    assert len(tokenizer) == 16 and tokenizer.vocab_size == 15
    assert tokenizer.tokenize("I love SEOULpaintings") == ["i", "love", "seoul", "paint", "[UNK]"]
    assert tokenizer.add_tokens("Seoul") == 0
    special_tokens = {"additional_special_tokens": ["<name>"], "mask_token": "<mask>"}
    assert tokenizer.add_special_tokens(special_tokens) == 2
    assert tokenizer.mask_token == "<mask>" and tokenizer.mask_token_id == 16
    assert tokenizer.all_special_tokens[-1] == "<name>" and tokenizer.all_special_ids[-1] == 17
    row = tokenizer("i <name> <NAME>", add_special_tokens=False)["input_ids"]
    assert row[:2] == [I, 17] and row[2:] == [UNK] * 3  # the case must match
    assert tokenizer.decode(row, skip_special_tokens=True) == "i"
    with pytest.raises(ValueError, match="'masc_token' .*bos_token, "):
        tokenizer.add_special_tokens({"masc_token": "x"})
    assert tokenizer.added_tokens_decoder[15] == AddedToken("Seoul")


# --- cache, threads, pickles


def test_threads_add_tokens_while_others_decode(tokenizer: BertTokenizer) -> None:
    """Every token gets its own id, and readers see the vocabulary before or after an addition."""
    words = [[f"w{thread}x{number}" for number in range(30)] for thread in range(4)]
    before, switch = len(tokenizer), sys.getswitchinterval()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            assert tokenizer.decode([I, UNK], skip_special_tokens=True) == "i"
            batch = tokenizer("i love w1x1 w0x29", return_offsets_mapping=True)
            assert tokenizer.convert_tokens_to_ids(batch.tokens()) == batch["input_ids"]
            vocabulary = tokenizer.get_vocab()
            assert tokenizer.mask_token_id != UNK
            assert len(set(vocabulary.values())) == len(vocabulary)

    def add(words_of_thread: list[str]) -> None:
        for word in words_of_thread[::3]:
            tokenizer.add_tokens(word)
        for word in words_of_thread[1::3]:
            tokenizer.add_special_tokens(
                {"extra_special_tokens": [word]}, replace_extra_special_tokens=False
            )
        for word in words_of_thread[2::3]:
            tokenizer.add_special_tokens({"mask_token": word})

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            readers = [threads.submit(read) for _ in range(4)]
            try:
                list(threads.map(add, words))
            finally:
                done.set()  # the readers would go on after an error
            for reader in readers:
                reader.result()
    finally:
        sys.setswitchinterval(switch)
    ids = tokenizer.convert_tokens_to_ids([*chain.from_iterable(words)])
    assert sorted(ids) == list(range(before, before + 120))
    extra = chain.from_iterable(words_of_thread[1::3] for words_of_thread in words)
    assert set(tokenizer.extra_special_tokens) == set(extra)


def test_token_origins_do_not_depend_on_later_additions(tokenizer: BertTokenizer) -> None:
    batch = tokenizer("paintings")
    tokenizer.add_tokens("ting")
    assert tokenizer.convert_tokens_to_ids(batch.tokens()) == batch["input_ids"]
    assert batch["input_ids"] != tokenizer("paintings").input_ids


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkCache, "MAX_ENTRIES", 10)
    tokenizer = BertTokenizer(WORDS)
    for number in range(35):
        assert tokenizer.encode(f"e{number} i")[-2] == I
        assert 0 < len(tokenizer._pipeline.ids_of_chunk) <= 10
    tokenizer.encode("e" * (ChunkCache.MAX_CHUNK + 1))
    assert max(map(len, tokenizer._pipeline.ids_of_chunk)) <= ChunkCache.MAX_CHUNK


def test_threads_share_a_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkCache, "MAX_ENTRIES", 50)  # so small that it is emptied constantly
    texts = [f"paint{n}ings é{n % 7} i love{'e' * (n % 60)}" for n in range(400)]
    expected = BertTokenizer(WORDS)(texts)
    tokenizer, results = BertTokenizer(WORDS), []
    threads = [
        threading.Thread(target=lambda: results.append(tokenizer(texts) == expected))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


def test_pickles_do_not_contain_the_cache(tokenizer: BertTokenizer) -> None:
    tokenizer.add_tokens(["Seoul"])
    before = len(pickle.dumps(tokenizer))
    texts = ["I love SEOUL, paintings [MASK]"] + [f"e{n}" for n in range(500)]
    expected = tokenizer(texts)
    assert len(pickle.dumps(tokenizer)) == before
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again(texts) == expected and again(texts[0]).word_ids() == tokenizer(texts[0]).word_ids()


def test_the_garbage_collector_is_enabled_after_an_error(tokenizer: BertTokenizer) -> None:
    import gc

    assert gc.isenabled()
    with pytest.raises(ValueError, match="surrogate"):
        tokenizer("\ud800")
    assert gc.isenabled()


# --- files


def test_arguments_take_precedence_over_files(tmp_path: Path) -> None:
    write_vocabulary(
        tmp_path, tokenizer_config={"do_lower_case": False, "model_max_length": 9, "unknown": 1}
    )
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    assert not tokenizer.do_lower_case
    assert tokenizer.model_max_length == 9
    assert tokenizer.encode("I")[1] == UNK
    tokenizer = BertTokenizer.from_pretrained(
        tmp_path, do_lower_case=True, model_max_length=5, mask_token="e"
    )
    assert tokenizer.encode("I")[1] == I
    assert tokenizer.model_max_length == 5
    assert tokenizer.mask_token == "e"
    assert BertTokenizer.from_pretrained(tmp_path / "vocab.txt").model_max_length == int(1e30)


def test_save_and_load(tmp_path: Path) -> None:
    tokenizer = BertTokenizer(
        WORDS, model_max_length=12, padding_side="left", extra_special_tokens=["<a>"]
    )
    tokenizer.add_tokens([AddedToken("<b>", lstrip=True), "Seoul"])
    paths = tokenizer.save_pretrained(tmp_path / "new" / "folder")
    assert [Path(path).name for path in paths] == [
        "vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json",
    ]  # fmt: skip
    again = BertTokenizer.from_pretrained(tmp_path / "new" / "folder")
    same = {
        name: value
        for name, value in vars(tokenizer).items()
        if not name.startswith("_") and name != "name_or_path"
    }
    assert same == {name: vars(again)[name] for name in same}
    assert again.added_tokens_decoder == tokenizer.added_tokens_decoder
    assert again("i <a>  <b> SEOUL") == tokenizer("i <a>  <b> SEOUL")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(
        Path(path).name for path in paths
    )


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"tokenizer_config.json": "{"}, ValueError, "tokenizer_config.json is not JSON"),
        (
            {"tokenizer_config.json": '{"tokenizer_class": "T5Tokenizer"}'},
            ValueError,
            "for the tokenizer T5Tokenizer",
        ),
        ({"tokenizer.json": "[]"}, ValueError, "tokenizer.json should hold a JSON object"),
        (
            {"tokenizer.json": '{"model": {"type": "BPE"}}'},
            ValueError,
            "is not BERT's tokenizer.json: its model is 'BPE'",
        ),
        ({"vocab.txt": "[UNK]\n\udcff"}, ValueError, "vocab.txt is not UTF-8"),
        ({"vocab.txt": None}, FileNotFoundError, "holds no tokenizer.json or vocab.txt"),
    ],
)
def test_broken_files(
    tmp_path: Path, files: dict[str, str | None], error: type[Exception], message: str
) -> None:
    write_vocabulary(tmp_path)
    for name, content in files.items():
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_text(content, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(error, match=message):
        BertTokenizer.from_pretrained(tmp_path)


def test_a_missing_file_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Cannot read the vocabulary .*nowhere.txt"):
        BertTokenizer(tmp_path / "nowhere.txt")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        BertTokenizer.from_pretrained(tmp_path / "nowhere")


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), max_size=5)
)
def test_any_added_token_is_found(contents: list[str]) -> None:
    tokenizer = BertTokenizer(WORDS)
    tokenizer.add_tokens([AddedToken(content, special=True) for content in contents])
    for content in contents:
        assert tokenizer.encode(content, add_special_tokens=False) == [
            tokenizer.convert_tokens_to_ids(content)
        ]


def test_a_string_is_not_a_list_of_special_tokens(tokenizer: BertTokenizer) -> None:
    for call in (
        lambda: BertTokenizer(WORDS, extra_special_tokens="<x>"),
        lambda: BertTokenizer(WORDS).add_special_tokens({"additional_special_tokens": "<x>"}),
    ):
        with pytest.raises(
            ValueError, match="(extra|additional)_special_tokens should be a list, not '<x>'"
        ):
            call()


@pytest.mark.parametrize(
    "tokens", [["<a>"], iter(["<a>"]), {"name": "<a>"}], ids=["list", "iterator", "by name"]
)
def test_extra_special_tokens_can_be_passed_in_three_ways(tokens: Any) -> None:
    tokenizer = BertTokenizer(WORDS)
    assert tokenizer.add_special_tokens({"extra_special_tokens": tokens}) == 1
    assert tokenizer.extra_special_tokens == ["<a>"] and "<a>" in tokenizer.get_vocab()


def test_slices_single_ids_and_positional_options(tokenizer: BertTokenizer) -> None:
    batch = tokenizer(["hello", "world"])
    assert batch[:1] == [batch[0]]
    token = tokenizer.convert_ids_to_tokens(tokenizer.cls_token_id, skip_special_tokens=True)
    assert token == tokenizer.cls_token
    special = [tokenizer.cls_token_id, tokenizer.sep_token_id]
    assert tokenizer.batch_decode([special, special], True) == ["", ""]
    with pytest.raises(ValueError, match="text is a ndarray. Pass a str"):
        tokenizer(np.array(["hello", "world"]))


FILES = ("tokenizer_config.json", "tokenizer.json", "special_tokens_map.json", "added_tokens.json")
JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "[CLS]",
    [],
    ["x"],
    {},
    {"a": 1},
]
JUNK += [[[1]], {"content": "q"}, [{"content": "q"}], "false"]


@pytest.mark.filterwarnings("ignore")  # odd values may also give warnings
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_files_give_a_tokenizer_or_a_clear_error(data: st.DataObject, tmp_path: Path) -> None:
    """One value at any depth of one file is replaced, and other files may be missing."""
    BertTokenizer(WORDS).save_pretrained(tmp_path)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[X]": len(WORDS)}), encoding="utf-8")
    name = data.draw(st.sampled_from(FILES))
    for other in data.draw(st.sets(st.sampled_from(FILES))) - {name}:
        (tmp_path / other).unlink()
    root = parent = {"whole": json.loads((tmp_path / name).read_text(encoding="utf-8"))}
    key: Any = "whole"
    while isinstance(parent[key], dict | list) and parent[key] and data.draw(st.integers(0, 4)):
        parent = parent[key]
        keys = sorted(parent) if isinstance(parent, dict) else range(len(parent))
        key = data.draw(st.sampled_from(keys))
    parent[key] = data.draw(st.sampled_from(JUNK))
    (tmp_path / name).write_text(json.dumps(root["whole"]), encoding="utf-8")
    try:
        tokenizer = BertTokenizer.from_pretrained(tmp_path)
    except ValueError as error:
        assert str(error)
        return
    ids = tokenizer("hello [MASK] [X] wörld q x")["input_ids"]
    assert all(isinstance(number, int) for number in ids)
    tokenizer.decode(ids, skip_special_tokens=True)
    tokenizer.save_pretrained(tmp_path / "again")


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json", "tokenizer_config.json"])
def test_files_that_are_too_large_raise_an_error(tmp_path: Path, name: str) -> None:
    """The limits are on the bytes of each file, and on the lines of a vocabulary."""
    BertTokenizer(WORDS).save_pretrained(tmp_path)
    with (tmp_path / name).open("r+b") as file:
        file.truncate(100_000_000)
    if name == "vocab.txt":
        (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(
        ValueError, match=f"{name} has 100,000,000 bytes, too many for .* at most 1,000,000"
    ):
        BertTokenizer.from_pretrained(tmp_path)
    (tmp_path / "many.txt").write_text("[UNK]\n" * 1_000_001, encoding="utf-8")
    with pytest.raises(ValueError, match="many.txt has 1,000,001 lines, .*at most 1,000,000"):
        BertTokenizer.from_pretrained(tmp_path / "many.txt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "tokenizer_config.json",
            '{"mask_token": ["[MASK]"]}',
            r"tokenizer_config.json: A token is a string .* \['\[MASK",
        ),
        (
            "tokenizer_config.json",
            '{"model_max_length": 1%s}' % ("0" * 5000),
            "tokenizer_config.json is not JSON .*4300",
        ),
        (
            "tokenizer_config.json",
            '{"model_max_length": "x"}',
            "model_max_length should be a number of tokens, not 'x'",
        ),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"%s": "a"}}' % ("1" * 5000),
            "config.json: added_tokens_d",
        ),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"99999999999": "a"}}',
            "Ids should be whole numbers from 0",
        ),
        (
            "special_tokens_map.json",
            '{"cls_token": [1]}',
            "special_tokens_map.json: A token is a string",
        ),
        (
            "added_tokens.json",
            '{"a": -1}',
            "added_tokens.json: Ids should be whole numbers from 0 to 999999, not -1",
        ),
    ],
)
def test_errors_name_the_file(tmp_path: Path, name: str, content: str, message: str) -> None:
    write_vocabulary(tmp_path)
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        BertTokenizer.from_pretrained(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_special_token_stays_special(tmp_path: Path) -> None:
    """As in the reference: what it is added for again are its other flags."""
    tokenizer = BertTokenizer(
        "[PAD] [UNK] [CLS] [SEP] [MASK] a".split(), extra_special_tokens=["<name>"]
    )
    tokenizer.add_tokens(["<name>", AddedToken("[MASK]", lstrip=True)])
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, BertTokenizer.from_pretrained(tmp_path)):
        ids = each("a <name> [MASK] a")["input_ids"]
        assert each.decode(ids, skip_special_tokens=True) == "a a"
        assert each.added_tokens_decoder[each.mask_token_id].lstrip


def test_an_empty_added_token_is_ignored(tmp_path: Path) -> None:
    write_vocabulary(tmp_path, tokenizer_config={"added_tokens_decoder": {"5": {"content": ""}}})
    assert BertTokenizer.from_pretrained(tmp_path).encode("i") == BertTokenizer(WORDS).encode("i")


def test_two_tokens_never_share_an_id(tmp_path: Path) -> None:
    """vocab.txt lacks [CLS], and the config gives [CLS] the id that [SEP] now has."""
    words = [*WORDS[:2], *WORDS[3:], *(f"w{n}" for n in range(52))]
    decoder = {
        str(number): {"content": token, "special": True} for number, token in enumerate(WORDS[:5])
    }
    write_vocabulary(tmp_path, words, tokenizer_config={"added_tokens_decoder": decoder})
    with pytest.warns(
        UserWarning,
        match=r"'\[CLS\]' should have the id 2, .*'\[SEP\]'.* 66",
    ):
        tokenizer = BertTokenizer.from_pretrained(tmp_path)
    assert tokenizer("i")["input_ids"] == [66, 4, 2]
    assert tokenizer.convert_ids_to_tokens([2, 66]) == ["[SEP]", "[CLS]"]


# --- vocabularies with unused ids


def test_resized_embeddings_have_a_row_for_unused_ids(tmp_path: Path) -> None:
    """Blank lines of a vocabulary have ids that no token uses."""
    write_vocabulary(tmp_path, [*WORDS[:7], "", "", *WORDS[7:]])
    tokenizer = BertTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == tokenizer.embedding_rows == 17
    tokenizer.add_tokens("Seoul")
    assert tokenizer.convert_tokens_to_ids("Seoul") == 17
    assert len(tokenizer) == 18
    model = minibert.BertModel(tiny_config(vocab_size=17, num_hidden_layers=1))
    last_word = model.get_input_embeddings().weight[16].clone()
    model.resize_token_embeddings(len(tokenizer))
    assert torch.equal(model.get_input_embeddings().weight[16], last_word)
    model(**tokenizer(f"{WORDS[-1]} Seoul", return_tensors="pt"))


# --- names of transformers


def test_tokenize_takes_options(tokenizer: BertTokenizer) -> None:
    assert tokenizer.tokenize("i love korea", truncation=True, max_length=2) == ["i", "love"]
    assert tokenizer.tokenize(["i", "paintings"], is_split_into_words=True) == [
        "i", "paint", "##ing", "##s",
    ]  # fmt: skip
    for texts in (["i", "love"], ("i",), None):
        with pytest.raises(ValueError, match="takes a single text, but got .*pass is_split_into"):
            tokenizer.tokenize(texts)


def test_a_row_has_the_methods_of_its_batch(tokenizer: BertTokenizer) -> None:
    batch = tokenizer(["i love", "i"], ["paintings", "e"])
    for index, row in enumerate(batch.encodings):
        assert row.words == row.word_ids == batch.word_ids(index)
        assert len(row) == len(batch["input_ids"][index]) and row.n_sequences == 2
        for char in range(9):
            for sequence in (0, 1):
                assert row.char_to_token(char, sequence) == batch.char_to_token(
                    index, char, sequence
                )
                assert row.char_to_word(char, sequence) == batch.char_to_word(index, char, sequence)
        for token in range(len(row)):
            assert row.token_to_chars(token) == batch.token_to_chars(index, token)
            assert row.token_to_word(token) == batch.token_to_word(index, token)
            assert row.token_to_sequence(token) == batch.token_to_sequence(index, token)


def test_tokenizer_file(tmp_path: Path, tokenizer: BertTokenizer) -> None:
    BertTokenizer(WORDS, do_lower_case=False).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    assert BertTokenizer(tokenizer_file=path)("I love") == {
        "input_ids": [CLS, UNK, LOVE, SEP], "token_type_ids": [0] * 4, "attention_mask": [1] * 4,
    }  # fmt: skip
    assert BertTokenizer(tokenizer_file=path, do_lower_case=True)("I") == tokenizer("I")
    with pytest.raises(ValueError, match="either vocab or tokenizer_file, not both"):
        BertTokenizer(WORDS, tokenizer_file=path)
    with pytest.raises(AttributeError, match=r"has no vocab_file.*Call save_vocabulary\(folder\)"):
        _ = tokenizer.vocab_file


def test_spaces_between_special_tokens_has_no_effect(tokenizer: BertTokenizer) -> None:
    """Fast tokenizers of transformers ignore the option, too."""
    for value in (None, True, False):
        text = tokenizer.decode([CLS, I, SEP], spaces_between_special_tokens=value)
        assert text == "[CLS] i [SEP]"


def test_a_notebook_shows_what_a_tokenizer_is() -> None:
    tokenizer = BertTokenizer.from_pretrained("minibert-tiny")
    assert repr(tokenizer) == (
        "BertTokenizer(vocab_size=30522, model_max_length=512, do_lower_case=True)"
    )
