"""Rows of tokens: texts are truncated, get their special tokens, and are padded.

```
one text     [CLS] a a a [SEP] [PAD]        type ids 0 0 0 0 0 0
two texts    [CLS] a a [SEP] b b [SEP]      type ids 0 0 0 0 1 1 1
```

Next file: encoding.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from minibert.util.checks import check_count, check_kind, type_of, warn
from minibert.util.errors import Argument, ArgumentError, Message

T = TypeVar("T")
RowContent = tuple[int, tuple[slice, ...]]
"""The index of the sample that a row holds, and the part of each of its texts."""

PADDING: dict[Any, Any] = {
    False: None,
    "do_not_pad": None,
    True: "longest",
    "longest": "longest",
    "max_length": "max_length",
}
TRUNCATION: dict[Any, Any] = {
    None: None,
    False: None,
    "do_not_truncate": None,
    True: "longest_first",
    "longest_first": "longest_first",
    "only_first": "only_first",
    "only_second": "only_second",
}
SIDES = {"right": "right", "left": "left"}


# ---- what a call asks for


def parse_choice(name: str, value: Any, choices: Mapping[Any, Any]) -> Any:
    """Return what a value of an argument stands for.

    Raises:
        ValueError: It is not one of the choices, which the error lists.
    """
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise ArgumentError(
            name, f"is {value!r:.80}, but it can be {', '.join(map(repr, choices))}."
        ) from None


def resolve_limits(
    padding: Any, truncation: Any, max_length: int | None, model_max_length: int | None
) -> tuple[str | None, str | None, int | None]:
    """Resolve how to pad, how to truncate, and the length that either needs.

    >>> resolve_limits(True, None, None, 512)
    ('longest', None, None)
    >>> resolve_limits("max_length", True, None, 512)
    ('max_length', 'longest_first', 512)
    """
    pad = parse_choice("padding", padding, PADDING)
    strategy = parse_choice("truncation", truncation, TRUNCATION)
    if max_length is None:
        needs_length = strategy is not None or pad == "max_length"
        if needs_length and model_max_length is not None:
            return pad, strategy, model_max_length
        if pad == "max_length":
            pad = None
        return pad, None, None
    check_count("max_length", max_length, minimum=0)
    if truncation is None and padding is False:
        return pad, "longest_first", max_length
    if strategy is None and pad == "longest":
        warn(
            Message(
                Argument("max_length"),
                " has no effect with padding=True and no truncation. Pass truncation=True to "
                "truncate texts, or padding='max_length' to pad them to that length.",
            )
        )
    return pad, strategy, max_length


def split_columns(text: Any, text_pair: Any, are_words: bool) -> tuple[list[list[Any]], bool]:
    """Sort the arguments of a call into columns of first and second texts.

    Args:
        text: A text, a list of texts, or a list of pairs of texts.
        text_pair: The second text or texts.
        are_words: A text is a list of words.

    Returns:
        (columns, is_batch): one or two lists of texts, which the caller owns, and whether they came
        as a batch.

    Raises:
        ValueError: Something is not a text, or the two columns differ in length.
    """
    is_batch = not _is_text(text, are_words)
    columns = [text]
    if text_pair is not None:
        columns = [text, text_pair]
    if not is_batch:
        columns = [[value] for value in columns]
    elif _is_list_of_pairs(text, are_words):
        columns = [list(column) for column in zip(*text, strict=True)]
    for name, column in zip(("text", "text_pair"), columns, strict=False):
        _check_texts(name, column, are_words, is_batch)
    if len(columns[0]) != len(columns[-1]):
        raise ValueError(f"There are {len(columns[0])} texts, but {len(columns[-1])} in text_pair.")
    return [list(column) for column in columns], is_batch


def _is_text(value: Any, are_words: bool) -> bool:
    if not are_words:
        return isinstance(value, str)
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def _is_list_of_pairs(text: Any, are_words: bool) -> bool:
    if not isinstance(text, list | tuple) or not text:
        return False
    for pair in text:
        is_pair = isinstance(pair, list | tuple) and len(pair) == 2
        if not is_pair or _is_text(pair, are_words):
            return False
    return True


def _check_texts(name: str, column: Any, are_words: bool, is_batch: bool) -> None:
    expected = "a str"
    if are_words:
        expected = "a list of words"
    if not isinstance(column, list | tuple):
        raise ArgumentError(
            name, f"is {type_of(column)}. Pass {expected}, or a list of such texts."
        )
    if not are_words and set(map(type, column)) == {str}:
        return
    for index, value in enumerate(column):
        if not _is_text(value, are_words):
            place = f"{name}[{index}]" if is_batch else name
            shown = "" if value is None else f" ({value!r:.60})"
            raise ValueError(f"{place} is {type_of(value)}{shown}, not {expected}.")


def check_rows(rows: Any) -> None:
    """Check that rows to pad are mappings of the same names, as the tokenizer returns them.

    Raises:
        TypeError: They are not in a list, or one is not a mapping.
        ValueError: One lacks a name of the first.
    """
    check_kind("encoded_inputs", rows, list | tuple, "what the tokenizer returns, or a list of it")
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"encoded_inputs[{index}] should be what the tokenizer returns for a text, not "
                f'{type_of(row)}. Ids alone are padded by {{"input_ids": ids}}.'
            )
        if missing := rows[0].keys() - row.keys():
            raise ValueError(f"encoded_inputs[{index}] has no {min(missing)}, but the first has.")


# ---- truncation


def plan_rows(
    lengths: Sequence[Sequence[int]],
    room: int,
    strategy: str,
    stride: int,
    side: str,
    overflow: bool,
) -> list[RowContent]:
    """Plan which part of its texts each row holds.

    >>> plan_rows([[5]], 3, "longest_first", stride=1, side="right", overflow=True)
    [(0, (slice(0, 3, None),)), (0, (slice(2, 5, None),))]

    Args:
        lengths: For the first and second texts, the number of tokens of every sample.
        room: Tokens of a row besides its special tokens.
        strategy: "longest_first", "only_first" or "only_second".
        stride: Tokens that a row repeats from the row before.
        side: The side that is truncated, "right" or "left".
        overflow: Put what is truncated into further rows, after the first row of the sample.

    Raises:
        ValueError: A text cannot be truncated that far, or `stride` leaves no progress.
    """
    rows: list[RowContent] = []
    for sample, text_lengths in enumerate(zip(*lengths, strict=True)):
        limits = _text_limits(text_lengths, room, strategy, sample)
        spans = []
        for length, limit in zip(text_lengths, limits, strict=True):
            spans.append(_spans(length, limit, stride, side, overflow))
        rows.append((sample, tuple(text_spans[0] for text_spans in spans)))
        if overflow and len(spans) == 1:
            rows += [(sample, (span,)) for span in spans[0][1:]]
        elif overflow:  # every combination, in the order of the tokenizers library
            firsts, seconds = spans
            rows += [(sample, (first, second)) for first in firsts[1:] for second in seconds]
            rows += [(sample, (firsts[0], second)) for second in seconds[1:]]
    return rows


def _text_limits(lengths: Sequence[int], room: int, strategy: str, sample: int) -> Sequence[int]:
    """Return how many tokens of each text a row holds."""
    excess = sum(lengths) - room
    if excess <= 0:
        return lengths
    if room == 0:
        return [0] * len(lengths)
    if strategy == "longest_first":
        if len(lengths) == 1:
            return [room]
        shorter = min(*lengths, room // 2)  # it keeps up to half of the room
        if lengths[0] <= lengths[1]:
            return [shorter, room - shorter]
        return [room - shorter, shorter]
    truncated = 0 if strategy == "only_first" else 1
    if truncated == len(lengths):
        raise ValueError(
            f"truncation='only_second', but text {sample} is too long and has no second text."
        )
    if lengths[truncated] <= excess:
        raise ValueError(
            Message(
                f"truncation={strategy!r} has to remove {excess} tokens from text {sample}, which "
                f"has {lengths[truncated]}. Pass a larger ",
                Argument("max_length"),
                " or truncation='longest_first'.",
            )
        )
    limits = list(lengths)
    limits[truncated] -= excess
    return limits


def _spans(length: int, limit: int, stride: int, side: str, overflow: bool) -> list[slice]:
    """Return spans of `limit` tokens that cover a text. Each repeats `stride` tokens.

    Without `overflow`, it is the first one alone: a long text would have thousands.
    """
    if length <= limit:
        return [slice(0, length)]
    if limit == 0:
        return [slice(0, 0), slice(0, length)]
    if not 0 <= stride < limit:
        raise _too_large_stride(stride, limit)
    starts = range(0, length - stride, limit - stride)
    if not overflow:
        starts = starts[:1]
    if side == "right":
        return [slice(start, min(start + limit, length)) for start in starts]
    return [slice(max(length - start - limit, 0), length - start) for start in starts]


def _too_large_stride(stride: int, limit: int) -> ArgumentError:
    return ArgumentError(
        "stride",
        f"is {stride}, but has to be from 0 to less than the {limit} tokens of a text in a row.",
    )


# ---- special tokens


class RowTemplate(NamedTuple):
    """The special tokens of a row: before its first text, and after each text.

    >>> single, pair = bert_templates(2, 3)
    >>> pair.ids
    ((2,), (3,), (3,))
    >>> pair.assemble([[7, 8], [9]], pair.ids), pair.type_ids([2, 1])
    ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])

    Args:
        ids: Ids of the special tokens before the first text, after the first, after the second.
        types: Their type ids.
        text_types: The type id of each text.
    """

    ids: tuple[tuple[Any, ...], ...]
    types: tuple[tuple[int, ...], ...]
    text_types: tuple[int, ...]

    def without_special_tokens(self) -> "RowTemplate":
        """Return a template with the same type ids of the texts, but without special tokens."""
        empty = ((),) * len(self.ids)
        return RowTemplate(empty, empty, self.text_types)

    @property
    def special_count(self) -> int:
        """Number of special tokens of a row."""
        return sum(map(len, self.ids))

    def assemble(self, texts: Sequence[Sequence[T]], special: Sequence[Sequence[T]]) -> list[T]:
        """Return a row: the texts with special values around them.

        Args:
            texts: Values for the tokens of each text, such as their ids.
            special: Values for the special tokens, in the form of `ids`.
        """
        row = [*special[0]]
        for text, after in zip(texts, special[1:], strict=True):
            row += text
            row += after
        return row

    def rows(self, columns: Sequence[Sequence[Sequence[Any]]]) -> list[list[Any]]:
        """Return the rows of a batch. `columns` are the ids of the first and the second texts."""
        if len(columns) == 1:  # the same, in one step a row
            before, after = self.ids
            return [[*before, *text, *after] for text in columns[0]]
        return [self.assemble(texts, self.ids) for texts in zip(*columns, strict=True)]

    def rows_of_types(self, columns: Sequence[Sequence[Sequence[Any]]]) -> list[list[int]]:
        """Return the token types of the rows of a batch. `columns` as for `rows`."""
        if len({*self.text_types}.union(*self.types)) == 1:
            type_id = self.text_types[0]
            special = self.special_count
            return [[type_id] * (special + sum(map(len, t))) for t in zip(*columns, strict=True)]
        return [self.type_ids([*map(len, texts)]) for texts in zip(*columns, strict=True)]

    def fill_special(self, value: T) -> list[list[T]]:
        """Return `value` for each special token, in the form of `ids`."""
        return [[value] * len(ids) for ids in self.ids]

    def type_ids(self, lengths: Sequence[int]) -> list[int]:
        """Return the token types of a row whose texts have these lengths."""
        types = zip(self.text_types, lengths, strict=True)
        return self.assemble([[type_id] * length for type_id, length in types], self.types)


Templates = tuple[RowTemplate, RowTemplate]
"""The rows with one and with two texts."""


@lru_cache(maxsize=64)
def bert_templates(cls_id: Any, sep_id: Any) -> Templates:
    """Return BERT's templates: `[CLS] first [SEP]`, and `[CLS] first [SEP] second [SEP]`.

    Args:
        cls_id: Id of the token [CLS], or the token itself.
        sep_id: The same for [SEP].
    """
    single = RowTemplate(((cls_id,), (sep_id,)), ((0,), (0,)), (0,))
    pair = RowTemplate(((cls_id,), (sep_id,), (sep_id,)), ((0,), (0,), (1,)), (0, 1))
    return single, pair


@dataclass  # not frozen, which takes three times as long, and each call makes one
class RowForm:
    """The form of the rows of one call.

    Args:
        template: The special tokens around the texts.
        padding: "longest", "max_length" or None.
        truncation: "longest_first", "only_first", "only_second" or None.
        max_length: Tokens of a row with its special tokens.
        multiple: The length of padded rows is a multiple of this.
        padding_side: "right" or "left".
        stride: Tokens that an overflowing row repeats from the row before.
        overflow: What is truncated follows in further rows.
        are_words: A text is a list of words.

    Raises:
        ValueError: The length, the multiple or the stride is impossible.
    """

    template: RowTemplate
    padding: str | None
    truncation: str | None
    max_length: int | None
    multiple: int | None
    padding_side: str
    stride: int
    overflow: bool
    are_words: bool

    def __post_init__(self) -> None:
        room = self.room
        if room is None:
            return
        check_count("stride", self.stride, minimum=0)
        if room < 0:
            raise ArgumentError(
                "max_length",
                f"is {self.max_length}, but the special tokens take {self.template.special_count}.",
            )
        # Whether or not a text is so long today. As in the reference, the room of a single text
        # counts, which is one token more than that of two.
        if self.stride and self.stride >= room + len(self.template.text_types) - 1:
            raise _too_large_stride(self.stride, room)
        if self.padding and round_up(self.max_length or 0, self.multiple) != self.max_length:
            raise ValueError(
                f"max_length={self.max_length} is not a multiple of "
                f"pad_to_multiple_of={self.multiple}."
            )

    @property
    def room(self) -> int | None:
        """Tokens of a truncated row besides its special tokens, or None without truncation."""
        if self.truncation is None or self.max_length is None:
            return None
        return self.max_length - self.template.special_count


# ---- padding


def pad_rows(rows: list[list[T]], value: T, width: int, side: str) -> list[list[T]]:
    """Pad rows to `width` entries. Longer rows stay as they are."""
    if not width:
        return rows
    if side == "left":
        return [[value] * (width - len(row)) + row for row in rows]
    return [row + [value] * (width - len(row)) for row in rows]


def round_up(number: int, multiple: int | None) -> int:
    """Round up to a multiple. None leaves the number as it is.

    >>> round_up(13, 8), round_up(13, None)
    (16, 13)
    """
    if multiple is None:
        return number
    check_count("pad_to_multiple_of", multiple)
    return -(-number // multiple) * multiple


def padded_length(
    longest: int, padding: str | None, max_length: int | None, multiple: int | None
) -> int:
    """Return the length that rows are padded to, or 0 for no padding."""
    if padding is None:
        return 0
    if padding == "longest":
        return round_up(longest, multiple)
    return round_up(max_length or 0, multiple)
