"""Rows for the tasks: of files or of values in memory, and checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minibert.tasks.task import Data, Skipped, Task
from minibert.text import BadRow, Row, Table, left_out, read
from minibert.text.request import row_fault
from minibert.util.checks import check_kind
from minibert.util.errors import message_of

Check = Callable[[Row], object]
"""Raises a ValueError for a row that cannot be used. It may give the row other values."""


class TableTask(Task):
    """A task whose rows are those of a table.

    Attributes:
        table: How files are read.
        dev_table: How evaluation files are read, where they differ.
    """

    table: Table
    dev_table: Table | None = None

    def read(self, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
        """Rows of a table."""
        table = self.table_of(dev)
        columns = self.columns(table, dev)
        if isinstance(data, str | os.PathLike):
            return usable(data, read(data, table, skip, columns), self.check, skip)

        def check(row: Row) -> None:
            check_columns(row)
            if fault := row_fault(row.values, table, columns):
                raise ValueError(fault)
            self.check(row)

        return usable(data, rows_in_memory(data, table), check, skip)

    def table_of(self, dev: bool) -> Table:
        """How training files are read, or with `dev` evaluation files."""
        return (self.dev_table or self.table) if dev else self.table

    def columns(self, table: Table, dev: bool) -> Sequence[str]:
        """The columns that every row has. `dev`: of an evaluation file."""
        return table.needed

    def check(self, row: Row) -> None:
        """Raise a ValueError if a row is certainly wrong."""

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """The text, or both texts. They are encoded, and shown in reports."""
        return (row.text,) if row.pair is None else (row.text, row.pair)

    def group_of(self, row: Row) -> Hashable:
        """The texts: a model that was trained on them knows their label."""
        return self.texts_of(row)


def as_list(value: Any) -> list[Any] | None:
    """A list, a tuple or an array of numpy as a list, or None if the value is something else.

    Pandas reads the lists of a parquet file as arrays.
    """
    return list(value) if isinstance(value, list | tuple | np.ndarray) else None


def check_columns(row: Row) -> None:
    """Raise a ValueError if a row in memory is not a dict."""
    if not isinstance(row.values, Mapping):
        raise ValueError(f"the row should be a dict of columns, not {row.values!r:.60}")


def number_of(value: Any) -> float:
    """A value as a number, or NaN if it is none."""
    try:
        return float(value)
    except (ValueError, TypeError, ArithmeticError):
        return math.nan


def usable(data: Data, rows: Iterable[Row], check: Check, skip: Skipped = None) -> list[Row]:
    """The rows that pass a check.

    Args:
        data: What is read.
        rows: Its rows.
        check: Checks each.
        skip: Receives the rows that cannot be used, which are left out. None: the first is an
            error.

    Raises:
        ValueError: A row cannot be used, or no row is left.
    """
    already_skipped = len(skip or ())
    good = []
    for row in rows:
        try:
            check(row)
        except ValueError as error:
            reason = message_of(error).removesuffix(".")
            BadRow.leave_out(skip, row.place, reason, repr(row.values))
        else:
            good.append(row)
    return not_empty(data, good, (skip or [])[already_skipped:])


def not_empty(data: Data, rows: list[Row], skipped: Sequence[BadRow] = ()) -> list[Row]:
    """The rows of a file or of data in memory, of which there is at least one.

    Args:
        data: What was read.
        rows: The rows that can be used.
        skipped: The rows that were left out, which may be why none is left.

    Raises:
        ValueError: There are none.
    """
    if rows:
        return rows
    name = data if isinstance(data, str | os.PathLike) else "data"
    if skipped:
        raise ValueError(f"{name} has no row that can be used: {left_out(list(skipped))}.")
    raise ValueError(f"{name} has no rows.")


def rows_in_memory(values: Any, table: Table) -> Iterator[Row]:
    """Rows of values in memory, which may be a pandas DataFrame.

    Raises:
        TypeError: Something that has no rows.
    """
    if hasattr(values, "iloc"):  # iterating over a DataFrame gives the names of its columns
        values = values.to_dict("records")
    check_kind("data", values, Iterable, "a file, or rows: a dict of columns each")
    for number, value in enumerate(values, 1):
        yield Row("data", number, value, table, "row")
