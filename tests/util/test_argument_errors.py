"""Messages that keep their arguments apart from their words."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from minibert.text.table import Table
from minibert.util.checks import TruncationWarning, warn
from minibert.util.errors import Argument, ArgumentError, Message, message_of


@pytest.mark.parametrize(
    ("argument", "in_python"),
    [
        (Argument("max_length"), "max_length"),
        (Argument("multi_label", True), "multi_label=True"),
        (Argument("precision", None), "precision=None"),
        (Argument("columns", ...), "columns=..."),
        (Argument("overflow", "mean"), 'overflow="mean"'),
        (Argument("encoding", "cp949", Table), "Table(encoding='cp949')"),
        (Argument("text", ..., Table), "Table(text=...)"),
    ],
)
def test_an_argument_in_python(argument: Argument, in_python: str) -> None:
    assert str(argument) == in_python


def an_error() -> ArgumentError:
    return ArgumentError("pairs", "are too long: lower ", Argument("max_length", 9), ".")


def test_an_error_names_its_argument() -> None:
    error = an_error()
    assert isinstance(error, ValueError)
    assert error.argument == Argument("pairs")
    assert str(error) == "pairs are too long: lower max_length=9."


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_process(copied) -> None:
    error = an_error()
    error.add_note("in the second process")
    other = copied(error)
    assert type(other) is ArgumentError
    assert other.argument == error.argument
    assert str(other) == str(error)
    assert other.__notes__ == error.__notes__
    assert message_of(other).parts == message_of(error).parts


def test_an_error_raised_from_another_keeps_both() -> None:
    with pytest.raises(ArgumentError, match="pairs") as caught:
        try:
            raise KeyError("a")
        except KeyError as cause:
            raise an_error() from cause
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_message_inside_another_keeps_its_arguments() -> None:
    outer = Message("a.csv: ", message_of(an_error()), " Look at it.")
    assert str(outer) == "a.csv: pairs are too long: lower max_length=9. Look at it."
    assert outer.written(lambda argument: argument.name.upper()).startswith("a.csv: PAIRS are")


def test_a_message_is_the_same_after_json() -> None:
    arguments = [
        Argument("max_length"),
        Argument("multi_label", True),
        Argument("text", ..., Table),
        Argument("delimiter", "\t", Table),
        Argument("precision", None),
    ]
    message = Message("a: ", *arguments, ".")
    content = json.loads(json.dumps(message.to_json()))
    assert Message.from_json(content, Table).parts == message.parts


def test_a_suffix_is_removed_from_the_words_alone() -> None:
    message = Message("pass ", Argument("label"), ".")
    assert message.removesuffix(".").parts == ("pass ", Argument("label"), "")
    assert Message("pass ", Argument("label")).removesuffix("label") == "pass label"


@pytest.mark.parametrize("kind", [FileExistsError, KeyboardInterrupt, ValueError, UserWarning])
def test_any_exception_can_be_made_of_a_message(kind: type[BaseException]) -> None:
    message = Message("a.csv exists: pass ", Argument("force", True))
    assert str(kind(message)) == "a.csv exists: pass force=True"
    assert message_of(kind(message)) is message
    assert str(message_of(kind("plain"))) == "plain"


def test_a_warning_keeps_its_arguments() -> None:
    with pytest.warns(UserWarning, match="^pass force=True$") as caught:
        warn(Message("pass ", Argument("force", True)))
    assert Argument("force", True) in message_of(caught[0].message).parts  # type: ignore[arg-type]
    advice = Message("The limit is ", Argument("max_length"), ".")
    warning = TruncationWarning(1, 2, 9, advice)
    assert Argument("max_length") in message_of(warning).parts
    assert str(warning).endswith("truncated. The limit is max_length.")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_message_survives_a_process(copied) -> None:
    message = Message("lower ", Argument("max_length", 9), ", or drop ", Argument("pairs"), ".")
    assert copied(message) == message and copied(message).parts == message.parts
