"""The losses of the heads and of training, with checks that labels and logits fit together.

Devlin et al. 2019, appendix A.2 (pre-training: sum of the mean losses of both tasks) and section 4
(fine-tuning).

Each is a mean over the labels that count. With `reduction="sum"` it is their sum: training divides
it by the number of labels of the whole batch, so that the result does not depend on how the batch
was split. The loss of each single label, which a task may weight, is that of torch, by its
`reduction="none"`.

Next file: heads.py.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.inputs.labels import check_classes, check_many_labels, check_numbers, check_span

Reduction = Literal["mean", "sum"]
IGNORED = -100
"""Labels with this value take no part in a loss (`ignore_index` of torch's cross entropy)."""


def cross_entropy(logits: Tensor, labels: Tensor, reduction: Reduction = "mean") -> Tensor:
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
    check_classes(logits, labels)
    classes = logits.shape[-1]
    rows = logits.reshape(-1, classes)  # (rows, classes)
    try:
        return F.cross_entropy(rows, labels.reshape(-1).long(), reduction=reduction)
    except IndexError:
        from minibert.inputs.explain import explain_classes

        raise explain_classes(labels, classes, IGNORED) from None


def regression_loss(logits: Tensor, labels: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Mean or sum of (logit - label)^2.

    Args:
        logits: (batch, num_labels).
        labels: The same shape, or (batch,) if num_labels is 1.
        reduction: "mean" or "sum".

    Returns:
        A single number.

    Raises:
        ValueError: Labels of another shape.
    """
    check_numbers(logits, labels)
    # mse_loss of two dtypes has no gradient in older versions of torch.
    dtype = torch.promote_types(logits.dtype, labels.dtype)
    predictions = logits.squeeze().to(dtype)
    targets = labels.reshape(logits.shape).squeeze().to(dtype)
    return F.mse_loss(predictions, targets, reduction=reduction)


def multi_label_loss(logits: Tensor, labels: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Mean or sum of the binary cross entropy of every label.

    It is -label log p - (1 - label) log(1 - p), with p = sigmoid(logit).

    Args:
        logits: (batch, num_labels).
        labels: 0.0 to 1.0, the same shape.
        reduction: "mean" or "sum".

    Returns:
        A single number.

    Raises:
        ValueError: Labels of another shape, or out of range.
    """
    check_many_labels(logits, labels)
    if not labels.is_floating_point():
        # Floating-point labels keep their precision, even if the logits are bfloat16.
        labels = labels.to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, labels, reduction=reduction)


def span_loss(logits: Tensor, positions: Tensor, reduction: Reduction = "mean") -> Tensor:
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
    check_span(logits, positions)
    ignored = logits.shape[1]  # one past the end
    targets = positions.reshape(-1).long().clamp(max=ignored)  # (batch,)
    return F.cross_entropy(logits, targets, ignore_index=ignored, reduction=reduction)
