"""Outputs made of values alone, as `torch.nn.DataParallel` gathers them from its replicas."""

from dataclasses import fields
from typing import Any

from torch import Tensor


def named_values(output_class: Any, values: list[Any]) -> list[tuple[str, Any]]:
    """Return pairs of a name and a value: each value with the next field that it fits.

    `DataParallel` gathers the values that iterating over an output gives, without their names.

    Args:
        output_class: A dataclass of outputs.
        values: In the order of its fields.

    Raises:
        ValueError: A value fits no field.
    """
    names = iter([field.name for field in fields(output_class)])
    pairs = []
    for value in values:
        for name in names:
            if _fits(name, value):
                pairs.append((name, value))
                break
        else:
            raise ValueError(
                f"{output_class.__name__} takes values by name, or a mapping of them, not "
                f"{values!r:.80}."
            )
    return pairs


def _fits(name: str, value: Any) -> bool:
    """Whether a value can belong to a field, judged by its number of dimensions."""
    if name in ("hidden_states", "attentions"):
        if not isinstance(value, tuple):
            return False
        are_attentions = [tensor.dim() == 4 for tensor in value]
        return all(is_attention == (name == "attentions") for is_attention in are_attentions)
    if not isinstance(value, Tensor):
        return False
    is_loss = value.dim() < 2
    return is_loss == (name == "loss")
