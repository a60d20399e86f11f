"""Files and folders by path or by URI."""

from __future__ import annotations

import datetime
import gzip
import importlib
import io
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minibert.text.location import Location, claim


@pytest.mark.parametrize(
    ("name", "suffix", "compressed"),
    [
        ("A.JSONL.GZ", ".jsonl", True),
        ("a.b/c.txt", ".txt", False),
        ("a.b/c", "", False),
        ("memory://a/b.csv.zst", ".csv", True),
    ],
)
def test_the_ending_of_a_name(name: str, suffix: str, compressed: bool) -> None:
    pytest.importorskip("fsspec")
    assert (Location(name).suffix, Location(name).compressed) == (suffix, compressed)


def test_the_ending_of_a_web_address() -> None:
    location = Location("a")
    location.path = "https://host/a.csv?from=b.gz?more.xz"
    assert (location.suffix, location.compressed) == (".csv", False)
    location.path = "a.csv?from=b.gz"  # a path on this machine
    assert (location.suffix, location.compressed) == (".csv?from=b", True)


@pytest.mark.parametrize(
    ("folder", "below", "name"),
    [
        ("a/b", "c.txt", os.path.join("a/b", "c.txt")),
        ("memory://a", "b/c.txt", "memory://a/b/c.txt"),
        ("memory://a//", "b", "memory://a/b"),
        ("memory://aX", "b", "memory://aX/b"),
        ("memory://a/?x=1", "b", "memory://a/b?x=1"),
        ("memory://a", "", "memory://a"),
        ("a", "", "a"),
    ],
)
def test_what_is_below_a_folder(folder: str, below: str, name: str) -> None:
    pytest.importorskip("fsspec")
    assert str(Location(folder) / below) == name


@pytest.mark.needs("named pipes")
def test_what_is_a_pipe(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert Location(tmp_path / "pipe").is_pipe is True
    for path in (tmp_path / "file", tmp_path, tmp_path / "missing"):
        assert Location(path).is_pipe is False
    assert Location(f"memory://{tmp_path}/pipe").is_pipe is False


def test_zstandard_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.14 has a module with the interface of gzip. Older ones need pyarrow."""
    monkeypatch.setitem(sys.modules, "compression.zstd", gzip)
    (tmp_path / "a.zst").write_bytes(gzip.compress(b"a line"))
    with Location(tmp_path / "a.zst").open() as file:
        assert file.read() == b"a line"
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"^Reading \.zst needs pyarrow, .*\[parquet\]"):
        Location(tmp_path / "a.zst").open()


def test_a_bucket_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: str) -> None:
        raise ModuleNotFoundError(name=module.partition(".")[0])

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(ImportError, match=r"^Reaching s3://b/a needs pyarrow, .*\[parquet\]"):
        Location("s3://b/a")


class FileSystem:
    """A file system of fsspec with these entries."""

    def __init__(self, entries: dict[str, dict[str, Any]], protocol: str = "of a test") -> None:
        self.entries = entries
        self.protocol = protocol
        self.folders: list[tuple[str, bool]] = []
        self.opened: list[tuple[str, str]] = []

    def exists(self, path: str) -> bool:
        return True

    def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:
        assert detail
        return self.entries

    def makedirs(self, path: str, exist_ok: bool) -> None:
        self.folders.append((path, exist_ok))

    def open(self, path: str, mode: str) -> Any:
        self.opened.append((path, mode))
        raise RuntimeError("no route to host")


def location_in(fs: FileSystem) -> Location:
    location = Location("folder")
    location.fs = fs
    return location


def test_sizes_and_times_of_other_file_systems() -> None:
    time = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    entries: dict[str, dict[str, Any]] = {
        "folder/d": {"size": 5, "last_modified": time},
        "folder/c": {"size": 4, "LastModified": time},
        "folder/b": {"size": 3, "mtime": 7},
        "folder/Xa": {"size": None},
        "folder/.hidden": {"size": 1},
        "folder/sub/_hidden": {"size": 1},
    }
    stamp = time.timestamp()
    files = location_in(FileSystem(entries)).files()
    expected = [("Xa", (0, 0.0)), ("b", (3, 7.0)), ("c", (4, stamp)), ("d", (5, stamp))]
    assert list(files.items()) == expected


def test_hdfs_needs_its_folder_first() -> None:
    for protocol, folders in (("hdfs", [("folder", True)]), ("s3", [])):
        fs = FileSystem({}, protocol)
        location_in(fs).make_folder()
        assert fs.folders == folders


def test_a_folder_is_made_with_those_above(tmp_path: Path) -> None:
    for _ in range(2):
        Location(tmp_path / "a" / "b").make_folder()
    assert (tmp_path / "a" / "b").is_dir()


def test_an_upload_that_fails_names_its_place() -> None:
    """Until it is complete, its name is hidden."""
    fs = FileSystem({})
    location = location_in(fs)
    location.path = "top/a.txt"
    with pytest.raises(OSError, match="^folder cannot be reached: no route to host"):
        with location.replacing() as temporary:
            assert temporary.is_absolute() and temporary.name == "a.txt"
            temporary.touch()
    [(path, mode)] = fs.opened
    assert re.fullmatch(r"top/\.a\.txt\.[0-9a-f]{32}\.tmp", path)
    assert mode == "wb"


def test_files_of_this_machine(tmp_path: Path) -> None:
    for name in ("b/c.txt", "a.txt", ".hidden/d.txt", "b/_e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("four", encoding="utf-8")
        os.utime(tmp_path / name, (1, 2.5))
    assert list(Location(tmp_path).files().items()) == [("a.txt", (4, 2.5)), ("b/c.txt", (4, 2.5))]
    assert Location(tmp_path / "a.txt").files() == {"": (4, 2.5)}
    assert Location(tmp_path / "missing").files() == {}


@pytest.mark.needs("named pipes")
def test_files_after_a_pipe_are_listed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    (tmp_path / "b").touch()
    assert list(Location(tmp_path).files()) == ["b"]
    assert list(Location(tmp_path / "a").files()) == [""]


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.BufferedReader(io.BytesIO(b"a line"))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stdin))
    assert Location("-").open() is stdin
    assert str(Location("-")) == "stdin"
    plain = io.BytesIO(b"a line")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=plain))
    opened: Any = Location("-").open()
    assert opened.peek(1) and opened.read() == b"a line"
    opened.close()
    with pytest.raises(ValueError, match="stdin has been read already"):
        Location("-").open()
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="stdin is closed"):
        Location("-").open()


def test_json_is_an_object(tmp_path: Path) -> None:
    location = Location(tmp_path / "a.json")
    location.write_json({"a": 1})
    assert location.read_json() == {"a": 1}
    (tmp_path / "a.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.json"):
        location.read_json()


def test_what_may_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    claim(tmp_path / "new")
    claim(tmp_path / "new", folder=True)
    claim(tmp_path / "folder", folder=True)
    (tmp_path / "folder" / ".hidden").touch()
    claim(tmp_path / "folder", folder=True)
    for count in range(1, 5):
        (tmp_path / "folder" / str(count)).touch()
        shown = {1: "1", 2: "1, 2", 3: "1, 2, 3", 4: r"1, 2, 3, \.\.\."}[count]
        with pytest.raises(FileExistsError, match=f"folder already holds {shown}: .*force=True"):
            claim(tmp_path / "folder", folder=True)
        claim(tmp_path / "folder", force=True, folder=True)
    file = tmp_path / "folder" / "1"
    with pytest.raises(FileExistsError, match="1 exists already: .*force=True"):
        claim(file)
    claim(file, force=True)
    for force in (False, True):
        with pytest.raises(NotADirectoryError, match="1 is a file"):
            claim(file, force, folder=True)
    with pytest.raises(NotADirectoryError, match="has no name"):
        claim("", folder=True)
    with pytest.raises(ValueError, match="^- stands for stdin"):
        claim("-")


def test_what_may_be_written_elsewhere(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    folder = f"memory://{tmp_path.name}/folder"
    fsspec.filesystem("memory").pipe(f"/{tmp_path.name}/folder/a.txt", b"a")
    claim(f"{folder}/new.txt")
    claim(folder)  # as a file: a store has no folders
    claim(f"memory://{tmp_path.name}/new", folder=True)
    with pytest.raises(FileExistsError, match=r"a\.txt exists already"):
        claim(f"{folder}/a.txt")
    claim(f"{folder}/a.txt", force=True)
    with pytest.raises(FileExistsError, match=r"folder already holds a\.txt:"):
        claim(folder, folder=True)
    claim(folder, force=True, folder=True)
    with pytest.raises(NotADirectoryError, match=r"a\.txt is a file"):
        claim(f"{folder}/a.txt", folder=True)
    Location(f"{folder}/a.txt").delete()
    Location(f"{folder}/a.txt").delete()
    assert Location(folder).files() == {}
    location = Location(f"file://{tmp_path}/a.txt")
    assert (location.fs, location.path) == (None, str(tmp_path / "a.txt"))
