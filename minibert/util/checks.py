"""Checks of arguments that many modules share. Each raises an error that names the argument."""

import difflib
import inspect
import math
import operator
import warnings
from collections.abc import Iterable
from dataclasses import Field, field, fields
from typing import Any

from minibert.util.errors import Argument, ArgumentError, Message


class TruncationWarning(UserWarning):
    """Texts have more tokens than a model takes, and the rest of them was not read.

    Args:
        count: How many texts were truncated.
        total: How many there are.
        limit: Tokens after which they were.
        advice: What helps.
        kind: What they are.
    """

    def __init__(
        self, count: int, total: int, limit: int, advice: str = "", kind: str = "texts"
    ) -> None:
        subject, were = f"{count:,} of {total:,} {kind} have", "were"
        if total == 1:
            subject, were = f"the {kind.removesuffix('s')} has", "was"
        sentence = f"{subject} more than {limit} tokens and {were} truncated."
        super().__init__(Message(sentence, *([" ", advice] if advice else [])))
        self.count = count
        self.limit = limit


def warn(message: str | Warning) -> None:
    """Warn, and name the line of the first caller outside minibert and torch.

    How many frames lie between depends on decorators and on what called what, so they are counted.
    (Python 3.12 has skip_file_prefixes for it.)

    Args:
        message: What to say, as a UserWarning unless it is a Warning itself.
    """
    level = 1
    caller = inspect.currentframe()
    while caller and caller.f_globals.get("__name__", "").split(".")[0] in ("minibert", "torch"):
        level += 1
        caller = caller.f_back
    warnings.warn(message, stacklevel=level)


def warn_of_truncation(
    count: int, total: int, limit: int, advice: str = "", kind: str = "texts"
) -> None:
    """Warn if texts were truncated. The arguments are those of `TruncationWarning`."""
    if count:
        warn(TruncationWarning(count, total, limit, advice, kind))


def check_count(name: str | Argument, value: Any, minimum: int = 1) -> None:
    """Check that a value is a whole number of at least `minimum`.

    Args:
        name: The argument, as the error should call it.
        value: What was passed: an int, or what Python takes as an index, such as a tensor of one.
        minimum: The smallest valid value.

    Raises:
        ValueError: The value is not a whole number (booleans are not), or it is too small.
    """
    try:
        is_valid = operator.index(value) >= minimum and not isinstance(value, bool)
    except TypeError:
        is_valid = False
    if not is_valid:
        raise ArgumentError(
            name, f"should be a whole number of {minimum} or more, not {value!r:.80}."
        )


def type_of(value: Any) -> str:
    """What a value is, with its article, for an error: "an int", "a list" or "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return f"{article} {name}"


def check_kind(name: str, value: Any, kinds: Any, expected: str) -> None:
    """Check that a value is of one of the types that an argument takes.

    Args:
        name: The argument, as the error should call it.
        value: What was passed.
        kinds: The type, or several, as for `isinstance`.
        expected: What they are, with an article.

    Raises:
        TypeError: The value is of another type.
    """
    if not isinstance(value, kinds):
        raise TypeError(f"{name} should be {expected}, not {type_of(value)}.")


def check_flag(name: str | Argument, value: Any) -> None:
    """Check that a switch is True, False, or None where that is its default.

    Whatever else there is would count as true, also "False".

    Args:
        name: The argument, as the error should call it.
        value: What was passed. The numbers 1 and 0 and the booleans of numpy are valid, too.

    Raises:
        ValueError: The value is something else.
    """
    is_of_type = isinstance(value, bool | int | None) or type(value).__name__ in ("bool", "bool_")
    if not is_of_type or value not in (True, False, None):
        raise ArgumentError(name, f"should be True or False, not {value!r:.80}.")


def amount(count: int, thing: str, things: str = "") -> str:
    """Return a count with what is counted: "1 text", "2,000 texts".

    Args:
        count: How many.
        thing: The name of one.
        things: The plural, where it is not that with an s.
    """
    name = thing if count == 1 else things or f"{thing}s"
    return f"{count:,} {name}"


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


def option(
    default: Any,
    description: str,
    *,
    flag: str | None = None,
    metavar: str | None = None,
    minimum: float | None = None,
    choices: tuple[str, ...] | None = None,
    **more: Any,
) -> Any:
    """Declare a field of a dataclass of options, of which the command line makes an option.

    Args:
        default: The default.
        description: The help text: a sentence.
        flag: The option, where it is not the name of the field.
        metavar: What the help calls the value.
        minimum: The smallest valid number.
        choices: The valid values.
        more: Further metadata of the field.
    """
    metadata = {
        "help": description,
        "option": flag,
        "metavar": metavar,
        "minimum": minimum,
        "choices": choices,
    }
    return field(default=default, metadata={**metadata, **more})


def flags_of(options: Any) -> set[str]:
    """The fields of a dataclass that are switches."""
    return {one.name for one in fields(options) if one.type in ("bool", "bool | None")}


def is_whole(declared: Field[Any]) -> bool:
    """Whether a field takes whole numbers, or None."""
    return str(declared.type) in ("int", "int | None")


def check_fields(options: Any) -> None:
    """Check the numbers, choices and switches of a dataclass whose fields `option` has declared.

    Raises:
        ValueError: A number is out of range or not whole, a value is not among the choices, or a
            switch is neither True nor False.
    """
    owner = type(options)
    for name in flags_of(options):
        check_flag(Argument(name, owner=owner), getattr(options, name))
    for declared in fields(options):
        if "help" not in declared.metadata:
            continue
        value = getattr(options, declared.name)
        argument = Argument(declared.name, owner=owner)
        minimum, choices = declared.metadata["minimum"], declared.metadata["choices"]
        if choices is not None and value not in choices:
            raise ArgumentError(argument, f"should be {' or '.join(choices)}, not {value!r}.")
        if minimum is None or (value is None and "None" in str(declared.type)):
            continue
        if is_whole(declared) and type(value) is not int:
            raise ArgumentError(argument, f"should be a whole number, not {value!r}.")
        if not minimum <= value < math.inf:
            finite = "" if is_whole(declared) else " and finite"
            raise ArgumentError(argument, f"should be {minimum:g} or more{finite}, not {value!r}.")
