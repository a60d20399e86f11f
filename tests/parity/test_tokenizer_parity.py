"""Ids, type ids, masks, offsets and words equal those of transformers' BertTokenizer.

The texts are real ones and all of Unicode. `test_known_differences` shows and explains where
minibert differs on purpose.
"""

from __future__ import annotations

import csv
import functools
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from code_points import blocks, characters
from conftest import CHECKOUT, sample_sentences, shared_data
from hypothesis import assume, given, settings, strategies as st
from transformers import AddedToken as TheirToken, BertTokenizer as Theirs

from minibert.tokenization.added import AddedToken
from minibert.tokenization.basic import BasicTokenizer, split_words
from minibert.tokenization.tokenizer import BertTokenizer

ADDED = [
    AddedToken("<name>", special=True),
    AddedToken("<left>", lstrip=True, normalized=False),
    AddedToken("<both>", lstrip=True, rstrip=True, special=True),
    AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("one", single_word=True, normalized=False),
]
NORMALIZED = [AddedToken("Foo Bar"), AddedToken("<Left>", lstrip=True), AddedToken("漢É")]
ALL = {"return_offsets_mapping": True, "return_special_tokens_mask": True, "return_length": True}

transformers.logging.set_verbosity_error()


@functools.cache
def both(path: str, added: str = "", **options: Any) -> tuple[BertTokenizer, Any]:
    """The tokenizers of minibert and transformers from one folder, optionally with added tokens."""
    ours, theirs = (
        BertTokenizer.from_pretrained(path, **options),
        Theirs.from_pretrained(path, **options),
    )
    for token in {"": [], "raw": ADDED, "normalized": ADDED + NORMALIZED}[added]:
        ours.add_tokens(token)
        theirs.add_tokens(TheirToken(**asdict(token)))
    return ours, theirs


@pytest.fixture(params=["minilm", "korean"])
def folder(request: pytest.FixtureRequest, minilm: str) -> str:
    """An uncased vocabulary and a cased one: KcBERT's, or the bundled one where that is missing."""
    if request.param == "minilm":
        return minilm
    kcbert = CHECKOUT.parent / "shared" / "data" / "kcbert-base"
    bundled = CHECKOUT / "minibert" / "models" / "minibert-ko"
    return str(kcbert if kcbert.exists() else bundled)


def assert_equal(ours: Any, theirs: Any) -> None:
    """Assert that two batches of lists and the origins of their tokens are equal."""
    assert list(ours) == list(theirs)
    for name in theirs:
        assert ours[name] == theirs[name], name
    for name in ("word_ids", "sequence_ids"):
        mine, yours = ([getattr(row, name) for row in batch.encodings] for batch in (ours, theirs))
        assert mine == yours, name


def sentences(name: str) -> list[list[str]]:
    """The sentence columns of a data set, without duplicate rows."""
    if name == "sample":
        return [sum(sample_sentences(), [])]
    columns = {"sst2": [0], "stsb": [5, 6], "korsts": [5, 6]}[name]
    rows: dict[tuple[str, ...], None] = {}
    for path in sorted(shared_data("data", name).glob("*.?sv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                rows[tuple(row[column] for column in columns)] = None
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("rows", [300, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["sample", "sst2", "stsb", "korsts"])
def test_real_text(folder: str, name: str, rows: int | None) -> None:
    ours, theirs = both(folder)
    texts = [column[:rows] for column in sentences(name)]
    if rows is None and name != "sample":
        assert len(texts[0]) > 7000
    ids = ours(*texts)["input_ids"]
    assert_equal(ours(*texts, **ALL), reference := theirs(*texts, **ALL))
    assert ids == reference["input_ids"]  # also on the path without offsets


# --- all of Unicode


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_every_code_point(step: int) -> None:
    """Each character is normalized and split as in the tokenizers library.

    It stands between letters and among combining marks. The default run takes one block in sixteen
    where all characters are of one kind.
    """
    ours = BasicTokenizer()
    normalizer, splitter = (
        tokenizers.normalizers.BertNormalizer(),
        tokenizers.pre_tokenizers.BertPreTokenizer(),
    )
    for first in blocks(step):
        chars = characters(first)
        # there are no marks beyond plane 1, and only tags and private use beyond plane 3
        contexts = ["a{}b", "\u0345{}\u0301\u0323\u302e"]
        if first >= 0x40000:
            contexts = ["{}"]
        elif first >= 0x20000:
            contexts = ["a{}b"]
        text = " ".join(context.format(char) for char in chars for context in contexts)
        normalized, _ = ours.normalize(text)
        words = [normalized[start:end] for start, end in split_words(normalized)]
        assert words == [
            word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
        ], hex(first)


# typical of real text and of bugs: scripts, marks that reorder, emoji, tokens, and characters that
# are removed or count as white space
ALPHABETS = [
    "abcxyz AI,.!?$^`~'-_#@",
    "éàÜñçß İıſΣςΑΩК",
    "가각한국어힣 ㄱㅏ\u1100\u1161\u11a8",
    "漢字かなカナ㐀𠀀﨎",
    "\u0301\u0323\u302e\u0345\u0f71\u0f72\u0f73\u3099\u08d4\u0898\u0344\u0f77",
    "\x00\x01\x0b\x0c\x1c\x1d\x1e\x1f\x85\t\n\r \xa0"
    "\u2003\u2028\u3000\u200b\u200d\ufeff\ufffd\u180e\U000e0001\ue000",
    "😀👩\u200d🧑🏽🇰🇷❤\ufe0f",
    "שלום مرحبا ا\u0651\u202e",
]
WORDS = [
    "[MASK]", " [SEP] ", "[mask]", "[[CLS]", "<name>", " <left>", "<right> \x1c",
    "\u3000<both>\x85", "one", "One", "_one", "Foo Bar", "foo  bar", "fOÓ\u0301 BAR", " <LEFT>",
    "漢É", "漢e\u0301",
    "unaffable", "##ing", "a" * 100, "a" * 101, "é" * 60, "안녕하세요", "하이!", "\u0301",
    "e\u0301\u0323", "don't", "U.S.A.", "$3.50", "http://a.b/c?d=e&f",
]  # fmt: skip


def any_texts() -> st.SearchStrategy[list[str]]:
    """Batches of texts."""
    parts = st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        *(st.text(alphabet, max_size=6) for alphabet in ALPHABETS),
        st.sampled_from(WORDS),
        st.just(" "),
    )
    return st.lists(st.lists(parts, max_size=8).map("".join), min_size=1, max_size=12)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"do_lower_case": False},
    {"do_lower_case": True},
    {"strip_accents": False, "do_lower_case": True},
    {"strip_accents": True, "do_lower_case": False},
    {"tokenize_chinese_chars": False},
    {"added": "raw"},
    {"added": "normalized"},
]


@pytest.mark.filterwarnings("ignore:.*can never be found")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_text(folder: str, options: dict[str, Any]) -> None:
    ours, theirs = both(folder, **options)

    @given(any_texts())
    def check(batch: list[str]) -> None:
        assert_equal(ours(batch, **ALL), reference := theirs(batch, **ALL))
        assert ours(batch)["input_ids"] == reference["input_ids"]  # the path without offsets
        assert ours(batch)["input_ids"] == reference["input_ids"]  # and from the cache
        for how in ({}, {"skip_special_tokens": True}, {"clean_up_tokenization_spaces": True}):
            ids = reference["input_ids"]
            assert ours.batch_decode(ids, **how) == theirs.batch_decode(ids, **how)

    check()


# --- options


@settings(max_examples=3 * settings.default.max_examples)
@given(
    first=st.lists(
        st.lists(st.sampled_from(["a", "paintings", "unaffable", "[MASK]", "!", "세계"])),
        min_size=1,
        max_size=4,
    ),
    second=st.lists(
        st.lists(st.sampled_from(["b", "the", "believable", "漢字"]), max_size=12),
        min_size=4,
        max_size=4,
    ),
    pair=st.booleans(),
    words=st.booleans(),
    options=st.fixed_dictionaries(
        {},
        optional={
            "padding": st.sampled_from([True, False, "longest", "max_length", "do_not_pad"]),
            "truncation": st.sampled_from(
                [True, False, "longest_first", "only_first", "only_second", "do_not_truncate"]
            ),
            # with 4, one text of a pair has no room: test_known_differences
            "max_length": st.integers(5, 24),
            "stride": st.integers(0, 3),
            "pad_to_multiple_of": st.sampled_from([1, 4, 8]),
            "padding_side": st.sampled_from(["right", "left"]),
            "add_special_tokens": st.booleans(),
            "return_overflowing_tokens": st.booleans(),
            "return_token_type_ids": st.booleans(),
            "return_attention_mask": st.booleans(),
        },
    ),
    side=st.sampled_from(["right", "left"]),
)
@pytest.mark.filterwarnings("ignore:.*max_length")
def test_any_options(
    minilm: str,
    first: Any,
    second: Any,
    pair: bool,
    words: bool,
    options: dict[str, Any],
    side: str,
) -> None:
    ours, theirs = both(minilm, truncation_side=side)
    columns = [first, second[: len(first)]] if pair else [first]
    columns = columns if words else [[" ".join(text) for text in column] for column in columns]
    options = {**options, **ALL, "is_split_into_words": words}
    # the reference raises an error for a large stride even if nothing is truncated, or panics
    assume(options.get("stride", 0) < options.get("max_length", 512) - 2)
    try:
        batch = ours(*columns, **options)
    except ValueError as error:
        assume("stride" not in str(error))
        with pytest.raises(Exception, match="Truncation error|not a multiple"):
            theirs(*columns, **options)
    else:
        assert_equal(batch, theirs(*columns, **options))


@pytest.mark.parametrize("tensors", [None, "pt", "np"])
@pytest.mark.parametrize(
    "text", ["", "I love Korea", ["one", "two three"], [["one", "two"], ["three four", "five"]]]
)
def test_shapes(minilm: str, text: Any, tensors: str | None) -> None:
    ours, theirs = both(minilm)
    mine, yours = (
        each(text, padding=True, return_tensors=tensors, **ALL) for each in (ours, theirs)
    )
    assert list(mine) == list(yours)
    for name in yours:
        if tensors is None:
            assert mine[name] == yours[name]
        else:
            assert mine[name].shape == yours[name].shape and str(mine[name].dtype) == str(
                yours[name].dtype
            )
            assert (mine[name] == yours[name]).all()


def test_offsets(minilm: str) -> None:
    ours, theirs = both(minilm)
    first, second = "Unaffable [MASK] paintings, e\u0301\t세계!", "Well — naïve?"
    mine, yours = (
        each([first], [second], padding="max_length", max_length=40) for each in (ours, theirs)
    )
    for token in range(40):
        assert mine.token_to_chars(0, token) == yours.token_to_chars(0, token)
        assert mine.token_to_chars(token) == yours.token_to_chars(token)
    for sequence, text in enumerate((first, second)):
        for char in range(len(text) + 3):
            assert mine.char_to_token(0, char, sequence) == yours.char_to_token(0, char, sequence)
            assert mine.char_to_token(char, sequence_index=sequence) == yours.char_to_token(
                char, sequence_index=sequence
            )
    assert mine.tokens() == yours.tokens() and mine[0].tokens == yours[0].tokens
    assert mine.word_ids() == yours.word_ids() and mine.sequence_ids(0) == yours.sequence_ids(0)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"padding": "max_length", "max_length": 9},
        {"pad_to_multiple_of": 8},
        {"padding_side": "left"},
    ],
)
def test_pad(minilm: str, how: dict[str, Any]) -> None:
    ours, theirs = both(minilm)
    rows = ["I love Korea", "", "Paris"]
    mine, yours = (
        [{**each(row), "labels": n} for n, row in enumerate(rows)] for each in (ours, theirs)
    )
    a, b = ours.pad(mine, return_tensors="pt", **how), theirs.pad(yours, return_tensors="pt", **how)
    assert {name: value.tolist() for name, value in a.items()} == {
        name: value.tolist() for name, value in b.items()
    }
    a, b = ours.pad(ours(rows), **how), theirs.pad(theirs(rows), **how)
    assert dict(a) == dict(b)


def test_vocabulary(folder: str) -> None:
    ours, theirs = both(folder)
    assert ours.get_vocab() == theirs.get_vocab()
    assert (len(ours), ours.vocab_size, ours.model_max_length) == (
        len(theirs),
        theirs.vocab_size,
        theirs.model_max_length,
    )
    for name in (
        "special_tokens_map",
        "all_special_tokens",
        "all_special_ids",
        "padding_side",
        "is_fast",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("unk", "sep", "pad", "cls", "mask"):
        assert getattr(ours, f"{name}_token") == getattr(theirs, f"{name}_token")
        assert getattr(ours, f"{name}_token_id") == getattr(theirs, f"{name}_token_id")
    tokens = ["[CLS]", "the", "##s", "no such token", "하"]
    assert ours.convert_tokens_to_ids(tokens) == theirs.convert_tokens_to_ids(tokens)
    ids = [0, 3, 5000, 2, 101]
    assert ours.convert_ids_to_tokens(
        ids, skip_special_tokens=True
    ) == theirs.convert_ids_to_tokens(ids, skip_special_tokens=True)
    assert ours.convert_ids_to_tokens(7) == theirs.convert_ids_to_tokens(7)
    assert ours.tokenize("Hello, paintings 안녕하세요!") == theirs.tokenize(
        "Hello, paintings 안녕하세요!"
    )
    assert ours.encode("Hello", "you") == theirs.encode("Hello", "you")
    assert ours.num_special_tokens_to_add(True) == theirs.num_special_tokens_to_add(True)


@given(
    ids=st.lists(st.integers(0, 30521), max_size=20),
    skip=st.booleans(),
    clean=st.sampled_from([None, True, False]),
)
def test_decode(minilm: str, ids: list[int], skip: bool, clean: bool | None) -> None:
    ours, theirs = both(minilm)
    assert ours.decode(ids, skip, clean) == theirs.decode(
        ids, skip, clean_up_tokenization_spaces=clean
    )
    tokens = theirs.convert_ids_to_tokens(ids)
    assert ours.convert_tokens_to_string(tokens) == theirs.convert_tokens_to_string(tokens)


# --- files

SMALL = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "b",
    "##b",
    "hello",
    "Hello",
    "é",
    "e",
    "x",
    "<x>",
]
TEXTS = ["a ab Hello hello é [MASK] <x> <y>", "  <new>  <z>b", "[mask]  [MASK] x", "<W>a <w> <X>"]
FLAGS = {
    "lstrip": True,
    "rstrip": False,
    "single_word": False,
    "normalized": False,
    "special": True,
}
FOLDERS: dict[str, dict[str, Any]] = {
    "vocab.txt alone": {},
    "cased": {
        "tokenizer_config.json": {
            "do_lower_case": False,
            "model_max_length": 99,
            "padding_side": "left",
        }
    },
    "accents": {
        "tokenizer_config.json": {"strip_accents": False, "clean_up_tokenization_spaces": True}
    },
    "added_tokens_decoder": {
        "tokenizer_config.json": {
            "added_tokens_decoder": {
                "4": {"content": "[MASK]", **FLAGS},
                "14": {"content": "<new>", **FLAGS},
                "15": {"content": "<w>", **FLAGS, "special": False, "normalized": True},
            },
            "additional_special_tokens": ["<new>"],
            "mask_token": "[MASK]",
        }
    },
    "special_tokens_map": {
        "special_tokens_map.json": {
            "mask_token": {name: flag for name, flag in FLAGS.items() if name != "special"}
            | {"content": "[MASK]"},
            "cls_token": "[CLS]",
            "extra_special_tokens": ["<y>"],
        },
        "added_tokens.json": {"<y>": 14, "<z>": 15},
    },
    "a token whose id is another's": {
        "tokenizer_config.json": {
            "added_tokens_decoder": {
                number: {"content": token, **FLAGS}
                for number, token in {"2": "<cls>", "4": "[MASK]", "13": "<w>"}.items()
            },
            "cls_token": "<cls>",
        },
    },
    "special tokens in the config": {
        "tokenizer_config.json": {
            "mask_token": {"__type": "AddedToken", "content": "[MASK]", **FLAGS},
            "sep_token": "<x>",
        },
    },
}


@pytest.mark.filterwarnings("ignore:.*can never be found", "ignore:.*should have the id")
@pytest.mark.parametrize("files", FOLDERS.values(), ids=list(FOLDERS))
def test_folders(tmp_path: Path, files: dict[str, Any]) -> None:
    tmp_path.joinpath("vocab.txt").write_text("\n".join(SMALL) + "\n", encoding="utf-8")
    for name, content in files.items():
        tmp_path.joinpath(name).write_text(json.dumps(content), encoding="utf-8")
    ours, theirs = BertTokenizer.from_pretrained(tmp_path), Theirs.from_pretrained(tmp_path)
    assert_equal(ours(TEXTS, padding=True, **ALL), reference := theirs(TEXTS, padding=True, **ALL))
    for skip in (False, True):
        ids = reference["input_ids"]
        assert ours.batch_decode(ids, skip_special_tokens=skip) == theirs.batch_decode(
            ids, skip_special_tokens=skip
        )
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.model_max_length == theirs.model_max_length


@pytest.mark.parametrize(
    "flags", [{"lstrip": True}, {"rstrip": True, "normalized": True}, {"single_word": True}]
)
def test_added_tokens_become_special(minilm: str, flags: dict[str, bool], tmp_path: Path) -> None:
    """All three ways to add them agree, also after saving."""
    texts = ["hi <name> there", "hi <NAME> x", "a<mask>b <mask> [MASK]", "<last>"]
    tokenizers = []
    for kind, token in ((BertTokenizer, AddedToken), (Theirs, TheirToken)):
        tokenizer = kind.from_pretrained(minilm)
        tokenizer.add_special_tokens({"extra_special_tokens": [token("<name>", **flags)]})
        tokenizer.add_special_tokens({"mask_token": token("<mask>", **flags)})
        tokenizer.add_tokens([token("<last>", **flags)], special_tokens=True)
        tokenizers.append(tokenizer)
    ours, theirs = tokenizers
    ours.save_pretrained(tmp_path)
    for each in (ours, BertTokenizer.from_pretrained(tmp_path)):
        for text in texts:
            ids = theirs(text)["input_ids"]
            assert each(text)["input_ids"] == ids, text
            for skip in (False, True):
                assert each.decode(ids, skip_special_tokens=skip) == theirs.decode(
                    ids, skip_special_tokens=skip
                )


@pytest.mark.parametrize("added", ["", pytest.param("raw", marks=pytest.mark.slow), "normalized"])
def test_transformers_loads_what_we_save(folder: str, added: str, tmp_path: Path) -> None:
    ours, _ = both(folder, added)
    files = ours.save_pretrained(tmp_path)
    assert sorted(files) == sorted(map(str, tmp_path.iterdir()))
    batch = [*WORDS, " ".join(WORDS)]
    saved = ours(batch, **ALL)
    for load in (
        Theirs.from_pretrained,
        transformers.AutoTokenizer.from_pretrained,
        BertTokenizer.from_pretrained,
    ):
        again = load(tmp_path)
        assert_equal(saved, again(batch, **ALL))
        assert (
            again.model_max_length == ours.model_max_length
            and again.special_tokens_map == ours.special_tokens_map
        )
    (tmp_path / "tokenizer.json").unlink()
    assert_equal(saved, Theirs.from_pretrained(tmp_path)(batch, **ALL))


def test_tokenizer_json_alone(folder: str, tmp_path: Path) -> None:
    ours, _ = both(folder, "raw")
    ours.save_pretrained(tmp_path)
    for path in tmp_path.iterdir():
        if path.name != "tokenizer.json":
            path.unlink()
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for name in (tmp_path, tmp_path / "tokenizer.json"):
        again = BertTokenizer.from_pretrained(name)
        assert again(WORDS)["input_ids"] == [row.ids for row in library.encode_batch(WORDS)]


def test_known_differences(minilm: str, tmp_path: Path) -> None:
    """Where the reference silently loses something, minibert does what a user would expect."""
    ours, theirs = both(minilm)
    # one pair with an empty second text: the tokenizers library keeps its [SEP],
    # and transformers drops the text
    assert theirs("a", "")["input_ids"] == [101, 1037, 102]
    assert (
        ours("a", "")["input_ids"] == theirs(["a"], [""])["input_ids"][0] == [101, 1037, 102, 102]
    )
    # transformers ignores a max_length below the number of special tokens, minibert raises an error
    assert len(theirs("a b c", max_length=1, truncation=True)["input_ids"]) == 5
    with pytest.raises(ValueError, match="max_length is 1, but the special tokens take 2"):
        ours("a b c", max_length=1, truncation=True)
    # for ids outside the vocabulary transformers returns None, and minibert raises an error
    assert theirs.convert_ids_to_tokens(99999) is None
    with pytest.raises(ValueError, match="99999 is not an id of this vocabulary"):
        ours.decode([101, 99999])
    # without room for any text, minibert pads the overflow rows, too, so that they form a tensor
    how = {"max_length": 2, "truncation": True, "padding": True, "return_overflowing_tokens": True}
    assert [len(row) for row in theirs(["a b c"], **how)["input_ids"]] == [2, 5]
    assert [len(row) for row in ours(["a b c"], **how)["input_ids"]] == [5, 5]
    how["max_length"] = 4
    assert [len(row) for row in theirs(["", "a"], ["", "b"], **how)["input_ids"]] == [4, 4, 5]
    assert [len(row) for row in ours(["", "a"], ["", "b"], **how)["input_ids"]] == [5, 5, 5]
    # an added token is reported by its name, without the white space that it strips from the text
    mine, yours = both(minilm, "normalized")
    assert mine("a <LEFT>").tokens()[2] == "<left>" and yours("a <LEFT>").tokens()[2] == " <left>"
    # minibert follows a tokenizer.json that does not lower-case, and transformers' BertTokenizer
    # ignores it
    cased = BertTokenizer(SMALL, do_lower_case=False)
    cased.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "special_tokens_map.json").unlink()
    assert Theirs.from_pretrained(tmp_path).tokenize("Hello") == ["hello"]
    assert BertTokenizer.from_pretrained(tmp_path).tokenize("Hello") == ["Hello"]
