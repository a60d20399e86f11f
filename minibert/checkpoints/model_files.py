"""Which files belong to a model, and how they are replaced together.

Every function that writes a model uses `replacing_model`. So a folder holds the old model or the
new one, never the labels of one beside the weights of the other.
"""

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from minibert.checkpoints.hub import TRANSFORMER_FILES
from minibert.checkpoints.source import FIRST
from minibert.compat.chat_templates import TEMPLATE_FILE, TEMPLATE_FOLDER
from minibert.util.folders import replacing_folder

_MODEL = re.compile(
    r"config\.json|(model|steps)\.onnx"
    r"|(model|pytorch_model)(-\d{5}-of-\d{5})?\.(safetensors|bin)(\.index\.json)?"
)
_TOKENIZER = re.compile(
    r"vocab\.txt|tokenizer\.json|(tokenizer_config|special_tokens_map|added_tokens)\.json"
    rf"|{re.escape(TEMPLATE_FILE)}"
)
_NAMES_AROUND = ("modules.json", "config_sentence_transformers.json", *TRANSFORMER_FILES)
_AROUND = re.compile("|".join(map(re.escape, _NAMES_AROUND)))
_MODULE = re.compile(r"\d+_[A-Za-z]+")  # the folder of a module, such as 1_Pooling


def replacing_model(
    path: str | os.PathLike[str], whole: bool = False, also: Sequence[str] = ()
) -> AbstractContextManager[Path]:
    """Replace a model, a tokenizer or both by the files that the block writes.

    If the block writes any file of a model, the other files of the old model are deleted: sharded
    weights, weights in an older format, or a graph. They would be loaded with the new config.json.
    The same holds for a tokenizer. All other files are kept.

    Args:
        path: The folder of the model. It is created if it does not exist.
        whole: Also delete the files of sentence-transformers, because the new model has its own or
            none. Otherwise the modules around a BERT are kept.
        also: Further files of the old model to delete.

    Returns:
        A context that yields a temporary folder to write into, and raises the errors of
        `minibert.util.folders.replacing_folder`.
    """

    def superseded(folder: Path, new: Sequence[str]) -> list[str]:
        """The files of the old model to delete, when the files `new` have been written."""
        names = [name for name in also if (folder / name).exists()]
        places = {os.path.dirname(name) for name in new}
        for place in sorted(_places(folder, places, whole)):
            written = [os.path.basename(name) for name in new if os.path.dirname(name) == place]
            kinds = [kind for kind in (_MODEL, _TOKENIZER) if any(map(kind.fullmatch, written))]
            if whole:
                kinds.append(_AROUND)
            if whole and place not in places:
                kinds = [_MODEL, _TOKENIZER, _AROUND]
            if _TOKENIZER in kinds:
                templates = sorted((folder / place).glob(f"{TEMPLATE_FOLDER}/*.jinja"))
                names += [template.relative_to(folder).as_posix() for template in templates]
            for entry in sorted((folder / place).iterdir()):
                if any(kind.fullmatch(entry.name) for kind in kinds) and not entry.is_dir():
                    names.append(f"{place}/{entry.name}" if place else entry.name)
        return names

    return replacing_folder(path, superseded, FIRST)


def _places(folder: Path, written: set[str], whole: bool) -> set[str]:
    """The folders that files were written into, and with `whole` all that have files of a model.

    They are relative to `folder`, which itself is "".
    """
    places = {place for place in written if (folder / place).is_dir()}
    if whole:
        places.add("")
        places.update(
            entry.name
            for entry in folder.iterdir()
            if _MODULE.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink()
        )
    return places
