"""The tokenizer in other libraries' tools gives the results of transformers' tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from minibert import BertForMaskedLM, BertTokenizer

pytestmark = pytest.mark.ecosystem
TEXTS = ["I love Korea.", "Unaffable paintings of Paris!", "안녕하세요", ""]


@pytest.fixture
def tokenizers(minilm: str) -> tuple[BertTokenizer, Any]:
    transformers.logging.set_verbosity_error()
    return BertTokenizer.from_pretrained(minilm), transformers.BertTokenizer.from_pretrained(minilm)


def assert_same(ours: Any, theirs: Any) -> None:
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        assert torch.equal(torch.as_tensor(ours[name]), torch.as_tensor(value)), name


@pytest.mark.parametrize(
    "options", [{}, {"whole_word_mask": True}, {"mlm_probability": 0.5, "pad_to_multiple_of": 8}]
)
def test_masked_words(tokenizers: tuple[BertTokenizer, Any], options: dict[str, Any]) -> None:
    batches = []
    longest = max(len(ids) for ids in tokenizers[0](TEXTS)["input_ids"])
    for tokenizer in tokenizers:
        call_options: dict[str, Any] = {"return_special_tokens_mask": True}
        if "whole_word_mask" in options:
            call_options = {"return_offsets_mapping": True}
            if tokenizer is tokenizers[1]:  # its pad() does not pad the offsets
                call_options |= {"padding": "max_length", "max_length": longest}
        collator = transformers.DataCollatorForLanguageModeling(tokenizer, seed=7, **options)
        batches.append(collator([dict(tokenizer(text, **call_options)) for text in TEXTS]))
    assert_same(*batches)
    assert (batches[0]["labels"] != -100).any()


@pytest.mark.parametrize("padding", [True, "max_length"])
def test_padding(tokenizers: tuple[BertTokenizer, Any], padding: Any) -> None:
    batches = []
    for tokenizer in tokenizers:
        rows = [{**tokenizer(text), "label": number} for number, text in enumerate(TEXTS)]
        collator = transformers.DataCollatorWithPadding(
            tokenizer, padding, max_length=20, pad_to_multiple_of=4
        )
        batches.append(collator(rows))
    assert_same(*batches)


def test_tags_and_targets(tokenizers: tuple[BertTokenizer, Any]) -> None:
    tags = []
    targets = []
    for tokenizer in tokenizers:
        rows = [dict(tokenizer(text)) for text in TEXTS]
        labeled = [{**row, "labels": list(range(len(row["input_ids"])))} for row in rows]
        tags.append(transformers.DataCollatorForTokenClassification(tokenizer)(labeled))
        pairs = [{**tokenizer(text), "labels": tokenizer(text[:7])["input_ids"]} for text in TEXTS]
        targets.append(transformers.DataCollatorForSeq2Seq(tokenizer)(pairs))
    assert_same(*tags)
    assert_same(*targets)


@pytest.mark.needs("fork")
def test_datasets_map_in_two_processes(
    tokenizers: tuple[BertTokenizer, Any], tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict(
        {"text": [f"{text} {number}" for number in range(30) for text in TEXTS]}
    )
    results = []
    for number, tokenizer in enumerate(tokenizers):

        def encode(batch: dict[str, list[str]], tokenizer: Any = tokenizer) -> Any:
            return tokenizer(batch["text"], truncation=True, max_length=9)

        mapped = rows.map(
            encode,
            batched=True,
            batch_size=16,
            num_proc=2,
            cache_file_name=str(tmp_path / f"{number}.arrow"),
        )
        results.append(mapped.to_dict())
    assert results[0] == results[1] and len(results[0]["input_ids"]) == len(rows)


@pytest.mark.filterwarnings("ignore")
def test_fill_mask_pipeline(tokenizers: tuple[BertTokenizer, Any], tmp_path: Path) -> None:
    """In transformers' pipeline, our model and tokenizer give the results of theirs."""
    text = f"Paris is the {tokenizers[0].mask_token} of France."
    BertForMaskedLM.from_pretrained("minibert-tiny").save_pretrained(tmp_path)
    tiny = BertTokenizer.from_pretrained("minibert-tiny")
    tiny.save_pretrained(tmp_path)
    our_pipeline = transformers.pipeline(
        "fill-mask", model=BertForMaskedLM.from_pretrained(tmp_path), tokenizer=tiny
    )
    reference = transformers.pipeline("fill-mask", model=str(tmp_path))
    for options in ({}, {"top_k": 3}, {"targets": ["capital", "city"]}):
        words = our_pipeline(text, **options)
        expected = reference(text, **options)
        assert [(word["token"], word["token_str"], word["sequence"]) for word in words] == [
            (word["token"], word["token_str"], word["sequence"]) for word in expected
        ]
        scores = [word["score"] for word in words]
        assert np.allclose(scores, [word["score"] for word in expected], atol=1e-6)


def test_to_transformers(minilm: str) -> None:
    """The result is a `transformers.BertTokenizer` with the same vocabulary and settings."""
    sides = {"padding_side": "left", "truncation_side": "left"}
    ours = BertTokenizer.from_pretrained(minilm, model_max_length=9, **sides)
    ours.add_tokens(["<name>"])
    ours.add_special_tokens({"extra_special_tokens": ["<x>"]})
    theirs = ours.to_transformers()
    assert type(theirs) is transformers.BertTokenizer and theirs.name_or_path == minilm
    assert theirs.init_kwargs["name_or_path"] == minilm  # TransformerLens loads it again
    assert len(theirs) == len(ours) and theirs.get_added_vocab() == ours.get_added_vocab()
    texts = [*TEXTS, "<name> loves <x>Korea, and paints unaffably all day long."]
    for options in (
        {},
        {"padding": True, "truncation": True},
        {"padding": "max_length", "max_length": 30},
    ):
        assert dict(ours(texts, **options)) == dict(theirs(texts, **options))
    cased = BertTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Paris", "paris"], do_lower_case=False
    )
    assert cased.to_transformers()("Paris")["input_ids"] == cased("Paris")["input_ids"] == [2, 5, 3]
