"""How a file of texts is read: the names of its columns, and what its ending leaves open."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import Any, Literal

Quoting = Literal["quoted", "none"]
QUOTINGS = ("quoted", "none")


def _option(default: Any, option: str, metavar: str | None, description: str, **more: Any) -> Any:
    """Declare a field, and the option of the command line that sets it."""
    metadata = {"option": option, "metavar": metavar, "help": description, **more}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Table:
    """How a file is read. The ending of its name decides what no field says.

    Each field says what it is in its metadata, of which the command line makes its options.

    Raises:
        ValueError: A field has a value that does not exist.
    """

    text: str = _option("text", "--text-column", "NAME", "Column of the text.")
    pair: str | None = _option(
        None, "--pair-column", "NAME", "Column of the second text of a pair."
    )
    label: str | None = _option(None, "--label-column", "NAME", "Column of the label.")
    id: str | None = _option(
        None, "--id-column", "NAME", "Column of the ids, which are kept with the results."
    )
    columns: tuple[str, ...] | None = _option(
        None, "--columns", "A,B,...", "Names of the columns of a .csv or .tsv without a header."
    )
    delimiter: str | None = _option(
        None,
        "--delimiter",
        "CHAR",
        "Character between columns, or the word tab. Any file is a table with it. Default: a comma "
        "in .csv, a tab in .tsv.",
    )
    quoting: Quoting | None = _option(
        None,
        "--quoting",
        None,
        "Whether fields may stand between quotation marks. Default: quoted, but none where the "
        "columns are separated by tabs.",
        choices=QUOTINGS,
    )
    encoding: str | None = _option(
        None,
        "--encoding",
        "NAME",
        "Encoding of the text, such as cp949. Default: UTF-8, or UTF-16 or UTF-32 with a byte "
        "order mark.",
    )

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f"delimiter should be one character, not {self.delimiter!r}.")
        if self.quoting not in (None, *QUOTINGS):
            raise ValueError(f"quoting should be quoted or none, not {self.quoting!r}.")
        if self.encoding is not None:
            try:
                is_text = codecs.lookup(self.encoding)._is_text_encoding
            except LookupError:
                is_text = False
            if not is_text:
                raise ValueError(
                    f"encoding {self.encoding!r} does not exist. Python's names are utf-8, cp949, "
                    "utf-16-le and so on."
                )

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that every row has: the text, and the others that have a name."""
        names = (self.text, self.pair, self.label, self.id)
        return tuple(name for name in names if name is not None)
