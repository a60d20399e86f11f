"""PyTorch's layers, which draw no initial weights when they are built on the meta device.

A checkpoint is loaded into a model built there (shapes, no memory). Drawing numbers that nobody can see would take
most of the loading time.
"""

from __future__ import annotations

from torch import nn


class Linear(nn.Linear):
    """`torch.nn.Linear`."""

    def reset_parameters(self) -> None:
        """Initial weights, unless there is no memory for them."""
        if not self.weight.is_meta:
            super().reset_parameters()


class Embedding(nn.Embedding):
    """`torch.nn.Embedding`."""

    def reset_parameters(self) -> None:
        """Initial weights, unless there is no memory for them."""
        if not self.weight.is_meta:
            super().reset_parameters()


class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm`."""

    def reset_parameters(self) -> None:
        """Initial weights, unless there is no memory for them."""
        if not self.weight.is_meta:
            super().reset_parameters()
