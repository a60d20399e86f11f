"""Reading files of labeled text, and batching examples."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, strategies as st

from minibert.training.data import epoch_order, pack, pad, split_by_tokens

EXAMPLES = [
    {"input_ids": np.array([1, 2, 3]), "labels": np.array([-100, 5, -100]), "score": 0.5},
    {"input_ids": np.array([4]), "labels": np.array([6]), "score": 1.5},
]


def test_packed_batch() -> None:
    batch = pack(EXAMPLES)
    assert batch["input_ids"].tolist() == [1, 2, 3, 4]
    assert batch["labels"].tolist() == [-100, 5, -100, 6]
    assert torch.equal(batch["score"], torch.tensor([0.5, 1.5]))
    assert batch["layout"].lengths == [3, 1]


def test_padded_batch() -> None:
    batch = pad(EXAMPLES, pad_token_id=9)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [4, 9, 9]]
    assert batch["labels"].tolist() == [[-100, 5, -100], [6, -100, -100]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_entries_of_tokens_may_be_numbers() -> None:
    """Such as weights of tokens, in a task of one's own."""
    examples = [{**example, "weights": example["input_ids"] / 2} for example in EXAMPLES]
    assert pack(examples)["weights"].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert pad(examples, pad_token_id=9)["weights"].tolist() == [[0.5, 1.0, 1.5], [2.0, 0.0, 0.0]]


def test_arrays_of_several_axes() -> None:
    """An array has an entry for each token, or a single one for the example."""
    ids = [np.array([1, 2, 3]), np.array([4, 5])]
    examples = [
        {"input_ids": row, "labels": np.stack([row, -row], 1), "target": row[None, :2]}
        for row in ids
    ]
    packed = [[1, -1], [2, -2], [3, -3], [4, -4], [5, -5]]
    padded = [packed[:3], [*packed[3:], [-100, -100]]]
    assert pack(examples)["labels"].tolist() == packed
    assert pad(examples, pad_token_id=9)["labels"].tolist() == padded
    for batch in (pack(examples), pad(examples, pad_token_id=9)):
        assert batch["target"].tolist() == [[1, 2], [4, 5]]


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=200),
    st.integers(1, 16),
    st.sampled_from([1, 3, 50]),
    st.integers(0, 3),
)
def test_every_example_occurs_once_an_epoch(
    lengths: list[int], batch_size: int, pool: int, epoch: int
) -> None:
    batches = epoch_order(lengths, batch_size, 0, epoch, pool)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert len(batches) == -(-len(lengths) // batch_size)
    assert batches == epoch_order(lengths, batch_size, 0, epoch, pool)


def test_batches_have_examples_of_similar_length_and_a_new_order_each_epoch() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    batches = epoch_order(lengths.tolist(), 10, 0, 0, pool=50)
    assert np.mean([np.ptp(lengths[batch]) for batch in batches]) < 5
    assert batches != epoch_order(lengths.tolist(), 10, 0, 1, pool=50)


def test_the_order_is_random_by_default() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    batches = epoch_order(lengths.tolist(), 10, 0, 0)
    assert np.mean([np.ptp(lengths[batch]) for batch in batches]) > 50
    assert batches != epoch_order(lengths.tolist(), 10, 0, 1)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 60))
def test_parts_keep_within_the_budget(lengths: list[int], budget: int) -> None:
    examples = [{"input_ids": np.full(length, n)} for n, length in enumerate(lengths)]
    parts = split_by_tokens(examples, budget)
    numbers = [int(example["input_ids"][0]) for part in parts for example in part]
    assert sorted(numbers) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or sum(len(example["input_ids"]) for example in part) <= budget
    unlimited = [example for part in split_by_tokens(examples, None) for example in part]
    assert unlimited == sorted(examples, key=lambda example: len(example["input_ids"]))
