"""`save_pretrained`: config.json and model.safetensors, as transformers reads them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from minibert.checkpoints.tensors import write_tensors
from minibert.checkpoints.ties import WORD_EMBEDDINGS, declared_ties, shared_names
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
    if state_dict is None:
        state_dict = model.state_dict(keep_vars=True)  # without copies of aliases
    tensors = tensors_to_write(model, state_dict)
    changes = {"architectures": [type(model).__name__], "dtype": str(model.dtype)}
    if any(
        alias in tensors and name.endswith(WORD_EMBEDDINGS)
        for alias, name in declared_ties(model).items()
    ):
        changes["tie_word_embeddings"] = False
    model.config.replace(**changes).save_pretrained(folder)
    write_tensors(folder / "model.safetensors", tensors)


def tensors_to_write(model: Any, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a state dict without the aliases that the class ties when it is built.

    Every other name is written, also those of a tensor that the class does not know to be shared,
    because only so a reader has a value for each. They are copies, since safetensors refuses
    tensors that share memory.
    """
    shared = shared_names(model)
    tensors: dict[str, Tensor] = {}
    memory: set[int] = set()
    left_out = set()
    for alias, name in declared_ties(model).items():
        if name in state_dict and alias in shared and shared[alias] == shared.get(name, name):
            left_out.add(alias)
    for name, tensor in state_dict.items():
        if name in left_out:
            continue
        value = tensor.detach().contiguous()
        if value.data_ptr() in memory:
            value = value.clone()
        memory.add(value.data_ptr())
        tensors[name] = value
    return tensors
