"""Attention: its formula, functions of one's own, and a `forward` in the place of a part's own."""

from __future__ import annotations

import copy
import functools
import math
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ragged_batch, tiny_config
from torch import Tensor, nn

import minibert
from minibert import BertConfig, BertModel, PackedLayout, PaddedLayout
from minibert.attention import (
    ATTENTION_FUNCTIONS,
    BertAttention,
    BertSelfAttention,
    eager_attention,
    merge_heads,
    split_heads,
)
from minibert.encoder import BertLayer


@pytest.mark.parametrize("function", ["eager", "sdpa"])
def test_the_formula(function: str) -> None:
    """softmax(Q K^T / sqrt(head_size)) V for each head, where hidden keys have probability 0."""
    query, key, value = (torch.randn(2, 5, 3, 4) for _ in range(3))  # (batch, seq, heads, size)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0]])
    context, _ = ATTENTION_FUNCTIONS[function](query, key, value, PaddedLayout(mask), 0.0)
    q, k, v = (x.transpose(1, 2).double().numpy() for x in (query, key, value))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(4)
    weights = np.exp(scores) * mask.numpy()[:, None, None]
    probabilities = weights / weights.sum(-1, keepdims=True)
    expected = (probabilities @ v).swapaxes(1, 2).reshape(2, 5, 12)  # heads side by side
    np.testing.assert_allclose(context.double().numpy(), expected, rtol=1e-5, atol=1e-6)


def mean_attention(query: Tensor, key: Tensor, value: Tensor, layout: Any, dropout: float) -> Any:
    """Attend to all keys alike."""
    blocks = split_heads(query, key, value, layout)
    return merge_heads([v.mean(2, keepdim=True).expand_as(v) for _, _, v in blocks], layout), None


@pytest.fixture
def registered() -> Iterator[str]:
    ATTENTION_FUNCTIONS["mean"] = mean_attention
    yield "mean"
    del ATTENTION_FUNCTIONS["mean"]


def test_a_registered_function_is_used(registered: str) -> None:
    model = BertModel(tiny_config(attn_implementation=registered)).eval()
    ids = torch.randint(1, 99, (2, 5))
    expected = model.encoder(model.embeddings(ids), attend=mean_attention).last_hidden_state
    assert torch.equal(model(ids).last_hidden_state, expected)
    packed = model(ids.flatten(), layout=PackedLayout([5, 5])).last_hidden_state
    torch.testing.assert_close(packed, expected.flatten(0, 1))
    # A part that is called alone uses it as well.
    assert torch.equal(model.encoder(model.embeddings(ids)).last_hidden_state, expected)
    model.set_attn_implementation("sdpa")
    assert not torch.allclose(model(ids).last_hidden_state, expected)


def test_attentions_are_those_of_a_registered_function(registered: str) -> None:
    """Asking for probabilities changes no results: only "sdpa" gives way to "eager"."""
    model = BertModel(tiny_config(attn_implementation=registered)).eval()
    ids = torch.randint(1, 99, (2, 5))
    with pytest.raises(ValueError, match="0 returned some"):
        model(ids, output_attentions=True)

    def uniform(query: Tensor, key: Tensor, value: Tensor, layout: Any, dropout: float) -> Any:
        context, _ = mean_attention(query, key, value, layout, dropout)
        return context, torch.full((2, 4, 5, 5), 0.2)

    expected = model(ids).last_hidden_state
    ATTENTION_FUNCTIONS[registered] = uniform
    output = model(ids, output_attentions=True)
    assert torch.equal(output.last_hidden_state, expected)
    assert all(bool((probabilities == 0.2).all()) for probabilities in output.attentions)


def test_a_name_without_a_function_raises_an_error() -> None:
    with pytest.raises(ValueError, match="attn_implementation should be one of sdpa, eager"):
        BertConfig(attn_implementation="mean")


def reference(self: Any, hidden_states: Tensor, attention_mask: Any = None, **unused: Any) -> Any:
    """Compute self-attention as code for transformers does."""

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)

    query, key, value = (split(f(hidden_states)) for f in (self.query, self.key, self.value))
    scores = query @ key.mT / self.attention_head_size**0.5
    if attention_mask is not None:
        scores = scores + attention_mask
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(-2), None


def positional(self: Any, states: Tensor, mask: Any, **unused: Any) -> Any:
    """As `reference`, with other names."""
    return reference(self, states, mask)


def as_method(part: Any, forward: Any) -> None:
    part.forward = types.MethodType(forward, part)


def as_partial(part: Any, forward: Any) -> None:
    part.forward = functools.partial(forward, part)


def as_closure(part: Any, forward: Any) -> None:
    part.forward = lambda *args, **kwargs: forward(part, *args, **kwargs)


def both_layouts(model: BertModel) -> list[Tensor]:
    """Return the states of the same tokens of a padded and of a packed batch."""
    batch = ragged_batch(model.config)
    mask = batch["attention_mask"].bool()
    lengths = mask.sum(1).tolist()
    padded = model(**batch).last_hidden_state[mask]
    rows = {name: batch[name][mask] for name in ("input_ids", "token_type_ids")}
    return [padded, model(**rows, layout=PackedLayout(lengths)).last_hidden_state]


class TestOwnForward:
    """A part whose forward is not minibert's own is called as transformers calls it."""

    @pytest.fixture
    def model(self) -> BertModel:
        return BertModel(tiny_config()).eval()

    @pytest.mark.parametrize("put", [as_method, as_partial, as_closure])
    @pytest.mark.parametrize("forward", [reference, positional])
    def test_on_the_module(self, model: BertModel, put: Any, forward: Any) -> None:
        torch.manual_seed(0)
        expected = both_layouts(model)
        for layer in model.encoder.layer:
            put(layer.attention.self, forward)
        torch.manual_seed(0)
        torch.testing.assert_close(both_layouts(model), expected)

    def test_on_the_class(self, model: BertModel, monkeypatch: pytest.MonkeyPatch) -> None:
        torch.manual_seed(0)
        expected = both_layouts(model)
        monkeypatch.setattr(BertSelfAttention, "forward", reference)
        torch.manual_seed(0)
        torch.testing.assert_close(both_layouts(model), expected)

    def test_in_a_subclass(self, model: BertModel) -> None:
        torch.manual_seed(0)
        expected = both_layouts(model)
        own = type("Own", (BertSelfAttention,), {"forward": reference})
        for layer in model.encoder.layer:
            layer.attention.self.__class__ = own
        torch.manual_seed(0)
        torch.testing.assert_close(both_layouts(model), expected)

    @pytest.mark.parametrize("part", ["attention.self", "attention", ""])
    @pytest.mark.parametrize("place", ["module", "class"])
    def test_a_wrapper_sees_the_mask(
        self, model: BertModel, part: str, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of every part, and the results stay as they are."""
        torch.manual_seed(0)
        expected = both_layouts(model)
        masks = []

        def wrapped(forward: Any) -> Any:
            @functools.wraps(forward)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                # On the module `forward` is bound, so the states come first.
                masks.append(args[1 if place == "module" else 2])
                return forward(*args, **kwargs)

            return wrapper

        if place == "class":
            kind = {"attention.self": BertSelfAttention, "attention": BertAttention, "": BertLayer}
            monkeypatch.setattr(kind[part], "forward", wrapped(kind[part].forward))
        else:
            for layer in model.encoder.layer:
                module: Any = layer.get_submodule(part)
                module.forward = wrapped(module.forward)
        torch.manual_seed(0)
        torch.testing.assert_close(both_layouts(model), expected)
        assert len(masks) == 2 * len(model.encoder.layer)
        assert all(mask.shape == (3, 1, 1, 11) and mask.min() < -1e38 for mask in masks)

    def test_attention_probabilities_pass_through_a_wrapper(self, model: BertModel) -> None:
        batch = ragged_batch(model.config)
        expected = model(**batch, output_attentions=True).attentions
        for layer in model.encoder.layer:
            for module in (layer, layer.attention, layer.attention.self):
                forward = module.forward
                module.forward = lambda *args, forward=forward, **kw: forward(*args, **kw)
        received = model(**batch, output_attentions=True).attentions
        assert all(map(torch.equal, received, expected))

    def test_a_forward_that_names_a_layout_gets_one(self, model: BertModel) -> None:
        layouts = []

        class Own(BertSelfAttention):
            def forward(self, hidden_states: Tensor, layout: Any = None, **kwargs: Any) -> Any:
                layouts.append(layout)
                return super().forward(hidden_states, layout, **kwargs)

        torch.manual_seed(0)
        expected = both_layouts(model)
        for layer in model.encoder.layer:
            layer.attention.self.__class__ = Own
        torch.manual_seed(0)
        assert all(map(torch.equal, both_layouts(model), expected))
        assert [layout.is_packed for layout in layouts] == [False, False, True, True]

    def test_copies_keep_it(self, model: BertModel) -> None:
        model.encoder.layer[0].attention.self = OwnAttention(model.config)
        for layout in (None, PackedLayout([5])):
            ids = torch.randint(1, 99, (1, 5))
            ids = ids if layout is None else ids[0]
            states = model(ids, layout=layout).last_hidden_state
            assert torch.equal(copy.deepcopy(model)(ids, layout=layout).last_hidden_state, states)


class OwnAttention(BertSelfAttention):
    forward = reference


MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
ADDITIVE = (1.0 - MASK[:, None, None]) * torch.finfo(torch.float32).min
NOTHING: list[dict[str, Any]] = [
    {},
    {"head_mask": None, "output_attentions": False},
    {"head_mask": [None, None], "return_dict": True},
    {"encoder_hidden_states": None, "past_key_values": None, "use_cache": False},
    {"layer_head_mask": None, "past_key_value": None, "encoder_attention_mask": None},
    {"use_cache": True, "cache_position": None, "output_hidden_states": None},
]


def parts(model: BertModel) -> dict[str, Any]:
    layer: Any = model.encoder.layer[0]
    return {
        "encoder": model.encoder,
        "layer": layer,
        "attention": layer.attention,
        "self": layer.attention.self,
    }


def first(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


@pytest.mark.parametrize("part", ["encoder", "layer", "attention", "self"])
class TestPartsCalledAlone:
    """Parts take the arguments of transformers, by position and by name."""

    @pytest.mark.parametrize("keywords", NOTHING, ids=lambda keywords: "-".join(keywords))
    @pytest.mark.parametrize("mask", [MASK, ADDITIVE, None], ids=["01", "additive", "none"])
    def test_keywords_that_ask_for_nothing(
        self, part: str, keywords: dict[str, Any], mask: Tensor | None
    ) -> None:
        module = parts(BertModel(tiny_config()).eval())[part]
        states = torch.randn(2, 4, 32)
        layout = PaddedLayout(mask)
        keywords = {k: v for k, v in keywords.items() if part != "encoder" or "output" not in k}
        expected = first(module(states, layout))
        assert torch.equal(first(module(states, attention_mask=mask, **keywords)), expected)
        assert torch.equal(first(module(states, mask, **keywords)), expected)
        assert torch.equal(first(module(states, mask, None, **keywords)), expected)

    @pytest.mark.parametrize(
        ("keywords", "error", "message"),
        [
            ({"head_mask": torch.ones(4)}, ValueError, "head_mask is not supported"),
            ({"past_key_values": (1,)}, ValueError, "past_key_values is not supported: it is for"),
            ({"encoder_hidden_states": torch.ones(1)}, ValueError, "is for decoders, but minibert"),
            ({"attention_masc": None}, TypeError, "unexpected keyword argument 'attention_masc'"),
        ],
    )
    def test_others_raise_an_error(
        self, part: str, keywords: dict[str, Any], error: Any, message: str
    ) -> None:
        module = parts(BertModel(tiny_config()).eval())[part]
        with pytest.raises(error, match=message):
            module(torch.randn(2, 4, 32), **keywords)
        with pytest.raises(ValueError, match="encoder_hidden_states is not supported"):
            module(torch.randn(2, 4, 32), None, torch.ones(2, 4, 32))

    def test_the_config_names_the_attention_function(self, part: str) -> None:
        module = parts(BertModel(tiny_config(attn_implementation="eager")).eval())[part]
        states = torch.randn(2, 4, 32)
        expected = first(module(states, attend=eager_attention))
        assert torch.equal(first(module(states)), expected)


def test_self_attention_alone() -> None:
    attention = BertSelfAttention(tiny_config())
    context, probabilities = attention(torch.randn(2, 7, 32))
    assert context.shape == (2, 7, 32) and probabilities is None
    assert attention.attention_head_size == 8


@pytest.mark.parametrize("function", ["eager", "sdpa"])
def test_a_scale_of_ones_own(function: str) -> None:
    """A scale that is assigned has the effect that it has in transformers."""
    transformers = pytest.importorskip("transformers")
    model = BertModel(tiny_config(attn_implementation=function)).eval()
    config = transformers.BertConfig(**model.config.to_dict(), attn_implementation=function)
    theirs = transformers.BertModel(config).eval()
    for layer in model.encoder.layer:
        layer.attention.self.query.weight.data *= 50  # so that the probabilities are not all alike
    theirs.load_state_dict(model.state_dict())
    batch = ragged_batch(model.config)
    before = model(**batch).last_hidden_state
    for layers in (model.encoder.layer, theirs.encoder.layer):
        layers[0].attention.self.scaling = 1.0
        layers[1].attention.self.scaling = 0.1
    received = model(**batch).last_hidden_state
    torch.testing.assert_close(received, theirs(**batch).last_hidden_state)
    assert not torch.allclose(received, before, atol=1e-4)
    with pytest.raises(ValueError, match="attention.self.scaling is 1, but"):
        minibert.optimize(model)


@pytest.mark.parametrize("function", ["eager", "sdpa"])
def test_a_scale_that_was_not_changed_changes_no_bit(function: str) -> None:
    """3**-0.5 * 3**0.5 is not 1 in float64, so nothing may be multiplied by it."""
    config = tiny_config(hidden_size=12, attn_implementation=function)
    attention = BertSelfAttention(config).double().eval()
    x = torch.randn(1, 5, 12, dtype=torch.float64)
    projections = (attention.query, attention.key, attention.value)
    parts = [projection(x).unflatten(-1, (4, 3)) for projection in projections]
    expected, _ = ATTENTION_FUNCTIONS[function](*parts, PaddedLayout(), 0.0)
    assert torch.equal(attention(x)[0], expected)


@pytest.mark.parametrize("function", ["eager", "sdpa"])
def test_dropout_of_the_probabilities(function: str) -> None:
    """Half of the keys are left out, and the others count twice, each query for itself."""
    states, ones = torch.zeros(1, 8, 2, 4), torch.ones(1, 8, 2, 4)
    attend = ATTENTION_FUNCTIONS[function]
    context, _ = attend(states, states, ones, PaddedLayout(), 0.5)
    kept = context * 4  # of 8 keys
    torch.testing.assert_close(kept, kept.round())
    assert len(kept.unique()) > 2
    without, _ = attend(states, states, ones, PaddedLayout(), 0.0)
    torch.testing.assert_close(without, torch.ones(1, 8, 8))


def test_heads_that_do_not_divide_the_width_raise_an_error() -> None:
    config = tiny_config()
    config.num_attention_heads = 5
    with pytest.raises(ValueError, match=r"hidden_size \(32\) should be a multiple of num_att"):
        nn.ModuleList([BertSelfAttention(config)])
