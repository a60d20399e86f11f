"""Checks of arguments that many modules share. Each raises an error that names the argument."""

import difflib
from collections.abc import Iterable
from numbers import Integral
from typing import Any


def check_count(name: str, value: Any, minimum: int = 1) -> None:
    """Check that a value is a whole number of at least `minimum`.

    Args:
        name: The argument, as the error should call it.
        value: What was passed.
        minimum: The smallest valid value.

    Raises:
        ValueError: The value is not a whole number (booleans are not), or it is too small.
    """
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < minimum:
        raise ValueError(
            f"{name} should be a whole number of {minimum} or more, not {value!r:.80}."
        )


def refuse_unknown(
    owner: str,
    names: Iterable[str],
    valid_names: Iterable[str],
    advice: str = "",
    kind: str = "option",
) -> None:
    """Check that every name is a valid one.

    Args:
        owner: What the names were passed to, as the error should call it.
        names: The names that were passed.
        valid_names: The names that `owner` has.
        advice: What to say if no valid name resembles the one that was passed.
        kind: What a name stands for, such as "option" or "field".

    Raises:
        TypeError: A name is not valid. The error suggests the most similar valid name.
    """
    choices = list(dict.fromkeys(valid_names))
    for name in names:
        if name in choices:
            continue
        similar = difflib.get_close_matches(name, choices, n=1)
        if similar:
            hint = f"Did you mean {similar[0]!r}?"
        else:
            hint = advice or f"It has {', '.join(choices)}."
        raise TypeError(f"{owner} has no {kind} {name!r}. {hint}")
