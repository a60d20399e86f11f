"""Batch examples in an order that can be resumed anywhere.

An example is a dict of token ids and labels. Arrays with an entry for each token, (tokens,) or
(tokens, ...), are packed or padded. What an example has once, a number or an array (1, ...), is
stacked to (batch,) or (batch, ...). An example of several texts has their lengths in `lengths`, and
can only be packed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minibert.layouts import PackedLayout
from minibert.losses import IGNORED
from minibert.tasks.task import Batch as Batch, Example as Example

Epochs = Callable[[int], Sequence[Example]]
"""Returns the examples of an epoch by its number, always the same ones."""
T = TypeVar("T")


def length(example: Example) -> int:
    """Number of tokens."""
    return len(example["input_ids"])


def epoch_order(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int, pool: int = 1
) -> list[list[int]]:
    """Return the batches of an epoch as shuffled indices of examples.

    The order depends on the arguments alone. The last batch may be smaller.

    Args:
        lengths: Number of tokens of each example.
        batch_size: Number of examples in a batch.
        seed: Seed of the order.
        epoch: Number of the epoch.
        pool: Number of batches whose examples are sorted by length together, so that those of a
            batch have similar lengths, which is faster. 1 leaves the order random.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    sizes = np.asarray(lengths)[order]
    batches: list[list[int]] = []
    for start in range(0, len(order), pool * batch_size):
        part = order[start : start + pool * batch_size]
        if pool > 1:
            part = part[np.argsort(sizes[start : start + pool * batch_size], kind="stable")]
        batches += [part[i : i + batch_size].tolist() for i in range(0, len(part), batch_size)]
    if pool > 1:
        return [batches[i] for i in rng.permutation(len(batches))]
    return batches


def split_by_tokens(examples: Sequence[Example], max_tokens: int | None) -> list[list[Example]]:
    """Split a batch, sorted by length, into parts for one forward pass each.

    A part has at most `max_tokens` tokens, or a single example.
    """
    parts: list[list[Example]] = []
    tokens = 0
    for example in sorted(examples, key=length):
        tokens += length(example)
        if not parts or (max_tokens is not None and tokens > max_tokens):
            parts.append([])
            tokens = length(example)
        parts[-1].append(example)
    return parts


def text_lengths(example: Example) -> list[int]:
    """Number of tokens of each text."""
    return list(map(int, example.get("lengths", [length(example)])))


def pack(examples: Sequence[Example]) -> Batch:
    """Concatenate examples without padding.

    Every tensor has shape (tokens, ...), or (batch, ...) for what an example has once.
    """
    rows = {name: _entries(np.concatenate([e[name] for e in examples])) for name in _rows(examples)}
    layout = PackedLayout([tokens for example in examples for tokens in text_lengths(example)])
    return {**rows, **_values_per_example(examples), "layout": layout}


def pad(examples: Sequence[Example], pad_token_id: int) -> Batch:
    """Pad examples to the longest.

    Every tensor has shape (batch, seq, ...), or (batch, ...) for what an example has once.
    """
    fill = {"input_ids": pad_token_id, "labels": IGNORED}
    rows = {name: [_entries(e[name]) for e in examples] for name in _rows(examples)}
    rows["attention_mask"] = [torch.ones_like(row) for row in rows["input_ids"]]
    padded = {
        name: pad_sequence(tensors, batch_first=True, padding_value=fill.get(name, 0))
        for name, tensors in rows.items()
    }
    return {**padded, **_values_per_example(examples)}


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the tensors of a batch to a device."""
    moved = {}
    for name, value in batch.items():
        if isinstance(value, Tensor):
            value = value.to(device)
        moved[name] = value
    return moved


def _entries(values: Any) -> Tensor:
    """The entries of tokens, as ids in 64 bits or as float32."""
    entries = torch.as_tensor(values)
    return entries.float() if entries.is_floating_point() else entries.long()


def _is_per_example(value: Any) -> bool:
    return np.ndim(value) == 0 or (np.ndim(value) > 1 and len(value) == 1)


def _rows(examples: Sequence[Example]) -> list[str]:
    return [
        name
        for name, value in examples[0].items()
        if name != "lengths" and not _is_per_example(value)
    ]


def _values_per_example(examples: Sequence[Example]) -> dict[str, Tensor]:
    """Stack numbers to (batch,), and arrays (1, ...) to (batch, ...)."""
    stacked = {}
    for name, value in examples[0].items():
        values = [example[name] for example in examples]
        if np.ndim(value) == 0:
            stacked[name] = torch.tensor(values)
        elif _is_per_example(value):
            stacked[name] = _entries(np.concatenate(values))
    return stacked
