"""Codes of vectors, a byte or a bit for each number, by which `nearest` chooses the vectors that it compares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minibert.files import replacing
from minibert.sentences.quantization import Codes, to_bits, to_bytes
from minibert.sentences.rows import Vectors

_ROWS = 16384  # that are read at a time
CODES: dict[str, Callable[[Vectors], Codes]] = {"int8": to_bytes, "binary": to_bits}


def kept_codes(vectors: Any, folder: Path, kind: str) -> Codes:
    """The codes of a corpus (N, D), mapped from its folder, where they are made if there are none as new as its index.

    Raises:
        ValueError: `kind` is not one of `CODES`.
        ImportError: bits are to be counted, and NumPy is older than version 2.
        OSError: they cannot be written.
    """
    if kind not in CODES:
        raise ValueError(f"codes should be one of {', '.join(CODES)}, not {kind!r}.")
    if kind == "binary" and not hasattr(np, "bitwise_count"):
        raise ImportError("counting the bits of binary codes needs NumPy 2: pip install -U numpy")
    path = folder / f"{kind}.npy"
    if not path.exists() or path.stat().st_mtime < (folder / "index.json").stat().st_mtime:
        with replacing(path) as temporary:
            some = CODES[kind](vectors[:0])
            codes = np.lib.format.open_memmap(temporary, "w+", some.dtype, (len(vectors), some.shape[1]))
            for start in range(0, len(vectors), _ROWS):
                codes[start : start + _ROWS] = CODES[kind](vectors[start : start + _ROWS])
            del codes  # closes the file
    found: Codes = np.load(path, mmap_mode="r")
    return found
