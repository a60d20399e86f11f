"""Behaviors that transformers' own BERT tests check and that no other file here covers.

Most behaviors of that suite have tests elsewhere: loading in tests/checkpoints, tied weights in
test_heads, config in test_config, tracing and tools in tests/ecosystem. This file has the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config, with_reference
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import minibert

CLASSES = ("BertModel", *HEADS)


def batch_for(name: str, config: minibert.BertConfig) -> dict[str, Tensor]:
    """A padded batch, of shape (batch, 2, seq) for `BertForMultipleChoice`."""
    batch = ragged_batch(config)
    if name == "BertForMultipleChoice":
        batch = {
            key: torch.stack([x, x.flip(-1) if key == "input_ids" else x], 1)
            for key, x in batch.items()
        }
    return batch


@pytest.mark.parametrize("name", CLASSES)
def test_hidden_states_and_attentions_can_retain_gradients(name: str) -> None:
    model = getattr(minibert, name)(tiny_config(attn_implementation="eager"))
    output = model(
        **batch_for(name, model.config), output_hidden_states=True, output_attentions=True
    )
    tensors = (output.hidden_states[0], output.attentions[0])
    for tensor in tensors:
        tensor.retain_grad()
    output[0].square().mean().backward()
    assert all(tensor.grad is not None and tensor.grad.any() for tensor in tensors)


@pytest.mark.parametrize("name", CLASSES)
def test_a_row_is_the_same_alone_and_in_a_batch(name: str) -> None:
    model = getattr(minibert, name)(tiny_config()).eval()
    batch = batch_for(name, model.config)
    with torch.no_grad():
        together = model(**batch)
        for row in range(3):
            alone = model(**{key: x[row : row + 1] for key, x in batch.items()})
            for key, value in together.items():
                # matrix products of different sizes sum in a different order
                torch.testing.assert_close(alone[key], value[row : row + 1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", CLASSES)
def test_a_tuple_has_the_values_of_the_output(name: str) -> None:
    """Values and order equal the reference's, including losses and hidden states."""
    config = tiny_config(attn_implementation="eager")
    ours, theirs = with_reference(name, config)
    batch: dict[str, Any] = {
        **batch_for(name, config),
        "output_hidden_states": True,
        "output_attentions": True,
    }
    labels = {
        "BertModel": {},
        "BertForPreTraining": {
            "labels": batch["input_ids"],
            "next_sentence_label": torch.tensor([0, 1, 1]),
        },
        "BertForQuestionAnswering": {
            "start_positions": torch.tensor([1, 2, 0]),
            "end_positions": torch.tensor([3, 2, 0]),
        },
        "BertForMaskedLM": {"labels": batch["input_ids"]},
        "BertForTokenClassification": {"labels": batch["input_ids"] % 2},
    }.get(name, {"labels": torch.tensor([0, 1, 1])})
    with torch.no_grad():
        output, values = ours(**batch, **labels), ours(**batch, **labels, return_dict=False)
        reference = theirs(**batch, **labels, return_dict=False)
    # drop the empty tuple of cross-attentions
    reference = [value for value in reference if not isinstance(value, tuple) or value]
    assert type(values) is tuple and len(values) == len(output) == len(reference)
    for mine, same, expected in zip(
        *map(tree_leaves, (values, tuple(output), reference)), strict=True
    ):
        assert torch.equal(mine, same) and torch.equal(mine, expected)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_left_padding(attention: str) -> None:
    config = tiny_config(attn_implementation=attention)
    ours, theirs = with_reference("BertModel", config)
    batch = {key: x.flip(-1) for key, x in ragged_batch(config).items()}
    with torch.no_grad():
        for mine, reference in zip(ours(**batch).values(), theirs(**batch).values(), strict=True):
            assert torch.equal(mine, reference)


@pytest.mark.parametrize("options", [None, {}, {"use_reentrant": True}, {"use_reentrant": False}])
def test_gradient_checkpointing_reaches_every_parameter(options: dict[str, Any] | None) -> None:
    """Frozen embeddings, as in adapter training, make no difference."""
    model = minibert.BertForSequenceClassification(tiny_config())
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    assert model.is_gradient_checkpointing
    model.get_input_embeddings().weight.requires_grad_(False)
    model.enable_input_require_grads()
    model.train()(**ragged_batch(model.config), labels=torch.tensor([0, 1, 1])).loss.backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without == ["bert.embeddings.word_embeddings.weight"]


def test_non_contiguous_weights_are_saved(tmp_path: Path) -> None:
    model = minibert.BertModel(tiny_config())
    weight = model.encoder.layer[0].intermediate.dense.weight
    weight.data = weight.data.t().contiguous().t()
    assert not weight.is_contiguous()
    model.save_pretrained(tmp_path)
    again = minibert.BertModel.from_pretrained(tmp_path)
    assert torch.equal(again.encoder.layer[0].intermediate.dense.weight, weight)


@pytest.mark.parametrize("name", CLASSES)
def test_every_tensor_is_a_parameter_or_a_buffer(name: str) -> None:
    """Otherwise `to`, FSDP and `torch.func.functional_call` would miss some."""
    for module in getattr(minibert, name)(tiny_config()).modules():
        assert not [key for key, value in vars(module).items() if isinstance(value, Tensor)]


def test_a_model_overfits_one_batch() -> None:
    model = minibert.BertForMaskedLM(
        tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ).train()
    batch = ragged_batch(model.config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        loss = model(**batch, labels=batch["input_ids"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10


def test_a_subclass_loads_and_saves_like_its_parent(tmp_path: Path) -> None:
    """Users subclass a model to add their own head."""

    class Scored(minibert.BertModel):
        def __init__(self, config: minibert.BertConfig) -> None:
            super().__init__(config)
            self.score = nn.Linear(config.hidden_size, 1)
            self.post_init()

    minibert.BertModel(tiny_config()).save_pretrained(tmp_path / "parent")
    with pytest.warns(UserWarning, match=r"score\.weight"):
        model = Scored.from_pretrained(tmp_path / "parent")
    assert not model.score.weight.is_meta and model.score.weight.any()
    model.save_pretrained(tmp_path / "subclass")
    again = Scored.from_pretrained(tmp_path / "subclass")
    assert torch.equal(again.score.weight, model.score.weight)
