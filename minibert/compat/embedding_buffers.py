"""What tools for transformers read and assign at the embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


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
