"""What the options of the command line make of values, and of errors in Python's words."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from minibert.cli import build_parser
from minibert.cli.options import guessed_options, options_in_lines
from minibert.cli.parser import Parser
from minibert.util.checks import option


def parser_of(command: str) -> Parser:
    parser: Parser = build_parser().parse_args(command.split()).parser
    return parser


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("label_columns are for several labels: drop it.", "--label-columns are for"),
        ("max_length (max_seq_length) is 9 tokens.", "--max-length (max_seq_length) is"),
        ("It is a list: pass multi_label=True.", "pass --multi-label."),
        ("It has no pair: pass pair_column.", "pass --pair-column."),
        ("The loss is nan: lower learning_rate, and look.", "lower --learning-rate, and"),
        ("Pass Table(encoding='cp949').", "Pass --encoding cp949."),
        ('Name it by Table(text="O\'Text").', 'by --text-column "O\'Text".'),
    ],
)
def test_an_error_names_the_options_of_the_command(sentence: str, expected: str) -> None:
    parser = parser_of("finetune classification --model m --train a.csv --output o")
    assert expected in guessed_options(sentence, parser)


@pytest.mark.parametrize(
    "sentence",
    [
        "a.csv: there is no column 'text'. The columns are id, max_length, label_columns.",
        "there is no file max_length, and no folder with files in it.",
        "a.csv: there is no column \"Table(sep='x')\".",
    ],
)
def test_names_of_files_and_columns_stay_as_they_are(sentence: str) -> None:
    parser = parser_of("finetune classification --model m --train a.csv --output o")
    assert guessed_options(sentence, parser) == sentence


@pytest.mark.parametrize("names", ["a,b,", ",a", "a,,b", ""])
def test_a_list_of_columns_has_no_empty_name(
    names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser_of(f"evaluate m a.csv --label-columns={names}")
    assert f"{names!r} is not names with commas between them" in capsys.readouterr().err


def test_a_switch_among_options_in_lines_has_no_value() -> None:
    @dataclass
    class Options:
        loud: bool = option(False, "Say it aloud.")

    assert options_in_lines(Options, "loud").split() == ["--loud", "Say", "it", "aloud"]
