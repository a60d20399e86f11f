"""How the model calls parts that are not its own.

Such a part is a module such as `model.encoder.layer[0] = nn.Identity()`, a subclass with its own
`forward`, or a `forward` that is assigned to a module or to its class. It is called as transformers
calls it: with a padded batch (batch, seq, hidden) whatever the layout, and with the additive mask.

    forward(hidden_states, attention_mask)         as in transformers: the mask, or None
    forward(hidden_states, *args, **kwargs)        a wrapper: the mask, and `attend` by keyword
    forward(hidden_states)                         a module that needs no mask, such as nn.Identity
    forward(hidden_states, layout)                 as minibert's own parts: the layout, and hidden
                                                   states that are not padded if packed

A layer, its attention and the self-attention in it may return hidden states, or a tuple of hidden
states and attention probabilities. An encoder may return a tuple or an output. In a padded batch
they may have another number of sequences, tokens or dimensions, as the next part takes them.

This is about the encoder, its layers, their attention, the self-attention in it, and the pooler.
All further parts, such as `layer.intermediate`, an activation or a linear layer, compute each token
alone. They are called as modules of torch are, with (tokens, hidden) when packed.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from torch import Tensor, nn

from minibert.layouts import Layout
from minibert.outputs import BertModelOutput


def call_custom(
    part: nn.Module, hidden_states: Tensor, layout: Layout, arguments: Mapping[str, Any]
) -> Any:
    """Call a part, as `parts.call` does, and return what minibert's own part returns.

    A layer is told from its attention by the argument `attentions`, and an encoder from both by
    `output_attentions`.

    Raises:
        ValueError: The part does not return hidden states, or in a packed batch not those of the
            shape that it received.
    """
    if "output_attentions" in arguments:
        return _encode(part, hidden_states, layout, arguments)
    result, states = _call(part, hidden_states, layout, arguments)
    output, probabilities = _split_output(part, result, states, layout)
    if states is not hidden_states:
        output = layout.unpad(output)
    if "attentions" not in arguments:
        return output, probabilities
    if arguments["attentions"] is not None and probabilities is not None:
        arguments["attentions"].append(probabilities)
    return output


def _encode(
    encoder: nn.Module, hidden_states: Tensor, layout: Layout, arguments: Mapping[str, Any]
) -> BertModelOutput:
    """Call an encoder. It may return a tuple or an output."""
    result, states = _call(encoder, hidden_states, layout, {**arguments, "return_dict": True})
    if isinstance(result, tuple):  # in this order, without what was not asked for
        names = ["last_hidden_state"]
        names += [name for name in ("hidden_states", "attentions") if arguments[f"output_{name}"]]
        result = BertModelOutput(**dict(zip(names, result, strict=False)))
    last_hidden_state, _ = _split_output(encoder, result.last_hidden_state, states, layout)
    output = BertModelOutput(
        last_hidden_state,
        hidden_states=getattr(result, "hidden_states", None),
        attentions=getattr(result, "attentions", None),
    )
    if states is not hidden_states:
        output.last_hidden_state = layout.unpad(output.last_hidden_state)
        if output.hidden_states is not None:
            output.hidden_states = tuple(map(layout.unpad, output.hidden_states))
    return output


def _call(
    part: nn.Module, hidden_states: Tensor, layout: Layout, arguments: Mapping[str, Any]
) -> tuple[Any, Tensor]:
    """Call a user's part. Return its result, and the hidden states that it received."""
    parameters = _parameters(part)
    kinds = [parameter.kind for parameter in parameters.values()]
    takes_any_keyword = inspect.Parameter.VAR_KEYWORD in kinds
    keywords = {
        name: value
        for name, value in arguments.items()
        if name in parameters or (takes_any_keyword and value is not None)
    }
    if "layout" in parameters:
        return part(hidden_states, layout=layout, **keywords), hidden_states

    states = layout.pad(hidden_states)  # (batch, seq, hidden)
    mask = layout.additive_mask(states)  # (batch, 1, 1, seq) or None
    positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional += kinds.count(inspect.Parameter.POSITIONAL_ONLY)
    if "attention_mask" in parameters:
        return part(states, attention_mask=mask, **keywords), states
    if positional > 1 or inspect.Parameter.VAR_POSITIONAL in kinds:
        return part(states, mask, **keywords), states
    if takes_any_keyword:
        return part(states, attention_mask=mask, **keywords), states
    return part(states, **keywords), states


def _parameters(part: nn.Module) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of `forward` without `self`.

    Those of a wrapper itself, even if `functools.wraps` gives it the name of what it wraps.
    """
    if "forward" in vars(part):  # assigned to the module
        return inspect.signature(part.forward, follow_wrapped=False).parameters
    return _class_parameters(type(part).forward)


@lru_cache(maxsize=256)
def _class_parameters(forward: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    parameters = dict(inspect.signature(forward, follow_wrapped=False).parameters)
    first = next(iter(parameters.values()), None)
    if first is not None and first.kind is not inspect.Parameter.VAR_POSITIONAL:
        del parameters[first.name]  # self
    return parameters


def _split_output(
    part: nn.Module, result: Any, hidden_states: Tensor, layout: Layout
) -> tuple[Tensor, Tensor | None]:
    """Return hidden states and attention probabilities of what a user's module has returned.

    In a padded batch they may have another shape, as in transformers: the next part has to fit.

    Raises:
        ValueError: The hidden states are missing, or of another shape in a packed batch.
    """
    output, probabilities = result, None
    if isinstance(result, tuple) and result:
        output = result[0]
        if len(result) > 1 and isinstance(result[1], Tensor):
            probabilities = result[1]
    expected = tuple(hidden_states.shape)
    if not isinstance(output, Tensor):
        raise ValueError(
            f"{type(part).__name__} should return hidden states of shape {expected}, not "
            f"{type(output).__name__}."
        )
    if layout.is_packed and output.shape != hidden_states.shape:
        raise ValueError(
            f"{type(part).__name__} should return hidden states of shape {expected}, not "
            f"{tuple(output.shape)}. Only a padded batch may change its shape: pass input_ids "
            "(batch, seq)."
        )
    return output, probabilities
