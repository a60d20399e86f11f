"""The losses of the heads and of training, with checks that labels and logits fit together.

Devlin et al. 2019, appendix A.2 (pre-training: sum of the mean losses of both tasks) and section 4
(fine-tuning).

Each is a mean over the labels that count. With `reduction="sum"` it is their sum: training divides
it by the number of labels of the whole batch, so that the result does not depend on how the batch
was split.

Next file: heads.py.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.layouts import is_traced

IGNORED = -100
"""Labels with this value take no part in a loss (`ignore_index` of torch's cross entropy)."""


def cross_entropy(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Mean or sum of -log softmax(logits)[label] over all labels that are not `IGNORED`.

    Args:
        logits: (..., classes).
        labels: Integers from 0 to classes - 1, or `IGNORED`, (...). Shapes (..., 1) and flat are
            accepted, too.
        reduction: "mean" or "sum". The mean is NaN if all labels are ignored.

    Returns:
        A single number.

    Raises:
        ValueError: Labels of another shape or dtype, or out of range. (A GPU raises its own error
            for these.)
    """
    check_labels("labels", labels)
    if not is_class_index(labels):
        raise ValueError(
            f"labels should be integers (torch.long), one class each, not {labels.dtype}."
        )
    *shape, classes = logits.shape
    rows = logits.reshape(-1, classes)  # (rows, classes)
    has_shape = list(labels.shape) in (shape, [*shape, 1])
    is_flat = labels.dim() == 1
    if labels.numel() != len(rows) or not (has_shape or is_flat):
        raise ValueError(f"labels should be of shape {tuple(shape)}, not {tuple(labels.shape)}.")
    try:
        return F.cross_entropy(rows, labels.reshape(-1).long(), reduction=reduction)
    except IndexError:
        is_invalid = ((labels < 0) | (labels >= classes)) & (labels != IGNORED)
        raise ValueError(
            f"labels contains {labels[is_invalid][0].item()}, but the model has {classes} classes "
            f"(0 to {classes - 1}). Correct the labels, or num_labels if it is too small."
        ) from None


def regression_loss(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Mean or sum of squared errors.

    Args:
        logits: (batch, num_labels).
        labels: The same shape, or (batch,) if num_labels is 1.
        reduction: "mean" or "sum".

    Returns:
        A single number.

    Raises:
        ValueError: Labels of another shape.
    """
    check_labels("labels", labels)
    is_single = logits.shape[-1] == 1 and labels.numel() == logits.numel()
    if labels.shape != logits.shape and not is_single:
        raise ValueError(
            f"labels should be of shape {tuple(logits.shape)}, not {tuple(labels.shape)}."
        )
    # mse_loss of two dtypes has no gradient in older versions of torch.
    dtype = torch.promote_types(logits.dtype, labels.dtype)
    predictions = logits.squeeze().to(dtype)
    targets = labels.reshape(logits.shape).squeeze().to(dtype)
    return F.mse_loss(predictions, targets, reduction=reduction)


def multi_label_loss(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Mean or sum of the binary cross entropy of every label.

    Args:
        logits: (batch, num_labels).
        labels: 0.0 to 1.0, the same shape.
        reduction: "mean" or "sum".

    Returns:
        A single number.

    Raises:
        ValueError: Labels of another shape, or out of range.
    """
    check_labels("labels", labels)
    if labels.shape != logits.shape:
        raise ValueError(
            f"labels should be of shape {tuple(logits.shape)}, 0.0 or 1.0 for every label, not "
            f"{tuple(labels.shape)}. For a single class per text pass integers (torch.long)."
        )
    if not is_traced(labels) and ((labels < 0) | (labels > 1)).any():
        raise ValueError(
            "labels should be from 0.0 to 1.0 for every label (multi_label_classification)."
        )
    if not labels.is_floating_point():
        # Floating-point labels keep their precision, even if the logits are bfloat16.
        labels = labels.to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, labels, reduction=reduction)


def span_loss(logits: Tensor, positions: Tensor, reduction: str = "mean") -> Tensor:
    """Cross entropy over the positions of a sequence, for the start or the end of an answer.

    Devlin et al. 2019, section 4.2.

    Args:
        logits: (batch, seq).
        positions: The correct position, (batch,). Positions from seq on are ignored, because the
            answer was truncated.
        reduction: "mean" or "sum". The mean is NaN if all positions are ignored.

    Returns:
        A single number.

    Raises:
        ValueError: Positions of another shape or dtype, or negative ones.
    """
    check_labels("positions", positions)
    batch = len(logits)
    if logits.dim() != 2 or not is_class_index(positions) or positions.numel() != batch:
        raise ValueError(
            f"positions should be integers of shape ({batch},), not {positions.dtype} of "
            f"{tuple(positions.shape)}."
        )
    if not is_traced(positions) and (positions < 0).any():
        raise ValueError(
            f"positions contains {positions.min().item()}. If a text has no answer, use 0, the "
            "position of [CLS]."
        )
    ignored = logits.shape[1]  # one past the end
    targets = positions.reshape(-1).long().clamp(max=ignored)  # (batch,)
    return F.cross_entropy(logits, targets, ignore_index=ignored, reduction=reduction)


def is_class_index(labels: Tensor) -> bool:
    """Whether labels are integers, one class each. Booleans and floating-point numbers are not."""
    return not labels.is_floating_point() and labels.dtype != torch.bool


def check_labels(argument: str, labels: Any) -> None:
    """Check that labels are a tensor.

    Args:
        argument: The argument, as the error should call it.
        labels: What was passed.

    Raises:
        ValueError: Not a tensor.
    """
    if not isinstance(labels, Tensor):
        raise ValueError(
            f"{argument} should be a tensor, not {type(labels).__name__}: pass "
            f"torch.tensor({argument})."
        )
