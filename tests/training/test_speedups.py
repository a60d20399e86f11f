"""Faster operators of a training step, compared with torch's."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from conftest import tiny_config
from test_run import OPTIONS, assert_same_weights, classification_examples, losses_of
from torch import Tensor, nn

from minibert import BertForSequenceClassification, BertModel
from minibert.attention import sdpa_attention
from minibert.inference import training_speedups
from minibert.inference.batching import rounded_tokens
from minibert.inference.training_speedups import (
    BlockAttention,
    dropout,
    faster_operators,
    onednn_is_faster,
    word_loss,
)
from minibert.layouts import PackedLayout, PaddedLayout
from minibert.losses import IGNORED
from minibert.training.run import Run

CPU = torch.device("cpu")


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_drops_its_share_and_scales_the_rest(p: float, dtype: torch.dtype) -> None:
    x = torch.full((333, 301), 2.0, dtype=dtype, requires_grad=True)
    y = dropout(x, p)
    y.sum().backward()

    dropped = (y == 0).float()
    assert dropped.mean().item() == pytest.approx(p, abs=0.01)
    # No row or column is favored.
    assert dropped.mean(0).std() < 0.04
    assert dropped.mean(1).std() < 0.04
    rest = y[y != 0]
    scaled = torch.full_like(rest, 2 / (1 - p) if p < 1 else 0)
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(rest, scaled, rtol=tolerance, atol=0)
    assert x.grad is not None and torch.equal(x.grad, y.detach() / 2)


def test_dropout_follows_the_seed_and_is_off_in_eval_mode() -> None:
    x = torch.randn(50, 7)
    torch.manual_seed(5)
    first = dropout(x, 0.3)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.3), first) and not torch.equal(dropout(x, 0.3), first)
    assert dropout(x, 0.3, training=False) is x and dropout(x, 0.0) is x


def test_dropout_of_a_transposed_tensor() -> None:
    x = torch.ones(4, 6).t()
    assert set(dropout(x, 0.5).unique().tolist()) <= {0.0, 2.0} and dropout(x, 0.5).shape == (6, 4)


RAGGED = [5, 1, 17, 16, 8, 5, 33, 2]
NOTHING_DROPPED = 1e-6  # a probability that uses the operators of dropout, but drops nothing


@pytest.mark.parametrize("lengths", [RAGGED, sorted(RAGGED), [6, 6, 6], [1]])
@pytest.mark.parametrize("tail", [0, 3])
def test_attention_in_blocks_and_its_gradients_equal_those_of_torch(
    lengths: list[int], tail: int
) -> None:
    layout = PackedLayout(lengths, tail)
    inputs = [torch.randn(sum(lengths) + tail, 2, 8, requires_grad=True) for _ in range(3)]
    received, _ = BlockAttention(layout)(*inputs, layout, NOTHING_DROPPED)
    expected, _ = sdpa_attention(*inputs, layout, 0.0)
    torch.testing.assert_close(received, expected)
    direction = torch.randn(received.shape)
    gradients = (torch.autograd.grad(x, inputs, direction) for x in (received, expected))
    torch.testing.assert_close(*gradients)


def test_gradients_of_attention_in_blocks_with_dropout() -> None:
    layout = PackedLayout([3, 1, 4])
    inputs = [torch.randn(8, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        torch.manual_seed(0)
        return BlockAttention(layout)(query, key, value, layout, 0.3)[0]

    assert not torch.allclose(attend(*inputs), sdpa_attention(*inputs, layout, 0.0)[0])
    assert torch.autograd.gradcheck(attend, inputs)


def test_attention_in_blocks_in_bfloat16() -> None:
    layout = PackedLayout(RAGGED)
    inputs = [torch.randn(sum(RAGGED), 2, 8).bfloat16() for _ in range(3)]
    ours, plain = (
        [x.to(dtype).requires_grad_() for x in inputs] for dtype in (torch.bfloat16, torch.float32)
    )
    with torch.autocast("cpu", torch.bfloat16):
        received, _ = BlockAttention(layout)(*ours, layout, 0.0)
    expected, _ = sdpa_attention(*plain, layout, 0.0)
    assert received.dtype == torch.bfloat16
    torch.testing.assert_close(received.float(), expected, atol=0.02, rtol=0.02)
    direction = torch.randn(received.shape)
    gradients = torch.autograd.grad(received, ours, direction.bfloat16())
    for received_gradient, expected_gradient in zip(
        gradients, torch.autograd.grad(expected, plain, direction), strict=True
    ):
        torch.testing.assert_close(
            received_gradient.float(), expected_gradient, atol=0.05, rtol=0.05
        )


@pytest.mark.parametrize("layout", [PackedLayout([137, 3]), PackedLayout([], tail=140)])
def test_long_sequences_without_dropout_use_the_attention_of_torch(layout: PackedLayout) -> None:
    inputs = [torch.randn(140, 2, 8) for _ in range(3)]
    received, _ = BlockAttention(layout)(*inputs, layout, 0.0)
    assert torch.equal(received, sdpa_attention(*inputs, layout, 0.0)[0])


def test_only_packed_batches_in_training_get_extra_rows() -> None:
    rows: list[int] = []
    model = BertModel(tiny_config())
    model.encoder.layer[0].register_forward_pre_hook(
        lambda _, inputs: rows.append(inputs[0].shape[:-1].numel())
    )
    packed = {"input_ids": torch.arange(53), "layout": PackedLayout([20, 3, 30])}
    with faster_operators(CPU, model):
        model(**packed)
        with torch.no_grad():
            model(**packed)
        model(input_ids=torch.arange(53)[None], layout=PaddedLayout())
    model(**packed)
    assert rows == [56, 53, 53, 53]


@pytest.mark.parametrize("lengths", [[4, 5], [20, 3, 30]])
def test_extra_rows_change_no_state_and_no_gradient(lengths: list[int]) -> None:
    """53 rows become 56, so that matrix products have few different sizes."""
    row_counts: list[int] = []
    model = BertModel(
        tiny_config(num_hidden_layers=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    )
    model.encoder.layer[0].register_forward_pre_hook(
        lambda _, inputs: row_counts.append(len(inputs[0]))
    )
    packed = {
        "input_ids": torch.arange(sum(lengths)),
        "layout": PackedLayout(lengths),
        "output_hidden_states": True,
    }
    results = []
    for operators in (nullcontext(), faster_operators(CPU, model)):
        model.zero_grad()
        with operators:
            states = model(**packed).hidden_states
            torch.stack(states).square().sum().backward()
        results.append([*states, *(weight.grad for weight in model.encoder.parameters())])
    assert row_counts == [sum(lengths), rounded_tokens(sum(lengths))]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_word_loss_and_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        training_speedups, "LOGITS_AT_ONCE", 4 * 50
    )  # three parts, the last one smaller
    states, labels = torch.randn(10, 8), torch.randint(50, (10,))
    labels[[2, 5]] = IGNORED
    plain, ours = nn.Linear(8, 50), nn.Linear(8, 50)
    ours.load_state_dict(plain.state_dict())

    expected = F.cross_entropy(plain(states), labels, reduction="sum")
    received = word_loss(ours(states), labels)
    (expected / 7).backward()
    (received / 7).backward()

    torch.testing.assert_close(received, expected)
    torch.testing.assert_close(ours.weight.grad, plain.weight.grad)
    torch.testing.assert_close(ours.bias.grad, plain.bias.grad)


def test_word_loss_of_bfloat16_logits() -> None:
    logits, labels = torch.randn(10, 50).bfloat16(), torch.randint(50, (10,))
    expected = F.cross_entropy(logits.float(), labels, reduction="sum")
    torch.testing.assert_close(word_loss(logits, labels), expected)
    assert logits.dtype == torch.bfloat16


def products_of_a_layer(x: Tensor, weight: Tensor) -> list[Tensor]:
    """Return a linear layer's output and its gradients."""
    x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = F.linear(x, weight)
    y.backward(torch.ones_like(y))
    assert x.grad is not None and weight.grad is not None
    return [y.detach(), x.grad, weight.grad]


@pytest.mark.parametrize(
    ("tokens", "inputs", "outputs"), [(1, 16, 16), (77, 384, 1536), (300, 1536, 384)]
)
def test_products_have_the_accuracy_of_float32(tokens: int, inputs: int, outputs: int) -> None:
    x, weight = torch.randn(tokens, inputs), torch.randn(outputs, inputs)
    with faster_operators(CPU, nn.Identity()):
        received = products_of_a_layer(x, weight)
    expected = products_of_a_layer(x.double(), weight.double())
    for ours, exact in zip(received, expected, strict=True):
        assert (ours - exact).norm() / exact.norm() < 2e-6


def test_settings_and_operators_of_torch_are_restored() -> None:
    matmul = getattr(torch.backends.mkldnn, "matmul", None)  # torch 2.9 and newer
    precision = getattr(matmul, "fp32_precision", None)
    torch.manual_seed(0)
    expected = F.dropout(torch.ones(100))
    with pytest.raises(RuntimeError, match="interrupted"), faster_operators(CPU, nn.Identity()):
        assert not onednn_is_faster() or getattr(matmul, "fp32_precision", None) == "bf16"
        raise RuntimeError("interrupted")
    assert getattr(matmul, "fp32_precision", None) == precision
    torch.manual_seed(0)
    assert torch.equal(F.dropout(torch.ones(100)), expected)
    torch.manual_seed(0)
    with faster_operators(torch.device("meta"), nn.Identity()):  # any device but the CPU
        assert torch.equal(F.dropout(torch.ones(100)), expected)


def test_a_step_without_dropout_equals_the_exact_one(tmp_path: Path) -> None:
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    weights = []
    for exact in (True, False):
        torch.manual_seed(0)
        model = BertForSequenceClassification(config)
        options = replace(OPTIONS, steps=5, exact=exact)
        Run(
            model, lambda _: classification_examples(), losses_of, tmp_path / str(exact), options
        ).train()
        weights.append(dict(model.state_dict()))
    assert_same_weights(*weights, tolerance=1e-5)
