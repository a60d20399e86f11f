"""Measures start-up: importing, loading a base-size checkpoint, and memory after loading."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.timing import interleaved, row

from minibert import BertConfig, BertModel

OURS = "from minibert import BertModel, BertTokenizer"
MEMORY = """if True:
    import sys, minibert
    from minibert import BertModel, BertConfig
    def resident():
        return int(open("/proc/self/statm", "rb").read().split()[1]) * 4096 / 1e6
    BertModel(BertConfig.from_preset("tiny"))
    before = resident()
    model = BertModel.from_pretrained(sys.argv[1])
    print(resident() - before)
"""


def start() -> list[dict[str, Any]]:
    """Returns rows about importing and loading."""
    with tempfile.TemporaryDirectory() as folder:
        BertModel(BertConfig.from_preset("base")).save_pretrained(folder)
        return [*importing(), loading(folder), memory(folder)]


def importing(repeats: int = 7) -> list[dict[str, Any]]:
    """Times processes that import minibert, its model and tokenizer, torch or transformers."""

    def process(code: str) -> Callable[[], Any]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    times = interleaved(
        {
            "torch": process("import torch"),
            "minibert": process("import minibert"),
            "model": process(OURS),
            "transformers": process("from transformers import BertModel, BertTokenizer"),
        },
        repeats,
    )
    return [
        row(
            "import minibert, time over import torch (at most 1.05)",
            times["minibert"],
            "torch",
            times["torch"],
            None,
        ),
        row(OURS + " (against import torch)", times["model"], "torch", times["torch"], None),
        row(OURS, times["model"], "transformers", times["transformers"], None),
    ]


def loading(folder: str, repeats: int = 31) -> dict[str, Any]:
    """Times loading a base-size safetensors file that is in the page cache."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    times = interleaved(
        {
            "minibert": lambda: BertModel.from_pretrained(folder),
            "transformers": lambda: transformers.BertModel.from_pretrained(folder),
        },
        repeats,
    )
    return row(
        "load a base-size safetensors file",
        times["minibert"],
        "transformers",
        times["transformers"],
        5.0,
    )


def memory(folder: str) -> dict[str, Any]:
    """Measures the resident memory that loading adds in a separate process (Linux)."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, folder], capture_output=True, encoding="utf-8", check=True
    )
    size = Path(folder, "model.safetensors").stat().st_size / 1e6
    return {
        "work": "resident memory that loading adds",
        "ours_mb": float(run.stdout),
        "file_mb": size,
        "most_mb": 30,
    }
