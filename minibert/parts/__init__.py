"""How the model calls its parts: its own with a layout, those of a user as custom.py says.

A first reader can skip this file. For an own part, `call_embeddings`, `call` and `call_pooler` are
the call of the part, and `own_part` and `own_embeddings` change nothing that its `forward`
computes.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from torch import Tensor, nn

from minibert.inputs import check_ids
from minibert.layouts import UNMASKED, Layout, PackedLayout, PaddedLayout
from minibert.util.errors import ArgumentError

Forward = TypeVar("Forward", bound=Callable[..., Any])
LayoutOrMask = Layout | Tensor | None
"""A layout, or an attention mask in its place, as code written for transformers passes it."""


def make_layout(layout: Layout | None, attention_mask: Tensor | None) -> Layout:
    """Return the layout that a model was called with, or that of its mask.

    Raises:
        ValueError: Both a layout and a mask, or something else as layout.
    """
    if layout is None:
        return PaddedLayout(attention_mask)
    if not isinstance(layout, (PaddedLayout, PackedLayout)):
        raise ArgumentError(
            "layout",
            f"should be a PaddedLayout or a PackedLayout, not {type(layout).__name__}. A "
            "mask is passed as attention_mask.",
        )
    if attention_mask is not None:
        raise ValueError(
            "BertModel takes attention_mask or layout, not both. Pass "
            "PaddedLayout(attention_mask) or a PackedLayout."
        )
    return layout


def own_part(forward: Forward) -> Forward:
    """Mark the `forward` of a layer, its attention or an encoder as minibert's own.

    Decorated, it can also be called alone, as in transformers: with an attention mask in place of
    the layout or as `attention_mask`, and with arguments of decoders that ask for nothing.

    Raises:
        ValueError: When it is called, a mask that does not fit, something that is neither mask nor
            layout, or an argument that asks for something that minibert does not have.
        TypeError: When it is called, an unknown keyword.
    """
    own_arguments = frozenset(inspect.signature(forward).parameters)

    @wraps(forward)
    def called(
        part: nn.Module,
        hidden_states: Tensor,
        layout: LayoutOrMask = UNMASKED,
        *decoder: Any,
        **arguments: Any,
    ) -> Any:
        unused = {name: x for name, x in arguments.items() if name not in own_arguments}
        if decoder or unused:
            arguments = {name: x for name, x in arguments.items() if name in own_arguments}
            layout = _without_unused(forward.__qualname__, layout, decoder, unused)
        return forward(part, hidden_states, _as_layout(layout, hidden_states), **arguments)

    return own(called)  # type: ignore[return-value]  # callers see the arguments of `forward`


def own_embeddings(forward: Forward) -> Forward:
    """Mark the `forward` of embeddings as minibert's own, and check the ids that it is called with.

    Raises:
        ValueError: When it is called, an id has no row in its embedding table, or a tensor has
            another dtype or shape. (A GPU raises its own error for the first.)
        TypeError: When it is called, an unknown keyword.
    """

    @wraps(forward)
    def called(
        embeddings: nn.Module,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        *,
        layout: Layout | None = None,
        **unused: Any,
    ) -> Any:
        ids = (input_ids, token_type_ids, position_ids)
        check_ids(embeddings, layout, *ids, inputs_embeds, unused)
        try:
            return forward(embeddings, *ids, inputs_embeds, layout=layout or UNMASKED)
        except IndexError as error:
            # Looking for the id beforehand would take time in every call, so it is named only now.
            from minibert.inputs.explain import explain_ids

            looked_up = None if inputs_embeds is not None else input_ids
            raise explain_ids(error, embeddings, looked_up, *ids[1:]) from None

    return own(called)  # type: ignore[return-value]  # callers see the arguments of `forward`


def own(forward: Forward) -> Forward:
    """Mark the `forward` of a part as minibert's own."""
    # Itself, because `functools.wraps` copies the mark to a user's wrapper.
    vars(forward)["own"] = forward
    return forward


def takes_layout(part: nn.Module) -> bool:
    """Whether a part computes by a `forward` of minibert's own, which takes a layout.

    It does not if a subclass has a `forward` of its own, or if one has been assigned to the module
    or to its class. Such a `forward` gets a layout if it has a parameter of that name (custom.py).
    """
    # Not `part.forward.__func__`, which torch.compile takes for missing.
    forward: Any = type(part).forward
    if "forward" in part.__dict__:
        forward = getattr(part.__dict__["forward"], "__func__", None)
    return forward is not None and getattr(forward, "own", None) is forward


def _without_unused(
    owner: str, layout: LayoutOrMask, decoder: tuple[Any, ...], unused: dict[str, Any]
) -> LayoutOrMask:
    """Check arguments that only transformers has. Return the mask among them, or the layout."""
    from minibert.compat.keywords import FOR_DECODERS, PARTS, check_unused

    unused = {**dict(zip(FOR_DECODERS, decoder, strict=False)), **unused}
    mask = unused.pop("attention_mask", None)
    check_unused(owner, unused, PARTS)
    return layout if mask is None else mask


def _as_layout(layout: LayoutOrMask, hidden_states: Tensor) -> Layout:
    """Return a layout as it is, or that of a mask. None hides nothing."""
    if isinstance(layout, PackedLayout):
        return layout
    if isinstance(layout, PaddedLayout):
        return layout.typed(hidden_states)
    if layout is None:
        return UNMASKED
    padded = PaddedLayout(layout)
    padded.check(hidden_states.shape[:-1], "hidden_states")
    return padded.typed(hidden_states)


def call_embeddings(
    embeddings: nn.Module,
    layout: Layout,
    input_ids: Tensor | None,
    token_type_ids: Tensor | None,
    position_ids: Tensor | None,
    inputs_embeds: Tensor | None,
) -> Tensor:
    """Call the embeddings. A user's own receive the position ids of a packed batch, no layout."""
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


def call(part: nn.Module, hidden_states: Tensor, layout: Layout, **arguments: Any) -> Any:
    """Call the encoder, a layer, its attention, or the self-attention in it.

    Args:
        part: The module.
        hidden_states: (batch, seq, hidden), or (tokens, hidden) when packed.
        layout: Where sequences begin and end.
        arguments: Further arguments of minibert's own part.

    Returns:
        What minibert's own part returns.

    Raises:
        ValueError: A user's part does not return hidden states, or those of a packed batch in
            another shape.
    """
    if takes_layout(part):
        return part(hidden_states, layout, **arguments)
    from minibert.parts.custom import call_custom

    return call_custom(part, hidden_states, layout, arguments)


def call_pooler(pooler: nn.Module, hidden_states: Tensor, layout: Layout) -> Tensor:
    """Call the pooler. A user's own receives a padded batch, whatever the layout."""
    if takes_layout(pooler):
        return pooler(hidden_states, layout)
    return pooler(layout.pad(hidden_states))
