"""Attention on a CPU, faster than by torch's kernel alone."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.attention import AttentionOutput, Block, merge_heads, split_heads
from minibert.inference.batching import rounded_rows
from minibert.inference.kernels import processor_features
from minibert.layouts import Layout, PackedLayout

# float32 values in a vector register of 512 bits
KEYS_AT_ONCE = 16
# oneDNN compiles a product for each new shape, in about a millisecond: fewer tokens in a block are
# not worth it
MIN_TOKENS_FOR_PRODUCTS = 256
# Two megabytes in bfloat16. The memory of many more scores goes back to the system, and is new to
# the processor in each layer
SCORES_AT_ONCE = 2**20


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """`sdpa_attention` of short sequences in a packed batch, in two thirds of its time.

    torch's float32 kernel for the CPU takes keys 16 at a time, and the remaining ones one by one.
    So it receives whole groups of 16: the keys of a sequence and the first ones of its neighbor,
    which a mask hides. They lie next to each other, so nothing is copied. Only the last run, which
    nothing follows, is taken as it is.
    """
    assert isinstance(layout, PackedLayout)
    contexts = []
    start = 0
    tokens = key.shape[0]
    for length, count in layout.runs:
        end = start + length * count
        key_length = _round_up(length, KEYS_AT_ONCE)
        mask = None
        if end + key_length - length > tokens:
            key_length = length
        elif key_length > length:
            mask = _hide_keys(length, key_length, query.dtype)
        queries = length
        if len(layout.lengths) == 1:
            queries = tokens  # those of a tail are not read, but zeros would have to be appended
        # keys and values have the strides of queries: they come from one product
        q = _overlapping_view(query, start, count, length, queries)
        k = _overlapping_view(key, start, count, length, key_length)
        v = _overlapping_view(value, start, count, length, key_length)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        if count * queries == tokens:
            return context.transpose(1, 2).reshape(tokens, query.shape[1:].numel()), None
        contexts.append(context)
        start = end
    return merge_heads(contexts, layout), None


def _overlapping_view(states: Tensor, start: int, count: int, step: int, length: int) -> Tensor:
    """Sequences of a packed batch without copying, (count, heads, length, head_size).

    Args:
        states: (tokens, heads, head_size).
        start: The first token.
        count: How many sequences.
        step: Tokens from the start of a sequence to that of the next. If `length` is larger, each
            sequence also shows the first tokens of its neighbor.
        length: Tokens of each sequence.
    """
    _, heads, head_size = states.shape
    token, head, value = states.stride()
    return states.as_strided(
        (count, heads, length, head_size),
        (step * token, head, token, value),
        states.storage_offset() + start * token,
    )


@cache
def _hide_keys(visible: int, keys: int, dtype: torch.dtype) -> Tensor:
    """A mask, added to scores, that hides all but the first `visible` keys, (1, 1, 1, keys)."""
    mask = torch.zeros(1, 1, 1, keys, dtype=dtype)
    return mask.masked_fill_(torch.arange(keys) >= visible, -torch.inf)


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
