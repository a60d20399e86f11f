"""Multi-head self-attention: the only place where tokens exchange information.

Vaswani et al. 2017, section 3.2. Token i takes the share p_ij of the value of every token j:

    context_i = sum over j of p_ij value_j
    p_ij      = softmax over j of (query_i . key_j / sqrt(head_size)), 0 if j is hidden

Usually nothing is hidden but padding: unlike in GPT, tokens attend to the left and to the right.
Several heads do this side by side, so that a token can attend to different tokens for different
reasons.

The shapes, for `hidden = heads * head_size` (a packed batch has `tokens` in place of
`batch, seq`):

    hidden_states    (batch, seq, hidden)
    query            (batch, seq, hidden)             one linear layer each for query, key and value
    query            (batch, seq, heads, head_size)   every head gets a slice of the dimensions
    query            (batch, heads, seq, head_size)   so that each head has products of its own
    scores           (batch, heads, seq, seq)         query times key / sqrt(head_size), all pairs
    probabilities    (batch, heads, seq, seq)         softmax over the last axis, the keys
    context          (batch, heads, seq, head_size)   probabilities times value, a weighted mean
    context          (batch, seq, hidden)             heads side by side, mixed by a linear layer

A score is a sum of head_size products. If their factors are independent, with mean 0 and variance
1, its variance is head_size, and dividing by the root makes it 1. Without that, softmax would
nearly always pick one key, where its gradient is almost 0.

Where it happens: `BertSelfAttention` splits the dimensions into heads, the attention function moves
the axis of the heads forward and back, and `BertSelfOutput` mixes them.

Next file: encoder.py.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert import inputs
from minibert.compat.model_parts import LayerAttributes
from minibert.config import ATTENTION_FUNCTIONS as ATTENTION_FUNCTIONS, BertConfig
from minibert.layouts import UNMASKED, Layout, additive
from minibert.parts import call, own_part

AttentionOutput = tuple[Tensor, Tensor | None]
"""The context, and the attention probabilities or None."""

AttentionFunction = Callable[[Tensor, Tensor, Tensor, Layout, float], AttentionOutput]
"""Takes query, key, value, layout and dropout, as `eager_attention` does."""

Block = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values of equally long sequences, (batch, heads, seq, head_size) each."""


def split_heads(query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Iterator[Block]:
    """Yield blocks of equally long sequences, with the axis of the heads before that of the tokens.

    Args:
        query: (batch, seq, heads, head_size), or (tokens, heads, head_size) when packed.
        key: Same shape.
        value: Same shape.
        layout: Where sequences begin and end.
    """
    for q, k, v in zip(layout.split(query), layout.split(key), layout.split(value), strict=True):
        yield q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def merge_heads(contexts: list[Tensor], layout: Layout) -> Tensor:
    """Put the heads of each token side by side again, and the blocks into one tensor.

    Args:
        contexts: (batch, heads, seq, head_size) each.
        layout: Where sequences begin and end.

    Returns:
        (batch, seq, hidden), or (tokens, hidden) when packed.
    """
    # (batch, seq, heads, head_size), and then the heads side by side
    # Contiguous also where the heads are of size 1, as matrix products depend on it.
    return layout.merge([context.transpose(1, 2).contiguous().flatten(-2) for context in contexts])


def eager_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """Scaled dot-product attention, step by step: softmax(Q K^T / sqrt(head_size)) V.

    Vaswani et al. 2017, equation 1.

    Args:
        query: (batch, seq, heads, head_size), or (tokens, heads, head_size) when packed.
        key: Same shape.
        value: Same shape.
        layout: Where sequences begin and end, and which keys are hidden.
        dropout: Dropout probability of the attention probabilities, or 0 when not training.

    Returns:
        The context (batch, seq, hidden) or (tokens, hidden), and the probabilities
        (batch, heads, seq, seq), after dropout. They are None for a packed batch of different
        lengths, because their shapes differ.
    """
    contexts = []
    weights = []
    for q, k, v in split_heads(query, key, value, layout):  # (batch, heads, seq, head_size) each
        scores = torch.matmul(q, k.transpose(2, 3)) * q.size(-1) ** -0.5  # (batch, heads, seq, seq)
        if layout.mask is not None:
            # 0, or the lowest number to hide a key
            scores = scores + additive(layout.mask, q, layout.dtype)
        probabilities = F.dropout(scores.softmax(dim=-1), p=dropout, training=dropout > 0)
        contexts.append(torch.matmul(probabilities, v))  # (batch, heads, seq, head_size)
        weights.append(probabilities)
    return merge_heads(contexts, layout), weights[0] if len(weights) == 1 else None


def sdpa_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """Scaled dot-product attention by one function of PyTorch, without the probabilities.

    Where it has a fused kernel, as on most devices, it computes a few rows and columns of the
    scores at a time, so that they need not be stored.

    Args:
        query: As in `eager_attention`, like all other arguments.
        key: Same shape.
        value: Same shape.
        layout: Where sequences begin and end, and which keys are hidden.
        dropout: Dropout probability of the attention probabilities, or 0 when not training.

    Returns:
        The context and None. Its last bits may differ from those of `eager_attention`. A query from
        which all keys are hidden gets 0 here, and there the mean of all values.
    """
    contexts = []
    for q, k, v in split_heads(query, key, value, layout):  # (batch, heads, seq, head_size) each
        context = F.scaled_dot_product_attention(
            q, k, v, attn_mask=layout.mask, dropout_p=dropout, scale=q.size(-1) ** -0.5
        )
        contexts.append(context)  # (batch, heads, seq, head_size)
    return merge_heads(contexts, layout), None


# config.py has their names, because a config needs no torch. A function of your own can be added.
ATTENTION_FUNCTIONS.update(eager=eager_attention, sdpa=sdpa_attention)


class BertSelfAttention(LayerAttributes):
    """Multi-head attention without its output projection (Vaswani et al. 2017, section 3.2.2).

    `LayerAttributes` and `own_part` are for code written for transformers. They add no computation.

    Args:
        config: The sizes.
        unused: Keywords of transformers, which have no effect or raise an error.

    Raises:
        ValueError: The heads do not divide the hidden dimensions evenly.
    """

    def __init__(self, config: BertConfig, **unused: Any) -> None:
        super().__init__(**unused)
        self.config = config
        inputs.check_heads(config)
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.scaling = self.attention_head_size**-0.5
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        # Not called: it holds the probability for the attention function.
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    @own_part
    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        *,
        attend: AttentionFunction | None = None,
    ) -> AttentionOutput:
        """Project hidden states to queries, keys and values, and attend with all heads.

        Args:
            hidden_states: (batch, seq, hidden), or (tokens, hidden) when packed.
            layout: Where sequences begin and end, or an attention mask.
            attend: The attention function. None: `config.attn_implementation` names it.

        Returns:
            The context, of the shape of `hidden_states`, and the probabilities if `attend` returns
            any.
        """
        attend = attend or ATTENTION_FUNCTIONS[self.config.attn_implementation]
        head_shape = (self.num_attention_heads, self.attention_head_size)
        query = self.query(hidden_states).unflatten(-1, head_shape)  # (..., heads, head_size)
        key = self.key(hidden_states).unflatten(-1, head_shape)  # (..., heads, head_size)
        value = self.value(hidden_states).unflatten(-1, head_shape)  # (..., heads, head_size)
        if self.scaling != self.attention_head_size**-0.5:
            # A user has changed it. Attention functions scale by 1 / sqrt(head_size) in any case.
            query = query * (self.scaling * self.attention_head_size**0.5)
        return attend(query, key, value, layout, self.dropout.p if self.training else 0.0)


class BertSelfOutput(nn.Module):
    """Output projection of attention, dropout, residual connection and LayerNorm.

    Vaswani et al. 2017, W^O of section 3.2.2, and the LayerNorm(x + Sublayer(x)) of section 3.1.
    Compare `BertOutput` in encoder.py.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """Project the context and add what went into attention.

        Args:
            hidden_states: The context, (..., hidden).
            input_tensor: The residual, (..., hidden).

        Returns:
            (..., hidden).
        """
        hidden_states = self.dense(hidden_states)  # (..., hidden)
        hidden_states = self.dropout(hidden_states)
        return self.LayerNorm(hidden_states + input_tensor)


class BertAttention(LayerAttributes):
    """Self-attention and its output: the first half of a layer."""

    def __init__(self, config: BertConfig, **unused: Any) -> None:
        super().__init__(**unused)
        self.self = BertSelfAttention(config)
        self.output = BertSelfOutput(config)

    @own_part
    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        *,
        attend: AttentionFunction | None = None,
    ) -> AttentionOutput:
        """Attend, mix the heads, add the residual and normalize.

        Args:
            hidden_states: (batch, seq, hidden), or (tokens, hidden) when packed.
            layout: Where sequences begin and end, or an attention mask.
            attend: The attention function. None: `config.attn_implementation` names it.

        Returns:
            The next hidden states, of the same shape, and the probabilities if `attend` returns
            any.
        """
        context, probabilities = call(self.self, hidden_states, layout, attend=attend)
        return self.output(context, hidden_states), probabilities
