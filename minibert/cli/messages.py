"""Write messages of Python for people at a command line, where an argument is an option."""

from __future__ import annotations

import argparse
import shlex

from minibert.cli.parser import Parser
from minibert.util.errors import Argument, Message


def in_options(message: Message, parser: Parser) -> str:
    """Return a message with the options of a command in place of the arguments that it has.

    Args:
        message: The message of an error or a warning.
        parser: That of the command.
    """
    return message.written(lambda argument: option_of(argument, parser) or str(argument))


def option_of(argument: Argument, parser: Parser) -> str | None:
    """Return the option that sets an argument, with its value, or None if the command has none."""
    for flag, action in parser.options_by_name().items():
        if not flag.startswith("--") or not _sets(action, argument):
            continue
        if not argument.has_value or action.nargs == 0:
            if _is_value_of_switch(flag, action, argument):
                return flag
        else:
            return f"{flag} {_typed(argument.value, action)}"
    return None


def _sets(action: argparse.Action, argument: Argument) -> bool:
    """Whether an option is that of an argument, whatever its value."""
    kind = getattr(action, "kind", None)  # the dataclass of whose field `add_fields` made it
    if argument.owner is None:
        return action.dest == argument.name
    is_of_owner = kind is not None and (
        issubclass(kind, argument.owner) or issubclass(argument.owner, kind)
    )
    return is_of_owner and getattr(action, "field", None) == argument.name


def _is_value_of_switch(flag: str, action: argparse.Action, argument: Argument) -> bool:
    """Whether this spelling of a switch sets the value that was mentioned, if one was."""
    if not argument.has_value:
        return True
    if isinstance(action, argparse.BooleanOptionalAction):  # --normalize and --no-normalize
        return flag.startswith("--no-") != bool(argument.value)
    return bool(action.const == argument.value)


def _typed(value: object, action: argparse.Action) -> str:
    """Return a value as a shell takes it."""
    if value is ...:
        return str(action.metavar or "...")
    if value == "\t":
        return "tab"
    return shlex.quote(str(value))
