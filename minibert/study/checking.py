"""Arguments of the analyses and plots: arrays become tensors, mistakes become sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert.study.trace import Trace
from minibert.util.errors import ArgumentError


def as_tensor(name: str, values: Any) -> Tensor:
    """Return a tensor on the CPU without gradient.

    Args:
        name: The argument, as the error should call it.
        values: A tensor, a NumPy array, or lists of numbers.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        return torch.as_tensor(np.asarray(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            name, f"should be a tensor or an array of numbers, not {values!r:.80}."
        ) from error


def check_trace(t: Any) -> None:
    """Check that this is a trace.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(t, Trace):
        raise ArgumentError(
            "t",
            "should be the trace of a call, from `with trace(model) as t: model(**batch)`, "
            f"not {type(t).__name__}.",
        )


def check_inputs(name: str, batch: Any) -> None:
    """Check that this is a batch with `input_ids`.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(batch, Mapping) or "input_ids" not in batch:
        raise ArgumentError(
            name,
            f"should be a batch with input_ids, such as tokenizer(text, "
            f'return_tensors="pt"), not {type(batch).__name__}.',
        )


def check_differentiable(name: str, value: Any) -> None:
    """Check that a function returned a tensor that a gradient can be computed from.

    Raises:
        ValueError: It returned something else.
    """
    if not isinstance(value, Tensor) or not value.requires_grad:
        raise ArgumentError(
            name,
            f"should return a tensor that depends on the model's logits (no argmax, no "
            f"float), not {value!r:.80}.",
        )
