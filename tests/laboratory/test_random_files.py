"""Files that other libraries write, read by minibert, and the other way round."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import assume, reject, strategies as st
from programs import assert_same, compare, programs
from pyarrow import feather, parquet
from safetensors.numpy import load_file, save_file

from minibert import open_vectors
from minibert.text import Table, parts_of, read, read_part
from minibert.text.formats import SHARD_FORMATS, Entry
from minibert.text.write import write_rows

# No surrogates, which UTF-8 cannot encode, and no NUL, which is an error in a file of text.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
CELLS = st.one_of(
    st.text(LETTERS, max_size=6),
    st.text(" \t\r\n\"',;|#\\\ufeff\u2028\x1c가é漢あя😀", max_size=6),
    st.sampled_from(["", '""', '"a"', '"a ""b"""', "NA", "null", "1", "{", "[1]", " a ", "\x1a"]),
)
NAMES = st.lists(
    st.text(LETTERS | st.just("\ufeff"), min_size=1, max_size=4).filter(
        lambda name: name != "text"
    ),
    max_size=2,
    unique=True,
)
MARKED = ("utf-8", "utf-8-sig", "utf-16", "utf-32")  # that need no name
ENCODINGS = (
    *MARKED,
    *("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "ascii", "latin-1", "cp1252", "cp1250"),
    *("iso8859-15", "koi8-r", "cp949", "euc-kr", "shift_jis", "euc-jp", "gb18030", "big5"),
)


@st.composite
def tables(draw: st.DrawFn, cells: st.SearchStrategy[Any] = CELLS) -> list[dict[str, Any]]:
    """Rows with a column of texts and up to two others."""
    kinds = {"text": CELLS, **dict.fromkeys(draw(NAMES), cells)}
    columns = draw(st.permutations(list(kinds)))
    rows = draw(st.lists(st.fixed_dictionaries(kinds), min_size=1, max_size=5))
    return [{name: row[name] for name in columns} for row in rows]


def values_of(path: Path, table: Table | None = None) -> list[dict[str, Any]]:
    return [row.values for row in read(path, table)]


def encoded(text: str, encoding: str) -> bytes:
    """The bytes of a text that an encoding can hold, and gives back."""
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:
        reject()
    assume(data.decode(encoding) == text.removeprefix("\ufeff") or data.decode(encoding) == text)
    return data


def within(text: str, encoding: str) -> str:
    """The characters of a text that an encoding has."""
    return text.encode(encoding, "ignore").decode(encoding, "ignore")


def of_csv(text: str, **dialect: Any) -> list[dict[str, str]]:
    """The rows of a table by Python's own reader, without blank lines."""
    header, *rows = (row for row in csv.reader(io.StringIO(text, newline=""), **dialect) if row)
    if not rows:  # as where a writer left the only text, a line break, without quotation marks
        raise ValueError("no rows")
    return [dict(zip(header, row, strict=True)) for row in rows]


@programs(
    "files",
    share=1 / 7,
    rows=tables(),
    delimiter=st.sampled_from(",;|\t"),
    quoting=st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)),
    end=st.sampled_from(("\n", "\r\n", "\r")),
    encoding=st.sampled_from(ENCODINGS),
)
def test_tables_of_csv(
    tmp_path: Path,
    rows: list[dict[str, str]],
    delimiter: str,
    quoting: Any,
    end: str,
    encoding: str,
) -> None:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator=end)
    header = [within(name, encoding) for name in rows[0]]
    assume(all(header) and len(set(header)) == len(header))
    cells = [[within(cell, encoding) for cell in row.values()] for row in rows]
    writer.writerows([header, *cells])
    text = stream.getvalue()
    data = encoded(text, encoding)
    (tmp_path / "a.csv").write_bytes(data)
    named = None if encoding in MARKED else encoding
    table = Table(delimiter=delimiter, quoting="quoted", encoding=named)
    compare(
        lambda: values_of(tmp_path / "a.csv", table),
        lambda: of_csv(text, delimiter=delimiter, strict=True),
    )


@programs("files", share=1 / 7, quick=12, rows=tables(), end=st.sampled_from(("\n", "\r\n")))
def test_tables_of_pandas(tmp_path: Path, rows: list[dict[str, str]], end: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows)
    frame.to_csv(tmp_path / "a.csv", index=False, lineterminator=end)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    frame.to_feather(tmp_path / "a.feather")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_json(tmp_path / "a.json", orient="records", indent=1, force_ascii=False)
    for name in ("a.parquet", "a.feather", "a.jsonl", "a.json"):
        assert_same(values_of(tmp_path / name), rows, at=name)
    text = (tmp_path / "a.csv").read_bytes().decode()
    compare(lambda: values_of(tmp_path / "a.csv"), lambda: of_csv(text, strict=True))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(LETTERS, max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@programs(
    "files",
    share=1 / 7,
    rows=tables(JSON),
    ascii_only=st.booleans(),
    indent=st.sampled_from((None, 0, 2)),
    end=st.sampled_from(("\n", "\r\n", "\r", "\n\n")),
    encoding=st.sampled_from(MARKED),
)
def test_json(
    tmp_path: Path,
    rows: list[dict[str, Any]],
    ascii_only: bool,
    indent: int | None,
    end: str,
    encoding: str,
) -> None:
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    array = json.dumps(rows, ensure_ascii=ascii_only, indent=indent)
    for name, text in (("a.jsonl", end.join(lines)), ("a.json", array.replace("\n", end))):
        data = encoded(text, encoding)
        path = tmp_path / name
        path.write_bytes(data)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
        for written in (path, tmp_path / f"{name}.gz"):
            assert_same(values_of(written), rows, at=written.name)
        parts = parts_of(path, part_bytes=7).values()
        assert_same([row.values for part in parts for row in read_part(part)], rows)


TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (pyarrow.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pyarrow.uint8(), st.integers(0, 255)),
    "float": (pyarrow.float64(), st.floats()),
    "bool": (pyarrow.bool_(), st.booleans()),
    "bytes": (pyarrow.binary(), st.binary(max_size=4)),
    "date": (pyarrow.date32(), st.dates()),
    "time": (pyarrow.timestamp("us"), st.datetimes()),
    "list": (pyarrow.list_(pyarrow.string()), st.lists(st.text(LETTERS, max_size=3), max_size=3)),
    "struct": (
        pyarrow.struct({"a": pyarrow.int32()}),
        st.fixed_dictionaries({"a": st.none() | st.integers(-9, 9)}),
    ),
    "words": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), st.sampled_from("abc")),
}


@programs(
    "files",
    share=1 / 7,
    kinds=st.lists(st.sampled_from(list(TYPES)), max_size=3, unique=True),
    data=st.data(),
    count=st.integers(1, 9),
    size=st.integers(1, 4),
    text_kind=st.sampled_from((pyarrow.string(), pyarrow.large_string())),
)
def test_tables_of_arrow(
    tmp_path: Path, kinds: Sequence[str], data: st.DataObject, count: int, size: int, text_kind: Any
) -> None:
    texts = data.draw(st.lists(CELLS, min_size=count, max_size=count))
    columns = {"text": pyarrow.array(texts, text_kind)}
    for kind in kinds:
        arrow_type, values = TYPES[kind]
        drawn = data.draw(st.lists(st.none() | values, min_size=count, max_size=count))
        columns[kind] = pyarrow.array(drawn, arrow_type)
    table = pyarrow.table(columns)
    compression = data.draw(st.sampled_from(("uncompressed", "lz4", "zstd")))
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=size)
    feather.write_feather(table, tmp_path / "a.feather", compression=compression, chunksize=size)
    with pyarrow.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table, size)
    for name in ("a.parquet", "a.feather", "a.arrow"):
        rows = [row.values for row in read(tmp_path / name)]
        expected = table.to_pylist()
        if name == "a.parquet":
            expected = parquet.read_table(tmp_path / name).to_pylist()
        assert_same(rows, expected, at=name)
        parts = parts_of(tmp_path / name, part_bytes=1).values()
        in_parts = [row.values["text"] for part in parts for row in read_part(part)]
        assert in_parts == texts


@programs("files", share=1 / 7, rows=tables(CELLS | st.integers() | st.none() | st.booleans()))
def test_what_minibert_writes(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    """It is read back by other libraries as by minibert, or refused."""
    cells = [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
    ]
    for ending in (".csv", ".tsv", ".jsonl", ".parquet", ".arrow"):
        path = tmp_path / f"a{ending}"
        try:
            write_rows(str(path), rows)
        except ValueError:
            starts_with_mark = next(iter(rows[0])).startswith("\ufeff")
            assert ending != ".jsonl" and (ending != ".csv" or starts_with_mark)
            continue
        if ending == ".csv":
            found = of_csv(path.read_bytes().decode(), strict=True)
        elif ending == ".tsv":
            header, *lines = path.read_bytes().decode().removesuffix("\n").split("\n")
            names = header.split("\t")
            found = [dict(zip(names, line.split("\t"), strict=True)) for line in lines]
        elif ending == ".jsonl":
            found = [json.loads(line) for line in path.read_bytes().decode().split("\n")[:-1]]
        elif ending == ".parquet":
            found = parquet.read_table(path).to_pylist()
        else:
            found = feather.read_table(path).to_pylist()
        expected = cells if ending in (".csv", ".tsv") else rows
        assert_same(found, expected, at=ending)
        assert_same(values_of(path), expected, at=ending)


@programs(
    "files",
    share=1 / 7,
    text=st.text(st.sampled_from("a\r\n \t가é漢あя\u2028\x0b\x0c\x1c\x85\ufeff"), max_size=30),
    encoding=st.sampled_from(ENCODINGS),
    size=st.integers(1, 20),
)
def test_lines(tmp_path: Path, text: str, encoding: str, size: int) -> None:
    text = within(text, encoding)
    assume(text not in ("", "\ufeff"))
    data = encoded(text, encoding)
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    named = None if encoding in MARKED else encoding
    table = Table(encoding=named)
    if encoding.startswith("utf") and encoding not in MARKED[1:]:  # a mark that is not needed
        text = text.removeprefix("\ufeff")
    expected = [line.rstrip("\r\n") for line in io.StringIO(text, newline="")]
    assert [row.text for row in read(path, table)] == expected
    parts = parts_of(path, table, size).values()
    assert [row.text for part in parts for row in read_part(part, table)] == expected


@programs(
    "files",
    share=1 / 7,
    sizes=st.lists(st.integers(1, 3), max_size=3),
    dimension=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    exponent=st.integers(-40, 38),
)
def test_vectors(
    tmp_path: Path, sizes: list[int], dimension: int, seed: int, exponent: int
) -> None:
    generator = np.random.default_rng(seed)
    parts = [generator.normal(size=(size, dimension)) * 10.0**exponent for size in sizes]
    parts = [part.astype(np.float32) for part in parts]
    whole = np.concatenate([np.empty((0, dimension), np.float32), *parts])
    chunks = [([Entry("a", 1)] * len(part), part) for part in parts]
    for name, form in SHARD_FORMATS.items():
        path = tmp_path / f"a.{name}"
        form.write_vectors(path, iter(chunks), dimension)
        if len(whole) or name != "jsonl":
            found = open_vectors(path)
            assert_same(np.asarray(found), whole)
    assert_same(np.load(tmp_path / "a.npy"), whole)
    assert_same(load_file(tmp_path / "a.safetensors")["vectors"], whole)
    for table in (
        parquet.read_table(tmp_path / "a.parquet"),
        feather.read_table(tmp_path / "a.arrow"),
    ):
        values = np.array(table["vector"].to_pylist(), dtype=np.float32)
        assert_same(values.reshape(whole.shape), whole)
    np.save(tmp_path / "b.npy", whole)
    save_file({"vectors": whole}, tmp_path / "b.safetensors")
    columns = pyarrow.table(
        {"vector": pyarrow.array(list(whole), pyarrow.list_(pyarrow.float32()))}
    )
    parquet.write_table(columns, tmp_path / "b.parquet")
    feather.write_feather(columns, tmp_path / "b.feather")
    for name in ("b.npy", "b.safetensors", *(("b.parquet", "b.feather") if len(whole) else ())):
        assert_same(np.asarray(open_vectors(tmp_path / name)), whole, at=name)
    assert math.isfinite(float(np.abs(whole).sum())) or exponent > 30
