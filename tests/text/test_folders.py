"""Which files of a folder are read as texts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minibert.text import read
from minibert.text.location import Location


def texts_of(path: Path) -> list[str]:
    return [row.text for row in read(path)]


def write(path: Path, text: str = "a line\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("README.ko.md", "README_ko", "LICENSE-MIT", "COPYING", "AUTHORS", "CONTRIBUTING.md"),
        *("a.txt.sha256", "Thumbs.db", "desktop.ini", "a.txt~", "#a.txt#", "a.txt.bak"),
        *("a.txt.swp", "a.txt.part", "a.txt.crdownload", "a.txt.lock", ".DS_Store"),
    ],
)
def test_other_files_of_a_folder_are_skipped(name: str, tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "the tree\n")
    write(tmp_path / name, "something else\n")
    write(tmp_path / "deep" / name, "something else\n")
    assert texts_of(tmp_path) == ["the tree"]
    assert texts_of(tmp_path / name) == ["something else"]  # a file that is named is read


@pytest.mark.parametrize("name", ["reading.txt", "notices", "partial_a.txt", "license-plates.txt"])
def test_texts_with_similar_names_are_read(name: str, tmp_path: Path) -> None:
    write(tmp_path / name)
    assert texts_of(tmp_path) == ["a line"]


@pytest.mark.parametrize("name", ["notice.jsonl", "CITATION.ndjson"])
def test_a_table_is_data_whatever_its_name(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, '{"text": "a line"}\n')
    assert texts_of(tmp_path) == ["a line"]


def test_a_folder_without_texts(tmp_path: Path) -> None:
    write(tmp_path / "README.md")
    with pytest.raises(FileNotFoundError, match=r"the folder .* has no files of text"):
        texts_of(tmp_path)


@pytest.mark.needs("named pipes")
def test_a_pipe_in_a_folder_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "pipe")
    assert texts_of(tmp_path) == ["a line"]


@pytest.mark.needs("symbolic links")
def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "deep" / "a.txt")
    corpus = tmp_path / "corpus"
    write(corpus / "inside" / "b.txt")
    (corpus / "link").symlink_to(tmp_path / "elsewhere")
    (corpus / "again").symlink_to(corpus / "inside")
    (corpus / "inside" / "up").symlink_to("..")
    (tmp_path / "elsewhere" / "round").symlink_to(corpus)
    names = list(Location(corpus).files())
    assert sorted(name.rpartition("/")[2] for name in names) == ["a.txt", "b.txt"]
    assert "link/deep/a.txt" in names


@pytest.mark.needs("symbolic links")
def test_a_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    (tmp_path / "b.txt").symlink_to("nowhere.txt")
    with pytest.raises(FileNotFoundError, match=r"b\.txt"):
        texts_of(tmp_path)


@pytest.mark.parametrize("locked", [".", "letters", "letters/old"])
def test_a_folder_that_cannot_be_listed_is_an_error(
    locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not one without texts, nor are its texts left out in silence."""
    write(tmp_path / "a.txt")
    write(tmp_path / "letters" / "old" / "b.txt")
    write(tmp_path / ".cache" / "c.txt")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path) in (tmp_path / locked, tmp_path / ".cache"):  # root may list any folder
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as refused, pytest.raises(PermissionError):
        refused.setattr(os, "scandir", refuse)
        texts_of(tmp_path)
