"""Layouts: packed sequences have the outputs of padded ones, and never attend to each other."""

from __future__ import annotations

import copy

import pytest
import torch
from conftest import tiny_config
from hypothesis import given, strategies as st

from minibert import BertModel, PackedLayout, PaddedLayout

MODEL = BertModel(tiny_config(), add_pooling_layer=True).eval()


def packed_and_padded(
    lengths: list[int], attention: str
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return each sequence's hidden states and the pooled outputs, from both layouts."""
    MODEL.config = MODEL.config.replace(attn_implementation=attention)
    ids = [torch.randint(1, 99, (length,)) for length in lengths]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(i) for i in ids], batch_first=True)
    with torch.no_grad():
        packed_out = MODEL(torch.cat(ids), layout=PackedLayout(lengths), output_hidden_states=True)
        padded_out = MODEL(padded, attention_mask=mask, output_hidden_states=True)
    ours = [*torch.cat(packed_out.hidden_states, -1).split(lengths), packed_out.pooler_output]
    theirs = [
        torch.cat(padded_out.hidden_states, -1)[i, :length] for i, length in enumerate(lengths)
    ]
    return ours, [*theirs, padded_out.pooler_output]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.sampled_from(["sdpa", "eager"]))
def test_packed_equals_padded(lengths: list[int], attention: str) -> None:
    """Equal up to rounding: a matrix product with other rows may sum in another order."""
    for ours, theirs in zip(*packed_and_padded(lengths, attention), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_packed_sequences_do_not_attend_to_each_other() -> None:
    ids = torch.randint(1, 99, (12,))
    layout = PackedLayout([4, 4, 4])
    with torch.no_grad():
        before = MODEL(ids, layout=layout).last_hidden_state
        ids[:4] = ids[:4].flip(0)
        ids[8:] = 1
        after = MODEL(ids, layout=layout).last_hidden_state
    assert torch.equal(before[4:8], after[4:8])
    assert not torch.equal(before[:4], after[:4])


def test_gradients_of_a_pack() -> None:
    """They equal the sum of each sequence's gradients, in float64 to keep rounding small."""
    model = copy.deepcopy(MODEL).double()
    lengths = [3, 5, 5, 2]
    ids = torch.randint(1, 99, (sum(lengths),))
    model(ids, layout=PackedLayout(lengths)).last_hidden_state.pow(3).sum().backward()
    packed = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    for part in ids.split(lengths):
        model(part[None]).last_hidden_state.pow(3).sum().backward()
    alone = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for ours, theirs in zip(packed, alone, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_positions_restart_in_each_sequence() -> None:
    assert PackedLayout([3, 1, 2]).position_ids().tolist() == [0, 1, 2, 0, 0, 1]


def test_a_mask_that_hides_no_token_becomes_none() -> None:
    assert PaddedLayout(torch.ones(2, 3)).mask is None
    assert PaddedLayout(None).mask is None
    assert PaddedLayout(torch.tensor([[1, 0]])).mask.shape == (1, 1, 1, 2)


@pytest.mark.parametrize("lengths", [[0], [3, 0, 2], [-1]])
def test_bad_lengths(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="but every sequence needs at least one token"):
        PackedLayout(lengths)


def test_lengths_that_do_not_add_up() -> None:
    with pytest.raises(
        ValueError, match=r"tokens of shape \(5,\), as the lengths .* add up to 5, not \(6,\)"
    ):
        MODEL(torch.ones(6, dtype=torch.long), layout=PackedLayout([2, 3]))


def test_an_empty_pack() -> None:
    out = MODEL(torch.zeros(0, dtype=torch.long), layout=PackedLayout([]))
    assert out.last_hidden_state.shape == (0, 32) and out.pooler_output.shape == (0, 32)


def test_invalid_masks_raise_an_error() -> None:
    for shape in ((5,), (2, 1, 1, 5, 5)):
        with pytest.raises(ValueError, match="attention_mask has shape .* should be .batch, seq."):
            PaddedLayout(torch.ones(shape))
    with pytest.raises(
        ValueError,
        match="is added to the scores, so its values should be 0 .visible. or -1000 and less",
    ):
        PaddedLayout(torch.ones(2, 1, 1, 5))
    with pytest.raises(ValueError, match="is added to the scores"):
        PaddedLayout(torch.full((2, 1, 1, 5), torch.nan))
    for wrong in (-1, torch.nan, -10000.0):
        with pytest.raises(
            ValueError, match=f"contains {wrong:g}, but it should be 1 for tokens and 0 for padding"
        ):
            PaddedLayout(torch.tensor([[1, wrong]]))


@pytest.mark.parametrize(
    "shape", [(1, 5), (3, 4), (2, 4, 5), (2, 5, 4), (2, 1, 5, 4), (2, 1, 1, 3)]
)
@pytest.mark.parametrize("hides", [True, False])
def test_masks_of_another_shape_raise_an_error(shape: tuple[int, ...], hides: bool) -> None:
    """The error is the same whether or not they hide a token."""
    mask = torch.ones(shape, dtype=torch.bool)
    mask[..., 0] = not hides
    with pytest.raises(
        ValueError, match=r"attention_mask has shape .*, but input_ids has tokens of shape \(2, 4\)"
    ):
        MODEL(torch.ones(2, 4, dtype=torch.long), attention_mask=mask)


def test_a_mask_that_broadcasts() -> None:
    ids = torch.randint(1, 99, (2, 4))
    mask = torch.tensor([1, 1, 1, 0])
    expected = MODEL(ids, attention_mask=mask.expand(2, 4)).last_hidden_state
    for shape in ((1, 4), (1, 1, 4), (2, 4, 4), (1, 1, 1, 4), (2, 1, 4, 4)):
        states = MODEL(ids, attention_mask=mask.expand(shape)).last_hidden_state
        assert torch.equal(states, expected)


def test_sequences_without_tokens_raise_an_error() -> None:
    with pytest.raises(
        ValueError,
        match=r"tokens of shape \(2, 0\), but every sequence needs at least one token",
    ):
        MODEL(torch.zeros(2, 0, dtype=torch.long))


def test_a_packed_batch_with_a_tail_computes_the_same_sequences() -> None:
    model = BertModel(tiny_config()).eval()
    ids = torch.randint(1, 99, (7,))
    with torch.no_grad():
        expected = model(ids[:5], layout=PackedLayout([3, 2])).last_hidden_state
        output = model(ids, layout=PackedLayout([3, 2], tail=2)).last_hidden_state
    assert output.shape == (7, 32)
    # Not equal: matrix products of 7 rows may round differently.
    torch.testing.assert_close(output[:5], expected)
