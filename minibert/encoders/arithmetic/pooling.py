"""From hidden states to features (`combine_layers`), and to one vector for each sequence (`pool`).

Both work on rows of tokens, `(tokens, hidden)`, as a `PackedLayout` has them. `unpad` makes such
rows of a padded batch, so that padding never enters a mean or a maximum.
"""

import math
import operator
from collections.abc import Sequence
from itertools import groupby
from typing import SupportsFloat

import torch
from torch import Tensor

from minibert.encoders.arithmetic.pooling_names import POOLINGS
from minibert.util.errors import ArgumentError

Layers = str | Sequence[int]


def resolve_layers(
    layers: Layers, num_hidden_layers: int, weights: Sequence[float] | None = None
) -> tuple[list[int], list[float] | None]:
    """The indices of the chosen layers, and their weights in a sum, or None to concatenate them.

    Args:
        layers: "embeddings", "last", "second_to_last", "sum_last_4", "concat_last_4" or
            "sum_all_12", or indices. 0 is the embeddings, `num_hidden_layers` the last layer, and
            negative ones count from there: -1 is the last.
        num_hidden_layers: Encoder layers L of the model.
        weights: One for each layer of a sum.

    Raises:
        ValueError: An unknown name, a layer that the model does not have, or weights that do not
            fit.
    """
    last = num_hidden_layers
    if isinstance(layers, str):
        indices = _named_layers(layers, last)
        is_sum = layers.startswith("sum")
        if is_sum and weights is None:
            weights = [1.0] * len(indices)  # each layer counts 1
        elif not is_sum and weights is not None:
            raise ArgumentError(
                "layer_weights", f"is for a sum or a list of layers, not for {layers!r}."
            )
    else:
        try:
            layers = [operator.index(index) for index in layers]
        except TypeError as error:
            raise ArgumentError(
                "layers",
                f"should be a name or a list of indices, such as [-1], not {layers!r:.80}.",
            ) from error
        indices = [index + last + 1 if index < 0 else index for index in layers]
    if not indices or min(indices) < 0 or max(indices) > last:
        raise ArgumentError(
            "layers",
            f"should lie between 0 (embeddings) and {last}, the model's last layer, not "
            f"{layers!r}.",
        )
    if weights is not None:
        _check_weights(weights, layers, len(indices))
        weights = [float(weight) for weight in weights]
    return indices, weights


def _check_weights(weights: Sequence[float], layers: Layers, count: int) -> None:
    """Check that there is one finite weight for each layer."""
    is_list = hasattr(weights, "__len__") and not isinstance(weights, str)
    if not is_list or not all(isinstance(weight, SupportsFloat) for weight in weights):
        raise ArgumentError(
            "layer_weights",
            f"should be a list of numbers, one for each layer, not {weights!r:.80}.",
        )
    if len(weights) != count:
        raise ValueError(
            f"layers {layers!r} takes {count} weights, one for each layer, not {len(weights)}."
        )
    if not all(map(math.isfinite, weights)):
        raise ArgumentError("layer_weights", f"should be finite numbers, not {list(weights)}.")
    if not any(weights):
        raise ArgumentError("layer_weights", "should not be all 0.")


def _named_layers(name: str, last: int) -> list[int]:
    """The indices of layers that have a name in the paper's table 7."""
    last_four = list(range(last - 3, last + 1))
    named = {
        "embeddings": [0],
        "last": [last],
        "second_to_last": [last - 1],
        "sum_last_4": last_four,
        "concat_last_4": last_four,
        # every layer: 12 in the table, which is about BERT-base
        "sum_all_12": list(range(1, last + 1)),
    }
    if name not in named:
        raise ArgumentError(
            "layers", f"should be one of {', '.join(named)}, or a list of indices, not {name!r}."
        )
    return named[name]


def combine_layers(
    hidden_states: Sequence[Tensor], layers: Layers = "last", weights: Sequence[float] | None = None
) -> Tensor:
    """Features of each token from one or several layers, as in the paper's table 7.

    `"sum_last_4"` and `"sum_all_12"` (every encoder layer, however many there are) are weighted
    sums. The paper does not say with which weights. Without `weights` each layer counts 1, a plain
    sum, as the name says. Weights of 1/n would change the length of the vectors but not their
    direction. A list of indices concatenates the layers, or sums them if there are `weights`.

    Args:
        hidden_states: Embeddings and every layer's output, L + 1 times (..., hidden).
        layers: A name or layer indices, as in `resolve_layers`.
        weights: One for each layer of a sum.

    Returns:
        (..., hidden), or (..., n x hidden) for n concatenated layers. Float32 at least.

    Raises:
        ValueError: As in `resolve_layers`.
    """
    indices, weights = resolve_layers(layers, len(hidden_states) - 1, weights)
    chosen = [at_least_float32(hidden_states[index]) for index in indices]
    if weights is not None:
        weighted = [weight * states for weight, states in zip(weights, chosen, strict=True)]
        return torch.stack(weighted).sum(dim=0)
    return _concatenated(chosen, dim=-1)


def at_least_float32(states: Tensor) -> Tensor:
    """The states, in float32 if they have fewer bits."""
    if states.dtype in (torch.float32, torch.float64):
        return states
    return states.float()


def unpad(hidden_states: Tensor, attention_mask: Tensor) -> tuple[Tensor, list[int]]:
    """Removes the padding of a batch.

    Args:
        hidden_states: (batch, seq, hidden).
        attention_mask: 1 for tokens, 0 for padding, (batch, seq).

    Returns:
        (tokens, hidden), and the number of tokens of each sequence.
    """
    visible = attention_mask.bool()
    return hidden_states[visible], visible.sum(dim=1).tolist()


def pool(
    states: Tensor,
    lengths: Sequence[int] | Tensor,
    pooling: str | Sequence[str] = "mean",
    *,
    skip: int = 0,
    pooler_output: Tensor | None = None,
) -> Tensor:
    """One vector for each sequence.

    - `"cls"`: the state of the first token, [CLS].
    - `"pooler"`: that state after the pooler's linear layer and tanh, `pooler_output`.
    - `"mean"`, `"max"`: over the tokens of the sequence, [CLS] and [SEP] included.
    - `"mean_sqrt_len"`: their sum divided by the square root of their number.
    - `"weightedmean"`: their mean, in which a token counts by its position: 1, 2, 3 and so on.

    Args:
        states: Features of the tokens of all sequences in a row, (tokens, hidden), see `unpad`, or
            padded ones, (batch, seq, hidden).
        lengths: Tokens of each sequence in a row. For padded ones the mask, (batch, seq).
        pooling: One of `POOLINGS`, or several whose vectors are concatenated.
        skip: Tokens at the start of every sequence to leave out, such as those of a prompt.
        pooler_output: The model's, (batch, hidden). Only `"pooler"` needs it.

    Returns:
        (batch, hidden), or (batch, n x hidden) for n poolings.

    Raises:
        ValueError: An unknown pooling, or a sequence in a row of which no token is left.
    """
    states = at_least_float32(states)
    names = [pooling] if isinstance(pooling, str) else pooling
    blocks: list[Tensor] = []
    if not isinstance(lengths, Tensor):
        blocks = _blocks_of_equal_length(states, lengths, skip)
    vectors = []
    for name in names:
        if name == "pooler" and pooler_output is not None:
            vectors.append(at_least_float32(pooler_output))
        elif name not in POOLINGS or name == "pooler":
            needs = " (which needs pooler_output)" if name == "pooler" else ""
            raise ArgumentError(
                "pooling", f"should be one of {', '.join(POOLINGS)}, not {name!r}{needs}."
            )
        elif isinstance(lengths, Tensor):
            visible = lengths[:, skip:, None] != 0
            vectors.append(_pooled(states[:, skip:], name, skip, visible))
        else:
            vectors.append(_concatenated([_pooled(block, name, skip) for block in blocks]))
    return _concatenated(vectors, dim=-1)


def _blocks_of_equal_length(states: Tensor, lengths: Sequence[int], skip: int) -> list[Tensor]:
    """Runs of equally long sequences, (batch, seq, hidden) each, without the skipped tokens."""
    if len(lengths) and min(lengths) <= skip:
        raise ValueError(
            f"each sequence should have more than {skip} tokens to pool, not {min(lengths)}."
        )
    runs = [(length, len(list(run))) for length, run in groupby(lengths)]
    if not runs:
        runs = [(skip + 1, 0)]  # no sequences
    parts: Sequence[Tensor] = [states]
    if len(runs) > 1:
        parts = states.split_with_sizes([length * count for length, count in runs])
    blocks = []
    for part, (length, count) in zip(parts, runs, strict=True):
        block = part.view(count, length, states.shape[1])
        if skip:
            block = block[:, skip:]
        blocks.append(block)
    return blocks


def _concatenated(parts: list[Tensor], dim: int = 0) -> Tensor:
    """`torch.cat`, except for a single tensor, which takes no time."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts, dim)


def _pooled(states: Tensor, name: str, skip: int, visible: Tensor | None = None) -> Tensor:
    """One vector for each of some sequences of one length, or padded to one.

    Args:
        states: Features of the tokens behind those that are left out, (batch, seq, hidden).
        name: One of `POOLINGS`, except "pooler".
        skip: How many tokens at the start are left out.
        visible: Which tokens are pooled, (batch, seq, 1). None: all.

    Returns:
        (batch, hidden).
    """
    if name == "cls" and visible is not None:
        # the first visible token, wherever it is
        first = visible.long().argmax(dim=1, keepdim=True).expand(-1, 1, states.size(-1))
        return states.gather(1, first)[:, 0]
    if name == "cls":
        return states[:, 0]
    if visible is not None:
        states = states.masked_fill(~visible, -torch.inf if name == "max" else 0)
    if name == "max":
        return states.amax(dim=1)
    if name == "weightedmean":
        positions = torch.arange(states.shape[1], device=states.device) + (skip + 1)
        weights = positions[:, None].to(states.dtype)  # (seq, 1)
        counted = weights if visible is None else weights * visible  # (batch, seq, 1)
        return (states * weights).sum(dim=1) / counted.sum(dim=-2)
    count = states.shape[1] if visible is None else visible.sum(dim=1)
    if name == "mean_sqrt_len":
        count = count**0.5
    return states.sum(dim=1) / count
