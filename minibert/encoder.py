"""The encoder: L equal layers, each attention and then a feed-forward network (paper, section 3)."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from minibert.attention import AttentionFunction, BertAttention, BertSelfOutput, sdpa_attention
from minibert.config import BertConfig
from minibert.layouts import UNMASKED, Layout
from minibert.outputs import BertModelOutput


def gelu_new(x: Tensor) -> Tensor:
    """GELU by tanh, as google-research/bert computes it (`gelu` in modeling.py)."""
    return (
        0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    )


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": gelu_new,
    "gelu_pytorch_tanh": partial(
        F.gelu, approximate="tanh"
    ),  # the same formula by PyTorch's own kernel
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
        self.intermediate_act_fn = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden_states: Tensor) -> Tensor:
        """(..., hidden) to (..., intermediate)."""
        return self.intermediate_act_fn(self.dense(hidden_states))


class BertOutput(BertSelfOutput):
    """The feed-forward network's second half: narrow from `intermediate`, add the residual, normalise."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, config.intermediate_size)


class BertLayer(nn.Module):
    """One encoder layer: `(batch, seq, hidden)` or `(tokens, hidden)` in, the same out."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        attend: AttentionFunction = sdpa_attention,
        attentions: list[Tensor] | None = None,
    ) -> Tensor:
        """The next hidden states; the attention probabilities, if `attend` gives any, are added to `attentions`."""
        attention_output, weights = self.attention(hidden_states, layout, attend)
        if attentions is not None and weights is not None:
            attentions.append(weights)
        layer_output: Tensor = self.output(self.intermediate(attention_output), attention_output)
        return layer_output


class BertEncoder(nn.Module):
    """The stack of layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.gradient_checkpointing = bool(config.gradient_checkpointing)

    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        attend: AttentionFunction = sdpa_attention,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BertModelOutput:
        """Runs every layer.

        Args:
            hidden_states: the embeddings, (batch, seq, hidden) or (tokens, hidden).
            layout: where sequences begin and end.
            attend: one of `ATTENTION_FUNCTIONS`.
            output_hidden_states: return the embeddings and what came out of every layer.
            output_attentions: return the attention probabilities of every layer; only `eager_attention` gives any.

        Returns:
            A `BertModelOutput` without `pooler_output`.
        """
        all_states: tuple[Tensor, ...] | None = (hidden_states,) if output_hidden_states else None
        attentions: list[Tensor] | None = [] if output_attentions else None
        for layer in self.layer:
            arguments = (hidden_states, layout, attend, attentions)
            if self.gradient_checkpointing and self.training:
                # keep only the layer's input and compute the layer again for its gradient (Chen et al. 2016)
                hidden_states = checkpoint(layer, *arguments, use_reentrant=False)
            else:
                hidden_states = layer(*arguments)
            if all_states is not None:
                all_states += (hidden_states,)
        return BertModelOutput(
            hidden_states, None, all_states, None if attentions is None else tuple(attentions)
        )
