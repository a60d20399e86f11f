"""Replace operators of PyTorch by faster ones on a CPU during a step of a `Run`.

* Dropout draws 16 random bits for a number, in 2/5 of the time of `bernoulli_`.
* Attention with dropout, or in bfloat16: packed sequences of similar length form a block, which
  takes two products and a softmax. Both passes take 0.55 to 0.8 of the time of PyTorch's kernel,
  which is called once for each length. In float32 without dropout, blocks are faster only for
  short sequences whose products oneDNN computes (0.25 to 0.7 of the time).
* The rows of a packed batch, of its blocks and of its hidden words are padded to `rounded_rows`:
  oneDNN keeps what it compiles for each size, which would grow to two gigabytes.
* Float32 products go to oneDNN on AMD's processors with AVX-512, for which MKL has no kernels. A
  step takes 0.6 to 0.7 of the time.
* The gradient of the words' loss is written over the logits, the largest tensor of a step.

The model and its modules stay as they are, and nothing changes outside of a step. Dropout draws
other numbers, and attention, products and losses round differently: `TrainingOptions(exact=True)`
uses only the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from typing import Any, NamedTuple

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
from minibert.parts import takes_layout

# Number of logits whose loss is computed at a time: few enough for the processor's cache.
LOGITS_AT_ONCE = 2**21
# Sequences whose lengths are equal when rounded up to a multiple of this are in one block.
LENGTH_STEP = 8
# Up to this length blocks by oneDNN are faster than the kernel, in float32 without dropout.
MAX_LENGTH_WITHOUT_DROPOUT = 128


@contextmanager
def faster_operators(device: torch.device, model: nn.Module) -> Iterator[None]:
    """Use the operators of this module while the context lasts, if `device` is a CPU.

    On a GPU those of PyTorch are fast.

    Args:
        device: Device of the training.
        model: Model whose encoders use `BlockAttention` for packed sequences.
    """
    if device.type != "cpu":
        yield
        return
    # A user's own encoder does not receive a layout, which blocks are made from.
    encoders = [m for m in model.modules() if isinstance(m, BertEncoder) and takes_layout(m)]
    hooks = []
    for encoder in encoders:
        hooks += [
            encoder.register_forward_pre_hook(_use_blocks, with_kwargs=True),
            encoder.register_forward_hook(_remove_padding_rows, with_kwargs=True),
        ]
    products = onednn_products() if onednn_is_faster() else nullcontext()
    try:
        with products, _FasterDropout():
            yield
    finally:
        for hook in hooks:
            hook.remove()


# --- products


@contextmanager
def onednn_products() -> Iterator[None]:
    """Send float32 products to oneDNN while the context lasts.

    PyTorch does so only where rounding to bfloat16 is allowed. oneDNN uses this permission where
    the processor gains by it (AMX), and computes in float32 elsewhere.
    """
    matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


@cache
def onednn_is_faster() -> bool:
    """Tell whether oneDNN's float32 products are faster than MKL's, and as exact.

    The kind of processor decides about speed, and not a clock, because a run must end with the same
    bits every time. Exactness is tried.
    """
    matmul = getattr(torch.backends.mkldnn, "matmul", None)
    can_be_chosen = hasattr(matmul, "fp32_precision")  # torch 2.9 and newer
    if not can_be_chosen or not {"AuthenticAMD", "avx512f"} <= processor_features():
        return False
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, 512, generator=generator)
    weight = torch.randn(512, 512, generator=generator)
    exact = x.double() @ weight.double()
    with onednn_products():
        error = (x @ weight - exact).norm() / exact.norm()
    return float(error) < 1e-6  # by bfloat16 it is 2e-3


# --- dropout


class _FasterDropout(TorchFunctionMode):
    """Calls `dropout` in place of `F.dropout`."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is F.dropout:
            function = dropout
        return function(*args, **(kwargs or {}))


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As `F.dropout`, with p in steps of 1/65536, and never in place."""
    kept_of_65536 = 65536 - round(65536 * p)
    if not training or kept_of_65536 == 65536:  # which is more than 16 bits can be compared with
        return x
    # noise is 0 with probability p, else 1 / (1 - p)
    words = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64, device=x.device)
    words.random_(-(2**63), None)
    numbers = words.view(torch.int16)[: x.numel()].view(x.shape)  # -32768 to 32767
    noise = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    torch.lt(numbers, kept_of_65536 - 32768, out=noise)
    return x * noise.mul_(65536 / max(1, kept_of_65536))


# --- attention in blocks


def _use_blocks(
    _: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Prepare an encoder pass over packed sequences (a hook).

    Rows are rounded up, and all layers share one `BlockAttention`.
    """
    hidden_states, layout = inputs
    if (
        options["attend"] is not sdpa_attention
        or not isinstance(layout, PackedLayout)
        or not torch.is_grad_enabled()
    ):
        return inputs, options
    rows, layout = as_rows(hidden_states, layout)
    attend = BlockAttention(layout, len(hidden_states))
    return (rows, layout), {**options, "attend": attend}


def _remove_padding_rows(
    _: nn.Module, __: tuple[Any, ...], options: dict[str, Any], output: BertModelOutput
) -> None:
    """Remove the rows that `_use_blocks` has added (a hook)."""
    attend = options["attend"]
    if isinstance(attend, BlockAttention):
        output.last_hidden_state = output.last_hidden_state[: attend.tokens]
        if output.hidden_states is not None:
            output.hidden_states = tuple(states[: attend.tokens] for states in output.hidden_states)


class EqualLengths(NamedTuple):
    """Sequences of similar length.

    Attributes:
        tokens: The row of each token in the batch, (sequences, longest).
        is_empty: Where a shorter sequence has no token, (sequences, longest).
    """

    tokens: Tensor
    is_empty: Tensor


class BlockAttention:
    """Compute `sdpa_attention` of packed sequences in a few large products.

    Rows are gathered into blocks of sequences, (sequences * heads, longest, head_size), and the
    contexts are gathered back into rows.

    Args:
        layout: Where the sequences begin and end, in any order of lengths.
        tokens: Number of rows of the batch before it was padded. None: as many as now.
    """

    def __init__(self, layout: PackedLayout, tokens: int | None = None) -> None:
        self.layout = layout
        self.tokens = tokens
        self.heads = 0  # set by each call, and `places` are made for that of the first

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
    ) -> AttentionOutput:
        """Map (tokens, heads, head_size) each to the context, (tokens, hidden), and None."""
        if not self.layout.lengths or self.is_slower_than_torch(query.dtype, dropout):
            return sdpa_attention(query, key, value, layout, dropout)
        self.heads = query.shape[1]
        with torch.autocast(query.device.type, enabled=False):
            queries, keys, values = (self.split(self.gather(x)) for x in (query, key, value))
            contexts = []
            for q, k, v, block in zip(queries, keys, values, self.blocks, strict=True):
                context = attend_in_block(q, k, v, block.is_empty, dropout)
                contexts.append(context.flatten(0, 1))
            return self.restore(torch.cat(contexts)), None

    def is_slower_than_torch(self, dtype: torch.dtype, dropout: float) -> bool:
        """Tell whether PyTorch's kernel is faster than blocks."""
        if dropout > 0 or dtype == torch.bfloat16:
            return False
        return not onednn_is_faster() or max(self.layout.lengths) > MAX_LENGTH_WITHOUT_DROPOUT

    @cached_property
    def blocks(self) -> list[EqualLengths]:
        """The sequences in blocks, from the shortest to the longest."""
        lengths = torch.tensor([*self.layout.lengths, 0])  # the last one is for padding sequences
        starts = lengths.cumsum(0) - lengths
        steps = (lengths[:-1] - 1) // LENGTH_STEP
        blocks = []
        for step in sorted(set(steps.tolist())):
            sequences = (steps == step).nonzero()  # (sequences, 1)
            padding = rounded_rows(len(sequences)) - len(sequences)
            sequences = F.pad(sequences, (0, 0, 0, padding), value=len(steps))
            places = torch.arange((step + 1) * LENGTH_STEP)
            blocks.append(EqualLengths(starts[sequences] + places, places >= lengths[sequences]))
        return blocks

    @cached_property
    def places(self) -> tuple[Places, Places]:
        """Those in the blocks of the rows (tokens * heads, head_size), and of these back."""
        heads = torch.arange(self.heads)[:, None]
        parts = []
        for block in self.blocks:
            rows = block.tokens[:, None] * self.heads + heads  # (sequences, heads, longest)
            parts.append(rows.masked_fill(block.is_empty[:, None], -1).flatten())
        rows = torch.cat(parts)
        empty = (rows < 0).nonzero().flatten()
        back = F.pad(rows.argsort(stable=True)[len(empty) :], (0, self.layout.tail * self.heads))
        tail = torch.arange(len(back) - self.layout.tail * self.heads, len(back))
        return Places(rows.clamp_min(0), empty), Places(back, tail)

    def gather(self, x: Tensor) -> Tensor:
        """(tokens, heads, head_size) to the rows of the blocks, (rows, head_size)."""
        rows: Tensor = _Move.apply(x.flatten(0, 1), *self.places)  # type: ignore[no-untyped-call]
        return rows

    def restore(self, gathered: Tensor) -> Tensor:
        """The rows of the blocks to (tokens, hidden). Rows of no sequence are 0."""
        rows: Tensor = _Move.apply(gathered, *reversed(self.places))  # type: ignore[no-untyped-call]
        return rows.view(-1, self.heads * gathered.shape[-1])

    def split(self, gathered: Tensor) -> list[Tensor]:
        """The rows of the blocks to blocks, (sequences * heads, longest, head_size) each."""
        shapes = [(len(tokens) * self.heads, tokens.shape[1]) for tokens, _ in self.blocks]
        parts = torch.split(gathered, [count * longest for count, longest in shapes])
        return [part.view(*shape, -1) for part, shape in zip(parts, shapes, strict=True)]


def attend_in_block(
    query: Tensor, key: Tensor, value: Tensor, is_empty: Tensor, dropout_p: float
) -> Tensor:
    """Compute C = dropout(softmax(Q K^T / sqrt(head_size))) V, where empty keys are hidden.

    Args:
        query: (sequences * heads, longest, head_size), as all tensors but `is_empty`.
        key: As `query`.
        value: As `query`.
        is_empty: Keys that a shorter sequence lacks, (sequences, longest).
        dropout_p: Dropout probability.
    """
    # with alpha, the division takes no pass over the scores of its own
    unused = query.new_empty(1)
    scale = query.shape[-1] ** -0.5
    scores = torch.baddbmm(unused, query, key.transpose(1, 2), beta=0, alpha=scale)
    if is_empty.any():
        lowest = torch.finfo(scores.dtype).min
        by_sequence = scores.view(len(is_empty), -1, *scores.shape[1:])
        by_sequence.masked_fill_(is_empty[:, None, None], lowest)
    return torch.bmm(dropout(scores.softmax(-1), dropout_p), value)


class Places(NamedTuple):
    """Which rows come to which places.

    Attributes:
        rows: The row in each place, (places,). An empty place has row 0.
        empty: The empty places.
    """

    rows: Tensor
    empty: Tensor

    def fill(self, rows: Tensor) -> Tensor:
        """Copy rows to their places. Empty places are 0."""
        return rows.index_select(0, self.rows).index_fill_(0, self.empty, 0)


class _Move(torch.autograd.Function):
    """Copies rows to places, and the gradient back: much faster than by an `index_add_`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Places, back: Places) -> Tensor:
        ctx.back = back
        return places.fill(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back.fill(gradients[0]), None, None


# --- the loss of the hidden words


def word_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum the cross entropies of words, and overwrite the logits with their gradient.

    Args:
        logits: (words, vocab). Nothing else may use them.
        labels: (words,).
    """
    loss: Tensor = _WordLoss.apply(logits, labels)  # type: ignore[no-untyped-call]
    return loss


class _WordLoss(torch.autograd.Function):
    """Compute the loss and its gradient in one pass over the logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        loss = torch.zeros((), device=logits.device)
        is_ignored = labels[:, None] == IGNORED  # (words, 1)
        labels = labels[:, None].masked_fill(is_ignored, 0)  # (words, 1)
        rows = max(1, LOGITS_AT_ONCE // logits.shape[-1])
        for start in range(0, len(logits), rows):
            part = slice(start, start + rows)
            log_p = logits[part].float().log_softmax(-1)
            label, ignored = labels[part], is_ignored[part]
            loss -= log_p.gather(1, label).masked_fill_(ignored, 0).sum()
            # the gradient is p, less 1 for the label, and 0 for an ignored one
            minus_one = torch.full_like(label, -1, dtype=torch.float32)
            gradient = log_p.exp_().scatter_add_(1, label, minus_one)
            logits[part] = gradient.index_fill_(0, ignored[:, 0].nonzero()[:, 0], 0)
        ctx.gradient = logits
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = ctx.gradient
        ctx.gradient = None
        return gradient.mul_(gradients[0]), None
