"""Threads: batches are cut between sequences, into even parts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from minibert import PackedLayout, PaddedLayout
from minibert.inference.threads import split


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 5))
def test_a_pack_is_split_between_sequences(lengths: list[int], parts: int) -> None:
    total = sum(lengths)

    layouts, sizes = split(PackedLayout(lengths), torch.Size([total]), parts)

    assert [length for layout in layouts for length in layout.lengths] == lengths
    assert sizes == [sum(layout.lengths) for layout in layouts]
    assert len(layouts) <= parts and 0 not in sizes
    assert max(sizes) < total / parts + max(lengths)


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 4), (1, 1, 4, 4), (5, 3, 4, 4), None])
def test_a_padded_batch_is_split_between_rows(shape: tuple[int, ...] | None) -> None:
    whole = PaddedLayout(None if shape is None else torch.randint(2, shape).bool())

    def seen(layout: PaddedLayout, rows: int) -> torch.Tensor:
        return torch.ones(()).bool().expand(rows, 3, 4, 4) if layout.mask is None else layout.mask.expand(rows, 3, 4, 4)

    for parts, sizes in ((1, [5]), (2, [3, 2]), (7, [1] * 5)):
        layouts, received = split(whole, torch.Size([5, 4]), parts)
        assert received == sizes
        assert torch.equal(torch.cat([seen(x, n) for x, n in zip(layouts, sizes, strict=True)]), seen(whole, 5))
