"""BertModel without a reference: shapes, outputs, and the parameter counts of the paper."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from conftest import HEADS, PARAMETERS, ragged_batch, tiny_config
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

import minibert
from minibert import BertConfig, BertForMaskedLM, BertModel
from minibert.attention import ATTENTION_FUNCTIONS
from minibert.outputs import (
    BertModelOutput,
    LogitsOutput,
    ModelOutput,
    PreTrainingOutput,
    QuestionAnsweringOutput,
)


@pytest.fixture
def model() -> BertModel:
    return BertModel(tiny_config()).eval()


def test_the_formula(model: BertModel) -> None:
    """Embeddings, layers, and tanh(W h + b) of the first token.

    tests/study/test_trace.py computes every step in NumPy.
    """
    ids = torch.randint(1, 99, (2, 7))
    states = model.embeddings(ids)
    for layer in model.encoder.layer:
        states = layer(states)
    out = model(ids)
    assert torch.equal(out.last_hidden_state, states)
    dense = model.pooler.dense
    pooled = torch.tanh(states[:, 0] @ dense.weight.T + dense.bias)
    torch.testing.assert_close(out.pooler_output, pooled)


def test_outputs_by_attribute_index_key_and_unpacking(model: BertModel) -> None:
    out = model(**ragged_batch(model.config))
    last_hidden_state, pooler_output = out
    assert out.keys() == ["last_hidden_state", "pooler_output"]
    assert last_hidden_state is out.last_hidden_state is out["last_hidden_state"] is out[0]
    assert pooler_output is out[1] is out[-1] and out[:1] == (last_hidden_state,)
    assert len(out) == 2
    assert "attentions" not in out
    assert out.attentions is None
    assert out.get("attentions") is None
    assert dict(**out).keys() == set(out.keys())
    with pytest.raises(
        KeyError,
        match="'attentions' is not in this output, which has last_hidden_state, pooler_output",
    ):
        out["attentions"]


def test_outputs_as_mappings_and_pytrees(model: BertModel) -> None:
    """accelerate, DataParallel, pipelines, FSDP and torch.func use outputs in these ways."""
    out = model(**ragged_batch(model.config), output_hidden_states=True, output_attentions=True)
    assert isinstance(out, Mapping)
    doubled = type(out)({name: value for name, value in out.items()})
    assert doubled.keys() == out.keys() and type(out)(list(out.items())).keys() == out.keys()
    assert type(out)(value for value in out).keys() == out.keys()  # DataParallel gathers values
    leaves, spec = pytree.tree_flatten(out)
    assert len(leaves) == 2 + 3 + 2 and all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    again = pytree.tree_unflatten(leaves, spec)
    assert type(again) is BertModelOutput and again.hidden_states[1] is out.hidden_states[1]
    halves = pytree.tree_map(lambda tensor: tensor.half(), out)
    assert halves.attentions[0].dtype == torch.float16
    out["input_ids"] = torch.zeros(3, 11)  # the fill-mask pipeline adds its inputs
    out["pooler_output"] = None
    assert out.keys() == ["last_hidden_state", "hidden_states", "attentions", "input_ids"]
    assert len(out) == 4
    assert {**out}["input_ids"] is out.input_ids


@pytest.mark.parametrize(
    "output",
    [
        LogitsOutput(torch.tensor(1.0), torch.zeros(2, 3)),
        LogitsOutput(logits=torch.zeros(2, 3), attentions=(torch.zeros(2, 4, 5, 5),)),
        PreTrainingOutput(
            torch.tensor([1.0, 2.0]),
            torch.zeros(2, 5, 9),
            torch.zeros(2, 2),
            (torch.zeros(2, 5, 4),),
        ),
        QuestionAnsweringOutput(None, torch.zeros(2, 5), torch.zeros(2, 5)),
    ],
    ids=lambda output: type(output).__name__,
)
def test_an_output_can_be_rebuilt_from_its_values(output: ModelOutput) -> None:
    rebuilt = type(output)(iter(output))
    assert rebuilt.keys() == output.keys()
    assert all(new is old for new, old in zip(rebuilt, output, strict=True))


def test_values_without_a_field_raise_an_error() -> None:
    with pytest.raises(ValueError, match="LogitsOutput takes values by name, or a mapping of them"):
        LogitsOutput(iter([torch.zeros(2, 3), torch.zeros(2, 3)]))


def test_the_first_field_of_an_own_output_may_be_a_collection() -> None:
    """Such as the logits of every exit, or the losses by name."""

    @dataclass
    class ExitsOutput(ModelOutput):
        logits: Any = None
        scores: Any = None

    exits = (torch.zeros(2, 3), torch.ones(2, 3))
    assert ExitsOutput(exits).logits is exits
    for value in (exits, [("cat", 0.5)], {"logits": exits}):
        output = ExitsOutput(value, scores=torch.zeros(2))
        assert output.logits is value and output.keys() == ["logits", "scores"]


def test_hidden_states_and_attentions_have_the_documented_shapes(model: BertModel) -> None:
    batch = ragged_batch(model.config)
    out = model(**batch, output_hidden_states=True, output_attentions=True)
    last_hidden_state, pooler_output, hidden_states, attentions = out
    assert last_hidden_state.shape == (3, 11, 32) and pooler_output.shape == (3, 32)
    assert [tuple(states.shape) for states in hidden_states] == [(3, 11, 32)] * 3
    assert [tuple(a.shape) for a in attentions] == [(3, 4, 11, 11)] * 2
    assert hidden_states[-1] is last_hidden_state
    assert torch.equal(
        hidden_states[0], model.embeddings(batch["input_ids"], batch["token_type_ids"])
    )
    for weights in attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 11))
        # The second sequence has 7 tokens. The rest is padding.
        assert not weights[1, :, :, 7:].any()


def test_the_pooler_is_not_the_cls_state(model: BertModel) -> None:
    out = model(**ragged_batch(model.config))
    cls_state = out.last_hidden_state[:, 0]
    assert not torch.allclose(out.pooler_output, cls_state)
    assert torch.equal(out.pooler_output, torch.tanh(model.pooler.dense(cls_state)))


def test_padding_does_not_change_a_sentence(model: BertModel) -> None:
    """Hidden states differ only by rounding: the sums over keys have more terms, all zero."""
    batch = ragged_batch(model.config)
    alone = model(batch["input_ids"][1:2, :7], token_type_ids=batch["token_type_ids"][1:2, :7])
    torch.testing.assert_close(
        model(**batch).last_hidden_state[1:2, :7], alone.last_hidden_state, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("attention", ATTENTION_FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_of_padding_is_not_nan(attention: str, dtype: torch.dtype) -> None:
    model = BertModel(tiny_config(attn_implementation=attention)).to(dtype)
    batch = ragged_batch(model.config)
    batch["attention_mask"][2] = 0
    for mode in (model.eval, model.train):
        out = mode()(**batch)
        out.pooler_output.sum().backward()
        assert not out.last_hidden_state.isnan().any()
        assert not any(parameter.grad.isnan().any() for parameter in model.parameters())


def test_empty_batch(model: BertModel) -> None:
    out = model(torch.zeros(0, 5, dtype=torch.long))
    assert out.last_hidden_state.shape == (0, 5, 32) and out.pooler_output.shape == (0, 32)


def test_input_embeddings(model: BertModel) -> None:
    batch = ragged_batch(model.config)
    embeds = model.get_input_embeddings()(batch.pop("input_ids"))
    assert model(inputs_embeds=embeds, **batch).last_hidden_state.shape == (3, 11, 32)
    model.set_input_embeddings(torch.nn.Embedding(7, 32))
    assert model.get_input_embeddings().num_embeddings == model.config.vocab_size == 7


def test_number_of_parameters_and_bytes() -> None:
    model = BertForMaskedLM(tiny_config())
    words, rest = 99 * 32, (64 + 2) * 32
    total = model.num_parameters()
    assert model.num_parameters(exclude_embeddings=True) == total - words - rest
    model.get_input_embeddings().weight.requires_grad_(False)
    assert model.num_parameters(only_trainable=True) == total - words
    assert model.get_memory_footprint() == 4 * total


def test_attributes_that_tools_read() -> None:
    model = BertForMaskedLM(tiny_config())
    assert (model.base_model_prefix, model.main_input_name) == ("bert", "input_ids")
    assert model.config_class is BertConfig
    assert model.vocab_size == 99
    assert BertModel(tiny_config(num_labels=3)).num_labels == 3
    assert not BertForMaskedLM.can_generate()


def test_the_attention_function_can_be_changed_later() -> None:
    model = BertForMaskedLM(tiny_config())
    model.set_attn_implementation("eager")
    assert model.config.attn_implementation == model.bert.config.attn_implementation == "eager"
    with pytest.raises(ValueError, match="attn_implementation should be one of sdpa, eager"):
        model.set_attn_implementation("flash")
    assert model.config.attn_implementation == "eager"
    model(torch.ones(1, 3, dtype=torch.long))


def test_output_embeddings() -> None:
    model = BertForMaskedLM(tiny_config())
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    model.set_output_embeddings(torch.nn.Linear(32, 99))
    assert model.get_output_embeddings().weight is not model.get_input_embeddings().weight
    assert BertModel(tiny_config()).get_output_embeddings() is None


def test_gradients_of_frozen_embeddings_for_adapters() -> None:
    model = BertForMaskedLM(tiny_config())
    model.get_input_embeddings().weight.requires_grad_(False)
    ids = torch.ones(1, 3, dtype=torch.long)
    model.disable_input_require_grads()  # has no effect before the first enable
    assert not model.get_input_embeddings()(ids).requires_grad
    model.enable_input_require_grads()
    assert model.get_input_embeddings()(ids).requires_grad
    model.disable_input_require_grads()
    assert not model.get_input_embeddings()(ids).requires_grad


@pytest.mark.parametrize("kind", ["gradient", "activation"])
def test_gradient_checkpointing_can_be_switched(kind: str) -> None:
    model = BertForMaskedLM(tiny_config())
    enable = getattr(model, f"{kind}_checkpointing_enable")
    enable({"use_reentrant": False})
    assert model.is_gradient_checkpointing and model.is_activation_checkpointing
    getattr(model, f"{kind}_checkpointing_disable")()
    assert not model.is_gradient_checkpointing
    for options in ({"every_n_layers": 2}, {"offload": True}):
        with pytest.raises(ValueError, match="takes every_n_layers=1 and offload=False only"):
            enable(**options)
    enable(None, every_n_layers=1, offload=False)  # the call of transformers' Trainer
    assert model.is_gradient_checkpointing


def test_gradient_checkpointing_by_the_config() -> None:
    model = BertForMaskedLM.from_config(tiny_config(), gradient_checkpointing=True)
    assert model.is_gradient_checkpointing


def test_post_init_leaves_initialized_weights_alone() -> None:
    model = minibert.BertForMaskedLM(tiny_config())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.post_init()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("name", ["BertModel", *HEADS[:-1]])
def test_later_changes_of_the_config_take_effect(name: str) -> None:
    model = getattr(minibert, name)(tiny_config()).eval()
    batch = ragged_batch(model.config)
    usual = model(**batch).keys()
    model.config.output_hidden_states = model.config.output_attentions = True
    assert model(**batch).keys() == [*usual, "hidden_states", "attentions"]
    assert model(**batch, output_hidden_states=False, output_attentions=False).keys() == usual
    model.config.return_dict = False
    assert type(model(**batch)) is tuple
    assert model(**batch, return_dict=True).keys()[-1] == "attentions"
    model.config.return_dict = model.config.torchscript = True
    assert type(model(**batch)) is tuple


@pytest.mark.parametrize("states", [[0, 2], -1, 1, []])
def test_selected_hidden_states_are_an_error(states: Any) -> None:
    model = BertModel(tiny_config()).eval()
    with pytest.raises(ValueError, match=r"output_hidden_states should be True, .* by index"):
        model(**ragged_batch(model.config), output_hidden_states=states)


def argument_names(model_class: Any) -> list[str]:
    """Return the names of the arguments of forward, without `**kwargs`."""
    parameters = inspect.signature(model_class.forward).parameters
    return [name for name in parameters if name != "kwargs"]


def test_positional_arguments_have_the_order_of_transformers() -> None:
    transformers = importlib.import_module("transformers")
    for name in ("BertModel", *HEADS):
        ours = argument_names(getattr(minibert, name))
        theirs = argument_names(getattr(transformers, name))
        decoder_arguments = ("encoder_", "past_", "use_cache")
        shared = [argument for argument in theirs if not argument.startswith(decoder_arguments)]
        assert ours[: len(shared)] == shared, name


def test_a_subclass_can_use_the_names_of_these_attributes() -> None:
    class Own(BertModel):
        def __init__(self, config: BertConfig) -> None:
            super().__init__(config)
            self.num_labels = torch.nn.Linear(32, 1)  # type: ignore[assignment]
            self.vocab_size = torch.nn.Parameter(torch.ones(2))  # type: ignore[assignment]

    model = Own(tiny_config())
    assert isinstance(model.num_labels, torch.nn.Linear)
    assert torch.equal(model.vocab_size, torch.ones(2))
    assert {"num_labels.weight", "vocab_size"} <= dict(model.named_parameters()).keys()


def test_new_embeddings_are_near_the_mean() -> None:
    model = BertForMaskedLM(tiny_config())
    old = model.get_input_embeddings().weight.detach().clone()
    assert model.resize_token_embeddings().num_embeddings == 99
    assert model.resize_token_embeddings(100, pad_to_multiple_of=8).num_embeddings == 104
    new = model.get_input_embeddings().weight[99:]
    torch.testing.assert_close(new, old.mean(0).expand(5, 32), rtol=0, atol=1e-4)
    assert model.config.vocab_size == 104 and model.get_output_embeddings().out_features == 104
    model.resize_token_embeddings(200, mean_resizing=False)
    assert 0.01 < model.get_input_embeddings().weight[104:].std() < 0.03
    with pytest.raises(ValueError, match="pad_to_multiple_of should be .* 1 or more, not -8"):
        model.resize_token_embeddings(pad_to_multiple_of=-8)


def test_resizing_keeps_old_rows_and_extends_the_decoder() -> None:
    model = BertForMaskedLM(tiny_config()).eval()
    before = model.get_input_embeddings().weight.clone()
    model.resize_token_embeddings(torch.tensor(103))
    assert torch.equal(model.get_input_embeddings().weight[:99], before)
    logits = model(torch.tensor([[102, 5]])).logits
    assert logits.shape == (1, 2, 103)
    assert model.config.vocab_size == model.bert.config.vocab_size == 103
    assert model.vocab_size == model.bert.vocab_size == 103


@pytest.mark.parametrize("rows", ["3", 44.0, True, -3, torch.ones(2)])
def test_a_number_of_rows_that_is_none_raises_an_error(model: BertModel, rows: Any) -> None:
    with pytest.raises(ValueError, match="new_num_tokens should be a whole number of 0 or more"):
        model.resize_token_embeddings(rows)


def test_a_new_model_has_the_type_of_its_config() -> None:
    config = tiny_config()
    assert BertModel.from_config(config, dtype=torch.float16).dtype == torch.float16
    assert BertModel.from_config(config.replace(dtype="bfloat16")).dtype == torch.bfloat16
    assert BertModel.from_config(config, torch_dtype="float64").dtype == torch.float64
    assert BertModel.from_config(config).dtype == torch.float32


def test_the_type_of_a_new_model_holds_for_its_own_parts_and_no_other_thread() -> None:
    class Weighted(BertModel):
        def __init__(self, config: BertConfig, **options: Any) -> None:
            super().__init__(config, **options)
            self.head = nn.Linear(config.hidden_size, 2)
            self.register_buffer("shares", torch.tensor([0.5, 0.25]))
            self.register_buffer("full", torch.full((2,), 0.5))
            self.register_buffer("places", torch.arange(3))
            self.register_buffer("exact", torch.zeros(2, dtype=torch.float64))
            with ThreadPoolExecutor(1) as other:
                self.elsewhere = other.submit(torch.zeros, 1).result().dtype

    model = Weighted.from_config(tiny_config(), dtype=torch.bfloat16)
    types = {tensor.dtype for tensor in (*model.parameters(), model.shares, model.full)}
    assert types == {torch.bfloat16}
    assert (model.places.dtype, model.exact.dtype) == (torch.int64, torch.float64)
    assert model.elsewhere == torch.get_default_dtype() == torch.float32


def test_saving_into_none_names_the_folder(model: BertModel) -> None:
    for thing in (model, model.config):
        with pytest.raises(TypeError, match="folder to save into should be a path, not None"):
            thing.save_pretrained(None)  # type: ignore[arg-type]


def test_a_method_called_encoders_is_a_users_own() -> None:
    own = type("Own", (BertModel,), {"_encoders": lambda _: pytest.fail("called by minibert")})
    model = own(tiny_config())
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing


def test_copies(model: BertModel) -> None:
    batch = ragged_batch(model.config)
    expected = model(**batch).pooler_output
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(**batch).pooler_output, expected)


def test_parameter_counts() -> None:
    for name, number in PARAMETERS.items():
        with torch.device("meta"):
            assert BertModel(BertConfig.from_preset(name)).num_parameters() == number, name


def test_it_trains_in_a_dataloader_loop(model: BertModel) -> None:
    """A plain PyTorch loop with a DataLoader and an optimizer reduces the loss."""
    ids = torch.randint(1, 99, (16, 8))
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        for rows in DataLoader(ids, batch_size=8):
            loss = model(rows).pooler_output.square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_resized_embeddings_stay_frozen() -> None:
    model = BertModel(tiny_config())
    model.get_input_embeddings().weight.requires_grad_(False)
    assert not model.resize_token_embeddings(103).weight.requires_grad
    with pytest.raises(ValueError, match="vocab_size should be 1 or more, not 0"):
        model.resize_token_embeddings(0)


def test_a_marker_of_a_tool_is_no_entry_of_an_output(model: BertModel) -> None:
    output = model(torch.randint(1, 99, (2, 7)))
    names = output.keys()
    output._marked = True
    assert output._marked and output.keys() == names and len(output.to_tuple()) == len(names)
