"""The encoder: L equal layers, each attention and then a feed-forward network (paper, section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from minibert.attention import AttentionFunction, BertAttention
from minibert.config import BertConfig
from minibert.layouts import Layout


def gelu_new(x: Tensor) -> Tensor:
    """GELU by tanh, as google-research/bert computes it (`gelu` in modeling.py)."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gelu_pytorch_tanh(x: Tensor) -> Tensor:
    """The same formula by PyTorch's own kernel."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": gelu_new,
    "gelu_pytorch_tanh": gelu_pytorch_tanh,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


class BertIntermediate(nn.Module):
    """The feed-forward network's first half: widen, then the activation."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden_states: Tensor) -> Tensor:
        """(..., hidden) to (..., intermediate)."""
        return self.activation(self.dense(hidden_states))


class BertOutput(nn.Module):
    """The feed-forward network's second half: narrow, add the residual, normalise."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.intermediate_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, intermediate: Tensor, residual: Tensor) -> Tensor:
        """(..., intermediate) and (..., hidden) to (..., hidden)."""
        hidden_states: Tensor = self.LayerNorm(self.dropout(self.dense(intermediate)) + residual)
        return hidden_states


class BertLayer(nn.Module):
    """One encoder layer: `(batch, seq, hidden)` or `(tokens, hidden)` in, the same out."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction) -> tuple[Tensor, Tensor | None]:
        """The next hidden states, and the attention probabilities if `attend` gives any."""
        attention_output, weights = self.attention(hidden_states, layout, attend)
        return self.output(self.intermediate(attention_output), attention_output), weights


class BertEncoder(nn.Module):
    """The stack of layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.gradient_checkpointing = False

    def forward(
        self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction, keep_all: bool = False
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Runs every layer.

        Args:
            hidden_states: the embeddings, (batch, seq, hidden) or (tokens, hidden).
            layout: where sequences begin and end.
            attend: one of `ATTENTION_FUNCTIONS`.
            keep_all: return what went into every layer too, and not only what came out of the last.

        Returns:
            The hidden states, the last layer's at the end (L + 1 of them with `keep_all`, the embeddings first), and
            the attention probabilities of every layer for which `attend` gives them.
        """
        kept, attentions = [], []
        for layer in self.layer:
            if keep_all:
                kept.append(hidden_states)
            if self.gradient_checkpointing and self.training:
                # keep only the layer's input and compute the layer again for its gradient (Chen et al. 2016)
                hidden_states, weights = checkpoint(layer, hidden_states, layout, attend, use_reentrant=False)
            else:
                hidden_states, weights = layer(hidden_states, layout, attend)
            if weights is not None:
                attentions.append(weights)
        return [*kept, hidden_states], attentions
