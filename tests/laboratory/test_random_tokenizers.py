"""Random texts, vocabularies and options beside the tokenizer of transformers."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from programs import compare, programs

import minibert
from minibert.tokenization.added import AddedToken

transformers = importlib.import_module("transformers")
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
            unique_by=lambda new: new["content"],  # twice: a known difference
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
