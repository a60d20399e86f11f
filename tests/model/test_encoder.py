"""The encoder: the formula of a layer, activations as modules, and parts called alone."""

from __future__ import annotations

import copy
import math
import pickle
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config
from torch import Tensor, nn

import minibert
from minibert import BertConfig, BertForMaskedLM, BertModel, PackedLayout
from minibert.attention import ATTENTION_FUNCTIONS, BertAttention, BertSelfAttention
from minibert.encoder import ACTIVATIONS, Activation, BertEncoder, BertLayer
from minibert.outputs import BertModelOutput


def test_the_formula() -> None:
    """a = LayerNorm(x + attention(x)), and LayerNorm(a + W2 gelu(W1 a + b1) + b2)."""
    layer, x = BertLayer(tiny_config()).eval(), torch.randn(2, 5, 32)
    attention = layer.attention
    context, _ = attention.self(x)
    a = attention.output.LayerNorm(attention.output.dense(context) + x)
    inner, outer = layer.intermediate.dense, layer.output.dense
    wide = a @ inner.weight.T + inner.bias
    wide = wide * 0.5 * (1 + torch.erf(wide / math.sqrt(2)))
    expected = layer.output.LayerNorm(wide @ outer.weight.T + outer.bias + a)
    torch.testing.assert_close(layer(x), expected)


def test_an_encoder_alone_returns_its_last_states() -> None:
    output = BertEncoder(tiny_config())(torch.randn(1, 3, 32))
    assert output.hidden_states is None and output.attentions is None


@pytest.mark.parametrize(
    ("checkpointing", "training", "calls"), [(True, True, 2), (True, False, 1), (False, True, 1)]
)
def test_a_layer_is_computed_again_for_its_gradient(
    checkpointing: bool, training: bool, calls: int
) -> None:
    """Only in training with checkpoints, which is what saves memory."""
    encoder = BertEncoder(tiny_config()).train(training)
    encoder.gradient_checkpointing = checkpointing
    computed = []
    for layer in encoder.layer:
        layer.intermediate.register_forward_hook(lambda *call: computed.append(1))
    encoder(torch.randn(1, 3, 32, requires_grad=True)).last_hidden_state.sum().backward()
    assert len(computed) == 2 * calls  # of 2 layers


@pytest.fixture
def model() -> BertModel:
    return BertModel(tiny_config()).eval()


class Adapted(BertLayer):
    """A bottleneck after the feed-forward network, as adapters are written for transformers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.down, self.up = nn.Linear(32, 4), nn.Linear(4, 32)

    def feed_forward_chunk(self, attention_output: Tensor) -> Tensor:
        states = super().feed_forward_chunk(attention_output)
        return states + self.up(torch.relu(self.down(states)))


def test_a_feed_forward_network_of_ones_own(model: BertModel) -> None:
    """It is called for padded and for packed batches, and `optimize` refuses it."""
    ids = torch.randint(1, 99, (2, 7))
    before = model(ids).last_hidden_state
    layer = Adapted(model.config).eval()
    layer.load_state_dict(model.encoder.layer[1].state_dict(), strict=False)
    model.encoder.layer[1] = layer
    adapted = model(ids).last_hidden_state
    assert torch.equal(adapted, before + layer.up(torch.relu(layer.down(before))))
    packed = model(ids.flatten(), layout=PackedLayout([7, 7])).last_hidden_state
    torch.testing.assert_close(packed, adapted.flatten(0, 1))
    with pytest.raises(ValueError, match="Adapted"):
        minibert.optimize(model)


def test_a_chunk_of_tokens(model: BertModel) -> None:
    """Any tokens can be computed together: each is computed alone."""
    layer, x = model.encoder.layer[0], torch.randn(2, 6, 32)
    parts = [layer.feed_forward_chunk(part) for part in x.split(2, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer.feed_forward_chunk(x))


class TestPartsCalledAlone:
    """Books and tools call parts: layers return tensors, the encoder an output."""

    def test_layers(self, model: BertModel) -> None:
        ids = torch.randint(1, 99, (2, 7))
        states = model.embeddings(ids)
        for layer in model.encoder.layer:
            states = layer(states)
        assert torch.equal(states, model(ids).last_hidden_state)
        assert torch.equal(model.pooler(states), model(ids).pooler_output)

    def test_a_layer_appends_its_probabilities_to_a_list(self, model: BertModel) -> None:
        ids = torch.randint(1, 99, (2, 7))
        expected = model(ids, output_hidden_states=True, output_attentions=True)
        for i, layer in enumerate(model.encoder.layer):
            attentions: list[Tensor] = []
            states = expected.hidden_states[i]
            layer(states, attend=ATTENTION_FUNCTIONS["eager"], attentions=attentions)
            assert torch.equal(attentions[0], expected.attentions[i])

    def test_the_encoder(self, model: BertModel) -> None:
        ids = torch.randint(1, 99, (2, 7))
        out = model.encoder(model.embeddings(ids), output_hidden_states=True)
        assert out[0] is out.last_hidden_state and len(out.hidden_states) == 3
        assert torch.equal(out[0], model(ids).last_hidden_state)

    def test_the_encoder_returns_probabilities(self, model: BertModel) -> None:
        ids = torch.randint(1, 99, (2, 7))
        expected = model(ids, output_attentions=True).attentions
        out = model.encoder(
            model.embeddings(ids), attend=ATTENTION_FUNCTIONS["eager"], output_attentions=True
        )
        assert all(map(torch.equal, out.attentions, expected))

    def test_positions_of_arguments_for_decoders(self, model: BertModel) -> None:
        """None in all of them is as nothing, and anything else is refused."""
        states = torch.randn(2, 5, 32)
        layer = model.encoder.layer[0]
        assert torch.equal(layer(states, None, None, None, None), layer(states))
        output = model.encoder(states, None, None, None, None, False).last_hidden_state
        assert torch.equal(output, model.encoder(states).last_hidden_state)
        for part in (layer.attention, layer.attention.self):
            assert torch.equal(part(states, None, None, None)[0], part(states)[0])
        with pytest.raises(ValueError, match="encoder_hidden_states is not supported"):
            layer(states, None, states)

    def test_keywords_of_their_classes(self) -> None:
        config = tiny_config()
        layer = BertLayer(config, layer_idx=3)
        assert layer.layer_idx == 3
        BertSelfAttention(config, is_causal=False, layer_idx=3)
        with pytest.raises(ValueError, match="is_causal=True is not supported: minibert is an"):
            BertAttention(config, is_causal=True)
        with pytest.raises(TypeError, match="BertLayer.* unexpected keyword argument 'layer'"):
            BertLayer(config, layer=3)


class TestActivation:
    """Activations are modules, as in transformers."""

    @pytest.fixture
    def model(self) -> Any:
        return BertForMaskedLM(tiny_config()).eval()

    def places(self, model: Any) -> list[tuple[nn.Module, str]]:
        layers = [(layer.intermediate, "intermediate_act_fn") for layer in model.bert.encoder.layer]
        return [*layers, (model.cls.predictions.transform, "transform_act_fn")]

    def test_hooks_see_each_layer_alone(self, model: Any) -> None:
        seen = []
        for number, (owner, name) in enumerate(self.places(model)):
            getattr(owner, name).register_forward_hook(
                lambda _, __, output, number=number: seen.append((number, tuple(output.shape)))
            )
        model(torch.tensor([[1, 5, 2]]))
        assert seen == [(0, (1, 3, 64)), (1, (1, 3, 64)), (2, (1, 3, 32))]

    def test_names(self, model: Any) -> None:
        names = [name for name, _ in model.named_modules() if name.endswith("act_fn")]
        assert len(names) == 3
        assert not any("act_fn" in name for name in model.state_dict())

    @pytest.mark.parametrize(
        "activation", [nn.ReLU(), torch.relu, nn.PReLU()], ids=["a module", "a function", "weights"]
    )
    def test_each_can_be_replaced(self, model: Any, activation: Any) -> None:
        ids = torch.tensor([[1, 5, 2]])
        before = model(ids).logits
        for owner, name in self.places(model):
            if isinstance(activation, nn.Module):
                setattr(owner, name, activation)
            else:
                delattr(owner, name)
                setattr(owner, name, activation)
        assert not torch.allclose(model(ids).logits, before)

    @pytest.mark.parametrize("name", ["gelu", "gelu_new", "relu"])
    def test_optimize_copies_and_pickles(self, name: str) -> None:
        model = BertModel(tiny_config(hidden_act=name)).eval()
        batch = ragged_batch(model.config)
        expected = model(**batch).last_hidden_state
        torch.testing.assert_close(minibert.optimize(model)(**batch).last_hidden_state, expected)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(other(**batch).last_hidden_state, expected)

    def test_it_shows_its_name(self) -> None:
        assert repr(Activation("gelu_new")) == "Activation(gelu_new)"


@pytest.fixture
def registered() -> Iterator[str]:
    ACTIVATIONS["squared_relu"] = lambda x: x.relu().square()
    yield "squared_relu"
    del ACTIVATIONS["squared_relu"]


def test_a_registered_activation_is_used(registered: str) -> None:
    model = BertForMaskedLM(tiny_config(hidden_act=registered)).eval()
    x = torch.randn(2, 3, 32)
    intermediate: Any = model.bert.encoder.layer[0].intermediate
    assert torch.equal(intermediate(x), intermediate.dense(x).relu().square())
    ids = torch.tensor([[1, 5, 2]])
    fast = minibert.optimize(model)
    torch.testing.assert_close(fast(ids).logits, model(ids).logits)


def test_a_name_without_an_activation_raises_an_error() -> None:
    with pytest.raises(ValueError, match="hidden_act should be one of gelu, gelu_new"):
        BertConfig(hidden_act="squared_relu")


def by_hand(self: Any, hidden_states: Tensor, attention_mask: Any = None, **options: Any) -> Any:
    """Run the layers as code for transformers does."""
    states = [hidden_states]
    for layer in self.layer:
        states.append(layer(states[-1], attention_mask))
    if options.get("output_hidden_states"):
        return states[-1], tuple(states)
    return (states[-1],)


class OwnEncoder(BertEncoder):
    forward = by_hand


class PlainEncoder(nn.Module):
    """An encoder of another class, which returns an output."""

    def __init__(self, encoder: BertEncoder) -> None:
        super().__init__()
        self.layer = encoder.layer

    def forward(self, hidden_states: Tensor, attention_mask: Any = None) -> Any:
        return BertModelOutput(by_hand(self, hidden_states, attention_mask)[0])


@pytest.mark.parametrize("kind", ["module", "subclass", "class"])
def test_an_encoder_with_a_forward_of_its_own(model: BertModel, kind: str) -> None:
    """It receives the additive mask, and a padded batch whatever the layout."""
    batch = ragged_batch(model.config)
    mask = batch["attention_mask"].bool()
    rows = {name: batch[name][mask] for name in ("input_ids", "token_type_ids")}
    layout = PackedLayout(mask.sum(1).tolist())
    expected = model(**batch, output_hidden_states=True)
    if kind == "module":
        model.encoder.forward = types.MethodType(by_hand, model.encoder)
    elif kind == "subclass":
        model.encoder.__class__ = OwnEncoder
    else:
        model.encoder = PlainEncoder(model.encoder)
    assert torch.equal(model(**batch).last_hidden_state, expected.last_hidden_state)
    packed = model(**rows, layout=layout)
    torch.testing.assert_close(packed.last_hidden_state, expected.last_hidden_state[mask])
    torch.testing.assert_close(packed.pooler_output, expected.pooler_output)
    if kind != "class":
        states = model(**batch, output_hidden_states=True).hidden_states
        assert all(map(torch.equal, states, expected.hidden_states))
