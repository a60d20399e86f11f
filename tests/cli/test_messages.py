"""What the command line makes of the arguments in messages of Python."""

from __future__ import annotations

import argparse

import pytest

from minibert.cli import build_parser
from minibert.cli.messages import in_options
from minibert.cli.parser import Parser
from minibert.cli.running import end_failed
from minibert.serving.options import Limits
from minibert.text.table import Table
from minibert.util.errors import Argument, ArgumentError, Message


def parser_of(command: str) -> Parser:
    parser = build_parser()
    for name in command.split():
        parser = parser.commands[name]
    return parser


@pytest.mark.parametrize(
    ("command", "argument", "option"),
    [
        ("embed", Argument("max_length"), "--max-length"),
        ("embed", Argument("normalize", True), "--normalize"),
        ("embed", Argument("normalize", False), "--no-normalize"),
        ("embed", Argument("backend", "onnx"), "--backend onnx"),
        ("embed", Argument("text", ..., Table), "--text-column NAME"),
        ("embed", Argument("text", "O'Text", Table), """--text-column 'O'"'"'Text'"""),
        ("embed", Argument("delimiter", "\t", Table), "--delimiter tab"),
        ("embed", Argument("delimiter", "|", Table), "--delimiter '|'"),
        ("embed", Argument("texts"), "texts"),
        ("embed", Argument("label", ..., Table), "Table(label=...)"),
        ("serve", Argument("texts", owner=Limits), "--max-texts"),
        ("serve", Argument("texts"), "texts"),
        ("pretrain", Argument("next_sentence", False), "--no-next-sentence"),
        ("pretrain", Argument("resume", True), "--resume"),
        ("pretrain", Argument("resume", "with other data"), "--resume-with-other-data"),
        ("finetune triplets", Argument("negative_columns"), "--negative-column"),
        ("models", Argument("max_length", 3), "max_length=3"),
    ],
)
def test_a_command_calls_an_argument_by_its_option(
    command: str, argument: Argument, option: str
) -> None:
    assert in_options(Message("pass ", argument), parser_of(command)) == f"pass {option}"


@pytest.mark.parametrize(("command", "code"), [("embed", 2), ("models", 1)])
def test_the_exit_code_says_whether_an_option_is_to_blame(
    command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(parser=parser_of(command))
    assert end_failed(command, ArgumentError("max_length", "is 9."), options) == code
    words = "--max-length is 9." if code == 2 else "max_length is 9."
    assert capsys.readouterr().err == f"{command}: {words}\n"
