"""What tools for transformers pass to a model and its parts, read of them and assign to them."""

from __future__ import annotations

from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from minibert.compat.keywords import ANYTHING, Keywords, check_unused


class UnusedArguments(TypedDict, total=False):
    """Arguments that tools for transformers pass, accepted as long as they ask for nothing."""

    use_cache: bool | None
    past_key_values: None
    encoder_hidden_states: None
    encoder_attention_mask: None
    num_items_in_batch: Any
    head_mask: None


MODEL: Keywords = {
    "use_cache": (ANYTHING, "an encoder computes a text once and has nothing to keep"),
    "num_items_in_batch": (
        ANYTHING,
        "the Trainer's count of labels, but BERT's losses are means of a batch",
    ),
    "past_key_values": (None, "it is for decoders, but an encoder computes every text at once."),
    "encoder_hidden_states": (None, "it is for decoders, but minibert is an encoder."),
    "encoder_attention_mask": (None, "it is for decoders, but minibert is an encoder."),
    "head_mask": (
        None,
        "nor is it by transformers since version 5. Trace.switch_off_head switches a head off.",
    ),
}
PARTS: Keywords = {
    **MODEL,
    "past_key_value": MODEL["past_key_values"],
    "layer_head_mask": MODEL["head_mask"],
    "output_attentions": (False, "pass attend=eager_attention, which returns the probabilities."),
    "output_hidden_states": (ANYTHING, "a layer has only its own"),
    "return_dict": (ANYTHING, "what a part returns has one form"),
    "cache_position": (None, "an encoder computes a text once and has nothing to keep."),
    "position_ids": (None, "positions are added by the embeddings."),
}
# Arguments of transformers that follow the mask of a part, by position.
FOR_DECODERS = ("encoder_hidden_states", "encoder_attention_mask", "past_key_values", "use_cache")
# Those with which transformers builds layers and their attention.
LAYERS: Keywords = {
    "is_causal": (False, "minibert is an encoder."),
    "is_cross_attention": (False, "minibert is an encoder."),
}
EMBEDDINGS: Keywords = {
    **MODEL,
    "past_key_values_length": (0, "it is for decoders. Pass position_ids to count from elsewhere."),
}


class EmbeddingBuffers(nn.Module):
    """`position_ids` and `token_type_ids`, by which public code reads and extends embeddings.

    They are not stored, because they can be computed.
    Code that extends a model to longer sequences assigns both or registers them again, so that is
    accepted for the values that are computed anyway.
    """

    position_embeddings: Any

    @property
    def position_ids(self) -> Tensor:
        """All positions, (1, rows of the position embeddings)."""
        weight = self.position_embeddings.weight
        return torch.arange(weight.shape[0], device=weight.device)[None]

    @position_ids.setter
    def position_ids(self, value: Tensor) -> None:
        if not torch.equal(value.flatten().cpu(), torch.arange(value.numel(), device="cpu")):
            raise ValueError(
                "embeddings.position_ids should be 0, 1, 2, ... Pass other positions to the "
                "model: model(input_ids, position_ids=...)."
            )

    @property
    def token_type_ids(self) -> Tensor:
        """The default segments, all 0, in the shape of `position_ids`."""
        return torch.zeros_like(self.position_ids)

    @token_type_ids.setter
    def token_type_ids(self, value: Tensor) -> None:
        if value.any():
            raise ValueError(
                "embeddings.token_type_ids should be 0. Pass other segments to the model: "
                "model(input_ids, token_type_ids=...)."
            )

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """As `nn.Module.register_buffer`, except for the two properties."""
        if name in ("position_ids", "token_type_ids") and tensor is not None:
            setattr(self, name, tensor)
        else:
            super().register_buffer(name, tensor, persistent)


class LayerAttributes(nn.Module):
    """The attributes by which a `forward` copied from transformers tells encoders from decoders.

    Args:
        layer_idx: The number of the layer, which decoders need.
        unused: `is_causal` and `is_cross_attention`, which are False in an encoder.

    Raises:
        ValueError: An argument asks for a decoder.
        TypeError: An unknown argument.
    """

    is_decoder = False
    is_causal = False
    is_cross_attention = False
    add_cross_attention = False
    chunk_size_feed_forward = 0
    seq_len_dim = 1

    def __init__(self, layer_idx: int | None = None, **unused: Any) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        if unused:
            check_unused(type(self).__name__, unused, LAYERS)
