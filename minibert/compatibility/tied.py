"""Tied weights in state dicts, where tools expect every name to have memory of its own.

safetensors writes no two tensors that share memory, and `transformers.Trainer` hands it the state dict of a model that
is not of its own classes as it is. So the aliases of a state dict are copies; and since such a copy says nothing new,
it is not loaded either: in code that keeps a state dict for long, or changes the original in it, an old copy of the
alias must not undo the original.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

# copies that are in use, and how often each had been written to when it was made
_COPIES: MutableMapping[Tensor, int] = WeakTensorKeyDictionary()


class TiedWeights(nn.Module):
    """A `PreTrainedModel` whose aliases can be saved by any tool, and that is still tied whatever has been loaded."""

    tied_weights: Callable[[], dict[str, str]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.register_state_dict_post_hook(_copy_aliases)  # type: ignore[no-untyped-call]
        # load_state_dict(assign=True) takes the tie apart
        self.register_load_state_dict_post_hook(_tie)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        for alias, name in self.tied_weights().items():
            copy = state_dict.get(prefix + alias)
            if isinstance(copy, Tensor) and copy in _COPIES and copy._version == _COPIES[copy]:
                state_dict[prefix + alias] = state_dict.get(prefix + name, copy)
        super()._load_from_state_dict(state_dict, prefix, *arguments)


# outside of the class, so that models can be pickled


def _copy_aliases(model: TiedWeights, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    for alias in model.tied_weights():
        tensor = state.get(prefix + alias)
        if isinstance(tensor, Tensor) and not isinstance(tensor, nn.Parameter):  # keep_vars=True asks for the very one
            with torch.inference_mode(False):  # in which writes are not counted
                state[prefix + alias] = copy = tensor.clone()
            _COPIES[copy] = copy._version


def _tie(model: Any, _keys: Any) -> None:
    model.tie_weights()
