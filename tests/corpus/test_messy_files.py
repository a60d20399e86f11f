"""Real-world files are read by their content, or raise a clear error. None is misread."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from minibert.cli import main
from minibert.corpus.inputs import parts_of, read_part, read_rows, read_table, read_texts

TEXTS = ["a cat", "안녕하세요 여러분", 'she said "no"']
ROWS = [{"text": text, "n": number} for number, text in enumerate(TEXTS)]
LINES = "".join(f"{text}\n" for text in TEXTS)
JSON_LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
ARRAY = json.dumps(ROWS, indent=2, ensure_ascii=False)
CSV = 'text,n\na cat,0\n안녕하세요 여러분,1\n"she said ""no""",2\n'
TSV = 'text\tn\na cat\t0\n안녕하세요 여러분\t1\n"she said ""no"""\t2\n'
KOREAN = "나는 오늘 학교에 갔다\n우리는 한국어를 공부합니다\n"


def parquet_bytes() -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), stream)
    return stream.getvalue()


READABLE = {
    "a.jsonl": JSON_LINES.encode(),
    "a.ndjson": JSON_LINES.encode(),
    "lines.json": JSON_LINES.encode(),
    "A.JSONL": JSON_LINES.encode(),
    "crlf.jsonl": JSON_LINES.replace("\n", "\r\n").encode(),
    "cr.jsonl": JSON_LINES.replace("\n", "\r").encode(),
    "blank.jsonl": b"\n\n" + JSON_LINES.replace("\n", "\n\n").encode(),
    "mark.jsonl": JSON_LINES.encode("utf-8-sig"),
    "array.json": ARRAY.encode(),
    "array.jsonl": ARRAY.encode(),
    "one_line.json": json.dumps(ROWS).encode(),
    "printed.json": "\n".join(json.dumps(row, indent=1) for row in ROWS).encode(),
    "c4-train.00000-of-01024.json.gz": gzip.compress(JSON_LINES.encode()),
    "A.CSV": CSV.encode(),
    "a.Csv.GZ": gzip.compress(CSV.encode()),
    "crlf.csv": CSV.replace("\n", "\r\n").encode(),
    "cr.csv": CSV.replace("\n", "\r").encode(),
    "excel.csv": CSV.encode("utf-8-sig"),
    "korean_excel.csv": CSV.encode("cp949"),
    "unicode.csv": CSV.encode("utf-16"),
    "pandas.tsv": TSV.encode(),
    "pandas.TAB": TSV.encode(),
    "unicode.tsv": TSV.encode("utf-16"),
    "a.PARQUET": parquet_bytes(),
    "a.txt": LINES.encode(),
    "NOTES": LINES.encode(),
    "cr.txt": LINES.replace("\n", "\r").encode(),
    "mixed.txt": LINES.replace("\n", "\r\n", 1).encode(),
    "mark.txt": LINES.encode("utf-8-sig"),
    "korean.txt": LINES.encode("cp949"),
    "utf16.txt": LINES.encode("utf-16"),
    "utf16be.txt": b"\xfe\xff" + LINES.encode("utf-16-be"),
    "utf32.txt": LINES.encode("utf-32"),
    "no_end.txt": LINES.rstrip("\n").encode(),
    "a.txt.gz": gzip.compress(LINES.encode()),
    "a.txt.BZ2": bz2.compress(LINES.encode()),
    "a.txt.xz": lzma.compress(LINES.encode()),
}


@pytest.mark.parametrize("name", READABLE)
def test_files_are_read_by_their_content(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(READABLE[name])
    assert list(read_texts(path)) == TEXTS
    assert [row["text"] for _, row in read_rows(path)] == TEXTS


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("part_bytes", [1, 30])
def test_read_in_parts(name: str, part_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(READABLE[name])
    parts = parts_of(path, None, part_bytes)
    assert [text for part in parts.values() for text in read_part(part)] == TEXTS


def test_zstandard_in_several_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    lines = JSON_LINES.splitlines(keepends=True)
    frames = [pyarrow.compress(line.encode(), "zstd", asbytes=True) for line in lines]
    path.write_bytes(b"".join(frames))
    assert list(read_texts(path)) == TEXTS


UNREADABLE = {
    # JSON under a name of plain text
    "json.txt": (JSON_LINES.encode(), r"json\.txt, line 1: the line is JSON, .* \.json,"),
    "comment.txt": (b"# data\n" + JSON_LINES.encode(), "line 2: the line is JSON"),
    "indented.txt": (b'{\n  "text": "a cat"\n}\n', "line 1: the line is JSON"),
    "array.txt": (b'[\n{"text": "a"},\n{"text": "b"}]\n', "line 1: the line is JSON"),
    # JSON of another shape
    "strings.json": (b'["a", "b"]', r"line 1: the entry should be a JSON object but is a str"),
    "open.json": (ARRAY[:-1].encode(), r"open\.json: its JSON array has no end"),
    "cut.json": (ARRAY[:40].encode(), r"cut\.json, line \d: not JSON"),
    "two.json": (ARRAY.encode() + b"[]", "there is more text after the end of its JSON array"),
    "squad.json": (b'{"data": [], "version": "1.1"}', "line 1: there is no column 'text'"),
    "columns.json": (b'{"text": {"0": "a cat"}}', "text should be a text, not {"),
    # binary files under another name
    "packed.txt": (gzip.compress(LINES.encode()), r"gzip-compressed: rename it to end in \.gz"),
    "packed.csv": (lzma.compress(CSV.encode()), r"xz-compressed: rename it to end in \.xz"),
    "table.txt": (parquet_bytes(), r"a parquet file: rename it to end in \.parquet"),
    "sheet.csv": (b"PK\x03\x04" + bytes(80), "a zip archive or an Office document"),
    "sheet.xlsx": (b"PK\x03\x04", r"sheet\.xlsx is a spreadsheet: save it as \.csv"),
    "texts.tar.gz": (gzip.compress(bytes(1024)), r"texts\.tar\.gz is an archive: unpack it"),
    # encodings that are not read
    "no_mark.txt": ("one\ntwo\n".encode("utf-16-le"), "encoded in utf-16le without a byte order"),
    "no_mark.csv": ("text,n\n".encode("utf-16-be"), "encoded in utf-16be without a byte order"),
    "german.txt": ("schön groß\n".encode("latin-1"), "not UTF-8 but looks like cp1252"),
    "japanese.txt": ("これは日本語です\n".encode("cp932"), "not UTF-8 but looks like cp932"),
    "japanese2.txt": ("これは日本語です\n".encode("euc-jp"), "not UTF-8 but looks like euc-jp"),
    "chinese.txt": ("我们今天去学校学习\n".encode("gbk"), "not UTF-8 but looks like gb18030"),
    "few.txt": ("춡\n".encode("cp949"), "line 1: the line is not UTF-8"),
    "torn.txt": ("one\n".encode("utf-16") + b"\n", "begins as utf-16 but is damaged"),
    # columns
    "semicolons.csv": (b"text;n\na cat;0\n", "no column 'text'.*pass --delimiter ';'"),
    "Capital.csv": (b"Text,n\na cat,0\n", "no column 'text'.*pass --text-column 'Text'"),
    "comma.tsv": (b"text,n\na cat,0\n", "no column 'text'.*pass --delimiter ,"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files_raise_a_clear_error(name: str, tmp_path: Path) -> None:
    data, message = UNREADABLE[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        list(read_texts(path))


def test_ids_are_numbers_or_strings(tmp_path: Path) -> None:
    path = tmp_path / "ids.jsonl"
    for value in ("true", "1.5", "null", "[1]"):
        path.write_text(f'{{"id": {value}, "text": "a"}}\n', encoding="utf-8")
        with pytest.raises(ValueError, match="neither a whole number nor a string"):
            list(read_texts(path, id_column="id"))


@pytest.mark.parametrize(("prefix", "size"), [("", 1), ("all of it is ASCII\n" * 9999, 100_000)])
def test_the_korean_code_page_is_detected_in_any_place(
    prefix: str, size: int, tmp_path: Path
) -> None:
    path = tmp_path / "korean.txt"
    path.write_bytes((prefix + KOREAN).encode("cp949"))
    expected = (prefix + KOREAN).splitlines()
    assert list(read_texts(path)) == expected
    parts = parts_of(path, None, size)
    if size > 1:  # a part of one line is too short to tell the encoding
        assert [text for part in parts.values() for text in read_part(part)] == expected


def test_one_broken_line_does_not_change_the_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"ascii\n" + "안녕하세요\n".encode("cp949") + (KOREAN * 9).encode())
    with pytest.raises(ValueError, match="line 2: the line is not UTF-8 but looks like cp949"):
        list(read_texts(path))
    assert list(read_texts(path, on_bad=lambda row: None)) == ["ascii", *KOREAN.split("\n")[:2] * 9]


def test_a_corpus_may_hold_json_further_on(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a line\n" * 200 + '{"text": "a cat"}\n', encoding="utf-8")
    assert len(list(read_texts(path))) == 201


class TestColumns:
    @pytest.mark.parametrize("arguments", [{"column": "text"}, {"id_column": "n"}])
    def test_lines_have_no_columns(self, arguments: Any, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text(LINES, encoding="utf-8")
        with pytest.raises(ValueError, match=r"a\.txt is read as lines, without a column"):
            list(read_texts(path, **arguments))
        with pytest.raises(ValueError, match=r"a\.txt is read as lines, without a column 'body'"):
            list(read_rows(path, ["body"]))

    def test_the_command_reports_the_missing_column(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "a.txt"
        path.write_text(LINES, encoding="utf-8")
        arguments = ["--model", "minibert-tiny", "--file", str(path), "--column", "body"]
        assert main(["embed", *arguments]) == 1
        assert "is read as lines, without a column 'body'" in capsys.readouterr().err

    def test_rows_keep_all_columns(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text(JSON_LINES, encoding="utf-8")
        (tmp_path / "b.csv").write_text(CSV, encoding="utf-8")
        rows = [row for _, row in read_rows(tmp_path)]
        assert rows == ROWS + [{**row, "n": str(row["n"])} for row in ROWS]
        with pytest.raises(ValueError, match=r"line 1: there is no column 'label'"):
            list(read_rows(tmp_path / "a.jsonl", ["label"]))


class TestQuotesInTables:
    @pytest.mark.parametrize(
        "table",
        [
            TSV,
            'text\tn\n"a\tcat"\t0\n',  # a tab within quotation marks
            'text\tn\n"a\ncat"\t0\n',  # a line end within quotation marks
            '"text"\t"n"\n"a cat"\t"0"\n',  # every field is quoted
            '"text"\t"n"\n"a cat"\t0\n',  # every text is quoted
        ],
    )
    def test_quoted_tables_are_detected(self, table: str, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_text(table, encoding="utf-8")
        assert read_table(path) == read_table(path, quoting="quoted")
        assert '"a' not in read_table(path)[0]["text"]

    @pytest.mark.parametrize(
        "text", ['"Really?"', '"Yes," he said, "no."', '5" pipe', '""Title""', 'a "b" c']
    )
    def test_quotation_marks_in_plain_tables_are_kept(self, text: str, tmp_path: Path) -> None:
        """Tables without quoting, such as those of GLUE, keep their quotation marks."""
        path = tmp_path / "a.tsv"
        path.write_text(f"text\tn\nplain\t0\n{text}\t1\n", encoding="utf-8")
        assert [row["text"] for row in read_table(path)] == ["plain", text]

    def test_the_option_overrides_the_detection(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tsv"
        path.write_text('text\n"Really?"\n', encoding="utf-8")
        assert list(read_texts(path, quoting="quoted")) == ["Really?"]
        assert list(read_texts(path, quoting="none")) == ['"Really?"']
        with pytest.raises(
            ValueError, match="quoting should be one of auto, quoted, none, not 'x'"
        ):
            read_table(path, quoting="x")  # type: ignore[arg-type]


def test_other_files_in_a_folder_of_data_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.parquet").write_bytes(parquet_bytes())
    for name in ("README.md", "LICENSE", "dataset_infos.json", ".gitattributes", "_SUCCESS"):
        (tmp_path / name).write_text("not a text", encoding="utf-8")
    assert list(read_texts(tmp_path)) == TEXTS
    assert list(parts_of(tmp_path, None, 10**9)) == ["data/train.parquet-000000000000"]
    assert list(read_texts(tmp_path / "README.md")) == ["not a text"]
