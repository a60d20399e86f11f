"""Multi-head self-attention: the only place where tokens see each other (Vaswani et al. 2017, section 3.2)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.config import BertConfig
from minibert.layouts import UNMASKED, Layout

AttentionOutput = tuple[
    Tensor, Tensor | None
]  # the context, and the probabilities if there are any
AttentionFunction = Callable[[Tensor, Tensor, Tensor, Layout, float], AttentionOutput]


def eager_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """softmax(Q K^T / sqrt(head_size)) V, step by step, and the probabilities with it.

    Args:
        query: (batch, seq, heads, head_size), or (tokens, heads, head_size) when packed.
        key: same shape.
        value: same shape.
        layout: where sequences begin and end, and what is hidden.
        dropout: share of the probabilities set to zero; 0 when not training.

    Returns:
        The context (batch, seq, hidden) or (tokens, hidden), and the probabilities (batch, heads, seq, seq); a
        packed batch has probabilities of many shapes, and gives None.
    """
    contexts, weights = [], []
    for q, k, v in layout.blocks(query, key, value):  # (batch, heads, seq, head_size) each
        scores = torch.matmul(q, k.transpose(2, 3)) * q.size(-1) ** -0.5  # (batch, heads, seq, seq)
        if layout.mask is not None:
            # the lowest finite number and not -inf: a row that is hidden altogether stays free of NaN
            hidden = torch.zeros(layout.mask.shape, dtype=q.dtype, device=q.device)
            scores = scores + hidden.masked_fill(~layout.mask, torch.finfo(q.dtype).min)
        probabilities = F.dropout(scores.softmax(dim=-1), p=dropout, training=dropout > 0)
        contexts.append(torch.matmul(probabilities, v))
        weights.append(probabilities)
    return layout.join(contexts), weights[0] if len(weights) == 1 else None


def sdpa_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """The same by PyTorch's fused kernel, which never writes the probabilities down and so cannot return them.

    Arguments and context as in `eager_attention`; the last bits of the context may differ from it.
    """
    contexts = [
        F.scaled_dot_product_attention(
            q, k, v, attn_mask=layout.mask, dropout_p=dropout, scale=q.size(-1) ** -0.5
        )
        for q, k, v in layout.blocks(query, key, value)
    ]
    return layout.join(contexts), None


ATTENTION_FUNCTIONS: dict[str, AttentionFunction] = {
    "eager": eager_attention,
    "sdpa": sdpa_attention,
}


class BertSelfAttention(nn.Module):
    """Projects hidden states to queries, keys and values, and lets the heads attend side by side."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.hidden_size % config.num_attention_heads:
            raise ValueError(
                f"config field hidden_size ({config.hidden_size}) should be a multiple of num_attention_heads "
                f"({config.num_attention_heads})."
            )
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        attend: AttentionFunction = sdpa_attention,
    ) -> AttentionOutput:
        """(..., hidden) to the context (..., hidden) and the probabilities, if `attend` gives any."""
        heads = (self.num_attention_heads, self.attention_head_size)
        query = self.query(hidden_states).unflatten(-1, heads)  # (..., heads, head_size)
        key = self.key(hidden_states).unflatten(-1, heads)
        value = self.value(hidden_states).unflatten(-1, heads)
        return attend(query, key, value, layout, self.dropout.p if self.training else 0.0)


class BertSelfOutput(nn.Module):
    """Mixes the heads, adds the residual, normalises."""

    def __init__(self, config: BertConfig, inputs: int | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs or config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, context: Tensor, residual: Tensor) -> Tensor:
        """(..., inputs) and (..., hidden) to (..., hidden)."""
        hidden_states: Tensor = self.LayerNorm(self.dropout(self.dense(context)) + residual)
        return hidden_states


class BertAttention(nn.Module):
    """Self-attention and its output: the first half of a layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertSelfOutput(config)

    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        attend: AttentionFunction = sdpa_attention,
    ) -> AttentionOutput:
        """(..., hidden) to (..., hidden) and the attention probabilities, if there are any."""
        context, weights = self.self(hidden_states, layout, attend)
        return self.output(context, hidden_states), weights
