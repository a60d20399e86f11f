"""`minibert verify`: a checkpoint compared with transformers, layer by layer."""

from __future__ import annotations

import argparse

from minibert.cli.loading import check_device, source_of
from minibert.cli.options import add_device, add_json, add_model
from minibert.cli.parser import Parser
from minibert.cli.results import print_json

SUMMARY = "Compare a checkpoint with transformers, layer by layer."
EXAMPLE = "--model bert-base-uncased"


def add(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument(
        "--text",
        action="append",
        metavar="TEXT",
        help="Text to compare on, instead of the built-in ones. May be repeated.",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="X",
        help="Largest difference allowed (0: equal bits).",
    )
    add_device(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    source = source_of(options)
    from minibert.extras import need
    from minibert.progress import Progress, is_watched

    need("transformers", "parity", "Comparing with the reference")  # before torch, which is slow
    device = check_device(options.device)
    from minibert.study.verify import STEPS, TEXTS, verify

    with Progress(is_watched(), STEPS, "steps") as progress:
        result = verify(source, options.text or TEXTS, device=device, progress=progress)
    passed = result.passed(options.tolerance)
    if options.json:
        print_json({"output": result.to_dict(options.tolerance)})
    else:
        print(result)
        print(f"{'passed' if passed else 'FAILED'}: tolerance {options.tolerance:g}")
    return 0 if passed else 1
