"""`minibert view`: a page to walk through the model on one text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from minibert.cli.common import add_command, print_json, source_of


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(commands, "view", run, "Write a page to walk through the model on one text.")
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--pair", metavar="TEXT", help="a second text, as for next-sentence prediction")
    parser.add_argument(
        "--pad-to", type=int, metavar="N", help="fill up with [PAD] to N tokens, to see the mask at work"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("-o", "--out", default="page.html", metavar="FILE", help="the page (default: %(default)s)")


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    source = source_of(options)
    import webbrowser

    from minibert.progress import Progress, is_watched
    from minibert.study.page.build import STEPS, write_page

    with Progress(is_watched(), STEPS, "steps") as progress:
        tokens = write_page(options.out, source, options.text, options.pair, options.pad_to, progress)
    address = Path(options.out).resolve().as_uri()
    if options.json:
        print_json({"page": options.out, "tokens": tokens, "bytes": Path(options.out).stat().st_size})
    else:
        print(f"{options.out} written ({tokens} tokens): {address}" + ("" if options.open else " (--open opens it)"))
    if options.open and not webbrowser.open(address):
        raise OSError(f"no browser was found; open {address} in one.")
