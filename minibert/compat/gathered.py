"""How `torch.nn.DataParallel` gathers the outputs of its replicas into one.

It takes an output for a dict whose iteration gives names: `type(out)((k, gather([d[k] for d in
outputs])) for k in out)`. So it looks up each value of the first replica in all of them.
"""

from dataclasses import fields
from typing import Any

from torch import Tensor


def value_for(output: Any, of_first: Any) -> Any:
    """Return the value of an output in the place of a value of the first replica's.

    Its own values are known by identity. What belongs to another replica is looked up in the order
    of the values, so each look-up returns the next one.

    Args:
        output: That of a replica.
        of_first: A value of the first replica's output.

    Raises:
        TypeError: Not a value of an output.
    """
    if not isinstance(of_first, Tensor | tuple):
        raise TypeError(
            f"an output takes a name, an index or a slice, not {type(of_first).__name__}."
        )
    values = output.to_tuple()
    for value in values:
        if value is of_first:
            return value
    place = vars(output).get("_place", 0)
    vars(output)["_place"] = (place + 1) % len(values)
    return values[place]


def named_values(output_class: Any, values: list[Any]) -> list[tuple[str, Any]]:
    """Return pairs of a name and a value: each value with the next field that it fits.

    Args:
        output_class: A dataclass of outputs.
        values: In the order of its fields, or each as a pair of that of the first replica and the
            gathered one.

    Raises:
        ValueError: A value fits no field.
    """
    names = iter([field.name for field in fields(output_class)])
    pairs = []
    if all(isinstance(value, tuple) and len(value) == 2 for value in values):
        values = [value for _, value in values]
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
