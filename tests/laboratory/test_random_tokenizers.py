"""Random texts, vocabularies and options beside the tokenizer of transformers."""

from __future__ import annotations

import functools
import importlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from programs import Failure, compare, outcome, programs

import minibert
from minibert.tokenization.added import AddedToken

transformers = importlib.import_module("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
ADDED = {minibert: AddedToken, transformers: transformers.AddedToken}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = list("abcdeé한글木1!,-") + ["##" + x for x in "abcd1é글"] + ["ab", "##cd", "İ", "Café"]
texts = st.lists(
    st.sampled_from(
        [*"abcdABé한글木1!,-", " ", "  ", "\t", "\n", "\u00a0", "\u200b", "\ufffd", "e\u0301", "\0"]
        + ["[MASK]", "[SEP]", "<new>", "İ", "ß", "ﬁ", "Ａ", "🙂", "한", "Café", "ab", "cd"]
    ),
    max_size=12,
).map("".join)
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
calls = st.fixed_dictionaries(
    {
        "pair": st.booleans(),
        "do_lower_case": st.booleans(),
        "strip_accents": st.sampled_from([None, True, False]),
        "tokenize_chinese_chars": st.booleans(),
        "add_special_tokens": st.booleans(),
        "padding": st.sampled_from([False, True, "max_length"]),
        "truncation": st.sampled_from([False, True, "only_first"]),
        "max_length": st.sampled_from([None, 6, 9]),
        "side": st.sampled_from(["right", "left"]),
        "new": st.lists(
            st.fixed_dictionaries(
                {
                    "content": st.sampled_from(["<new>", "ab", "Ab", "é", "x y", "글", "[MASK]"]),
                    "special": st.booleans(),
                    **dict.fromkeys(FLAGS, st.sampled_from([False, False, True])),
                }
            ),
            max_size=2,
            # twice, or twice in lower case: known differences
            unique_by=lambda new: new["content"].lower(),
        ),
        "named": st.none()
        | st.tuples(
            st.sampled_from(["sep_token", "cls_token", "mask_token", "pad_token"]),
            st.sampled_from(["<new>", "ab", "a", "[MASK]", "[SEP]"]),
            st.booleans(),
        ),
        "reload": st.booleans(),
    }
)


def encode(library: Any, vocabulary: list[str], batch: list[Any], call: dict[str, Any]) -> Any:
    """Everything that a call of the tokenizer returns."""
    names = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vocab.txt")
        path.write_text("\n".join([*SPECIAL, *vocabulary]) + "\n", encoding="utf-8")
        options = {name: call[name] for name in names}
        tokenizer = library.BertTokenizer.from_pretrained(folder, **options)
        for new in call["new"]:
            flags = {name: new[name] for name in FLAGS}
            if new["special"] or new["content"] in SPECIAL:
                flags["normalized"] = False  # otherwise a known difference where it is decoded
            # A former [MASK] that became an ordinary token: a known difference in saved files.
            is_former = new["content"] in SPECIAL and call["named"] and call["reload"]
            is_special = new["special"] or bool(is_former)
            tokenizer.add_tokens(ADDED[library](new["content"], **flags), is_special)
        if call["named"]:
            name, token, is_assigned = call["named"]
            if is_assigned and token in tokenizer.get_vocab():
                setattr(tokenizer, name, token)
            else:
                tokenizer.add_special_tokens({name: token})
        # Rows of transformers keep the former [CLS] and [SEP] until then: a known difference.
        renamed = call["named"] and call["named"][0] in ("cls_token", "sep_token")
        if call["reload"] or renamed:
            tokenizer.save_pretrained(f"{folder}/saved")
            tokenizer = library.BertTokenizer.from_pretrained(f"{folder}/saved")
    # After saving: transformers forgets sides that were assigned, and minibert saves them.
    tokenizer.padding_side = tokenizer.truncation_side = call["side"]
    encoded = tokenizer(
        batch,
        add_special_tokens=call["add_special_tokens"],
        padding=call["padding"],
        truncation=call["truncation"],
        max_length=call["max_length"],
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    values = {name: encoded[name] for name in sorted(encoded.keys())}
    values["offset_mapping"] = [[tuple(x) for x in row] for row in values["offset_mapping"]]
    rows = range(len(batch))
    values["word_ids"] = [encoded.word_ids(row) for row in rows]
    values["decoded"] = [
        tokenizer.decode(row, skip_special_tokens=skip)
        for row in values["input_ids"]
        for skip in (True, False)
    ]
    return values


@programs(
    "tokenizers",
    share=0.5,
    quick=15,
    vocabulary=st.lists(st.sampled_from(PIECES), unique=True, min_size=3),
    batch=st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
    call=calls,
)
def test_texts(vocabulary: list[str], batch: list[tuple[str, str]], call: dict[str, Any]) -> None:
    inputs: list[Any] = list(batch) if call["pair"] else [first for first, _ in batch]
    if call["max_length"] is None and call["padding"] == "max_length":
        call = {**call, "padding": True}  # to 1e30 otherwise
    compare(
        lambda: encode(minibert, vocabulary, inputs, call),
        lambda: encode(transformers, vocabulary, inputs, call),
    )


LEFT_OR_RIGHT = st.sampled_from(["left", "right"])
made = st.fixed_dictionaries(
    {},
    optional={
        "do_lower_case": st.booleans(),
        "clean_up_tokenization_spaces": st.booleans(),
        "padding_side": LEFT_OR_RIGHT,
        "truncation_side": LEFT_OR_RIGHT,
        "model_max_length": st.sampled_from([8, 20]),
        "model_input_names": st.sampled_from([["input_ids"], ["input_ids", "attention_mask"]]),
        "extra_special_tokens": st.just(["<new>"]),
        "bos_token": st.just("<new>"),
    },
)
ways = st.fixed_dictionaries(
    {},
    optional={
        "padding": st.sampled_from([True, False, "longest", "max_length", "do_not_pad"]),
        "truncation": st.sampled_from(
            [True, False, "only_first", "only_second", "longest_first", "do_not_truncate", "x"]
        ),
        "max_length": st.sampled_from([6, 8, 12, 30]),
        "stride": st.integers(0, 3),
        "return_overflowing_tokens": st.booleans(),
        "pad_to_multiple_of": st.sampled_from([1, 4, 8]),
        "padding_side": LEFT_OR_RIGHT,
        "return_tensors": st.sampled_from(["pt", "np"]),
        "return_length": st.booleans(),
        "return_offsets_mapping": st.booleans(),
        "return_special_tokens_mask": st.booleans(),
        "return_token_type_ids": st.booleans(),
        "return_attention_mask": st.booleans(),
        "add_special_tokens": st.booleans(),
    },
)
words = st.lists(texts, max_size=4)


def places(method: Any, row: int, count: int) -> list[Any]:
    """What a method answers for each of the first tokens, characters or words of a row."""
    answers = [outcome(functools.partial(method, row, number)) for number in range(count)]
    return [
        "raises" if isinstance(x, Failure) else tuple(x) if isinstance(x, tuple) else x
        for x in answers
    ]


def rows_of(
    library: Any, vocabulary: list[str], made: dict[str, Any], inputs: Any, options: dict[str, Any]
) -> Any:
    """The rows of a call, the places of their tokens, and what other methods make of them."""
    tokens = {token: number for number, token in enumerate([*SPECIAL, *vocabulary])}
    tokenizer = library.BertTokenizer(vocab=tokens, **made)
    try:
        encoded = tokenizer(*inputs, **options)
    except BaseException as error:  # a panic of Rust, which is no Exception
        raise RuntimeError("the call failed") from error
    values = {
        name: [str(x.dtype), x.tolist()] if hasattr(x, "tolist") else x
        for name, x in sorted(encoded.items())
    }
    for row in range(min(len(encoded.encodings), 3)):
        tokens_of_row = encoded.word_ids(row)
        values[f"row {row}"] = [
            tokens_of_row,
            encoded.sequence_ids(row),
            *places(encoded.token_to_chars, row, len(tokens_of_row)),
            *places(encoded.token_to_word, row, len(tokens_of_row)),
            *places(encoded.char_to_token, row, 4),
            *places(encoded.char_to_word, row, 4),
            *places(encoded.word_to_tokens, row, 4),
        ]
    return values


@programs(
    "tokenizers",
    share=0.5,
    quick=15,
    vocabulary=st.lists(st.sampled_from(PIECES), unique=True, min_size=3),
    made=made,
    batch=st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
    split=st.lists(st.tuples(words, words), min_size=1, max_size=3),
    form=st.sampled_from(["text", "texts", "pair", "pairs", "two lists"]),
    is_split=st.booleans(),
    options=ways,
)
def test_rows(
    vocabulary: list[str],
    made: dict[str, Any],
    batch: list[tuple[Any, Any]],
    split: list[tuple[Any, Any]],
    form: str,
    is_split: bool,
    options: dict[str, Any],
) -> None:
    if is_split:
        batch, options = split, {**options, "is_split_into_words": True}
    if options.get("padding") == "max_length":  # to 1e30 otherwise
        options = {"max_length": 12, **options}
    if "return_tensors" in options:  # rows of different lengths are no tensor, a known difference
        options = {**options, "padding": True}
    first, second = batch[0]
    if form == "pair" and not any(second):  # drops the second [SEP] there, a known difference
        form = "text"
    inputs: Any = {
        "text": (first,),
        "texts": ([first for first, _ in batch],),
        "pair": (first, second),
        "pairs": (batch,),
        "two lists": ([first for first, _ in batch], [second for _, second in batch]),
    }[form]
    compare(
        lambda: rows_of(minibert, vocabulary, made, inputs, options),
        lambda: rows_of(transformers, vocabulary, made, inputs, options),
    )
