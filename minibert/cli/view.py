"""`minibert view`: a page to walk through the model on one text."""

from __future__ import annotations

import argparse
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source
from minibert.cli.loading import source_of
from minibert.cli.options import add_json, add_model, add_output_file
from minibert.cli.parser import Parser
from minibert.cli.results import UsageError, claim_file, report

SUMMARY = "Write a page to walk through the model on one text."
EXAMPLE = '"I love Korea" --output page.html'


def add(parser: Parser) -> None:
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", help="Text to walk through. Optional with --run."
    )
    add_model(parser)
    parser.add_argument(
        "--pair", metavar="TEXT", help="Second text, as for next-sentence prediction."
    )
    parser.add_argument(
        "--pad-to",
        type=int,
        metavar="N",
        help="Number of tokens to pad to with [PAD], which shows the mask at work.",
    )
    parser.add_argument(
        "--run",
        metavar="DIR",
        dest="training",
        help="Folder of a run of minibert pretrain --checkpoints, whose snapshots are shown.",
    )
    add_page_options(parser)


def add_page_options(parser: Parser) -> None:
    """Options of a command that writes a page."""
    add_output_file(parser, "Page to write. Default: a temporary file, opened in a browser.")
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        help="Open the page in a browser. Default: only at a terminal, without --output.",
    )
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    if options.training is None:
        if options.text is None:
            raise UsageError("give the text to walk through, or --run FOLDER.")
        write(options, source_of(options), options.text)
        return
    from minibert.learn.lesson import PROMPT, read_run, snapshots

    source = str(snapshots(options.training)[-1])
    write(options, source, options.text or PROMPT, run=read_run(options.training))


def write(options: argparse.Namespace, source: Source | str, text: str, **more: Any) -> None:
    """Writes a page with what else it shows, reports where it is, and opens it if it should."""
    path = options.output
    if path is None:
        path = str(Path(tempfile.mkdtemp(prefix="minibert-"), f"{options.command}.html"))
    claim_file(path, options.force)
    from minibert.learn.build import STEPS, write_page
    from minibert.progress import Progress, is_watched

    pair = getattr(options, "pair", None)
    pad_to = getattr(options, "pad_to", None)
    with Progress(is_watched(), STEPS, "steps") as progress:
        tokens = write_page(path, source, text, pair, pad_to, progress, more)
    opens = options.open
    if opens is None:
        opens = options.output is None and sys.stdout.isatty()
    address = Path(path).resolve().as_uri()
    hint = "" if opens else " (--open opens it)"
    content = {"output": path, "tokens": tokens, "bytes": Path(path).stat().st_size}
    report(options, content, f"{path} written ({tokens} tokens): {address}{hint}")
    if opens and not webbrowser.open(address):
        raise OSError(f"no browser was found. Open {address} in one.")
