"""One file of vectors, in any format of `minibert.text.formats` that holds them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from minibert.encoders.rows.token_rows import Vectors
from minibert.text.formats import VECTOR_FORMATS, vector_format
from minibert.text.location import Location


def open_vector_file(location: Location) -> Vectors:
    """Open the vectors of one file, (N, D). On this machine they are memory-mapped where possible.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file does not hold vectors.
    """
    form = vector_format(location)
    if form is None:
        endings = ", ".join(VECTOR_FORMATS)
        raise ValueError(f"{location} should be a folder of shards, or end in {endings}.")
    try:
        if location.fs is None:
            vectors = form.read_vectors(Path(location.path))
        else:
            with tempfile.TemporaryDirectory() as folder, location.open() as file:
                copy = Path(folder, f"vectors.{form.name}")
                copy.write_bytes(file.read())
                vectors = np.array(form.read_vectors(copy))
    except (KeyError, TypeError):  # JSON of another kind
        raise ValueError(
            f"{location} has no vectors where minibert embed writes them: in the column (or key) "
            "vector, or as vectors in a .safetensors file."
        ) from None
    except Exception as error:  # whatever a damaged header or number leads to
        is_of_system = isinstance(error, OSError) and error.errno is not None
        if is_of_system or isinstance(error, ImportError) or type(error) is MemoryError:
            raise
        raise ValueError(
            f"{location} is not a complete .{form.name} file ({error!s:.300}). Write one with "
            "minibert embed --output."
        ) from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        found = "something else"
        if isinstance(vectors, np.ndarray):
            found = f"{vectors.dtype} numbers of shape {vectors.shape}"
        raise ValueError(
            f"{location} should hold vectors of floating-point numbers, (texts, dimensions), as "
            f"minibert embed writes them, not {found}."
        )
    return vectors
