"""Finding files, and writing them atomically."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest
from conftest import full_disk

from minibert import BertConfig
from minibert.checkpoints.source import BUNDLED_MODELS, Source
from minibert.util.files import (
    json_text,
    read_json,
    read_text,
    replacing,
    write_json,
)
from minibert.util.folders import replacing_folder


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("a", encoding="utf-8")
    source = Source(tmp_path)
    assert source.file("vocab.txt") == tmp_path / "vocab.txt"
    assert source.file("config.json") is None
    assert source.require("config.json", "vocab.txt") == tmp_path / "vocab.txt"
    with pytest.raises(
        FileNotFoundError, match="holds no config.json or model.bin. Is it a BERT checkpoint"
    ):
        source.require("config.json", "model.bin")


@pytest.mark.skipif(sys.platform == "win32", reason="folders have other permissions there")
def test_a_folder_that_may_not_be_read_is_not_one_without_the_file(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    source = Source(tmp_path)
    tmp_path.chmod(0o000)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        with pytest.raises(PermissionError):
            source.file("1_Pooling/config.json")
    finally:
        if is_root:
            os.seteuid(0)
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    "name",
    ["", "no such folder", "/no/such/folder", "./nothing", "a/b/c", "-\0-", "~nobody", "x" * 5000],
)
def test_a_name_that_is_neither_a_folder_nor_a_hub_id(name: str) -> None:
    with pytest.raises(FileNotFoundError, match="cannot be a Hub id"):
        Source(name).file("config.json")


def test_another_file_in_place_of_a_folder_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "bert_model.ckpt.index").touch()
    with pytest.raises(FileNotFoundError, match="is a file. Pass the folder that holds it"):
        Source(tmp_path / "bert_model.ckpt.index")


@pytest.mark.parametrize("value", [math.nan, {"loss": [math.inf]}, "caf\udce9.txt", "\u2028 é"])
def test_whatever_is_written_as_json_is_json(value: object) -> None:
    """Also numbers that are not finite, and the name of a file that is not UTF-8."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = json_text(value).encode("utf-8").decode("utf-8")
    read = json.loads(text, parse_constant=refuse)
    assert read == value or not isinstance(value, str)


def test_replacing_leaves_the_old_file_when_the_writer_fails(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_json(path, {"old": 1})
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half", encoding="utf-8")
        raise RuntimeError("out of luck")
    assert read_json(path) == {"old": 1}
    assert os.listdir(tmp_path) == ["config.json"]


@pytest.mark.needs("limits of file sizes")
def test_a_copy_that_does_not_fit_leaves_the_old_file(tmp_path: Path) -> None:
    """The error of a copy names the file that it reads first."""
    whole, path = tmp_path / "whole", tmp_path / "copy"
    whole.write_bytes(b"x" * 50_000)
    path.write_bytes(b"old")
    with full_disk(10_000), pytest.raises(OSError, match="copy could not be written"):
        with replacing(path) as temporary:
            shutil.copyfile(whole, temporary)
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["copy", "whole"]


def test_replaced_files_have_the_usual_permissions(tmp_path: Path) -> None:
    write_json(tmp_path / "ours.json", {})
    (tmp_path / "usual.json").write_text("{}", encoding="utf-8")
    assert (tmp_path / "ours.json").stat().st_mode == (tmp_path / "usual.json").stat().st_mode


@pytest.mark.needs("named pipes")
def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name, message in (
        ("pipe", "not an ordinary file"),
        ("link", "not an ordinary file"),
        ("", "a folder"),
    ):
        with (
            pytest.raises(OSError, match=f"is {message}. Name a file to write"),
            replacing(tmp_path / name),
        ):
            raise AssertionError
    with pytest.raises(FileNotFoundError, match="there is no folder .*/no to write it into"):
        write_json(tmp_path / "no" / "it", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_all_readers_of_text_behave_alike(tmp_path: Path) -> None:
    """They skip a byte order mark. For bytes that are not UTF-8, the error names the line."""
    (tmp_path / "marked").write_bytes(b'\xef\xbb\xbf{"a": 1}\n')
    assert read_text(tmp_path / "marked") == '{"a": 1}\n'
    assert read_json(tmp_path / "marked") == {"a": 1}
    (tmp_path / "latin").write_bytes("one\ntwo\nMünchen\n".encode("latin-1"))
    for reader in (read_text, read_json):
        with pytest.raises(ValueError, match="line 3 of .*latin is not UTF-8. Convert the file"):
            reader(tmp_path / "latin")


def test_a_folder_with_the_name_of_a_bundled_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is used, with a warning, if it holds a model. Otherwise the bundled model is used."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minibert-tiny").mkdir()
    assert Source("minibert-tiny").folder == BUNDLED_MODELS / "minibert-tiny"
    (tmp_path / "minibert-tiny" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.warns(
        UserWarning,
        match="minibert-tiny .*folder .*not .*bundled",
    ):
        assert Source("minibert-tiny").folder == Path("minibert-tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Source("./minibert-tiny").folder == Path("./minibert-tiny")
        assert Source(tmp_path / "minibert-tiny").folder == tmp_path / "minibert-tiny"


@pytest.mark.parametrize("name", [".", "./", "..", "../models", "x/../minibert-tiny/.."])
def test_a_relative_path_is_not_a_bundled_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the folder that the path leads to from here, without a warning."""
    here = tmp_path / "models" / "x"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    (here / "config.json").write_text("{}", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            folder = Source(name).folder
        except FileNotFoundError:
            return
    assert folder is None or BUNDLED_MODELS not in (folder.resolve(), *folder.resolve().parents)


def test_a_new_folder_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    for error in (KeyboardInterrupt, ValueError):
        with pytest.raises(error), replacing_folder(target) as folder:
            (folder / "half").write_text("x", encoding="utf-8")
            raise error
        assert not list((tmp_path / "a").iterdir())
    with replacing_folder(target) as folder:
        (folder / "whole").write_text("x", encoding="utf-8")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_errors_name_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "out"
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(error: OSError) -> str:
        with pytest.raises(OSError) as caught, replacing_folder(target) as folder:
            error.filename = error.filename and str(folder / error.filename)
            raise error
        return str(caught.value)

    sentence = f"{target} could not be written (No space left on device)."
    assert fail(full) == sentence
    named = OSError(errno.ENOSPC, "No space left on device", "model.onnx")
    assert fail(named) == f"{target}/model.onnx could not be written (No space left on device)."
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "/elsewhere/corpus.txt")
    with pytest.raises(FileNotFoundError, match="corpus"), replacing_folder(target):
        raise missing
    with pytest.raises(OSError) as caught, replacing_folder(target) as folder:
        raise OSError(f"{folder / 'a'} could not be written (Permission denied). Make room.")
    assert str(caught.value) == f"{target}/a could not be written (Permission denied). Make room."


@pytest.mark.parametrize("name", ["file", "file/folder"])
def test_a_file_in_place_of_the_folder_to_save_in(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(NotADirectoryError, match=r"file is a file, so nothing can be saved in"):
        BertConfig().save_pretrained(tmp_path / name)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
