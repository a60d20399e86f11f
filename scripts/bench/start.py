"""Measures start-up: importing, loading a base-size checkpoint, and memory after loading."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.timing import added_memory, interleaved, row

from minibert import BertConfig, BertModel

OURS = "from minibert import BertModel, BertTokenizer"


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
    """Measures the resident memory that loading adds."""
    return {
        "work": "resident memory that loading adds",
        "ours_mb": added_memory(folder, "exact"),
        "file_mb": Path(folder, "model.safetensors").stat().st_size / 1e6,
        "most_mb": 30,
    }
