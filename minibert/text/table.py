"""How a file of texts is read: the names of its columns, and what its ending leaves open."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

from minibert.util.checks import option
from minibert.util.errors import ArgumentError

Quoting = Literal["quoted", "none"]
QUOTINGS = ("quoted", "none")
COLUMNS = ("text", "pair", "label", "id")  # fields of `Table` that name a column


def check_encoding(argument: str, name: str) -> None:
    """Raise an ArgumentError for an argument whose value is not an encoding of text."""
    try:
        is_text = codecs.lookup(name)._is_text_encoding
    except LookupError:
        is_text = False
    if not is_text:
        raise ArgumentError(
            argument,
            f"{name!r} does not exist. Python's names are utf-8, cp949, utf-16-le and so on.",
        )


@dataclass(frozen=True)
class Table:
    """How a file is read. The ending of its name decides what no field says.

    Each field says what it is in its metadata, of which the command line makes its options.

    Raises:
        ValueError: A field has a value that does not exist.
    """

    text: str = option("text", "Column of the text.", flag="--text-column", metavar="NAME")
    pair: str | None = option(
        None, "Column of the second text of a pair.", flag="--pair-column", metavar="NAME"
    )
    label: str | None = option(None, "Column of the label.", flag="--label-column", metavar="NAME")
    id: str | None = option(
        None,
        "Column of the ids, which are kept with the results.",
        flag="--id-column",
        metavar="NAME",
    )
    columns: tuple[str, ...] | None = option(
        None,
        "Names of the columns of a .csv or .tsv without a header.",
        flag="--columns",
        metavar="A,B,...",
    )
    delimiter: str | None = option(
        None,
        "Character between columns, or the word tab. With it any file of text is a table, but for "
        "JSON. Default: a comma in .csv, a tab in .tsv.",
        flag="--delimiter",
        metavar="CHAR",
    )
    quoting: Quoting | None = option(
        None,
        "Whether fields may stand between quotation marks. Default: quoted, but none where the "
        "columns are separated by tabs.",
        flag="--quoting",
        choices=QUOTINGS,
    )
    encoding: str | None = option(
        None,
        "Encoding of the text, such as cp949. Default: UTF-8, or UTF-16 or UTF-32 with a byte "
        "order mark.",
        flag="--encoding",
        metavar="NAME",
    )

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ArgumentError(
                "delimiter",
                "should be one character, and neither a quotation mark nor a line break, "
                f"not {self.delimiter!r}.",
            )
        if self.quoting not in (None, *QUOTINGS):
            raise ArgumentError("quoting", f"should be quoted or none, not {self.quoting!r}.")
        if self.encoding is not None:
            check_encoding("encoding", self.encoding)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that every row has: the text, and the others that have a name."""
        names = (getattr(self, field) for field in COLUMNS)
        return tuple(name for name in names if name is not None)
