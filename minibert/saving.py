"""`save_pretrained`: config.json and model.safetensors, as transformers reads them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from minibert.checkpoints.tensors import write_tensors
from minibert.checks import refuse_unknown
from minibert.compat.keywords import SAVING, drop_ignored_keywords


def save_model(
    model: Any,
    save_directory: str | os.PathLike[str],
    is_main_process: bool,
    state_dict: Mapping[str, Tensor] | None,
    options: Mapping[str, Any],
) -> None:
    """Write a `PreTrainedModel`. The other arguments are those of its `save_pretrained`.

    Raises:
        ValueError: A keyword asks for something that minibert does not have.
        TypeError: A keyword is unknown.
        OSError: The files cannot be written.
    """
    unknown = drop_ignored_keywords(options, SAVING)
    owner = f"{type(model).__name__}.save_pretrained"
    refuse_unknown(owner, unknown, ("state_dict", *SAVING))
    if not is_main_process:
        return
    folder = Path(save_directory)
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config.replace(architectures=[type(model).__name__], dtype=str(model.dtype))
    config.save_pretrained(folder)
    if state_dict is None:
        state_dict = model.state_dict(keep_vars=True)  # without copies of aliases
    write_tensors(folder / "model.safetensors", tensors_to_write(model, state_dict))


def tensors_to_write(model: Any, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a state dict, each under one name if the config ties them.

    An untied model writes every name, because transformers looks for aliases only where the config
    ties. Tensors that share memory are copied then, because safetensors refuses them.
    """
    aliases = model.tied_weights()
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    memory: set[int] = set()
    for name, tensor in state_dict.items():
        if name in aliases and model.config.tie_word_embeddings:
            continue
        if name not in aliases and id(tensor) in seen:
            continue  # tied by the model's own `__init__`, so loading needs one name
        value = tensor.detach().contiguous()
        if value.data_ptr() in memory:
            value = value.clone()
        seen.add(id(tensor))
        memory.add(value.data_ptr())
        tensors[name] = value
    return tensors
