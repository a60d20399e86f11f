"""Layouts: where sequences begin and end inside a tensor of tokens.

The paper does not discuss this. It is about batches: sequences of different lengths have to share
one tensor.

Everything in BERT except attention works on one token at a time, so only attention has to know
which tokens belong together. It asks a layout. There are two, with the same methods:

    PaddedLayout     (batch, seq, hidden)   every sequence is padded to the longest with [PAD]
    PackedLayout     (tokens, hidden)       sequences follow one another, without any [PAD]

    split, merge     into blocks of equally long sequences, and back
    pad, unpad       to (batch, seq, hidden), and back
    position_ids     0, 1, 2, ... in every sequence
    first_tokens     the [CLS] states, (batch, hidden)

Code that uses these methods is correct for both. The `mask` of a layout is True where a query may
attend to a key. Its shape broadcasts to (batch, heads, seq, seq). It is None if nothing is hidden.

Next file: embeddings.py.
"""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Union

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Layout = Union["PaddedLayout", "PackedLayout"]

LayoutOrMask = Layout | Tensor | None
"""A layout, or an attention mask in its place, as code written for transformers passes it."""


class PaddedLayout:
    """Sequences of one length, `(batch, seq, hidden)`, with a mask that hides the padding.

    Args:
        attention_mask: Nonzero where a token may be attended to. Shape (batch, seq) hides keys such
            as [PAD], shapes (batch, seq, seq) and (batch, 1 or heads, seq, seq) hide keys from
            single queries. A floating-point mask with four dimensions is additive, as in
            transformers: 0 is visible, -1000 or less is hidden. None hides nothing.

    Raises:
        ValueError: The mask is not a tensor, has another number of dimensions, or has values that
            are not those of a mask.
    """

    def __init__(self, attention_mask: Tensor | None = None) -> None:
        self.mask: Tensor | None = None
        self._mask_shape: tuple[int, ...] = ()  # for `check`, also if the mask is left out
        if attention_mask is None:
            return
        if not isinstance(attention_mask, Tensor):
            raise ValueError(
                f"attention_mask should be a tensor, not {type(attention_mask).__name__}. Pass "
                "torch.tensor(attention_mask)."
            )
        if attention_mask.dim() not in (2, 3, 4):
            raise ValueError(
                f"attention_mask has shape {tuple(attention_mask.shape)}, but it should be "
                "(batch, seq), (batch, seq, seq) or (batch, heads, seq, seq)."
            )
        self._mask_shape = tuple(attention_mask.shape)
        is_additive = attention_mask.dim() == 4 and attention_mask.is_floating_point()
        # A mask that hides nothing is left out: the results are the same, and the kernel is faster.
        if is_traced(attention_mask) or _hides_tokens(attention_mask, is_additive):
            visible = attention_mask == 0 if is_additive else attention_mask.bool()
            if visible.dim() == 2:
                visible = visible[:, None, None, :]  # (batch, 1, 1, seq)
            elif visible.dim() == 3:
                visible = visible[:, None, :, :]  # (batch, 1, seq, seq)
            self.mask = visible

    def check(self, tokens: torch.Size, argument: str = "input_ids") -> None:
        """Check that tokens are (batch, seq), and that the mask broadcasts to that shape.

        Args:
            tokens: The shape of the tokens.
            argument: The argument that has this shape, as the error should call it.

        Raises:
            ValueError: The tokens have another number of dimensions, or do not fit the mask.
        """
        if len(tokens) != 2:
            raise ValueError(
                f"{argument} should have tokens of shape (batch, seq), not {tuple(tokens)}. A "
                "single sequence is a batch of one: input_ids[None]."
            )
        batch, seq = tokens
        if seq == 0:
            raise ValueError(
                f"{argument} has tokens of shape {tuple(tokens)}, but every sequence needs at "
                "least one token."
            )
        if not self._mask_shape:
            return
        mask_batch = self._mask_shape[0]
        mask_seq = self._mask_shape[-1]
        fits = mask_batch in (1, batch) and mask_seq == seq
        if len(self._mask_shape) > 2:  # (..., queries, keys)
            mask_queries = self._mask_shape[-2]
            fits = fits and mask_queries in (1, seq)
        if not fits:
            raise ValueError(
                f"attention_mask has shape {self._mask_shape}, but {argument} has tokens of shape "
                f"{tuple(tokens)}. The mask should be (batch, seq), (batch, seq, seq) or "
                "(batch, heads, seq, seq)."
            )

    def split(self, x: Tensor) -> list[Tensor]:
        """Return blocks of equally long sequences: here one, the whole batch, (batch, seq, ...)."""
        return [x]

    def merge(self, blocks: list[Tensor]) -> Tensor:
        """Undo `split`."""
        (x,) = blocks
        return x

    def position_ids(
        self, tokens: tuple[int, ...], device: torch.device | str | None = None
    ) -> Tensor:
        """Return 0, 1, 2, ... for `tokens` of shape (batch, seq): (1, seq) on `device`."""
        positions = torch.arange(tokens[-1], device=device)
        return positions if len(tokens) == 1 else positions[None]

    def first_tokens(self, hidden_states: Tensor) -> Tensor:
        """Return each first token: `hidden_states` (batch, seq, hidden) to (batch, hidden)."""
        return hidden_states[:, 0]

    def pad(self, hidden_states: Tensor) -> Tensor:
        """Return `hidden_states` (batch, seq, hidden) as they are."""
        return hidden_states

    def unpad(self, padded: Tensor) -> Tensor:
        """Undo `pad`."""
        return padded

    def padding_mask(self, padded: Tensor) -> Tensor | None:
        """Return the mask of `pad(hidden_states)`, which is that of the layout."""
        return self.mask


UNMASKED = PaddedLayout()
"""The layout of a padded batch in which every token attends to every other."""


class PackedLayout:
    """Sequences one after another, `(tokens, hidden)`: no padding, so no wasted work and no mask.

    Attention computes neighbors of equal length in one block, so sorting by length makes few and
    large blocks.

    Args:
        lengths: Tokens of each sequence, in order, each at least 1.
        tail: Number of rows behind the last sequence that belong to no sequence, to round up the
            size. No token attends to them, and their own context is 0.

    Raises:
        ValueError: A length is below 1.
    """

    def __init__(self, lengths: Sequence[int], tail: int = 0) -> None:
        self.lengths = list(lengths)
        self.tail = tail
        self.mask: Tensor | None = None  # always, because nothing is hidden within a sequence
        if min(self.lengths, default=1) < 1:
            raise ValueError(
                f"PackedLayout lengths contains {min(self.lengths)}, but every sequence needs at "
                "least one token. Leave empty sequences out."
            )
        # Pairs of a length and the number of consecutive sequences that have it.
        self.runs = [(length, len(list(run))) for length, run in groupby(self.lengths)]
        if not self.runs:
            self.runs = [(0, 0)]  # without sequences, `merge` still needs one block, an empty one

    def split(self, x: Tensor) -> list[Tensor]:
        """Return one block (run, length, ...) for each run of equally long sequences.

        Args:
            x: (tokens, ...).
        """
        if len(self.runs) == 1 and self.tail == 0:
            parts = [x]
        else:
            sizes = [length * count for length, count in self.runs]
            *parts, _ = x.split_with_sizes([*sizes, self.tail])
        return [
            part.view(count, length, *x.shape[1:])
            for part, (length, count) in zip(parts, self.runs, strict=True)
        ]

    def merge(self, blocks: list[Tensor]) -> Tensor:
        """Undo `split`: (run, length, ...) to (tokens, ...), with zeros in the tail."""
        rows = [block.flatten(0, 1) for block in blocks]
        if self.tail:
            rows.append(rows[0].new_zeros(self.tail, *rows[0].shape[1:]))
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    def position_ids(
        self, tokens: tuple[int, ...] = (), device: torch.device | str | None = None
    ) -> Tensor:
        """Return the position of each token in its sequence, (tokens,): 0, 1, 2, ... on `device`.

        Rows of the tail have position 0. A packed layout knows the shape `tokens`.
        """
        runs = [torch.arange(length, device=device).repeat(count) for length, count in self.runs]
        runs.append(torch.zeros(self.tail, dtype=torch.long, device=device))
        return torch.cat(runs)  # (tokens,)

    def check(self, tokens: torch.Size, argument: str = "input_ids") -> None:
        """Check that tokens are (tokens,), as many as the lengths add up to.

        Args:
            tokens: The shape of the tokens.
            argument: The argument that has this shape, as the error should call it.

        Raises:
            ValueError: The tokens have another shape.
        """
        expected = sum(self.lengths) + self.tail
        if tuple(tokens) != (expected,):
            raise ValueError(
                f"{argument} should have tokens of shape ({expected},), as the lengths of the "
                f"PackedLayout add up to {expected}, not {tuple(tokens)}."
            )

    def first_tokens(self, hidden_states: Tensor) -> Tensor:
        """Return each first token: `hidden_states` (tokens, hidden) to (batch, hidden)."""
        starts = [0, *accumulate(self.lengths)][:-1]
        return hidden_states[torch.tensor(starts, dtype=torch.long, device=hidden_states.device)]

    def pad(self, hidden_states: Tensor) -> Tensor:
        """Pad sequences with zeros: `hidden_states` (tokens, hidden) to (batch, seq, hidden)."""
        if not self.lengths:
            return hidden_states[None, :0].expand(0, -1, -1)  # (0, 0, hidden)
        rows = hidden_states[: sum(self.lengths)]  # without the tail
        sequences = torch.split(rows, self.lengths)  # (length, hidden) each
        return pad_sequence(list(sequences), batch_first=True)

    def unpad(self, padded: Tensor) -> Tensor:
        """Undo `pad`: `padded` (batch, seq, hidden) to (tokens, hidden), with zeros in the tail."""
        rows = padded[self.token_mask(padded.device)]
        if self.tail == 0:
            return rows
        return torch.cat([rows, rows.new_zeros(self.tail, rows.shape[1])])

    def padding_mask(self, padded: Tensor) -> Tensor | None:
        """Return the mask of `pad(hidden_states)`, True for tokens, (batch, 1, 1, seq)."""
        return self.token_mask(padded.device)[:, None, None, :]

    def token_mask(self, device: torch.device | str | None = None) -> Tensor:
        """Return which places of the padded batch hold a token: bool (batch, seq) on `device`."""
        positions = torch.arange(max(self.lengths, default=0), device=device)  # (seq,)
        lengths = torch.tensor(self.lengths, dtype=torch.long, device=device)  # (batch,)
        return positions < lengths[:, None]


def as_layout(layout: LayoutOrMask, hidden_states: Tensor) -> Layout:
    """Return a layout for hidden states.

    Every part of the encoder calls it, so that each can also be called alone, with a mask.

    Args:
        layout: A layout, which is returned as it is, or an attention mask. None hides nothing.
        hidden_states: (batch, seq, hidden), which a mask has to fit.

    Raises:
        ValueError: A mask that does not fit, or something that is neither.
    """
    if isinstance(layout, (PaddedLayout, PackedLayout)):
        return layout
    if layout is None:
        return UNMASKED
    padded = PaddedLayout(layout)
    padded.check(hidden_states.shape[:-1], "hidden_states")
    return padded


def is_traced(tensor: Tensor) -> bool:
    """Whether a call only records a graph, so that no branch may depend on the values of `tensor`.

    This is the case under `torch.compile`, `torch.export`, `torch.jit.trace` and both exporters to
    ONNX, on the meta device, for fake tensors, and while a CUDA graph is captured.
    """
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        or tensor.is_meta
        or type(tensor) is not Tensor
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def _hides_tokens(attention_mask: Tensor, is_additive: bool) -> bool:
    """Whether a mask hides any token.

    Raises:
        ValueError: The values are not those of a mask.
    """
    if is_additive:
        is_valid = (attention_mask == 0) | (attention_mask <= -1000)
        if not is_valid.all():
            raise ValueError(
                f"attention_mask with four dimensions and {attention_mask.dtype} is added to the "
                "scores, so its values should be 0 (visible) or -1000 and less (hidden). Or pass "
                "torch.bool, True for visible."
            )
        return bool(attention_mask.any())
    if attention_mask.numel() == 0:
        return False
    lowest = attention_mask.min()
    if not lowest >= 0:  # also refuses NaN, which compares as False
        raise ValueError(
            f"attention_mask contains {lowest:g}, but it should be 1 for tokens and 0 for padding."
        )
    return bool(lowest == 0)
