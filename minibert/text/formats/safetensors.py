"""Safetensors: the vectors alone, in a tensor called "vectors", (N, dimension) float32."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import IO, Any

from minibert.text.formats.format import Chunks, VectorFormat
from minibert.text.formats.npy import write_raw

# ours are F32, others may have been written elsewhere
_TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


class Safetensors(VectorFormat):
    """A tensor of vectors."""

    name = "safetensors"
    endings = (".safetensors",)

    def write_vectors(self, path: Path, chunks: Chunks, dimension: int) -> None:
        """Write a tensor."""
        write_raw(path, chunks, dimension, _header)

    def read_vectors(self, path: Path) -> Any:
        """Return the tensor, memory-mapped."""
        import numpy as np

        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(min(length, size))
        tensor = json.loads(header)["vectors"]
        kind, shape, offsets = _TYPES[tensor["dtype"]], tensor["shape"], tensor["data_offsets"]
        for number in (*shape, *offsets):
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ValueError(f"the header has {number!r} for a size")
        begin, end = offsets
        expected = math.prod(shape) * np.dtype(kind).itemsize
        if end - begin != expected or 8 + length + end > size:
            raise ValueError("the header and the size of the file do not agree")
        return np.memmap(path, kind, "r", 8 + length + begin, tuple(shape))


def _header(file: IO[bytes], rows: int, dimension: int) -> None:
    tensor = {"dtype": "F32", "shape": [rows, dimension], "data_offsets": [0, 4 * rows * dimension]}
    text = json.dumps({"vectors": tensor}, separators=(",", ":"))
    text = text.ljust(120)  # the format allows blanks at the end
    file.write(len(text).to_bytes(8, "little") + text.encode())
