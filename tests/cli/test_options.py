"""What the options of the command line make of values."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from minibert.cli import build_parser
from minibert.cli.options import options_in_lines
from minibert.cli.parser import Parser
from minibert.util.checks import option


def parser_of(command: str) -> Parser:
    parser: Parser = build_parser().parse_args(command.split()).parser
    return parser


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
