"""Layouts: where sequences begin and end inside a tensor of tokens.

Everything in BERT but attention works on one token at a time, so only attention has to know which tokens belong
together. It asks a layout, which cuts queries, keys and values into blocks of equally long sequences and puts the
contexts back; its `mask` is True where a query may look at a key, broadcastable to (batch, heads, seq, seq), or None
where it may look at all of them. There are two:

    PaddedLayout     (batch, seq, hidden)   every sequence filled up to the longest with [PAD]
    PackedLayout     (tokens, hidden)       sequences one after the other, no [PAD] at all
"""

from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Union

import torch
from torch import Tensor

from minibert.compat.tracing import is_traced

Block = tuple[Tensor, Tensor, Tensor]
Layout = Union["PaddedLayout", "PackedLayout"]


class PaddedLayout:
    """Sequences of one length, `(batch, seq, hidden)`, with a mask that hides the padding.

    Args:
        attention_mask: what may be attended to, nonzero for yes: (batch, seq) hides keys such as [PAD], (batch, seq,
            seq) and (batch, 1 or heads, seq, seq) say it for each query on its own. None: everything. With floating
            point and four dimensions it is what the reference adds to the scores: 0 for yes, -1000 or less for no.

    Raises:
        ValueError: a mask with another number of dimensions or negative numbers, or one to be added that hides in part.
    """

    def __init__(self, attention_mask: Tensor | None = None) -> None:
        self.mask: Tensor | None = None
        self._shape: tuple[int, ...] = ()
        if attention_mask is None:
            return
        if not isinstance(attention_mask, Tensor):
            raise ValueError(
                f"attention_mask should be a tensor, not {type(attention_mask).__name__}."
            )
        self._shape = tuple(attention_mask.shape)
        if len(self._shape) not in (2, 3, 4):
            raise ValueError(
                f"attention_mask should be (batch, seq) or (batch, seq, seq), not {self._shape}."
            )
        is_added = attention_mask.dim() == 4 and attention_mask.is_floating_point()
        # a mask that hides nothing is no mask: the same numbers, and a faster kernel
        if is_traced(attention_mask) or _hides(attention_mask, is_added):
            visible = attention_mask == 0 if is_added else attention_mask.bool()
            between = (slice(None),) + (None,) * (4 - visible.dim())
            self.mask = visible[between]  # (batch, 1, 1, seq), (batch, 1, seq, seq) or as it is

    def check(self, tokens: torch.Size) -> None:
        """Tokens are (batch, seq), and the mask is of that size or broadcasts to it."""
        if len(tokens) != 2:
            raise ValueError(
                f"input_ids should be (batch, seq), not {tuple(tokens)}: one sequence is a batch of one."
            )
        if tokens[1] == 0:
            raise ValueError(
                f"input_ids should have a token or more in each sequence, not shape {tuple(tokens)}."
            )
        if self._shape:
            batch, *queries, keys = self._shape
            if (
                batch not in (1, tokens[0])
                or keys != tokens[1]
                or any(n not in (1, keys) for n in queries[-1:])
            ):
                raise ValueError(
                    f"attention_mask is for {self._shape} tokens, but input_ids are {tuple(tokens)}."
                )

    def blocks(self, query: Tensor, key: Tensor, value: Tensor) -> list[Block]:
        """One block, the whole batch, each tensor (batch, heads, seq, head_size)."""
        return [(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))]

    def join(self, contexts: list[Tensor]) -> Tensor:
        """(batch, heads, seq, head_size) to (batch, seq, hidden)."""
        (context,) = contexts
        return context.transpose(1, 2).flatten(-2)

    def first_tokens(self, hidden_states: Tensor) -> Tensor:
        """(batch, seq, hidden) to (batch, hidden)."""
        return hidden_states[:, 0]


UNMASKED = PaddedLayout()
"""The layout of a padded batch in which every token sees every other."""


class PackedLayout:
    """Sequences one after the other, `(tokens, hidden)`: no padding, so no wasted work and no mask.

    Neighbours of equal length are attended to together, so sorting by length makes few, large blocks.

    Args:
        lengths: tokens of each sequence, in order; each at least 1.
        tail: rows behind the last sequence that belong to none: nothing looks at them, and their context is 0.

    Raises:
        ValueError: a length below 1.
    """

    def __init__(self, lengths: Sequence[int], tail: int = 0) -> None:
        self.lengths, self.tail = list(lengths), tail
        if any(length < 1 for length in self.lengths):
            raise ValueError(f"PackedLayout lengths should be 1 or more, not {min(self.lengths)}.")
        self.mask: Tensor | None = None
        # (length, how many sequences of it follow each other)
        self.runs = [(length, len(list(run))) for length, run in groupby(self.lengths)] or [(0, 0)]

    def position_ids(self, device: torch.device | str | None = None) -> Tensor:
        """0, 1, 2, ... from the start of each sequence: (tokens,)."""
        return torch.cat(
            [torch.arange(length, device=device).repeat(count) for length, count in self.runs]
        )

    def check(self, tokens: torch.Size) -> None:
        """Tokens are (tokens,), as many as the lengths add up to."""
        if tuple(tokens) != (sum(self.lengths) + self.tail,):
            raise ValueError(
                f"PackedLayout lengths add up to {sum(self.lengths)}, but tokens are {tuple(tokens)}."
            )

    def blocks(self, query: Tensor, key: Tensor, value: Tensor) -> list[Block]:
        """One block for each run of equally long sequences, (run, heads, length, head_size)."""
        sizes = [length * count for length, count in self.runs]

        def cut(x: Tensor) -> list[Tensor]:
            parts = x.split_with_sizes([*sizes, self.tail]) if len(sizes) > 1 or self.tail else [x]
            runs = zip(parts, self.runs, strict=False)  # of which the tail is none
            return [
                part.view(count, length, *x.shape[1:]).transpose(1, 2)
                for part, (length, count) in runs
            ]

        return list(zip(cut(query), cut(key), cut(value), strict=True))

    def join(self, contexts: list[Tensor]) -> Tensor:
        """(run, heads, length, head_size) each to (tokens, hidden)."""
        rows = [context.transpose(1, 2).flatten(-2).flatten(0, 1) for context in contexts]
        if self.tail:
            rows.append(rows[0].new_zeros(self.tail, rows[0].shape[1]))
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    def first_tokens(self, hidden_states: Tensor) -> Tensor:
        """(tokens, hidden) to (batch, hidden)."""
        *starts, _ = accumulate(self.lengths, initial=0)
        return hidden_states[torch.tensor(starts, dtype=torch.long, device=hidden_states.device)]


def _hides(attention_mask: Tensor, is_added: bool) -> bool:
    """Whether a mask hides anything at all; ValueError where its numbers are not those of a mask."""
    if is_added:
        if not ((attention_mask == 0) | (attention_mask <= -1000)).all():
            raise ValueError(
                f"attention_mask of 4 dimensions and {attention_mask.dtype} is added to the scores: it should be 0 "
                "or -1000 and less, or boolean with True where a token may be looked at."
            )
        return bool(attention_mask.any())
    lowest = attention_mask.min() if attention_mask.numel() else 1
    if not lowest >= 0:  # NaN compares as False
        raise ValueError(
            f"attention_mask should hold 1 for tokens and 0 for padding, not {lowest:g}."
        )
    return bool(lowest == 0)
