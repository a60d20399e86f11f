"""Files are read by their ending and by what a `Table` says, or raise an error that helps."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import lzma
import os
import re
import struct
import sys
import threading
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.feather
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyarrow import parquet

from minibert.text import (
    BadRow,
    Part,
    Row,
    Table,
    left_out,
    lines,
    parts_of,
    read,
    read_json_value,
    read_part,
)
from minibert.text.formats import ROW_FORMATS, VECTOR_FORMATS, arrow_tables, delimited
from minibert.text.formats.format import RowFormat
from minibert.text.lines import text_lines
from minibert.text.location import Location
from minibert.text.read import has_columns
from minibert.text.request import RawRow, RowRequest
from minibert.text.rows import BadRowError
from minibert.text.write import write_rows

TEXTS = ["a cat", "안녕하세요 여러분", 'she said "no"']
ROWS = [{"text": text, "n": number} for number, text in enumerate(TEXTS)]
LINES = "".join(f"{text}\n" for text in TEXTS)
JSON_LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
ARRAY = json.dumps(ROWS, indent=2, ensure_ascii=False)
CSV = 'text,n\na cat,0\n안녕하세요 여러분,1\n"she said ""no""",2\n'
TSV = 'text\tn\na cat\t0\n안녕하세요 여러분\t1\nshe said "no"\t2\n'


def parquet_bytes(rows: list[dict[str, Any]] = ROWS) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
    return stream.getvalue()


def arrow_bytes(rows: list[dict[str, Any]] = ROWS, batch_rows: int = 2) -> bytes:
    """A file as pandas and polars write it."""
    stream = io.BytesIO()
    table = pyarrow.Table.from_pylist(rows)
    with pyarrow.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table, batch_rows)
    return stream.getvalue()


def stream_bytes(rows: list[dict[str, Any]] = ROWS) -> bytes:
    """A stream as `datasets` writes it."""
    stream = io.BytesIO()
    table = pyarrow.Table.from_pylist(rows)
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, 2)
    return stream.getvalue()


def feather_bytes(rows: list[dict[str, Any]] = ROWS, **options: Any) -> bytes:
    stream = io.BytesIO()
    pyarrow.feather.write_feather(pyarrow.Table.from_pylist(rows), stream, **options)
    return stream.getvalue()


def write(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def texts_of(path: Any, table: Table | None = None) -> list[str]:
    return [row.text for row in read(path, table)]


READABLE = {
    "a.jsonl": JSON_LINES.encode(),
    "a.ndjson": JSON_LINES.encode(),
    "A.JSONL": JSON_LINES.encode(),
    "crlf.jsonl": JSON_LINES.replace("\n", "\r\n").encode(),
    "cr.jsonl": JSON_LINES.replace("\n", "\r").encode(),
    "blank.jsonl": b"\n\n" + JSON_LINES.replace("\n", "\n\n").encode(),
    "mark.jsonl": JSON_LINES.encode("utf-8-sig"),
    "array.json": ARRAY.encode(),
    "one_line.json": json.dumps(ROWS).encode(),
    "array.json.gz": gzip.compress(ARRAY.encode()),
    "A.CSV": CSV.encode(),
    "a.Csv.GZ": gzip.compress(CSV.encode()),
    "crlf.csv": CSV.replace("\n", "\r\n").encode(),
    "cr.csv": CSV.replace("\n", "\r").encode(),
    "excel.csv": CSV.encode("utf-8-sig"),
    "unicode.csv": CSV.encode("utf-16"),
    "blank.csv": CSV.replace("\n", "\n\n").encode(),
    "a.tsv": TSV.encode(),
    "unicode.tsv": TSV.encode("utf-16"),
    "a.PARQUET": parquet_bytes(),
    "a.parquet.gz": gzip.compress(parquet_bytes()),
    "a.arrow": arrow_bytes(),
    "stream.arrow": stream_bytes(),
    "stream.arrow.gz": gzip.compress(stream_bytes()),
    "a.arrow.xz": lzma.compress(arrow_bytes()),
    "A.Feather": feather_bytes(compression="lz4", chunksize=1),
    "plain.feather": feather_bytes(compression="uncompressed"),
    "a.txt": LINES.encode(),
    "NOTES": LINES.encode(),
    "cr.txt": LINES.replace("\n", "\r").encode(),
    "mixed.txt": LINES.replace("\n", "\r\n", 1).encode(),
    "mark.txt": LINES.encode("utf-8-sig"),
    "utf16.txt": LINES.encode("utf-16"),
    "utf16be.txt": b"\xfe\xff" + LINES.encode("utf-16-be"),
    "utf32.txt": LINES.encode("utf-32"),
    "no_end.txt": LINES.rstrip("\n").encode(),
    "a.txt.gz": gzip.compress(LINES.encode()),
    "a.txt.BZ2": bz2.compress(LINES.encode()),
    "a.txt.xz": lzma.compress(LINES.encode()),
    "a.txt.zst": pyarrow.compress(LINES.encode(), "zstd", asbytes=True),
}


@pytest.mark.parametrize("name", READABLE)
def test_the_ending_says_how_a_file_is_read(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, READABLE[name])
    assert texts_of(path) == TEXTS
    assert [row.text for row in read(tmp_path)] == TEXTS


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("part_bytes", [1, 30])
def test_files_are_read_in_parts(name: str, part_bytes: int, tmp_path: Path) -> None:
    path = write(tmp_path, name, READABLE[name])
    parts = parts_of(path, part_bytes=part_bytes)
    assert [row.text for part in parts.values() for row in read_part(part)] == TEXTS


def test_parts_are_called_by_file_and_place(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one\ntwo\nthree\n")
    names = ["a.txt-000000000000", "a.txt-000000000008"]
    parts = parts_of(path, part_bytes=8)
    assert list(parts) == list(parts_of(tmp_path, part_bytes=8)) == names
    places = [row.place for part in parts.values() for row in read_part(part)]
    assert places == [f"{path}, line 1", f"{path}, line 2", f"{path}, byte 8"]
    path = write(tmp_path, "a.txt", 'b\n{"text": 1}\n')
    assert [row.text for row in read_part(Part(str(path), 2))] == ['{"text": 1}']
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "b.txt", "one\n")
    assert list(parts_of(tmp_path)) == ["a.txt-000000000000", "sub/b.txt-000000000000"]


@pytest.mark.parametrize("name", ["a.PARQUET", "a.arrow"])
def test_a_part_has_the_columns_of_the_table_alone(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, READABLE[name])
    for part in parts_of(path).values():
        assert [row.values for row in read_part(part)] == [{"text": text} for text in TEXTS]
    table = Table(label="no")
    parts = parts_of(path, table)  # which need the text alone
    for part in parts.values():
        with pytest.raises(ValueError, match="no column 'no'"):
            list(read_part(part, table))


@pytest.mark.parametrize(
    ("name", "delimiter", "expected"),
    [("a.txt", None, False), ("a.txt", "|", True), ("a.csv", None, True), ("a.jsonl", "|", True)],
)
def test_which_files_have_columns(name: str, delimiter: str | None, expected: bool) -> None:
    assert has_columns(name, Table(delimiter=delimiter)) == expected


@pytest.mark.parametrize("part_bytes", range(1, 40))
def test_parts_of_a_file_with_a_byte_order_mark(part_bytes: int, tmp_path: Path) -> None:
    texts = [str(number) for number in range(30)]
    path = write(tmp_path, "a.txt", "".join(f"{text}\n" for text in texts).encode("utf-8-sig"))
    parts = parts_of(path, part_bytes=part_bytes)
    assert [row.text for part in parts.values() for row in read_part(part)] == texts


@pytest.mark.parametrize("encoding", [None, "utf-8-sig"])
def test_a_mark_that_does_not_begin_a_file_is_text(encoding: str | None, tmp_path: Path) -> None:
    texts = ["a", "\ufeffb", "\ufeff", "c"]
    path = write(tmp_path, "a.txt", "".join(f"{text}\n" for text in texts).encode("utf-8-sig"))
    table = Table(encoding=encoding)
    parts = parts_of(path, table, part_bytes=5)
    assert len(parts) > 2
    for rows in (
        read(path, table),
        *[(row for part in parts.values() for row in read_part(part, table))],
    ):
        assert [row.text for row in rows] == texts


@pytest.mark.needs("named pipes")
def test_a_pipe_has_no_parts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="can be read only once"):
        parts_of(tmp_path / "pipe")


def test_large_files_have_several_parts(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", LINES * 50)
    assert len(parts_of(path, part_bytes=100)) > 10
    rows = [{"text": "a cat " * 20} for _ in range(100)]
    path = write(tmp_path, "a.parquet", parquet_bytes(rows))
    assert len(parts_of(path, part_bytes=1)) == 100
    path = write(tmp_path, "a.arrow", arrow_bytes(rows, 5))
    assert len(parts_of(path, part_bytes=1)) == 20
    for name, data in (("b.parquet", parquet_bytes(rows[:1])), ("b.arrow", arrow_bytes(rows[:1]))):
        assert len(parts_of(write(tmp_path, name, data), part_bytes=1)) == 1
    path = write(tmp_path, "c.arrow", arrow_bytes(rows[:6]))
    parts = parts_of(path, part_bytes=path.stat().st_size * 2 // 3 + 1)  # of two batches and of one
    assert [len(list(read_part(part))) for part in parts.values()] == [4, 2]


@pytest.mark.parametrize(("count", "group"), [(7, 2), (600, 550)])
@pytest.mark.parametrize("part_bytes", [30, 60, 2000, 10**6])
def test_rows_of_row_groups_are_counted_in_the_file(
    part_bytes: int, count: int, group: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.Table.from_pylist([{"text": str(number)} for number in range(1, count + 1)])
    parquet.write_table(table, path, row_group_size=group)
    parts = parts_of(path, part_bytes=part_bytes).values()
    rows = [(row.place, row.text) for part in parts for row in read_part(part)]
    assert rows == [(f"{path}, row {number}", str(number)) for number in range(1, count + 1)]
    assert [(row.place, row.text) for row in read(path)] == rows


def test_rows_of_a_part_of_arrow_say_their_batch(tmp_path: Path) -> None:
    path = write(tmp_path, "a.arrow", arrow_bytes([{"text": str(number)} for number in range(6)]))
    parts = parts_of(path, part_bytes=1).values()
    places = [row.place for part in parts for row in read_part(part)]
    assert places[1:3] == [f"{path}, row 2", f"{path}, batch 2, row 1"]


@pytest.mark.parametrize("slice_bytes", [1, 30])
def test_rows_of_a_large_batch_keep_their_order(
    slice_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_tables, "SLICE_BYTES", slice_bytes)
    rows = [{"text": str(number)} for number in range(1, 10)]
    for data in (arrow_bytes(rows, 4), stream_bytes(rows)):
        path = write(tmp_path, "a.arrow", data)
        expected = [(f"{path}, row {row['text']}", row["text"]) for row in rows]
        assert [(row.place, row.text) for row in read(path)] == expected


def test_a_stream_of_arrow_elsewhere(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe(f"/{tmp_path.name}/a.arrow", stream_bytes())
    uri = f"memory://{tmp_path.name}/a.arrow"
    assert texts_of(uri) == TEXTS
    assert list(parts_of(uri, part_bytes=1)) == ["a.arrow-000000000000"]


@pytest.mark.parametrize("data", [arrow_bytes, stream_bytes])
def test_batches_of_arrow_stay_in_their_file(
    data: Callable[[list[dict[str, Any]]], bytes], tmp_path: Path
) -> None:
    """It is mapped into memory."""
    path = write(tmp_path, "a.arrow", data([{"text": "a" * 10**6}] * 2))
    before = pyarrow.total_allocated_bytes()
    rows = read(path)
    next(rows)
    assert pyarrow.total_allocated_bytes() - before < 10**6
    rows.close()


@pytest.mark.parametrize("name", ["a.parquet.gz", "a.arrow.gz"])
def test_a_compressed_table_is_a_single_part(name: str, tmp_path: Path) -> None:
    """Each part would unpack the whole file."""
    rows = [{"text": "a cat " * 20} for _ in range(100)]
    data = {"a.parquet.gz": parquet_bytes(rows), "a.arrow.gz": arrow_bytes(rows)}[name]
    path = write(tmp_path, name, gzip.compress(data))
    assert len(parts_of(path, part_bytes=1)) == 1


@pytest.mark.parametrize(
    ("name", "module"), [("a.parquet", "pyarrow.parquet"), ("a.arrow", "pyarrow.ipc")]
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, name, {"a.parquet": parquet_bytes(), "a.arrow": arrow_bytes()}[name])
    form = VECTOR_FORMATS[path.suffix]
    calls: dict[str, Callable[[], Any]] = {
        "Reading": lambda: list(read(path)),
        "Writing": lambda: write_rows(str(tmp_path / f"b{path.suffix}"), ROWS),
        "Reading ": lambda: form.read_vectors(path),
        "Writing ": lambda: form.write_vectors(path, [], 2),
    }
    for missing, reason in (
        (module, "installed, but cannot be imported"),
        ("pyarrow", r"not installed: .*\[parquet\]"),
    ):
        monkeypatch.setitem(sys.modules, missing, None)
        for purpose, call in calls.items():
            expected = rf"^{purpose.strip()} \{path.suffix} needs pyarrow, which is {reason}"
            with pytest.raises(ImportError, match=expected):
                call()


def test_version_1_of_feather_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "a.feather", b"FEA1" + bytes(60))
    with pytest.raises(ValueError, match=r"a\.feather.*version 1 of Feather.*to_feather"):
        list(read(path))


def test_many_rows_of_one_long_text_need_little_memory(tmp_path: Path) -> None:
    """The dictionary of a parquet file holds the text once."""
    text = "a" * 10**6
    path = write(tmp_path, "a.parquet", parquet_bytes([{"text": text}] * 2000))
    assert path.stat().st_size < 10**6
    pool = pyarrow.default_memory_pool()
    before = pool.bytes_allocated()
    rows = read(path)
    for _ in range(300):
        next(rows)
    assert pool.bytes_allocated() - before < 600 * 2**20
    rows.close()


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_line_has_a_limit(end: str, tmp_path: Path) -> None:
    texts = [*("word" * count for count in range(30)), "last"]
    for name, encoding in (("a.txt.gz", "utf-8"), ("a.txt", "utf-8"), ("b.txt", "utf-16")):
        data = end.join(texts).encode(encoding)
        path = write(tmp_path, name, gzip.compress(data) if name.endswith("gz") else data)
        read_lines = text_lines(Location(path), None, max_bytes=130)
        assert [line.rstrip("\r\n") for _, line in read_lines] == texts
        with pytest.raises(ValueError, match=rf"{name}, line \d+: the line has more than 40 "):
            list(text_lines(Location(path), None, max_bytes=40))


def test_a_line_of_exactly_the_limit(tmp_path: Path) -> None:
    location = Location(write(tmp_path, "a.txt", "four\nfive\nx\n"))
    for start, numbers in ((0, [1, 2, 3]), (1, [5, 10])):
        found = list(text_lines(location, None, start=start, max_bytes=5))
        expected = ["four\n", "five\n", "x\n"][-len(numbers) :]
        assert found == list(zip(numbers, expected, strict=True))
        place = "byte 5" if start else "line 1"
        with pytest.raises(ValueError, match=f"{place}: the line has more than 4 bytes"):
            list(text_lines(location, None, start=start, max_bytes=4))


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_parts_of_a_file_that_is_larger_than_a_line_may_be(end: str, tmp_path: Path) -> None:
    """Lines that end in CR are one line, in which no part begins."""
    texts = [f"{number}{end}" for number in range(90, 140)]
    data = "".join(texts).encode()
    location = Location(write(tmp_path, "a.txt", data))
    bounds = [*range(0, len(data), 20), None]
    for size in (7, 40):
        parts = [
            list(text_lines(location, None, start=start, end=stop, max_bytes=size))
            for start, stop in itertools.pairwise(bounds)
        ]
        assert [line for part in parts for _, line in part] == texts
        for part in parts[1:]:
            assert all(data[number:].startswith(line.encode()) for number, line in part)


def test_a_row_in_quotation_marks_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "MAX_LINE_BYTES", 50)
    path = write(tmp_path, "a.csv", 'text\n"one"\n"' + "more\n" * 30)
    with pytest.raises(ValueError, match=r"a\.csv, line 3: the row has more than 50 characters"):
        list(read(path))
    name, text = "n" * 49, "more\n" * 9 + "xx"
    path = write(tmp_path, "b.csv", f'{name}\n"{text}"\n')  # a header and a row of 50
    assert texts_of(path, Table(name)) == [text]


def test_an_array_in_a_compressed_file_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.json.gz", gzip.compress(ARRAY.encode()))
    monkeypatch.setattr(lines, "MAX_WHOLE_BYTES", len(ARRAY))
    assert texts_of(path) == TEXTS
    monkeypatch.setattr(lines, "MAX_WHOLE_BYTES", len(ARRAY) - 1)
    with pytest.raises(ValueError, match=rf"a\.json\.gz has more than {len(ARRAY) - 1} characters"):
        list(read(path))
    monkeypatch.setattr(lines, "MAX_WHOLE_BYTES", 60)
    path = write(tmp_path, "b.json.gz", gzip.compress(json.dumps(ROWS).encode()))
    with pytest.raises(ValueError, match=r"b\.json\.gz, line 1: the line has more than"):
        list(read(path))


PLACES = {
    "a.txt": ("one\n\ntwo\n", ["line 1", "line 2", "line 3"]),
    "a16.txt": ("one\n\ntwo\n".encode("utf-16"), ["line 1", "line 2", "line 3"]),
    "a.csv": ('text\none\n\n"two\nlines"\nthree\n', ["line 2", "line 4", "line 6"]),
    "a.tsv": ("text\tn\none\t1\n\ntwo\t2\nthree\t3\n", ["line 2", "line 4", "line 5"]),
    "a.jsonl": ('\n{"text": "1"}\n\n{"text": "2"}\n{"text": "3"}', ["line 2", "line 4", "line 5"]),
    "a.json": (
        '[\n{"text": "1"},\n\n{"text":\n "2"}, {"text": "3"}]',
        ["line 2", "line 4", "line 5"],
    ),
    "cr.json": ('[\r{"text": "1"},\r\n{"text": "2"}]', ["line 2", "line 3"]),
    "a.parquet": (
        parquet_bytes([{"text": str(number)} for number in range(3)]),
        ["row 1", "row 2", "row 3"],
    ),
    "a.arrow": (
        arrow_bytes([{"text": str(number)} for number in range(3)]),
        ["row 1", "row 2", "row 3"],
    ),
    "a.feather": (
        stream_bytes([{"text": str(number)} for number in range(3)]),
        ["row 1", "row 2", "row 3"],
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_each_row_knows_its_file_and_line(name: str, tmp_path: Path) -> None:
    data, places = PLACES[name]
    path = write(tmp_path, name, data)
    expected = [f"{path}, {place}" for place in places]
    assert [row.place for row in read(path)] == expected
    write(tmp_path, "z.txt", "last\n")
    assert [row.place for row in read(tmp_path)] == [*expected, f"{tmp_path / 'z.txt'}, line 1"]


def test_a_row_as_text() -> None:
    assert (
        repr(Row("a.txt", 7, {"text": "cat"}, Table())) == "Row('a.txt, line 7', {'text': 'cat'})"
    )


def test_columns_by_their_names_with_their_types(tmp_path: Path) -> None:
    table = Table("q", "a", "y", "key")
    rows = [{"q": "who?", "a": "Ann", "y": 1, "key": 7, "more": [1.5]}]
    for name, data in (
        ("a.jsonl", json.dumps(rows[0])),
        ("a.json", json.dumps(rows)),
        ("a.parquet", parquet_bytes(rows)),
        ("a.arrow", stream_bytes(rows)),
        ("a.feather", feather_bytes(rows)),
    ):
        [row] = read(write(tmp_path, name, data), table)
        assert (row.text, row.pair, row.label, row.id) == ("who?", "Ann", 1, 7)
        assert row.values == rows[0]
    [row] = read(write(tmp_path, "a.csv", "key,q,y,a\n7,who?,1,Ann\n"), table)
    assert (row.text, row.pair, row.label, row.id) == ("who?", "Ann", "1", "7")
    for name in ("a.parquet", "a.arrow", "a.feather"):
        [row] = read(tmp_path / name, columns=["q", "key"], only=True)
        assert row.values == {"q": "who?", "key": 7}


TABLES = {
    "tab": ("a.txt", "text\tn\na\t1\n", Table(delimiter="\t"), ["a"]),
    "semicolon": ("a.csv", 'text;n\n"a;b";1\n', Table(delimiter=";"), ["a;b"]),
    "semicolon in text": ("a.txt", 'n|text\n1|"a|b"\n', Table(delimiter="|"), ["a|b"]),
    "quoted tabs": ("a.tsv", 'text\tn\n"a ""b"""\t1\n', Table(quoting="quoted"), ['a "b"']),
    "literal marks": ("a.tsv", 'text\tn\n"a ""b"""\t1\n', Table(quoting="none"), ['"a ""b"""']),
    "commas in a tsv": ("a.tsv", 'text,n\n"a,b",1\n', Table(delimiter=","), ["a,b"]),
    "tabs in a csv": ("a.csv", 'text\tn\n"재밌다"\t1\n', Table(delimiter="\t"), ['"재밌다"']),
    "marks of a text": ("a.tsv", 'text\tn\n"재밌다"\t1\n""\t2\n', Table(), ['"재밌다"', '""']),
    "csv without quotes": ("a.csv", 'text,n\n"a,1\n', Table(quoting="none"), ['"a']),
    "no header": ("a.csv", "a,1,x\nb,2,y\n", Table(columns=("text", "n")), ["a", "b"]),
    "one column": ("a.tsv", "text, really\na\n", Table("text, really", delimiter="\t"), ["a"]),
    "further columns": ("a.tsv", "good\t1\n", Table(columns=("text",)), ["good"]),
    "a long field": ("a.csv", f"text,n\n{'good ' * 50_000},1\n", Table(), ["good " * 50_000]),
    "a header of the encoding": (
        "a.txt",
        "한글\n나는\n".encode("iso2022_kr"),
        Table(encoding="iso-2022-kr"),
        ["한글", "나는"],
    ),
    "cp949": ("a.csv", "text,n\n한글,1\n".encode("cp949"), Table(encoding="cp949"), ["한글"]),
    "utf-16 without a mark": (
        "a.txt",
        "한글\r\n\n".encode("utf-16-le"),
        Table(encoding="utf-16-le"),
        ["한글", ""],
    ),
    "a mark in utf-16-le": (
        "a.txt",
        "\ufeff한글\n\ufeffb\n".encode("utf-16-le"),
        Table(encoding="utf-16-le"),
        ["한글", "\ufeffb"],
    ),
    "a mark after the mark": ("a.txt", "\ufeffa\n".encode("utf-16"), Table(), ["\ufeffa"]),
    "a mark after that of utf-32": ("a.txt", "\ufeffa\n".encode("utf-32"), Table(), ["\ufeffa"]),
    "breaks in utf-16": ("a.csv", 'text\n"a\r\nb"\n'.encode("utf-16"), Table(), ["a\r\nb"]),
    "an X at the end": ("a.txt", "MAX\nX\n", Table(), ["MAX", "X"]),
    "an X at the end of a row": ("a.tsv", "n\ttext\n1\tMAX\n", Table(), ["MAX"]),
    "quoted names": ("a.tsv", '"text"\t"n"\na\t1\n', Table('"text"', quoting="none"), ["a"]),
    "marks in a name": ("a.csv", '"""text"""\na\n', Table('"text"'), ["a"]),
    "a semicolon in a name": ("a.csv", "text;x,n\na,1\n", Table("text;x"), ["a"]),
    "two marks in a text": ("a.tsv", 'text\tn\na""b\t1\n', Table(), ['a""b']),
    "a line of json": ("a.txt", 'a\n{"text": "b"}\n', Table(), ["a", '{"text": "b"}']),
    "a receptor": ("a.txt", "PAR1 mediates it.\n", Table(), ["PAR1 mediates it."]),
    "a brace after eight digits": ("a.txt", '01234567{"a": 1}\n', Table(), ['01234567{"a": 1}']),
    "brackets": ("a.txt", "[1, 2]\n{x}\n[Music]\n", Table(), ["[1, 2]", "{x}", "[Music]"]),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_table_says_what_the_ending_leaves_open(kind: str, tmp_path: Path) -> None:
    name, data, table, texts = TABLES[kind]
    assert texts_of(write(tmp_path, name, data), table) == texts


BAD_ROWS = {
    "a.txt": (b"one\ncaf\xe9\ntwo\n", ["one", "two"], "line 2"),
    "a.tsv": (b"text\tn\none\t1\nx\ntwo\t2\n", ["one", "two"], "line 3"),
    "b.tsv": (b"text\tn\none\t1\ncaf\xe9\t2\ntwo\t2\n", ["one", "two"], "line 3"),
    "a.csv": (b"text,n\none,1\nx,2,3\ntwo,2\n", ["one", "two"], "line 3"),
    "c.csv": (b'text,n\none,1\n"caf\xe9\nau, lait",2\ntwo,2\n', ["one", "two"], "line 3"),
    "d.csv": (b'text,n\none,1\n"au\ncaf\xe9",2\ntwo,2\n', ["one", "two"], "line 4"),
    "a.jsonl": (b'{"text": "one"}\n{"text": 1}\n{"text": "two"}\n', ["one", "two"], "line 2"),
    "b.jsonl": (b'{"text": "one"}\n{"text": \n', ["one"], "line 2"),
    "c.jsonl": (b'{"text": "one"}\n{"text": "\\ud800"}\n', ["one"], "line 2"),
    "d.jsonl": (b'{"text": "one"}\n{"body": "two"}\n', ["one"], "line 2"),
    "a.json": (b'[{"text": "one"},\n{"text": null}, "x"]', ["one"], "line 2"),
    "a.parquet": (parquet_bytes([{"text": "one"}, {"text": None}]), ["one"], "row 2"),
    "a.arrow": (arrow_bytes([{"text": "one"}, {"text": None}]), ["one"], "row 2"),
    "b.arrow": (stream_bytes([{"text": "one"}, {"text": None}]), ["one"], "row 2"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_that_cannot_be_used_are_left_out_or_an_error(name: str, tmp_path: Path) -> None:
    data, texts, place = BAD_ROWS[name]
    path = write(tmp_path, name, data)
    bad: list[BadRow] = []
    assert [row.text for row in read(path, skip=bad)] == texts
    assert bad[0].place == f"{path}, {place}"
    with pytest.raises(ValueError, match=f"{name}, {place}: "):
        list(read(path))


@pytest.mark.parametrize(
    ("data", "encoding", "fault"),
    [
        (b"caf\xe9", None, "the line is not UTF-8"),
        (b"caf\xe9", "utf-8-sig", "the line is not utf-8, as .*encoding='utf-8-sig'"),
        (b"\xffcaf", "cp949", "the line is not cp949, as .*encoding='cp949'"),
        (b"caf\0", None, "the line has a NUL byte"),
    ],
)
def test_a_line_that_cannot_be_decoded(
    data: bytes, encoding: str | None, fault: str, tmp_path: Path
) -> None:
    """It is named by its first byte in a part of a file, where lines are not counted."""
    table = Table(encoding=encoding)
    path = write(tmp_path, "a.txt", b"one\n" + data + b" " * 300 + b"\n")
    for part, place in ((Part(str(path)), "line 2"), (Part(str(path), 2), "byte 4")):
        bad: list[BadRow] = []
        assert len(list(read_part(part, table, bad))) == (place == "line 2")
        [row] = bad
        assert row.place == f"{path}, {place}"
        assert left_out(bad) == f"1 bad row left out, the first at {row.place}: {row.reason}"
        assert re.match(fault, row.reason)
        assert row.content == repr(data + b" " * (200 - len(data)))[:200]


@pytest.mark.parametrize(
    ("name", "data", "content", "reason"),
    [
        ("a.jsonl", '{"text": \n', '{"text": \n', r"the line is not JSON \(.*\)"),
        ("a.jsonl", '{"text": 1}\n', '{"text": 1}\n', "text should be a text, not 1"),
        ("a.jsonl", "{}\n", "{}\n", r"there is no column 'text'\. The columns are none\. Name .*"),
        ("a.json", '[{"text": null}]', "{'text': None}", "text is null"),
        ("a.json", '[{"text": "\\ud800"}]', r"{'text': '\ud800'}", ".* a surrogate"),
        ("a.json", "[7]", "7", "the row should be a JSON object but is a.*"),
        ("a.csv", 'text,n\na,"1","2"\n', "a,1,2", r"there are 3 columns, not 2 \(text, n\)"),
        ("a.csv", 'text,n\n"a""",1,2\n', 'a",1,2', r"there are 3 columns, not 2 \(text, n\)"),
        ("a.tsv", "text\tn\na\n", "a", r"there are 1 columns, not 2 \(text, n\)"),
        (
            "a.tsv",
            'text\tn\n"a"\n',
            '"a"',
            r".* between quotation marks, pass .*quoting='quoted'.*",
        ),
    ],
)
def test_what_is_wrong_with_a_row(
    name: str, data: str, content: str, reason: str, tmp_path: Path
) -> None:
    bad: list[BadRow] = []
    assert not list(read(write(tmp_path, name, data), skip=bad))
    [row] = bad
    assert row.content == content
    assert re.fullmatch(reason, row.reason)


def test_a_row_with_fewer_columns_than_the_first_without_a_header(tmp_path: Path) -> None:
    bad: list[BadRow] = []
    path = write(tmp_path, "a.csv", "a,1\nb\n")
    assert [row.text for row in read(path, Table(columns=("text",)), bad)] == ["a"]
    assert bad[0].reason == "there are 1 columns, not 2 (text, and 1 more in the first row)"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", "a,1\n", r"no column 'text'.* If the file has no header, pass .*columns="),
        ("a.csv", "text;n\na;1\n", r"line 1: .*'text;n'.*delimiter=';'.*delimiter=','"),
        ("a.csv", 'text,n\n\n"a"b,1\n', r"line 3: .*quoting='none'"),
        ("a.tsv", '"text"\t"n"\n', r"line 1: the names .*quoting='quoted'.*quoting='none'"),
        ("a.tsv", 'text\n\n"a ""b"""\n', r"line 3: .*quoting='quoted'.*quoting='none'"),
        ("a.tsv", 'text\n"""a"\n', r"line 2: .*quoting='quoted'"),
        ("a.tsv", 'text\n"a"""\n', r"line 2: .*quoting='quoted'"),
        ("a.txt", '[{\n"text": "a"}]\n', r"line 1: the line is JSON"),
    ],
)
def test_a_table_that_is_not_what_its_ending_says(
    name: str, data: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        list(read(write(tmp_path, name, data)))


@pytest.mark.parametrize(
    ("column", "others", "message"),
    [
        (
            "text",
            '{"a": 1, "b": 2}',
            r"'text'\. The columns are a, b\. Name the right one by .*text=\.\.\.",
        ),
        (
            "text",
            '{"a": 1, "Text ": "b"}',
            r"'text'\. The columns are a, Text \. Name the right one by .*text='Text '",
        ),
        ("문의", '{"a": 1}', r"'문의'\. The columns are a\. Name the right one by .*text=\.\.\."),
    ],
)
def test_a_column_that_is_missing(column: str, others: str, message: str, tmp_path: Path) -> None:
    """One that differs in case and blanks alone is named."""
    path = write(tmp_path, "a.jsonl", others)
    with pytest.raises(ValueError, match=f"line 1: there is no column {message}"):
        list(read(path, Table(column)))
    with pytest.raises(ValueError, match=r"there is no column 'c'\. The columns are [^.]*\.$"):
        list(read(path, columns=["c"]))


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_with_the_name_of_lines(indent: int | None, tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", json.dumps([{"text": "one"}], indent=indent))
    with pytest.raises(ValueError, match=r"line 1: .*Rename the file to end in \.json"):
        list(read(path))


def test_without_a_header_all_rows_have_as_many_columns_as_the_first(tmp_path: Path) -> None:
    table = Table(columns=("label", "text"))
    for data, line in (("1,bye\n2,hello, world\n", 2), ("1,hello, world\n2,bye\n", 2), ("1\n", 1)):
        path = write(tmp_path, "a.csv", data)
        with pytest.raises(ValueError, match=rf"line {line}: there (is|are) . columns"):
            list(read(path, table))


def test_ids_are_whole_numbers_or_strings(tmp_path: Path) -> None:
    rows = '{"text": "a", "id": 1.5}\n{"text": "a", "id": true}\n{"text": "a", "id": null}\n'
    bad: list[BadRow] = []
    assert not list(read(write(tmp_path, "a.jsonl", rows), Table(id="id"), bad))
    assert len(bad) == 3


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "empty.csv", "a.tsv", "a.jsonl", "a.json"])
def test_a_file_without_rows_is_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no text in"):
        list(read(write(tmp_path, name, "text,n\n" if name == "a.csv" else "")))


@pytest.mark.parametrize(
    "fields",
    [
        *[{"delimiter": delimiter} for delimiter in ("", "::", '"', "\r", "\n")],
        *[{"quoting": "auto"}, {"encoding": "korean9"}, {"encoding": "base64"}],
    ],
)
def test_values_of_a_table_that_do_not_exist(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(fields))} "):
        Table(**fields)


def test_values_of_a_table() -> None:
    names: Any = ["text", "n"]
    table = Table(columns=names, delimiter="X", quoting="none", encoding="cp949")
    assert table.columns == ("text", "n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('[{"text": "a"}\n{"text": "b"}]', "line 1: .* without a comma"),
        ('[{"text": "a"}', "has no end"),
        ('[{"text": "a"}]]', "more text after the end"),
        ("[]]", "more text after the end"),
        ("[] \r\n\t", "there is no text"),
        ('[{"text": "a"},\r\n\r{"text" 1}]', r"line 3: not JSON \(.*line 3"),
        ('[\n{"text": "a"},\n{"text": "b"}\n{"text": "c"}]', "line 3: an entry .* without a comma"),
        ('\n {"a": 1}\n{"b": 2}', "has several values"),
        ('\n {"data": [], "x": 1}\n', r"one object with the keys data, x\."),
        ("{}", r"with the keys none\."),
        (" 7", "Write an object for each row"),
    ],
)
def test_arrays_that_are_not_json(data: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read(write(tmp_path, "a.json", data)))


def test_json_of_any_shape(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '{"data": ["한글"]}'.encode("utf-16"))
    assert read_json_value(path) == {"data": ["한글"]}
    write(tmp_path, "a.json", '["한글"]'.encode("cp949"))
    assert read_json_value(path, Table(encoding="cp949")) == ["한글"]
    with pytest.raises(ValueError, match="is not JSON"):
        read_json_value(write(tmp_path, "b.json", "[1"))


@pytest.mark.parametrize("module", ["zstandard", "pyarrow"])
def test_truncated_files_of_zstandard_are_errors(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module)
    if module == "pyarrow":
        monkeypatch.setitem(sys.modules, "zstandard", None)
    data = pyarrow.compress((LINES * 9000).encode(), "zstd", asbytes=True)
    path = write(tmp_path, "a.txt.zst", data + data)
    assert len(texts_of(path)) == 2 * 9000 * len(TEXTS)
    for cut in (1, 12, len(data) // 2):
        path.write_bytes(data[:-cut])
        with pytest.raises(ValueError, match=r"a\.txt\.zst is damaged \(.*Get it again"):
            texts_of(path)


DAMAGED = {
    "a.txt.gz": gzip.compress(b"one two three", mtime=0)[:-9],
    "b.txt.gz": b"plain",
    "a.txt.bz2": b"plain",
    "a.txt.xz": b"\xfd7zXZ\x00",
    "a.parquet": b"PAR1 and no more",
    "a.parquet.gz": b"plain",
    "a.parquet.xz": b"plain",
    "a.feather": b"ARROW1\0\0",
    "a.arrow": arrow_bytes()[:-40],
    "b.arrow": stream_bytes()[:-60],
    "c.arrow": arrow_bytes([{"text": "a"} for _ in range(99)]).replace(b"aa", b"\xff\xff"),
    "d.arrow": b"text\none\n",
    "a.arrow.gz": b"plain",
    "e.arrow": arrow_bytes([{"text": text} for text in ("abc", "def", "ghi")], 3).replace(
        struct.pack("<4i", 0, 3, 6, 9), struct.pack("<4i", 0, 6, 3, 9)
    ),
    "f.arrow": arrow_bytes([{"text": "a", "name": "b"}]).replace(b"name", b"n\xffme"),
    "b.parquet": parquet_bytes([{"text": "a"} for _ in range(99)]).replace(b"a", b"\xff"),
}


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_named(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, DAMAGED[name])
    message = (
        rf"{name} is damaged \(.*\)\. Get it again\.$|{name} is not a complete (parquet|arrow) "
    )
    if Location(path).compressed:
        message = (
            rf"{name} is damaged \(.*\), or not compressed as its ending says\. Get it again\.$"
        )
    with pytest.raises(ValueError, match=message):
        texts_of(path)
    with pytest.raises(ValueError, match=message):
        for part in parts_of(path, part_bytes=1).values():
            list(read_part(part))


class Failing(RowFormat):
    """A format whose library raises an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def records(self, request: RowRequest) -> Iterator[RawRow]:
        raise self.error


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("a.csv", OSError(5, "an error of the disk"), r"^a\.csv .* \(an error of the disk\)\.$"),
        ("a.csv", OSError(2, "it is missing", "b"), r"it is missing: 'b'$"),
        ("a.csv", OSError("the connection is lost"), "^the connection is lost$"),
        ("a.csv", EOFError("it ends"), "^it ends$"),
        ("a.csv", UnicodeError("it is not text"), "^it is not text$"),
        ("a.csv.gz", ValueError("a.csv.gz, line 1: a row"), "^a.csv.gz, line 1: a row$"),
        ("a.csv.gz", RuntimeError("another error"), "^another error$"),
    ],
)
def test_errors_without_damage_stay(name: str, error: Exception, message: str) -> None:
    with pytest.raises(type(error), match=message):
        list(Failing(error).read(RowRequest(Location(name), Table())))


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_any_error_of_arrow_means_damage(name: str) -> None:
    error = pyarrow.ArrowNotImplementedError("it is new")
    with pytest.raises(ValueError, match=rf"{name} is damaged \(it is new\).*\. Get it again"):
        list(Failing(error).read(RowRequest(Location(name), Table())))


@pytest.mark.needs("named pipes")
def test_a_named_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    """The shell creates a pipe for `--file <(zcat texts.gz)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(
        target=pipe.write_bytes, args=(b"I love Korea\nParis\n",), daemon=True
    )
    writer.start()
    assert texts_of(pipe) == ["I love Korea", "Paris"]
    writer.join()


@pytest.mark.parametrize("table", [None, Table(delimiter="\t")])
def test_stdin(table: Table | None, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"text\tn\na\t1\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    rows = list(read("-", table))
    assert [row.text for row in rows] == (["text\tn", "a\t1"] if table is None else ["a"])
    assert rows[-1].place == "stdin, line 2"
    with pytest.raises(ValueError, match="only once"):
        parts_of("-")


@pytest.mark.parametrize("name", ["a.txt", "a.csv.gz", "a.parquet", "a.json", "a.arrow"])
def test_uris(name: str, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    data = {**READABLE, "a.csv.gz": READABLE["a.Csv.GZ"], "a.parquet": READABLE["a.PARQUET"]}
    data["a.json"] = data["array.json"]
    fs = fsspec.filesystem("memory")
    fs.pipe(f"/{tmp_path.name}/{name}", data[name])
    fs.pipe(f"/{tmp_path.name}/_hidden", b"hidden")
    for uri in (f"memory://{tmp_path.name}/{name}", f"memory://{tmp_path.name}"):
        assert texts_of(uri) == TEXTS
        parts = parts_of(uri, part_bytes=10)
        assert [row.text for part in parts.values() for row in read_part(part)] == TEXTS
    write(tmp_path, name, data[name])
    assert texts_of(f"file://{tmp_path}") == TEXTS


def test_a_web_address_has_a_question_and_no_size() -> None:
    fsspec = pytest.importorskip("fsspec")

    class Web(fsspec.AbstractFileSystem):  # type: ignore[misc]
        """As fsspec's own for HTTP, whose paths are addresses."""

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path

        def exists(self, path: str, **_: Any) -> bool:
            return True

        def find(self, path: str, **_: Any) -> dict[str, Any]:
            return {path: {}}

        def open(self, path: str, *_: Any, **__: Any) -> io.BytesIO:
            return io.BytesIO(CSV.encode())

    fsspec.register_implementation("web", Web, clobber=True)
    address = "web://host/a.csv?download=true"
    assert texts_of(address) == TEXTS
    parts = parts_of(address, part_bytes=10)
    assert [row.text for part in parts.values() for row in read_part(part)] == TEXTS


@pytest.mark.parametrize("name", ["nothing.txt", "folder"])
def test_files_that_do_not_exist(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=name):
        list(read(tmp_path / name))
    with pytest.raises(FileNotFoundError, match=name):
        list(read(f"memory://{tmp_path.name}/{name}"))
    with pytest.raises(FileNotFoundError, match=f"there is no file memory://{tmp_path}"):
        list(read(f"memory://{tmp_path}"))  # where this machine has a folder
    with pytest.raises(FileNotFoundError, match=f"there is no file {tmp_path / name}"):
        list(read(tmp_path / name))


@pytest.mark.parametrize("uri", ["nowhere://host/a.txt", "s4://bucket"])
def test_uris_of_unknown_kinds(uri: str) -> None:
    with pytest.raises(ValueError, match="cannot be reached"):
        Location(uri)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("aä\r", max_size=4), max_size=12), st.booleans(), st.integers(1, 30))
def test_any_lines_in_any_parts(
    tmp_path: Path, lines: list[str], last_break: bool, size: int
) -> None:
    text = "\n".join(lines) + ("\n" if last_break else "")
    (tmp_path / "a.txt").write_bytes(text.encode())
    expected = [line.rstrip("\r\n") for line in io.StringIO(text, newline="")]
    parts = parts_of(tmp_path, part_bytes=size) if text else {}
    assert [row.text for part in parts.values() for row in read_part(part)] == expected


@pytest.mark.parametrize("name", ["a.txt", "array.json.gz", "a.PARQUET", "a.arrow"])
def test_buckets(name: str, bucket: str) -> None:
    with Location(f"{bucket}/in/{name}/{name}").replacing() as temporary:
        temporary.write_bytes(READABLE[name])
    for uri in (f"{bucket}/in/{name}/{name}", f"{bucket}/in/{name}"):
        assert texts_of(uri) == TEXTS
        parts = parts_of(uri, part_bytes=10)
        assert [row.text for part in parts.values() for row in read_part(part)] == TEXTS
    assert list(Location(f"{bucket}/in/{name}").files()) == [name]


@pytest.mark.parametrize("name", ["한글 파일.txt", "100%.txt", "a%20b.txt", "a#1+[x].txt"])
def test_any_name_in_a_bucket(name: str, bucket: str) -> None:
    folder = Location(f"{bucket}/names of {name}")
    with (folder / name).replacing() as temporary:
        temporary.write_text("a text", encoding="utf-8")
    assert list(folder.files()) == [name]
    assert texts_of(str(folder)) == texts_of(f"{folder}/{name}") == ["a text"]


def test_a_failed_upload_keeps_the_old_file(bucket: str) -> None:
    location = Location(f"{bucket}/kept.txt")
    with location.replacing() as temporary:
        temporary.write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError), location.replacing() as temporary:
        temporary.write_text("new", encoding="utf-8")
        raise RuntimeError
    assert location.open().read() == b"old"
    location.delete()
    assert not location.files()


class Unreachable:
    """A file system that raises errors of its own library."""

    def exists(self, path: str) -> None:
        raise RuntimeError("no route to host")

    def open(self, path: str, mode: str) -> None:
        raise RuntimeError("no route to host")


def test_errors_of_other_file_systems_become_an_oserror() -> None:
    location = Location("memory://a.txt")
    location.fs = Unreachable()
    for reach in (location.files, location.open):
        with pytest.raises(OSError, match=r"a\.txt cannot be reached: no route to host"):
            reach()


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("\n<!DOCTYPE html>", "is an HTML page"),
        ("\ufeff<html>", "is an HTML page"),
        ('<doc id="12" url="" title="A">\nA\n</doc>', "of WikiExtractor.*--json.*sed"),
    ],
)
def test_markup_is_no_text(head: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read(write(tmp_path, "a.txt", head + "\n")))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.xlsx", b"PK\x03\x04" + bytes(80), "is a zip archive"),
        ("a.xls", b"\xd0\xcf\x11\xe0" + bytes(80), "Hangul or Office"),
        ("a.txt", b"\x90\2\0\0\0\0\0\0" + b'{"w": {"dtype": "F32"', "a safetensors file"),
        ("a.txt", b"__label__good a film\n", "no column 'label'.*What minibert does not do"),
    ],
)
def test_a_column_of_a_file_without_columns(
    name: str, data: bytes, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, name, data)
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        list(read(path, Table(label="label")))
    with pytest.raises(ValueError, match=f"{name}.*{message.replace('label', 'n')}"):
        list(read(path, Table(columns=("text", "n"))))


def test_a_column_of_lines_is_answered_by_every_ending_of_a_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        list(read(write(tmp_path, "a.txt", b"a film\n"), Table(label="label")))
    words = str(error.value).replace(",", " ").split()
    assert {end for end, form in ROW_FORMATS.items() if form.has_columns} <= set(words)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.jsonl", {"delimiter": ";"}),
        ("a.json", {"columns": ("text", "n")}),
        ("a.parquet", {"quoting": "quoted"}),
        ("a.parquet", {"encoding": "cp949"}),
        ("a.arrow", {"delimiter": ","}),
        ("a.txt", {"quoting": "none"}),
    ],
)
def test_an_option_without_effect_is_said(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    data = {"a.jsonl": JSON_LINES, "a.json": ARRAY, "a.parquet": parquet_bytes(), "a.txt": LINES}
    data["a.arrow"] = arrow_bytes()
    path = write(tmp_path, name, data[name])
    table = Table(**options)
    with pytest.warns(UserWarning, match=f"{next(iter(options))} has no effect on .*{name}"):
        assert [row.text for row in read(path, table)] == TEXTS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(read(path))
        list(read_part(Part(str(path), 1), table))  # the first part has said it


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_column_in_another_form_of_unicode_is_named(ending: str, tmp_path: Path) -> None:
    """The names look the same on the screen, so the listing of the columns explains nothing."""
    name = unicodedata.normalize("NFD", "문의")
    rows = {"csv": f"{name}\na\n", "jsonl": json.dumps({name: "a"})}
    file = tmp_path / f"mac.{ending}"
    file.write_text(rows[ending], encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"no column .*looks the same.*NFC and NFD.*text='{name}'"
    ):
        list(read(file, Table(text="문의")))
    assert [row.text for row in read(file, Table(text=name))] == ["a"]


@pytest.mark.parametrize("skip", [None, [], [BadRow("a.csv, line 2", "of another file", "x")]])
def test_a_header_in_another_encoding_is_not_left_out(tmp_path, skip):
    """Otherwise the next row would be the header."""
    path = tmp_path / "reviews.csv"
    path.write_bytes("내용,label\n".encode("cp949") + b"good,1\nbad,0\n")
    with pytest.raises(ValueError, match="line 1: the line is not UTF-8") as caught:
        list(read(path, Table("good"), skip, columns=()))
    assert not isinstance(caught.value, BadRowError)
