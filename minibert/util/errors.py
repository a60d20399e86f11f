"""Messages of errors and warnings, which keep the arguments that they mention apart from the words.

A message is read in two places. In Python an argument is written by its name, `multi_label=True`.
At the command line the same argument is an option, `--multi-label`. So the code that prints a
message decides how its arguments are written:

    raise ArgumentError("max_length", f"should be 512 or less, not {max_length}.")
    raise ArgumentError("label_columns", "need ", Argument("multi_label", True), ".")
    raise ValueError(Message(f"{file} has no header: pass ", Argument("columns", ..., Table), "."))
    warn(Message(f"{count} texts were truncated: pass a larger ", Argument("max_length"), "."))

A word that is only text stays text, also where a file or a column has the name of an argument.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Argument:
    """An argument that a message mentions.

    Attributes:
        name: Its name.
        value: The value that the message mentions with it. `...` stands for any value. Without
            one, the message mentions the argument alone.
        owner: The options class whose field it is, such as `Table`: the message then says
            `Table(columns=...)`. None: an argument of the function that was called.
    """

    name: str
    value: Any = inspect.Parameter.empty
    owner: type | None = None

    @property
    def has_value(self) -> bool:
        """Whether the message mentions a value."""
        return self.value is not inspect.Parameter.empty

    @property
    def python_value(self) -> str:
        """The value as Python code. Strings are double-quoted, unless the argument has an owner."""
        if isinstance(self.value, str) and self.owner is None:
            return json.dumps(self.value, ensure_ascii=False)
        return "..." if self.value is ... else repr(self.value)

    def __str__(self) -> str:
        if not self.has_value:
            return self.name
        written = f"{self.name}={self.python_value}"
        return written if self.owner is None else f"{self.owner.__name__}({written})"


class Message(str):
    """A string that keeps its arguments apart from its words.

    Used as a plain string, it has the arguments as Python code. Any exception or warning can take
    it: `ValueError(Message(...))`.

    Args:
        parts: Words, arguments and other messages, which are joined without spaces between them.

    Attributes:
        parts: The words and the arguments, those of nested messages included.
    """

    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument) -> Message:
        """Join the parts."""
        message = super().__new__(cls, "".join(map(str, parts)))
        flat: list[str | Argument] = []
        for part in parts:
            flat += part.parts if isinstance(part, Message) else [part]
        message.parts = tuple(flat)
        return message

    def removesuffix(self, suffix: str) -> Message:
        """Return the message without a suffix of its last part.

        An argument at the end stays, and so does a suffix that begins in an earlier part.
        """
        *parts, end = self.parts or ("",)
        return Message(*parts, end.removesuffix(suffix) if isinstance(end, str) else end)

    def to_json(self) -> list[str | dict[str, str]]:
        """Return the parts as values that JSON can store.

        Values of arguments are stored as Python code. `from_json` restores those that are literals.
        """
        content: list[str | dict[str, str]] = []
        for part in self.parts:
            if isinstance(part, Argument):
                fields = {"name": part.name}
                if part.has_value:
                    fields["value"] = part.python_value
                if part.owner is not None:
                    fields["owner"] = part.owner.__name__
                content.append(fields)
            else:
                content.append(part)
        return content

    @classmethod
    def from_json(cls, content: Iterable[str | dict[str, str]], *owners: type) -> Message:
        """Restore a message from the output of `to_json`.

        Args:
            content: The output of `to_json`.
            owners: Classes that arguments may have as their owner. Other owners are dropped.

        Raises:
            ValueError: The value of an argument is not a literal. Or a SyntaxError.
        """
        classes = {owner.__name__: owner for owner in owners}
        parts: list[str | Argument] = []
        for part in content:
            if isinstance(part, str):
                parts.append(part)
                continue
            value = inspect.Parameter.empty
            if "value" in part:
                value = ast.literal_eval(part["value"])
            parts.append(Argument(part["name"], value, classes.get(part.get("owner", ""))))
        return cls(*parts)

    def written(self, write: Callable[[Argument], str]) -> str:
        """Return the text, with each argument formatted by `write`."""
        return "".join(write(part) if isinstance(part, Argument) else part for part in self.parts)


class ArgumentError(ValueError):
    """An argument has an invalid value.

    If a command has an option for the argument, it prints the option in place of the name, and
    exits with the code of wrong usage.

    Args:
        argument: The argument that the message begins with: its name, or an `Argument`.
        parts: The rest of the message after a space, as parts of a `Message`.
    """

    def __init__(self, argument: str | Argument, *parts: str | Argument) -> None:
        if not isinstance(argument, Message):  # else the error is copied or unpickled
            subject = Argument(argument) if isinstance(argument, str) else argument
            argument = Message(subject, " ", *parts)
        super().__init__(argument)

    @property
    def argument(self) -> Argument:
        """The argument that the error is about."""
        argument: Argument = message_of(self).parts[0]  # type: ignore[assignment]
        return argument


def message_of(error: BaseException | str) -> Message:
    """Return the message of an exception or a warning.

    One that is not a `Message`, such as that of another library, is returned as a `Message` without
    arguments.
    """
    message = error.args[0] if isinstance(error, BaseException) and error.args else error
    return message if isinstance(message, Message) else Message(str(error))
