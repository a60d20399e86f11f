"""What a format of files can do. Each format is a file beside this one.

`RowFormat` reads rows of texts and other columns, `RowWriter` writes them, and `VectorFormat` reads
and writes vectors. A format may be several of them.
"""

from __future__ import annotations

import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minibert.text.location import Location
from minibert.text.request import RowRequest
from minibert.text.rows import Row
from minibert.text.table import Table
from minibert.util.checks import warn
from minibert.util.errors import Argument, Message

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Bounds = tuple[int, int | None]
"""Start and end of a part of a file. None is the end of the file."""


class Entry(NamedTuple):
    """A text, and its id if it has one."""

    text: str
    id: Any = None


Chunks = Iterable[tuple[Sequence[Entry], "Vectors"]]
"""Some entries and their vectors (n, dimension), then others."""


class Format(ABC):
    """A format of files.

    Attributes:
        name: Its name, which is the ending of shards, too.
        endings: Endings of the names of its files, in lower case.
    """

    name: str
    endings: tuple[str, ...]


class RowFormat(Format):
    """A format whose files hold rows.

    Attributes:
        meaning: What its files hold, for the help.
        has_columns: Whether a row has columns with names. Otherwise it is a text alone.
        is_typed: Whether values keep their types. Otherwise all of them are strings.
        is_binary: Whether its files are unpacked by a library, whose errors mean damage.
        without_effect: Fields of `Table` that do not change how a file is read.
    """

    meaning: str
    has_columns = True
    is_typed = False
    is_binary = False
    without_effect: tuple[str, ...] = ()

    @abstractmethod
    def rows(self, request: RowRequest) -> Iterator[Row]:
        """Yield the rows of a file or of a part of it."""

    def bounds(self, request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
        """Say where a file that is not compressed can be split. See `split`."""
        return [(0, None)]

    def read(self, request: RowRequest) -> Iterator[Row]:
        """Yield the rows, and name the file in the errors of other libraries."""
        for name in self.without_effect:
            # a warning, because the option may be meant for another file of a run
            if request.start == 0 and getattr(request.table, name) is not None:
                option = Argument(name, owner=Table)
                warn(Message("the option ", option, f" has no effect on {request.file}."))
        with self._naming_damage(request.file):
            yield from self.rows(request)

    def split(self, request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
        """Say where a file can be split.

        A compressed file is one part, because each part would unpack all that is before it.

        Args:
            request: The file.
            size: Its bytes, or 0 if they are unknown.
            part_bytes: Bytes of text in a part.

        Returns:
            The parts: bytes of text, rows of parquet, or batches of Arrow.
        """
        if request.file.compressed:
            return [(0, None)]
        with self._naming_damage(request.file):
            return self.bounds(request, size, part_bytes)

    @contextmanager
    def _naming_damage(self, file: Location) -> Iterator[None]:
        """Let the errors of other libraries name the file."""
        is_packed = file.compressed or self.is_binary
        try:
            yield
        except Exception as error:
            is_of_arrow = type(error).__module__.startswith("pyarrow")
            known = (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError)
            if not isinstance(error, known) and not is_of_arrow:
                raise
            if isinstance(error, OSError) and error.errno is not None:  # of the system
                if error.filename is not None:
                    raise
                sentence = f"{file} cannot be read to its end ({error.strerror})."
                raise OSError(sentence) from None
            # the reader's own errors are sentences. Others mean damage where bytes were unpacked
            is_of_reader = isinstance(error, ValueError) and not isinstance(error, UnicodeError)
            if is_of_arrow or (is_packed and not is_of_reader):
                other = ", or not compressed as its ending says" if file.compressed else ""
                raise ValueError(f"{file} is damaged ({error}){other}. Get it again.") from None
            raise


class RowWriter(Format):
    """A format in which rows with columns are written."""

    @abstractmethod
    def write_rows(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """Write rows.

        Raises:
            ValueError: A value cannot stand in such a file.
        """


class VectorFormat(Format):
    """A format that holds vectors.

    Attributes:
        has_texts: Whether it holds the texts and ids of the vectors, too.
        has_typed_ids: Whether all ids have to be of one type.
    """

    has_texts = False
    has_typed_ids = False

    @abstractmethod
    def write_vectors(self, path: Path, chunks: Chunks, dimension: int) -> None:
        """Write vectors, a chunk at a time.

        Args:
            path: The file.
            chunks: Entries and vectors (n, dimension), in order.
            dimension: Dimension of the vectors.
        """

    @abstractmethod
    def read_vectors(self, path: Path) -> Any:
        """Return the vectors of a file, (N, dimension), memory-mapped where that is possible.

        Raises:
            ValueError: The file is damaged.
            KeyError: It holds no vectors.
            TypeError: As KeyError.
        """


def with_columns(
    rows: Iterator[Mapping[str, Any]],
) -> tuple[list[str], Iterator[Mapping[str, Any]]]:
    """Return the columns of the first row, and all rows, of which none may have another column."""
    first = next(rows, {})

    def checked() -> Iterator[Mapping[str, Any]]:
        for number, row in enumerate(chain([first] if first else [], rows), 1):
            for name in row:
                if name not in first:
                    raise ValueError(
                        f"row {number} has the column {name!r}, which the first row lacks: write "
                        ".jsonl, whose rows may differ."
                    )
            yield row

    return list(first), checked()
