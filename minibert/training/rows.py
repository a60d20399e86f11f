"""Read rows of a table that know their line, so that errors can report it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minibert.corpus.inputs import placed_rows
from minibert.corpus.rows import BadRow, PlacedRow, Quoting, missing_in_row, refuse

EXCERPT = 200  # characters of a bad row


def read_placed_rows(
    path: str | os.PathLike[str],
    needed: Sequence[str],
    find_fault: Callable[[dict[str, Any]], str | None],
    *,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    quoting: Quoting = "auto",
    renamed: Mapping[str, str] | None = None,
    bad_rows: list[BadRow] | None = None,
) -> list[PlacedRow]:
    """Reads a table and checks each row.

    Args:
        path: A table as of `minibert.corpus.inputs.read_table`.
        needed: Columns that every row must have.
        find_fault: Says what is wrong with a row, or None.
        columns: Names of the columns, for a file without a header line.
        delimiter: Character between the columns.
        quoting: Whether fields stand between quotation marks. See `read_table`.
        renamed: The names in this file of columns that have another name in it.
        bad_rows: Receives the rows that have a fault, which are then left out. None: such a row is
            an error.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A row has a fault, or no row is left.
    """
    on_bad: Callable[[BadRow], object] = refuse if bad_rows is None else bad_rows.append
    names_in_file = renamed or {}
    rows = []
    for row in placed_rows(
        path,
        required=[names_in_file.get(name, name) for name in needed],
        columns=columns,
        delimiter=delimiter,
        quoting=quoting,
        on_bad=on_bad,
    ):
        columns_of_row = dict(row)  # as the file names them
        for name in needed:
            name_in_file = names_in_file.get(name, name)
            if name_in_file not in columns_of_row:
                sentence = missing_in_row(name_in_file, columns_of_row, row.may_lack_header)
                raise ValueError(f"{row.place}: {sentence}")
            row[name] = columns_of_row[name_in_file]
        fault = find_fault(row)
        if fault is None:
            rows.append(row)
        else:
            on_bad(BadRow(row.place, fault, repr(dict(row))[:EXCERPT]))
    if not rows:
        raise ValueError(f"{path} has no rows.")
    return rows
