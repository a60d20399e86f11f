"""The modules behind the pooling of an embedder."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.util.checks import check_count


class Dense(nn.Module):
    """A linear layer and an activation on sentence vectors, (batch, in_features)."""

    def __init__(self, in_features: int, out_features: int, bias: bool, activation: str) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation = getattr(nn, activation)()

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, in_features) to (batch, out_features)."""
        # pooled vectors are float32, and the model may have been cast
        activated: Tensor = self.activation(self.linear(vectors.to(self.linear.weight.dtype)))
        return activated


class Normalize(nn.Module):
    """L2-normalizes each vector."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, hidden) to (batch, hidden), each of length 1."""
        return F.normalize(vectors, p=2.0, dim=-1)


class Truncate(nn.Module):
    """Truncates each vector to its first dimensions.

    Models trained for it lose little (Kusupati et al. 2022, Matryoshka representations).
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        check_count("truncate_dim", dimension)
        self.dimension = dimension

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, hidden) to (batch, dimension)."""
        return vectors[:, : self.dimension]


def without_truncate(steps: Iterable[nn.Module], width: int) -> list[nn.Module]:
    """The steps with each truncation, which the format allows only at the end, as a `Dense`."""
    replaced: list[nn.Module] = []
    for step in steps:
        if isinstance(step, Truncate):
            dimension = min(width, step.dimension)
            dense = Dense(width, dimension, False, "Identity").requires_grad_(False)
            dense.linear.weight.copy_(torch.eye(dimension, width))
            step = dense
        if isinstance(step, Dense):
            width = step.linear.out_features
        replaced.append(step)
    return replaced
