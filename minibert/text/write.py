"""Writing rows with columns: .jsonl, .csv, .tsv and .parquet, atomically."""

from __future__ import annotations

import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from minibert.text.file_rows import is_quoted
from minibert.text.location import Location
from minibert.util.extras import need
from minibert.util.files import json_text

Row = Mapping[str, Any]
ROWS_PER_GROUP = 4096

_QUOTED = re.compile(r'[,"\r\n]')
_NOT_IN_TSV = re.compile(r"[\t\r\n]")


def write_rows(path: str, rows: Iterable[Row]) -> int:
    """Write rows into a file, and return their number.

    Args:
        path: The file, a path or a URI. Its ending determines the format.
        rows: The columns of each row by name. All rows have those of the first.

    Raises:
        ValueError: The ending is not one of .jsonl, .csv, .tsv and .parquet, or a value cannot
            stand in such a file, as a tab in .tsv.
        OSError: The file cannot be written.
    """
    ending = ending_of(path)
    count = 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    with Location(path).replacing() as temporary:
        _WRITERS[ending](temporary, counted())
    return count


def ending_of(path: str) -> str:
    """Return the ending of a file of rows, such as ".csv".

    Raises:
        ValueError: No format has this ending.
    """
    ending = Path(Location(path).path).suffix.lower()
    if ending not in _WRITERS:
        raise ValueError(f"{Path(path).name!r} should end in {', '.join(_WRITERS)}.")
    return ending


def _write_jsonl(path: Path, rows: Iterator[Row]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json_text(row) + "\n")


def _write_table(path: Path, rows: Iterator[Row], line: Callable[[list[str]], str]) -> None:
    """Write a table of text, with the line that `line` makes of the cells of a row."""
    columns, rows = _with_columns(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(line(columns) + "\n")
        for row in rows:
            file.write(line([_cell(row.get(name)) for name in columns]) + "\n")


def _csv_line(cells: list[str]) -> str:
    return ",".join(map(_csv_field, cells)) or '""'


def _csv_field(cell: str) -> str:
    # not by csv.writer, which before Python 3.13 leaves a CR alone without quotation marks
    if _QUOTED.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _tsv_line(cells: list[str]) -> str:
    for cell in cells:
        if _NOT_IN_TSV.search(cell) or is_quoted(cell):
            raise ValueError(
                f"{cell!r:.80} would be read back as something else from a .tsv, which has no "
                "quotation marks around tabs and line breaks: write .csv or .jsonl."
            )
    return "\t".join(cells)


def _with_columns(rows: Iterator[Row]) -> tuple[list[str], Iterator[Row]]:
    """The columns of the first row, and all rows, of which none may have another column."""
    first = next(rows, {})

    def checked() -> Iterator[Row]:
        for number, row in enumerate(chain([first] if first else [], rows), 1):
            for name in row:
                if name not in first:
                    raise ValueError(
                        f"row {number} has the column {name!r}, which the first row lacks: write "
                        ".jsonl, whose rows may differ."
                    )
            yield row

    return list(first), checked()


def _cell(value: Any) -> str:
    """A value as it stands in a table of text: lists and objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json_text(value)
    return str(value)


def _write_parquet(path: Path, rows: Iterator[Row]) -> None:
    arrow = need("pyarrow", "parquet", "Writing .parquet")
    parquet = need("pyarrow.parquet", "parquet", "Writing .parquet")
    columns, rows = _with_columns(rows)

    def table(group: list[Row], schema: Any = None) -> Any:
        return arrow.table(
            {name: [row.get(name) for row in group] for name in columns}, schema=schema
        )

    schema = arrow.schema([])
    try:
        # the last row decides the types, too: the rows wait in a file until these are known
        with tempfile.TemporaryFile(dir=path.parent) as waiting:
            while group := list(islice(rows, ROWS_PER_GROUP)):
                schemas = [schema, table(group).schema]
                schema = arrow.unify_schemas(schemas, promote_options="permissive")
                pickle.dump(group, waiting)
            end = waiting.tell()
            waiting.seek(0)
            with path.open("wb") as file, parquet.ParquetWriter(file, schema) as writer:
                while waiting.tell() < end:
                    writer.write_table(table(pickle.load(waiting), schema))
    except (arrow.ArrowException, OverflowError) as error:
        raise ValueError(
            f"the values of a column have no type in common ({error}): write .jsonl or .csv."
        ) from None


_WRITERS: dict[str, Callable[[Path, Iterator[Row]], None]] = {
    ".jsonl": _write_jsonl,
    ".csv": partial(_write_table, line=_csv_line),
    ".tsv": partial(_write_table, line=_tsv_line),
    ".parquet": _write_parquet,
}
