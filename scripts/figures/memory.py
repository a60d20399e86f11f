"""Draws docs/figures/memory.png: resident memory over batches of random lengths (Linux).

    pip install -c constraints.txt '.[plot,test]'
    python scripts/figures/memory.py FOLDER

FOLDER is a copy of all-MiniLM-L6-v2. It takes two minutes. Each curve is measured in its own
process with one thread, by `scripts/bench/memory_of_batches.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from matplotlib.figure import Figure

HERE = Path(__file__).parent
FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
LINES = {
    ("model", "fp32"): ("minibert fp32", "#3b6ea8", "-"),
    ("model", "bf16"): ("minibert bf16", "#3f9156", "-"),
    ("model", "int8"): ("minibert int8", "#8a5ab0", "-"),
    ("sentence-transformers", "plain"): ("sentence-transformers fp32", "#c0392b", "--"),
    ("sentence-transformers", "bf16"): ("sentence-transformers bf16", "#e08e0b", "--"),
    ("fastembed", "plain"): ("fastembed fp32", "#666b76", "--"),
}


def curve(work: str, precision: str, folder: str, batches: int) -> dict[int, int]:
    """Returns the MB by number of batches, or {} if the library of the work is not installed."""
    command = [
        sys.executable,
        HERE.parent / "bench" / "memory_of_batches.py",
        work,
        precision,
        folder,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    run = subprocess.run(
        [*command, f"--batches={batches}"],
        env=environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    print(run.stdout.strip() or f"{work}, {precision}: not measured", flush=True)
    return {int(number): mb for number, mb in json.loads(run.stdout or '{"MB": {}}')["MB"].items()}


def main() -> None:
    """Measures the memory and draws the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="Folder of all-MiniLM-L6-v2.")
    parser.add_argument(
        "--fastembed", help="Folder for fastembed, whose model.onnx returns hidden states."
    )
    parser.add_argument("--batches", type=int, default=600, help="Number of batches.")
    parser.add_argument("--out", type=Path, default=FIGURES / "memory.png", help="PNG file.")
    options = parser.parse_args()
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for (work, precision), (name, color, style) in LINES.items():
        folder = options.fastembed if work == "fastembed" else options.folder
        points = curve(work, precision, folder, options.batches) if folder else {}
        if points:
            axes.plot(
                list(points),
                list(points.values()),
                style,
                color=color,
                label=name,
                marker="o",
                markersize=3,
            )
    axes.set(
        xlabel="batches of 1 to 4 texts of random lengths",
        ylabel="resident memory, MB",
        ylim=(0, None),
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2)
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
