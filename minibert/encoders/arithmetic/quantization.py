"""Quantized vectors: fewer bits for each component, as sentence-transformers computes them."""

from typing import Any

import numpy as np

from minibert.encoders.rows.token_rows import Vectors

Codes = np.ndarray[Any, Any]


def quantize(vectors: Vectors, precision: str, ranges: Vectors | None = None) -> Codes:
    """Vectors (N, D) in another precision.

    Args:
        vectors: (N, D) float32.
        precision: "uint8" divides the range of each of the D dimensions into 256 steps. "int8" is
            the same minus 128. "ubinary" keeps one bit of each dimension, 1 above 0, and packs
            eight into a byte. "binary" is the same minus 128.
        ranges: Minimum and maximum of each dimension, (2, D), for "int8" and "uint8". None: those
            of `vectors`.

    Raises:
        ValueError: A single vector, which has no ranges.
    """
    if precision == "float32":
        return vectors
    if precision in ("binary", "ubinary"):
        bits = np.packbits(vectors > 0, axis=-1)
        if precision == "ubinary":
            return bits
        return (bits ^ 128).view(np.int8)
    if ranges is None:
        if len(vectors) == 1:
            raise ValueError(
                f"a single vector has no ranges for {precision}: encode many texts together, or "
                "quantize its float32 vector with the ranges of many, by "
                "minibert.encoders.arithmetic.quantization.quantize(vectors, precision, ranges)."
            )
        ranges = np.zeros((2, 1), np.float32)
        if len(vectors):
            ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
    steps = (ranges[1] - ranges[0]) / 255
    cells = np.clip(np.floor((vectors - ranges[0]) / np.where(steps == 0, 1, steps)), 0, 255)
    quantized: Codes
    if precision == "uint8":
        quantized = cells.astype(np.uint8)
    else:
        quantized = (cells - 128).astype(np.int8)
    return quantized
