"""`minibert info`: describe a checkpoint or a training run.

A checkpoint has a config, tensors and a report of loading it. A training run has curves, too.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import Any

from minibert.cli.loading import source_of
from minibert.cli.options import add_force, add_json, add_model
from minibert.cli.parser import Parser
from minibert.cli.results import UsageError, claim_picture, print_json
from minibert.files import parse_json, read_lines

SUMMARY = "Show a checkpoint's config and tensors, and what loading does to it."
EXAMPLE = "--model bert-base-uncased"
Curves = dict[str, tuple[list[int], list[float]]]
_NOT_DRAWN = ("step", "epoch", "tokens", "seconds_left", "memory_mb", "precision", "recall")


def add(parser: Parser) -> None:
    add_model(
        parser,
        help="Model: a folder, a bundled model or a Hub id (NAME@REVISION), or the folder of a "
        "training run, whose first and last scores are shown.",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="Picture of the curves of a run to write (.png, .svg, .pdf).",
    )
    add_force(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    folder = Path(options.model)
    curves = read_curves(folder / "log.jsonl")
    if options.plot:
        _plot(options, curves)
        return
    if not curves or (folder / "config.json").is_file():
        _show_model(options, curves)
    elif options.json:
        print_json({"output": {"curves": curves}})
    if not options.json:
        for name, (steps, values) in curves.items():
            first, last = f"{values[0]:.4g} at step {steps[0]:,}", f"{values[-1]:.4g}"
            print(f"{name:<16} {first}, {last} at {steps[-1]:,}")


def _plot(options: argparse.Namespace, curves: Curves) -> None:
    if not curves:
        raise UsageError(
            f"--plot draws the curves of a training run, but {options.model} has no log.jsonl."
        )
    claim_picture(options.plot, options.force)
    plot_curves(curves, options.plot)
    if options.json:
        print_json({"output": options.plot})
    else:
        print(f"The curves are in {options.plot}.")


def _show_model(options: argparse.Namespace, curves: Curves) -> None:
    source = source_of(options)
    from dataclasses import asdict

    from minibert.auto import class_for_tensors
    from minibert.checkpoints.source import DEFAULTS
    from minibert.checkpoints.tensors import read_tensors
    from minibert.model import BertModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report below has it all
        model = BertModel.from_pretrained(source)
        with_heads = class_for_tensors(source, read_tensors(source)).from_pretrained(source)
        for name in DEFAULTS:
            source.file(name)
    assert model.load_report is not None
    report = asdict(model.load_report)
    report["assumed_absent"] = [f"{name}: {DEFAULTS[name]}" for name in source.assumed_absent]
    tensors = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    if not options.json:
        print(f"{report.pop('source')}: {_described(model, with_heads)}")
        _print_model(model, tensors, report)
        return
    content = {
        "config": model.config.to_dict(),
        "parameters": model.num_parameters(),
        "class": type(with_heads).__name__,
        "parameters_with_heads": with_heads.num_parameters(),
        "tensors": tensors,
        "load_report": report,
    }
    if curves:
        content["curves"] = curves
    print_json({"output": content})


def _described(model: Any, with_heads: Any) -> str:
    """What the checkpoint holds, and the parameters that model cards count."""
    lines = [
        f"{type(with_heads).__name__}, {model.dtype}",
        f"  {model.num_parameters():,} parameters in the encoder and pooler (BertModel), "
        "listed below",
    ]
    if type(with_heads) is not type(model):
        lines.append(
            f"  {with_heads.num_parameters():,} parameters with the heads, where tensors that are "
            "shared count once"
        )
    return "\n".join(lines)


def _print_model(model: Any, tensors: dict[str, list[int]], report: dict[str, Any]) -> None:
    print("\nconfig")
    for name, value in model.config.to_dict().items():
        print(f"  {name:<30} {value}")
    print("\ntensors")
    for name, shape in tensors.items():
        print(f"  {name:<60} {' x '.join(map(str, shape))}")
    print("\nloading")
    for group, entries in report.items():
        print(f"  {group.replace('_', ' ')}: {len(entries) or 'none'}")
        for entry in entries:
            line = entry if isinstance(entry, str) else " -> ".join(map(str, entry))
            print(f"    {line}")


def read_curves(log: Path) -> Curves:
    """Read the steps and values of each measure of a training run, or empty without a log."""
    curves: Curves = {}
    if not log.is_file():
        return curves
    for number, line in enumerate(read_lines(log), 1):
        record = parse_json(line, f"{log}, line {number}", dict)
        for name, value in record.items():
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if is_number and name not in _NOT_DRAWN:
                steps, values = curves.setdefault(name, ([], []))
                steps.append(record.get("step", number))
                values.append(value)
    return curves


def plot_curves(curves: Curves, path: str) -> None:
    """Draws each curve into a panel of one picture."""
    from minibert.extras import need

    columns = min(2, len(curves))
    rows = -(-len(curves) // 2)
    matplotlib = need("matplotlib.figure", "plot", "Drawing curves")
    figure = matplotlib.Figure(figsize=(5 * columns, 2.5 * rows), layout="constrained")
    for number, (name, (steps, values)) in enumerate(curves.items(), 1):
        axes = figure.add_subplot(rows, columns, number)
        axes.plot(steps, values, marker="." if len(steps) < 30 else "")
        axes.set(title=name, xlabel="step")
    figure.savefig(path)
