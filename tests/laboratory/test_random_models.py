"""Random models, heads, masks and dtypes beside transformers: outputs, gradients, files."""

from __future__ import annotations

import importlib
import tempfile
from typing import Any

import pytest
import torch
from conftest import HEADS
from hypothesis import strategies as st
from programs import assert_same, compare, programs, seed
from torch import Tensor

import minibert
from minibert.encoder import ACTIVATIONS

transformers = importlib.import_module("transformers")
pytestmark = pytest.mark.usefixtures("one_thread")
OWN_ACTIVATIONS = sorted(ACTIVATIONS)  # now: examples of the guides register others
MLM = ("BertForMaskedLM", "BertForPreTraining")
MASKS = ("none", "integers", "booleans", "floats", "additive", "rows", "hidden row")
PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")


@st.composite
def configs(draw: Any) -> dict[str, Any]:
    """Fields of a small config that both libraries accept."""
    heads = draw(st.sampled_from([1, 2, 3, 4]))
    fields = {
        "vocab_size": draw(st.integers(8, 40)),
        "num_attention_heads": heads,
        "hidden_size": heads * draw(st.sampled_from([1, 2, 4, 5, 8])),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "intermediate_size": draw(st.integers(1, 24)),
        "max_position_embeddings": draw(st.integers(6, 20)),
        "type_vocab_size": draw(st.integers(1, 3)),
        "hidden_act": draw(st.sampled_from(OWN_ACTIVATIONS)),
        "hidden_dropout_prob": draw(st.sampled_from([0.0, 0.1, 0.5])),
        "attention_probs_dropout_prob": draw(st.sampled_from([0.0, 0.1, 0.5])),
        "classifier_dropout": draw(st.sampled_from([None, 0.0, 0.3])),
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-5])),
        "initializer_range": draw(st.sampled_from([0.02, 0.5])),
        "tie_word_embeddings": draw(st.booleans()),
        "pad_token_id": draw(st.sampled_from([0, 3, None])),
        "num_labels": draw(st.integers(1, 4)),
        "problem_type": draw(st.sampled_from([None, *PROBLEMS])),
    }
    if fields["num_labels"] == 1 and fields["problem_type"] == "single_label_classification":
        fields["problem_type"] = None
    return fields


calls = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "attn_implementation": st.sampled_from(["eager", "sdpa"]),
        "train": st.booleans(),
        "mask": st.sampled_from(MASKS),
        "embeds": st.booleans(),
        "types": st.booleans(),
        "positions": st.booleans(),
        "labels": st.booleans(),
        "hidden_states": st.booleans(),
        "checkpointing": st.booleans(),
        "dtype": st.sampled_from(["float32", "float64", "bfloat16"]),
        "autocast": st.sampled_from([None, None, torch.bfloat16]),
    }
)


def build(library: Any, head: str, fields: dict[str, Any], call: dict[str, Any]) -> Any:
    """A model whose weights are those of `call["seed"]` in both libraries."""
    seed(call["seed"])
    config = library.BertConfig(**fields, attn_implementation=call["attn_implementation"])
    model = getattr(library, head)(config)
    seed(call["seed"])
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name in sorted(named):  # the order of registration may differ
            named[name].add_(torch.randn(named[name].shape) * 0.1)
    if call["checkpointing"]:
        model.gradient_checkpointing_enable()
    return model.train(call["train"]).to(getattr(torch, call["dtype"]))


def batch_of(head: str, fields: dict[str, Any], call: dict[str, Any]) -> dict[str, Tensor]:
    """The arguments of a call, the same ones for both libraries."""
    generator = torch.Generator().manual_seed(call["seed"])
    batch, seq = 3, 5

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator)

    lead = (batch, 2) if head == "BertForMultipleChoice" else (batch,)
    arguments: dict[str, Tensor] = {}
    dtype = getattr(torch, call["dtype"])
    if call["embeds"]:
        shape = (*lead, seq, fields["hidden_size"])
        arguments["inputs_embeds"] = torch.randn(shape, generator=generator).to(dtype)
    else:
        arguments["input_ids"] = whole(fields["vocab_size"], *lead, seq)
    lengths = 1 + whole(seq, *lead)
    visible = (torch.arange(seq) < lengths[..., None]).long()
    if call["mask"] == "integers" or (call["mask"] != "none" and len(lead) == 2):
        arguments["attention_mask"] = visible
    elif call["mask"] == "booleans":
        arguments["attention_mask"] = visible.bool()
    elif call["mask"] == "floats":
        arguments["attention_mask"] = visible.float()
    elif call["mask"] == "hidden row":
        arguments["attention_mask"] = visible * torch.tensor([[1], [0], [1]])
    elif call["mask"] in ("rows", "additive"):
        rows = visible[:, None, None, :].bool() & (whole(3, batch, 1, seq, seq) > 0)
        rows[..., 0] = True
        arguments["attention_mask"] = rows
        # Under eager attention transformers adds a boolean mask as 0 and 1 (docs/parity.md).
        if call["mask"] == "additive" or call["attn_implementation"] == "eager":
            offsets = torch.zeros(rows.shape, dtype=dtype)
            arguments["attention_mask"] = offsets.masked_fill(~rows, torch.finfo(dtype).min)
    if call["types"]:
        arguments["token_type_ids"] = whole(fields["type_vocab_size"], *lead, seq)
    if call["positions"] and len(lead) == 1:
        arguments["position_ids"] = whole(fields["max_position_embeddings"], *lead, seq)
    if not call["labels"]:
        return arguments
    tokens = whole(3, batch, seq) - 1
    if head in MLM:
        arguments["labels"] = torch.where(tokens < 0, -100, whole(fields["vocab_size"], batch, seq))
        if head == "BertForPreTraining":
            arguments["next_sentence_label"] = whole(2, batch)
    elif head == "BertForTokenClassification":
        arguments["labels"] = torch.where(tokens < 0, -100, whole(fields["num_labels"], batch, seq))
    elif head == "BertForQuestionAnswering":
        arguments["start_positions"] = whole(seq + 2, batch)
        arguments["end_positions"] = whole(seq + 2, batch)
    elif head in ("BertForNextSentencePrediction", "BertForMultipleChoice"):
        arguments["labels"] = whole(2, batch)
    elif head == "BertForSequenceClassification":
        labels, problem = fields["num_labels"], fields["problem_type"]
        if problem == "multi_label_classification":
            arguments["labels"] = whole(2, batch, labels).float()
        elif problem == "regression" or labels == 1:
            shape = (batch,) if labels == 1 else (batch, labels)
            arguments["labels"] = torch.rand(shape, generator=generator)
        else:
            arguments["labels"] = whole(labels, batch)
    return arguments


def step(library: Any, head: str, fields: dict[str, Any], call: dict[str, Any]) -> Any:
    """Outputs and gradients of one call."""
    model = build(library, head, fields, call)
    arguments = batch_of(head, fields, call)
    seed(1)
    enabled = call["autocast"] is not None
    with torch.autocast("cpu", call["autocast"] or torch.bfloat16, enabled=enabled):
        output = model(**arguments, output_hidden_states=call["hidden_states"])
    values = dict(output.items())
    loss = values.get("loss")
    if loss is None:
        first = next(iter(values.values()))
        loss = first.float().pow(2).sum()
    if loss.requires_grad:
        loss.backward()
    gradients = {name: p.grad for name, p in sorted(model.named_parameters())}
    return values, {name: grad for name, grad in gradients.items() if grad is not None}


@programs(
    "models", share=0.8, fields=configs(), head=st.sampled_from(["BertModel", *HEADS]), call=calls
)
def test_outputs_and_gradients(fields: dict[str, Any], head: str, call: dict[str, Any]) -> None:
    if call["labels"] and head == "BertModel":
        call = {**call, "labels": False}
    compare(
        lambda: step(minibert, head, fields, call), lambda: step(transformers, head, fields, call)
    )


changes = st.lists(
    st.sampled_from(["smaller", "larger", "untie", "tie", "state_dict", "save", "exchange"]),
    min_size=1,
    max_size=4,
)


@programs(
    "models", share=0.2, quick=8, fields=configs(), head=st.sampled_from(HEADS), steps=changes
)
def test_changed_saved_and_loaded(fields: dict[str, Any], head: str, steps: list[str]) -> None:
    """The same changes in both libraries, and files that either may have written."""
    call: dict[str, Any] = {
        "seed": 0,
        "attn_implementation": "eager",
        "train": False,
        "checkpointing": False,
        "dtype": "float32",
    }
    if head == "BertForQuestionAnswering":
        fields = {**fields, "num_labels": 2, "problem_type": None}  # start and end
    pair = [build(library, head, fields, call) for library in (minibert, transformers)]
    with tempfile.TemporaryDirectory() as folder:
        for number, change in enumerate(steps):
            if change == "exchange":
                for model, other in zip(pair, ("theirs", "ours"), strict=True):
                    model.save_pretrained(f"{folder}/{number}-{other}")
            for index, library in enumerate((minibert, transformers)):
                model = pair[index]
                rows = len(model.get_input_embeddings().weight)
                if change in ("smaller", "larger"):
                    model.resize_token_embeddings(max(rows + (3 if change == "larger" else -2), 5))
                    with torch.no_grad():  # new rows are drawn
                        for parameter in model.parameters():
                            if len(parameter) > rows and change == "larger":
                                parameter[rows:] = 0.5
                elif change in ("tie", "untie"):
                    model.config.tie_word_embeddings = change == "tie"
                    model.tie_weights()
                elif change == "state_dict":
                    new = getattr(library, head)(model.config).eval()
                    new.load_state_dict(model.state_dict())
                    pair[index] = new
                else:
                    place = f"{folder}/{number}-{'ours' if index == 0 else 'theirs'}"
                    if change == "save":
                        model.save_pretrained(place)
                    pair[index] = getattr(library, head).from_pretrained(place).eval()
            ids = torch.arange(1, 5)[None]
            if head == "BertForMultipleChoice":
                ids = ids[None]
            assert_same(dict(pair[0](ids).items()), dict(pair[1](ids).items()), at=f"{number}")
