"""Tied weights in state dicts, where tools expect every name to have memory of its own.

The reference loads a state dict strictly and misses an alias that is not in it; safetensors writes no two tensors that
share memory, and `transformers.Trainer` hands it the state dict of a model that is not of its own classes as it is. So
aliases are copies when weights are saved. When weights are loaded, the original counts: a copy says nothing new, and in
a state dict that is kept for long, while its original is trained on, it is an old one.
"""

from collections.abc import Callable
from typing import Any

from torch import nn


class TiedWeights(nn.Module):
    """A `PreTrainedModel` whose aliases can be saved by any tool, and that is still tied whatever has been loaded."""

    tied_weights: Callable[[], dict[str, str]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.register_state_dict_post_hook(_copy_aliases)  # type: ignore[no-untyped-call]
        # load_state_dict(assign=True) takes the tie apart
        self.register_load_state_dict_post_hook(_tie)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any
    ) -> None:
        for alias, name in self.tied_weights().items():
            if prefix + name in state_dict:
                state_dict[prefix + alias] = state_dict[prefix + name]
        super()._load_from_state_dict(state_dict, prefix, *arguments)


# outside of the class, so that models can be pickled


def _copy_aliases(model: TiedWeights, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    for alias in model.tied_weights():
        # keep_vars=True asks for the very tensor, and other hooks may have taken the alias out
        if (tensor := state.get(prefix + alias)) is not None and not isinstance(
            tensor, nn.Parameter
        ):
            state[prefix + alias] = tensor.clone()


def _tie(model: Any, _keys: Any) -> None:
    model.tie_weights()
