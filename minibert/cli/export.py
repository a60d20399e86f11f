"""`minibert export`: a model as an ONNX graph, which runs without torch."""

from __future__ import annotations

import argparse

from minibert.cli.common import UsageError, report, source_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="MODEL", help="folder, bundled model or Hub id")
    parser.add_argument("folder", metavar="OUT", help="where to write; it should not exist yet")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "int8"])
    parser.add_argument(
        "--heads", action="store_true", help="the heads of a model that also makes vectors"
    )


def run(options: argparse.Namespace) -> None:
    if not options.folder:
        raise UsageError("the folder to write has no name.")
    source = source_of(options)
    from minibert.serving.export import export

    done = export(source, options.folder, options.precision, options.heads)
    sentence = (
        f"{done.kind} written to {options.folder}; held against torch, its numbers differ by at most\n"
        f"{done.difference:.1e} of the largest one, and the smallest cosine is {done.cosine:.6f}."
    )
    report(
        options,
        {"folder": options.folder, "precision": options.precision, **done._asdict()},
        sentence,
    )
