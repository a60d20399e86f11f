"""What makes a step of the `Trainer` faster on a CPU: operators in place of torch's own, while the step lasts.

    products       float32 by oneDNN where MKL does not know the processor (AMD): up to 2.6 times as fast
    dropout        16 random bits a number: a sixth of the time of `bernoulli_`
    attention      by two products and a softmax, unless it is long, in float32 and without dropout: the shorter the
                   sequences, the slower is torch's kernel beside it, forward and backward (AMD: up to 10 times)
    loss of words  its gradient is written over the logits, the largest tensor of a step: a fifth off the MLM head

The model and its modules stay as they are; nothing changes outside of a step. Dropout draws other numbers, products
and losses round otherwise: `TrainingOptions(exact=True)` does without all but the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from minibert.inference.kernels import processor_features

# logits of which the loss is taken at a time: few enough to stay in the processor's cache
LOGITS_AT_ONCE = 2**21
# tokens of a sequence up to which float32 attention without dropout is quicker by products
MAX_LENGTH_FOR_PRODUCTS = 256


@contextmanager
def faster_operators(device: torch.device) -> Iterator[None]:
    """While this lasts, training on `device` uses the operators of this file; on a GPU torch's own are fast."""
    if device.type != "cpu":
        yield
        return
    with _onednn_products() if onednn_is_faster() else nullcontext(), _FasterOperators():
        yield


@contextmanager
def _onednn_products() -> Iterator[None]:
    """Float32 products go to oneDNN, which torch can be told to only by allowing bfloat16 in them."""
    matmul: Any = getattr(torch.backends.mkldnn, "matmul")  # noqa: B009 (torch 2.9 and later)
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


@cache
def onednn_is_faster() -> bool:
    """Whether float32 products should go to oneDNN: on AMD's processors, where it keeps float32.

    It makes use of the permission to round to bfloat16 only where hardware gains by that (AMX), and computes in
    float32 everywhere else. So this is tried, and relied upon only where the results are as exact as before. It is the
    processor's maker that decides about speed, and not a clock, because a run must end with the same bits every time.
    """
    known = hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision")
    if not known or "AuthenticAMD" not in processor_features():
        return False
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(512, 512, generator=generator) for _ in range(2))
    exact = x.double() @ weight.double()
    with _onednn_products():
        return float((x @ weight - exact).norm() / exact.norm()) < 1e-6  # with bfloat16 it is 2e-3


class _FasterOperators(TorchFunctionMode):
    """Replaces dropout and attention."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is F.dropout:
            return dropout(*args, **kwargs)
        if function is F.scaled_dot_product_attention:
            return attention(*args, **kwargs)
        return function(*args, **kwargs)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As `F.dropout`, with p in steps of 1/65536; never in place."""
    if not training or p == 0:
        return x
    kept = 65536 - round(65536 * p)
    random = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
    numbers = random.view(torch.int16)[: x.numel()].view(x.shape)  # -32768 to 32767
    noise = torch.lt(numbers, kept - 32768, out=torch.empty(x.shape, dtype=x.dtype, device=x.device))
    return x * noise.mul_(65536 / max(1, kept))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    scale: float | None = None,
    **others: Any,
) -> Tensor:
    """As `F.scaled_dot_product_attention`; a query that may look nowhere gets the mean of all values, as in eager."""
    known = query.dim() == 4 and not others and (attn_mask is None or attn_mask.dtype == torch.bool)
    is_long = query.dtype != torch.bfloat16 and query.shape[-2] > MAX_LENGTH_FOR_PRODUCTS
    torch_is_faster = dropout_p == 0 and (is_long or not query.requires_grad)
    if not known or torch_is_faster:
        return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, scale=scale, **others)
    with torch.autocast(query.device.type, enabled=False):  # softmax in the products' own precision: no copies
        # each head in one piece, for products copy what is not, forward and backward
        q, k, v = (x.contiguous().flatten(0, 1) for x in (query, key, value))
        unused, scale = q.new_empty(1), query.shape[-1] ** -0.5 if scale is None else scale
        scores = torch.baddbmm(unused, q, k.transpose(1, 2), beta=0, alpha=scale)  # (batch x heads, seq, seq)
        if attn_mask is not None:
            hidden = ~attn_mask.expand(*query.shape[:2], *attn_mask.shape[-2:]).flatten(0, 1)
            scores.masked_fill_(hidden, torch.finfo(scores.dtype).min)
        return torch.bmm(dropout(scores.softmax(-1), dropout_p), v).view(query.shape)


def word_loss(logits: Tensor, labels: Tensor, soft: Tensor | None = None, soft_share: float = 0.0) -> Tensor:
    """Summed cross entropy; `logits` are gone afterwards: their memory holds the gradient.

    Args:
        logits: (words, vocab), not used for anything else.
        labels: (words,), none of them ignored.
        soft: a teacher's probabilities, (words, vocab).
        soft_share: of `soft` in what the model should say; the rest is that of `labels`.
    """
    loss: Tensor = _WordLoss.apply(logits, labels, soft, soft_share)  # type: ignore[no-untyped-call]
    return loss


class _WordLoss(torch.autograd.Function):
    """With p = softmax(logits) and t the wanted probabilities the loss is -sum(t log p), and its gradient p - t."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, soft: Tensor | None, soft_share: float) -> Tensor:
        loss = torch.zeros((), device=logits.device)
        rows = max(1, LOGITS_AT_ONCE // logits.shape[-1])
        for start in range(0, len(logits), rows):
            part, wanted = slice(start, start + rows), labels[start : start + rows, None]
            log_p = logits[part].float().log_softmax(-1)
            loss -= (1 - soft_share) * log_p.gather(1, wanted).sum()
            if soft is not None:
                loss -= soft_share * (soft[part] * log_p).sum()
            gradient = log_p.exp_()
            gradient.scatter_add_(1, wanted, torch.full_like(wanted, soft_share - 1, dtype=torch.float32))
            logits[part] = gradient if soft is None else gradient.sub_(soft[part], alpha=soft_share)
        ctx.gradient = logits
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        gradient, ctx.gradient = ctx.gradient, None
        return gradient.mul_(gradients[0]), None, None, None
