"""Embeddings: their formula, positions of any number, and modules in their place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import ragged_batch, tiny_config
from torch import Tensor, nn

import minibert
from minibert import BertModel, PackedLayout
from minibert.embeddings import BertEmbeddings


@pytest.fixture
def model() -> BertModel:
    return BertModel(tiny_config()).eval()


def test_the_formula() -> None:
    """LayerNorm(word + segment + position), in this order."""
    embeddings = BertEmbeddings(tiny_config()).eval()
    ids, segments = torch.tensor([[5, 7, 9]]), torch.tensor([[0, 0, 1]])
    words = embeddings.word_embeddings.weight[ids]
    total = words + embeddings.token_type_embeddings.weight[segments]
    total = total + embeddings.position_embeddings.weight[:3]
    assert torch.equal(embeddings(ids, segments), embeddings.LayerNorm(total))


def test_the_padding_is_not_learned() -> None:
    embeddings = BertEmbeddings(tiny_config(pad_token_id=3)).eval()
    embeddings(torch.tensor([[3, 4]])).pow(3).sum().backward()
    gradient = embeddings.word_embeddings.weight.grad
    assert gradient is not None and not gradient[3].any() and gradient[4].any()


def test_a_large_epsilon_makes_states_small() -> None:
    """Numbers of variance 1 become those of variance 1 / (1 + 99)."""
    embeddings = BertEmbeddings(tiny_config(layer_norm_eps=99.0)).eval()
    words = torch.tensor([1.0, -1.0]).repeat(16)
    with torch.no_grad():
        embeddings.position_embeddings.weight.zero_()
        embeddings.token_type_embeddings.weight.zero_()
    states = embeddings(inputs_embeds=words[None, None])
    torch.testing.assert_close(states[0, 0], words * 0.1)


def test_all_positions_can_be_read() -> None:
    assert torch.equal(BertEmbeddings(tiny_config()).position_ids, torch.arange(64)[None])


def by_data(table: nn.Embedding, rows: Tensor) -> None:
    table.weight.data = rows


def by_parameter(table: nn.Embedding, rows: Tensor) -> None:
    table.weight = nn.Parameter(rows)


@pytest.mark.parametrize("extend", [by_data, by_parameter])
@pytest.mark.parametrize("ids_first", [False, True])
class TestLongerPositions:
    """The rows of the weight count, as in transformers, and not `num_embeddings`."""

    def longer(self, model: BertModel, extend: Any, ids_first: bool) -> BertModel:
        table = model.embeddings.position_embeddings
        rows = torch.cat([table.weight.data] * 2)
        if ids_first:
            model.embeddings.position_ids = torch.arange(128)[None]
        extend(table, rows)
        if not ids_first:
            model.embeddings.register_buffer("position_ids", torch.arange(128)[None])
        return model

    def test_padded_and_packed(self, model: BertModel, extend: Any, ids_first: bool) -> None:
        self.longer(model, extend, ids_first)
        ids = torch.randint(1, 99, (1, 100))
        states = model(ids).last_hidden_state
        packed = model(ids[0], layout=PackedLayout([100])).last_hidden_state
        torch.testing.assert_close(packed, states[0])
        assert model.embeddings.position_ids.shape == (1, 128)
        # The second half of the table equals the first.
        assert torch.equal(model.embeddings(ids)[0, 64:], model.embeddings(ids[:, 64:])[0])
        with pytest.raises(ValueError, match="has 129 tokens, but max_position_embeddings is 128"):
            model(torch.ones(1, 129, dtype=torch.long))

    def test_saving(self, model: BertModel, extend: Any, ids_first: bool, tmp_path: Any) -> None:
        self.longer(model, extend, ids_first).config.max_position_embeddings = 128
        model.save_pretrained(tmp_path)
        ids = torch.randint(1, 99, (1, 100))
        again = BertModel.from_pretrained(tmp_path)
        assert torch.equal(again(ids).last_hidden_state, model(ids).last_hidden_state)


@pytest.mark.parametrize("layout", [PackedLayout([65]), PackedLayout([3, 65])])
def test_a_packed_sequence_that_is_too_long_raises_an_error(
    model: BertModel, layout: PackedLayout
) -> None:
    ids = torch.ones(sum(layout.lengths), dtype=torch.long)
    with pytest.raises(ValueError, match="The sequence has 65 tokens, but max_position_embeddings"):
        model(ids, layout=layout)


def test_positions_have_a_batch_axis(model: BertModel) -> None:
    """As in transformers: gradients of each sample are wrong for what all samples share."""
    shapes = []
    table = model.embeddings.position_embeddings
    table.register_forward_hook(lambda _, ids, __: shapes.append(tuple(ids[0].shape)))
    for batch in (1, 4):
        model(torch.ones(batch, 4, dtype=torch.long))
    assert shapes == [(1, 4), (1, 4)]


class Features(nn.Module):
    """Features of any kind in the place of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 32)

    def forward(self, input_ids: Tensor | None = None, **unused: Any) -> Tensor:
        return self.linear(input_ids)


class Given(nn.Module):
    """Whole embeddings in the place of ids, as captum passes them."""

    def forward(self, input_ids: Tensor | None = None, **unused: Any) -> Tensor:
        assert input_ids is not None
        return input_ids


class Wrapped(nn.Module):
    """The original embeddings, or whole ones."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: Tensor | None = None, *args: Any, **kwargs: Any) -> Tensor:
        if input_ids is not None and input_ids.is_floating_point():
            return input_ids
        return self.inner(input_ids, *args, **kwargs)


@pytest.mark.parametrize("name", ["BertModel", "BertForQuestionAnswering", "BertForMaskedLM"])
@pytest.mark.parametrize("kind", [Given, Wrapped])
def test_whole_embeddings_in_place_of_ids(name: str, kind: Any) -> None:
    model = getattr(minibert, name)(tiny_config()).eval()
    batch = ragged_batch(model.config)
    mask = batch.pop("attention_mask")
    base = model.base_model
    whole, expected = base.embeddings(**batch), model(**batch, attention_mask=mask)[0]
    base.embeddings = Given() if kind is Given else Wrapped(base.embeddings)
    assert torch.equal(model(whole, attention_mask=mask)[0], expected)
    if kind is Wrapped:
        assert torch.equal(model(**batch, attention_mask=mask)[0], expected)


def test_features_in_place_of_ids(model: BertModel) -> None:
    model.embeddings = Features()
    features = torch.randn(2, 5, 7)
    assert model(features).last_hidden_state.shape == (2, 5, 32)
    packed = model(features.flatten(0, 1), layout=PackedLayout([5, 5])).last_hidden_state
    torch.testing.assert_close(packed, model(features).last_hidden_state.flatten(0, 1))


def replica(module: Any) -> Any:
    """Return a module as `torch.nn.DataParallel` copies it: its weights are no parameters."""
    twin = module._replicate_for_data_parallel()
    for name, weight in module._parameters.items():
        if weight is not None:
            setattr(twin, name, weight.data.clone())
    for name, child in module._modules.items():
        if child is not None:
            twin._modules[name] = replica(child)
    return twin


@pytest.mark.parametrize("name", ["BertModel", "BertForTokenClassification"])
def test_a_replica_of_data_parallel(name: str) -> None:
    model = getattr(minibert, name)(tiny_config()).eval()
    ids = torch.randint(1, 99, (2, 3))
    words = model.base_model.embeddings.word_embeddings(ids)
    packed = {"input_ids": ids.flatten(), "layout": PackedLayout([3, 3])}
    for inputs in ({"input_ids": ids}, {"inputs_embeds": words}, packed):
        assert torch.equal(replica(model)(**inputs)[0], model(**inputs)[0])


@pytest.mark.parametrize("value", [0, None])
def test_keywords_of_transformers_that_ask_for_nothing(value: Any) -> None:
    """A forward that is copied from transformers passes the length of its empty cache."""
    embeddings, ids = BertEmbeddings(tiny_config()).eval(), torch.tensor([[5, 7, 9]])
    assert torch.equal(embeddings(ids, past_key_values_length=value), embeddings(ids))


def test_keywords_that_ask_for_something_are_refused() -> None:
    embeddings, ids = BertEmbeddings(tiny_config()), torch.tensor([[5, 7, 9]])
    with pytest.raises(ValueError, match="past_key_values_length=3 is not supported.*position_ids"):
        embeddings(ids, past_key_values_length=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'segments'"):
        embeddings(ids, segments=ids)
