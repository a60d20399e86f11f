"""The loop that sorts and packs rows, runs a model, and restores the order of the rows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from minibert import BertConfig, BertModel, PackedLayout
from minibert.inference.packing import batches, run_packed

ROWS = [[2, 7, 3], [2, 3], [2, 5, 6, 7, 8, 3], [2, 9, 3], [2, 4, 4, 3]]


@pytest.fixture
def model() -> BertModel:
    torch.manual_seed(0)
    return BertModel(BertConfig.from_preset("tiny", vocab_size=10, num_hidden_layers=1))


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 100))
def test_batches_keep_to_the_budget(lengths: list[int], budget: int) -> None:
    packs = list(batches(lengths, budget))
    assert sorted(index for batch in packs for index in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or sum(lengths[i] for i in batch) <= budget for batch in packs)


@pytest.mark.parametrize(
    "types", [None, [[index % 2 for index in range(len(row))] for row in ROWS]]
)
def test_results_are_in_the_order_of_the_rows(
    model: BertModel, types: list[list[int]] | None
) -> None:
    done: list[int] = []

    def forward(ids: Tensor, layout: PackedLayout, types: Tensor | None) -> Tensor:
        assert not model.training
        return model(ids, layout=layout, token_type_ids=types).last_hidden_state

    with torch.autocast("cpu", torch.bfloat16):
        results = run_packed(
            model.train(), forward, ROWS, types, batch_tokens=7, report=done.extend
        )
    assert model.training and sorted(done) == [0, 1, 2, 3, 4]
    model.eval()
    for number, (row, states) in enumerate(zip(ROWS, results, strict=True)):
        token_types = None if types is None else torch.tensor(types[number : number + 1])
        expected = model(torch.tensor([row]), token_type_ids=token_types).last_hidden_state[0]
        torch.testing.assert_close(states, expected, rtol=0, atol=1e-6)


def test_rows_may_have_results_of_any_size(model: BertModel) -> None:
    results = run_packed(
        model, lambda ids, layout, types: ids[ids == 4], ROWS, sizes=[row.count(4) for row in ROWS]
    )
    assert [part.tolist() for part in results] == [[], [], [], [], [4, 4]]


def test_frozen_parts_stay_in_eval_mode(model: BertModel) -> None:
    model.train().embeddings.eval()
    run_packed(model, lambda ids, layout, types: model(ids, layout=layout)[0], ROWS)
    assert model.encoder.layer[0].training and not model.embeddings.dropout.training


def test_an_error_restores_the_training_mode(model: BertModel) -> None:
    def fail(*inputs: object) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_packed(model.train(), fail, ROWS)
    assert model.training


@pytest.mark.parametrize(
    ("precision", "threads"), [("fp32", 2), ("bf16", 2), ("int8", 2), ("bf16", 1)]
)
@pytest.mark.slow
def test_nothing_is_compiled_after_a_warm_up(precision: str, threads: int) -> None:
    """After the warm-up, the log of oneDNN shows no compilation for batches of any size."""
    program = f"""if True:
        import random, warnings
        import torch
        from minibert import BertConfig, BertModel, PackedLayout, optimize
        from minibert.inference.optimize import warm_up
        from minibert.inference.packing import run_packed

        warnings.simplefilter("ignore")  # the processor may lack the instructions
        torch.set_num_threads({threads})
        sizes = {{"vocab_size": 10, "num_hidden_layers": 2, "max_position_embeddings": 64}}
        config = BertConfig.from_preset("tiny", **sizes)
        model = optimize(BertModel(config), precision="{precision}")
        print("warming", model.encoder.is_compiled, flush=True)
        warm_up(model)
        print("warm", flush=True)
        chance = random.Random(0)
        for _ in range(40):
            limit = int(2 ** chance.uniform(1, 5))
            rows = [[2] * chance.randint(1, 64) for _ in range(chance.randint(1, limit))]
            forward = lambda ids, layout, types: model(ids, layout=layout).last_hidden_state
            run_packed(model, forward, rows[:-1] + [[2]], batch_tokens=1000)
    """
    # `minibert serve` has the same cache capacity
    verbose = {
        **os.environ,
        "ONEDNN_VERBOSE": "2",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "8192",
    }
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        encoding="utf-8",
        env=verbose,
        check=True,
    )

    def products(lines: str) -> list[str]:
        """Return the shapes of the compiled matrix products, without those of attention.

        A product of attention is compiled for each length. Its shape has three dimensions.
        """
        compiled = [line.split(",") for line in lines.splitlines() if "create:cache_miss" in line]
        shapes = [
            fields[-2] for fields in compiled if "inner_product" in fields or "matmul" in fields
        ]
        return [shape for shape in shapes if shape.split(":")[0].count("x") < 2]

    warming, after = run.stdout.partition("warming ")[2].split("\nwarm\n")
    if not warming.startswith("True"):
        pytest.skip("on this processor oneDNN compiles none of these products")
    assert len(products(warming)) > 100 and products(after) == []
