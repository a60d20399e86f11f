"""Users' own poolers, activations, layers and attention in place of minibert's."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config
from torch import Tensor, nn

import minibert
from minibert import BertForSequenceClassification, BertModel, PackedLayout
from minibert.attention import eager_attention
from minibert.encoder import BertLayer
from minibert.layouts import PaddedLayout

LENGTHS = [5, 5, 2]


@pytest.fixture
def model() -> BertModel:
    return BertModel(tiny_config()).eval()


def padded_and_packed(model: BertModel) -> tuple[Any, Any]:
    """Return the model's outputs for the same sequences, padded and packed."""
    ids = [torch.randint(1, 99, (length,)) for length in LENGTHS]
    padded = nn.utils.rnn.pad_sequence(ids, batch_first=True)
    packed = model(torch.cat(ids), layout=PackedLayout(LENGTHS))
    return model(padded, attention_mask=(padded > 0).long()), packed


class MeanPooler(nn.Module):
    """The mean of all tokens, padding included."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        return hidden_states.mean(1)


class TestPooler:
    def test_its_activation_can_be_read_and_replaced(self, model: BertModel) -> None:
        assert isinstance(model.pooler.activation, nn.Tanh)
        assert not any("activation" in name for name in model.state_dict())
        model.pooler.activation = nn.ReLU()
        out = model(**ragged_batch(model.config))
        expected = model.pooler.dense(out.last_hidden_state[:, 0]).relu()
        assert torch.equal(out.pooler_output, expected)

    def test_identity(self, model: BertModel) -> None:
        model.pooler = nn.Identity()
        out = model(**ragged_batch(model.config))
        assert torch.equal(out.pooler_output, out.last_hidden_state)

    @pytest.mark.parametrize(
        "pooler",
        [MeanPooler(), nn.Sequential(nn.Linear(32, 32), MeanPooler())],
        ids=["class", "sequential"],
    )
    def test_a_custom_module(self, model: BertModel, pooler: nn.Module) -> None:
        model.pooler = pooler
        out = model(**ragged_batch(model.config))
        assert torch.equal(out.pooler_output, pooler(out.last_hidden_state))

    def test_it_gets_padded_sequences_from_a_packed_batch(self, model: BertModel) -> None:
        model.pooler = nn.Identity()
        padded, packed = padded_and_packed(model)
        assert packed.pooler_output.shape == (3, 5, 32)
        for row, length in enumerate(LENGTHS):
            torch.testing.assert_close(
                packed.pooler_output[row, :length], padded.pooler_output[row, :length]
            )
            assert not packed.pooler_output[row, length:].any()
        empty = model(torch.zeros(0, dtype=torch.long), layout=PackedLayout([]))
        assert empty.pooler_output.shape == (0, 0, 32)

    def test_a_head_uses_it(self) -> None:
        model = BertForSequenceClassification(tiny_config()).eval()
        model.bert.pooler = MeanPooler()
        batch = ragged_batch(model.config)
        states = model.bert(**batch).last_hidden_state
        assert torch.equal(model(**batch).logits, model.classifier(states.mean(1)))

    def test_it_works_with_optimize_and_trace(self, model: BertModel) -> None:
        model.pooler = MeanPooler()
        batch = ragged_batch(model.config)
        expected = model(**batch).pooler_output
        torch.testing.assert_close(minibert.optimize(model)(**batch).pooler_output, expected)
        with minibert.trace(model) as trace:
            model(**batch)
        assert torch.equal(trace["pooler.output"], expected)


class TransformersLayer(nn.Module):
    """A layer with the API of transformers, which adds the mean over the unmasked tokens."""

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor]:
        weights = torch.zeros(hidden_states.shape[0], 1, 1, hidden_states.shape[1])
        if attention_mask is not None:
            weights = weights + attention_mask
        weights = weights.softmax(-1)[:, 0]  # (batch, 1, seq)
        return (hidden_states + weights @ hidden_states,)


class Wrapper(nn.Module):
    """Pass all arguments on."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        return self.inner(hidden_states, *args, **kwargs)


class KeywordWrapper(Wrapper):
    """Pass keyword arguments on, and take no others."""

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Any:
        return self.inner(hidden_states, **kwargs)


class DoublingLayer(BertLayer):
    """A subclass whose forward takes fewer arguments."""

    def forward(self, hidden_states: Tensor, layout: Any = None) -> Tensor:  # type: ignore[override]
        return 2 * super().forward(hidden_states, layout)


class TestLayer:
    def test_identity(self, model: BertModel) -> None:
        batch = ragged_batch(model.config)
        states = model(**batch, output_hidden_states=True).hidden_states
        model.encoder.layer[1] = nn.Identity()
        assert torch.equal(model(**batch).last_hidden_state, states[1])

    @pytest.mark.parametrize("wrapper", [Wrapper, KeywordWrapper])
    def test_a_wrapper_changes_nothing(self, model: BertModel, wrapper: type[Wrapper]) -> None:
        batch = ragged_batch(model.config)
        expected = model(**batch, output_attentions=True)
        plain = model(**batch).last_hidden_state
        model.encoder.layer[0] = wrapper(model.encoder.layer[0])
        layer = model.encoder.layer[1]
        layer.attention = wrapper(layer.attention)
        assert torch.equal(model(**batch).last_hidden_state, plain)
        out = model(**batch, output_attentions=True)
        assert torch.equal(out.last_hidden_state, expected.last_hidden_state)
        assert all(map(torch.equal, out.attentions, expected.attentions))

    def test_a_subclass(self, model: BertModel) -> None:
        batch = ragged_batch(model.config)
        layout = PaddedLayout(batch["attention_mask"])
        layer = DoublingLayer(model.config).eval()
        model.encoder.layer[1] = layer
        states = model(**batch, output_hidden_states=True).hidden_states
        expected = 2 * BertLayer.forward(layer, states[1], layout)
        assert torch.equal(states[2], expected)

    def test_a_layer_with_the_api_of_transformers_in_both_layouts(self, model: BertModel) -> None:
        model.encoder.layer[0] = TransformersLayer()
        padded, packed = padded_and_packed(model)
        rows = [padded.last_hidden_state[i, :length] for i, length in enumerate(LENGTHS)]
        torch.testing.assert_close(packed.last_hidden_state, torch.cat(rows), rtol=0, atol=1e-6)

    def test_a_layer_of_transformers_gives_the_same_output(self, model: BertModel) -> None:
        transformers = pytest.importorskip("transformers")
        modeling = transformers.models.bert.modeling_bert
        config = transformers.BertConfig(
            **{**model.config.to_dict(), "attn_implementation": "eager"}
        )
        config._attn_implementation = "eager"
        layer = modeling.BertLayer(config).eval()
        layer.load_state_dict(model.encoder.layer[1].state_dict())
        batch = ragged_batch(model.config)
        model.config.attn_implementation = "eager"
        expected = model(**batch).last_hidden_state
        model.encoder.layer[1] = layer
        assert torch.equal(model(**batch).last_hidden_state, expected)

    def test_gradient_checkpointing(self, model: BertModel) -> None:
        model.encoder.layer[0] = TransformersLayer()
        model.gradient_checkpointing_enable()
        out = model.train()(**ragged_batch(model.config))
        out.last_hidden_state.sum().backward()
        assert model.embeddings.word_embeddings.weight.grad is not None

    def test_missing_attention_probabilities_raise_an_error(self, model: BertModel) -> None:
        model.encoder.layer[0] = nn.Identity()
        with pytest.raises(ValueError, match="attention probabilities of 2 layers, but 1 returned"):
            model(**ragged_batch(model.config), output_attentions=True)

    @pytest.mark.parametrize("part", ["layer", "attention"])
    def test_a_wrong_shape_raises_an_error(self, model: BertModel, part: str) -> None:
        """In a packed batch. That of a padded one is torch's, where the next part does not fit."""
        if part == "layer":
            model.encoder.layer[0] = nn.Linear(32, 16)
        else:
            model.encoder.layer[0].attention.self = nn.Linear(32, 16)
        message = r"Linear should return hidden states of shape \(3, 11, 32\), not \(3, 11, 16\)"
        batch = ragged_batch(model.config)
        with pytest.raises(ValueError, match=message):
            model(batch["input_ids"].flatten(), layout=PackedLayout([11, 11, 11]))
        with pytest.raises(RuntimeError):
            model(**batch)

    def test_a_wrong_type_raises_an_error(self, model: BertModel) -> None:
        class Silent(nn.Module):
            def forward(self, hidden_states: Tensor) -> None:
                return None

        model.encoder.layer[0] = Silent()
        with pytest.raises(ValueError, match="Silent should return hidden states .*, not NoneType"):
            model(**ragged_batch(model.config))

    def test_optimize_and_trace_raise_an_error(self, model: BertModel) -> None:
        model.encoder.layer[1] = nn.Identity()
        with pytest.raises(
            ValueError, match=r"encoder\.layer\.1 is of class Identity, but optimize can"
        ):
            minibert.optimize(model)
        with pytest.raises(ValueError, match="or whose layers have been replaced"):
            minibert.trace(model)


class TestSelfAttention:
    def test_attention_with_the_api_of_transformers(self, model: BertModel) -> None:
        """It gets an additive mask, and may return its probabilities."""
        masks = []

        class Attention(nn.Module):
            def forward(
                self, hidden_states: Tensor, attention_mask: Tensor | None = None
            ) -> tuple[Tensor, Tensor]:
                masks.append(attention_mask)
                return hidden_states, torch.zeros(3, 4, 11, 11)

        for layer in model.encoder.layer:
            layer.attention.self = Attention()
        batch = ragged_batch(model.config)
        out = model(**batch, output_attentions=True)
        assert len(out.attentions) == 2 and not out.attentions[0].any()
        assert torch.equal(masks[0][:, 0, 0] == 0, batch["attention_mask"].bool())
        assert (masks[0].min() == torch.finfo(torch.float32).min).item()
        with pytest.raises(ValueError, match=r"layer\.0\.attention\.self is of class Attention"):
            minibert.optimize(model)


def copied_attention(self: Any, hidden_states: Tensor, attention_mask: Any = None, **_: Any) -> Any:
    """Compute as `BertSelfAttention.forward` of transformers does."""
    shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
    query, key, value = (
        linear(hidden_states).view(shape).transpose(1, 2)
        for linear in (self.query, self.key, self.value)
    )
    scores = query @ key.mT * self.scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    context = scores.softmax(-1) @ value
    return context.transpose(1, 2).reshape(hidden_states.shape), None


def copied_layer(self: Any, hidden_states: Tensor, attention_mask: Any = None, *_: Any) -> Any:
    """Compute as `BertLayer.forward` of transformers does, chunks included."""
    assert not (self.is_decoder or self.add_cross_attention)
    attended, _ = self.attention(hidden_states, attention_mask, past_key_values=None)
    assert not self.chunk_size_feed_forward and attended.shape[self.seq_len_dim] == 11
    return self.feed_forward_chunk(attended)


def copied_encoder(
    self: Any,
    hidden_states: Tensor,
    attention_mask: Any = None,
    encoder_hidden_states: Any = None,
    **options: Any,
) -> Any:
    """Call layers as `BertEncoder.forward` of transformers does."""
    for layer in self.layer:
        hidden_states = layer(hidden_states, attention_mask, encoder_hidden_states, **options)
    return (hidden_states,)


@pytest.mark.parametrize("part", ["attention", "layer", "encoder"])
def test_a_forward_copied_from_transformers(model: BertModel, part: str) -> None:
    batch = ragged_batch(model.config)
    expected = model(**batch).last_hidden_state
    for layer in model.encoder.layer:
        if part == "attention":
            attention = layer.attention.self
            attention.forward = types.MethodType(copied_attention, attention)
        elif part == "layer":
            layer.forward = types.MethodType(copied_layer, layer)
    if part == "encoder":
        model.encoder.forward = types.MethodType(copied_encoder, model.encoder)
    torch.testing.assert_close(model(**batch).last_hidden_state, expected)


def test_masks_in_place_of_a_layout(model: BertModel) -> None:
    """The encoder and its parts take a mask, as in transformers."""
    batch = ragged_batch(model.config)
    mask = batch["attention_mask"]
    added = (1.0 - mask[:, None, None, :]) * torch.finfo(torch.float32).min
    states = model.embeddings(batch["input_ids"], batch["token_type_ids"]).detach()
    expected = model(**batch).last_hidden_state
    for attention_mask in (mask, mask.bool(), added):
        assert torch.equal(model.encoder(states, attention_mask).last_hidden_state, expected)
        out = model.encoder(states, attention_mask=attention_mask)
        assert torch.equal(out.last_hidden_state, expected)
        fast = minibert.optimize(model).encoder(states, attention_mask=attention_mask)
        torch.testing.assert_close(fast.last_hidden_state, expected)
        hidden_states = states
        for layer in model.encoder.layer:
            hidden_states = layer(hidden_states, attention_mask)
        assert torch.equal(hidden_states, expected)
    unmasked = model(batch["input_ids"], token_type_ids=batch["token_type_ids"]).last_hidden_state
    assert torch.equal(model.encoder(states, None).last_hidden_state, unmasked)
    with pytest.raises(ValueError, match="attention_mask should be a tensor, not str"):
        model.encoder(states, "mask")
    with pytest.raises(ValueError, match=r"shape \(3, 2\), but hidden_states has tokens of shape"):
        model.encoder(states, mask[:, :2])


def test_attentions_need_eager_attention(model: BertModel) -> None:
    states = torch.zeros(1, 3, 32)
    with pytest.raises(ValueError, match="2 layers, but 0 returned some. Use an attention"):
        model.encoder(states, output_attentions=True)
    out = model.encoder(states, attend=eager_attention, output_attentions=True)
    assert len(out.attentions) == 2


def test_attributes_that_public_code_uses(model: BertModel) -> None:
    assert model.encoder.layer[0].attention.self.all_head_size == 32
    embeddings = model.embeddings
    assert not embeddings.token_type_ids.any() and embeddings.token_type_ids.shape == (1, 64)
    # Code that extends a model to longer sequences does this.
    embeddings.position_embeddings = nn.Embedding(80, 32)
    embeddings.position_ids = torch.arange(80)[None]
    embeddings.register_buffer("position_ids", torch.arange(80).expand((1, -1)))
    assert torch.equal(embeddings.position_ids, torch.arange(80)[None])
    assert model(torch.ones(1, 70, dtype=torch.long)).last_hidden_state.shape == (1, 70, 32)
    with pytest.raises(ValueError, match=r"position_ids should be 0, 1, 2, .* Pass other"):
        embeddings.position_ids = torch.arange(2, 82)[None]


@pytest.mark.parametrize("kind", [list, Tensor.numpy])
def test_labels_that_are_not_a_tensor_raise_an_error(kind: Any) -> None:
    ids = torch.ones(2, 3, dtype=torch.long)
    labels = kind(torch.tensor([0, 1]))
    name = type(labels).__name__
    for head in ("SequenceClassification", "NextSentencePrediction", "MaskedLM"):
        model = getattr(minibert, f"BertFor{head}")(tiny_config())
        with pytest.raises(
            ValueError, match=rf"labels should be a tensor, not {name}: pass torch.tensor\(labels\)"
        ):
            model(ids, labels=labels)
    answers = minibert.BertForQuestionAnswering(tiny_config())
    with pytest.raises(ValueError, match=f"positions should be a tensor, not {name}"):
        answers(ids, start_positions=labels, end_positions=labels)


def test_a_compiled_model_knows_its_own_parts(
    model: BertModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were called as a user's, and Dynamo warned of it."""
    from minibert.parts import custom

    def refuse(part: nn.Module, *_: Any) -> None:
        raise AssertionError(f"{type(part).__name__} is minibert's own")

    monkeypatch.setattr(custom, "call_custom", refuse)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    batch = ragged_batch(model.config)
    assert torch.equal(compiled(**batch).pooler_output, model(**batch).pooler_output)
    ids = torch.randint(1, 99, (5,))
    with pytest.raises(ValueError, match="tokens of shape"):  # the layout checks what it is for
        torch.compile(model, backend="eager")(ids)
