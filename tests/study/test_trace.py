"""trace: names, values, patches, and that tracing changes no results."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from conftest import HEADS, ragged_batch, tiny_config
from torch import nn

import minibert
from minibert import trace
from minibert.study import (
    attention_patterns,
    cka,
    head_importance,
    integrated_gradients,
    linear_probe,
    logit_lens,
    patching_sweep,
    per_head_output,
    rollout,
)

CLASSES = ["BertModel", *HEADS[:-1]]


def random_model(name: str = "BertModel", **overrides: object) -> minibert.BertModel:
    return getattr(minibert, name)(tiny_config(**overrides)).eval()


def count_hooks(model: nn.Module) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", CLASSES)
def test_tracing_changes_no_bit_of_any_output(name: str, attention: str) -> None:
    model = random_model(name, attn_implementation=attention)
    batch = ragged_batch(model.config)

    plain = model(**batch, output_hidden_states=True)
    with trace(model):
        traced = model(**batch, output_hidden_states=True)

    for key in set(plain.keys()) - {"hidden_states"}:
        assert torch.equal(plain[key], traced[key]), key
    assert all(map(torch.equal, plain.hidden_states, traced.hidden_states))
    assert count_hooks(model) == 0  # no overhead remains


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_tracing_changes_no_random_number_of_training(attention: str) -> None:
    model = random_model(attn_implementation=attention).train()
    batch = ragged_batch(model.config)

    torch.manual_seed(1)
    plain = model(**batch).last_hidden_state
    torch.manual_seed(1)
    with trace(model) as t:
        traced = model(**batch).last_hidden_state

    assert torch.equal(plain, traced)
    assert t["layer.1.output"].requires_grad


def test_values_equal_the_outputs_of_the_model() -> None:
    model = random_model(attn_implementation="eager")
    with trace(model) as t:
        out = model(**ragged_batch(model.config), output_hidden_states=True, output_attentions=True)

    assert torch.equal(t["embeddings.output"], out.hidden_states[0])
    for i in range(model.config.num_hidden_layers):
        assert torch.equal(t[f"layer.{i}.output"], out.hidden_states[i + 1])
        assert torch.equal(t[f"layer.{i}.attention.probabilities"], out.attentions[i])
        # the recorded scores give the recorded probabilities, which give the recorded context
        probabilities = t[f"layer.{i}.attention.masked_scores"].softmax(-1)
        assert torch.equal(probabilities, out.attentions[i])
        context = (probabilities @ t[f"layer.{i}.attention.value"]).transpose(1, 2).flatten(-2)
        assert torch.equal(context, t[f"layer.{i}.attention.context"])
    assert torch.equal(t["pooler.output"], out.pooler_output)


def test_every_formula_holds_in_numpy() -> None:
    """Each step is recomputed in float64 from the steps that its formula names."""
    model = random_model()
    batch = ragged_batch(model.config)
    with torch.no_grad(), trace(model) as t:
        model(**batch)
    w = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    x = {name: value.double().numpy() for name, value in t.items()}

    def linear(name: str, of: str) -> np.ndarray:
        return x[of] @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, of: str) -> np.ndarray:
        centered = x[of] - x[of].mean(-1, keepdims=True)
        return (
            centered / np.sqrt(x[of].var(-1, keepdims=True) + 1e-12) * w[f"{name}.weight"]
            + w[f"{name}.bias"]
        )

    def heads(y: np.ndarray) -> np.ndarray:
        return y.reshape(*y.shape[:2], 4, 8).transpose(0, 2, 1, 3)

    ids = {name: value.numpy() for name, value in batch.items()}
    p, a, b = "encoder.layer.0", "layer.0.attention", "encoder.layer.0.attention"
    expected = {
        "embeddings.word": w["embeddings.word_embeddings.weight"][ids["input_ids"]],
        "embeddings.token_type": w["embeddings.token_type_embeddings.weight"][
            ids["token_type_ids"]
        ],
        "embeddings.position": w["embeddings.position_embeddings.weight"][
            : ids["input_ids"].shape[1]
        ],
        "embeddings.sum": x["embeddings.word"]
        + x["embeddings.token_type"]
        + x["embeddings.position"],
        "embeddings.normalized": norm("embeddings.LayerNorm", "embeddings.sum"),
        "embeddings.output": x["embeddings.normalized"],
        f"{a}.query": heads(linear(f"{b}.self.query", "embeddings.output")),
        f"{a}.key": heads(linear(f"{b}.self.key", "embeddings.output")),
        f"{a}.value": heads(linear(f"{b}.self.value", "embeddings.output")),
        f"{a}.scores": x[f"{a}.query"] @ x[f"{a}.key"].swapaxes(2, 3) / math.sqrt(8),
        f"{a}.masked_scores": np.where(
            ids["attention_mask"][:, None, None] == 1, x[f"{a}.scores"], -3.4028234663852886e38
        ),
        f"{a}.probabilities": np.exp(
            x[f"{a}.masked_scores"] - x[f"{a}.masked_scores"].max(-1, keepdims=True)
        ),
        f"{a}.context": (x[f"{a}.probabilities"] @ x[f"{a}.value"])
        .swapaxes(1, 2)
        .reshape(3, 11, 32),
        f"{a}.projected": linear(f"{b}.output.dense", f"{a}.context"),
        f"{a}.sum": x[f"{a}.projected"] + x["embeddings.output"],
        f"{a}.output": norm(f"{b}.output.LayerNorm", f"{a}.sum"),
        "layer.0.widened": linear(f"{p}.intermediate.dense", f"{a}.output"),
        "layer.0.intermediate": x["layer.0.widened"]
        * 0.5
        * (1 + np.vectorize(math.erf)(x["layer.0.widened"] / 2**0.5)),
        "layer.0.narrowed": linear(f"{p}.output.dense", "layer.0.intermediate"),
        "layer.0.sum": x["layer.0.narrowed"] + x[f"{a}.output"],
        "layer.0.output": norm(f"{p}.output.LayerNorm", "layer.0.sum"),
        "pooler.cls": x["layer.1.output"][:, 0],
        "pooler.dense": linear("pooler.dense", "pooler.cls"),
        "pooler.output": np.tanh(x["pooler.dense"]),
    }
    expected[f"{a}.probabilities"] /= expected[f"{a}.probabilities"].sum(-1, keepdims=True)

    assert set(expected) == {name for name in t if not name.startswith("layer.1")}
    for name, value in expected.items():
        np.testing.assert_allclose(
            x[name], np.broadcast_to(value, x[name].shape), rtol=2e-5, atol=2e-6, err_msg=name
        )


@pytest.mark.parametrize("name", CLASSES)
def test_all_steps_are_computed_in_the_order_listed(name: str) -> None:
    model = random_model(name)
    with trace(model) as t:
        model(**ragged_batch(model.config))
    assert list(t) == list(t.steps)


def test_the_table_shows_name_shape_and_formula() -> None:
    model = random_model()
    with trace(model) as t:
        model(**ragged_batch(model.config))
    rows = [line.split("  ") for line in repr(t).splitlines()]
    table = {row[0]: [cell.strip() for cell in row[1:] if cell] for row in rows}
    assert table["name"] == ["shape", "formula"]
    assert table["layer.1.attention.scores"] == ["(3, 4, 11, 11)", "query key^T / sqrt(head_size)"]
    assert table["layer.0.intermediate"] == ["(3, 11, 64)", "gelu(widened)"]


def test_patching_with_the_same_value_changes_no_bit_under_eager() -> None:
    model = random_model("BertForMaskedLM", attn_implementation="eager")
    batch = ragged_batch(model.config)
    plain = model(**batch).logits
    with trace(model) as t:
        for name in t.steps:
            t.set(name, lambda value: value)
        assert torch.equal(model(**batch).logits, plain)


def test_patching_any_step_changes_the_output() -> None:
    model = random_model("BertForMaskedLM")
    batch = ragged_batch(model.config)
    plain = model(**batch).logits
    for name in trace(model).steps:
        with trace(model) as t:
            t.set(name, lambda value: value + torch.randn_like(value))
            assert not torch.equal(model(**batch).logits, plain), name


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_head_switched_off_equals_zero_output_weights(attention: str) -> None:
    model = random_model(attn_implementation=attention)
    batch = ragged_batch(model.config)

    with trace(model) as t:
        t.switch_off_head(1, 2)
        t.switch_off_head(1, 0)
        ablated = model(**batch).last_hidden_state
    with torch.no_grad():  # the columns of W_O that read heads 0 and 2
        weight = model.encoder.layer[1].attention.output.dense.weight
        weight[:, 0:8] = 0
        weight[:, 16:24] = 0

    torch.testing.assert_close(ablated, model(**batch).last_hidden_state)
    assert torch.count_nonzero(t["layer.1.attention.probabilities"][:, [0, 2]]) == 0


@pytest.mark.parametrize("layer", [0, 1])
def test_a_skipped_layer_equals_a_model_without_it(layer: int) -> None:
    model = random_model()
    batch = ragged_batch(model.config)
    with trace(model) as t:
        t.skip_layer(layer)
        skipped = model(**batch).last_hidden_state
    del model.encoder.layer[layer]
    assert torch.equal(skipped, model(**batch).last_hidden_state)


def test_patches_take_tensors_and_numbers_and_end_with_the_block() -> None:
    model = random_model()
    batch = ragged_batch(model.config)
    plain = model(**batch).pooler_output
    with trace(model) as t:
        t.set("pooler.dense", 0.5)
        assert torch.equal(model(**batch).pooler_output, torch.full((3, 32), 0.5).tanh())
        t.set("pooler.dense", torch.zeros(32))
        assert torch.count_nonzero(model(**batch).pooler_output) == 0
    assert "pooler.dense" in t and "(patched)" in repr(t)
    assert torch.equal(model(**batch).pooler_output, plain)


def test_hooks_are_removed_after_an_error() -> None:
    model = random_model()
    with pytest.raises(RuntimeError), trace(model):
        raise RuntimeError
    assert count_hooks(model) == 0


def test_a_part_can_be_called_alone() -> None:
    model = random_model()
    layer = model.base_model.encoder.layer[1]
    states = torch.randn(2, 5, model.config.hidden_size)
    expected = layer(states)
    with trace(model) as t:
        assert torch.equal(layer(states), expected)
        context, _ = layer.attention.self(states)
    assert torch.equal(t["layer.1.attention.context"], context)


def test_a_second_call_replaces_the_values_of_the_first() -> None:
    model = random_model()
    with trace(model) as t:
        model(**ragged_batch(model.config))
        model(torch.ones(1, 3, dtype=torch.long))
    assert t["layer.0.output"].shape == (1, 3, 32)


def test_errors_say_what_is_wrong() -> None:
    model = random_model()
    batch = ragged_batch(model.config)
    with pytest.raises(
        KeyError,
        match="'layer.0.attention.score' is not a step of this model. "
        "Close names: layer.0.attention.sc",
    ):
        trace(model).set("layer.0.attention.score", 0.0)
    with pytest.raises(KeyError, match="'layer.0.output' has not been computed"):
        trace(model)["layer.0.output"]
    with pytest.raises(ValueError, match="head should be 0 to 3, not 4"):
        trace(model).switch_off_head(0, 4)
    with pytest.raises(
        ValueError,
        match=r"layer.0.output should be of shape \(3, 11, 32\), not \(7,\)",
    ):
        with trace(model) as t:
            t.set("layer.0.output", torch.zeros(7))
            model(**batch)
    with pytest.raises(ValueError, match="trace takes a padded batch"), trace(model):
        model(torch.ones(5, dtype=torch.long), layout=minibert.PackedLayout([2, 3]))
    with pytest.raises(ValueError, match="trace takes a minibert model, not Linear"):
        trace(nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not one that optimize has rewritten .trace before."):
        trace(minibert.optimize(model))


def test_patches_may_return_numbers_or_tensors_only() -> None:
    model = random_model()
    batch = ragged_batch(model.config)
    with trace(model) as t:
        t.set("pooler.dense", lambda _: 0.0)
        assert torch.count_nonzero(model(**batch).pooler_output) == 0
        t.set("pooler.dense", np.full(32, 0.5))
        assert torch.equal(model(**batch).pooler_output, torch.full((3, 32), 0.5).tanh())
        with pytest.raises(
            ValueError,
            match="pooler.dense should be a tensor or a number, not a str",
        ):
            t.set("pooler.dense", "0")
        t.set("pooler.dense", lambda _: None)
        with pytest.raises(
            ValueError,
            match="pooler.dense should be a tensor or a number, not a Non",
        ):
            model(**batch)


def run_analyses(
    model: minibert.PreTrainedModel, batch: dict[str, torch.Tensor]
) -> list[torch.Tensor]:
    """Return the results of every analysis of a batch."""
    ids = batch["input_ids"][:1]
    with torch.no_grad(), trace(model) as t:
        model(**batch)
    states, classes = t["layer.1.output"].flatten(0, 1), torch.arange(33) % 2
    patterns = attention_patterns(list("abcdefghijk"), t["layer.0.attention.probabilities"][0])
    return [
        rollout(t),
        *logit_lens(t),
        per_head_output(t, 0),
        torch.tensor([pattern.share for pattern in patterns]),
        head_importance(model, [{**batch, "labels": batch["input_ids"]}]),
        *integrated_gradients(model, batch, lambda output: output.logits[:, 2, 7], steps=3),
        patching_sweep(
            model, {"input_ids": ids}, {"input_ids": ids - 1}, lambda output: output.logits[:, 2, 7]
        ),
        torch.tensor([cka(states, t["embeddings.output"].flatten(0, 1))]),
        torch.tensor([linear_probe(states, classes, states, classes)]),
    ]


@pytest.mark.parametrize("tries", [40, pytest.param(800, marks=pytest.mark.slow)])
def test_patches_do_not_affect_other_threads(tries: int, one_thread: None) -> None:
    """One thread patches and analyzes the model while seven others compute or trace."""
    model = random_model("BertForMaskedLM")
    batch = ragged_batch(model.config)
    with torch.no_grad():
        expected = model(**batch).logits
    results = run_analyses(model, batch)
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            with torch.no_grad(), trace(model) as t:
                t.switch_off_head(0, 0)
                t.skip_layer(1)
                assert not torch.equal(model(**batch).logits, expected)
            assert all(map(torch.equal, run_analyses(model, batch), results))

    def compute(index: int) -> int:
        wrong = 0
        for _ in range(tries):
            with torch.no_grad(), trace(model) if index % 2 else nullcontext() as t:
                wrong += not torch.equal(model(**batch).logits, expected)
                wrong += t is not None and len(t) < len(t.steps)
        return wrong

    with ThreadPoolExecutor(8) as threads:
        changing = threads.submit(change)
        try:
            wrong = sum(threads.map(compute, range(7)))
        finally:
            done.set()  # or the pool would wait for `change` forever
        changing.result()
    assert wrong == 0 and count_hooks(model) == 0


def test_patches_do_not_affect_other_async_tasks() -> None:
    model = random_model()
    batch = ragged_batch(model.config)

    async def change(entered: asyncio.Event, left: asyncio.Event) -> None:
        with trace(model) as t:
            t.switch_off_head(0, 0)
            entered.set()
            await left.wait()

    async def compute() -> torch.Tensor:
        entered, left = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(change(entered, left))
        await entered.wait()
        output: torch.Tensor = model(**batch)[0]
        left.set()
        await task
        return output

    assert torch.equal(asyncio.run(compute()), model(**batch)[0])
