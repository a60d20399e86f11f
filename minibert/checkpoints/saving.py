"""`save_pretrained`: config.json and model.safetensors, as transformers reads them."""

import os
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from minibert.checkpoints.model_files import replacing_model
from minibert.checkpoints.tensors import write_tensors
from minibert.checkpoints.ties import shared_names
from minibert.compat.keywords import SAVING, check_unused
from minibert.initialization import WORD_EMBEDDINGS, declared_ties
from minibert.util.checks import warn
from minibert.util.errors import ArgumentError


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
    check_unused(f"{type(model).__name__}.save_pretrained", options, SAVING)
    if not is_main_process:
        return
    if state_dict is None:
        state_dict = model.state_dict(keep_vars=True)  # without copies of aliases
    aliases = aliases_to_leave_out(model, state_dict)
    has_own_decoder = any(
        name.endswith(WORD_EMBEDDINGS) and alias in state_dict and alias not in aliases
        for alias, name in declared_ties(model).items()
    )
    config = model.config.replace(
        architectures=[type(model).__name__],
        dtype=str(model.dtype),
        tie_word_embeddings=model.config.tie_word_embeddings and not has_own_decoder,
    )
    if not config.tie_word_embeddings:
        aliases = {}  # transformers looks for aliases only where the config ties
    tensors = {name: tensor for name, tensor in state_dict.items() if name not in aliases}
    _warn_of_shards(options.get("max_shard_size"), tensors)
    with replacing_model(save_directory) as folder:
        config.save_pretrained(folder)
        write_tensors(folder / "model.safetensors", with_own_memory(tensors))


def _warn_of_shards(limit: Any, tensors: Mapping[str, Tensor]) -> None:
    """Warn where transformers would write several files, because a size is less than the model's.

    Args:
        limit: The size of a file as transformers takes it: bytes, or a string such as "5GB".
        tensors: What is written.

    Raises:
        ValueError: A size that cannot be read.
    """
    if limit is None:
        return
    match = re.fullmatch(r"(\d+)\s*(?:([KMG])(i?)B)?", str(limit).strip(), re.IGNORECASE)
    if match is None:
        raise ArgumentError("max_shard_size", f'should be a size such as "5GB", not {limit!r:.80}.')
    number, unit, binary = match.groups()
    power = "KMG".index(unit.upper()) + 1 if unit else 0
    most = int(number) * (1024 if binary else 1000) ** power
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if size > most:
        warn(
            f"The weights are one file of {size:,} bytes, model.safetensors, whatever "
            f"max_shard_size is: {limit!r} has no effect. Drop it."
        )


def aliases_to_leave_out(model: Any, state_dict: Mapping[str, Tensor]) -> dict[str, str]:
    """Return the names that loading ties again, because the class declares them and they are tied.

    Every other name is written, also of a tensor that the class does not declare as shared: only so
    every reader has a value for it.
    """
    shared = shared_names(model)
    aliases = {}
    for alias, name in declared_ties(model).items():
        is_tied = alias in shared and shared[alias] == shared.get(name, name)
        if is_tied and name in state_dict:
            aliases[alias] = name
    return aliases


def with_own_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors that share memory with others, which safetensors refuses."""
    memory: set[int] = set()
    copies = {}
    for name, tensor in tensors.items():
        value = tensor.detach().contiguous()
        if value.data_ptr() in memory:
            value = value.clone()
        memory.add(value.data_ptr())
        copies[name] = value
    return copies
