"""Layer choices and poolings against plain tensor arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ragged_batch, tiny_config, with_reference
from hypothesis import given, strategies as st
from plain_pooling import OF_TOKENS, pooled
from torch import Tensor

from minibert import PackedLayout
from minibert.encoders.arithmetic.pooling import (
    POOLINGS,
    combine_layers,
    pool,
    resolve_layers,
    unpad,
)


@pytest.fixture(scope="module")
def hidden_states() -> tuple[Tensor, ...]:
    """Hidden states of a transformers model: embeddings and six layers of (batch, seq, hidden)."""
    torch.manual_seed(0)
    config = tiny_config(num_hidden_layers=6)
    _, theirs = with_reference("BertModel", config)
    with torch.inference_mode():
        return theirs(**ragged_batch(config), output_hidden_states=True).hidden_states


class TestLayers:
    def test_single_layers(self, hidden_states: tuple[Tensor, ...]) -> None:
        assert torch.equal(combine_layers(hidden_states, "embeddings"), hidden_states[0])
        assert torch.equal(combine_layers(hidden_states, "last"), hidden_states[-1])
        assert torch.equal(combine_layers(hidden_states, "second_to_last"), hidden_states[-2])
        assert torch.equal(combine_layers(hidden_states, [3]), hidden_states[3])

    def test_concatenated_layers(self, hidden_states: tuple[Tensor, ...]) -> None:
        h = hidden_states
        assert torch.equal(
            combine_layers(h, "concat_last_4"), torch.cat([h[3], h[4], h[5], h[6]], dim=-1)
        )
        assert torch.equal(combine_layers(h, [-1, 0]), torch.cat([h[6], h[0]], dim=-1))

    def test_sums_count_each_layer_once_unless_weights_are_given(
        self, hidden_states: tuple[Tensor, ...]
    ) -> None:
        h = hidden_states
        torch.testing.assert_close(combine_layers(h, "sum_last_4"), h[3] + h[4] + h[5] + h[6])
        every = h[1] + h[2] + h[3] + h[4] + h[5] + h[6]
        torch.testing.assert_close(combine_layers(h, "sum_all_12"), every)
        weighted = 0.1 * h[3] + 0.2 * h[4] + 0.3 * h[5] + 0.4 * h[6]
        torch.testing.assert_close(combine_layers(h, "sum_last_4", [0.1, 0.2, 0.3, 0.4]), weighted)
        torch.testing.assert_close(combine_layers(h, [2, 6], [0.5, -1.0]), 0.5 * h[2] - h[6])

    def test_features_are_float32(self, hidden_states: tuple[Tensor, ...]) -> None:
        low = [states.bfloat16() for states in hidden_states]
        assert torch.equal(combine_layers(low, "last"), low[-1].float())

    @pytest.mark.parametrize(
        ("layers", "weights", "message"),
        [
            (
                "first",
                None,
                "layers should be one of embeddings, last, .* or a list of indices, not 'first'",
            ),
            (
                [7],
                None,
                r"layers should lie between 0 \(embeddings\) and 6, .* not \[7\]",
            ),
            ([-8], None, "should lie between 0"),
            ([], None, "should lie between 0"),
            (3, None, r"layers should be a name or a list of indices, such as \[-1\], not 3"),
            ([1.5], None, "layers should be a name or a list of indices"),
            ([1, 2], ["a", "b"], "layer_weights should be a list of numbers"),
            ([1, 2], 0.5, "layer_weights should be a list of numbers, one for each layer, not 0.5"),
            ("sum_last_4", [1.0], "layers 'sum_last_4' takes 4 weights, one for each layer, not 1"),
            (
                "concat_last_4",
                [1.0] * 4,
                "layer_weights is for a sum or a list of layers, not for 'concat_last_4'",
            ),
        ],
    )
    def test_invalid_layers(self, layers: Any, weights: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            resolve_layers(layers, 6, weights)

    def test_arrays_of_indices_and_weights(self) -> None:
        layers, weights = resolve_layers(np.array([-1, 2]), 6, np.array([0.5, 0.25]))
        assert (layers, weights) == ([6, 2], [0.5, 0.25])
        assert {type(value) for value in layers} == {int}

    def test_too_few_layers(self) -> None:
        with pytest.raises(ValueError, match="layers should lie between .* not 'sum_last_4'"):
            resolve_layers("sum_last_4", 2)


def padded_rows(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Texts, (tokens, hidden) each, as a padded batch, (batch, seq, hidden), and its mask."""
    padded = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=1e9)
    lengths = torch.tensor([len(part) for part in parts])
    return padded, torch.arange(padded.shape[1])[None] < lengths[:, None]


class TestPool:
    @pytest.mark.parametrize("skip", [0, 2])
    @pytest.mark.parametrize("pooling", OF_TOKENS)
    def test_against_plain_arithmetic(self, pooling: str, skip: int) -> None:
        lengths = [skip + 4, skip + 1, skip + 4]
        parts = torch.randn(sum(lengths), 5).split(lengths)
        expected = torch.stack([pooled(part, pooling, skip) for part in parts])
        torch.testing.assert_close(pool(torch.cat(parts), lengths, pooling, skip=skip), expected)
        padded, mask = padded_rows(parts)
        torch.testing.assert_close(pool(padded, mask, pooling, skip=skip), expected)

    @pytest.mark.parametrize("pooling", OF_TOKENS)
    def test_gradients(self, pooling: str) -> None:
        """They are those of the formula, and finite numbers where tokens are equal."""
        lengths = [4, 1, 3]
        states = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)

        def vectors(states: Tensor) -> tuple[Tensor, Tensor]:
            parts = states.split(lengths)
            return pool(states, lengths, pooling), pool(*padded_rows(parts), pooling)

        assert torch.autograd.gradcheck(vectors, states)
        equal = torch.ones(8, 2, requires_grad=True)
        for pooled_rows in vectors(equal):
            (gradient,) = torch.autograd.grad(pooled_rows.sum(), equal, retain_graph=True)
            assert gradient.isfinite().all()

    def test_pooler_is_the_pooler_output(self) -> None:
        output = torch.randn(2, 5)
        assert torch.equal(pool(torch.randn(6, 5), [4, 2], "pooler", pooler_output=output), output)
        with pytest.raises(ValueError, match="not 'pooler' \\(which needs pooler_output\\)"):
            pool(torch.randn(6, 5), [4, 2], "pooler")

    def test_several_poolings_are_concatenated(self) -> None:
        states = torch.randn(6, 5)
        both = pool(states, [4, 2], ["max", "cls"])
        assert torch.equal(
            both, torch.cat([pool(states, [4, 2], "max"), pool(states, [4, 2], "cls")], dim=1)
        )

    @given(
        st.lists(st.integers(1, 12), min_size=1, max_size=8),
        st.sampled_from(OF_TOKENS),
    )
    def test_padding_is_not_pooled(self, lengths: list[int], pooling: str) -> None:
        states = torch.randn(sum(lengths), 3)
        rows, counts = unpad(*padded_rows(states.split(lengths)))
        assert counts == lengths
        assert torch.equal(pool(rows, counts, pooling), pool(states, lengths, pooling))

    def test_mistakes(self) -> None:
        with pytest.raises(
            ValueError, match="pooling should be one of cls, pooler, .*, not 'average'"
        ):
            pool(torch.randn(3, 2), [3], "average")
        with pytest.raises(ValueError, match="more than 1 tokens .*not 1"):
            pool(torch.randn(3, 2), [2, 1], skip=1)

    @pytest.mark.parametrize("skip", [0, 2])
    @pytest.mark.parametrize("pooling", OF_TOKENS)
    def test_no_sequences(self, pooling: str, skip: int) -> None:
        assert pool(torch.empty(0, 3), [], pooling, skip=skip).shape == (0, 3)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_packed_and_padded_give_the_same_vectors(lengths: list[int]) -> None:
    ours, _ = with_reference("BertModel", tiny_config())
    batch = ragged_batch(ours.config, tuple(lengths))
    packed_ids = batch["input_ids"][batch["attention_mask"].bool()]
    segments = batch["token_type_ids"][batch["attention_mask"].bool()]
    with torch.inference_mode():
        padded = ours(**batch, output_hidden_states=True)
        packed = ours(
            packed_ids,
            token_type_ids=segments,
            layout=PackedLayout(lengths),
            output_hidden_states=True,
        )
    for layers in ("last", "sum_all_12"):
        rows, counts = unpad(combine_layers(padded.hidden_states, layers), batch["attention_mask"])
        features = combine_layers(packed.hidden_states, layers)
        for pooling in POOLINGS:
            ours_padded = pool(rows, counts, pooling, pooler_output=padded.pooler_output)
            ours_packed = pool(features, lengths, pooling, pooler_output=packed.pooler_output)
            assert (ours_padded - ours_packed).abs().max() <= 1e-6 * max(
                1, ours_padded.abs().max().item()
            )


@pytest.mark.parametrize("pooling", OF_TOKENS)
def test_padding_on_either_side_is_not_pooled(pooling: str) -> None:
    """Vectors are those of each sequence alone, for which a weight counts from its own place."""
    states = torch.randn(2, 4, 8)
    right = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]])
    for row, length in enumerate((2, 3)):
        alone = pool(states[row, :length], [length], pooling)
        torch.testing.assert_close(pool(states, right, pooling)[row], alone[0])
    if pooling != "weightedmean":  # whose weights are those of the padded places
        left = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
        for row, length in enumerate((2, 3)):
            alone = pool(states[row, -length:], [length], pooling)
            torch.testing.assert_close(pool(states, left, pooling)[row], alone[0])


def test_defaults_are_the_last_layer_and_the_mean() -> None:
    states = torch.randn(3, 4, 8)
    assert torch.equal(combine_layers(states.unbind()), states[-1])
    torch.testing.assert_close(pool(states[0], [4]), states[0].mean(0, keepdim=True))


def test_states_keep_float64_and_gain_float32() -> None:
    for dtype, expected in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ):
        assert pool(torch.ones(2, 3, dtype=dtype), [2]).dtype == expected


@pytest.mark.parametrize("weights", [[float("nan"), 1.0], [0.0, 0.0]])
def test_weights_that_give_no_vector_raise_an_error(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="layer_weights should"):
        resolve_layers([0, 1], 2, weights)
