"""Threads: batches are cut between sequences, into even parts."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from hypothesis import given, strategies as st

from minibert import BertConfig, BertModel, PackedLayout, PaddedLayout, optimize
from minibert.inference.packing import run_packed
from minibert.inference.threads import MAX_WAIT, Meetings, split


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
        return (
            torch.ones(()).bool().expand(rows, 3, 4, 4)
            if layout.mask is None
            else layout.mask.expand(rows, 3, 4, 4)
        )

    for parts, sizes in ((1, [5]), (2, [3, 2]), (7, [1] * 5)):
        layouts, received = split(whole, torch.Size([5, 4]), parts)
        assert received == sizes
        assert torch.equal(
            torch.cat([seen(x, n) for x, n in zip(layouts, sizes, strict=True)]), seen(whole, 5)
        )


def is_alone() -> bool:
    return threading.current_thread() is not threading.main_thread()


def test_small_batches_are_left_to_one_thread_where_threads_wait(two_threads: None) -> None:
    meetings, waits, alone = Meetings(), True, []

    def batch() -> torch.Tensor:
        alone.append(is_alone())
        if waits and not is_alone():
            time.sleep(3 * MAX_WAIT)
        return torch.ones(2, 2)

    for _ in range(14):
        meetings.run(batch, tokens=2)
    # in vain; once alone, and by all to compare; in vain; two, four alone between the next ones
    assert alone == [False, True, False, False, True, True, False, *[True] * 4, False, *[True] * 3]

    waits = False  # but for what the machine does beside
    for _ in range(5000):
        meetings.run(batch, tokens=2)
        if not any(alone[-15:]):
            return
    pytest.fail("threads are not tried again")


def test_a_number_of_tokens_whose_bits_depend_on_threads_is_not_left_to_one(
    two_threads: None,
) -> None:
    meetings, alone = Meetings(), []

    def batch() -> torch.Tensor:
        alone.append(is_alone())
        time.sleep(0 if is_alone() else 3 * MAX_WAIT)
        return torch.full((2, 2), float(is_alone()))

    results = [meetings.run(batch, tokens=2) for _ in range(5)]

    assert all(torch.equal(result, torch.zeros(2, 2)) for result in results)
    assert alone.count(True) == 1


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_one_thread_and_several_give_the_same_bits(two_threads: None, precision: str) -> None:
    def states(ids: torch.Tensor, layout: PackedLayout, types: torch.Tensor | None) -> torch.Tensor:
        return model(ids, layout=layout, token_type_ids=types).last_hidden_state

    config = BertConfig.from_preset("tiny", vocab_size=100, hidden_size=128, num_attention_heads=4)
    model = optimize(BertModel(config, add_pooling_layer=False), precision=precision)
    ids = [number % 100 for number in range(128)]
    for tokens in (1, 5, 6, 11, 14, 37, 38, 64, 127):
        results = []
        for turn in (0, 1, 1):
            model.encoder.meetings._alone = turn
            results += run_packed(model, states, [ids[:tokens]])
        assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
