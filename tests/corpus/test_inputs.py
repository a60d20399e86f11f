"""Reading every format, as a whole and in parts, from disk and from an S3-compatible store."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyarrow import parquet
from tiny_folder import tiny_folder

from minibert import SentenceEmbedder
from minibert.cli import main
from minibert.corpus.inputs import BadRow, Part, Text, parts_of, read_part, read_texts
from minibert.corpus.location import Location
from minibert.corpus.records import metadata
from minibert.corpus.shards import encode_to_file, encode_to_shards

ROWS = [(f"id{number}", f"text {number} " + "ä" * (number % 5)) for number in range(25)]


def write(path: Path, rows: list[tuple[Any, Any]] = ROWS) -> Path:
    """Write the rows in the format of the file's suffix."""
    if path.suffix == ".parquet":
        table = pyarrow.table({"key": [key for key, _ in rows], "text": [text for _, text in rows]})
        parquet.write_table(table, path, row_group_size=7)
        return path
    if ".jsonl" in path.suffixes:
        lines = [json.dumps({"key": key, "text": text}) for key, text in rows]
    elif path.suffix == ".csv":
        lines = ["key,text", *(f'{key},"{text}"' for key, text in rows)]
    elif path.suffix == ".tsv":
        lines = ["key\ttext", *(f"{key}\t{text}" for key, text in rows)]
    else:
        lines = [text for _, text in rows]
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


FORMATS = ["a.txt", "a.jsonl", "a.jsonl.gz", "a.csv", "a.tsv", "a.parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(name: str, tmp_path: Path) -> None:
    file = str(write(tmp_path / name))
    assert list(read_texts(file)) == [text for _, text in ROWS]
    if name != "a.txt":
        assert [(text.id, text) for text in read_texts(file, id_column="key")] == ROWS


@pytest.mark.parametrize("part_bytes", [1, 40, 150, 10**9])
@pytest.mark.parametrize("name", FORMATS)
def test_parts_hold_every_row_once(name: str, part_bytes: int, tmp_path: Path) -> None:
    parts = parts_of(str(write(tmp_path / name)), "text", part_bytes)
    assert (len(parts) > 1) == (part_bytes < 1000 and name in ("a.txt", "a.jsonl", "a.parquet"))
    assert [text for part in parts.values() for text in read_part(part)] == [
        text for _, text in ROWS
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("aä\r", max_size=4), max_size=12), st.booleans(), st.integers(1, 30))
def test_any_lines_in_any_parts(
    tmp_path: Path, lines: list[str], last_break: bool, size: int
) -> None:
    text = "\n".join(lines) + ("\n" if last_break else "")
    (tmp_path / "a.txt").write_bytes(text.encode())
    expected = [line.rstrip("\r\n") for line in io.StringIO(text, newline="")]
    parts = parts_of(str(tmp_path), "text", size) if text else {}
    assert [line for part in parts.values() for line in read_part(part)] == expected


@pytest.mark.needs("symbolic links")
def test_a_folder_is_all_of_its_files(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.parquet", "_SUCCESS", ".a.crc"):
        write(tmp_path / name, ROWS[:2] if name.startswith("b") else ROWS[2:])
    # Hidden files are not opened. An editor's lock file is a dangling link.
    (tmp_path / ".#b.jsonl").symlink_to("somebody@somewhere")
    assert [text.id for text in read_texts(str(tmp_path), id_column="key")] == [
        key for key, _ in ROWS[2:] + ROWS[:2]
    ]


BAD_ROWS = [
    ("a.jsonl", b'{"text": "x"}\n{"text": null}\n', "line 2", "text is null"),
    ("a.jsonl", b'{"text": 5}\n', "line 1", "text should be a text, not 5"),
    ("a.jsonl", b'{"texte": "x"}\n', "line 1", "there is no column 'text'"),
    ("a.jsonl", b'{"text": "x"\n', "line 1", "the line is not JSON"),
    ("a.jsonl", b"[1]\n", "line 1", "the line should hold a JSON object but holds a list"),
    ("a.jsonl", b'{"text": "\\ud83d"}\n', "line 1", "the line has half a character, a surrogate"),
    ("a.txt", b"fine\ncaf\xe9\n", "line 2", "the line is not UTF-8"),
    ("a.csv", b"key,text\n1\n", "line 2", r"there are 1 columns, not 2 \(key, text\)"),
    ("a.tsv", b"key\ttext\n1\tx\ty\n", "line 2", r"there are 3 columns, not 2 \(key, text\)"),
]


@pytest.mark.parametrize(("name", "data", "place", "reason"), BAD_ROWS)
def test_bad_rows(name: str, data: bytes, place: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name}, {place}: {reason}"):
        list(read_texts(str(tmp_path / name)))
    bad: list[BadRow] = []
    texts = list(read_texts(str(tmp_path / name), on_bad=bad.append))
    assert len(texts) == data.count(b"\n") - 1 - name.endswith("sv")
    assert [(row.place, bool(re.match(reason, row.reason))) for row in bad] == [
        (f"{tmp_path / name}, {place}", True)
    ]


def test_null_rows_of_parquet(tmp_path: Path) -> None:
    bad: list[BadRow] = []
    file = write(tmp_path / "a.parquet", [(1, "one"), (2, None), (None, "three")])
    assert [text.id for text in read_texts(str(file), id_column="key", on_bad=bad.append)] == [1]
    assert [row.reason for row in bad] == [
        "text is null",
        "key is None, neither a whole number nor a string",
    ]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.parquet", b"PAR1 nothing", "a.parquet is not a complete parquet file"),
        ("a.csv", b"id;body\n1;x\n", "there is no column 'text'. The columns are id;body"),
        (
            "a.csv",
            b'text\n"open\n',
            "line 2: unexpected end of data. Look for a quotation mark too many",
        ),
        (
            "a.csv",
            b"text\n" + b"fine\n" * 5000 + b"caf\xe9\n",
            "a.csv, line 5002: the line is not UTF-8 but looks like cp1252. Convert the file",
        ),
        ("a.csv", b"text,text\none,two\n", "has the column 'text' twice: rename one"),
        ("a.txt.gz", b"\x1f\x8b\x08 and no more", r"a\.txt\.gz is damaged \("),
        ("a.txt.gz", gzip.compress(b"one two three", mtime=0)[:-9], r"a\.txt\.gz is damaged \("),
        ("a.txt.xz", b"\xfd7zXZ\x00", r"a\.txt\.xz is damaged \("),
        ("a.txt.gz", b"plain", r"a\.txt\.gz is damaged \(Not a gzipped file"),
        (None, b"", "there is no file .*, and no folder with files in it"),
    ],
)
def test_files_that_cannot_be_read(
    name: str | None, data: bytes, message: str, tmp_path: Path
) -> None:
    if name:
        (tmp_path / name).write_bytes(data)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        list(read_texts(str(tmp_path / (name or "nothing"))))


def test_lines_have_no_ids(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="is read as lines, without a column 'key': use .jsonl, .csv"
    ):
        list(read_part(Part(str(write(tmp_path / "a.txt"))), id_column="key"))


@pytest.mark.parametrize("ids", [list(range(25)), [key for key, _ in ROWS]])
def test_ids_stay_with_their_vectors(
    ids: list[Any], embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    texts = [Text(text, row_id) for row_id, (_, text) in zip(ids, ROWS, strict=True)]
    encode_to_file(embedder, texts, tmp_path / "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["id", "text", "vector"] and table["id"].to_pylist() == ids
    assert table.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 32)
    vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, 32)
    assert np.array_equal(vectors, embedder.encode([str(text) for text in texts]))
    encode_to_file(embedder, texts, tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids


def test_numbers_and_strings_as_ids_raise_an_error(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    with pytest.raises(
        ValueError, match="ids should be whole numbers or strings, not some of each"
    ):
        encode_to_file(embedder, [Text("a", 1), Text("b", "x")], tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def test_changed_ids_are_another_input(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    encode_to_shards(embedder, [Text("a", 1)], tmp_path, file_format="parquet")
    with pytest.raises(ValueError, match="was made from other texts"):
        encode_to_shards(embedder, [Text("a", 2)], tmp_path, file_format="parquet")


def upload(path: Path, uri: str) -> None:
    location = Location(uri)
    with location.fs.open_output_stream(location.path, compression=None) as stream:
        stream.write(path.read_bytes())


@pytest.mark.parametrize("name", FORMATS)
def test_reading_from_a_bucket(name: str, bucket: str, tmp_path: Path) -> None:
    upload(write(tmp_path / name), f"{bucket}/in/{name}/{name}")
    assert list(read_texts(f"{bucket}/in/{name}/{name}")) == [text for _, text in ROWS]
    assert list(read_texts(f"{bucket}/in/{name}")) == [text for _, text in ROWS]
    parts = parts_of(f"{bucket}/in/{name}", "text", 100)
    assert [text for part in parts.values() for text in read_part(part)] == [
        text for _, text in ROWS
    ]


@pytest.mark.parametrize("file_format", ["npy", "parquet"])
def test_writing_to_a_bucket(
    file_format: str, bucket: str, embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    texts = [text for _, text in ROWS]
    folder = f"{bucket}/{file_format}"
    encode_to_shards(embedder, texts, tmp_path, file_format=file_format, shard_size=10)
    encode_to_shards(embedder, texts[:20], folder, file_format=file_format, shard_size=10)
    remote = Location(folder)
    index = metadata(remote, "index.json")
    index.fs.delete_file(index.path)  # as if the run had stopped after two shards
    report = encode_to_shards(embedder, texts, folder, file_format=file_format, shard_size=10)
    assert (report.skipped, report.shards) == (2, 1)
    local = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name[0] != "_"}
    assert {name: (remote / name).open().read() for name in remote.files()} == local
    # replace a shard by a file of another size
    upload(next(tmp_path.glob("*manifest.json")), f"{folder}/shard-000001.{file_format}")
    with pytest.warns(UserWarning, match=r"shard-000001\..* has been damaged"):
        report = encode_to_shards(embedder, texts, folder, file_format=file_format, shard_size=10)
    assert report.shards == 1


def test_the_command_from_bucket_to_bucket(
    bucket: str, embedder: SentenceEmbedder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upload(write(tmp_path / "a.parquet"), f"{bucket}/command/in.parquet")
    model = str(tiny_folder(tmp_path / "model"))
    options = [
        "--model",
        model,
        "--precision",
        "exact",
        "--file",
        f"{bucket}/command/in.parquet",
        "--id-column",
        "key",
    ]
    assert main(["embed", *options, "--output", f"{bucket}/command/out.parquet"]) == 0
    location = Location(f"{bucket}/command/out.parquet")
    table = parquet.read_table(location.path, filesystem=location.fs)
    assert table["id"].to_pylist() == [key for key, _ in ROWS]
    # no temporary file is left
    assert list(Location(f"{bucket}/command").files()) == ["in.parquet", "out.parquet"]
    assert main(["embed", *options, "--output", str(tmp_path / "out.npy")]) == 2
    assert "--id-column needs .jsonl or .parquet" in capsys.readouterr().err


def test_a_failed_upload_keeps_the_old_file(bucket: str, tmp_path: Path) -> None:
    location = Location(f"{bucket}/kept.txt")
    with location.replacing() as temporary:
        temporary.write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError), location.replacing() as temporary:
        temporary.write_text("new", encoding="utf-8")
        raise RuntimeError
    assert location.open().read() == b"old"
    assert os.path.basename(location.path) == "kept.txt"


def test_an_unsupported_uri_raises_an_error() -> None:
    with pytest.raises(ValueError, match="ftp://host/a.txt cannot be reached"):
        Location("ftp://host/a.txt")


class Unreachable:
    """A file system in Python that raises errors of its own library."""

    def get_file_info(self, path: str) -> None:
        raise RuntimeError("no route to host")

    open_input_file = get_file_info


def test_errors_of_other_file_systems_become_an_oserror(tmp_path: Path) -> None:
    location = Location(f"file://{tmp_path}/a.txt")
    location.fs = Unreachable()
    for reach in (location.files, location.open):
        with pytest.raises(OSError, match=r"a\.txt cannot be reached: no route to host"):
            reach()


def test_a_web_address_raises_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be reached.* Download the file first"):
        Location("https://host/a.txt")


@pytest.mark.needs("named pipes")
def test_a_named_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    """The shell creates a pipe for `--file <(zcat texts.gz)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(
        target=pipe.write_bytes, args=(b"I love Korea\nParis\n",), daemon=True
    )
    writer.start()
    assert list(read_texts(str(pipe))) == ["I love Korea", "Paris"]
    writer.join()
