"""Attention on a CPU, faster than by torch's kernel alone."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.attention import AttentionOutput
from minibert.inference.batching import rounded_rows
from minibert.inference.kernels import processor_features
from minibert.layouts import Block, Layout, PackedLayout

# numbers in a vector register of 512 bits
KEYS_AT_ONCE = 16
# oneDNN compiles a product for each new shape, in about a millisecond: a block with fewer tokens is not worth it
MIN_TOKENS_FOR_PRODUCTS = 256
# two megabytes in bfloat16: the memory of many more goes back to the system, and is new to the processor in each layer
SCORES_AT_ONCE = 2**20


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """`sdpa_attention` of short sequences in a packed batch, in two thirds of its time.

    torch's float32 kernel for the CPU takes keys 16 at a time and those that are left over one by one. So it gets whole
    sixteens: the keys of a sequence and the first ones of its neighbour, which a mask hides. They lie next to each
    other, so nothing is copied; only the last run, which nothing follows, is taken as it is.
    """
    assert isinstance(layout, PackedLayout)
    contexts, start = [], 0
    tokens, heads, head_size = key.shape
    for length, count in layout.runs:
        end = start + length * count
        padded_length = -(-length // KEYS_AT_ONCE) * KEYS_AT_ONCE
        if end + padded_length - length > tokens:
            padded_length = length
        mask = None if padded_length == length else _first(length, padded_length, query.dtype)
        row, head, number = (
            query.stride()
        )  # those of keys and values, too: they come from one product
        strides = (length * row, head, row, number)
        q, k, v = (
            x.as_strided((count, heads, size, head_size), strides, x.storage_offset() + start * row)
            for x, size in ((query, length), (key, padded_length), (value, padded_length))
        )
        contexts.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout))
        start = end
    return layout.join(contexts), None


@cache
def _first(visible: int, keys: int, dtype: torch.dtype) -> Tensor:
    """A mask to be added to scores that hides all keys but the first `visible` ones, (1, 1, 1, keys)."""
    return torch.zeros(1, 1, 1, keys, dtype=dtype).masked_fill_(
        torch.arange(keys) >= visible, -torch.inf
    )


def bf16_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> AttentionOutput:
    """`sdpa_attention` in bfloat16 whatever comes in, in a third to three quarters of the time of torch's kernel.

    With AMX torch's kernel is the quicker one, by up to a half.
    """
    contexts = [
        _attention_in_bf16(block, layout.mask) for block in layout.blocks(query, key, value)
    ]
    return layout.join(contexts).to(query.dtype), None


def _attention_in_bf16(block: Block, mask: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(head_size)) V of a block, (batch, heads, seq, head_size)."""
    batch, heads, seq, head_size = block[0].shape
    scale = head_size**-0.5
    if batch * seq < MIN_TOKENS_FOR_PRODUCTS or "amx_bf16" in processor_features():
        query, key, value = (x.bfloat16() for x in block)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    # each head of a sequence in one piece, for products copy what is not, and K^T at four times the cost; padded to
    # a few sizes, see `rounded_rows`
    count, length = rounded_rows(batch), -(-seq // KEYS_AT_ONCE) * KEYS_AT_ONCE
    pieces = []
    for x in block:
        piece = torch.zeros(count, heads, length, head_size, dtype=torch.bfloat16)
        piece[:batch, :, :seq] = x
        pieces.append(piece.flatten(0, 1))
    if mask is not None:
        added = (0, 0, 0, 0, 0, 0, 0, count - batch)
        pieces.append(F.pad(mask.expand(batch, heads, *mask.shape[2:]), added).flatten(0, 1))
    contexts = []
    lowest = torch.finfo(torch.bfloat16).min
    at_once = -(-SCORES_AT_ONCE // length**2)
    for query, key, value, *masks in zip(*(torch.split(x, at_once) for x in pieces), strict=True):
        unused = query.new_empty(1)
        scores = torch.baddbmm(
            unused, query, key.transpose(1, 2), beta=0, alpha=scale
        )  # (some heads, length, length)
        scores[:, :, seq:] = lowest
        for visible in masks:
            scores[:, :seq, :seq].masked_fill_(~visible, lowest)
        contexts.append(torch.bmm(scores.softmax(-1), value))
        for visible in masks:  # a query that may look nowhere gets 0, as torch's kernel gives
            contexts[-1][:, :seq].masked_fill_(~visible.any(-1, keepdim=True), 0.0)
    return torch.cat(contexts).view(count, heads, length, head_size)[:batch, :, :seq]
