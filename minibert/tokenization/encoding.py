"""The results of the tokenizer: rows for the model, and on request the origin of each token.

torch is imported only where tensors are requested, so that `minibert tokenize` starts without it.

Next file: tokenizer_json.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minibert.util.checks import warn
from minibert.util.errors import ArgumentError


class Span(NamedTuple):
    """A part of a text in characters, or of a row in tokens: `[start, end)`."""

    start: int
    end: int


@dataclass(frozen=True)
class Encoding:
    """One row of a batch, token by token. All lists are (seq).

    >>> row = Encoding([2, 5, 3], [0] * 3, ["[CLS]", "hello", "[SEP]"], [(0, 0), (0, 5), (0, 0)],
    ...                [None, 0, None], [None, 0, None], [1, 0, 1], [1] * 3)
    >>> row.char_to_token(4), row.token_to_chars(1), row.word_to_tokens(0), len(row)
    (1, Span(start=0, end=5), Span(start=1, end=2), 3)

    Args:
        ids: Token ids.
        type_ids: 0 in the first text, 1 in the second.
        tokens: The tokens as strings.
        offsets: Span of each token in its text, `[start, end)` in characters. (0, 0) for special
            tokens and padding.
        word_ids: Index of the word in its text, or None for special tokens and padding.
        sequence_ids: 0 or 1 for the text of the token, or None for special tokens and padding.
        special_tokens_mask: 1 for special tokens and padding.
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

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def words(self) -> list[int | None]:
        """The same as `word_ids`."""
        return self.word_ids

    @property
    def n_sequences(self) -> int:
        """1 for a text, 2 for a pair of texts."""
        return 1 + max([number or 0 for number in self.sequence_ids], default=0)

    def token_to_sequence(self, token_index: int) -> int | None:
        """Return 0 or 1 for the text of a token, or None for a special token."""
        return self.sequence_ids[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        """Return the index of the word of a token, or None for a special token."""
        return self.word_ids[token_index]

    def token_to_chars(self, token_index: int) -> Span | None:
        """Return the span of a token in its text, or None for a special token."""
        if self.sequence_ids[token_index] is None:
            return None
        return Span(*self.offsets[token_index])

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Span | None:
        """Return the tokens of a word of text 0 or 1, or None if it has none."""
        places = zip(self.word_ids, self.sequence_ids, strict=True)
        tokens = [
            token for token, place in enumerate(places) if place == (word_index, sequence_index)
        ]
        if not tokens:
            return None
        return Span(tokens[0], tokens[-1] + 1)

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> Span | None:
        """Return the span of a word in text 0 or 1, or None if it has no token."""
        span = self.word_to_tokens(word_index, sequence_index)
        if span is None:
            return None
        return Span(self.offsets[span.start][0], self.offsets[span.end - 1][1])

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the token at a character of text 0 or 1, or None if there is none."""
        for token, (start, end) in enumerate(self.offsets):
            if start <= char_pos < end and self.sequence_ids[token] == sequence_index:
                return token
        return None

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the index of the word at a character of text 0 or 1, or None if there is none."""
        token = self.char_to_token(char_pos, sequence_index)
        if token is None:
            return None
        return self.word_ids[token]


class BatchEncoding(dict[str, Any]):
    """Rows for the model, `model(**batch)`: lists, or tensors of shape (batch, seq).

    A dict whose values are also attributes (`batch.input_ids`). `batch[0]` and the methods that
    take the index of a row return where tokens came from. That is computed on first use.

    >>> BatchEncoding({"input_ids": [[101, 2293, 102]]}).convert_to_tensors("pt").input_ids.shape
    torch.Size([1, 3])

    Args:
        data: The rows by name.
        encoding: Each row token by token, or a function that returns that, or None if unknown.
            A single `Encoding` is a batch of one.
        tensor_type: As for `convert_to_tensors`.
        prepend_batch_axis: As for `convert_to_tensors`.
        n_sequences: 1 for texts, 2 for pairs of texts, where the encodings are unknown.
    """

    def __init__(
        self,
        data: dict[str, Any] | None = None,
        encoding: Callable[[], list[Encoding]] | list[Encoding] | Encoding | None = None,
        tensor_type: str | None = None,
        prepend_batch_axis: bool = False,
        n_sequences: int | None = None,
    ):
        super().__init__(data or {})
        self._encodings = [encoding] if isinstance(encoding, Encoding) else encoding
        self._n_sequences = n_sequences
        self.convert_to_tensors(tensor_type, prepend_batch_axis)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | slice):
            return self.encodings[key]
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"This batch has no {name!r}, only {', '.join(self)}.")

    def __reduce__(self) -> tuple[Any, ...]:
        # a function that computes the encodings would take the tokenizer and the texts along
        encodings = None if self._encodings is None else self.encodings
        return BatchEncoding, (dict(self), encodings, None, False, self._n_sequences)

    def __copy__(self) -> BatchEncoding:
        return self._with(dict(self))

    copy = __copy__  # that of `dict` would return a dict

    def __deepcopy__(self, memo: dict[int, Any]) -> BatchEncoding:
        # encodings are not changed, so that the copy can share them, computed or not
        return self._with(copy.deepcopy(dict(self), memo))

    def _with(self, data: dict[str, Any]) -> BatchEncoding:
        return BatchEncoding(data, self._encodings, n_sequences=self._n_sequences)

    @property
    def encodings(self) -> list[Encoding]:
        """Every row, token by token."""
        if callable(self._encodings):
            self._encodings = self._encodings()
        if self._encodings is None:
            raise ValueError("A batch from pad() has no token origins. Query the original batch.")
        return self._encodings

    @property
    def data(self) -> dict[str, Any]:
        """The rows by name, which is this batch itself."""
        return self

    @property
    def is_fast(self) -> bool:
        """Whether the batch has the origins of its tokens."""
        return self._encodings is not None

    @property
    def n_sequences(self) -> int | None:
        """1 for texts, 2 for pairs of texts, or None if that is unknown."""
        if self._n_sequences is None and self.is_fast and self.encodings:
            return self.encodings[0].n_sequences
        return self._n_sequences

    def tokens(self, batch_index: int = 0) -> list[str]:
        """Return the tokens of a row as strings."""
        return self.encodings[batch_index].tokens

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """Return the index of the word of each token of a row, or None for special tokens."""
        return self.encodings[batch_index].word_ids

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """Return 0 or 1 for the text of each token of a row, or None for special tokens."""
        return self.encodings[batch_index].sequence_ids

    # Each of the following may be called without the index of the row when that is 0: with the
    # token, word or character alone.

    def _row_and(self, row_or_index: int, index: int | None) -> tuple[Encoding, int]:
        if index is None:
            return self.encodings[0], row_or_index
        return self.encodings[row_or_index], index

    def token_to_sequence(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Return 0 or 1 for the text of a token, or None for a special token."""
        row, index = self._row_and(batch_or_token_index, token_index)
        return row.token_to_sequence(index)

    def token_to_word(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Return the index of the word of a token, or None for a special token."""
        row, index = self._row_and(batch_or_token_index, token_index)
        return row.token_to_word(index)

    def token_to_chars(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> Span | None:
        """Return the span of a token in its text, or None for a special token."""
        row, index = self._row_and(batch_or_token_index, token_index)
        return row.token_to_chars(index)

    def word_to_tokens(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> Span | None:
        """Return the tokens of a word of text 0 or 1, or None if it has none."""
        row, index = self._row_and(batch_or_word_index, word_index)
        return row.word_to_tokens(index, sequence_index)

    def word_to_chars(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> Span | None:
        """Return the span of a word in text 0 or 1, or None if it has no token."""
        row, index = self._row_and(batch_or_word_index, word_index)
        return row.word_to_chars(index, sequence_index)

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Return the token at a character of text 0 or 1, or None if there is none."""
        row, index = self._row_and(batch_or_char_index, char_index)
        return row.char_to_token(index, sequence_index)

    def char_to_word(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Return the index of the word at a character of text 0 or 1, or None if there is none."""
        row, index = self._row_and(batch_or_char_index, char_index)
        return row.char_to_word(index, sequence_index)

    def to(self, device: Any, *, non_blocking: bool = False) -> BatchEncoding:
        """Move the tensors to `device`, in place, and return this batch.

        A dtype has no effect, as in transformers: ids stay integers.
        """
        import torch

        if isinstance(device, torch.dtype):
            warn(f"A batch of ids is moved to a device only, and not cast to {device}.")
            return self
        for name, value in self.items():
            if isinstance(value, torch.Tensor):
                self[name] = value.to(device, non_blocking=non_blocking)
        return self

    def convert_to_tensors(
        self, tensor_type: str | None = None, prepend_batch_axis: bool = False
    ) -> BatchEncoding:
        """Convert the lists to tensors ("pt") or arrays ("np"), in place, and return this batch.

        Args:
            tensor_type: "pt", "np", or None for lists.
            prepend_batch_axis: Make a batch of a single row.

        Raises:
            ValueError: Rows differ in length, a value is not a number, or `tensor_type` is unknown.
        """
        if tensor_type not in ("pt", "np", None):
            raise ArgumentError(
                "return_tensors",
                f"should be 'pt' (PyTorch), 'np' (NumPy) or None, not {tensor_type!r}.",
            )
        if tensor_type is None:
            return self
        convert: Callable[[Any], Any] = np.asarray
        if tensor_type == "pt":
            import torch

            convert = torch.from_numpy
        for name, value in self.items():
            if isinstance(value, list):
                rows = [value] if prepend_batch_axis else value
                self[name] = convert(_to_array(name, rows))
        return self


def tensor_type_of(ids: Any) -> str | None:
    """Return the `return_tensors` by which ids were made.

    Args:
        ids: Of a row or of a batch, in lists, arrays or tensors.
    """
    while isinstance(ids, list | tuple) and ids:
        ids = ids[0]
    if isinstance(ids, np.ndarray):
        return "np"
    return "pt" if type(ids).__module__ == "torch" else None


def _to_array(name: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Convert numbers or rows of numbers to an array, integers as int64. (0, 0) for no rows."""
    lengths = {len(value) for value in values if isinstance(value, list)}
    if len(lengths) > 1:
        raise ValueError(
            f"The rows of {name} have {min(lengths)} to {max(lengths)} tokens and make no tensor. "
            "Pass padding=True (and truncation=True to bound their length)."
        )
    array = np.asarray(values)
    if array.size == 0:
        is_flat = name in ("length", "overflow_to_sample_mapping")
        if not values and not is_flat:
            return np.zeros((0, 0), dtype=np.int64)
        return np.zeros(array.shape, dtype=np.int64)
    if array.dtype.kind not in "biuf":
        raise ArgumentError(
            name, f"contains {values[0]!r}, which makes no tensor. Remove it from the batch first."
        )
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    return array.astype(np.int64, copy=False)
