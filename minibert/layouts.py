"""Layouts: where sequences begin and end inside a tensor of tokens.

Devlin et al. 2019 do not discuss this. It is about batches: sequences of different lengths have to
share one tensor.

Every token is a vector of `hidden` numbers. Most of BERT works on one token at a time. Three parts
have to know which tokens belong together, and ask a layout: the embeddings for the position of a
token, attention for the tokens that it may look at, and the pooler for the first one. There are two
layouts, here for the sequences "[CLS] a b [SEP]" and "[CLS] c [SEP]":

    PaddedLayout(attention_mask)   (batch, seq, hidden)   [CLS] a b [SEP]     mask 1 1 1 1
                                   here (2, 4, hidden)    [CLS] c [SEP] [PAD]      1 1 1 0

    PackedLayout([4, 3])           (tokens, hidden)       [CLS] a b [SEP] [CLS] c [SEP]
                                   here (7, hidden)

Both have these methods, and code that uses no others is correct for both:

    split, merge     into blocks of equally long sequences, and back
    position_ids     0, 1, 2, ... in every sequence
    first_tokens     the [CLS] states, (batch, hidden)
    pad, unpad       to (batch, seq, hidden), and back
    additive_mask    what to add to the scores of attention after `pad`: 0, or a huge negative
                     number to hide a token

The last three are for modules of a user's own, which get a padded batch. BERT itself never pads a
packed one.

In attention every token looks at others: as a query it looks, as a key it is looked at. The `mask`
of a layout is True where a query may attend to a key. Its shape broadcasts to
(batch, heads, queries, keys), and both of the last are seq long. It is None if nothing is hidden.

Next file: embeddings.py.
"""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import ClassVar, Union

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minibert import inputs

Layout = Union["PaddedLayout", "PackedLayout"]


class PaddedLayout:
    """Sequences of one length, `(batch, seq, hidden)`, with a mask that hides the padding.

    Args:
        attention_mask: Nonzero where a token may be attended to. Shape (batch, seq) hides keys such
            as [PAD], shapes (batch, seq, seq) and (batch, 1 or heads, seq, seq) hide keys from
            single queries. A floating-point mask with four dimensions is additive: 0 is visible,
            -1000 or less is hidden. That is as in transformers (exp(-1000) is 0 in softmax), unless
            all keys of a query are hidden (see `sdpa_attention`). None hides nothing.

    Raises:
        ValueError: The mask is not a tensor, has another number of dimensions, or has values that
            are not those of a mask.
    """

    is_packed: ClassVar[bool] = False

    def __init__(self, attention_mask: Tensor | None = None) -> None:
        self.mask: Tensor | None = None
        self.dtype: torch.dtype | None = None  # of the hidden states, see `typed`
        self._mask_shape: tuple[int, ...] = ()  # for `check`, also if the mask is left out
        if attention_mask is None:
            return
        inputs.check_mask(attention_mask)
        self._mask_shape = tuple(attention_mask.shape)
        is_additive = attention_mask.dim() == 4 and attention_mask.is_floating_point()
        # A mask that hides nothing is left out: the results are the same, and the kernel of
        # `sdpa_attention` is faster. Reading its values waits for a GPU, once for a batch. They
        # cannot be read while a tool such as torch.compile only records the operations.
        if inputs.is_traced(attention_mask) or inputs.hides_tokens(attention_mask, is_additive):
            visible = attention_mask == 0 if is_additive else attention_mask.bool()
            while visible.dim() < 4:  # to (batch, 1, 1, seq), or (batch, 1, seq, seq)
                visible = visible.unsqueeze(1)
            self.mask = visible

    def check(self, tokens: torch.Size, argument: str = "input_ids") -> None:
        """Check that tokens are (batch, seq), and that the mask broadcasts to that shape.

        Args:
            tokens: The shape of the tokens.
            argument: The argument that has this shape, as the error should call it.

        Raises:
            ValueError: The tokens have another number of dimensions, or do not fit the mask.
        """
        inputs.check_padded(tokens, self._mask_shape, argument)

    def typed(self, hidden_states: Tensor) -> "PaddedLayout":
        """Return this layout with the dtype in which `eager_attention` adds the mask.

        It is that of the hidden states. Under autocast, queries have a smaller one, in which the
        scores would be rounded once more.
        """
        if self.mask is None or self.dtype is not None or not inputs.is_autocast(hidden_states):
            return self
        layout = PaddedLayout()
        layout.mask, layout._mask_shape = self.mask, self._mask_shape
        layout.dtype = hidden_states.dtype
        return layout

    def split(self, x: Tensor) -> list[Tensor]:
        """Return blocks of equally long sequences: here one, the whole batch, (batch, seq, ...)."""
        return [x]

    def merge(self, blocks: list[Tensor]) -> Tensor:
        """Undo `split`."""
        (x,) = blocks
        return x

    def position_ids(
        self, device: torch.device | str | None = None, *, tokens: Sequence[int]
    ) -> Tensor:
        """Return 0, 1, 2, ... for tokens of shape `tokens`, (batch, seq): (1, seq) on `device`.

        The row is that of every sequence.
        """
        positions = torch.arange(tokens[-1], device=device)
        # Embeddings called alone also take a single sequence, (seq,).
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

    def additive_mask(self, padded: Tensor) -> Tensor | None:
        """Return what to add to the scores of `pad(hidden_states)`. None: nothing is hidden."""
        return None if self.mask is None else additive(self.mask, padded)


UNMASKED = PaddedLayout()
"""The layout of a padded batch in which every token attends to every other."""


class PackedLayout:
    """Sequences one after another, `(tokens, hidden)`: no padding, so no wasted work and no mask.

    Attention computes neighbors of equal length in one block, so sorting by length makes few and
    large blocks.

    Args:
        lengths: Tokens of each sequence, in order, each at least 1.
        tail: Number of rows behind the last sequence that belong to no sequence. They round the
            size up to one for which matrix products are fast. No token attends to them, and their
            own context is 0.
        mask: That of a `PaddedLayout` whose batch is in rows now, padding included. All sequences
            have one length then. None: nothing is hidden within a sequence.

    Raises:
        ValueError: A length is below 1.
    """

    is_packed: ClassVar[bool] = True
    dtype: ClassVar[None] = None  # as that of a `PaddedLayout`, but nothing is hidden

    def __init__(self, lengths: Sequence[int], tail: int = 0, mask: Tensor | None = None) -> None:
        self.lengths = list(lengths)
        self.tail = tail
        self.mask = mask
        inputs.check_lengths(self.lengths)
        # Pairs of a length and the number of consecutive sequences that have it.
        self.runs = [(length, len(list(run))) for length, run in groupby(self.lengths)]
        if not self.runs:
            self.runs = [(0, 0)]  # without sequences, `merge` still needs one block, an empty one

    def split(self, x: Tensor) -> list[Tensor]:
        """Return one block (count, length, ...) for each run of `count` equally long sequences.

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
        """Undo `split`: (count, length, ...) each to (tokens, ...), with zeros in the tail."""
        rows = [block.flatten(0, 1) for block in blocks]
        if self.tail:
            rows.append(rows[0].new_zeros(self.tail, *rows[0].shape[1:]))
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    def position_ids(
        self, device: torch.device | str | None = None, *, tokens: Sequence[int] = ()
    ) -> Tensor:
        """Return the position of each token in its sequence, (tokens,): 0, 1, 2, ... on `device`.

        Rows of the tail have position 0. `tokens` is that of a `PaddedLayout`, and not needed here.
        """
        runs = []
        for length, count in self.runs:
            positions = torch.arange(length, device=device)
            runs.append(positions if count == 1 else positions.repeat(count))
        if self.tail:
            runs.append(torch.zeros(self.tail, dtype=torch.long, device=device))
        return runs[0] if len(runs) == 1 else torch.cat(runs)  # (tokens,)

    def check(self, tokens: torch.Size, argument: str = "input_ids") -> None:
        """Check that tokens are (tokens,), as many as the lengths add up to.

        Args:
            tokens: The shape of the tokens.
            argument: The argument that has this shape, as the error should call it.

        Raises:
            ValueError: The tokens have another shape.
        """
        inputs.check_packed(tokens, sum(self.lengths) + self.tail, argument)

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
        rows = padded[self.token_mask(padded.device)]  # (tokens without the tail, hidden)
        return self.merge([rows[None]])

    def additive_mask(self, padded: Tensor) -> Tensor | None:
        """Return what to add to the scores of `pad(hidden_states)`, (batch, 1, 1, seq)."""
        return additive(self.token_mask(padded.device)[:, None, None, :], padded)

    def token_mask(self, device: torch.device | str | None = None) -> Tensor:
        """Return which places of the padded batch hold a token: bool (batch, seq) on `device`."""
        positions = torch.arange(max(self.lengths, default=0), device=device)  # (seq,)
        lengths = torch.tensor(self.lengths, dtype=torch.long, device=device)  # (batch,)
        return positions < lengths[:, None]


def additive(mask: Tensor, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return 0 where a mask is True, and elsewhere the lowest finite number of the dtype of `like`.

    It is not -inf, so that the softmax of a row that is hidden completely does not become NaN. In
    float16 it still does where all scores of such a row are -16 or less, as in transformers:
    their sum with the lowest number, -65504, is -inf.

    Args:
        mask: True where a key is visible, (batch, 1 or heads, 1 or seq, seq).
        like: The tensor that it is added to, or one of its dtype and device.
        dtype: Another dtype, such as that of `PaddedLayout.dtype`.
    """
    dtype = dtype or like.dtype
    offsets = torch.zeros(mask.shape, dtype=dtype, device=like.device)
    return offsets.masked_fill(~mask, torch.finfo(dtype).min)
