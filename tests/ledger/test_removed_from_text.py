"""Checks and guesses of reading that were removed: what their smallest inputs give now.

Each row is an input that a check of `minibert.corpus` met, by the name of the file and its bytes.
It gives an error, of which the row has a part, or the literal reading that docs/files.md states.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from minibert.text import Table, parts_of, read, read_part

TEXTS = ["the tree", "나는 학교에 간다"]
LINES = "".join(f"{text}\n" for text in TEXTS)
ROWS = [{"text": text, "label": str(number)} for number, text in enumerate(TEXTS)]
JSON_LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
CSV = "text,label\nthe tree,0\n나는 학교에 간다,1\n"
NUL = "line 1: the line has a NUL byte"
NOT_UTF8 = "line 1: the line is not UTF-8"
NAME_ENCODING = r"not UTF-8\. Pass its encoding, such as Table\(encoding='cp949'\) for Korean"
NO_ARRAY = r"is not an array of objects.*Rename it to end in \.jsonl"
IS_JSON = r"line 1: the line is JSON, .*Rename it to end in \.jsonl"


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    return stream.getvalue()


def arrow_stream() -> bytes:
    stream = io.BytesIO()
    table = pyarrow.table({"text": TEXTS})
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def parquet_bytes(table: pyarrow.Table | None = None) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS) if table is None else table, stream)
    return stream.getvalue()


Outcome = str | list[str]
"""A regular expression for the error, or the texts."""

# 30 kinds of files by their first bytes, and 26 by their endings, have become 8 kinds by their
# first bytes. What else is binary has NUL bytes or is not UTF-8.
KINDS: dict[str, tuple[str, bytes, Outcome]] = {
    "bzip2 as text": ("a.txt", bz2.compress(LINES.encode() * 9), "not UTF-8|NUL byte"),
    "xz as a table": ("a.csv", lzma.compress(CSV.encode()), "not UTF-8|NUL byte"),
    "zstd as text": (
        "a.txt",
        pyarrow.compress(b"a" * 99, "zstd", asbytes=True),
        "not UTF-8|NUL byte",
    ),
    "gzip as text": ("a.txt", gzip.compress(LINES.encode()), r"gzip-compressed: rename .* \.gz"),
    "gzip as .gzip": ("a.txt.gzip", gzip.compress(b"a"), r"gzip-compressed: rename .* \.gz"),
    "gzip as .tgz": ("a.tgz", gzip.compress(tar()), r"gzip-compressed: rename .* \.gz"),
    "lz4": ("a.txt", b"\x04\x22\x4d\x18\xff" + bytes(60), NUL),
    "lz4 by its ending": ("a.txt.lz4", b"\x04\x22\x4d\x18\xff" + bytes(60), NUL),
    "compress": ("a.txt", b"\x1f\x9d\x90" + bytes(range(60)), NUL),
    "compress by its ending": ("a.txt.Z", b"\x1f\x9d\x90" + bytes(range(60)), NUL),
    "7z": ("a.7z", b"7z\xbc\xaf\x27\x1c\0\4", NUL),
    "rar": ("a.rar", b"Rar!\x1a\x07\x01\0", NUL),
    "tar": ("a.txt", tar(), NUL),
    "tar by its ending": ("a.tar", tar(), NUL),
    "tar.gz": ("a.tar.gz", gzip.compress(tar()), NUL),
    "zip": ("a.zip", b"PK\x03\x04" + bytes(80), "is a zip archive"),
    "xlsx": ("a.xlsx", b"PK\x03\x04" + bytes(80), r"a zip archive, as \.xlsx.*save it as \.csv"),
    "xlsx as csv": ("a.csv", b"PK\x03\x04" + bytes(80), r"a zip archive, as \.xlsx"),
    "docx": ("a.docx", b"PK\x03\x04" + bytes(80), r"\.docx.* or \.txt"),
    "hwpx": ("a.hwpx", b"PK\x03\x04" + bytes(80), r"\.hwpx.* or \.txt"),
    "ods": ("a.ods", b"PK\x03\x04" + bytes(80), "is a zip archive"),
    "odt": ("a.odt", b"PK\x03\x04" + bytes(80), "is a zip archive"),
    "hwp": ("a.hwp", b"\xd0\xcf\x11\xe0" + bytes(80), "is a document of Hangul or Office"),
    "doc": ("a.DOC", b"\xd0\xcf\x11\xe0" + bytes(80), "is a document of Hangul or Office"),
    "xls as csv": ("a.csv", b"\xd0\xcf\x11\xe0" + bytes(80), "is a document of Hangul or Office"),
    "pdf": ("a.pdf", b"%PDF-1.4\n", "is a PDF document: extract its text"),
    "pdf as text": ("a.txt", b"%PDF-1.4\n", "is a PDF document: extract its text"),
    "rtf": ("a.rtf", b"{\\rtf1 a}\n", ["{\\rtf1 a}"]),
    "parquet as text": ("a.txt", parquet_bytes(), r"is a parquet file: rename .* \.parquet"),
    "parquet as .pq": ("a.pq", parquet_bytes(), r"is a parquet file: rename .* \.parquet"),
    "arrow": ("a.txt", arrow_stream(), "not UTF-8|NUL byte"),
    # these two endings have a reader again
    "arrow by its ending": ("a.arrow", arrow_stream(), TEXTS),
    "feather": ("a.feather", b"ARROW1\0\0", "is not a complete arrow file"),
    "feather as text": ("a.txt", b"FEA1\0\0\0\0", r"is a Feather file: rename .* \.feather"),
    "avro": ("a.avro", b"Obj\x01\x02\x00", NUL),
    "orc": ("a.orc", b"ORC\x11\x00\x00", NUL),
    "npy": ("a.npy", b"\x93NUMPY\x01\x00v\x00", "NUL byte"),
    "npz": ("a.npz", b"PK\x03\x04" + bytes(80), "is a zip archive"),
    "hdf5": ("a.h5", b"\x89HDF\r\n\x1a\n\0", "NUL byte"),
    "sqlite": ("a.db", b"SQLite format 3\0", NUL),
    "pickle": ("a.txt", pickle.dumps(TEXTS), "is a pickle of Python objects: .* as .jsonl"),
    "pickle by its ending": ("a.pkl", pickle.dumps(TEXTS, 2), "is a pickle of Python objects"),
    "safetensors": ("a.safetensors", b"\x02\0\0\0\0\0\0\0" + b'{"a":1}', "is a safetensors file"),
    "png": ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(80), "NUL byte"),
    "png by a wrong ending": ("a.txt", b"\x89PNG\r\n\x1a\n" + bytes(80), "NUL byte"),
    "jpeg": ("a.txt", b"\xff\xd8\xff\xe0" + bytes(80), "NUL byte"),
    "program": ("a.txt", b"\x7fELF\x02\x01\x01" + bytes(80), NUL),
    "html": ("a.txt", b"\n<!DOCTYPE html>\n<html></html>\n", "is an HTML page: extract its text"),
    "html as json": ("a.json", b"<html></html>", "is an HTML page: extract its text"),
    "html as parquet": ("a.parquet", b"<html></html>", "is an HTML page: extract its text"),
    "xml": ("a.txt", b"<?xml version='1.0'?>\n", ["<?xml version='1.0'?>"]),
    "pointer": ("a.txt", b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    "csv as parquet": ("a.parquet", CSV.encode(), "is not a complete parquet file"),
    "gzip as parquet": ("a.parquet", gzip.compress(parquet_bytes()), "gzip-compressed: rename"),
    "parquet.gz": ("a.parquet.gz", gzip.compress(parquet_bytes()), TEXTS),
    "text as .hwp": ("b.hwp", LINES.encode(), TEXTS),
    "text as .pkl": ("b.pkl", LINES.encode(), TEXTS),
}

# The encoding is not guessed from frequent syllables, kana, ideographs, accents or escapes.
ENCODINGS: dict[str, tuple[str, bytes, Outcome]] = {
    "cp949": ("a.txt", LINES.encode("cp949"), f"line 2: the line is {NAME_ENCODING}"),
    "cp949 csv": ("a.csv", CSV.encode("cp949"), f"line 3: the line is {NAME_ENCODING}"),
    "rare cp949": ("a.txt", "춡\n".encode("cp949"), NAME_ENCODING),
    "cp932": ("a.txt", "これは日本語です\n".encode("cp932"), NOT_UTF8),
    "euc-jp": ("a.txt", "これは日本語です\n".encode("euc-jp"), NOT_UTF8),
    "gbk": ("a.txt", "我们今天去学校学习\n".encode("gbk"), NOT_UTF8),
    "latin-1": ("a.txt", "schön groß\n".encode("latin-1"), NOT_UTF8),
    "cp1252 that is valid cp949": ("a.txt", "naïvely\n".encode("cp1252"), "Korean or cp1252"),
    "utf-16-le": ("a.txt", LINES.encode("utf-16-le"), r"NUL byte.*Table\(encoding='utf-16-le'\)"),
    "utf-16-be": ("a.csv", CSV.encode("utf-16-be"), r"NUL byte.*Table\(encoding='utf-16-le'\)"),
    "Korean utf-16-le": ("a.txt", "한국어 글\n".encode("utf-16-le"), "not UTF-8|NUL byte"),
    "torn utf-16": ("a.txt", "one\n".encode("utf-16") + b"\n", "is not utf-16 after line"),
    "iso-2022-jp": ("a.txt", b"\x1b$B$3\x1b(B\n", ["\x1b$B$3\x1b(B"]),
    "a terminal's colors": ("a.txt", b"\x1b[31mred\x1b[0m\n", ["\x1b[31mred\x1b[0m"]),
    "half a syllable": ("a.txt", b"sa\xea\xb8 y\n", NOT_UTF8),
    "cut at the end": ("a.txt", "글".encode()[:-1], NOT_UTF8),
    "NUL": ("a.txt", b"the tree\nis \0 tall\n", "line 2: the line has a NUL byte"),
    "control characters": ("a.txt", b"\x01\x02\x03\x04\n", ["\x01\x02\x03\x04"]),
    "binary line": ("a.txt", b"a\n\x01\x02\x03\x04\xff\n", "line 2: the line is not UTF-8"),
    "two marks": ("a.txt", b"\xef\xbb\xbf\xef\xbb\xbfone\n", ["\ufeffone"]),
    "a mark in the middle": ("a.txt", b"one\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
    "end of file of DOS": ("a.txt", b"one\r\n\x1a", ["one", "\x1a"]),
    "end of file of DOS in csv": ("a.csv", b"text,n\r\na,1\r\n\x1a", "line 3: there are 1 columns"),
}

# A table or JSON under the name of a text is told by the first line alone, or read as lines.
LINES_OF_OTHERS: dict[str, tuple[str, bytes, Outcome]] = {
    "tags": ("a.txt", b"Ann\tB-PER\nsang\tO\nit\tO\n", ["Ann\tB-PER", "sang\tO", "it\tO"]),
    "NSMC": ("a.txt", b"id\tdocument\n1\tgood\n", ["id\tdocument", "1\tgood"]),
    "csv as text": ("a.txt", b"text,label\na,1\n", ["text,label", "a,1"]),
    "semicolons as text": ("a.txt", b"text;label\na;1\n", ["text;label", "a;1"]),
    "Korean header": ("a.txt", "문장,라벨\n".encode(), ["문장,라벨"]),
    ".tab": ("a.tab", b"text\tn\na\t1\n", ["text\tn", "a\t1"]),
    "json lines as text": ("a.txt", JSON_LINES.encode(), IS_JSON),
    "json after blank lines": ("a.txt", b"\n\n" + JSON_LINES.encode(), "line 3: the line is JSON"),
    "array as text": ("a.txt", json.dumps(ROWS).encode(), IS_JSON),
    "printed object as text": ("a.txt", b'{\n "text": "a"\n}\n', IS_JSON),
    "printed array as text": ("a.txt", b'[\n{"text": "a"}\n]\n', IS_JSON),
    "joined objects as text": ("a.txt", b'{"text": "a"}{"text": "b"}\n', IS_JSON),
    "json after a comment": ("a.txt", b'# data\n{"text": "a"}\n', ["# data", '{"text": "a"}']),
    "json as csv": ("a.csv", JSON_LINES.encode(), "there is no column 'text'"),
    "array as tsv": ("a.tsv", json.dumps(ROWS).encode(), "there is no column 'text'|single column"),
    "not json": ("a.txt", b"{laughs}\n[1, 2]\n", ["{laughs}", "[1, 2]"]),
}

# .jsonl has an object a line, .json an array of objects.
JSON: dict[str, tuple[str, bytes, Outcome]] = {
    "lines as .json": ("a.json", JSON_LINES.encode(), NO_ARRAY),
    "one object as .json": ("a.json", b'{"text": "a"}', "one object with the keys text"),
    "SQuAD": (
        "a.json",
        b'{"data": [{"text": "a"}]}',
        "keys data. Write an array of the rows in it",
    ),
    "columns": ("a.json", b'{"text": ["a"], "label": [1]}', "one object with the keys text, label"),
    "indices": ("a.json", b'{"text": {"0": "a"}}', "one object with the keys text"),
    "rows by their index": ("a.json", b'{"0": {"text": "a"}}', "one object with the keys 0"),
    "null": ("a.json", b"null", "is not an array of objects"),
    "strings": ("a.json", b'["a"]', "line 1: the row should be a JSON object but is a str"),
    "array as .jsonl": ("a.jsonl", json.dumps(ROWS).encode(), "should be a JSON object but is a l"),
    "printed .jsonl": ("a.jsonl", b'{\n "text": "a"\n}\n', "line 1: the line is not JSON"),
    "joined .jsonl": ("a.jsonl", b'{"text": "a"}{"text": "b"}', "line 1: the line is not JSON"),
    "open": ("a.json", b'[{"text": "a"}', "its array has no end"),
    "cut": ("a.json", b'[{"text": "a"}, {"te', "line 1: not JSON"),
    "two arrays": ("a.json", b'[{"text": "a"}][]', "its array has no end|more text after the end"),
    "nested rows": ("a.jsonl", b'{"data": [{"text": "a"}]}', "'data' is nested: write a flat obj"),
    "surrogate": ("a.jsonl", b'{"text": "\\ud83d"}', "half a character, a surrogate"),
}

# Quotation marks and delimiters follow the ending. Nothing is detected.
TABLES: dict[str, tuple[str, bytes, Outcome]] = {
    "tab in a quoted tsv": (
        "a.tsv",
        b'text\tn\n"a\tb"\t1\n',
        r"3 columns, not 2.*quoting='quoted'",
    ),
    "line end in a quoted tsv": ("a.tsv", b'text\tn\n"a\nb"\t1\n', r"1 columns, not 2.*='quoted'"),
    "doubled marks": (
        "a.tsv",
        b'text\tn\n"a ""b"""\t1\n',
        "quoting='quoted'.* quoting='none'|marks",
    ),
    "quoted header": ("a.tsv", b'"text"\t"n"\n"a"\t1\n', "names of the columns stand between"),
    "a quoted text": ("a.tsv", b'text\tn\n"a"\t1\n', ['"a"']),
    "an open mark": ("a.tsv", b'text\tn\n5" pipe\t1\n', ['5" pipe']),
    "sep=;": ("a.csv", b"sep=;\ntext;n\na;1\n", r"single column, 'sep=;'.*delimiter=';'"),
    "semicolons": ("a.csv", b"text;n\na;1\n", r"single column, 'text;n'.*delimiter=';'"),
    "tabs in a csv": ("a.csv", b"text\tn\na\t1\n", "single column"),
    "commas in a tsv": ("a.tsv", b"text,n\na,1\n", r"single column, 'text,n'.*delimiter=','"),
    "a line of blanks": ("a.csv", b"text,n\na,1\n   \n", "line 3: there are 1 columns, not 2"),
    "a title": ("a.csv", b"Export\n\ntext,n\na,1\n", "no column 'text'. The columns are Export"),
    "upper case": ("a.csv", b"Text,n\na,1\n", r"no column 'text'.*Table\(text='Text'\)"),
    "a near name": ("a.csv", b"texts,n\na,1\n", "no column 'text'. The columns are texts, n"),
    "twice": ("a.csv", b"text,text\na,1\n", "has the column 'text' twice"),
    "another column twice": ("a.csv", b"text,n,n\na,1,2\n", ["a"]),
    "a mark too many": (
        "a.csv",
        b'text,n\n"a,1\nb,2\n',
        "line 2: unexpected end of data. Look for",
    ),
    "parquet twice": (
        "a.parquet",
        parquet_bytes(pyarrow.Table.from_arrays([["a"], ["b"]], ["text", "text"])),
        "has the column 'text' twice",
    ),
    "bytes in parquet": (
        "a.parquet",
        parquet_bytes(pyarrow.table({"text": [b"a"]})),
        "row 1: text should be a text, not b'a'",
    ),
}

LEDGER = {
    f"{room}: {name}": row
    for room, rows in (
        ("kind", KINDS),
        ("encoding", ENCODINGS),
        ("lines", LINES_OF_OTHERS),
        ("json", JSON),
        ("table", TABLES),
    )
    for name, row in rows.items()
}


@pytest.mark.parametrize("row", LEDGER)
def test_what_a_removed_check_met(row: str, tmp_path: Path) -> None:
    name, data, outcome = LEDGER[row]
    (tmp_path / name).write_bytes(data)
    if isinstance(outcome, str):
        with pytest.raises(ValueError, match=outcome) as error:
            list(read(tmp_path / name))
        assert name in str(error.value)
    else:
        assert [row.text for row in read(tmp_path / name)] == outcome


def test_ids_that_repeat_are_kept(tmp_path: Path) -> None:
    """A warning counted them. Each row has its result, whatever its id."""
    (tmp_path / "a.csv").write_text("id,text\n1,a\n1,b\n", encoding="utf-8")
    assert [row.id for row in read(tmp_path / "a.csv", Table(id="id"))] == ["1", "1"]


def test_the_encoding_is_the_same_in_all_parts(tmp_path: Path) -> None:
    """Parts of one line were too short to detect cp949."""
    path = tmp_path / "a.txt"
    path.write_bytes(LINES.encode("cp949"))
    parts = parts_of(path, Table(encoding="cp949"), 1)
    rows = [row for part in parts.values() for row in read_part(part, Table(encoding="cp949"))]
    assert [row.text for row in rows] == TEXTS
