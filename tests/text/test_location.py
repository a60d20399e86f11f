"""Files and folders by path or by URI."""

from __future__ import annotations

import gzip
import importlib
import os
import sys
from pathlib import Path

import pytest

from minibert.text.location import Location


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
