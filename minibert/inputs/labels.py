"""Checks of labels and of what else a head is called with. Each raises a ValueError.

The losses and the heads call them in one line each. A first reader can skip this file.
"""

from typing import Any

import torch
from torch import Tensor

from minibert.inputs import check_tensor, is_traced
from minibert.util.errors import ArgumentError


def is_class_index(labels: Tensor) -> bool:
    """Whether labels are integers, one class each. Booleans and floating-point numbers are not."""
    return not labels.is_floating_point() and labels.dtype != torch.bool


def check_classes(logits: Tensor, labels: Any) -> None:
    """Check the labels of a cross entropy.

    Raises:
        ValueError: Not a tensor of integers, or of another shape.
    """
    check_tensor("labels", labels)
    if not is_class_index(labels):
        raise ArgumentError(
            "labels", f"should be integers (torch.long), one class each, not {labels.dtype}."
        )
    shape = list(logits.shape[:-1])
    has_shape = list(labels.shape) in (shape, [*shape, 1])
    is_flat = labels.dim() == 1
    if labels.numel() != logits.shape[:-1].numel() or not (has_shape or is_flat):
        raise ArgumentError(
            "labels", f"should be of shape {tuple(shape)}, not {tuple(labels.shape)}."
        )


def check_numbers(logits: Tensor, labels: Any) -> None:
    """Check the labels of a regression.

    Raises:
        ValueError: Not a tensor, or of another shape.
    """
    check_tensor("labels", labels)
    is_single = logits.shape[-1] == 1 and labels.numel() == logits.numel()
    if labels.shape != logits.shape and not is_single:
        raise ArgumentError(
            "labels", f"should be of shape {tuple(logits.shape)}, not {tuple(labels.shape)}."
        )


def check_many_labels(logits: Tensor, labels: Any) -> None:
    """Check the labels of a multi-label classification.

    Raises:
        ValueError: Not a tensor, of another shape, or out of range.
    """
    check_tensor("labels", labels)
    if labels.shape != logits.shape:
        raise ArgumentError(
            "labels",
            f"should be of shape {tuple(logits.shape)}, 0.0 or 1.0 for every label, not "
            f"{tuple(labels.shape)}. For a single class per text pass integers (torch.long).",
        )
    if not is_traced(labels) and ((labels < 0) | (labels > 1)).any():
        raise ArgumentError(
            "labels", "should be from 0.0 to 1.0 for every label (multi_label_classification)."
        )


def check_span(logits: Tensor, positions: Any) -> None:
    """Check the positions of an answer.

    Raises:
        ValueError: Positions of another shape or dtype, or negative ones.
    """
    check_tensor("positions", positions)
    batch = len(logits)
    if logits.dim() != 2 or not is_class_index(positions) or positions.numel() != batch:
        raise ArgumentError(
            "positions",
            f"should be integers of shape ({batch},), not {positions.dtype} of "
            f"{tuple(positions.shape)}.",
        )
    if not is_traced(positions) and (positions < 0).any():
        raise ArgumentError(
            "positions",
            f"contains {positions.min().item()}. If a text has no answer, use 0, the "
            "position of [CLS].",
        )


def check_chosen(positions: Any, labels: Any, tokens: torch.Size) -> None:
    """Check which tokens a head of masked-language modeling scores, and their labels.

    Args:
        positions: A mask of the tokens, or None for all of them.
        labels: Word ids, or None.
        tokens: The shape of the tokens.

    Raises:
        ValueError: Not a tensor, or of another shape or dtype.
    """
    if labels is not None:
        check_tensor("labels", labels)
    if positions is None:
        return
    check_tensor("positions", positions)
    if positions.dtype != torch.bool or positions.shape != tokens:
        raise ArgumentError(
            "positions",
            f"should be torch.bool of shape {tuple(tokens)}, not {positions.dtype} of "
            f"{tuple(positions.shape)}.",
        )
    if labels is not None and labels.shape != tokens:
        raise ArgumentError(
            "labels", f"should be of shape {tuple(tokens)}, not {tuple(labels.shape)}."
        )


def check_choices(input_ids: Any, inputs_embeds: Any) -> None:
    """Check the inputs of a multiple choice.

    Raises:
        ValueError: They do not have an axis of the choices.
    """
    if isinstance(input_ids, Tensor) and input_ids.dim() < 3:
        raise ArgumentError(
            "input_ids", f"should be of shape (batch, choices, seq), not {tuple(input_ids.shape)}."
        )
    if isinstance(inputs_embeds, Tensor) and inputs_embeds.dim() < 4:
        raise ArgumentError(
            "inputs_embeds",
            f"should be of shape (batch, choices, seq, hidden), not {tuple(inputs_embeds.shape)}.",
        )
