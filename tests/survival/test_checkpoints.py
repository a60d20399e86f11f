"""Checkpoints that are not what they seem, that change while they are in use, or that were replaced."""

from __future__ import annotations

import os
import pickle
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from safetensors.torch import load

from minibert import BertModel, BertTokenizer, SentenceEmbedder
from minibert.checkpoints import tensors

MODEL = tiny_config()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    BertModel(MODEL).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def as_bin(folder: Path, zipped: bool = True) -> Path:
    """The folder's weights as pytorch_model.bin."""
    tensors = load(
        (folder / "model.safetensors").read_bytes()
    )  # not mapped: Windows would keep the file
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    return folder / "pytorch_model.bin"


def test_a_saved_file_has_the_permissions_of_others(folder: Path) -> None:
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


PICKLES: dict[str, Any] = {
    "empty": b"",
    "garbage": bytes(range(256)) * 20,
    "a list": [1, 2],
    "sparse": {"a": torch.eye(3).to_sparse()},
    "meta": {"a": torch.empty(3, device="meta")},
    "quantised": {"a": torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8)},
    "lone surrogate": {"\ud800": torch.ones(3)},
    "number for a name": {5: torch.ones(3)},
    "expanded": {"a": torch.ones(1).expand(10**9)},
}


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES.keys())
def test_a_bin_that_is_none(folder: Path, content: Any) -> None:
    path = as_bin(folder)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin"):
        BertModel.from_pretrained(folder)


def test_a_bin_of_2017(folder: Path) -> None:
    """torch wrote tar files then, which hold the pickles of later ones; its safe loader refuses them."""
    path = as_bin(folder, zipped=False)
    path.rename(folder / "pickle")
    with tarfile.open(path, "w") as tar:
        tar.add(folder / "pickle", "pickle")
    with pytest.raises(
        ValueError, match=r"pytorch_model\.bin is a tar file, as torch wrote them until 2017"
    ):
        BertModel.from_pretrained(folder)


def test_a_name_of_40000_letters_takes_no_time(folder: Path) -> None:
    """torch writes an error about it in the square of its length: half a minute."""
    path = as_bin(folder)
    path.write_bytes(pickle.PROTO + b"\x02c" + b"a" * 40_000 + b"\nb\n.")
    began = time.process_time()
    with pytest.raises(
        ValueError, match=r"pytorch_model\.bin is (refused|not a complete PyTorch file)"
    ):
        BertModel.from_pretrained(folder)
    assert time.process_time() - began < 2


def test_a_compressed_bin_is_not_blown_up(folder: Path) -> None:
    path = as_bin(folder)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"\0" * 10**7)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is refused"):
        BertModel.from_pretrained(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "pytorch_model.bin"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 440473133\n",
            "is a Git LFS pointer",
        ),
        (
            b"<!DOCTYPE html>\n<html><body>Sign in</body></html>",
            "is a web page, not the file itself",
        ),
    ],
)
def test_something_in_the_place_of_a_file(
    folder: Path, name: str, content: bytes, message: str
) -> None:
    if name == "pytorch_model.bin":
        as_bin(folder)
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} {message}"):
        BertModel.from_pretrained(folder)


@pytest.mark.needs("names in bytes")
def test_a_folder_whose_name_is_not_utf_8(folder: Path, tmp_path: Path) -> None:
    odd = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.rename(os.fsencode(folder), odd)
    model = BertModel.from_pretrained(os.fsdecode(odd))
    moved = Path(os.fsdecode(odd))
    model.save_pretrained(moved / "again")
    assert sorted(path.name for path in (moved / "again").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    moved.rename(folder)
    assert not moved.exists()
    for saved in (folder, folder / "again"):
        for name, parameter in BertModel.from_pretrained(saved).named_parameters():
            assert torch.equal(parameter, model.get_parameter(name))


def test_loading_where_new_tensors_go_to_meta(folder: Path) -> None:
    expected = BertModel.from_pretrained(folder)
    with torch.device("meta"):
        model = BertModel.from_pretrained(folder)
    assert torch.equal(model.pooler.dense.weight, expected.pooler.dense.weight)


@pytest.mark.parametrize(("smallest", "mmap"), [(0, False), (1 << 60, True)])
def test_in_memory_a_model_outlives_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, smallest: int, mmap: bool
) -> None:
    """Asked for, or because it is small; a mapped one would change, or end the process."""
    monkeypatch.setattr(tensors, "MIN_MAPPED_BYTES", smallest)
    model = BertModel.from_pretrained(folder, mmap=mmap)
    BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]).save_pretrained(folder)
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None, mmap=mmap)
    monkeypatch.setattr(tensors, "MIN_MAPPED_BYTES", 0)
    mapped = BertModel.from_pretrained(folder)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for name, parameter in mapped.named_parameters():
        # or the last bit of a product differs, on some processors
        assert parameter.data_ptr() % 64 == model.get_parameter(name).data_ptr() % 64
    (folder / "model.safetensors").write_bytes(b"")
    assert np.isfinite(embedder.encode("hello")).all()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
    del mapped
