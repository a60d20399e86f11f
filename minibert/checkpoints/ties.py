"""Tensors that have several names in a model.

`_tied_weights_keys` of a class says which tensors its models share when they are built. From then
on the tensors themselves say it: two names are tied as long as they are one tensor. So what a user
unties, replaces, prunes or wraps is saved and loaded as it is.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"


def declared_ties(model: nn.Module) -> dict[str, str]:
    """Return the aliases that a model's class declares, each with the name that is saved.

    Models inside have their own. Ties to the word embeddings are switched by
    `config.tie_word_embeddings`.
    """
    ties: dict[str, str] = {}
    for prefix, module in model.named_modules():
        names = getattr(module, "_tied_weights_keys", None)
        if not isinstance(names, Mapping):
            continue
        start = f"{prefix}." if prefix else ""
        ties_words = getattr(module.config, "tie_word_embeddings", True)
        for alias, name in names.items():
            if ties_words or not name.endswith(WORD_EMBEDDINGS):
                ties[start + alias] = start + name
    return ties


def shared_names(model: nn.Module, tensors: Mapping[str, Tensor] | None = None) -> dict[str, str]:
    """Return the further names of every tensor that has several, each with the first name.

    Declared aliases come after the names that they stand for.

    Args:
        model: The model.
        tensors: Its `named_tensors`, if they are at hand.
    """
    names = named_tensors(model) if tensors is None else tensors
    aliases = declared_ties(model)
    first_names: dict[int, str] = {}
    shared = {}
    for name in sorted(names, key=lambda name: name in aliases):
        first = first_names.setdefault(id(names[name]), name)
        if first != name:
            shared[name] = first
    return shared


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and persistent buffers, each under all of its names."""
    tensors: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                tensors[f"{prefix}.{name}" if prefix else name] = buffer
    return tensors


def tie(model: nn.Module, alias: str, name: str) -> None:
    """Make the parameter `alias` of a model the parameter `name`, where it has both."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    if alias in parameters and name in parameters:
        _set(model, alias, parameters[name])


def untie(model: nn.Module, alias: str) -> nn.Parameter:
    """Give `alias` a parameter of its own, without a value, and return it."""
    shared = model.get_parameter(alias)
    own = nn.Parameter(torch.empty_like(shared), requires_grad=shared.requires_grad)
    _set(model, alias, own)
    return own


def _set(model: nn.Module, name: str, parameter: nn.Parameter) -> None:
    owner, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(owner), attribute, parameter)
