"""Copying the modules of sentence-transformers and the prompts around a BERT to another folder."""

from __future__ import annotations

import os
from pathlib import Path

from minibert.checkpoints.source import Source
from minibert.encoders.sentence_folder import read_modules
from minibert.files import replacing

_FILES_OF_A_MODULE = ("config.json", "model.safetensors", "pytorch_model.bin")


def transformer_folder(source: Source) -> str:
    """The folder of the BERT inside a sentence-transformers folder, such as "0_Transformer/".

    It is "" for a plain one.
    """
    path = source.file("modules.json")
    if path is None:
        return ""
    return dict(read_modules(path)).get("Transformer", "")


def copy_modules(source: Source, folder: str | os.PathLike[str]) -> None:
    """Copies everything around the BERT of a sentence-transformers folder.

    Around a plain checkpoint there is nothing.

    Args:
        source: Where the modules are.
        folder: Where the BERT has been written, in the same place as in `source`.

    Raises:
        ValueError: A module that minibert does not have.
        OSError: A file cannot be written.
    """
    files = ["config_sentence_transformers.json"]
    path = source.file("modules.json")
    if path is not None:
        for kind, place in read_modules(path):
            if kind == "Transformer":
                files.append(f"{place}sentence_bert_config.json")
            elif place:
                files += [f"{place}{name}" for name in _FILES_OF_A_MODULE]
        files.append("modules.json")  # last: it promises the others
    for name in files:
        found = source.file(name)
        if found is not None:
            _copy(found, Path(folder, name))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and target.samefile(source):
        return
    with replacing(target) as temporary:
        temporary.write_bytes(source.read_bytes())
