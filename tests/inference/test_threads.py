"""Batches are split between sequences into even parts, which run in threads."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, strategies as st

from minibert import BertConfig, BertModel, PackedLayout, PaddedLayout, optimize
from minibert.inference import threads
from minibert.inference.packing import run_packed
from minibert.inference.threads import set_own_threads, split, workers


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

    def expanded_mask(layout: PaddedLayout, rows: int) -> torch.Tensor:
        mask = torch.ones(()).bool() if layout.mask is None else layout.mask
        return mask.expand(rows, 3, 4, 4)

    for parts, sizes in ((1, [5]), (2, [3, 2]), (7, [1] * 5)):
        layouts, received = split(whole, torch.Size([5, 4]), parts)
        assert received == sizes
        masks = [expanded_mask(layout, rows) for layout, rows in zip(layouts, sizes, strict=True)]
        assert torch.equal(torch.cat(masks), expanded_mask(whole, 5))


def threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


def test_workers_do_not_change_the_thread_count_of_other_threads(two_threads: None) -> None:
    """Threads that start during or after the start of workers use PyTorch's thread count."""
    workers.cache_clear()
    thread_counts = set()
    done = threading.Event()

    def start_threads() -> None:
        while not done.is_set():
            thread_counts.add(threads_of_a_new_thread())

    starter = threading.Thread(target=start_threads)
    starter.start()
    try:
        for _ in range(20):
            workers.cache_clear()
            pool = workers(2, 2, os.getpid())
            assert set(pool.map(lambda _: torch.get_num_threads(), range(8))) == {1}
            pool.shutdown()
    finally:  # a thread that is not stopped would keep Python from exiting
        done.set()
        starter.join(timeout=60)
        workers.cache_clear()
    assert thread_counts == {2} and threads_of_a_new_thread() == torch.get_num_threads() == 2


def test_set_own_threads_changes_the_calling_thread_only(two_threads: None) -> None:
    def set_and_read() -> int:
        set_own_threads(3)
        return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(set_and_read).result() == 3
    assert threads_of_a_new_thread() == torch.get_num_threads() == 2


@pytest.mark.parametrize("has_other_work", [False, True])
def test_a_small_batch_has_one_thread_beside_other_work(
    monkeypatch: pytest.MonkeyPatch, two_threads: None, has_other_work: bool
) -> None:
    """Results have the same bits either way, and afterwards the caller has all threads again."""
    config = BertConfig.from_preset("tiny")
    model = optimize(BertModel(config), precision="int8")  # fixed bits on every processor
    kernels = model.encoder.layer[0].kernels
    widen = kernels[2]
    seen = []

    def record_threads(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return widen(x)

    kernels[2] = record_threads
    monkeypatch.setattr(threads, "_has_other_work", lambda: has_other_work)

    def encode(row: list[int]) -> torch.Tensor:
        def forward(ids: torch.Tensor, layout: PackedLayout, _: object) -> torch.Tensor:
            return model(ids, layout=layout).last_hidden_state

        return run_packed(model, forward, [row])[0]

    received = encode([*range(20)])
    encode([*range(300)])  # too large for one thread

    can_be_set = threads.torch_library() is not None
    assert seen == [1 if has_other_work and can_be_set else 2, 2]
    assert torch.get_num_threads() == 2
    monkeypatch.setattr(threads, "_has_other_work", lambda: not has_other_work)
    assert torch.equal(encode([*range(20)]), received)
