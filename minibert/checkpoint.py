"""Checkpoint files: their tensors by name, memory-mapped, and the few names that differ between files and models.

Two legacy names are changed, and the `bert.` prefix is dropped or added. A page of a mapped file is read from disk
when a number on it is first used.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from minibert.files import Source, read_json, replacing

WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# TensorFlow's LayerNorm names its weight gamma and its bias beta; only LayerNorm's are renamed, because other
# tensors may rightly be called so
RENAMES = ((re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"), (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"))
BACKBONE = ("embeddings.", "encoder.", "pooler.")

SAFETENSORS_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


def model_name(name: str, is_head: bool, prefixed: bool) -> str:
    """The model's name for a tensor of the file.

    Args:
        name: its name in the file.
        is_head: the model has a BertModel inside, called `bert`.
        prefixed: the file's names start with `bert.`.
    """
    for pattern, replacement in RENAMES:
        name = pattern.sub(replacement, name)
    if is_head and not prefixed and name.startswith(BACKBONE):
        return f"bert.{name}"
    return name if is_head else name.removeprefix("bert.")


def read_tensors(source: Source) -> dict[str, Tensor]:
    """All tensors of a checkpoint by the names in its file, memory-mapped: nothing is read before it is used.

    Raises:
        FileNotFoundError: no weights, or a shard is missing.
        ValueError: a damaged file, or a pickle that would run code.
    """
    path = source.require(*WEIGHT_FILES)
    if path.suffix != ".json":
        return _read_file(path)
    tensors: dict[str, Tensor] = {}
    shards = read_json(path).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise ValueError(f"{path} should map tensor names to files under weight_map.")
    for shard in sorted(set(shards.values())):
        file = source.file(shard) if Path(shard).name == shard else None
        if file is None:
            raise FileNotFoundError(f"{source} lacks {shard}, a shard that {path.name} names; get it again.")
        tensors.update(_read_file(file))
    if absent := shards.keys() - tensors.keys():
        raise ValueError(f"{source}: {path.name} names {min(absent)}, which no shard holds; get the checkpoint again.")
    return tensors


def _read_file(path: Path) -> dict[str, Tensor]:
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    """Every tensor as a view of the mapped file.

    The library checks the file; the views are made here, because its own take four times as long and a model has
    hundreds (format: 8 bytes header size, JSON header, data).
    """
    try:
        with safe_open(path, framework="pt") as file, path.open("rb") as header:
            start = 8 + int.from_bytes(header.read(8), "little")
            entries = json.loads(header.read(start - 8))
            mapped = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=path.stat().st_size)
            tensors = {}
            for name in file.keys():
                offset = start + entries[name]["data_offsets"][0]
                dtype = SAFETENSORS_DTYPES.get(entries[name]["dtype"])
                if dtype is None or offset % dtype.itemsize:
                    tensors[name] = file.get_tensor(name)  # a rare type, or a file whose data is not aligned
                else:
                    # a storage of its own, on the same memory: pickling a tensor writes all of its storage
                    own = mapped[offset : start + entries[name]["data_offsets"][1]]
                    tensors[name] = torch.empty(0, dtype=dtype).set_(own, 0, entries[name]["shape"])  # type: ignore[call-overload]
            return tensors
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error}); get it again.") from None


def _read_pickle(path: Path) -> dict[str, Tensor]:
    """Tensors of an old pytorch_model.bin, converted to safetensors once and memory-mapped from then on."""
    stat = path.stat()
    key = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:32]
    converted = cache_folder() / f"{key}.safetensors"
    if converted.is_file():
        with suppress(ValueError):  # damaged: converted again
            return _read_safetensors(converted)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ValueError(
            f"{path} is refused: it is not a plain file of tensors, and reading it could run code. "
            "Get the checkpoint as safetensors."
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, AssertionError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a whole PyTorch file ({error}); get it again.") from None
    if not isinstance(content, dict) or not all(isinstance(t, Tensor) for t in content.values()):
        raise ValueError(f"{path} should hold tensors by name, but it holds something else.")
    # clones, because safetensors refuses tensors that share memory
    tensors = {str(name): tensor.detach().clone().contiguous() for name, tensor in content.items()}
    try:
        converted.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(converted, tensors)
    except OSError:
        return tensors  # nowhere to keep it: converted again next time
    return _read_safetensors(converted)


def cache_folder() -> Path:
    """Where converted checkpoints are kept: `$MINIBERT_CACHE`, or minibert/ in the user's cache folder."""
    if folder := os.environ.get("MINIBERT_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minibert"


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a safetensors file, whole or not at all."""
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"{path} cannot be written ({error}).") from None
