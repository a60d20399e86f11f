"""Tables and JSON as programs write them are read correctly, or the error says what to do."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from minibert.cli import main
from minibert.corpus.inputs import parts_of, read_part, read_rows, read_table, read_texts
from minibert.training.finetuning import SequenceTask

ROWS = [
    {"text": text, "label": label}
    for text, label in (("the tree is tall", "pos"), ("나는 학교에 갔다", "neg"), ("hi", "pos"))
]
TEXTS = [row["text"] for row in ROWS]
CSV = "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in ROWS)


def dump(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def write(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def parquet_bytes(table: pyarrow.Table) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


READABLE = {
    "printed.jsonl": "\n".join(dump(row, 2) for row in ROWS),
    "printed.ndjson": "\n".join(dump(row, 2) for row in ROWS),
    "joined.json": "".join(map(dump, ROWS)),
    "joined.jsonl": "".join(map(dump, ROWS)),
    "sep.csv": "sep=;\n" + CSV.replace(",", ";"),
    "blanks.csv": CSV + "   \n",
    "unnamed.csv": "".join(f"{line},,\n" for line in CSV.splitlines()),
}


@pytest.mark.parametrize("name", READABLE)
def test_variants_of_formats_are_read(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, READABLE[name])
    assert list(read_texts(path)) == TEXTS
    assert [row["label"] for _, row in read_rows(path)] == ["pos", "neg", "pos"]
    assert [row["text"] for row in SequenceTask().read(path)] == TEXTS
    parts = parts_of(path, None, 10)
    assert [text for part in parts.values() for text in read_part(part)] == TEXTS


FAULTS = {
    # JSON
    "data.json": (
        dump({"data": ROWS}),
        "no column 'text'.*'data' is a list of objects: .*jq .data",
    ),
    "columns.json": (
        dump({name: [row[name] for row in ROWS] for name in ROWS[0]}),
        r"text should be a text, not \[.*seems to hold a list for each column: write an object",
    ),
    "indices.json": (
        dump({name: {str(n): row[name] for n, row in enumerate(ROWS)} for name in ROWS[0]}),
        "seems to hold a list for each column",
    ),
    "rows.json": (
        dump({str(n): row for n, row in enumerate(ROWS)}),
        r"values are objects: .*jq '\[",
    ),
    "null.json": ("null", "should hold a JSON object but holds null"),
    "cut.jsonl": (
        dump(ROWS[0]) + '\n{"text": \n',
        r"line 2: the line is not JSON \(.*: column 11\)",
    ),
    # JSON under the name of a table
    "lines.csv": ("\n".join(map(dump, ROWS)), r"lines\.csv, line 1: the line is JSON, but files"),
    "array.tsv": (dump(ROWS), r"array\.tsv, line 1: the line is JSON, but files that do not end"),
    # tables
    "decimal.csv": ("text;label\nhi;0,5\n", "no column 'text'.*pass --delimiter ';'"),
    "title.csv": ("Export\n\n" + CSV, r"there is no column 'text'. The columns are Export\."),
    "twice.csv": ("text,text,label\na,b,c\n", "has the column 'text' twice"),
    "long.csv": (
        'text,label\n"open,pos\n' + "hi,neg\n" * 30,
        "line 2: unexpected end of data. Look for a quotation mark too many",
    ),
    # parquet
    "csv.parquet": (CSV, "is not a parquet file but begins with b'text,label"),
    "page.parquet": ("<html></html>", "is an HTML page"),
    "twice.parquet": (
        parquet_bytes(pyarrow.Table.from_arrays([[1], ["a"], ["b"]], ["text", "text", "label"])),
        "has the column 'text' twice: rename one",
    ),
    "bytes.parquet": (
        parquet_bytes(pyarrow.table({"text": [b"hi"], "label": ["a"]})),
        "row 0: text should be a text, not b'hi'",
    ),
    "packed.parquet": (
        gzip.compress(parquet_bytes(pyarrow.table({"text": ["hi"]}))),
        "is compressed as a whole: decompress it",
    ),
    "table.parquet.gz": (
        gzip.compress(parquet_bytes(pyarrow.table({"text": ["hi"]}))),
        "is compressed as a whole: decompress it",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_reader_raises_the_same_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, message = FAULTS[name]
    path = write(tmp_path, name, data)
    sentences = set()
    for command in ("embed -m minibert-tiny --file", "search hi -m minibert-tiny --corpus"):
        assert main([*command.split(), str(path)]) == 1
        sentences.add(capsys.readouterr().err.partition(": ")[2].strip())
    with pytest.raises(ValueError, match=message) as error:
        SequenceTask().read(path)
    from_training = " ".join(str(error.value).split())
    [sentence] = sentences
    assert from_training.startswith(sentence)  # training may add advice of its own


def test_a_damaged_page_of_parquet_names_its_file(tmp_path: Path) -> None:
    rows = [{"text": f"hello {number}", "label": "x"} for number in range(500)]
    data = bytearray(parquet_bytes(pyarrow.Table.from_pylist(rows)))
    data[40:80] = bytes(byte ^ 255 for byte in data[40:80])
    with pytest.raises(ValueError, match=r"a\.parquet is damaged \("):
        list(read_texts(write(tmp_path, "a.parquet", bytes(data))))


TABLES = {
    "tags": "Ann\tB-PER\nsang\tO\n\nKorea\tB-LOC\n",
    "NSMC": "id\tdocument\tlabel\n1\t좋은 영화\t1\n2\t별로\t0\n",
    "comma": CSV,
    "semicolon": 'id;"text"\n1;the tree, tall\n',
    "Korean": "번호,문장,라벨\n1,나는 간다,긍정\n",
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_in_a_text_file_raises_an_error(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", TABLES[kind])
    with pytest.raises(ValueError, match=r"a\.txt, line 1: the lines are a table.* --delimiter"):
        list(read_texts(path))
    parts = parts_of(path, None, 10**6)
    with pytest.raises(ValueError, match="the lines are a table"):
        [text for part in parts.values() for text in read_part(part)]


@pytest.mark.parametrize(
    "lines",
    [
        ["Hello, text", "and more, label"],
        ["\tindented by a tab", "\tas all of it is", "\tto the end"],
        ["name\tvalue", "no tab here", "x\ty"],
        ["text"],
        ["label", "text", "text, label"],
        ["one, two", "three, four", "five, six"],
    ],
)
def test_text_that_only_resembles_a_table(lines: Sequence[str], tmp_path: Path) -> None:
    assert list(read_texts(write(tmp_path, "a.txt", "\n".join(lines)))) == list(lines)


@pytest.mark.parametrize("kind", TABLES)
def test_lines_that_resemble_a_table_are_read_where_that_is_asked_for(
    kind: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "a.txt", TABLES[kind])
    lines = TABLES[kind].splitlines()
    assert list(read_texts(path, delimiter="")) == lines
    assert [row["text"] for _, row in read_rows(path, delimiter="")] == lines
    parts = parts_of(path, None, 10**6, delimiter="")
    assert [text for part in parts.values() for text in read_part(part)] == lines


def test_a_delimiter_makes_a_text_file_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", TABLES["NSMC"])
    assert list(read_texts(path, "document", delimiter="\t")) == ["좋은 영화", "별로"]
    assert read_table(path)[0]["label"] == "1"
