"""What the model, its heads and the layouts refuse, and what their errors say."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config

import minibert
from minibert import BertModel, PackedLayout, PaddedLayout


@pytest.fixture
def model() -> BertModel:
    return BertModel(tiny_config()).eval()


def build(name: str, **changes: Any) -> Any:
    return getattr(minibert, name)(tiny_config(**changes)).eval()


# --- layouts


@pytest.mark.parametrize("lengths", [[0], [3, 0, 2], [-1]])
def test_bad_lengths(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="but every sequence needs at least one token"):
        PackedLayout(lengths)


def test_lengths_that_do_not_add_up(model: BertModel) -> None:
    with pytest.raises(ValueError, match=r"\(5,\), .*lengths .*not \(6,\)"):
        model(torch.ones(6, dtype=torch.long), layout=PackedLayout([2, 3]))


def test_invalid_masks_raise_an_error() -> None:
    for shape in ((5,), (2, 1, 1, 5, 5)):
        with pytest.raises(ValueError, match="attention_mask has shape .* should be .batch, seq."):
            PaddedLayout(torch.ones(shape))
    with pytest.raises(
        ValueError,
        match="should be 0 .visible. or -1000 and less",
    ):
        PaddedLayout(torch.ones(2, 1, 1, 5))
    with pytest.raises(ValueError, match="is added to the scores"):
        PaddedLayout(torch.full((2, 1, 1, 5), torch.nan))
    for wrong in (-1, torch.nan, -10000.0):
        with pytest.raises(
            ValueError, match=f"contains {wrong:g}, .*should be 1 for tokens and 0 for"
        ):
            PaddedLayout(torch.tensor([[1, wrong]]))


@pytest.mark.parametrize(
    "shape", [(1, 5), (3, 4), (2, 4, 5), (2, 5, 4), (2, 1, 5, 4), (2, 1, 1, 3)]
)
@pytest.mark.parametrize("hides", [True, False])
def test_masks_of_another_shape_raise_an_error(
    model: BertModel, shape: tuple[int, ...], hides: bool
) -> None:
    """The error is the same whether or not they hide a token."""
    mask = torch.ones(shape, dtype=torch.bool)
    mask[..., 0] = not hides
    with pytest.raises(
        ValueError, match=r"attention_mask has shape .*, but input_ids has tokens of shape \(2, 4\)"
    ):
        model(torch.ones(2, 4, dtype=torch.long), attention_mask=mask)


def test_sequences_without_tokens_raise_an_error(model: BertModel) -> None:
    with pytest.raises(
        ValueError,
        match=r"\(2, 0\), .*at least one token",
    ):
        model(torch.zeros(2, 0, dtype=torch.long))


# --- the model


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "exactly one of input_ids and inputs_embeds"),
        (
            {"input_ids": [[1]], "inputs_embeds": [[[0.0] * 32]]},
            "exactly one of input_ids and inputs_embeds",
        ),
        (
            {"input_ids": [[1, 99]]},
            r"input_ids contains 99, but the embedding table has 99 rows \(valid ids 0 to 98\)",
        ),
        ({"input_ids": [[1, -1]]}, "input_ids contains -1"),
        (
            {"input_ids": [[1, 2]], "token_type_ids": [[0, 2]]},
            "token_type_ids contains 2, but the embedding table has 2 rows",
        ),
        (
            {"input_ids": [[1, 2]], "position_ids": [[0, 64]]},
            "position_ids contains 64, but the embedding table has 64 rows",
        ),
        (
            {"input_ids": [[1] * 65]},
            "65 tokens, but max_position_embeddings is 64. Pass truncation=True",
        ),
        (
            {"input_ids": [[1, 2]], "attention_mask": [[0, 1, 1]]},
            r"has shape \(1, 3\), but input_ids has tokens of shape \(1, 2\)",
        ),
        (
            {"input_ids": [[1, 2]], "attention_mask": [0, 1]},
            r"attention_mask has shape \(2,\), but it should be \(batch, seq\)",
        ),
        ({"input_ids": [1, 2]}, r"input_ids should have tokens of shape \(batch, seq\)"),
    ],
)
def test_invalid_input_raises_an_error(
    model: BertModel, inputs: dict[str, Any], message: str
) -> None:
    tensors = {name: torch.tensor(value) for name, value in inputs.items()}
    with pytest.raises(ValueError, match=message):
        model(**tensors)


def test_a_mask_and_a_layout_exclude_each_other(model: BertModel) -> None:
    batch = ragged_batch(model.config)
    with pytest.raises(ValueError, match="takes attention_mask or layout, not both"):
        model(**batch, layout=PaddedLayout())


@pytest.mark.parametrize("layout", [torch.ones(1, 3), [3]])
def test_what_is_no_layout(layout: Any) -> None:
    with pytest.raises(ValueError, match="layout should be .* not (Tensor|list). A mask is"):
        BertModel(tiny_config())(torch.ones(1, 3, dtype=torch.long), layout=layout)


def test_attentions_of_a_packed_batch_raise_an_error(model: BertModel) -> None:
    with pytest.raises(ValueError, match="output_attentions needs a padded batch"):
        model(torch.ones(5, dtype=torch.long), layout=PackedLayout([2, 3]), output_attentions=True)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {
                "use_cache": False,
                "head_mask": None,
                "past_key_values": None,
                "encoder_hidden_states": None,
            },
            None,
            "",
        ),
        ({"use_cache": True, "num_items_in_batch": 5, "encoder_attention_mask": None}, None, ""),
        (
            {"head_mask": torch.ones(4)},
            ValueError,
            r"head_mask is not supported: .* Trace\.switch_off_head",
        ),
        (
            {"past_key_values": (torch.ones(1),)},
            ValueError,
            "past_key_values is not supported: it is for decoders",
        ),
        (
            {"encoder_hidden_states": torch.ones(1)},
            ValueError,
            "encoder_hidden_states is not supported: it is for decoders",
        ),
        ({"inputs_ids": 1}, TypeError, "unexpected keyword argument 'inputs_ids'"),
    ],
)
@pytest.mark.parametrize("name", ["BertModel", "BertForTokenClassification"])
def test_arguments_of_transformers(
    name: str, arguments: dict[str, Any], error: type[Exception] | None, message: str
) -> None:
    model = getattr(minibert, name)(tiny_config()).eval()
    ids = torch.ones(1, 3, dtype=torch.long)
    if error is None:
        assert torch.equal(model(ids, **arguments)[0], model(ids)[0])
    else:
        with pytest.raises(error, match=message):
            model(ids, **arguments)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"input_ids": torch.ones(1, 3, dtype=torch.uint8)},
            "input_ids should be a tensor of integers .*uint8",
        ),
        (
            {"input_ids": torch.ones(1, 3)},
            "input_ids should be a tensor of integers .*float32",
        ),
        (
            {"input_ids": torch.ones(1, 3).bool()},
            "input_ids should be a tensor of integers .*bool",
        ),
        (
            {"input_ids": [[1, 2]]},
            r"input_ids should be a tensor of integers \(torch.long\), not list",
        ),
        (
            {"input_ids": {"input_ids": torch.ones(1, 3).long()}},
            r"not dict. Pass what the tokenizer returns .* as model\(\*\*batch\)",
        ),
        (
            {"inputs_embeds": [[0.0] * 32]},
            r"inputs_embeds should be a tensor, torch.float32 of shape .*, not list",
        ),
        (
            {"inputs_embeds": torch.ones(1, 3, 32).double()},
            r"inputs_embeds should be torch.float32 .*, not torch.float64",
        ),
        (
            {"input_ids": torch.ones(1, 3).long().numpy()},
            "input_ids should be a tensor .* not ndarray",
        ),
        (
            {"input_ids": torch.ones(1, 3).long(), "position_ids": torch.arange(3).expand(2, 3)},
            r"position_ids should have the shape of the tokens, \(1, 3\), not \(2, 3\)",
        ),
        (
            {"input_ids": torch.ones(2, 3).long(), "token_type_ids": torch.zeros(3, 3).long()},
            r"token_type_ids should have the shape of the tokens, \(2, 3\), not \(3, 3\)",
        ),
        (
            {"input_ids": torch.ones(2, 3).long(), "attention_mask": [[1]]},
            "attention_mask should be a tensor, not list",
        ),
        (
            {
                "input_ids": torch.ones(5).long(),
                "layout": PackedLayout([2, 3]),
                "position_ids": torch.ones(1).long(),
            },
            r"position_ids should have the shape of the tokens, \(5,\), not \(1,\)",
        ),
    ],
)
def test_inputs_of_a_wrong_type_or_shape_raise_an_error(
    model: BertModel, inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        model(**inputs)


# --- labels


class TestBadLabels:
    @pytest.mark.parametrize(
        ("name", "arguments", "message"),
        [
            (
                "BertForSequenceClassification",
                {"labels": [0, 3, 1]},
                "labels contains 3, but the model has 3 classes (0 to",
            ),
            (
                "BertForSequenceClassification",
                {"labels": [0, -1, 1]},
                "labels contains -1, but the model has 3 classes",
            ),
            (
                "BertForSequenceClassification",
                {"labels": [0, 1]},
                "labels should be of shape (3,), not (2,)",
            ),
            (
                "BertForSequenceClassification",
                {"labels": [[0, 1, 2]]},
                "labels should be of shape (3,), not (1, 3)",
            ),
            (
                "BertForSequenceClassification",
                {"labels": [0.0, 1.0, 1.0]},
                "For a single class per text pass integers",
            ),
            (
                "BertForSequenceClassification",
                {"labels": [[0.0, 1, 2]] * 3},
                "labels should be from 0.0 to 1.0",
            ),
            (
                "BertForTokenClassification",
                {"labels": [[0.0] * 5] * 3},
                "should be integers (torch.long), one",
            ),
            (
                "BertForTokenClassification",
                {"labels": [[True] * 5] * 3},
                "one class each, not torch.bool",
            ),
            (
                "BertForTokenClassification",
                {"labels": [[0] * 3] * 5},
                "of shape (3, 5), not (5, 3)",
            ),
            (
                "BertForMaskedLM",
                {"labels": [[99] * 5] * 3},
                "labels contains 99, but the model has 99 classes (0 to 98)",
            ),
            (
                "BertForNextSentencePrediction",
                {"labels": [0, 1, 2]},
                "labels contains 2, but the model has 2 classes",
            ),
            (
                "BertForPreTraining",
                {"labels": [[0] * 5] * 3, "next_sentence_label": [0, 1]},
                "labels should be of shape (3,), not (2,)",
            ),
            (
                "BertForQuestionAnswering",
                {"start_positions": [0, -1, 2], "end_positions": [0, 1, 2]},
                "positions contains -1. If a text has no answer, use 0, the position of [CLS]",
            ),
            (
                "BertForQuestionAnswering",
                {"start_positions": [0.0, 1.0, 2.0], "end_positions": [0, 1, 2]},
                "positions should be integers of shape (3,), not torch.float32 of (3,)",
            ),
            (
                "BertForQuestionAnswering",
                {"start_positions": [0, 1, 2], "end_positions": [0, 1]},
                "positions should be integers of shape (3,), not torch.int64 of (2,)",
            ),
        ],
    )
    def test_the_error_names_the_problem(
        self, name: str, arguments: dict[str, Any], message: str
    ) -> None:
        model = build(name, **({"num_labels": 3} if "Classification" in name else {}))
        tensors = {argument: torch.tensor(value) for argument, value in arguments.items()}
        with pytest.raises(ValueError, match=re.escape(message)):
            model(torch.randint(1, 99, (3, 5)), **tensors)

    def test_regression(self) -> None:
        model = build("BertForSequenceClassification", num_labels=2, problem_type="regression")
        with pytest.raises(ValueError, match=r"labels should be of shape \(3, 2\), not \(2, 3\)"):
            model(torch.randint(1, 99, (3, 5)), labels=torch.zeros(2, 3))
        model = build("BertForSequenceClassification", num_labels=1)
        with pytest.raises(ValueError, match=r"labels should be of shape \(3, 1\), not \(2,\)"):
            model(torch.randint(1, 99, (3, 5)), labels=torch.zeros(2))

    def test_choices(self) -> None:
        model = build("BertForMultipleChoice")
        with pytest.raises(
            ValueError, match=r"input_ids should be of shape \(batch, choices, seq\), not \(3, 5\)"
        ):
            model(torch.randint(1, 99, (3, 5)))
        with pytest.raises(ValueError, match="labels contains 2, but the model has 2 classes"):
            model(torch.randint(1, 99, (3, 2, 5)), labels=torch.tensor([0, 1, 2]))
