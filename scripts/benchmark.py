"""Runs minibert and its peers side by side, prints the ratios and writes them as JSON.

    python scripts/benchmark.py                          every section (about 30 minutes)
    python scripts/benchmark.py start tokenizer          these only
    python scripts/benchmark.py --out results.json --markdown results.md --plot results.png

Everything runs in one process with two threads, taking turns; a ratio above 1 means that minibert is faster. Absolute
times say little on a shared machine. The peers come with `pip install -c constraints.txt '.[test]' openvino==2026.4.1`, and a folder
of data is named by MINIBERT_DATA. A section whose needs are not met is left out, with a sentence that says so:

    start       transformers
    tokenizer   transformers, tokenizers, MiniLM; data: sst2, stsb, wikitext2, korsts, kcbert-base
    encoder     transformers, onnx, onnxruntime, openvino, a C++ compiler for the row of torch.compile; no data
    embedder    sentence-transformers, MiniLM; data: stsb
    training    transformers, MiniLM; data: sst2
    serve       sentence-transformers, openvino, fastapi, MiniLM; data: stsb; nine minutes for each number of clients
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import minibert
from minibert.inference.kernels import processor_features

# section -> module and function; each function gives rows as `timing.row` makes them, one at a time
SECTIONS = {
    "start": ("bench.start", "start"),
    "tokenizer": ("bench.tokenizer", "tokenizer_speed"),
    "encoder": ("bench.encoder", "encoder_speed"),
    "embedder": ("bench.embedder", "embedder_speed"),
    "training": ("bench.training", "training_speed"),
    "serve": ("bench.serve", "serving_speed"),
}


def main() -> None:
    """Runs the sections that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--markdown", type=Path, help="write the ratios as a table for the README")
    parser.add_argument("--plot", type=Path, help="draw the ratios (PNG; needs matplotlib)")
    options = parser.parse_args()
    if unknown := set(options.sections) - SECTIONS.keys():
        parser.error(f"there is no section {min(unknown)}; there are {', '.join(SECTIONS)}")
    torch.set_num_threads(options.threads)

    results: dict[str, Any] = {"machine": machine(options.threads)}
    for section in options.sections or SECTIONS:
        results[section] = []
        for entry in rows_of(section):
            results[section].append(entry)
            print(line(entry), flush=True)
    if options.out:
        options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(markdown(results), encoding="utf-8")
    if options.plot:
        plot(results, options.plot)


def rows_of(section: str) -> Iterator[dict[str, Any]]:
    """The rows of a section as they are measured; one that says why, where it cannot be."""
    module, function = SECTIONS[section]
    try:
        yield from getattr(importlib.import_module(module), function)()
    except ModuleNotFoundError as error:
        yield {
            "skipped": f"{section} needs {error.name}: pip install -c constraints.txt '.[test]' openvino==2026.4.1"
        }
    except FileNotFoundError as error:
        if error.filename is None:  # no file of the data: something else has gone wrong
            raise
        yield {
            "skipped": f"{section} needs {error.filename}: set MINIBERT_DATA to the folder that holds the data"
        }


def machine(threads: int) -> dict[str, Any]:
    """What the figures were measured on."""
    names = (
        "torch",
        "transformers",
        "tokenizers",
        "sentence_transformers",
        "onnxruntime",
        "openvino",
    )
    versions = {"minibert": minibert.__version__}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "cpu": processor(),
        "threads": threads,
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "versions": versions,
    }


def processor() -> str:
    """The processor's name, and which of the instructions that matter here it has."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    wanted = {"avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8"}
    return f"{name} ({', '.join(sorted(wanted & processor_features())) or platform.machine()})"


def markdown(results: dict[str, Any]) -> str:
    """The ratios as a table, one row for each piece of work and peer."""
    machine = results["machine"]
    versions = ", ".join(
        f"{name} {version}" for name, version in machine["versions"].items() if version
    )
    lines = [
        f"Measured on {machine['date']} on {machine['cpu']}, {machine['threads']} threads, with "
        f"Python {machine['python']}, {versions}.",
        "",
    ]
    lines += ["| work | against | ratio | section |", "|---|---|---:|---|"]
    for section, entries in results.items():
        for entry in entries if section != "machine" else []:
            if "ratio" in entry:
                lines.append(
                    f"| {entry['work']} | {entry['peer']} | {entry['ratio']:.2f}x | `{section}` |"
                )
    return "\n".join(lines) + "\n"


def line(entry: dict[str, Any]) -> str:
    """One row for people."""
    if "ratio" not in entry:
        return "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{value}"
            for name, value in entry.items()
        )
    target = f"  (at least {entry['target']:g}x)" if entry.get("target") else ""
    more = {
        k: v
        for k, v in entry.items()
        if k not in ("work", "ours_ms", "peer", "peer_ms", "ratio", "target")
    }
    rest = "".join(
        f"  {name} {value:.6g}" if isinstance(value, float) else f"  {name} {value}"
        for name, value in more.items()
    )
    return (
        f"{entry['work']}: {entry['ratio']:.2f}x {entry['peer']}{target}"
        f"  [{entry['ours_ms']:.4g} ms against {entry['peer_ms']:.4g} ms]{rest}"
    )


def plot(results: dict[str, Any], path: Path) -> None:
    """A bar for each ratio, and a mark where it should at least be."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    entries = [
        e for section, rows in results.items() if section != "machine" for e in rows if "ratio" in e
    ][::-1]
    figure, axes = plt.subplots(figsize=(10, 0.42 * len(entries) + 1.2))
    axes.barh(range(len(entries)), [e["ratio"] for e in entries], color="#3b6ea8")
    for i, entry in enumerate(entries):
        if entry.get("target"):
            axes.plot([entry["target"]] * 2, [i - 0.4, i + 0.4], color="#c0392b", linewidth=2)
        axes.text(entry["ratio"], i, f" {entry['ratio']:.2f}x", va="center", fontsize=8)
    axes.set_yticks(
        range(len(entries)), [f"{e['work']}  |  {e['peer']}" for e in entries], fontsize=7
    )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times as fast as the peer (red: target)")
    axes.margins(x=0.1)
    figure.tight_layout()
    figure.savefig(path, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
