"""Tensors that have several names in a model: how they are found, saved and loaded.

`_tied_weights_keys` of a class says which tensors its models share when they are built. From then
on the tensors themselves say it: two names are tied as long as they are one tensor. So what a user
unties, replaces, prunes or wraps is saved and loaded as it is.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from minibert.initialization import declared_ties, set_parameter


def shared_names(model: nn.Module, tensors: Mapping[str, Tensor] | None = None) -> dict[str, str]:
    """Return the further names of every tensor that has several, each with the first name.

    Declared aliases come after the names that they stand for.

    Args:
        model: The model.
        tensors: Its `named_tensors`, if they are at hand.
    """
    names = named_tensors(model) if tensors is None else tensors
    if len({id(tensor) for tensor in names.values()}) == len(names):
        return {}
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


def untie(model: nn.Module, alias: str) -> nn.Parameter:
    """Give `alias` a parameter of its own, without a value, and return it."""
    shared = model.get_parameter(alias)
    own = nn.Parameter(torch.empty_like(shared), requires_grad=shared.requires_grad)
    set_parameter(model, alias, own)
    return own


def share_values(model: nn.Module, state: dict[str, Any], prefix: str, assigns: bool) -> None:
    """Let tensors that are one before `load_state_dict` be one afterwards.

    They get the value of their first name. Those of other names may be outdated: `copy_aliases` has
    copied them, so that they do not follow a model that is trained on. (In transformers the last
    name counts, as its names share memory.) With `assigns`, two that differ in the state dict
    replace the one.

    Args:
        model: The model.
        state: The state dict, which is changed.
        prefix: How the names of the model's tensors start in it.
        assigns: Whether parameters are assigned instead of copied.
    """
    for alias, name in shared_names(model).items():
        tensor = state.get(prefix + name)
        if tensor is None:
            continue
        if assigns and not _are_equal(tensor, state.get(prefix + alias)):
            continue  # both are assigned as they are, and no longer one
        if assigns and not isinstance(tensor, nn.Parameter):  # torch makes one for each name
            tensor = state[prefix + name] = nn.Parameter(tensor, requires_grad=False)
        state[prefix + alias] = tensor


def _are_equal(tensor: Tensor, alias: Tensor | None) -> bool:
    """Whether the tensor of another name is missing, or has the same values in the same form."""
    if alias is None or alias is tensor or (alias.is_meta and tensor.is_meta):
        return True
    forms = [(type(x.detach()), x.shape, x.dtype, x.device) for x in (tensor, alias)]
    return forms[0] == forms[1] and torch.allclose(tensor, alias, rtol=0, atol=0, equal_nan=True)


def copy_aliases(model: nn.Module, state: dict[str, Any], prefix: str) -> None:
    """Give every name in a state dict memory of its own, as tools expect."""
    for alias in shared_names(model):
        tensor = state.get(prefix + alias)
        # keep_vars=True asks for the parameter itself, and other hooks may have removed the alias.
        if tensor is not None and not isinstance(tensor, nn.Parameter):
            state[prefix + alias] = tensor.clone()
