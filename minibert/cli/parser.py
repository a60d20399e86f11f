"""Parse the command line of `minibert`: errors in one sentence, readable defaults."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

CommandFunction = Callable[[argparse.Namespace], int | None]


@dataclass(frozen=True)
class Command:
    """A command: its name, a summary, an example, and the functions that declare and run it."""

    name: str
    summary: str
    example: str
    add: Callable[[Parser], None]
    run: CommandFunction


def command(example: str, add: Callable[[Parser], None]) -> Callable[[CommandFunction], Command]:
    """Make a command of the function that runs it. Its name and its docstring are the command's.

    Args:
        example: Arguments to try it with.
        add: Declares the options.
    """

    def make(run: CommandFunction) -> Command:
        return Command(run.__name__.replace("_", "-"), run.__doc__ or "", example, add, run)

    return make


_OPTIONS = argparse.Action(["[options]"], "options", nargs=0, required=True)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that shows a default only where there is one to show, and an example on one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=100)

    def add_usage(
        self, usage: Any, actions: Iterable[argparse.Action], groups: Any, prefix: str | None = None
    ) -> None:
        """Show what has to be given. The options have a list of their own."""
        if prefix == "":  # argparse asks for the beginning of the usage of subcommands
            super().add_usage(usage, actions, groups, prefix)
            return
        needed = [action for action in actions if not action.option_strings or action.required]
        super().add_usage(usage, [_OPTIONS, *needed], (), prefix)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Name the value of an option once, as Python does since 3.13: `-m, --model NAME`."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.nargs == 0 or action.default in (None, [], ()):
            return action.help
        return super()._get_help_string(action)


class Once(argparse.Action):
    """Stores the value of an option, and refuses a second one: the first would be lost."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Stores the value.

        Raises:
            ArgumentError: The option is given a second time.
        """
        if getattr(namespace, self.dest) is not parser.get_default(self.dest):
            raise argparse.ArgumentError(self, "is given twice, but takes one value")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a mistake in one sentence instead of printing every option.

    Attributes:
        commands: Parsers of the subcommands by name, or empty for a parser without any.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", HelpFormatter)
        settings.setdefault("allow_abbrev", False)  # an option has one spelling
        super().__init__(**settings)
        self.commands: dict[str, Parser] = {}

    def _print_message(self, message: str, file: Any = None) -> None:
        if message and file is sys.stdout:
            file.write(message)  # argparse would ignore an error
            file.flush()
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Exits with code 2."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help lists the options)\n")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        try:
            return super()._get_value(action, text)
        except argparse.ArgumentError as error:
            kind: Any = action.type
            expected = {int: "a whole number", float: "a number"}.get(kind)
            expected = expected or getattr(kind, "expected", None)
            if expected is not None:
                error.message = f"{text!r} is not {expected}"
            raise

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            choices = [str(choice) for choice in action.choices or ()]
            error.message += nearest_name(str(value), choices)
            raise

    def options_by_name(self) -> dict[str, argparse.Action]:
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

        Options may stand between texts or files. argparse alone takes only those before the first
        option.

        Raises:
            SystemExit: With code 2 for arguments that do not fit.
        """
        options, unknown = self.parse_known_args(list(arguments))
        if unknown:
            parser: Parser = options.parser
            positional = [action for action in parser.arguments() if not action.option_strings]
            lists = [action for action in positional if action.nargs in ("*", "+")]
            refused = [argument for argument in unknown if argument.startswith("-") or not lists]
            if refused:
                parser._refuse(refused[0])
            setattr(options, lists[0].dest, [*getattr(options, lists[0].dest), *unknown])
        return options

    def _refuse(self, argument: str) -> NoReturn:
        named = self.options_by_name()
        positional = [action for action in self.arguments() if not action.option_strings]
        form = f". Write {' '.join(self.format_usage().split()[1:])}"
        if argument.startswith("-"):
            advice = nearest_name(argument.partition("=")[0], named)
            if not advice and any(action.required for action in positional):
                advice = form
            self.error(f"unknown option {argument}{advice}")
        if not positional and "--model" in named:
            form = f". Did you mean --model {argument}?"
        self.error(f"unexpected argument {argument!r}{form}")


def nearest_name(word: str, names: Iterable[str]) -> str:
    """Suggest a name for a misspelled one.

    It has the initials of the word (--lr) or is spelled like it. Without such a name the suggestion
    is empty, as it is for a single letter, with which many names begin.
    """
    bare = word.lstrip("-")
    by_bare_name = {name.lstrip("-"): name for name in names}
    matches = []
    if len(bare) > 1:
        matches = [name for name in by_bare_name if bare == "".join(re.findall(r"\b\w", name))]
    if not matches:
        matches = difflib.get_close_matches(bare, by_bare_name, n=1, cutoff=0.6)
    return f". Did you mean {by_bare_name[matches[0]]}?" if matches else ""
