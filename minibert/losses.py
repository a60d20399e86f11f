"""The losses of heads and of training, each with a check that labels and logits belong together.

Each is a mean over what it counts, or with `reduction="sum"` the sum, which training divides by the labels of the whole
batch, however it was cut.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.compat.tracing import is_traced

IGNORED = -100
"""Labels of this value take no part in a loss (`ignore_index` of torch's cross entropy)."""


def cross_entropy(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Mean (or sum) of -log softmax(logits)[label] over the labels that are not `IGNORED`; nan when all of them are.

    Args:
        logits: (..., classes).
        labels: whole numbers from 0 to classes - 1, or `IGNORED`, shape (...); (..., 1) and flat will do too.
        reduction: "mean" or "sum".

    Raises:
        ValueError: labels of another shape or type, or out of range (a GPU stops with its own error for those).
    """
    *shape, classes = logits.shape
    if not is_class_index(labels):
        raise ValueError(
            f"labels should be whole numbers (torch.long), one class each, not {labels.dtype}."
        )
    if (
        list(labels.shape) not in (shape, [*shape, 1], [labels.numel()])
        or labels.numel() * classes != logits.numel()
    ):
        raise ValueError(f"labels should be of shape {tuple(shape)}, not {tuple(labels.shape)}.")
    try:
        return F.cross_entropy(
            logits.reshape(-1, classes), labels.reshape(-1).long(), reduction=reduction
        )
    except IndexError:
        wrong = labels[((labels < 0) | (labels >= classes)) & (labels != IGNORED)][0].item()
        raise ValueError(
            f"labels hold {wrong}, but the model has {classes} classes (0 to {classes - 1}): correct the labels, or "
            "num_labels where it is too small."
        ) from None


def regression_loss(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Mean (or sum) of squared errors; both (batch, num_labels), or labels (batch,) for one number a text."""
    if labels.shape != logits.shape and (logits.shape[-1] > 1 or labels.numel() != logits.numel()):
        raise ValueError(
            f"labels should be of shape {tuple(logits.shape)}, not {tuple(labels.shape)}."
        )
    dtype = torch.promote_types(
        logits.dtype, labels.dtype
    )  # mse_loss of two dtypes has no gradient in older torch
    return F.mse_loss(
        logits.squeeze().to(dtype),
        labels.reshape(logits.shape).squeeze().to(dtype),
        reduction=reduction,
    )


def multi_label_loss(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Binary cross entropy of every label on its own; both (batch, num_labels), labels from 0.0 to 1.0."""
    if labels.shape != logits.shape:
        raise ValueError(
            f"labels should be of shape {tuple(logits.shape)}, 0.0 or 1.0 for every label, not {tuple(labels.shape)}; "
            "for one class a text pass whole numbers (torch.long)."
        )
    if not is_traced(labels) and ((labels < 0) | (labels > 1)).any():
        raise ValueError(
            "labels should be from 0.0 to 1.0 for every label (multi_label_classification)."
        )
    # fractions stay as exact as they are, even beside bfloat16 logits
    labels = labels if labels.is_floating_point() else labels.to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, labels, reduction=reduction)


def span_loss(logits: Tensor, positions: Tensor, reduction: str = "mean") -> Tensor:
    """Cross entropy of logits (batch, seq) over the places; one past the end is ignored, nan when all are."""
    if logits.dim() != 2 or not is_class_index(positions) or positions.numel() != len(logits):
        expected, received = (len(logits),), tuple(positions.shape)
        raise ValueError(
            f"positions should be whole numbers of shape {expected}, not {positions.dtype} of {received}."
        )
    if not is_traced(positions) and (positions < 0).any():
        raise ValueError(
            f"positions hold {positions.min().item()}; no answer is position 0, the place of [CLS]."
        )
    places = positions.reshape(-1).long().clamp(max=(outside := logits.shape[1]))
    return F.cross_entropy(logits, places, ignore_index=outside, reduction=reduction)


def is_class_index(labels: Tensor) -> bool:
    """Whether labels are whole numbers, one class each; booleans and floating-point numbers are not."""
    return not labels.is_floating_point() and labels.dtype != torch.bool
