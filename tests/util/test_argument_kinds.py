"""Arguments of another kind than expected: a sentence that names the argument and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import minibert
from minibert import BertConfig, BertForSequenceClassification, BertTokenizer, SentenceEmbedder
from minibert.encoders.classifier import classify
from minibert.tasks.evaluation import evaluate
from minibert.training.options import TrainingOptions
from minibert.util.checks import check_fields, check_flag, option, type_of


@pytest.fixture(scope="module")
def tokenizer() -> BertTokenizer:
    return BertTokenizer.from_pretrained("minibert-tiny")


@pytest.fixture(scope="module")
def model() -> BertForSequenceClassification:
    return BertForSequenceClassification.from_pretrained("minibert-tiny", num_labels=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, m: evaluate(m, t, None), "data should be .*, not None"),  # type: ignore[arg-type]
        (lambda t, m: classify(m, None, "a"), "tokenizer should be .*, not None"),  # type: ignore[arg-type]
        (lambda t, m: classify(m, t, "a", threshold="b"), "threshold should be a number"),  # type: ignore[call-overload]
        (lambda t, m: BertConfig.from_dict(None), "config should be a dict .*, not None"),  # type: ignore[arg-type]
        (lambda t, m: BertTokenizer(3), "vocab should be .*, not an int"),  # type: ignore[arg-type]
        (lambda t, m: t.convert_tokens_to_ids(None), "tokens should be .*, not None"),
        (lambda t, m: t.convert_tokens_to_ids([["a"], 3]), "tokens should be .*, not an int"),
        (lambda t, m: t.convert_tokens_to_string(3), "tokens should be .*, not an int"),
        (lambda t, m: t.add_tokens(3), "new_tokens should be .*, not an int"),
        (lambda t, m: t.add_special_tokens("[X]"), "special_tokens_dict .*, not a str"),
        (lambda t, m: t.pad(None), "encoded_inputs should be .*, not None"),
        (lambda t, m: t.pad([[1, 2], [3]]), r"encoded_inputs\[0\] should be .*, not a list"),
        (lambda t, m: t.pad({"input_ids": 3}), "input_ids should be .*, not an int"),
        (lambda t, m: SentenceEmbedder(None, t), "takes a BertModel and its tokenizer"),  # type: ignore[arg-type]
        (lambda t, m: minibert.CrossEncoder(None, t), "takes a BertForSequence"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_kind_is_named(
    call: Callable[[Any, Any], Any],
    message: str,
    tokenizer: BertTokenizer,
    model: BertForSequenceClassification,
) -> None:
    with pytest.raises(TypeError, match=message):
        call(tokenizer, model)


def test_rows_to_pad_have_the_same_names(tokenizer: BertTokenizer) -> None:
    row = tokenizer("a")
    with pytest.raises(ValueError, match=r"encoded_inputs\[1\] has no attention_mask"):
        tokenizer.pad([row, {"input_ids": [1]}])
    assert tokenizer.pad([row, tokenizer("a b")], return_tensors="pt")["input_ids"].shape == (2, 4)


def test_an_unknown_backend_is_an_error() -> None:
    with pytest.raises(ValueError, match="backend should be torch or onnx, not 'tf'"):
        minibert.load("minibert-tiny", backend="tf")  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [True, False, 1, 0, None, np.True_])
def test_switches(value: Any) -> None:
    check_flag("normalize", value)


@pytest.mark.parametrize("value", ["False", "", [], 1.0, 64, torch.tensor([1])])
def test_what_is_no_switch_is_not_taken_for_true(value: Any) -> None:
    with pytest.raises(ValueError, match="normalize should be True or False, not "):
        check_flag("normalize", value)


def test_switches_of_options_are_checked() -> None:
    """In loading, encoding and training alike."""
    with pytest.raises(ValueError, match="normalize should be True or False"):
        SentenceEmbedder.from_pretrained("minibert-tiny", normalize="False")  # type: ignore[arg-type]
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    with pytest.raises(ValueError, match="normalize_embeddings should be True or False"):
        embedder.encode("a", normalize_embeddings="False")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="bf16 should be True or False"):
        TrainingOptions(bf16="False")  # type: ignore[arg-type]


def test_pairs_are_texts(tokenizer: BertTokenizer) -> None:
    """Tuples and lists of two texts are pairs wherever pairs make sense."""
    embedder = SentenceEmbedder.from_pretrained("minibert-tiny")
    expected = tokenizer("a", "b")["input_ids"]
    assert tokenizer([("a", "b"), ["a", "b"]])["input_ids"] == [expected, expected]
    tuples, lists = embedder.encode([("a", "b")]), embedder.encode([["a", "b"]])
    assert np.array_equal(tuples, lists)
    for texts in (["a", ("b", "c")], [("a", "b"), "c"], [("a", 3)], [["a"]], [None]):
        with pytest.raises(ValueError, match="number [01] is "):
            embedder.encode(texts)


def test_kinds_have_their_article() -> None:
    assert [type_of(value) for value in (None, 3, "a", [])] == ["None", "an int", "a str", "a list"]


def test_the_annotation_of_an_option_says_whether_numbers_are_whole() -> None:
    @dataclass
    class Options:
        rate: float = option(0.0, "A rate.", minimum=0)
        count: int | None = option(None, "A count.", minimum=0.0)

    check_fields(Options(0.5, 2))
    with pytest.raises(ValueError, match="rate should be 0 or more and finite"):
        check_fields(Options(rate=-0.5))
    with pytest.raises(ValueError, match="count should be a whole number"):
        check_fields(Options(count=0.5))  # type: ignore[arg-type]
