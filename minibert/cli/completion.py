"""`minibert completion`: completion of commands and options by the shell."""

from __future__ import annotations

import argparse

from minibert.cli.parser import Parser
from minibert.extras import need

SUMMARY = "Print a script with which bash, zsh or fish completes commands and options."
EXAMPLE = "bash"


def add(parser: Parser) -> None:
    parser.add_argument(
        "shell", choices=["bash", "zsh", "fish"], metavar="SHELL", help="Shell: bash, zsh or fish."
    )


def run(options: argparse.Namespace) -> None:
    shtab = need("shtab", "completion", "minibert completion")
    print(shtab.complete(options.root_parser, shell=options.shell))
