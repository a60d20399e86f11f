"""Checkpoints that are damaged, have another format, or change while they are in use."""

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
    """Replace the folder's weights by a pytorch_model.bin."""
    # read, not mapped, because Windows cannot delete a mapped file
    tensors = load((folder / "model.safetensors").read_bytes())
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    return folder / "pytorch_model.bin"


def test_all_saved_files_have_the_same_permissions(folder: Path) -> None:
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


PICKLES: dict[str, Any] = {
    "empty": b"",
    "garbage": bytes(range(256)) * 20,
    "a list": [1, 2],
    "sparse": {"a": torch.eye(3).to_sparse()},
    "meta": {"a": torch.empty(3, device="meta")},
    "quantized": {"a": torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8)},
    "lone surrogate": {"\ud800": torch.ones(3)},
    "number for a name": {5: torch.ones(3)},
    "expanded": {"a": torch.ones(1).expand(10**9)},
}


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES.keys())
def test_a_bin_that_does_not_hold_weights(folder: Path, content: Any) -> None:
    path = as_bin(folder)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin"):
        BertModel.from_pretrained(folder)


def test_a_bin_of_2017(folder: Path) -> None:
    """torch wrote tar files with pickles inside then, and its safe loader does not read them."""
    path = as_bin(folder, zipped=False)
    path.rename(folder / "pickle")
    with tarfile.open(path, "w") as tar:
        tar.add(folder / "pickle", "pickle")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a tar file"):
        BertModel.from_pretrained(folder)


def test_a_name_of_40000_letters_does_not_take_long(folder: Path) -> None:
    """torch takes half a minute for its error message, quadratic in the length of the name."""
    path = as_bin(folder)
    path.write_bytes(pickle.PROTO + b"\x02c" + b"a" * 40_000 + b"\nb\n.")
    began = time.process_time()
    with pytest.raises(
        ValueError, match=r"pytorch_model\.bin is (refused|not a complete PyTorch file)"
    ):
        BertModel.from_pretrained(folder)
    assert time.process_time() - began < 2


def test_a_compressed_bin_is_not_decompressed(folder: Path) -> None:
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
def test_a_pointer_or_a_web_page_instead_of_a_file(
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


def test_loading_under_the_meta_device(folder: Path) -> None:
    expected = BertModel.from_pretrained(folder)
    with torch.device("meta"):
        model = BertModel.from_pretrained(folder)
    assert torch.equal(model.pooler.dense.weight, expected.pooler.dense.weight)


@pytest.mark.parametrize(("smallest", "mmap"), [(0, False), (1 << 60, True)])
def test_a_model_in_memory_outlives_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, smallest: int, mmap: bool
) -> None:
    """This holds with mmap=False and for small files. A mapped model would change or crash."""
    monkeypatch.setattr(tensors, "MIN_MAPPED_BYTES", smallest)
    model = BertModel.from_pretrained(folder, mmap=mmap)
    BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]).save_pretrained(folder)
    embedder = SentenceEmbedder.from_pretrained(folder, precision=None, mmap=mmap)
    monkeypatch.setattr(tensors, "MIN_MAPPED_BYTES", 0)
    mapped = BertModel.from_pretrained(folder)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for name, parameter in mapped.named_parameters():
        # on some processors, alignment changes the last bit of a product
        assert parameter.data_ptr() % 64 == model.get_parameter(name).data_ptr() % 64
    (folder / "model.safetensors").write_bytes(b"")
    assert np.isfinite(embedder.encode("hello")).all()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
    del mapped
