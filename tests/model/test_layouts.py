"""Layouts: packed sequences have the outputs of padded ones, and never attend to each other."""

from __future__ import annotations

import copy

import torch
from conftest import tiny_config
from hypothesis import given, strategies as st

from minibert import BertModel, PackedLayout, PaddedLayout
from minibert.layouts import UNMASKED

MODEL = BertModel(tiny_config(), add_pooling_layer=True).eval()


def test_split_and_pad() -> None:
    """Both layouts give blocks of equal length, and (batch, seq, ...)."""
    x = torch.arange(6.0)[:, None].expand(6, 2)  # tokens 0 to 5
    packed, padded = PackedLayout([2, 2, 1], tail=1), PaddedLayout()
    assert [block[..., 0].tolist() for block in packed.split(x)] == [[[0, 1], [2, 3]], [[4]]]
    assert packed.pad(x)[..., 0].tolist() == [[0, 1], [2, 3], [4, 0]]
    assert packed.first_tokens(x)[:, 0].tolist() == [0, 2, 4]
    zero_tail = torch.cat([x[:5], torch.zeros(1, 2)])
    assert torch.equal(packed.merge(packed.split(x)), zero_tail)
    assert torch.equal(packed.unpad(packed.pad(x)), zero_tail)
    rows = x.unflatten(0, (3, 2))  # (batch, seq, hidden)
    assert padded.pad(rows) is padded.unpad(rows) is padded.merge(padded.split(rows)) is rows
    assert padded.first_tokens(rows)[:, 0].tolist() == [0, 2, 4]


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
    assert PaddedLayout().position_ids(tokens=(2, 3)).tolist() == [[0, 1, 2]]
    assert PaddedLayout().position_ids(tokens=(3,)).tolist() == [0, 1, 2]  # a single sequence


def test_a_mask_that_hides_no_token_becomes_none() -> None:
    assert PaddedLayout(torch.ones(2, 3)).mask is None
    assert PaddedLayout(None).mask is None
    assert PaddedLayout(torch.tensor([[1, 0]])).mask.shape == (1, 1, 1, 2)


def test_an_empty_pack() -> None:
    out = MODEL(torch.zeros(0, dtype=torch.long), layout=PackedLayout([]))
    assert out.last_hidden_state.shape == (0, 32) and out.pooler_output.shape == (0, 32)
    layout, nothing = PackedLayout([]), torch.zeros(0, 2)
    assert [block.shape for block in layout.split(nothing)] == [(0, 0, 2)]
    assert layout.pad(nothing).shape == (0, 0, 2)
    assert layout.token_mask().shape == (0, 0)
    assert layout.position_ids().shape == (0,)
    assert PackedLayout([], tail=1).pad(torch.zeros(1, 2)).shape == (0, 0, 2)


def test_a_mask_is_added_in_the_dtype_of_the_states() -> None:
    """Autocast makes queries smaller, in which the scores would be rounded once more."""
    layout, states = PaddedLayout(torch.tensor([[1, 0]])), torch.zeros(1, 2, 4)
    assert layout.typed(states) is layout
    with torch.autocast("cpu", torch.bfloat16):
        typed = layout.typed(states)
        assert typed.dtype == torch.float32 and typed.mask is layout.mask
        assert typed.typed(states.double()) is typed
        assert UNMASKED.typed(states) is UNMASKED


def test_tensors_are_on_the_device_of_the_states() -> None:
    packed, padded = PackedLayout([2, 1], tail=1), PaddedLayout()
    states, blocks = (torch.zeros(*shape, device="meta") for shape in ((4, 3), (2, 2, 3)))
    padded.mask = torch.ones(2, 1, 1, 2, dtype=torch.bool, device="meta")
    for tensor in (
        padded.position_ids("meta", tokens=(2, 2)),
        PackedLayout([2]).position_ids("meta"),
        packed.position_ids("meta"),
        packed.first_tokens(states),
        packed.token_mask("meta"),
        packed.additive_mask(blocks),
        padded.additive_mask(blocks),
    ):
        assert tensor is not None and tensor.device.type == "meta"


def test_a_mask_that_broadcasts() -> None:
    ids = torch.randint(1, 99, (2, 4))
    mask = torch.tensor([1, 1, 1, 0])
    expected = MODEL(ids, attention_mask=mask.expand(2, 4)).last_hidden_state
    for shape in ((1, 4), (1, 1, 4), (2, 4, 4), (1, 1, 1, 4), (2, 1, 4, 4)):
        states = MODEL(ids, attention_mask=mask.expand(shape)).last_hidden_state
        assert torch.equal(states, expected)


def test_a_packed_batch_with_a_tail_computes_the_same_sequences() -> None:
    model = BertModel(tiny_config()).eval()
    ids = torch.randint(1, 99, (7,))
    with torch.no_grad():
        expected = model(ids[:5], layout=PackedLayout([3, 2])).last_hidden_state
        output = model(ids, layout=PackedLayout([3, 2], tail=2)).last_hidden_state
    assert output.shape == (7, 32)
    # Not equal: matrix products of 7 rows may round differently.
    torch.testing.assert_close(output[:5], expected)
