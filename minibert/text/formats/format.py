"""Base classes of file formats. Each format is a module of this folder.

`RowFormat` reads rows of texts and other columns, `RowWriter` writes them, and `VectorFormat` reads
and writes vectors. A format may be several of them.
"""

from __future__ import annotations

import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from minibert.text.location import Location
from minibert.text.request import RawRow, RowRequest
from minibert.text.rows import SHOWN_CHARACTERS, Row
from minibert.text.table import Table
from minibert.util.checks import warn
from minibert.util.errors import Argument, Message

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Bounds = tuple[int, int | None]
"""Start and end of a part of a file, as in `RowRequest`. None is the end of the file."""


class Entry(NamedTuple):
    """A text, and its id if it has one."""

    text: str
    id: Any = None


Chunks = Iterable[tuple[Sequence[Entry], "Vectors"]]
"""Vectors and their texts in chunks: n entries, and their vectors (n, dimension)."""


class Format(ABC):
    """A format of files.

    Attributes:
        name: Its name, which is also the ending of shards, without the dot.
        endings: Endings of its files in lower case, with the dot.
    """

    name: str
    endings: tuple[str, ...]


class RowFormat(Format):
    """A format whose files hold rows.

    Attributes:
        meaning: What its files hold, for the help.
        has_columns: Whether a row has named columns. Otherwise it is a single text.
        is_typed: Whether values keep their types. Otherwise all of them are strings.
        is_binary: Whether a library decodes its files. Its errors mean that a file is damaged.
        without_effect: Fields of `Table` that do not change how a file is read. Setting one is
            answered by a warning.
    """

    meaning: str
    has_columns = True
    is_typed = False
    is_binary = False
    without_effect: tuple[str, ...] = ()

    @abstractmethod
    def records(self, request: RowRequest) -> Iterator[RawRow]:
        """Yield what stands in a file or in a part of it. `RowRequest.rows` makes rows of it."""

    def bounds(self, request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
        """Return the parts of a file that is not compressed. See `split`."""
        return [(0, None)]

    def read(self, request: RowRequest) -> Iterator[Row]:
        """Yield the rows. Errors of other libraries are raised with the name of the file.

        It warns of fields of the `Table` that have no effect.
        """
        for name in self.without_effect:
            # a warning, because the option may be meant for another file of a run
            if request.start == 0 and getattr(request.table, name) is not None:
                option = Argument(name, owner=Table)
                warn(Message("the option ", option, f" has no effect on {request.file}."))
        with self._naming_damage(request.file):
            yield from request.rows(self.records(request), self.is_typed)

    def split(self, request: RowRequest, size: int, part_bytes: int) -> list[Bounds]:
        """Return the parts that a file can be read in.

        A compressed file is a single part, because a later part could not be read without
        decompressing everything before it.

        Args:
            request: The file.
            size: Its size in bytes, or 0 if it is unknown.
            part_bytes: Approximate bytes of text in a part.

        Returns:
            Start and end of each part, in bytes of text, rows of parquet or batches of Arrow.
        """
        if request.file.compressed:
            return [(0, None)]
        with self._naming_damage(request.file):
            return self.bounds(request, size, part_bytes)

    @contextmanager
    def _naming_damage(self, file: Location) -> Iterator[None]:
        """Raise errors of other libraries as errors that name the file."""
        is_packed = file.compressed or self.is_binary
        try:
            yield
        except Exception as error:
            is_of_arrow = type(error).__module__.startswith("pyarrow")
            known = (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError)
            if not isinstance(error, known) and not is_of_arrow:
                raise
            if isinstance(error, OSError) and error.errno is not None:  # from the operating system
                if error.filename is not None:
                    raise
                sentence = f"{file} cannot be read to its end ({error.strerror})."
                raise OSError(sentence) from None
            # a ValueError of our own reader already names the file. Any other error means damage if
            # bytes were decompressed or decoded
            is_of_reader = isinstance(error, ValueError) and not isinstance(error, UnicodeError)
            if is_of_arrow or (is_packed and not is_of_reader):
                other = ", or not compressed as its ending says" if file.compressed else ""
                raise ValueError(f"{file} is damaged ({error}){other}. Get it again.") from None
            raise


class RowWriter(Format):
    """A format in which rows with columns are written.

    Attributes:
        is_binary: Whether its files have no encoding of text.
    """

    is_binary = False

    @abstractmethod
    def write_rows(
        self,
        path: Path,
        rows: Iterator[Mapping[str, Any]],
        encoding: str,
        columns: Sequence[str] = (),
    ) -> None:
        """Write rows.

        Args:
            path: The file.
            rows: The columns of each row by name.
            encoding: Encoding of a file of text.
            columns: Columns of a table without any row.

        Raises:
            ValueError: The format, or the encoding, cannot express a value.
        """


class VectorFormat(Format):
    """A format that holds vectors.

    Attributes:
        has_texts: Whether it also holds the texts and ids of the vectors.
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
            KeyError: It does not hold vectors.
            TypeError: It does not hold vectors either.
        """


@contextmanager
def text_writer(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open a file to write text.

    Raises:
        ValueError: The encoding lacks a character that is written.
    """
    try:
        with path.open("w", encoding=encoding, newline="") as file:
            yield file
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise ValueError(
            f"{character!r} (U+{ord(character):04X}) does not exist in {encoding}, in the row "
            f"{error.object.strip()!r:.{SHOWN_CHARACTERS}}. Write UTF-8, which has all characters."
        ) from None


def with_columns(
    rows: Iterator[Mapping[str, Any]], columns: Sequence[str] = ()
) -> tuple[list[str], Iterator[Mapping[str, Any]]]:
    """Return the columns of the first row, or else `columns`, and an iterator of all rows.

    The iterator raises a ValueError at a row with a column that the first row lacks. A row may lack
    columns of the first.
    """
    head = list(islice(rows, 1))
    first = head[0] if head else {}

    def checked() -> Iterator[Mapping[str, Any]]:
        for number, row in enumerate(chain(head, rows), 1):
            for name in row:
                if name not in first:
                    raise ValueError(
                        f"row {number} has the column {name!r}, which the first row lacks: write "
                        ".jsonl, whose rows may differ."
                    )
            yield row

    return list(first) if head else list(columns), checked()
