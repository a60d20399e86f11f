"""When weights are drawn while a checkpoint loads.

Drawing would take longer than everything else, and nearly all of it would be replaced. So there is
one moment for it:

    build     minibert's own parts are built without values (`without_values`). What a user's
              `__init__` adds is built as it is written there.
    assign    parameters get the tensors of the checkpoint (loading.py).
    draw      `draw_missing` draws the own parts that still have no value.

A parameter has no value if its first number is NaN. The mark is in the memory itself, so a value
that the `__init__` of a user's class gives an own part replaces it, and a copy has it, too.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from minibert.initialization import modules_of, unfilled


class Unfilled:
    """The models that are built without values.

    Attributes:
        models: Every model with own parts, in the order of building. A model may lie inside another
            one, or only be referenced by it.
    """

    def __init__(self) -> None:
        self.models: list[Any] = []

    @contextmanager
    def building(self, model: Any) -> Iterator[None]:
        """Build own parts of `model` in the `with` block without drawing them."""
        with _SkippedDraws():
            yield
        if not any(model is other for other in self.models):
            self.models.append(model)

    def mark(self, parameters: Iterable[nn.Parameter]) -> None:
        """Mark parameters as having no value."""
        for parameter in parameters:
            parameter.detach().view(-1)[:1] = torch.nan


@contextmanager
def without_values() -> Iterator[list[Any]]:
    """Build models in the `with` block, in this thread, that get their values later.

    Yields:
        The list of the models, `Unfilled.models`.
    """
    built = Unfilled()
    token = unfilled.set(built)
    try:
        yield built.models
    finally:
        unfilled.reset(token)


def draw_missing(models: Iterable[Any], filled: set[int]) -> None:
    """Draw the own parts that have no value after loading.

    Args:
        models: From `without_values`.
        filled: The `id` of each parameter that has the value of a checkpoint.
    """
    for model in models:
        for module in modules_of(model):
            missing = set()
            for parameter in module._parameters.values():
                if parameter is None or id(parameter) in filled:
                    continue
                if parameter.detach().reshape(-1)[:1].isnan().any():  # it has no value
                    missing.add(id(parameter))
            if missing:
                _draw(model, module, missing)


def _draw(model: Any, module: nn.Module, missing: set[int]) -> None:
    """Draw the parameters of a module whose `id` is in `missing`. The others keep their values."""
    kept = []
    for parameter in module.parameters(recurse=False):
        if id(parameter) in missing:
            # The layers of a model are copies that share this memory. Zero is for a parameter that
            # `_init_weights` leaves alone.
            parameter.data = torch.zeros_like(parameter.data)
        else:
            # `_init_weights` draws into other memory meanwhile.
            kept.append((parameter, parameter.data))
            parameter.data = torch.empty_like(parameter.data)
    model._init_weights(module)
    for parameter, value in kept:
        parameter.data = value


class _SkippedDraws(TorchFunctionMode):
    """Skips the functions of `torch.nn.init`, which `nn.Linear` and others call when built."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the tensor as it is instead of drawing its values."""
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]  # torch.nn.init always passes it by keyword
        return function(*args, **(kwargs or {}))
