"""How the model calls its parts: its own with a layout, those of a user as custom.py says.

A part is minibert's own if it computes by the `forward` that its class names `layout_forward`. A
first reader can skip this file: for an own part, each function here is the call of the part.
"""

from typing import Any

from torch import Tensor, nn

from minibert.layouts import UNMASKED, Layout, LayoutOrMask, PackedLayout, PaddedLayout


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
    layout: LayoutOrMask,
    hidden_states: Tensor,
    decoder: tuple[Any, ...] = (),
    unused: dict[str, Any] | None = None,
) -> Layout:
    """Return the layout that a part of the encoder was called with.

    Every part calls it, so that each can also be called alone, as in transformers.

    Args:
        layout: A layout, which is returned as it is, or an attention mask. None hides nothing.
        hidden_states: (batch, seq, hidden), which a mask has to fit.
        decoder: Further arguments by position, which transformers has for decoders.
        unused: Further keywords, as in transformers. `attention_mask` is that of `layout` there.

    Raises:
        ValueError: A mask that does not fit, something that is neither, or a keyword that asks for
            something that minibert does not have.
    """
    if decoder or unused:
        from minibert.compat.forward_keywords import FOR_DECODERS, PARTS
        from minibert.compat.keywords import check_unused

        unused = {**dict(zip(FOR_DECODERS, decoder, strict=False)), **(unused or {})}
        mask = unused.pop("attention_mask", None)
        layout = layout if mask is None else mask
        check_unused("BertLayer.forward", unused, PARTS)
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
    or to its class. Such a `forward` gets a layout if it has a parameter of that name (custom.py).
    """
    own = getattr(type(part), "layout_forward", None)
    return own is not None and getattr(part.forward, "__func__", None) is own


def embed(
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
        ValueError: A user's part does not return hidden states of the shape that it received.
    """
    if takes_layout(part):
        return part(hidden_states, layout, **arguments)
    from minibert.parts.custom import call_custom

    return call_custom(part, hidden_states, layout, arguments)


def pool(pooler: nn.Module, hidden_states: Tensor, layout: Layout) -> Tensor:
    """Call the pooler. A user's own receives a padded batch, whatever the layout."""
    if takes_layout(pooler):
        return pooler(hidden_states, layout)
    return pooler(layout.pad(hidden_states))
