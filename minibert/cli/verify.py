"""`minibert verify`: a checkpoint against transformers, layer by layer."""

from __future__ import annotations

import argparse

from minibert.cli.common import print_json, source_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="MODEL", help="the checkpoint, as --model names it"
    )
    parser.add_argument(
        "--text", action="append", help="compare on this text, not the built-in (may be repeated)"
    )
    parser.add_argument("--tolerance", type=float, default=0.0, help="largest difference allowed")


def run(options: argparse.Namespace) -> int:
    source = source_of(options)
    from minibert.extras import need
    from minibert.progress import Progress, is_watched

    need(
        "transformers", "parity", "Comparing with the reference"
    )  # before torch: it may be missing
    from minibert.study.verify import STEPS, TEXTS, verify

    with Progress(is_watched(), STEPS, "steps") as progress:
        result = verify(source, options.text or TEXTS, progress=progress)
    passed = result.passed(options.tolerance)
    if options.json:
        print_json(result.to_dict(options.tolerance))
    else:
        print(result)
        print(f"{'passed' if passed else 'FAILED'}: tolerance {options.tolerance:g}")
    return 0 if passed else 1
