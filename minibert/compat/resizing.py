"""Vocabularies of another size: rows of word embeddings and decoder are added or removed."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.util.checks import check_count
from minibert.util.errors import ArgumentError

SPREAD = 1e-9**0.5
"""Standard deviation of new rows, in those of the old ones.

As in transformers, whose covariance is scaled by 1e-9.
"""


def resized_embeddings(
    embeddings: nn.Embedding,
    new_num_tokens: int | None,
    pad_to_multiple_of: int | None,
    std: float | None,
) -> nn.Embedding:
    """Return embeddings with another number of rows.

    Args:
        embeddings: The table, (vocab, hidden).
        new_num_tokens: The new number of rows. None: as many as now.
        pad_to_multiple_of: Round it up to a multiple of this.
        std: As in `resized`.

    Returns:
        The table itself if it has that many rows, else a new one of the same class.

    Raises:
        ValueError: Not a whole number, or the row of the padding token would be removed.
    """
    rows = len(embeddings.weight)
    if new_num_tokens is not None:
        check_count("new_num_tokens", new_num_tokens, minimum=0)
        rows = int(new_num_tokens)
    if pad_to_multiple_of is not None:
        check_count("pad_to_multiple_of", pad_to_multiple_of)
        rows = -(-rows // pad_to_multiple_of) * pad_to_multiple_of
    padding = embeddings.padding_idx or 0
    if rows <= padding:
        raise ArgumentError(
            "vocab_size",
            f"should be {padding + 1} or more, not {rows}: number {padding} is padding.",
        )
    if rows == len(embeddings.weight):
        return embeddings
    new = copy.copy(embeddings)  # the same class and padding
    vars(new)["_parameters"] = {"weight": resized(embeddings.weight, rows, std)}
    new.num_embeddings = rows
    return new


def resized(rows: Tensor, size: int, std: float | None = None) -> nn.Parameter:
    """Return a parameter with the first `size` rows.

    Further rows are drawn around the mean of the old ones.

    So no new word stands out before it is trained (Hewitt 2021, "Initializing New Word Embeddings
    for Pretrained Language Models").

    Args:
        rows: (words, ...).
        size: The number of rows to have.
        std: Draw new rows around 0 with this standard deviation instead.

    Returns:
        (size, ...).
    """
    old = rows.detach()
    padding = (0, 0) * (old.dim() - 1) + (0, size - len(old))
    new = F.pad(old, padding)  # a negative number removes rows
    added = new[len(old) :]
    if added.numel():
        if std is None and len(old) > 1:
            exact = old.float()
            noise = torch.randn(added.shape, device=old.device)
            added.copy_(exact.mean(0) + SPREAD * exact.std(0) * noise)
        else:
            added.normal_(0.0, std or 0.0)
    return nn.Parameter(new, requires_grad=rows.requires_grad)


def fit_decoder(model: Any, old: nn.Module, new: nn.Module, std: float | None = None) -> None:
    """Let the decoder of a model follow its word embeddings, which were replaced.

    Modules that use the tensor of the old embeddings use that of the new ones, and a decoder of its
    own gets as many rows.

    Args:
        model: A model that may have a decoder.
        old: The former word embeddings.
        new: The new ones. Other modules than tables have no tensor to follow.
        std: As in `resized`, for the weights of a decoder of its own. New biases are then 0.
    """
    words = getattr(new, "weight", None)
    if not isinstance(words, nn.Parameter):
        return
    _replace(model, getattr(old, "weight", None), words, old)
    decoder = model.get_output_embeddings()
    if not isinstance(decoder, nn.Linear) or decoder.out_features == len(words):
        return
    if decoder.weight is not words:
        decoder.weight = resized(decoder.weight, len(words), std)
    if decoder.bias is not None:
        bias_std = None if std is None else 0.0
        bias = resized(decoder.bias, len(words), bias_std)
        predictions: Any = getattr(getattr(model, "cls", None), "predictions", None)
        if getattr(predictions, "decoder", None) is decoder:
            predictions.bias = bias  # its other name, also where the config unties both
        _replace(model, decoder.bias, bias)
    decoder.out_features = len(words)


def _replace(
    model: nn.Module, old: Any, new: nn.Parameter, except_in: nn.Module | None = None
) -> None:
    """Replace a parameter in all modules but one."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is old and module is not except_in:
                setattr(module, name, new)
