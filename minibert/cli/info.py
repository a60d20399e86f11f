"""`minibert info`: a checkpoint's config, tensors, and what loading it does."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from minibert.cli.common import add_command, print_json, source_of


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(commands, "info", run, "Show a checkpoint's config, tensors and what loading it does.")
    parser.add_argument("name", nargs="?", metavar="MODEL", help="the same as --model")


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    source = source_of(options)
    from dataclasses import asdict

    from minibert.checkpoints.source import DEFAULTS
    from minibert.model import BertModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report below says it all
        model = BertModel.from_pretrained(source)
        for name in DEFAULTS:
            source.file(name)
    assert model.load_report is not None
    report, config = asdict(model.load_report), model.config.to_dict()
    report["assumed_absent"] = [f"{name}: {DEFAULTS[name]}" for name in source.assumed_absent]
    tensors = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    if options.json:
        content = {"config": config, "parameters": model.num_parameters(), "tensors": tensors, "load_report": report}
        return print_json(content)
    print(f"{report.pop('source')}: BERT with {model.num_parameters():,} parameters, {model.dtype}")
    print("\nconfig")
    for name, value in config.items():
        print(f"  {name:<30} {value}")
    print("\ntensors")
    for name, shape in tensors.items():
        print(f"  {name:<60} {' x '.join(map(str, shape))}")
    print("\nloading")
    for group, entries in report.items():
        print(f"  {group.replace('_', ' ')}: {len(entries) or 'none'}")
        for entry in entries:
            print("    " + (entry if isinstance(entry, str) else " -> ".join(map(str, entry))))
    return None
