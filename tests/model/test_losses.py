"""The losses, each compared with its formula."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from minibert import losses
from minibert.losses import IGNORED, cross_entropy, multi_label_loss, regression_loss, span_loss


def softmax(row: list[float]) -> list[float]:
    total = sum(math.exp(x) for x in row)
    return [math.exp(x) / total for x in row]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_the_formulas() -> None:
    """Means of -log p of the label, of (x - y)^2, and of the binary cross entropy."""
    x = [[0.5, -1.0, 2.0], [0.0, 0.3, -0.7]]
    logits = torch.tensor(x)
    log_p = [[math.log(p) for p in softmax(row)] for row in x]
    assert cross_entropy(logits, torch.tensor([2, 0])).item() == pytest.approx(
        -(log_p[0][2] + log_p[1][0]) / 2
    )
    assert cross_entropy(logits, torch.tensor([IGNORED, 1])).item() == pytest.approx(-log_p[1][1])
    assert span_loss(logits, torch.tensor([1, 2])).item() == pytest.approx(
        -(log_p[0][1] + log_p[1][2]) / 2
    )
    y = [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    numbers = [
        (a, b) for row, labels in zip(x, y, strict=True) for a, b in zip(row, labels, strict=True)
    ]
    squares = [(a - b) ** 2 for a, b in numbers]
    assert regression_loss(logits, torch.tensor(y)).item() == pytest.approx(sum(squares) / 6)
    terms = [-b * math.log(sigmoid(a)) - (1 - b) * math.log(1 - sigmoid(a)) for a, b in numbers]
    assert multi_label_loss(logits, torch.tensor(y)).item() == pytest.approx(sum(terms) / 6)


@pytest.mark.parametrize(
    "labels", [torch.bool, torch.int64, torch.bfloat16, torch.float32, torch.float64]
)
@pytest.mark.parametrize("logits", [torch.bfloat16, torch.float32])
def test_labels_of_any_dtype_have_gradients(logits: torch.dtype, labels: torch.dtype) -> None:
    """They are 2 (x - y) / n for regression and (sigmoid(x) - y) / n for multiple labels."""
    y = torch.tensor([[1, 0], [0, 1], [1, 1]]).to(labels)
    for loss, gradient in (
        (regression_loss, lambda x: 2 * (x - y.double()) / 6),
        (multi_label_loss, lambda x: (x.sigmoid() - y.double()) / 6),
    ):
        x = torch.randn(3, 2).to(logits).requires_grad_()
        loss(x, y).backward()
        assert x.grad is not None and x.grad.dtype == logits
        rounding = 2 * torch.finfo(logits).eps
        torch.testing.assert_close(
            x.grad.double(), gradient(x.detach().double()), rtol=rounding, atol=rounding
        )


# labels of logits (3, 4), and how many of them count
CASES: dict[str, tuple[Any, Tensor, int]] = {
    "cross_entropy": (cross_entropy, torch.tensor([0, IGNORED, 2]), 2),
    "regression_loss": (regression_loss, torch.rand(3, 4), 12),
    "multi_label_loss": (multi_label_loss, torch.eye(4)[:3], 12),
    "span_loss": (span_loss, torch.tensor([0, 3, 4]), 2),  # the last position is out of range
}


def test_every_loss_is_tested() -> None:
    functions = inspect.getmembers(losses, inspect.isfunction)
    assert {name for name, one in functions if one.__module__ == losses.__name__} == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_the_mean_is_the_sum_divided_by_the_count(name: str) -> None:
    """Training uses sums, so that splitting a batch does not change the loss."""
    loss, labels, count = CASES[name]
    logits = torch.randn(3, 4)
    torch.testing.assert_close(loss(logits, labels) * count, loss(logits, labels, reduction="sum"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_gradients_of_certain_models(name: str, dtype: torch.dtype) -> None:
    """They are finite where a probability is rounded to 0 or 1, of right and wrong labels."""
    loss, labels, _ = CASES[name]
    for right in (1000, -1000):
        logits = (torch.eye(4)[:3] * right).to(dtype).requires_grad_()
        loss(logits, labels).backward()
        assert logits.grad is not None and logits.grad.isfinite().all()


@given(
    st.integers(1, 4),
    st.lists(st.integers(-200, 6), min_size=1, max_size=5),
    st.sampled_from([torch.int8, torch.int16, torch.int32, torch.int64]),
)
def test_any_integers(classes: int, labels: list[int], dtype: torch.dtype) -> None:
    """The loss is the mean over labels that are not ignored. An error names a wrong label."""
    labels = [max(label, -128) for label in labels]
    logits = torch.randn(len(labels), classes)
    wrong = [label for label in labels if label != IGNORED and not 0 <= label < classes]
    if wrong:
        with pytest.raises(
            ValueError, match=f"labels contains {wrong[0]}, but the model has {classes} classes"
        ):
            cross_entropy(logits, torch.tensor(labels, dtype=dtype))
        return
    counted = [(row, label) for row, label in enumerate(labels) if label != IGNORED]
    loss = cross_entropy(logits, torch.tensor(labels, dtype=dtype))
    if not counted:
        assert loss.isnan()
    else:
        terms = torch.stack(
            [-logits[row].double().log_softmax(-1)[label] for row, label in counted]
        )
        torch.testing.assert_close(loss.double(), terms.mean(), rtol=1e-5, atol=1e-6)
