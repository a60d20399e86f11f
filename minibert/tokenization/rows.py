"""Rows of tokens: how texts are laid out for the model, truncated and padded.

```
one text     [CLS] a a a [SEP] [PAD]        type ids 0 0 0 0 0 0
two texts    [CLS] a a [SEP] b b [SEP]      type ids 0 0 0 0 1 1 1
```
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from minibert.checks import check_count

T = TypeVar("T")
RowContent = tuple[
    int, tuple[slice, ...]
]  # the number of the row's sample, and what it holds of each of its texts

_PADDING: dict[Any, Any] = {False: None, "do_not_pad": None, True: "longest", "longest": "longest"}
_PADDING["max_length"] = "max_length"
_TRUNCATION: dict[Any, Any] = {
    None: None,
    False: None,
    "do_not_truncate": None,
    True: "longest_first",
}
_TRUNCATION |= {name: name for name in ("longest_first", "only_first", "only_second")}
SIDES = {"right": "right", "left": "left"}


def option(argument: str, value: Any, meanings: Mapping[Any, Any]) -> Any:
    """The meaning of an option's value; ValueError that lists the possible ones."""
    try:
        return meanings[value]
    except (KeyError, TypeError):
        raise ValueError(
            f"{argument} is {value!r:.80}; it can be {', '.join(map(repr, meanings))}."
        ) from None


def limits(
    padding: Any, truncation: Any, max_length: int | None, model_max_length: int | None
) -> tuple[str | None, str | None, int | None]:
    """How to pad, how to truncate, and the length that either needs.

    >>> limits(True, None, None, 512), limits("max_length", True, None, 512)
    (('longest', None, None), ('max_length', 'longest_first', 512))
    """
    pad = option("padding", padding, _PADDING)
    strategy = option("truncation", truncation, _TRUNCATION)
    if max_length is None:
        if (strategy or pad == "max_length") and model_max_length is not None:
            return pad, strategy, model_max_length
        return (None if pad == "max_length" else pad), None, None
    check_count("max_length", max_length, minimum=0)
    if truncation is None and padding is False:
        return pad, "longest_first", max_length
    if strategy is None and pad == "longest":
        warnings.warn(
            "max_length has no effect with padding=True and no truncation; pass truncation=True to truncate texts, "
            "or padding='max_length' to fill them up.",
            stacklevel=3,
        )
    return pad, strategy, max_length


def columns_of(text: Any, text_pair: Any, words: bool) -> tuple[list[Any], bool]:
    """The first texts and, if there are any, the second ones; and whether they came as a batch."""

    def is_list(value: Any) -> bool:
        return isinstance(value, list | tuple)

    def is_text(value: Any) -> bool:
        return (
            is_list(value) and all(isinstance(word, str) for word in value)
            if words
            else isinstance(value, str)
        )

    batched = not is_text(text)
    columns = [text] if text_pair is None else [text, text_pair]
    if not batched:
        columns = [[value] for value in columns]
    elif (
        is_list(text)
        and text
        and all(is_list(pair) and len(pair) == 2 and not is_text(pair) for pair in text)
    ):
        columns = [list(column) for column in zip(*text, strict=True)]
    kind = "a list of words" if words else "a str"
    for name, column in zip(("text", "text_pair"), columns, strict=False):
        if not is_list(column):
            raise ValueError(
                f"{name} is a {type(column).__name__}; pass {kind}, or a list of such texts."
            )
        if words or set(map(type, column)) != {str}:
            for number, value in enumerate(column):
                if not is_text(value):
                    place = f"{name}[{number}]" if batched else name
                    raise ValueError(
                        f"{place} is a {type(value).__name__} ({value!r:.60}), not {kind}."
                    )
    if len(columns[0]) != len(columns[-1]):
        raise ValueError(f"There are {len(columns[0])} texts, but {len(columns[-1])} in text_pair.")
    return [list(column) for column in columns], batched  # the caller may change its lists later


def assemble(parts: Sequence[Sequence[T]], begin: Sequence[T], end: Sequence[T]) -> list[T]:
    """A row: `begin`, then every part with `end` after it.

    >>> assemble([["a", "a"], ["b"]], ["[CLS]"], ["[SEP]"])
    ['[CLS]', 'a', 'a', '[SEP]', 'b', '[SEP]']
    """
    row = [*begin]
    for part in parts:
        row += part
        row += end
    return row


def type_ids(parts: Sequence[Sequence[Any]], special: int) -> list[int]:
    """The token types of such a row, `begin` and `end` being `special` tokens each.

    >>> type_ids([["a", "a"], ["b"]], special=1)
    [0, 0, 0, 0, 1, 1]
    """
    types = [0] * special
    for number, part in enumerate(parts):
        types += [number] * (len(part) + special)
    return types


def pad_rows(rows: list[list[T]], value: T, width: int, side: str) -> list[list[T]]:
    """Fills rows up to `width`; longer ones stay as they are."""
    if side == "left":
        return [[value] * (width - len(row)) + row for row in rows]
    return [row + [value] * (width - len(row)) for row in rows] if width else rows


def plan_rows(
    lengths: Sequence[Sequence[int]],
    room: int,
    strategy: str,
    stride: int,
    side: str,
    overflow: bool,
) -> list[RowContent]:
    """The slices of its texts that each row holds, with room for `room` tokens besides the special ones.

    >>> plan_rows([[5]], 3, "longest_first", stride=1, side="right", overflow=True)
    [(0, (slice(0, 3, None),)), (0, (slice(2, 5, None),))]

    Args:
        lengths: for the first and second texts, the number of tokens of every sample.
        room: how many of them a row takes.
        strategy: "longest_first", "only_first" or "only_second".
        stride: tokens that a row repeats from the row before.
        side: which side is cut off, "right" or "left".
        overflow: give what is cut off rows of its own, after the sample's first row.

    Raises:
        ValueError: a text that cannot be truncated that far, or a `stride` that leaves no progress.
    """
    rows: list[RowContent] = []
    for sample, of_sample in enumerate(zip(*lengths, strict=True)):
        kept = _kept(of_sample, room, strategy, sample)
        spans = [
            _spans(length, keep, stride, side) for length, keep in zip(of_sample, kept, strict=True)
        ]
        rows.append((sample, tuple(of_text[0] for of_text in spans)))
        if overflow and len(spans) == 1:
            rows += [(sample, (span,)) for span in spans[0][1:]]
        elif overflow:  # every combination, in the order of the tokenizers library
            firsts, seconds = spans
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
        raise ValueError(
            f"truncation='only_second', but text {sample} is too long and has no second text."
        )
    if lengths[which] <= excess:
        raise ValueError(
            f"truncation={strategy!r} has to take {excess} tokens from text {sample}, which has {lengths[which]}; "
            "pass a larger max_length or truncation='longest_first'."
        )
    return [length - excess if number == which else length for number, length in enumerate(lengths)]


def _spans(length: int, kept: int, stride: int, side: str) -> list[slice]:
    """Spans of `kept` tokens that cover a text; each repeats `stride` tokens of the one before."""
    if length <= kept:
        return [slice(0, length)]
    if kept == 0:
        return [slice(0, 0), slice(0, length)]
    if not 0 <= stride < kept:
        raise ValueError(
            f"stride is {stride}, but has to be from 0 to less than the {kept} tokens that a row takes."
        )
    starts = range(0, length - stride, kept - stride)
    if side == "right":
        return [slice(start, min(start + kept, length)) for start in starts]
    return [slice(max(length - start - kept, 0), length - start) for start in starts]
