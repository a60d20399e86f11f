"""The check of what a model has computed, for PyTorch, ONNX Runtime and the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class NotFiniteError(ValueError):
    """A model computed NaN or infinity."""

    def __init__(self, model: str | None = None, text: Any = None) -> None:
        about = "" if text is None else f" for {text!r:.60}"
        super().__init__(
            f"The output of {model or 'the model'}{about} is not finite: it computed NaN or "
            "infinity, because its weights are damaged, or its precision is too low for them."
        )


def check_finite(
    outputs: Any, text_of: Callable[[int], Any] | None = None, *, model: str | None = None
) -> None:
    """Check that all outputs of a model are finite.

    Args:
        outputs: An array or a tensor, (N, ...), or a list of numbers.
        text_of: Returns the text of an index below N, for the error.
        model: Name of the model, for the error.

    Raises:
        NotFiniteError: One of them is NaN or infinite. The error names its text.
    """
    is_finite = outputs.isfinite() if hasattr(outputs, "isfinite") else np.isfinite(outputs)
    if is_finite.all():
        return
    if text_of is None:
        raise NotFiniteError(model)
    raise NotFiniteError(model, text_of(int(is_finite.reshape(len(is_finite), -1).all(1).argmin())))
