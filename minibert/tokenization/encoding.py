"""The tokenizer's results: rows for the model, and on request where each token came from.

torch is imported where tensors are asked for, and not before: `minibert tokenize` answers sooner without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Span(NamedTuple):
    """A place in a text, `[start, end)` in characters, or in a row, in tokens."""

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

    A dict whose values are also attributes (`batch.input_ids`). `batch[0]` and the methods that take a row number
    tell where tokens came from, which is worked out when first asked for.

    >>> BatchEncoding({"input_ids": [[101, 2293, 102]]}).convert_to_tensors("pt").input_ids.shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        data: dict[str, Any],
        encodings: Callable[[], list[Encoding]] | list[Encoding] | None = None,
    ):
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
        return BatchEncoding, (
            dict(self),
            self._encodings if isinstance(self._encodings, list) else None,
        )

    @property
    def encodings(self) -> list[Encoding]:
        """Every row, token by token."""
        if callable(self._encodings):
            self._encodings = self._encodings()
        if self._encodings is None:
            raise ValueError(
                "A batch from pad() or a pickle has no token origins; query the original batch."
            )
        return self._encodings

    @property
    def data(self) -> dict[str, Any]:
        """The rows by name; this batch itself."""
        return self

    @property
    def is_fast(self) -> bool:
        """Whether it is known where tokens came from."""
        return self._encodings is not None

    @property
    def n_sequences(self) -> int | None:
        """1 for texts, 2 for pairs of texts; None where that is not known."""
        if not self.is_fast or not self.encodings:
            return None
        return 1 + max([number or 0 for number in self.encodings[0].sequence_ids], default=0)

    def tokens(self, row: int = 0) -> list[str]:
        """The tokens of a row as strings."""
        return self.encodings[row].tokens

    def word_ids(self, row: int = 0) -> list[int | None]:
        """For each token of a row the number of its word in the text; None for what was added to the text."""
        return self.encodings[row].word_ids

    def sequence_ids(self, row: int = 0) -> list[int | None]:
        """For each token of a row 0 or 1 for the text that it lies in; None for what was added to the text."""
        return self.encodings[row].sequence_ids

    # Each of the following can be called without the row's number when it is 0, as (token), (word) or (char).

    def _row_and(self, row_or_place: int, place: int | None) -> tuple[Encoding, int]:
        return (
            (self.encodings[0], row_or_place)
            if place is None
            else (self.encodings[row_or_place], place)
        )

    def token_to_sequence(self, row_or_token: int, token: int | None = None) -> int | None:
        """0 or 1 for the text that a token lies in; None if it was added."""
        row, token = self._row_and(row_or_token, token)
        return row.sequence_ids[token]

    def token_to_word(self, row_or_token: int, token: int | None = None) -> int | None:
        """The number of a token's word in its text; None if it was added."""
        row, token = self._row_and(row_or_token, token)
        return row.word_ids[token]

    def token_to_chars(self, row_or_token: int, token: int | None = None) -> Span | None:
        """Where a token lies in its text, `[start, end)`; None if it was added."""
        row, token = self._row_and(row_or_token, token)
        return None if row.sequence_ids[token] is None else Span(*row.offsets[token])

    def word_to_tokens(
        self, row_or_word: int, word: int | None = None, sequence_index: int = 0
    ) -> Span | None:
        """The tokens of a word of text 0 or 1, `[start, end)`; None where it has none."""
        row, word = self._row_and(row_or_word, word)
        places = zip(row.word_ids, row.sequence_ids, strict=True)
        found = [token for token, place in enumerate(places) if place == (word, sequence_index)]
        return Span(found[0], found[-1] + 1) if found else None

    def word_to_chars(
        self, row_or_word: int, word: int | None = None, sequence_index: int = 0
    ) -> Span | None:
        """Where a word lies in text 0 or 1, `[start, end)`; None where it has no token."""
        span = self.word_to_tokens(row_or_word, word, sequence_index)
        offsets = self._row_and(row_or_word, word)[0].offsets
        return Span(offsets[span.start][0], offsets[span.end - 1][1]) if span else None

    def char_to_token(
        self, row_or_char: int, char: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """The token at a character of text 0 or 1; None where there is none."""
        row, char = self._row_and(row_or_char, char)
        for token, (start, end) in enumerate(row.offsets):
            if start <= char < end and row.sequence_ids[token] == sequence_index:
                return token
        return None

    def char_to_word(
        self, row_or_char: int, char: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """The number of the word at a character of text 0 or 1; None where there is none."""
        token = self.char_to_token(row_or_char, char, sequence_index)
        return None if token is None else self._row_and(row_or_char, char)[0].word_ids[token]

    def to(self, device: Any, *, non_blocking: bool = False) -> BatchEncoding:
        """Moves the tensors to `device`, in place; returns this batch."""
        import torch

        for name, value in self.items():
            if isinstance(value, torch.Tensor):
                self[name] = value.to(device, non_blocking=non_blocking)
        return self

    def convert_to_tensors(
        self, tensor_type: str | None = None, prepend_batch_axis: bool = False
    ) -> BatchEncoding:
        """Makes tensors ("pt") or arrays ("np") of the lists, in place; returns this batch.

        Args:
            tensor_type: "pt", "np", or None for lists.
            prepend_batch_axis: make a batch of a single row.

        Raises:
            ValueError: rows of different lengths, what is not a number, or another `tensor_type`.
        """
        if tensor_type not in ("pt", "np", None):
            raise ValueError(
                f"return_tensors is {tensor_type!r}; it can be 'pt' (PyTorch), 'np' (NumPy) or None."
            )
        make: Callable[[Any], Any] = np.asarray
        if tensor_type == "pt":
            from torch import from_numpy as make
        for name, value in self.items():
            if tensor_type and isinstance(value, list):
                self[name] = make(_array(name, [value] if prepend_batch_axis else value))
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
        raise ValueError(
            f"{name} holds {values[0]!r}, which makes no tensor; take it out of the batch first."
        )
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64, copy=False)
