"""Rows of tokens: how texts are laid out and cut for the model, and on request where each token came from.

```
one text     [CLS] a a a [SEP] [PAD]        type ids 0 0 0 0 0 0
two texts    [CLS] a a [SEP] b b [SEP]      type ids 0 0 0 0 1 1 1
```
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

T = TypeVar("T")
Piece = tuple[int, tuple[slice, ...]]  # a row: the number of its sample, and what it holds of each of its texts


def columns_of(text: Any, text_pair: Any, words: bool) -> tuple[list[Any], bool]:
    """The first texts and, if there are any, the second ones; and whether they came as a batch."""

    def is_list(value: Any) -> bool:
        return isinstance(value, list | tuple)

    def is_text(value: Any) -> bool:
        return is_list(value) and all(isinstance(word, str) for word in value) if words else isinstance(value, str)

    batched = not is_text(text)
    columns = [text] if text_pair is None else [text, text_pair]
    if not batched:
        columns = [[value] for value in columns]
    elif is_list(text) and text and all(is_list(pair) and len(pair) == 2 and not is_text(pair) for pair in text):
        columns = [list(column) for column in zip(*text, strict=True)]
    kind = "a list of words" if words else "a str"
    for name, column in zip(("text", "text_pair"), columns, strict=False):
        if not is_list(column):
            raise ValueError(f"{name} is a {type(column).__name__}; pass {kind}, or a list of such texts.")
        if words or set(map(type, column)) != {str}:
            for number, value in enumerate(column):
                if not is_text(value):
                    place = f"{name}[{number}]" if batched else name
                    raise ValueError(f"{place} is a {type(value).__name__} ({value!r:.60}), not {kind}.")
    if len(columns[0]) != len(columns[-1]):
        raise ValueError(f"There are {len(columns[0])} texts, but {len(columns[-1])} in text_pair.")
    return [list(column) for column in columns], batched  # the caller may change its lists later


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keeps Python's cycle collector from walking the rows again and again while they are made (2/3 of the time)."""
    paused = gc.isenabled()
    if paused:
        gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def assemble(parts: Iterable[Sequence[T]], begin: Sequence[T], end: Sequence[T]) -> list[T]:
    """A row: `begin`, then every part with `end` after it; ["aa", "bb"], "<", ">" make < a a > b b >."""
    row = [*begin]
    for part in parts:
        row += part
        row += end
    return row


def type_ids(parts: Sequence[Sequence[Any]], special: int) -> list[int]:
    """The token types of such a row, `begin` and `end` being `special` tokens each: 0 0 0 0 1 1 1."""
    types = [0] * special
    for number, part in enumerate(parts):
        types += [number] * (len(part) + special)
    return types


def pad_rows(rows: list[list[T]], value: T, width: int, side: str) -> list[list[T]]:
    """Fills rows up to `width`; longer ones stay as they are."""
    if side == "left":
        return [[value] * (width - len(row)) + row for row in rows]
    return [row + [value] * (width - len(row)) for row in rows] if width else rows


def cut(
    lengths: Sequence[Sequence[int]], room: int, strategy: str, stride: int, side: str, overflow: bool
) -> list[Piece]:
    """What of its texts each row holds, when a row has room for `room` tokens besides the special ones.

    Args:
        lengths: for the first and second texts, the number of tokens of every sample.
        room: how many of them a row takes.
        strategy: "longest_first", "only_first" or "only_second".
        stride: tokens that a row repeats from the row before.
        side: which side is cut off, "right" or "left".
        overflow: give what is cut off rows of its own, after the sample's first row.

    Raises:
        ValueError: a text that cannot be cut that far, or a `stride` that leaves no progress.
    """
    rows: list[Piece] = []
    for sample, of_sample in enumerate(zip(*lengths, strict=True)):
        kept = _kept(of_sample, room, strategy, sample)
        windows = [_windows(length, keep, stride, side) for length, keep in zip(of_sample, kept, strict=True)]
        rows.append((sample, tuple(window[0] for window in windows)))
        if overflow and len(windows) == 1:
            rows += [(sample, (window,)) for window in windows[0][1:]]
        elif overflow:  # every combination, in the order of the tokenizers library
            firsts, seconds = windows
            rows += [(sample, (first, second)) for first in firsts[1:] for second in seconds]
            rows += [(sample, (firsts[0], second)) for second in seconds[1:]]
    return rows


def _kept(lengths: Sequence[int], room: int, strategy: str, sample: int) -> Sequence[int]:
    """How many tokens of each text stay."""
    excess = sum(lengths) - room
    if excess <= 0:
        return lengths
    if room == 0:
        return [0] * len(lengths)
    if strategy == "longest_first":  # of two texts the shorter keeps up to half of the room
        if len(lengths) == 1:
            return [room]
        short = min(*lengths, room // 2)
        return (short, room - short) if lengths[0] <= lengths[1] else (room - short, short)
    which = 0 if strategy == "only_first" else 1
    if which == len(lengths):
        raise ValueError(f"truncation='only_second', but text {sample} is too long and has no second text.")
    if lengths[which] <= excess:
        raise ValueError(
            f"truncation={strategy!r} has to take {excess} tokens from text {sample}, which has {lengths[which]}; "
            "pass a larger max_length or truncation='longest_first'."
        )
    return [length - excess if number == which else length for number, length in enumerate(lengths)]


def _windows(length: int, kept: int, stride: int, side: str) -> list[slice]:
    """The windows of `kept` tokens that cover a text; each repeats `stride` tokens of the one before."""
    if length <= kept:
        return [slice(0, length)]
    if kept == 0:
        return [slice(0, 0), slice(0, length)]
    if not 0 <= stride < kept:
        raise ValueError(f"stride is {stride}, but has to be from 0 to less than the {kept} tokens that a row takes.")
    starts = range(0, length - stride, kept - stride)
    if side == "right":
        return [slice(start, min(start + kept, length)) for start in starts]
    return [slice(max(length - start - kept, 0), length - start) for start in starts]


class CharSpan(NamedTuple):
    """A place in a text, `[start, end)` in characters."""

    start: int
    end: int


@dataclass(frozen=True)
class Encoding:
    """One row of a batch, token by token; all lists are (seq).

    Args:
        ids: token ids.
        type_ids: 0 in the first text, 1 in the second.
        tokens: the tokens as strings.
        offsets: where each lies in its text, `[start, end)` in characters; (0, 0) for what was added to the text.
        word_ids: number of its word in the text; None for what was added.
        sequence_ids: 0 or 1 for the text that it lies in; None for what was added.
        special_tokens_mask: 1 for what was added.
        attention_mask: 0 for padding.
    """

    ids: list[int]
    type_ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]
    sequence_ids: list[int | None]
    special_tokens_mask: list[int]
    attention_mask: list[int]


class BatchEncoding(dict[str, Any]):
    """Rows for the model, `model(**batch)`: lists, or tensors of shape (batch, seq).

    A dict whose values are attributes too (`batch.input_ids`). `batch[0]` and the methods that take a row number
    tell where tokens came from, which is worked out when first asked for.
    """

    def __init__(self, data: dict[str, Any], encodings: Callable[[], list[Encoding]] | list[Encoding] | None = None):
        super().__init__(data)
        self._encodings = encodings

    def __getitem__(self, key: Any) -> Any:
        return self.encodings[key] if isinstance(key, int | slice) else super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"This batch has no {name!r}, only {', '.join(self)}.")

    def __reduce__(self) -> tuple[Any, ...]:
        # what is not worked out yet would take the tokenizer along
        return BatchEncoding, (dict(self), self._encodings if isinstance(self._encodings, list) else None)

    @property
    def encodings(self) -> list[Encoding]:
        """Every row, token by token."""
        if callable(self._encodings):
            self._encodings = self._encodings()
        if self._encodings is None:
            raise ValueError("This batch came from pad() or a pickle and knows its texts no more; ask the original.")
        return self._encodings

    def tokens(self, row: int = 0) -> list[str]:
        """The tokens of a row as strings."""
        return self.encodings[row].tokens

    def word_ids(self, row: int = 0) -> list[int | None]:
        """For each token of a row the number of its word in the text; None for what was added to the text."""
        return self.encodings[row].word_ids

    def sequence_ids(self, row: int = 0) -> list[int | None]:
        """For each token of a row 0 or 1 for the text that it lies in; None for what was added to the text."""
        return self.encodings[row].sequence_ids

    def token_to_chars(self, row_or_token: int, token: int | None = None) -> CharSpan | None:
        """Where a token lies in its text, `[start, end)`; None if added. Called with (row, token) or (token)."""
        row, token = (0, row_or_token) if token is None else (row_or_token, token)
        encoding = self.encodings[row]
        return None if encoding.sequence_ids[token] is None else CharSpan(*encoding.offsets[token])

    def char_to_token(self, row_or_char: int, char: int | None = None, sequence_index: int = 0) -> int | None:
        """The token at a character of text 0 or 1, None where there is none. Called with (row, char) or (char)."""
        row, char = (0, row_or_char) if char is None else (row_or_char, char)
        encoding = self.encodings[row]
        for token, (start, end) in enumerate(encoding.offsets):
            if start <= char < end and encoding.sequence_ids[token] == sequence_index:
                return token
        return None

    def to(self, device: Any, *, non_blocking: bool = False) -> BatchEncoding:
        """Moves the tensors to `device`, in place; returns this batch."""
        for name, value in self.items():
            if isinstance(value, torch.Tensor):
                self[name] = value.to(device, non_blocking=non_blocking)
        return self

    def convert_to_tensors(self, tensor_type: str | None = None) -> BatchEncoding:
        """Makes tensors ("pt") or arrays ("np") of the lists, in place; returns this batch.

        Raises:
            ValueError: rows of different lengths, what is no number, or another `tensor_type`.
        """
        if tensor_type not in ("pt", "np", None):
            raise ValueError(f"return_tensors is {tensor_type!r}; it can be 'pt' (PyTorch), 'np' (NumPy) or None.")
        for name, value in self.items():
            if tensor_type and isinstance(value, list):
                array = _array(name, value)
                self[name] = array if tensor_type == "np" else torch.from_numpy(array)
        return self


def _array(name: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Numbers or rows of numbers as an array, whole numbers as int64; (0, 0) when there are no rows at all."""
    lengths = {len(value) for value in values if isinstance(value, list)}
    if len(lengths) > 1:
        raise ValueError(
            f"The rows of {name} have {min(lengths)} to {max(lengths)} tokens and make no tensor; "
            "pass padding=True (and truncation=True to bound their length)."
        )
    array = np.asarray(values)
    if array.size == 0:
        flat = name in ("length", "overflow_to_sample_mapping")
        return np.zeros(array.shape if values or flat else (0, 0), dtype=np.int64)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds {values[0]!r}, which makes no tensor; take it out of the batch first.")
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64, copy=False)
