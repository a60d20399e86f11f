"""Errors for files of another kind than their name says, and for lines that are not text."""

from __future__ import annotations

import bz2
import io
import pickle
import sys
import tarfile
from pathlib import Path

import pyarrow
import pytest

from minibert.corpus.inputs import read_table, read_texts
from minibert.corpus.location import Location

TEXTS = ["the tree is tall", "나는 학교에 갔다", "hello"]
LINES = "".join(f"{text}\n" for text in TEXTS)


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"hello"))
    return stream.getvalue()


def arrow_stream() -> bytes:
    stream = io.BytesIO()
    table = pyarrow.table({"text": TEXTS})
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


KINDS = {
    "bzip2": (bz2.compress(LINES.encode()), "bzip2-compressed: rename it to end in .bz2"),
    "lz4": (b"\x04\x22\x4d\x18" + bytes(range(60)), "lz4-compressed"),
    "compress": (b"\x1f\x9d\x90" + bytes(range(60)), "compressed by compress"),
    "tar": (tar(), "an archive: unpack it"),
    "arrow": (arrow_stream(), "an Arrow file: write it as .parquet"),
    "pickle": (pickle.dumps(TEXTS), "a pickle of Python objects"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(80), "a picture, not text"),
    "program": (b"\x7fELF\x02\x01\x01" + bytes(80), "a binary file, not text"),
    "rich text": (b"{\\rtf1\\ansi the tree\\par}\n", "a document in Rich Text Format"),
    "error page": (b"\n<!DOCTYPE html>\n<html></html>\n", "an HTML page: extract its text"),
    "markup": (b'\xef\xbb\xbf<?xml version="1.0"?>\n<p>the tree</p>\n', "an XML file"),
    "pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
        "a pointer of Git LFS and not the file itself: get the file",
    ),
    "Korean without a mark": (
        "한국어 글\n나는 간다\n".encode("utf-16-le"),
        "encoded in utf-16le without a byte order mark",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
def test_the_error_names_the_kind_of_a_file(kind: str, name: str, tmp_path: Path) -> None:
    data, message = KINDS[kind]
    with pytest.raises(ValueError, match=f"{name} is {message}"):
        list(read_texts(write(tmp_path, name, data)))


LINES_WITHOUT_TEXT = {
    "NUL": (b"the tree\nis \0 tall\n", "line 2: the line has a NUL byte"),
    "NULs at the end": ((LINES * 20).encode() + bytes(64), "line 61: the line has a NUL byte"),
    "binary": ((LINES * 20).encode() + b"\1\2\3\4\xff\n", "line 61: .* but binary data"),
    "ISO-2022": ("これは日本語です\n".encode("iso2022_jp"), "line 1: .* looks like iso-2022-jp"),
    "half a syllable": (
        LINES.encode() + "끝이 ".encode() + b"\xea\xb8 x\n",
        "line 4: the line is not UTF-8: a character is damaged at its byte 8",
    ),
    "half a syllable alone": (b"sa\xea\xb8 y\n", "line 1: .* damaged at its byte 3"),
    "half a syllable at the end": ("마지막 글".encode()[:-1], "line 1: .* damaged at its byte 11"),
}


@pytest.mark.parametrize("kind", LINES_WITHOUT_TEXT)
def test_the_error_names_the_line_that_is_not_text(kind: str, tmp_path: Path) -> None:
    data, message = LINES_WITHOUT_TEXT[kind]
    with pytest.raises(ValueError, match=rf"a\.txt, {message}"):
        list(read_texts(write(tmp_path, "a.txt", data)))


@pytest.mark.parametrize(
    "text",
    [
        "[Music]\n{laughs}\n[1, 2, 3]\n<3 you\n",
        "def f():\n    return {}\n{'a': 1}\n",
        "\x1b[31mred\x1b[0m\n",
        "page one\fpage two\vbelow\n",
        "version 2 of the page\nMZ is a country code\nOBJ 1\n",
    ],
)
def test_text_that_only_looks_like_something_else(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", text.encode())
    assert list(read_texts(path)) == text.rstrip("\n").split("\n")


def test_byte_order_marks_of_concatenated_files(tmp_path: Path) -> None:
    table = "id,text\n1,a cat\n".encode("utf-8-sig") + "2,a dog\n".encode("utf-8-sig")
    rows = read_table(write(tmp_path, "a.csv", table))
    assert [row["id"] for row in rows] == ["1", "2"]
    twice = write(tmp_path, "a.txt", b"\xef\xbb\xbf\xef\xbb\xbfone\n")
    assert list(read_texts(twice)) == ["one"]
    assert list(read_texts(write(tmp_path, "mark.txt", b"\xef\xbb\xbf"))) == []


def test_the_end_of_file_mark_of_dos_is_ignored(tmp_path: Path) -> None:
    assert list(read_texts(write(tmp_path, "a.txt", b"one\r\ntwo\r\n\x1a"))) == ["one", "two"]
    assert len(read_table(write(tmp_path, "a.csv", b"id,text\r\n1,a\r\n\x1a"))) == 1


@pytest.mark.parametrize("name", ["a.hwp", "a.DOC", "a.txt.Z", "a.npz", "a.pkl"])
def test_files_with_the_suffix_of_another_format_raise_an_error(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, b"whatever it holds\n")
    with pytest.raises(ValueError, match=f"{name} is .*"):
        list(read_texts(path, id_column="id"))


@pytest.mark.parametrize("module", ["zstandard", "pyarrow"])
def test_a_truncated_zstandard_file_raises_an_error(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module)
    if module == "pyarrow":
        monkeypatch.setitem(sys.modules, "zstandard", None)
    data = pyarrow.compress((LINES * 9000).encode(), "zstd", asbytes=True)
    path = write(tmp_path, "a.txt.zst", data + data)
    with Location(path).open() as file:
        assert file.read() == (LINES * 18_000).encode()
    for cut in (1, 12, len(data) // 2):
        path.write_bytes(data[:-cut])
        with pytest.raises(ValueError, match=r"a\.txt\.zst is damaged \(.*Get it again"):
            list(read_texts(path))
    path.write_bytes(LINES.encode())
    with pytest.raises(ValueError, match=r"a\.txt\.zst is damaged"):
        list(read_texts(path))


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2", "a.txt.xz"])
def test_compressed_files_are_closed(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, b"no such thing")
    with pytest.raises(ValueError, match="is damaged"):
        list(read_texts(path))
