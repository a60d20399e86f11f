"""`minibert convert`: a checkpoint as config.json + model.safetensors with today's names."""

from __future__ import annotations

import argparse
from typing import Any

from minibert.cli.common import UsageError, add_command, print_json, source_of


def add(commands: Any) -> None:
    """Adds the command."""
    summary = "Write a checkpoint as config.json + model.safetensors with today's tensor names."
    parser = add_command(commands, "convert", run, summary)
    parser.add_argument("folder", help="where to write; made when it does not exist")
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"])


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    if not options.folder:
        raise UsageError("the folder to write has no name.")
    source = source_of(options)
    from minibert.auto import load_with_heads

    # the class that has a place for every tensor, whatever the config calls it, so that the head comes along
    model, tokenizer = load_with_heads(source, dtype=options.dtype)
    name, report = type(model).__name__, model.load_report
    assert report is not None
    if report.missing:
        lacking = ", ".join(report.missing)
        raise ValueError(f"{options.model} is not a complete {name}: it lacks {lacking}. Nothing was written.")
    model.save_pretrained(options.folder)
    tokenizer.save_pretrained(options.folder)
    left_out = report.left_out + report.unexpected
    if options.json:
        counts = {"renamed": len(report.renamed), "left_out": left_out}
        return print_json({"folder": options.folder, "architecture": name, **counts})
    print(f"{name} with its tokenizer written to {options.folder} ({len(report.renamed)} tensors renamed).")
    if left_out:
        print(f"Left out, because {name} has no place for them: {', '.join(left_out)}.")
    return None
