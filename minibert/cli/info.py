"""`minibert info`: a checkpoint's config, tensors, and what loading it does; the curves of a training run."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Sequence
from pathlib import Path

from minibert.cli.common import UsageError, checkpoint_name, print_json, source_of
from minibert.files import parse_json, read_lines

Curves = dict[str, tuple[list[int], list[float]]]
_NOT_DRAWN = ("step", "epoch", "tokens", "seconds_left", "memory_mb", "precision", "recall")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="MODEL",
        help="the same as --model, or the folder of a training run",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the curves of a run into this file (.png, .svg, .pdf)"
    )


def run(options: argparse.Namespace) -> None:
    folder = Path(checkpoint_name(options))
    curves = read_curves(folder / "log.jsonl")
    if options.plot:
        if not curves:
            raise UsageError(
                "--plot draws the curves of a training run, which this is not: it has no log.jsonl."
            )
        plot_curves(curves, options.plot)
        return print(f"The curves are in {options.plot}.")
    if not curves or (folder / "config.json").is_file():
        _show_model(options, curves)
    elif options.json:
        print_json({"curves": curves})
    if not options.json:
        for name, (steps, values) in curves.items():
            print(f"\n{draw_curve(name, steps, values)}")
    return None


def _show_model(options: argparse.Namespace, curves: Curves) -> None:
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
        content = {
            "config": config,
            "parameters": model.num_parameters(),
            "tensors": tensors,
            "load_report": report,
        }
        content |= {"curves": curves} if curves else {}
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


def read_curves(log: Path) -> Curves:
    """Steps and values of everything that a training run has measured, by its name; nothing where there is no log."""
    curves: Curves = {}
    for number, line in enumerate(read_lines(log) if log.is_file() else [], 1):
        record = parse_json(line, f"{log}, line {number}", dict)
        for name, value in record.items():
            if name not in _NOT_DRAWN and isinstance(value, int | float) and math.isfinite(value):
                steps, values = curves.setdefault(name, ([], []))
                steps.append(record.get("step", number))
                values.append(value)
    return curves


def draw_curve(
    name: str, steps: Sequence[int], values: Sequence[float], width: int = 60, height: int = 8
) -> str:
    """A curve in lines of text: the mean of the values in each column, the lowest and the highest written beside it."""
    columns: dict[int, list[float]] = {}
    for step, value in zip(steps, values, strict=True):
        columns.setdefault(
            (step - steps[0]) * (width - 1) // max(1, steps[-1] - steps[0]), []
        ).append(value)
    means = {column: sum(found) / len(found) for column, found in columns.items()}
    low, high = min(means.values()), max(means.values())
    rows = {
        column: round((mean - low) / ((high - low) or 1) * (height - 1))
        for column, mean in means.items()
    }
    lines = [name]
    for row in reversed(range(height)):
        label = {height - 1: f"{high:.4g}", 0: f"{low:.4g}"}.get(row, "")
        lines.append(
            f"{label:>10} | "
            + "".join("*" if rows.get(x) == row else " " for x in range(width)).rstrip()
        )
    return "\n".join(
        [*lines, f"{'step':>10}   {steps[0]:,}{steps[-1]:>{width - len(f'{steps[0]:,}')},}"]
    )


def plot_curves(curves: Curves, path: str) -> None:
    """Draws each curve into a panel of one picture."""
    from minibert.extras import need

    columns, rows = min(2, len(curves)), -(-len(curves) // 2)
    figure = need("matplotlib.figure", "plot", "Drawing curves").Figure(
        figsize=(5 * columns, 2.5 * rows), layout="constrained"
    )
    for number, (name, (steps, values)) in enumerate(curves.items(), 1):
        axes = figure.add_subplot(rows, columns, number)
        axes.plot(steps, values, marker="." if len(steps) < 30 else "")
        axes.set(title=name, xlabel="step")
    figure.savefig(path)
