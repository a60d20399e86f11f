"""Rows of tables for the tasks: read and checked, or made of values in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from minibert.text import BadRow, Row, Table, read
from minibert.text.rows import left_out
from minibert.util.checks import check_kind

Fault = Callable[[Row], str | None]
"""What is certainly wrong with a row, or None."""


def read_checked(
    path: Any, table: Table, columns: Sequence[str], fault: Fault, skip: list[BadRow] | None
) -> list[Row]:
    """The rows of a file.

    Args:
        path: Path or URI.
        table: How the file is read.
        columns: Columns that every row must have.
        fault: Says what is wrong with a row.
        skip: Receives the rows with a fault, which are left out. None: the first is an error.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A row has a fault, or no row is left.
    """
    return not_empty(path, checked(read(path, table, skip, columns), fault, skip), skip)


def not_empty(path: Any, rows: list[Row], skip: list[BadRow] | None = None) -> list[Row]:
    """The rows of a file, of which there is at least one.

    Args:
        path: What was read.
        rows: The rows that can be used.
        skip: The rows of the file that were left out, which may be why none is left.

    Raises:
        ValueError: There are none.
    """
    if rows:
        return rows
    if skip:
        raise ValueError(f"{path} has no row that can be used: {left_out(skip)}.")
    raise ValueError(f"{path} has no rows.")


def checked(rows: Iterable[Row], fault: Fault, skip: list[BadRow] | None = None) -> list[Row]:
    """The rows without a fault. See `read_checked`."""
    good = []
    for row in rows:
        reason = fault(row)
        if reason is None:
            good.append(row)
        else:
            BadRow.leave_out(skip, row.place, reason, repr(row.values))
    return good


def rows_of_values(
    values: Sequence[Any], table: Table, columns: Sequence[str], fault: Fault
) -> list[Row]:
    """Rows of dicts in memory, or of a pandas DataFrame.

    Raises:
        ValueError: There are none, a row lacks a column, a text is not a string, or a row has a
            fault.
    """
    rows = []
    texts = [name for name in columns if name in (table.text, table.pair)]
    for number, item in enumerate(items_of(values), 1):
        if not isinstance(item, Mapping):
            raise ValueError(f"data, row {number} should be a dict of columns, not {item!r:.60}.")
        row = Row("data", number, dict(item), table, "row")
        for name in columns:
            if name not in row.values:
                listing = ", ".join(map(str, row.values)) or "none"
                raise ValueError(
                    f"{row.place}: there is no column {name!r}. The columns are {listing}."
                )
        for text in texts:
            if not isinstance(row.values[text], str):
                raise ValueError(
                    f"{row.place}: {text} should be a text, not {row.values[text]!r:.80}."
                )
        rows.append(row)
    return checked(not_empty("data", rows), fault)


def items_of(values: Any) -> list[Any]:
    """The rows of data in memory, which may be a pandas DataFrame.

    Raises:
        TypeError: Something that has no rows.
    """
    if hasattr(values, "iloc"):  # iterating over a DataFrame gives the names of its columns
        return list(values.to_dict("records"))
    check_kind("data", values, Iterable, "a file, or rows: a dict of columns each")
    return list(values)
