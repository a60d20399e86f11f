"""Checkpoint files: their tensors by name, memory-mapped, and legacy names.

Two legacy names are changed, and the `bert.` prefix is dropped or added. A page of a mapped file is
read from disk when a number on it is first used.
"""

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from minibert.checkpoints.pickles import TAR_MAGIC, check_pickle
from minibert.checkpoints.source import Source
from minibert.util.files import read_json, replacing

# TensorFlow's LayerNorm names its weight gamma and its bias beta; only LayerNorm's are renamed,
# because other tensors may rightly be called so
RENAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

# smaller files are read at once: it takes half a millisecond, and whatever happens to the file, the
# model stays
MIN_MAPPED_BYTES = 1 << 20

SAFETENSORS_DTYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
}


def renamed(name: str) -> str:
    """Return the current name of a tensor that may have a legacy name."""
    for old, new in RENAMES.items():
        name = name.replace(old, new)
    return name


def read_tensors(
    source: Source, mmap: bool = True, use_safetensors: bool | None = None
) -> dict[str, Tensor]:
    """Read all tensors of a checkpoint, by the names in its file.

    They are memory-mapped, so nothing is read before it is used.

    A mapped file must stay as it is: writing over it changes the tensors, and cutting it ends the
    process (SIGBUS). To put a new file in its place, which is safe, rename it. Files below
    `MIN_MAPPED_BYTES` are read at once.

    Args:
        source: Where the checkpoint is.
        mmap: False reads everything at once, and the file may change afterwards.
        use_safetensors: True reads safetensors only, and False pytorch_model.bin. None: safetensors
            if there are any.

    Raises:
        FileNotFoundError: No weights, or a shard is missing.
        ValueError: A damaged file, or a pickle that would run code.
    """
    if source.single_file is not None and source.single_file.suffix != ".json":
        return _read_file(source.single_file, mmap)
    names = []
    if use_safetensors is not False:
        names += ["model.safetensors", "model.safetensors.index.json"]
    if use_safetensors is not True:
        names += ["pytorch_model.bin", "pytorch_model.bin.index.json"]
    path = source.require(*names)
    if path.suffix != ".json":
        tensors = _read_file(path, mmap)
        source.check_unchanged()
        return tensors
    tensors = {}
    shards = read_json(path).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise ValueError(f"{path} should map tensor names to files under weight_map.")
    for shard in sorted(set(shards.values())):
        file = source.file(shard) if Path(shard).name == shard else None
        if file is None:
            raise FileNotFoundError(
                f"{source} lacks {shard}, a shard that {path.name} names. Get it again."
            )
        tensors.update(_read_file(file, mmap))
    absent = shards.keys() - tensors.keys()
    if absent:
        raise ValueError(
            f"{source}: {path.name} names {min(absent)}, which no shard holds. Get the "
            "checkpoint again."
        )
    source.check_unchanged()
    return tensors


def _read_file(path: Path, mmap: bool) -> dict[str, Tensor]:
    return (
        _read_safetensors(path, mmap) if path.suffix == ".safetensors" else _read_pickle(path, mmap)
    )


def _read_safetensors(path: Path, mmap: bool) -> dict[str, Tensor]:
    """Every tensor as a view of the mapped file, or of its bytes in memory.

    The library checks the file. The views are made here, because its own take four times as long
    and a model has hundreds (format: 8 bytes header size, JSON header, data).
    """
    try:
        with path.open("rb") as opened:
            name = _plain_name(path, opened.fileno())
            with safe_open(name, framework="pt") as file:
                start = 8 + int.from_bytes(opened.read(8), "little")
                entries = json.loads(opened.read(start - 8))
                size = os.fstat(opened.fileno()).st_size
                if mmap and size >= MIN_MAPPED_BYTES:
                    content = torch.UntypedStorage.from_file(name, shared=False, nbytes=size)
                else:
                    content = _in_memory(opened, size)
                tensors = {}
                for tensor in file.keys():
                    offset = start + entries[tensor]["data_offsets"][0]
                    dtype = SAFETENSORS_DTYPES.get(entries[tensor]["dtype"])
                    if dtype is None or offset % dtype.itemsize:
                        # a rare type, or data that are not aligned
                        tensors[tensor] = file.get_tensor(tensor)
                    else:
                        # a storage of its own, on the same memory: pickling a tensor writes all of
                        # its storage
                        end = start + entries[tensor]["data_offsets"][1]
                        shape = entries[tensor]["shape"]
                        empty = torch.empty(0, dtype=dtype, device="cpu")
                        view: Any = empty.set_
                        tensors[tensor] = view(content[offset:end], 0, shape)
                return tensors
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(
            f"{path} is not a complete safetensors file ({error!s:.300}). Get it again."
        ) from None


def _plain_name(path: Path, handle: int) -> str:
    """Return the path as the libraries take it, in UTF-8.

    A path that is not UTF-8 has another name while it is open.
    """
    try:
        return str(path).encode("utf-8").decode()
    except UnicodeEncodeError:
        return f"/dev/fd/{handle}"


def _in_memory(file: io.BufferedReader, size: int) -> torch.UntypedStorage:
    """Return a file's bytes.

    Tensors lie as far from a multiple of 64 as in the file, for the last bits depend on that.
    """
    content = torch.empty(
        size, dtype=torch.uint8, device="cpu"
    )  # torch aligns its memory to 64 bytes
    file.seek(0)
    if size and file.readinto(content.numpy().data) != size:
        raise ValueError("it was truncated while it was read")
    return content.untyped_storage()


def _read_pickle(path: Path, mmap: bool) -> dict[str, Tensor]:
    """Read the tensors of an old pytorch_model.bin.

    They are memory-mapped if it is a zip file, which torch writes since version 1.6.
    """
    offset, magic = TAR_MAGIC
    with path.open("rb") as file:
        head = file.read(offset + len(magic))
    if head[offset:] == magic:
        raise ValueError(
            f"{path} is a tar file, as torch wrote them until 2017 and cannot read safely. "
            "Get the checkpoint as safetensors, or save it again with the program that wrote it "
            "and a newer torch."
        )
    content = _unpickle(path, mmap)
    if not isinstance(content, dict) or not all(isinstance(t, Tensor) for t in content.values()):
        raise ValueError(f"{path} should hold tensors by name, but it holds something else.")
    for name, tensor in content.items():
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise ValueError(
                f"{path}: {ascii(name)} is not an ordinary tensor "
                f"({tensor.device}, {tensor.layout})."
            )
        if not isinstance(name, str) or not name.isprintable():
            raise ValueError(f"{path}: {ascii(name)} is not the name of a tensor.")
    size = sum(tensor.numel() * tensor.element_size() for tensor in content.values())
    # a tied decoder is there twice, but nothing is there a hundred times
    if size > 4 * path.stat().st_size:
        raise ValueError(
            f"{path} claims {size} bytes of tensors, several times its size. Get it again."
        )
    return {name: tensor.detach().contiguous() for name, tensor in content.items()}


def _unpickle(path: Path, mmap: bool) -> Any:
    """Read a pickle without running code of it."""
    try:
        check_pickle(path)
        is_large = path.stat().st_size >= MIN_MAPPED_BYTES
        with path.open("rb") as file:
            mapped = mmap and is_large and zipfile.is_zipfile(path)
            name: Any = _plain_name(path, file.fileno()) if mapped else file
            return torch.load(name, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError:
        raise ValueError(
            f"{path} is refused: it is not a plain file of tensors, and reading it could run code. "
            "Get the checkpoint as safetensors."
        ) from None
    except Exception as error:  # damaged pickles give errors of every kind
        lines = str(error).splitlines() or [type(error).__name__]
        raise ValueError(
            f"{path} is not a complete PyTorch file ({lines[0][:200]}). Get it again."
        ) from None


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a safetensors file atomically."""
    with replacing(path) as temporary:
        # not the library's save_file, which puts a file of its own in the place of ours: with other
        # permissions, unlocked, left over when it is killed, and of no name that is not UTF-8
        temporary.write_bytes(save(tensors, metadata={"format": "pt"}))
