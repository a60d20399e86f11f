"""Texts to rows of token ids: what is too long is cut off, or read in windows whose vectors are merged again."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibert.progress import Progress
from minibert.tokenization.tokenizer import BertTokenizer

Vectors = NDArray[np.float32]  # (N, D)
Vector = np.ndarray[tuple[int], np.dtype[np.float32]]  # (D,)
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]  # (N, D)
Pair = tuple[str, str]  # goes through the model as [CLS] a a [SEP] b b [SEP]

# Texts that are tokenised and sorted together; bounds the memory that token lists take
CHUNK_TEXTS = 16384


class Settings(NamedTuple):
    """How texts become vectors, settled once for all texts of a call of `SentenceEmbedder.encode`."""

    prompt: str  # put before every text, and before the first text of every pair
    overflow: str  # "truncate" or "mean"
    batch_tokens: int  # of one pass through the model
    head: int = 1  # tokens that begin every row: [CLS] and the prompt's
    skip: int = 0  # how many of these pooling leaves out
    truncate_dim: int | None = None  # how many numbers of each vector are kept; None: all
    normalize: bool = False  # make vectors of length 1 at the end


class Rows(NamedTuple):
    """Rows for the model."""

    texts: Sequence[str | Pair]  # each different from the others
    places: Sequence[int]  # the number among `texts` of each that was given
    ids: list[list[int]]  # token ids of each row
    types: list[list[int]] | None  # token types of each row, None where all are 0
    windows: list[int]  # how many rows each text has
    overlong: int  # how many of those that were given are too long for one row

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(map(len, self.ids))

    def counter(self, progress: Progress) -> Callable[[list[int]], None]:
        """Counts rows by their numbers: all copies of a text are done with its first row."""
        copies = Counter(self.places)
        texts = [
            0 if row else copies[n] for n, own in enumerate(self.windows) for row in range(own)
        ]
        return lambda batch: progress.add(
            sum(texts[n] for n in batch), sum(len(self.ids[n]) for n in batch)
        )

    def as_given(self, vectors: Vectors) -> Vectors:
        """Vectors of `texts`, (texts, D), for all that were given; ValueError naming a text whose is not finite."""
        if not (finite := np.isfinite(vectors)).all():
            text = self.texts[int(finite.all(axis=1).argmin())]
            raise ValueError(
                f"The vector of {text!r:.60} is not finite: the model's weights are damaged."
            )
        return vectors if len(self.texts) == len(self.places) else vectors[self.places]


def named_prompt(prompts: Mapping[str, str], name: str | None) -> str:
    """The prompt of this name, "" for None; ValueError for one that is not there."""
    if name is not None and name not in prompts:
        raise ValueError(
            f"there is no prompt {name!r:.80}; this model has {', '.join(prompts) or 'none'}."
        )
    return "" if name is None else prompts[name]


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of single texts as those of all of them."""
    texts, ids = [part.texts[0] for part in parts], [row for part in parts for row in part.ids]
    types = [row for part in parts for row in part.types or [[0] * len(row) for row in part.ids]]
    paired = any(part.types for part in parts)
    return Rows(
        texts,
        range(len(parts)),
        ids,
        types if paired else None,
        [len(part.ids) for part in parts],
        0,
    )


def rows_of(
    tokenizer: BertTokenizer,
    given: list[Any],
    limit: int,
    settings: Settings,
    side: str | None = None,
) -> Rows:
    """Rows of at most `limit` tokens, [CLS] and [SEP] included.

    Args:
        tokenizer: splits the texts.
        given: texts, or pairs of texts; equal ones have the same rows.
        limit: tokens of a row.
        settings: the prompt, and what is done with long texts.
        side: of a text where it is cut off, "right" or "left"; None: as the tokenizer says.

    Raises:
        ValueError: something that is not a text, or windows of pairs.
    """
    paired = len(given) > 0 and isinstance(given[0], tuple | list)
    checked: list[Any] = check_pairs(given) if paired else check_texts(given)
    numbers = {text: number for number, text in enumerate(dict.fromkeys(checked))}
    texts, places = list(numbers), [numbers[text] for text in checked]
    prompt, types, windows = settings.prompt, None, [1] * len(texts)
    if paired:
        if settings.overflow == "mean":
            raise ValueError('overflow="mean" is for single texts; pairs can only be cut.')
        first, second = [prompt + pair[0] for pair in texts], [pair[1] for pair in texts]
        lengths = [
            len(a) + len(b) - 1
            for a, b in zip(tokenizer.rows(first), tokenizer.rows(second), strict=True)
        ]
        batch = tokenizer(
            first, second, truncation=True, max_length=limit, return_attention_mask=False
        )
        ids, types = batch["input_ids"], batch["token_type_ids"]
    else:
        ids = tokenizer.rows([prompt + text for text in texts] if prompt else texts)
        lengths = list(map(len, ids))
    overlong = {number for number, length in enumerate(lengths) if length > limit}
    if settings.overflow == "mean":
        parts = [split_row(row, limit, settings.head) for row in ids]
        ids, windows = list(chain.from_iterable(parts)), [len(own) for own in parts]
    elif not paired:
        for number in overlong:
            ids[number] = truncate_row(ids[number], limit, side or tokenizer.truncation_side)
    return Rows(texts, places, ids, types, windows, sum(place in overlong for place in places))


def truncate_row(row: list[int], limit: int, side: str) -> list[int]:
    """The ids of a text without what is past `limit`, or without the beginning when `side` is "left"."""
    return row[: limit - 1] + row[-1:] if side == "right" else row[:1] + row[len(row) - limit + 1 :]


def split_row(row: list[int], limit: int, head: int) -> list[list[int]]:
    """The ids of a text in windows of at most `limit`, side by side; each has the first `head` ids and [SEP]."""
    if len(row) <= limit:
        return [row]
    size = limit - head - 1
    return [
        row[:head] + row[start:-1][:size] + row[-1:] for start in range(head, len(row) - 1, size)
    ]


def iter_texts(texts: Iterable[str]) -> Iterator[str]:
    """Any number of texts, one at a time.

    Raises:
        ValueError: a single string, whose letters would be taken for texts.
    """
    if isinstance(texts, str | os.PathLike):
        raise ValueError(
            f"texts should be several strings, not {texts!r}; minibert.files.read_lines reads a file's."
        )
    return iter(texts)


def check_texts(texts: list[str]) -> list[str]:
    """The texts; ValueError for what is not a string."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts should be strings, but number {index} is {text!r:.60}.")
    return texts


def check_pairs(pairs: Sequence[object]) -> list[Pair]:
    """The pairs in a list; ValueError for what is not two strings."""
    checked = []
    for index, pair in enumerate(pairs):
        if not (
            isinstance(pair, tuple | list)
            and len(pair) == 2
            and all(isinstance(text, str) for text in pair)
        ):
            raise ValueError(
                f"pairs should be two strings each, but number {index} is {pair!r:.60}."
            )
        checked.append((pair[0], pair[1]))
    return checked
