"""Custom modules in the place of a layer or of its attention.

`model.encoder.layer[0] = nn.Identity()`, or a class of one's own: such a module is called with the
arguments that its `forward` takes.

    forward(hidden_states, layout, attend)         like minibert's own parts, also as *args
    forward(hidden_states, attention_mask=None)    as in transformers, with an additive mask or None
    forward(hidden_states, **kwargs)               a wrapper: layout and attend by keyword
    forward(hidden_states)                         a module that needs no mask, such as nn.Identity

The first and the third get hidden states as the layout has them. The others get a padded batch,
(batch, seq, hidden), whatever the layout. Each may return hidden states, or a tuple of hidden
states and attention probabilities.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from minibert.layouts import Layout, PackedLayout


def call_custom(
    module: nn.Module, hidden_states: Tensor, layout: Layout, **arguments: Any
) -> tuple[Tensor, Tensor | None]:
    """Call a module that is not one of minibert's own.

    Args:
        module: The module.
        hidden_states: (batch, seq, hidden), or (tokens, hidden) when packed.
        layout: Where sequences begin and end.
        arguments: What minibert's own module would be called with, besides these, in its order.

    Returns:
        Hidden states of the same shape, and the attention probabilities if the module returns any.

    Raises:
        ValueError: The module does not return hidden states of the shape that it was called with.
    """
    parameters, convention = _signature(type(module).forward)
    if convention == "position":
        values = [layout, *arguments.values()]
        return _split_output(module, module(hidden_states, *values[:parameters]), hidden_states)
    if convention == "keyword":
        return _split_output(
            module, module(hidden_states, layout=layout, **arguments), hidden_states
        )
    states = hidden_states
    mask = layout.mask
    if isinstance(layout, PackedLayout):
        states = layout.pad(hidden_states)  # (batch, seq, hidden)
        mask = layout.token_mask(states.device)[:, None, None, :]  # (batch, 1, 1, seq)
    if convention == "mask":
        additive = None
        if mask is not None:
            additive = torch.zeros(mask.shape, dtype=states.dtype, device=states.device)
            additive = additive.masked_fill(~mask, torch.finfo(states.dtype).min)
        result = module(states, attention_mask=additive)
    else:
        result = module(states)
    output, weights = _split_output(module, result, states)
    if isinstance(layout, PackedLayout):
        output = layout.unpad(output)  # (tokens, hidden)
    return output, weights


@lru_cache(maxsize=256)
def _signature(forward: Callable[..., Any]) -> tuple[int | None, str]:
    """Return the number of arguments after the hidden states (None: all), and the convention."""
    parameters = inspect.signature(forward).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None, "position"
    if "layout" in parameters:
        positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return positional - 2, "position"  # without self and hidden_states
    if "attention_mask" in parameters:
        return 0, "mask"
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return 0, "keyword"
    return 0, "states"


def _split_output(
    module: nn.Module, result: Any, hidden_states: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return hidden states and attention probabilities of what a module has returned."""
    output = result
    weights = None
    if isinstance(result, tuple) and result:
        output = result[0]
        if len(result) > 1 and isinstance(result[1], Tensor):
            weights = result[1]
    if not isinstance(output, Tensor):
        raise ValueError(
            f"{type(module).__name__} should return hidden states of shape "
            f"{tuple(hidden_states.shape)}, not {type(output).__name__}."
        )
    if output.shape != hidden_states.shape:
        raise ValueError(
            f"{type(module).__name__} should return hidden states of shape "
            f"{tuple(hidden_states.shape)}, not {tuple(output.shape)}."
        )
    return output, weights
