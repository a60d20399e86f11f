"""Texts to rows of token ids. Long texts are truncated, or split into windows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from minibert.inference.finite import check_finite
from minibert.util.checks import type_of
from minibert.util.errors import Argument, ArgumentError
from minibert.util.progress import SILENT, Progress

if TYPE_CHECKING:
    from minibert.tokenization.tokenizer import BertTokenizer

Vectors = NDArray[np.float32]  # (N, D)
Vector = np.ndarray[tuple[int], np.dtype[np.float32]]  # (D,)
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]  # (N, D)
Pair = tuple[str, str]  # goes through the model as [CLS] a a [SEP] b b [SEP]

# Texts that are tokenized and sorted together: this bounds the memory that token lists take
CHUNK_TEXTS = 16384


def token_types_of(batch: Mapping[str, Any]) -> list[list[int]]:
    """The token types of a tokenizer's rows, all 0 if its `model_input_names` leave them out.

    A model that transformers trained with such a tokenizer has seen no other type, even in pairs.

    Args:
        batch: What the tokenizer returned for several texts, as lists.
    """
    types: list[list[int]] | None = batch.get("token_type_ids")
    return types if types is not None else [[0] * len(ids) for ids in batch["input_ids"]]


@dataclass(frozen=True)
class Settings:
    """Encoding options, resolved once per call.

    Attributes:
        prompt: Put before every text, and before the first text of every pair.
        overflow: "truncate" or "mean".
        batch_tokens: Tokens of one pass through the model.
        prefix_length: Tokens that begin every row, which are [CLS] and the prompt's.
        skip: How many tokens at the start of every row pooling leaves out.
        truncate_dim: Dimensions of a vector that are kept. None: all.
        normalize: Whether vectors are L2-normalized at the end.
    """

    prompt: str
    overflow: str
    batch_tokens: int
    prefix_length: int = 1
    skip: int = 0
    truncate_dim: int | None = None
    normalize: bool = False


@dataclass(slots=True)
class TokenRow:
    """A distinct text or pair, tokenized.

    Attributes:
        text: The text or pair.
        windows: Token ids of the sequences that go through the model. It is one sequence, unless a
            long text is split into windows.
        token_types: Token types of a pair's sequence. None: all 0.
        is_overlong: Whether the text has more tokens than one sequence holds.
    """

    text: str | Pair
    windows: list[list[int]]
    token_types: list[int] | None = None
    is_overlong: bool = False


@dataclass(slots=True)
class Rows:
    """The inputs of a call, tokenized. Equal inputs share a row.

    Attributes:
        rows: The distinct rows.
        indices: For each input, the index of its row.
    """

    rows: list[TokenRow]
    indices: Sequence[int]

    @property
    def ids(self) -> list[list[int]]:
        """Token ids of every sequence for the model."""
        return [window for row in self.rows for window in row.windows]

    @property
    def token_types(self) -> list[list[int]] | None:
        """Token types of every sequence, or None where all of them are 0."""
        if all(row.token_types is None for row in self.rows):
            return None
        types = []
        for row in self.rows:
            if row.token_types is not None:
                types.append(row.token_types)
            else:
                types.extend([0] * len(window) for window in row.windows)
        return types

    @property
    def window_counts(self) -> list[int]:
        """How many sequences each row has."""
        return [len(row.windows) for row in self.rows]

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(len(window) for row in self.rows for window in row.windows)

    @property
    def overlong(self) -> int:
        """How many inputs have more tokens than one sequence holds."""
        return len(self.truncated)

    @property
    def truncated(self) -> list[int]:
        """The indices of the inputs that have more tokens than one sequence holds."""
        return [place for place, index in enumerate(self.indices) if self.rows[index].is_overlong]

    def progress_callback(self, progress: Progress) -> Callable[[list[int]], None] | None:
        """A function that counts finished sequences, by their indices, as inputs and tokens.

        All copies of a text are finished with its first window. Silent progress needs none.
        """
        if progress is SILENT:
            return None
        copies = Counter(self.indices)
        inputs: list[int] = []
        tokens: list[int] = []
        for index, row in enumerate(self.rows):
            inputs.append(copies[index])
            inputs.extend([0] * (len(row.windows) - 1))
            tokens.extend(len(window) for window in row.windows)

        def report(batch: list[int]) -> None:
            progress.add(sum(inputs[index] for index in batch), sum(tokens[i] for i in batch))

        return report

    def in_input_order(self, vectors: Vectors) -> Vectors:
        """Vectors of the rows, (rows, D), as vectors of the inputs, (inputs, D).

        Raises:
            NotFiniteError: A vector is not finite. The error names its text.
        """
        check_finite(vectors, lambda index: self.rows[index].text)
        if len(self.rows) == len(self.indices):
            return vectors
        return vectors[self.indices]


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Joins the rows of several calls. Each input keeps a row of its own."""
    rows = [part.rows[index] for part in parts for index in part.indices]
    return Rows(rows, range(len(rows)))


def tokenize_rows(
    tokenizer: BertTokenizer,
    texts: list[Any],
    max_length: int,
    settings: Settings,
) -> Rows:
    """Tokenizes texts, or pairs of texts, into rows of at most `max_length` tokens.

    Args:
        tokenizer: Splits the texts.
        texts: Strings, or pairs of strings. Equal ones share a row.
        max_length: Tokens of a row, [CLS] and [SEP] included.
        settings: The prompt, and what happens to long texts.

    Raises:
        ValueError: Something that is not a text, or pairs with `overflow="mean"`.
    """
    paired = len(texts) > 0 and isinstance(texts[0], tuple | list)
    checked: list[Any] = check_pairs(texts) if paired else check_texts(texts)
    index_of = {text: index for index, text in enumerate(dict.fromkeys(checked))}
    indices = [index_of[text] for text in checked]
    if paired:
        rows = list(pair_rows(tokenizer, index_of, max_length, settings))
    else:
        rows = _tokenize_texts(tokenizer, list(index_of), max_length, settings)
    return Rows(rows, indices)


def _tokenize_texts(
    tokenizer: BertTokenizer, texts: list[str], max_length: int, settings: Settings
) -> list[TokenRow]:
    with_prompt = texts
    if settings.prompt:
        with_prompt = [settings.prompt + text for text in texts]
    rows = []
    for text, ids in zip(texts, tokenizer.rows(with_prompt), strict=True):
        if len(ids) <= max_length:
            rows.append(TokenRow(text, [ids]))
        elif settings.overflow == "mean":
            windows = split_row(ids, max_length, settings.prefix_length)
            rows.append(TokenRow(text, windows, is_overlong=True))
        else:
            shortened = truncate_row(ids, max_length, tokenizer.truncation_side)
            rows.append(TokenRow(text, [shortened], is_overlong=True))
    return rows


def pair_rows(
    tokenizer: BertTokenizer, pairs: Iterable[Pair], max_length: int, settings: Settings
) -> Iterator[TokenRow]:
    """Yield the row of each pair. Each text is tokenized once, so a query is not once per document.

    Args:
        tokenizer: Splits the texts.
        pairs: Pairs of strings.
        max_length: Tokens of a row, special tokens included.
        settings: The prompt of the first texts.

    Raises:
        ValueError: The settings ask for windows, which pairs do not have, or a text contains a lone
            surrogate.
    """
    if settings.overflow == "mean":
        raise ArgumentError(
            Argument("overflow", "mean"), "is for single texts. Pairs can only be truncated."
        )

    def ids(text: str) -> list[int]:
        return tokenizer.rows([text])[0][1:-1]

    first_ids = cache(lambda text: ids(settings.prompt + text))
    second_ids = cache(ids)
    for pair in pairs:
        first, second = first_ids(pair[0]), second_ids(pair[1])
        row, types = tokenizer.pair_row(first, second, max_length)
        is_overlong = len(row) < len(first) + len(second) + 3  # [CLS], [SEP], [SEP]
        yield TokenRow(pair, [row], types, is_overlong)


def truncate_row(row: list[int], max_length: int, side: str) -> list[int]:
    """Truncates the ids of a text at its end, or at its beginning where `side` is "left"."""
    if side == "right":
        return row[: max_length - 1] + row[-1:]
    return row[:1] + row[len(row) - max_length + 1 :]


def split_row(row: list[int], max_length: int, prefix_length: int) -> list[list[int]]:
    """Splits the ids of a text into windows without overlap, each with the prefix and [SEP].

    Args:
        row: Token ids with [CLS], prompt and [SEP].
        max_length: Tokens of a window.
        prefix_length: Tokens of [CLS] and prompt.
    """
    if len(row) <= max_length:
        return [row]
    size = max_length - prefix_length - 1
    prefix = row[:prefix_length]
    windows = []
    for start in range(prefix_length, len(row) - 1, size):
        windows.append(prefix + row[start:-1][:size] + row[-1:])
    return windows


def check_collection(
    texts: object, column: str = 'one of its columns, such as texts["text"]'
) -> None:
    """Check that iterating over `texts` gives texts, and in an order.

    Args:
        texts: What a caller has passed.
        column: What to pass of a table instead, for the error.

    Raises:
        ValueError: A single string, whose letters would be taken for texts, or a path, a mapping or
            a table, whose items are keys, a set, which has no order, bytes, or something that
            cannot be iterated over.
    """
    if isinstance(texts, str | os.PathLike):
        raise ArgumentError(
            "texts",
            f"should be several strings, not {texts!r:.80}. For those of a file, pass "
            "(row.text for row in minibert.text.read(path)).",
        )
    wrong = f"should be strings in a list or another sequence, not {type_of(texts)}"
    is_table = getattr(texts, "columns", None) is not None
    if is_table or getattr(texts, "column_names", None) is not None:
        raise ArgumentError("texts", f"{wrong}: pass {column}.")
    if isinstance(texts, Mapping):
        raise ArgumentError("texts", f"{wrong}, which gives its keys: pass list(texts.values()).")
    if isinstance(texts, set | frozenset):
        raise ArgumentError("texts", f"{wrong}, which has no order: pass sorted(texts).")
    if isinstance(texts, bytes | bytearray):
        raise ArgumentError("texts", f"{wrong}: decode it first.")
    if not isinstance(texts, Iterable):
        raise ArgumentError("texts", f"{wrong}.")


def list_texts(texts: Any) -> list[Any]:
    """Several texts or pairs in a list.

    Raises:
        ValueError: As `check_collection`.
    """
    check_collection(texts)
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()  # pairs as lists, strings as strings
    return list(texts)


def iter_texts(texts: Iterable[str]) -> Iterator[str]:
    """Any number of texts, one at a time.

    Raises:
        ValueError: As `check_collection`.
    """
    check_collection(texts)
    return iter(texts)


def check_texts(texts: list[Any], first: int = 0) -> list[str]:
    """The texts themselves.

    Args:
        texts: The texts.
        first: The number of the first among more texts, for the error.

    Raises:
        ValueError: One of them is not a string.
    """
    for index, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise ArgumentError("texts", f"should be strings, but number {index} is {text!r:.60}.")
    return texts


def check_pairs(pairs: Sequence[object]) -> list[Pair]:
    """The pairs as tuples.

    Raises:
        ValueError: One of them is not two strings.
    """
    checked = []
    for index, pair in enumerate(pairs):
        texts = list(pair) if isinstance(pair, tuple | list) else []
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise ArgumentError(
                "pairs", f"should be two strings each, but number {index} is {pair!r:.60}."
            )
        checked.append((texts[0], texts[1]))
    return checked
