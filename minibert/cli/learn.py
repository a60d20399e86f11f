"""`minibert learn`: an article in ten scenes beside a model that computes, in one file."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from minibert.cli.common import source_of
from minibert.cli.view import write


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", metavar="FILE", help="write it there, and do not open it")
    parser.add_argument("--open", action="store_true", help="open it even so")


def run(options: argparse.Namespace) -> None:
    from minibert.page.lesson import FIRST_TEXT, article

    out = options.out or str(Path(tempfile.mkdtemp(prefix="minibert-"), "learn.html"))
    write(
        options, out, source_of(options), FIRST_TEXT, options.open or not options.out, **article()
    )
