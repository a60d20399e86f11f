"""What errors and warnings say, with the arguments that they mention.

A sentence of minibert is read in two places. In Python an argument goes by its name,
`multi_label=True`. At the command line the same argument is an option, `--multi-label`. So a
message keeps its arguments apart from its words, and whoever prints it decides how to write them:

    raise ArgumentError("max_length", f"should be 512 or less, not {max_length}.")
    raise ArgumentError("label_columns", "are for several labels: pass ", MULTI_LABEL, ".")
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
        value: The value that the message mentions with it. `...` stands for any. Without a value
            the message mentions the argument alone.
        owner: The class whose field it is, where the name alone says too little, such as `Table`.
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
        """The value as Python code has it."""
        if isinstance(self.value, str) and self.owner is None:  # resume="with other data"
            return json.dumps(self.value, ensure_ascii=False)
        return "..." if self.value is ... else repr(self.value)

    def __str__(self) -> str:
        if not self.has_value:
            return self.name
        written = f"{self.name}={self.python_value}"
        return written if self.owner is None else f"{self.owner.__name__}({written})"


class Message(str):
    """A string that knows which of its words are arguments. As a string it is what Python prints.

    Any exception or warning can be made of it: `ValueError(Message(...))`.

    Args:
        parts: Words, arguments and other messages, which are joined as they are, without blanks.

    Attributes:
        parts: The words and the arguments.
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

    def __reduce__(self) -> tuple[type[Message], tuple[str | Argument, ...]]:
        return type(self), self.parts

    def removesuffix(self, suffix: str) -> Message:
        """Return the message without the words at its end, if it ends in these."""
        *parts, end = self.parts or ("",)
        return Message(*parts, end.removesuffix(suffix) if isinstance(end, str) else end)

    def to_json(self) -> list[str | dict[str, str]]:
        """Return the parts as JSON can hold them."""
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
        """Return the message of which `to_json` made the content.

        Args:
            content: The parts.
            owners: The classes whose fields it may mention.
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
        """Return the text, with each argument as `write` calls it."""
        return "".join(write(part) if isinstance(part, Argument) else part for part in self.parts)


class ArgumentError(ValueError):
    """An argument has a value that it cannot have.

    The command line prints its option in place of the name, and ends with the exit code of bad
    usage if the command has such an option.

    Args:
        argument: The argument, with which the message begins: its name, or an `Argument`.
        parts: The rest of the message after a blank, as parts of a `Message`.
    """

    def __init__(self, argument: str | Argument, *parts: str | Argument) -> None:
        if not isinstance(argument, Message):  # that of an error which is copied or unpickled
            subject = Argument(argument) if isinstance(argument, str) else argument
            argument = Message(subject, " ", *parts)
        super().__init__(argument)

    @property
    def argument(self) -> Argument:
        """The argument that the error is about."""
        argument: Argument = message_of(self).parts[0]  # type: ignore[assignment]
        return argument


def message_of(error: BaseException | str) -> Message:
    """Return what an exception or a warning says. One of another library mentions no argument."""
    message = error.args[0] if isinstance(error, BaseException) and error.args else error
    return message if isinstance(message, Message) else Message(str(error))
