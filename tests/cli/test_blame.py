"""Which option an error blames: that of its argument, whatever files and columns are called.

Every command is tried with every name that an option has.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minibert
from minibert.cli import build_parser, main
from minibert.cli.messages import option_of
from minibert.cli.parser import Parser
from minibert.cli.running import end_failed
from minibert.tasks.sequence import SequenceTask
from minibert.text import Table, read
from minibert.util.errors import Argument, ArgumentError, message_of
from minibert.vectors.folder import open_vectors

PACKAGE = Path(minibert.__file__).parent


@cache
def parsers() -> dict[str, Parser]:
    """The parser of each command, and of each task of finetune."""

    def walk(parser: Parser, name: str) -> Iterator[tuple[str, Parser]]:
        if not parser.commands:
            yield name, parser
        for command, child in parser.commands.items():
            yield from walk(child, f"{name} {command}".strip())

    return dict(walk(build_parser(), ""))


COMMANDS = list(parsers())


def names_of(parser: Parser) -> set[str]:
    """What the options of a command are called, in Python and at the command line."""
    names = set()
    for flag, action in parser.options_by_name().items():
        if flag.startswith("--"):
            names |= {flag[2:], flag[2:].replace("-", "_"), action.dest}
            names.add(getattr(action, "field", action.dest))
    return names


NAMES = sorted(set().union(*map(names_of, parsers().values())))


def printed(error: Exception, command: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """What a command says about an error, and its exit code."""
    code = end_failed(command, error, argparse.Namespace(parser=parsers()[command]))
    return capsys.readouterr().err.removeprefix(f"{command}: ").rstrip("\n"), code


# --- errors about a file, a folder or a column with a name


def no_file(name: str) -> Any:
    return list(read(name))


def a_folder_without_files(name: str) -> Any:
    Path(name).mkdir()
    return list(read(name))


def a_file_of_another_encoding(name: str) -> Any:
    Path(name).write_bytes("안녕".encode("cp949"))
    return list(read(name))


def a_file_without_the_column(name: str) -> Any:
    Path(name).write_text("a text\n", encoding="utf-8")
    return list(read(name, Table("sentence")))


def another_column(name: str) -> Any:
    Path("table.csv").write_text(f"{name},another\n1,2\n", encoding="utf-8")
    return list(read("table.csv", Table("sentence")))


def a_missing_column(name: str) -> Any:
    Path("table.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    return list(read("table.csv", Table(name)))


def a_column_that_is_no_text(name: str) -> Any:
    Path("table.jsonl").write_text(f'{{"{name}": 3}}\n', encoding="utf-8")
    return list(read("table.jsonl", Table(name)))


def a_column_that_is_no_number(name: str) -> Any:
    Path("table.csv").write_text(f"text,{name}\na,b\n", encoding="utf-8")
    return SequenceTask(Table(label=name), regression=True).read("table.csv")


def vectors_that_are_none(name: str) -> Any:
    Path(name).touch()
    return open_vectors(name)


def a_folder_without_vectors(name: str) -> Any:
    Path(name).mkdir()
    return open_vectors(name)


def vectors_of_another_shape(name: str) -> Any:
    np.save(f"{name}.npy", np.zeros(3, np.float32))
    return open_vectors(f"{name}.npy")


def no_model(name: str) -> Any:
    return minibert.BertModel.from_pretrained(f"./{name}")


def a_model_without_a_config(name: str) -> Any:
    Path(name).mkdir()
    return minibert.BertModel.from_pretrained(name)


def a_damaged_model(name: str) -> Any:
    Path(name).mkdir()
    Path(name, "config.json").write_text("{", encoding="utf-8")
    return minibert.BertModel.from_pretrained(name)


SOURCES: list[Callable[[str], Any]] = [
    no_file,
    a_folder_without_files,
    a_file_of_another_encoding,
    a_file_without_the_column,
    another_column,
    a_missing_column,
    a_column_that_is_no_text,
    a_column_that_is_no_number,
    vectors_that_are_none,
    a_folder_without_vectors,
    vectors_of_another_shape,
    no_model,
    a_model_without_a_config,
    a_damaged_model,
]


@pytest.mark.parametrize("source", SOURCES)
def test_what_has_the_name_of_an_option_makes_no_option_blamed(
    source: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The names of the commands' options against one that no option has."""
    for name in NAMES:
        errors = []
        for called in (name, "zzz"):
            folder = tmp_path / f"{name}-{called}"
            folder.mkdir()
            monkeypatch.chdir(folder)
            with pytest.raises((ValueError, OSError)) as caught:
                source(called)
            errors.append(caught.value)
        error, of_another_name = errors
        assert name in str(error)
        # the options that are advised do not depend on the name
        advised = [part for part in message_of(error).parts if isinstance(part, Argument)]
        for command, parser in parsers().items():
            sentence, code = printed(error, command, capsys)
            expected, expected_code = printed(of_another_name, command, capsys)
            assert code == expected_code == 1, (name, command, sentence)
            assert flags(sentence) == flags(expected), (name, command, sentence)
            assert len(flags(sentence)) <= len(advised)
            assert parser.options_by_name().keys() >= set(flags(sentence))


def flags(sentence: str) -> list[str]:
    """The options that a sentence names, but for those in the line of another command."""
    words = re.sub(r"minibert \w+( --[\w-]+( [A-Z]\S*)?)+", "", sentence).split()
    return [match[0] for word in words if (match := re.match(r"--[a-z][a-z-]+", word))]


@pytest.mark.parametrize("name", sorted(names_of(parsers()["search"])))
def test_a_file_of_vectors_has_any_name(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts").write_text("I love Korea.\n", encoding="utf-8")
    Path(name).write_text("I love Korea.\n", encoding="utf-8")
    command = ["search", "hello", "--corpus", "texts", "--vectors", name]
    assert main([*command, "--model", "minibert-tiny", "--offline"]) == 1
    error = capsys.readouterr().err
    assert f"minibert search: {name} should be a folder of shards" in error


# --- errors about an argument

# options that do not have the name of their argument
OTHER_FLAGS = {
    ("negative_columns", None): "--negative-column",
    ("next_sentence", False): "--no-next-sentence",
    ("resume", "with other data"): "--resume-with-other-data",
    ("normalize", False): "--no-normalize",
}


@cache
def arguments_of_errors() -> dict[str, list[str]]:
    """The arguments that the errors of the package are about, with the places that raise them."""
    places: dict[str, list[str]] = {}
    checks = {"ArgumentError", "check_count", "check_flag", "Argument"}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in checks:
                continue
            if len(node.args) > 2 and getattr(node.func, "id", "") == "Argument":
                continue  # a field of a class
            if node.args and isinstance(node.args[0], ast.Constant):
                places.setdefault(node.args[0].value, []).append(f"{path.name}:{node.lineno}")
    return places


def test_the_package_has_errors_about_arguments() -> None:
    assert {"max_length", "layers", "warmup", "held_out", "resume"} <= arguments_of_errors().keys()
    assert len(arguments_of_errors()) > 90


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_about_an_argument_names_its_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = parsers()[command]
    options = parser.options_by_name()
    known = {action.dest for flag, action in options.items() if flag.startswith("--")}
    for name in arguments_of_errors():
        sentence, code = printed(ArgumentError(name, "is wrong."), command, capsys)
        if name not in known:
            assert (sentence, code) == (f"{name} is wrong.", 1)
            continue
        flag, _, rest = sentence.partition(" ")
        assert (rest, code) == ("is wrong.", 2)
        assert options[flag].dest == name
        plain = "--" + name.replace("_", "-")
        assert flag in {plain, OTHER_FLAGS.get((name, None)), f"--no-{plain[2:]}"}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_of_a_file_is_that_of_its_field(command: str) -> None:
    parser = parsers()[command]
    for flag, action in parser.options_by_name().items():
        if getattr(action, "kind", None) is Table:
            argument = Argument(action.field, owner=Table)
            assert option_of(argument, parser) == flag


# --- nothing in the package writes an argument as if it were a word

_SUBJECT = re.compile(r"([a-z]+(?:_[a-z]+)*) (?:should|is|are|has no effect)\b")
_ADVICE = re.compile(r"\b(?:[Pp]ass|larger|lower|smaller|drop|by) ([a-z]+(?:_[a-z]+)+)\b")
_SWITCH = re.compile(r"(?<![\w./\\-])([a-z_]+)=(?:True|False)\b")
_OF_TABLE = re.compile(r"\bTable\((\w+)=")
# calls of functions that no command makes, and keys of files
_NOT_OF_COMMANDS = {"model should", "texts should", "corpus should", "label should"}


def sentences() -> Iterator[tuple[str, str]]:
    """The place and the words of each string inside a `raise`, a `warn` or a Message."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name == "cli":  # which names options itself
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_warning = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "warn"
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                if getattr(node.exc.func, "id", "") in ("TypeError", "AttributeError"):
                    continue  # mistakes of code, which a command does not make
                arguments = node.exc.args
            elif is_warning:
                arguments = node.args
            else:
                continue
            for argument in arguments:
                for text in ast.walk(argument):
                    if isinstance(text, ast.JoinedStr):
                        parts = [getattr(part, "value", "{}") for part in text.values]
                        yield f"{path}:{node.lineno}", "".join(map(str, parts))
                    elif isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield f"{path}:{node.lineno}", text.value


def test_every_argument_of_a_message_stands_apart() -> None:
    dests = {
        action.dest
        for parser in parsers().values()
        for flag, action in parser.options_by_name().items()
        if flag.startswith("--")
    }
    wrong = []
    for place, text in sentences():
        names = [*_ADVICE.findall(text), *_SWITCH.findall(text)]
        if subject := _SUBJECT.match(text):
            names.append(subject[1])
        if _OF_TABLE.search(text) or dests & set(names):
            wrong.append(f"{place}: {text}")
    assert not wrong, "write an ArgumentError or a Message (minibert/util/errors.py)"
