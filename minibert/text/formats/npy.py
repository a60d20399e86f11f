"""NumPy's files: the vectors alone, (N, dimension) float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from minibert.text.formats.format import Chunks, VectorFormat


class Npy(VectorFormat):
    """An array of vectors."""

    name = "npy"
    endings = (".npy",)

    def write_vectors(self, path: Path, chunks: Chunks, dimension: int) -> None:
        """Write an array."""
        write_raw(path, chunks, dimension, _header)

    def read_vectors(self, path: Path) -> Any:
        """Return the array, memory-mapped."""
        import numpy as np

        return np.load(path, mmap_mode="r")


def _header(file: IO[bytes], rows: int, dimension: int) -> None:
    import numpy as np

    about = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(file, about)  # 128 bytes for any number of rows


def write_raw(
    path: Path, chunks: Chunks, dimension: int, header: Callable[[IO[bytes], int, int], None]
) -> None:
    """Write values after a header, which is written again when the number of rows is known.

    Args:
        path: The file.
        chunks: Entries and their vectors.
        dimension: Dimension of the vectors.
        header: Writes the header of so many rows of this dimension, always of one length.
    """
    import numpy as np

    rows = 0
    with path.open("wb") as file:
        header(file, rows, dimension)
        for _, vectors in chunks:
            rows += len(vectors)
            file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        file.seek(0)
        header(file, rows, dimension)
