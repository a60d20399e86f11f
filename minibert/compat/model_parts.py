"""What tools for transformers pass to a model and its parts, read of them and assign to them."""

from __future__ import annotations

from typing import Any, TypedDict

import torch
from torch import Tensor, nn


class UnusedArguments(TypedDict, total=False):
    """Arguments that tools for transformers pass, accepted as long as they ask for nothing."""

    use_cache: bool | None
    past_key_values: None
    encoder_hidden_states: None
    encoder_attention_mask: None
    num_items_in_batch: Any
    head_mask: None


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
            from minibert.compat.keywords import LAYERS, check_unused

            check_unused(type(self).__name__, unused, LAYERS)
