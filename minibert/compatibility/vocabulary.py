"""A vocabulary that grows or shrinks.

New words start around the mean of the old ones, so that none of them stands out before it is trained (Hewitt 2021,
"Initializing New Word Embeddings for Pretrained Language Models").
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# as in the reference: the covariance of the old rows, scaled by 1e-9
SPREAD = 1e-9**0.5


def resized(rows: Tensor, size: int, std: float | None = None) -> nn.Parameter:
    """A parameter of the first `size` rows, (size, ...); further ones are drawn around the mean.

    Args:
        rows: (words, ...).
        size: how many rows to have.
        std: draw them with this standard deviation around 0 instead.
    """
    old = rows.detach()
    new = F.pad(old, (0, 0) * (old.dim() - 1) + (0, size - len(old)))  # a negative number cuts
    if (added := new[len(old) :]).numel():
        if std is None and len(old) > 1:
            exact = old.float()
            added.copy_(exact.mean(0) + SPREAD * exact.std(0) * torch.randn(added.shape, device=old.device))
        else:
            added.normal_(0.0, std or 0.0)
    return nn.Parameter(new, requires_grad=rows.requires_grad)


def resize_decoder(predictions: Any, words: int) -> None:
    """Fits the decoder of a `BertLMPredictionHead` to a vocabulary that has been resized."""
    decoder = predictions.decoder
    if decoder.out_features != words:
        predictions.bias = resized(predictions.bias, words)
        decoder.weight, decoder.bias = resized(decoder.weight, words), predictions.bias
        decoder.out_features = words
