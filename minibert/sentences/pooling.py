"""From hidden states to features: which layers (`combine_layers`), and one vector for each sequence (`pool`).

Both work on rows of tokens, `(tokens, hidden)`, as a `PackedLayout` has them; `unpad` makes such rows of a padded
batch, so that padding never enters a mean or a maximum.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.checks import check_count

Pooling = Literal["cls", "pooler", "mean", "max", "mean_sqrt_len"]
POOLINGS = ("cls", "pooler", "mean", "max", "mean_sqrt_len")

Layers = str | Sequence[int]


def resolve_layers(
    layers: Layers, num_hidden_layers: int, weights: Sequence[float] | None = None
) -> tuple[list[int], list[float] | None]:
    """The numbers of the chosen layers, and their weights in a sum or None for side by side.

    Args:
        layers: "embeddings", "last", "second_to_last", "sum_last_4", "concat_last_4" or "sum_all_12", or numbers: 0 is
            the embeddings, `num_hidden_layers` the last layer, and negative ones count from there, -1 being the last.
        num_hidden_layers: encoder layers L of the model.
        weights: one number for each layer of a sum.

    Raises:
        ValueError: an unknown name, a layer that the model does not have, or weights that do not fit.
    """
    last = num_hidden_layers
    last_four = list(range(last - 3, last + 1))
    named = {
        "embeddings": [0],
        "last": [last],
        "second_to_last": [last - 1],
        "sum_last_4": last_four,
        "concat_last_4": last_four,
        "sum_all_12": list(
            range(1, last + 1)
        ),  # every layer: 12 in the paper's table, which is of BERT-base
    }
    if not isinstance(layers, str):
        numbers = [number + last + 1 if number < 0 else number for number in layers]
    elif layers not in named:
        raise ValueError(
            f"layers should be one of {', '.join(named)}, or a list of numbers, not {layers!r}."
        )
    else:
        numbers = named[layers]
        if layers.startswith("sum") and weights is None:
            weights = [1.0] * len(numbers)
        elif not layers.startswith("sum") and weights is not None:
            raise ValueError(f"layer weights fit a sum or a list of layers, not layers={layers!r}.")
    if not numbers or min(numbers) < 0 or max(numbers) > last:
        raise ValueError(
            f"layers {layers!r} should lie between 0 (embeddings) and {last}, the model's last layer."
        )
    if weights is not None and len(weights) != len(numbers):
        raise ValueError(
            f"layers {layers!r} takes {len(numbers)} weights, one a layer, not {len(weights)}."
        )
    if weights is not None and not all(map(math.isfinite, weights)):
        raise ValueError(f"layer_weights should be finite numbers, not {list(weights)}.")
    return numbers, None if weights is None else list(weights)


def combine_layers(
    hidden_states: Sequence[Tensor], layers: Layers = "last", weights: Sequence[float] | None = None
) -> Tensor:
    """Features of each token from one or several layers, as in BERT's feature-based table (paper, table 7).

    `"sum_last_4"` and `"sum_all_12"` (every encoder layer, however many there are) are weighted sums. The paper
    does not say with which weights; without `weights` each layer counts 1, a plain sum, as the name says. Weights
    of 1/n would change the length of the vectors but not their direction. A list of numbers puts the layers side
    by side, or adds them when `weights` are given.

    Args:
        hidden_states: embeddings and every layer's result, L + 1 times (..., hidden).
        layers: a name or layer numbers, as in `resolve_layers`.
        weights: one number for each layer of a sum.

    Returns:
        (..., hidden), or (..., n x hidden) for n layers side by side; float32 at least.

    Raises:
        ValueError: as in `resolve_layers`.
    """
    numbers, weights = resolve_layers(layers, len(hidden_states) - 1, weights)
    chosen = [at_least_float32(hidden_states[number]) for number in numbers]
    if weights is not None:
        chosen = [weight * states for weight, states in zip(weights, chosen, strict=True)]
        return torch.stack(chosen).sum(dim=0)
    return chosen[0] if len(chosen) == 1 else torch.cat(chosen, dim=-1)


def at_least_float32(states: Tensor) -> Tensor:
    """The states, in float32 if they had fewer bits."""
    return states if states.dtype in (torch.float32, torch.float64) else states.float()


def unpad(hidden_states: Tensor, attention_mask: Tensor) -> tuple[Tensor, list[int]]:
    """Takes the padding out: (batch, seq, hidden) to (tokens, hidden) and the tokens of each sequence."""
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

    - `"cls"`: the state of the first token, [CLS], as it is;
    - `"pooler"`: that state after the pooler's linear layer and tanh, `pooler_output`; not the same thing;
    - `"mean"`, `"max"`: over the tokens of the sequence, [CLS] and [SEP] among them;
    - `"mean_sqrt_len"`: their sum divided by the square root of their number.

    Args:
        states: features of the tokens of all sequences in a row, (tokens, hidden), see `unpad`; or of padded ones,
            (batch, seq, hidden).
        lengths: tokens of each sequence in a row; of padded ones the mask, (batch, seq).
        pooling: one of `POOLINGS`, or several to be put side by side.
        skip: tokens at the start of every sequence to leave out, such as those of a prompt.
        pooler_output: the model's, (batch, hidden); only `"pooler"` needs it.

    Returns:
        (batch, hidden), or (batch, n x hidden) for n poolings.

    Raises:
        ValueError: an unknown pooling, or a sequence in a row of which no token is left.
    """
    states = at_least_float32(states)
    blocks: list[
        tuple[Tensor, Tensor | None]
    ]  # of equally long sequences, and which tokens count; None: all
    if isinstance(lengths, Tensor):
        blocks = [(states[:, skip:], lengths[:, skip:, None] != 0)]
    elif len(lengths) and min(lengths) <= skip:
        raise ValueError(
            f"each sequence should have more than {skip} tokens to pool, not {min(lengths)}."
        )
    else:
        runs = [(length, len(list(run))) for length, run in groupby(lengths)] or [(skip + 1, 0)]
        parts = (
            states.split_with_sizes([length * count for length, count in runs])
            if len(runs) > 1
            else [states]
        )
        views = [
            part.view(count, length, states.shape[1])
            for part, (length, count) in zip(parts, runs, strict=True)
        ]
        blocks = [(view[:, skip:] if skip else view, None) for view in views]
    vectors = []
    for name in [pooling] if isinstance(pooling, str) else pooling:
        if name == "pooler" and pooler_output is not None:
            vectors.append(at_least_float32(pooler_output))
        elif name in POOLINGS and name != "pooler":
            vectors.append(_concatenated([_pool_block(*block, name) for block in blocks]))
        else:
            needs = " (which needs pooler_output)" if name == "pooler" else ""
            raise ValueError(
                f"pooling should be one of {', '.join(POOLINGS)}, not {name!r}{needs}."
            )
    return _concatenated(vectors, dim=-1)


def _concatenated(parts: list[Tensor], dim: int = 0) -> Tensor:
    """`torch.cat`, but of a single tensor itself: one text has no time to lose."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)


def _pool_block(states: Tensor, kept: Tensor | None, name: str) -> Tensor:
    """`pool` of padded states, (batch, seq, hidden); `kept`, (batch, seq, 1), says which tokens count (None: all)."""
    if name == "cls":
        if kept is None:
            return states[:, 0]
        # the first of those that count, wherever they begin
        first = kept.long().argmax(dim=1, keepdim=True).expand(-1, 1, states.size(-1))
        return states.gather(1, first)[:, 0]
    if kept is not None:
        states = states.masked_fill(~kept, -torch.inf if name == "max" else 0)
    if name == "max":
        return states.amax(dim=1)
    count: Tensor | int = states.shape[1] if kept is None else kept.sum(dim=1)
    return states.sum(dim=1) / (count if name == "mean" else count**0.5)


def merge_windows(pooled: Tensor, lengths: Sequence[int], counts: Sequence[int]) -> Tensor:
    """The vector of each text, (texts, D): the mean of its windows' vectors, (windows, D), weighted by their tokens.

    `lengths` gives the number of tokens in each window, `counts` the number of windows of each text.
    """
    weights = torch.tensor(lengths, dtype=pooled.dtype, device=pooled.device)
    merged = []
    for vectors, tokens in zip(
        torch.split(pooled, list(counts)), torch.split(weights, list(counts)), strict=True
    ):
        merged.append(vectors[0] if len(vectors) == 1 else tokens @ vectors / tokens.sum())
    return torch.stack(merged)


_KINDS: tuple[type[nn.Module], ...] = (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid)
ACTIVATIONS = {kind.__name__: kind for kind in _KINDS}


class Dense(nn.Module):
    """A linear layer and an activation on sentence vectors: (batch, in_features) to (batch, out_features)."""

    def __init__(self, in_features: int, out_features: int, bias: bool, activation: str) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, in_features) to (batch, out_features)."""
        activated: Tensor = self.activation(self.linear(vectors))
        return activated


class Normalize(nn.Module):
    """Divides each vector by its length."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, hidden) to the same, each of length 1."""
        return F.normalize(vectors, p=2.0, dim=-1)


class Truncate(nn.Module):
    """Keeps the first numbers of each vector (Kusupati et al. 2022, Matryoshka representations)."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        check_count("truncate_dim", dimension)
        self.dimension = dimension

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, hidden) to (batch, dimension)."""
        return vectors[:, : self.dimension]


def activation_name(path: Path | str, name: object) -> str:
    """Which of `ACTIVATIONS` a file means by a dotted path; ValueError for any other."""
    package, _, activation = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if activation not in ACTIVATIONS or package.split(".")[0] != "torch":
        raise ValueError(
            f"{path} asks for activation {name!r:.80}; minibert has {', '.join(ACTIVATIONS)} of torch.nn."
        )
    return activation
