"""`minibert view`: a page to walk through the model on one text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from minibert.checkpoints.source import Source
from minibert.cli.common import UsageError, report, source_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", nargs="?", help="may be left out with --run")
    parser.add_argument(
        "--pair", metavar="TEXT", help="a second text, as for next-sentence prediction"
    )
    parser.add_argument(
        "--pad-to",
        type=int,
        metavar="N",
        help="fill with [PAD] to N tokens, to see the mask at work",
    )
    parser.add_argument(
        "--run", metavar="FOLDER", dest="training", help="a run of pretrain --checkpoints to watch"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("-o", "--out", default="page.html", metavar="FILE", help="the page")


def run(options: argparse.Namespace) -> None:
    if options.training is None:
        if options.text is None:
            raise UsageError("give the text to walk through, or --run FOLDER.")
        return write(options, options.out, source_of(options), options.text, options.open)
    from minibert.page.lesson import PROMPT, read_run, snapshots

    source = str(snapshots(options.training)[-1])
    write(
        options,
        options.out,
        source,
        options.text or PROMPT,
        options.open,
        run=read_run(options.training),
    )


def write(
    options: argparse.Namespace, out: str, source: Source | str, text: str, opens: bool, **more: Any
) -> None:
    """Writes a page with what else it shows, says where it is, and opens it if asked to."""
    import webbrowser

    from minibert.page.build import STEPS, write_page
    from minibert.progress import Progress, is_watched

    pair, pad_to = getattr(options, "pair", None), getattr(options, "pad_to", None)
    with Progress(is_watched(), STEPS, "steps") as progress:
        tokens = write_page(out, source, text, pair, pad_to, progress, more)
    address = Path(out).resolve().as_uri()
    sentence = f"{out} written ({tokens} tokens): {address}" + (
        "" if opens else " (--open opens it)"
    )
    report(options, {"page": out, "tokens": tokens, "bytes": Path(out).stat().st_size}, sentence)
    if opens and not webbrowser.open(address):
        raise OSError(f"no browser was found; open {address} in one.")
