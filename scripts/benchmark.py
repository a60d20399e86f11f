"""Compares the speed of minibert with its peers, and prints the ratios.

    python scripts/benchmark.py                     all sections (about 30 minutes)
    python scripts/benchmark.py start tokenizer     some sections
    python scripts/benchmark.py --out results.json --markdown results.md

The candidates take turns in one process with two threads. Above a ratio of 1, minibert is faster.
Absolute times mean little on a shared machine. To install the peers:

    pip install -c constraints.txt '.[test]' openvino==2026.4.1

The environment variable MINIBERT_DATA names the folder of the data sets. A section whose
requirements are missing is skipped with a message. The requirements:

    start       transformers
    tokenizer   transformers, tokenizers, MiniLM
                data: sst2, stsb, wikitext2, korsts, kcbert-base
    encoder     transformers, onnx, onnxruntime, openvino, and a C++ compiler for torch.compile
    embedder    sentence-transformers, MiniLM
                data: stsb
    training    transformers, MiniLM
                data: sst2
    serve       sentence-transformers, openvino, fastapi, MiniLM
                data: stsb (nine minutes for each number of clients)
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

# section -> module and function. Each function returns rows as `timing.row` builds them.
SECTIONS = {
    "start": ("bench.start", "start"),
    "tokenizer": ("bench.tokenizer", "tokenizer_speed"),
    "encoder": ("bench.encoder", "encoder_speed"),
    "embedder": ("bench.embedder", "embedder_speed"),
    "training": ("bench.training", "training_speed"),
    "serve": ("bench.serve", "serving_speed"),
}


def main() -> None:
    """Runs the sections named on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--threads", type=int, default=2, help="Number of threads (default: 2).")
    parser.add_argument("--out", type=Path, help="JSON file for all measurements.")
    parser.add_argument("--markdown", type=Path, help="Markdown file for a table of the ratios.")
    options = parser.parse_args()
    if unknown := set(options.sections) - SECTIONS.keys():
        parser.error(f"unknown section {min(unknown)!r} (choose from {', '.join(SECTIONS)})")
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


def rows_of(section: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a section, or one row with the reason why it is skipped."""
    module, function = SECTIONS[section]
    try:
        yield from getattr(importlib.import_module(module), function)()
    except ModuleNotFoundError as error:
        install = "pip install -c constraints.txt '.[test]' openvino==2026.4.1"
        yield {"skipped": f"{section} needs {error.name}: {install}"}
    except FileNotFoundError as error:
        if error.filename is None:  # not raised for a missing data file
            raise
        remedy = "set MINIBERT_DATA to the folder of the data sets"
        yield {"skipped": f"{section} needs {error.filename}: {remedy}"}


def machine(threads: int) -> dict[str, Any]:
    """Describes the machine and the versions of the libraries."""
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
    """Returns the name of the processor and its relevant instruction sets."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    relevant = {"avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8"}
    return f"{name} ({', '.join(sorted(relevant & processor_features())) or platform.machine()})"


def markdown(results: dict[str, Any]) -> str:
    """Formats the ratios as a Markdown table."""
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
    """Formats a row as a line of text."""
    if "ratio" not in entry:
        return "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{value}"
            for name, value in entry.items()
        )
    target = f"  (at least {entry['target']:g}x)" if entry.get("target") else ""
    rest = ""
    for name, value in entry.items():
        if name not in ("work", "ours_ms", "peer", "peer_ms", "ratio", "target"):
            rest += f"  {name} {value:.6g}" if isinstance(value, float) else f"  {name} {value}"
    return (
        f"{entry['work']}: {entry['ratio']:.2f}x {entry['peer']}{target}"
        f"  [{entry['ours_ms']:.4g} ms against {entry['peer_ms']:.4g} ms]{rest}"
    )


if __name__ == "__main__":
    main()
