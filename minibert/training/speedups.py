"""Replace operators of PyTorch by faster ones on a CPU during a step of the `Trainer`.

    products       float32 by oneDNN where MKL does not know the processor (AMD): up to 2.6 times as
    fast dropout        16 random bits a number: a sixth of the time of `bernoulli_` attention
    by two products and a softmax, unless it is long, in float32 and without dropout: the shorter
    the
                   sequences, the slower is torch's kernel beside it, forward and backward (AMD: up
                   to 10 times); in blocks of lengths rounded up, and not in a block for each length
    rows           of a packed batch, its blocks and its hidden words are padded to `rounded_rows`:
                   oneDNN keeps what it compiles for each size, which would grow to two gigabytes
    loss of words  its gradient is written over the logits, the largest tensor of a step: a fifth
    off the MLM head

The model and its modules stay as they are; nothing changes outside of a step. Dropout draws other
numbers, products and losses round otherwise: `TrainingOptions(exact=True)` does without all but the
last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from minibert.attention import AttentionOutput, sdpa_attention
from minibert.encoder import BertEncoder
from minibert.inference.batching import rounded_rows
from minibert.inference.fused import as_rows
from minibert.inference.kernels import processor_features
from minibert.layouts import Layout, PackedLayout
from minibert.losses import IGNORED
from minibert.outputs import BertModelOutput

# logits of which the loss is taken at a time: few enough to stay in the processor's cache
LOGITS_AT_ONCE = 2**21
# packed sequences whose lengths are the same when rounded up to a multiple of this are attended to
# together
LENGTH_STEP = 8
# tokens of a sequence up to which float32 attention without dropout is quicker by products
MAX_LENGTH_FOR_PRODUCTS = 256


@contextmanager
def faster_operators(device: torch.device, model: nn.Module | None = None) -> Iterator[None]:
    """Use the operators of this file while the context lasts and `device` is a CPU.

    On a GPU those of PyTorch are fast.

    Args:
        device: of the training.
        model: its encoders attend to packed sequences in blocks.
    """
    if device.type != "cpu":
        yield
        return
    encoders = (
        []
        if model is None
        else [module for module in model.modules() if isinstance(module, BertEncoder)]
    )
    hooks = [encoder.register_forward_pre_hook(_in_blocks) for encoder in encoders]
    hooks += [encoder.register_forward_hook(_without_tail) for encoder in encoders]
    try:
        with _onednn_products() if onednn_is_faster() else nullcontext(), _FasterDropout():
            yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _onednn_products() -> Iterator[None]:
    """Send float32 products to oneDNN.

    PyTorch does so only if bfloat16 is allowed in them.
    """
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

    It makes use of the permission to round to bfloat16 only where hardware gains by that (AMX), and
    computes in float32 everywhere else. So this is tried, and relied upon only where the results
    are as exact as before. It is the processor's maker that decides about speed, and not a clock,
    because a run must end with the same bits every time.
    """
    known = hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision")
    if not known or "AuthenticAMD" not in processor_features():
        return False
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(512, 512, generator=generator) for _ in range(2))
    exact = x.double() @ weight.double()
    with _onednn_products():
        return float((x @ weight - exact).norm() / exact.norm()) < 1e-6  # with bfloat16 it is 2e-3


class _FasterDropout(TorchFunctionMode):
    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return (dropout if function is F.dropout else function)(*args, **(kwargs or {}))


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As `F.dropout`, with p in steps of 1/65536; never in place."""
    if not training or p == 0:
        return x
    return x * _noise(x, p)


def _noise(x: Tensor, p: float) -> Tensor:
    """Like x: 0 with probability p, else 1 / (1 - p)."""
    kept = 65536 - round(65536 * p)
    random = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64, device=x.device).random_(
        -(2**63), None
    )
    numbers = random.view(torch.int16)[: x.numel()].view(x.shape)  # -32768 to 32767
    noise = torch.lt(
        numbers, kept - 32768, out=torch.empty(x.shape, dtype=x.dtype, device=x.device)
    )
    return noise.mul_(65536 / max(1, kept))


def _in_blocks(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Prepare an encoder pass over packed sequences (a hook).

    Rows are rounded up, and all layers share one `BlockAttention`.
    """
    hidden_states, layout, attend, *others = inputs
    if (
        attend is not sdpa_attention
        or not isinstance(layout, PackedLayout)
        or not torch.is_grad_enabled()
    ):
        return inputs
    rows, layout = as_rows(hidden_states, layout)
    return rows, layout, BlockAttention(layout, len(hidden_states)), *others


def _without_tail(_: nn.Module, inputs: tuple[Any, ...], output: BertModelOutput) -> None:
    """Hook of an encoder: takes away the rows that `_in_blocks` has added."""
    attend = inputs[2]
    if isinstance(attend, BlockAttention):
        output.last_hidden_state = output.last_hidden_state[: attend.tokens]
        if output.hidden_states is not None:
            output.hidden_states = tuple(states[: attend.tokens] for states in output.hidden_states)


class BlockAttention:
    """Compute `sdpa_attention` of packed sequences of many lengths in a few large products.

    Sequences of similar length form a block, (sequences, heads, longest, head_size), whose mask
    hides the keys that a shorter one lacks. Rows are gathered straight into the order in which the
    products want them, and back.

    Args:
        layout: where the sequences begin and end, in any order of lengths.
        tokens: rows that the batch had before it was filled up; None: as many as now.
    """

    def __init__(self, layout: PackedLayout, tokens: int | None = None) -> None:
        self.layout = layout
        self.tokens = tokens
        self.heads = 0

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
    ) -> AttentionOutput:
        """(tokens, heads, head_size) each to the context, (tokens, hidden)."""
        longest = max(self.layout.lengths, default=0)
        torch_is_faster = (
            dropout == 0 and query.dtype != torch.bfloat16 and longest > MAX_LENGTH_FOR_PRODUCTS
        )
        if torch_is_faster or longest == 0:
            return sdpa_attention(query, key, value, layout, dropout)
        self.heads = query.shape[1]
        context: Tensor = _BlockAttention.apply(  # type: ignore[no-untyped-call]
            query, key, value, self, dropout
        )
        return context, None

    @cached_property
    def blocks(self) -> list[tuple[Tensor, Tensor]]:
        """Of each block the tokens, (sequences, longest), and which of these places have none."""
        lengths = torch.tensor([*self.layout.lengths, 0])  # the last one fills blocks up
        starts = lengths.cumsum(0) - lengths
        steps = (lengths[:-1] - 1) // LENGTH_STEP
        found = []
        for step in sorted(set(steps.tolist())):
            numbers = (steps == step).nonzero()  # (sequences, 1)
            numbers = F.pad(
                numbers, (0, 0, 0, rounded_rows(len(numbers)) - len(numbers)), value=len(steps)
            )
            places = torch.arange((step + 1) * LENGTH_STEP)
            found.append((starts[numbers] + places, places >= lengths[numbers]))
        return found

    @cached_property
    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Map rows of (tokens x heads, head_size) to their places in the blocks.

        Also returns the places without a row, and the way back.
        """
        heads = torch.arange(self.heads)[:, None]
        parts = [
            (tokens[:, None] * self.heads + heads).masked_fill(none[:, None], -1)
            for tokens, none in self.blocks
        ]
        rows = torch.cat([part.flatten() for part in parts])
        return (
            rows.clamp_min(0),
            (rows < 0).nonzero().flatten(),
            rows.argsort(stable=True)[(rows < 0).sum() :],
        )

    def cut(self, gathered: Tensor) -> list[Tensor]:
        """Reshape concatenated rows to blocks.

        Rows are (rows, head_size), and a block is (sequences x heads, longest, head_size).
        """
        shapes = [(len(tokens) * self.heads, tokens.shape[1]) for tokens, _ in self.blocks]
        parts = torch.split(gathered, [count * longest for count, longest in shapes])
        return [part.view(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]

    def in_rows(self, gathered: Tensor, rows: int) -> Tensor:
        """Return the rows of the blocks in their old order.

        The shape is (rows, heads, head_size). Rows of no sequence are 0.
        """
        back = self.rows[2]
        found = gathered.new_empty(rows * self.heads, gathered.shape[-1])
        torch.index_select(gathered, 0, back, out=found[: len(back)])
        found[len(back) :] = 0
        return found.view(rows, self.heads, -1)


class _BlockAttention(torch.autograd.Function):
    """With P = softmax(scale Q K^T), of which dropout leaves D = N P, the context is D V."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: BlockAttention, p: float
    ) -> Tensor:
        gather, _, _ = plan.rows
        size = query.shape[-1]
        ctx.plan, ctx.scale, ctx.blocks = plan, size**-0.5, []
        with torch.autocast(query.device.type, enabled=False):
            gathered = [x.reshape(-1, size).index_select(0, gather) for x in (query, key, value)]
            contexts = torch.empty_like(gathered[0])
            parts = zip(*map(plan.cut, (*gathered, contexts)), plan.blocks, strict=True)
            for q, k, v, context, (_, none) in parts:
                scores = torch.baddbmm(
                    q.new_empty(1), q, k.transpose(1, 2), beta=0, alpha=ctx.scale
                )
                if none.any():
                    lowest = torch.finfo(scores.dtype).min
                    scores.view(len(none), -1, *scores.shape[1:]).masked_fill_(
                        none[:, None, None], lowest
                    )
                probabilities = scores.softmax(-1)
                noise = _noise(probabilities, p) if p > 0 else None
                torch.bmm(probabilities if noise is None else probabilities * noise, v, out=context)
                ctx.blocks.append((q, k, v, probabilities, noise))
            return plan.in_rows(contexts, len(query)).flatten(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (gather, nothing, _) = gradients, ctx.plan.rows
        size = ctx.blocks[0][0].shape[-1]
        of_context = gradient.reshape(-1, size).index_select(0, gather).index_fill_(0, nothing, 0)
        found = [torch.empty_like(of_context) for _ in range(3)]
        parts = zip(ctx.plan.cut(of_context), *map(ctx.plan.cut, found), ctx.blocks, strict=True)
        for of_c, of_q, of_k, of_v, (q, k, v, probabilities, noise) in parts:
            of_p = torch.bmm(of_c, v.transpose(1, 2))
            kept = probabilities
            if noise is not None:
                kept = kept * noise
                of_p = of_p.mul_(noise)
            torch.bmm(kept.transpose(1, 2), of_c, out=of_v)
            of_scores = torch._softmax_backward_data(of_p, probabilities, -1, of_p.dtype)
            torch.baddbmm(of_q.new_empty(1), of_scores, k, beta=0, alpha=ctx.scale, out=of_q)
            torch.baddbmm(
                of_k.new_empty(1), of_scores.transpose(1, 2), q, beta=0, alpha=ctx.scale, out=of_k
            )
        ctx.blocks = []
        return (*(ctx.plan.in_rows(x, len(gradient)) for x in found), None, None)


def word_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Summed cross entropy; `logits` are gone afterwards: their memory holds the gradient.

    Args:
        logits: (words, vocab), not used for anything else.
        labels: (words,).
    """
    loss: Tensor = _WordLoss.apply(logits, labels)  # type: ignore[no-untyped-call]
    return loss


class _WordLoss(torch.autograd.Function):
    """Compute the loss and its gradient in one pass.

    With p = softmax(logits) the loss is -sum(log p[label]). Its gradient is p, less 1 for the
    label.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        loss = torch.zeros((), device=logits.device)
        rows = max(1, LOGITS_AT_ONCE // logits.shape[-1])
        ignored = labels[:, None] == IGNORED
        labels = labels[:, None].masked_fill(ignored, 0)
        for start in range(0, len(logits), rows):
            part = slice(start, start + rows)
            log_p = logits[part].float().log_softmax(-1)
            wanted = labels[part]
            loss -= log_p.gather(1, wanted).masked_fill_(ignored[part], 0).sum()
            logits[part] = log_p.exp_().scatter_add_(
                1, wanted, torch.full_like(wanted, -1, dtype=torch.float32)
            )
        logits.index_fill_(0, ignored.nonzero()[:, 0], 0)
        ctx.gradient = logits
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = ctx.gradient
        ctx.gradient = None
        return gradient.mul_(gradients[0]), None
