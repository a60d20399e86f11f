"""Vectors with fewer bits for each number, as sentence-transformers makes them."""

from typing import Any

import numpy as np

from minibert.sentences.rows import Vectors

Codes = np.ndarray[Any, Any]

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")


def quantize(vectors: Vectors, precision: str, ranges: Vectors | None = None) -> Codes:
    """Vectors (N, D) in another precision.

    Args:
        vectors: (N, D) float32.
        precision: "uint8" cuts the range of each of the D numbers into 256 steps, and "int8" is the same less 128;
            "ubinary" keeps a bit of each, 1 above 0, and puts eight into a byte, and "binary" is the same less 128.
        ranges: the smallest and the largest of each number, (2, D), for "int8" and "uint8"; None: those of `vectors`.

    Raises:
        ValueError: a single vector, which has no ranges.
    """
    if precision == "float32":
        return vectors
    if precision in ("binary", "ubinary"):
        bits = np.packbits(vectors > 0, axis=-1)
        return bits if precision == "ubinary" else (bits ^ 128).view(np.int8)
    if ranges is None and len(vectors) == 1:
        raise ValueError(
            f"a single vector has no ranges for {precision}: encode many texts together, or pass ranges."
        )
    if ranges is None:
        ranges = (
            np.stack([vectors.min(axis=0), vectors.max(axis=0)])
            if len(vectors)
            else np.zeros((2, 1), np.float32)
        )
    steps = (ranges[1] - ranges[0]) / 255
    cells = np.clip(np.floor((vectors - ranges[0]) / np.where(steps == 0, 1, steps)), 0, 255)
    found: Codes = cells.astype(np.uint8) if precision == "uint8" else (cells - 128).astype(np.int8)
    return found
