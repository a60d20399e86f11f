"""How the model calls its parts, whether they are minibert's own or a user's.

A user's part is a module such as `model.encoder.layer[0] = nn.Identity()`, a subclass with its own
`forward`, or a `forward` that is assigned to a module or to its class. It is called as transformers
calls it: with a padded batch (batch, seq, hidden) whatever the layout, and with the additive mask.

    forward(hidden_states, attention_mask)         as in transformers: the mask, or None
    forward(hidden_states, *args, **kwargs)        a wrapper: the mask, and `attend` by keyword
    forward(hidden_states)                         a module that needs no mask, such as nn.Identity
    forward(hidden_states, layout)                 whoever names a layout gets one, as minibert's
                                                   own parts, and hidden states as it has them

A layer, its attention and the self-attention in it may return hidden states, or a tuple of hidden
states and attention probabilities. An encoder may return a tuple or an output.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from torch import Tensor, nn

from minibert import inputs
from minibert.layouts import UNMASKED, Layout, LayoutOrMask, PackedLayout, PaddedLayout
from minibert.outputs import BertModelOutput


def make_layout(layout: Layout | None, attention_mask: Tensor | None) -> Layout:
    """Return the layout that a model was called with, or that of its mask.

    Raises:
        ValueError: Both a layout and a mask.
    """
    if layout is None:
        return PaddedLayout(attention_mask)
    if attention_mask is not None:
        raise ValueError(
            "BertModel takes attention_mask or layout, not both. Pass "
            "PaddedLayout(attention_mask) or a PackedLayout."
        )
    return layout


def as_layout(
    layout: LayoutOrMask, hidden_states: Tensor, attend: Any = None, unused: Any = None
) -> Layout:
    """Return the layout that a part of the encoder was called with.

    Every part calls it, so that each can also be called alone, as in transformers.

    Args:
        layout: A layout, which is returned as it is, or an attention mask. None hides nothing.
        hidden_states: (batch, seq, hidden), which a mask has to fit.
        attend: The attention function.
        unused: Further keywords, as in transformers. `attention_mask` is that of `layout` there.

    Raises:
        ValueError: A mask that does not fit, something that is neither, or a keyword that asks for
            something that minibert does not have.
    """
    if unused or not (attend is None or callable(attend)):
        mask = unused.pop("attention_mask", None)
        layout = layout if mask is None else mask
        inputs.check_part(attend, unused)
    if isinstance(layout, (PaddedLayout, PackedLayout)):
        return layout
    if layout is None:
        return UNMASKED
    padded = PaddedLayout(layout)
    padded.check(hidden_states.shape[:-1], "hidden_states")
    return padded


def takes_layout(part: nn.Module) -> bool:
    """Whether a part computes by minibert's own `forward`, which its class names `layout_forward`.

    It does not if a subclass has a `forward` of its own, or if one has been assigned to the module
    or to its class.
    """
    own = getattr(type(part), "layout_forward", None)
    return own is not None and getattr(part.forward, "__func__", None) is own


def run(
    part: nn.Module, hidden_states: Tensor, layout: Layout, **arguments: Any
) -> tuple[Tensor, Tensor | None]:
    """Call a layer, its attention, or the self-attention in it.

    Args:
        part: The module.
        hidden_states: (batch, seq, hidden), or (tokens, hidden) when packed.
        layout: Where sequences begin and end.
        arguments: The further arguments of minibert's own module, in its order.

    Returns:
        Hidden states of the same shape, and the attention probabilities if the module returns any.

    Raises:
        ValueError: A user's module does not return hidden states of the shape that it received.
    """
    if takes_layout(part):
        result = part(hidden_states, layout, *arguments.values())
        return result if isinstance(result, tuple) else (result, None)

    result, states = _call_own(part, hidden_states, layout, arguments)
    output, probabilities = _split_output(part, result, states)
    return output if states is hidden_states else layout.unpad(output), probabilities


def encode(
    encoder: nn.Module, hidden_states: Tensor, layout: Layout, attend: Any, **options: bool
) -> BertModelOutput:
    """Call the encoder.

    Args:
        encoder: The module.
        hidden_states: (batch, seq, hidden), or (tokens, hidden) when packed.
        layout: Where sequences begin and end.
        attend: The attention function.
        options: `output_hidden_states` and `output_attentions`.

    Returns:
        A `BertModelOutput` without `pooler_output`. A user's encoder may also return a tuple, or an
        output with these names.
    """
    if takes_layout(encoder):
        return encoder(hidden_states, layout, attend, **options)
    arguments = {"attend": attend, **options, "return_dict": True}
    result, states = _call_own(encoder, hidden_states, layout, arguments)
    if isinstance(result, tuple):  # in this order, without what was not asked for
        names = ["last_hidden_state"]
        names += [name.removeprefix("output_") for name, asked in options.items() if asked]
        result = BertModelOutput(**dict(zip(names, result, strict=False)))
    last_hidden_state, _ = _split_output(encoder, result.last_hidden_state, states)
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


def _call_own(
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


def embed(
    embeddings: nn.Module,
    layout: Layout,
    input_ids: Tensor | None,
    token_type_ids: Tensor | None,
    position_ids: Tensor | None,
    inputs_embeds: Tensor | None,
) -> Tensor:
    """Call the embeddings. A user's own receive the positions of a packed batch instead of it."""
    ids: dict[str, Any] = {
        "input_ids": input_ids,
        "token_type_ids": token_type_ids,
        "position_ids": position_ids,
        "inputs_embeds": inputs_embeds,
    }
    if takes_layout(embeddings):
        ids["layout"] = layout
    elif position_ids is None and layout.is_packed:
        tokens = inputs_embeds if input_ids is None else input_ids
        ids["position_ids"] = layout.position_ids(getattr(tokens, "device", None), tokens=())
    return embeddings(**ids)


def pool(pooler: nn.Module, hidden_states: Tensor, layout: Layout) -> Tensor:
    """Call the pooler. A user's own receives a padded batch, whatever the layout."""
    if takes_layout(pooler):
        return pooler(hidden_states, layout)
    return pooler(layout.pad(hidden_states))


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
    part: nn.Module, result: Any, hidden_states: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return hidden states and attention probabilities of what a user's module has returned.

    Raises:
        ValueError: The hidden states are missing, or of another shape.
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
    if output.shape != hidden_states.shape:
        raise ValueError(
            f"{type(part).__name__} should return hidden states of shape {expected}, not "
            f"{tuple(output.shape)}."
        )
    return output, probabilities
