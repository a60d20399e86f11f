"""Each pooling once more, of the tokens of a single text, as its definition says it."""

from __future__ import annotations

import torch
from torch import Tensor

from minibert.encoders.arithmetic.pooling import POOLINGS

OF_TOKENS = [name for name in POOLINGS if name != "pooler"]
"""The poolings that have a formula. The pooler's vector is the model's."""


def pooled(states: Tensor, name: str, skip: int = 0) -> Tensor:
    """The vector of a text, (hidden,).

    Args:
        states: The states of its tokens, (tokens, hidden).
        name: One of `OF_TOKENS`.
        skip: How many tokens at the start are left out.
    """
    kept = states[skip:]
    if name == "cls":
        return kept[0]
    if name == "max":
        return kept.amax(0)
    if name == "mean":
        return kept.sum(0) / len(kept)
    if name == "mean_sqrt_len":
        return kept.sum(0) / len(kept) ** 0.5
    if name == "weightedmean":
        weights = torch.arange(skip + 1, len(states) + 1)[:, None].to(states.dtype)
        return (kept * weights).sum(0) / weights.sum()
    raise NotImplementedError(f"{name} has no formula in tests/plain_pooling.py.")
