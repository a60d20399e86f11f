"""Attention on a CPU, faster than by torch's kernel alone."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.attention import AttentionOutput, Block, merge_heads, split_heads
from minibert.inference.batching import rounded_rows
from minibert.inference.kernels import processor_features
from minibert.layouts import Layout, PackedLayout

# Float32 values in a vector register of 512 bits: lengths of padded sequences are multiples
KEYS_AT_ONCE = 16
# oneDNN compiles a product for each new shape, in about a millisecond: fewer tokens in a block are
# not worth it
MIN_TOKENS_FOR_PRODUCTS = 256
# Two megabytes in bfloat16. The memory of many more scores goes back to the system, and is new to
# the processor in each layer
SCORES_AT_ONCE = 2**20


class PackedAttention:
    """Attention of a packed batch without a mask, whose views are made once for all layers.

    Args:
        layout: Of the batch.
        tokens: Rows of the batch, with its tail.
        heads: Of the attention.
        head_size: Of each.
    """

    def __init__(self, layout: PackedLayout, tokens: int, heads: int, head_size: int) -> None:
        self.layout = layout
        self.tokens = tokens
        self.hidden = heads * head_size
        row = 3 * self.hidden  # queries, keys and values of a token, from one product
        self.runs: list[tuple[int, Sequence[int], Sequence[int], Sequence[int]]] = []
        start = 0
        for length, count in layout.runs:
            # a tail's queries are not read, but zeros would have to be appended
            queries = self.tokens if len(layout.lengths) == 1 else length
            shapes = (count, heads, queries, head_size), (count, heads, length, head_size)
            self.runs.append((start * row, *shapes, (length * row, head_size, row, 1)))
            start += length * count

    def __call__(self, projected: Tensor) -> Tensor:
        """The context, (tokens, hidden), of queries, keys and values (tokens, 3 * hidden).

        `projected` is in memory of its own.
        """
        contexts = []
        for start, query_shape, shape, strides in self.runs:
            query = projected.as_strided(query_shape, strides, start)
            key = projected.as_strided(shape, strides, start + self.hidden)
            value = projected.as_strided(shape, strides, start + 2 * self.hidden)
            context = F.scaled_dot_product_attention(query, key, value)
            if query_shape[0] * query_shape[2] == self.tokens:
                return context.transpose(1, 2).reshape(self.tokens, self.hidden)
            contexts.append(context)
        return merge_heads(contexts, self.layout)


def bf16_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """`sdpa_attention` in bfloat16, for inputs of any dtype.

    It takes a third to three quarters of the time of torch's kernel. With AMX torch's kernel is
    faster, by up to a half, and used instead.
    """
    contexts = []
    for block in split_heads(query, key, value, layout):
        contexts.append(_attention_in_bf16(block, layout.mask))
    return merge_heads(contexts, layout).to(query.dtype), None


def _attention_in_bf16(block: Block, mask: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(head_size)) V of a block, (batch, heads, seq, head_size)."""
    batch, heads, seq, head_size = block[0].shape
    scale = head_size**-0.5
    if batch * seq < MIN_TOKENS_FOR_PRODUCTS or "amx_bf16" in processor_features():
        query, key, value = (x.bfloat16() for x in block)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    # Each head of a sequence is contiguous, because products copy what is not, and K^T at four
    # times the cost. Shapes are padded to a few sizes, see `rounded_rows`
    count = rounded_rows(batch)
    length = _round_up(seq, KEYS_AT_ONCE)
    query, key, value = (_padded_heads(x, count, length) for x in block)
    masks: Tensor | None = None
    if mask is not None:
        expanded = mask.expand(batch, heads, *mask.shape[2:])
        masks = F.pad(expanded, (0, 0, 0, 0, 0, 0, 0, count - batch)).flatten(0, 1)
    contexts = []
    at_once = -(-SCORES_AT_ONCE // length**2)
    for start in range(0, count * heads, at_once):
        part = slice(start, start + at_once)
        visible = None if masks is None else masks[part]
        contexts.append(
            _product_attention(query[part], key[part], value[part], visible, seq, scale)
        )
    return torch.cat(contexts).view(count, heads, length, head_size)[:batch, :, :seq]


def _product_attention(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, seq: int, scale: float
) -> Tensor:
    """Attention of some heads by two products, (heads, length, head_size).

    Args:
        query: (heads, length, head_size), the first `seq` of which are tokens.
        key: The same.
        value: The same.
        visible: Where queries see keys, (heads, seq or 1, seq). None: everywhere.
        seq: Tokens of a sequence.
        scale: Of the scores.
    """
    lowest = torch.finfo(torch.bfloat16).min
    unused = query.new_empty(1)
    scores = torch.baddbmm(unused, query, key.transpose(1, 2), beta=0, alpha=scale)
    scores[:, :, seq:] = lowest  # (heads, length, length)
    if visible is not None:
        scores[:, :seq, :seq].masked_fill_(~visible, lowest)
    context = torch.bmm(scores.softmax(-1), value)
    if visible is not None:
        # a query that sees no key gets 0, as torch's kernel gives
        context[:, :seq].masked_fill_(~visible.any(-1, keepdim=True), 0.0)
    return context


def _padded_heads(states: Tensor, count: int, length: int) -> Tensor:
    """Pads queries, keys or values with zeros, (count * heads, length, head_size) in bfloat16."""
    batch, heads, seq, head_size = states.shape
    padded = torch.zeros(count, heads, length, head_size, dtype=torch.bfloat16)
    padded[:batch, :, :seq] = states
    return padded.flatten(0, 1)


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
