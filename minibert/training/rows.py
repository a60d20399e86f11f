"""Read rows of a table that know their line, so that errors can report it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from minibert.corpus.inputs import iter_rows
from minibert.corpus.location import Location
from minibert.corpus.rows import BadRow, refuse

EXCERPT = 200  # characters of a bad row


class PlacedRow(dict[str, Any]):
    """The columns of a row by name.

    Attributes:
        place: Its file and line, as an editor counts them.
    """

    place: str = ""


def read_placed_rows(
    path: str | os.PathLike[str],
    needed: Sequence[str],
    find_fault: Callable[[dict[str, Any]], str | None],
    *,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    bad_rows: list[BadRow] | None = None,
) -> list[PlacedRow]:
    """Reads a table and checks each row.

    Args:
        path: A table as of `minibert.corpus.inputs.read_table`.
        needed: Columns that every row must have.
        find_fault: Says what is wrong with a row, or None.
        columns: Names of the columns, for a file without a header line.
        delimiter: Character between the columns.
        bad_rows: Receives the rows that have a fault, which are then left out. None: such a row is
            an error.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A row has a fault, or no row is left.
    """
    on_bad: Callable[[BadRow], object] = refuse if bad_rows is None else bad_rows.append
    location = Location(path)
    rows = []
    for place, columns_of_row in iter_rows(
        location, names=columns, delimiter=delimiter, on_bad=on_bad
    ):
        row = PlacedRow(columns_of_row)
        row.place = f"{path}, {place}"
        missing = [name for name in needed if name not in row]
        if missing:
            raise ValueError(
                f"{row.place}: there is no column {missing[0]!r}; the columns are {', '.join(row)}."
                f"{_advice(row, missing[0])}"
            )
        fault = find_fault(row)
        if fault is None:
            rows.append(row)
        else:
            on_bad(BadRow(row.place, fault, repr(dict(row))[:EXCERPT]))
    if not rows:
        raise ValueError(f"{path} has no rows.")
    return rows


def _advice(row: PlacedRow, missing: str) -> str:
    """Which option helps where the header is almost right."""
    names = list(row)
    if len(names) == 1:
        for delimiter in (",", ";", "\t", "|"):
            if delimiter in names[0]:
                return (
                    " It was read as a single column: "
                    f"pass --delimiter {delimiter!r}, or give the file "
                    "an ending that fits."
                )
    for name in names:
        if name.strip().casefold() == missing.strip().casefold():
            return f" Did you mean {name!r}?"
    return ""
