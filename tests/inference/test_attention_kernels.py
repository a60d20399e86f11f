"""Attention for inference is close to PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from minibert.attention import sdpa_attention
from minibert.inference import attention_kernels
from minibert.inference.attention_kernels import bf16_attention
from minibert.layouts import Layout, PackedLayout, PaddedLayout

pytestmark = pytest.mark.usefixtures("one_thread")


def heads(*tokens: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return random queries, keys and values of 3 heads of size 16.

    They are views of one tensor, as in the encoder, which computes all three by one product.
    """
    torch.manual_seed(0)
    return list(torch.randn(*tokens, 3, 3, 16).to(dtype).unbind(-3))


PADDED = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
LAYOUTS = [
    (PaddedLayout(), (2, 9)),
    (PaddedLayout(PADDED), (2, 9)),
    (PaddedLayout(torch.ones(9, 9).tril().expand(2, 9, 9)), (2, 9)),
    (PaddedLayout(torch.ones(9, 9).tril().repeat(1, 3, 1, 1).bool()), (2, 9)),
    (PackedLayout([9, 9, 4, 1, 1, 17]), (41,)),
    (PaddedLayout(PADDED.repeat(17, 1)), (34, 9)),  # padded to 36 sequences of length 16
    (PackedLayout([9] * 33), (297,)),
]


# The first two cases use PyTorch's kernel, because of few tokens and of AMX. The others use
# matrix products, for all heads at once and for a few heads at a time.
@pytest.mark.parametrize(
    ("features", "min_tokens", "scores_at_once"),
    [(set(), 1000, 1), ({"amx_bf16"}, 1, 1), (set(), 1, 2**18), (set(), 1, 200)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("layout", "tokens"), LAYOUTS)
def test_bfloat16_attention(
    layout: Layout,
    tokens: tuple[int, ...],
    dtype: torch.dtype,
    features: set[str],
    min_tokens: int,
    scores_at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention_kernels, "processor_features", lambda: frozenset(features))
    monkeypatch.setattr(attention_kernels, "MIN_TOKENS_FOR_PRODUCTS", min_tokens)
    monkeypatch.setattr(attention_kernels, "SCORES_AT_ONCE", scores_at_once)
    query, key, value = heads(*tokens, dtype=dtype)
    received, weights = bf16_attention(query, key, value, layout, 0.0)
    expected, _ = sdpa_attention(query.float(), key.float(), value.float(), layout, 0.0)
    assert received.dtype == dtype and weights is None
    # bfloat16 has 8 significant bits, and values are rounded three times
    assert (received.float() - expected).norm() < 0.02 * expected.norm()


# a batch of 4 uses PyTorch's kernel, the larger ones use matrix products on a CPU without AMX
@pytest.mark.parametrize("batch", [4, 33, 64])
def test_a_fully_masked_sequence(batch: int) -> None:
    """A fully masked sequence gets 0, as in float32, and does not change the other sequences."""
    mask = torch.ones(batch, 8)
    mask[1] = 0
    query, key, value = heads(batch, 8)
    expected, _ = sdpa_attention(query, key, value, PaddedLayout(mask), 0.0)
    received, _ = bf16_attention(query, key, value, PaddedLayout(mask), 0.0)
    assert not expected[1].any() and not received[1].any()
    assert (received - expected).norm() < 0.02 * expected.norm()
