"""Parse the command line of `minibert`.

Errors are one sentence, defaults are readable, and the spellings of the last release are accepted.
"""

from __future__ import annotations

import argparse
import difflib
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

logger = logging.getLogger("minibert")


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Help that shows a default only where there is one to show."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=100)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("example: "):  # a command to copy stays on one line
            return indent + text
        return super()._fill_text(text, width, indent)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default == []:
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a mistake in one sentence instead of printing every option.

    Attributes:
        commands: Parsers of the subcommands by name, or empty for a parser without any.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", HelpFormatter)
        super().__init__(**settings)
        self.commands: dict[str, Parser] = {}
        self.old_positionals: list[argparse.Action] = []

    def _print_message(self, message: str, file: Any = None) -> None:
        if message and file is sys.stdout:
            file.write(message)  # argparse would ignore an error
            file.flush()
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Exits with code 2."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help lists the options)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            choices = [str(choice) for choice in action.choices or ()]
            error.message += nearest_name(str(value), choices)
            raise

    def add_old_spelling(
        self,
        old: str,
        new: argparse.Action,
        convert: Callable[[Any], Any] | None = None,
        advice: str | None = None,
    ) -> None:
        """Accepts an option of the last release: hidden, and with a warning that names the new one.

        Args:
            old: The option string, such as "--out".
            new: The option that replaces it.
            convert: Turns a value of the old option into one of the new option.
            advice: The new spelling, where it is more than another name.
        """
        self.add_argument(old, action=_OldOption, new=new, convert=convert, advice=advice)

    def add_old_positional(self, new: argparse.Action) -> None:
        """Accepts the value of an option as a positional argument, as the last release did."""
        self.add_argument(f"old_{new.dest}", nargs="?", help=argparse.SUPPRESS)
        self.old_positionals.append(new)

    def adopt_old_positionals(self, options: argparse.Namespace) -> None:
        """Move the values of old positional arguments to the options that replace them."""
        for new in self.old_positionals:
            value = getattr(options, f"old_{new.dest}")
            if value is None:
                continue
            flag = new.option_strings[-1]
            if getattr(options, new.dest) != new.default:
                self.error(f"the model is named twice: drop {value!r} or {flag}")
            logger.warning("%s is now named by an option: %s %s.", new.metavar, flag, value)
            setattr(options, new.dest, value)

    def stored_value(self, dest: str, nargs: int | None = None) -> argparse.Action:
        """An action that stores a value, for an option of which only the old spelling is left."""
        return _Store([f"--{dest}"], dest, nargs=nargs)

    def options_by_name(self) -> Mapping[str, argparse.Action]:
        """Every option string that is documented, with its action."""
        return {
            name: action
            for name, action in self._option_string_actions.items()
            if action.help != argparse.SUPPRESS
        }

    def arguments(self) -> list[argparse.Action]:
        """Options and positional arguments in the order of the help, hidden ones included."""
        return list(self._actions)

    def parse_command_line(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parses all arguments. An unknown one is answered with the nearest name.

        Raises:
            SystemExit: With code 2 for arguments that do not fit.
        """
        options, unknown = self.parse_known_args(list(arguments))
        if unknown:
            self._refuse(unknown[0], options)
        return options

    def _refuse(self, argument: str, options: argparse.Namespace) -> NoReturn:
        parser = self
        for dest in ("command", "task"):
            name = getattr(options, dest, None)
            parser = parser.commands.get(name, parser) if name else parser
        if not argument.startswith("-"):
            parser.error(f"unexpected argument {argument!r}")
        name = argument.partition("=")[0]
        parser.error(f"unknown option {argument}{nearest_name(name, parser.options_by_name())}")


class _Store(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)


class _OldOption(argparse.Action):
    """An option of the last release. See `Parser.add_old_spelling`."""

    def __init__(
        self,
        option_strings: Sequence[str],
        dest: str,
        new: argparse.Action,
        convert: Callable[[Any], Any] | None,
        advice: str | None,
        default: Any = None,  # argparse passes the one of the new option
    ) -> None:
        super().__init__(
            option_strings,
            new.dest,
            nargs=new.nargs,
            type=cast(Any, new.type),
            choices=new.choices,
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
            metavar=new.metavar,
        )
        self.new = new
        self.convert = convert
        self.advice = advice or new.option_strings[-1]

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        logger.warning("%s is now written %s.", option_string, self.advice)
        if self.convert is not None:
            values = self.convert(values)
        self.new(parser, namespace, values, option_string)


def nearest_name(word: str, names: Iterable[str]) -> str:
    """Suggest a name for a misspelled one.

    It has the initials of the word (--lr) or is spelled like it. Without such a name the suggestion
    is empty.
    """
    bare = word.lstrip("-")
    by_bare_name = {name.lstrip("-"): name for name in names}
    matches = [name for name in by_bare_name if _initials(name) == bare]
    if not matches:
        matches = difflib.get_close_matches(bare, by_bare_name, n=1, cutoff=0.5)
    return f". Did you mean {by_bare_name[matches[0]]}?" if matches else ""


def _initials(name: str) -> str:
    return "".join(part[:1] for part in name.split("-"))
