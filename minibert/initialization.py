"""When weights are drawn. How each is drawn says `PreTrainedModel._init_weights`.

A new model is drawn part by part, as it is built. While a checkpoint loads, drawing would take
longer than everything else, and nearly all of it would be replaced. So there is one moment for it:

    build     minibert's own parts are built without values (`initial_weights`). What a user's
              `__init__` adds is built as it is written there.
    assign    parameters get the tensors of the checkpoint (checkpoints/loading.py).
    draw      `draw_missing` draws the own parts that still have no value.

A parameter has no value if its first number is NaN. The mark is in the memory itself, so a value
that the `__init__` of a user's class gives an own part replaces it, and a copy has it, too.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

_built: ContextVar[list[Any] | None] = ContextVar("built", default=None)


@contextmanager
def without_values() -> Iterator[list[Any]]:
    """Build models in the `with` block, in this thread, that get their values later.

    Yields:
        A list to which every model with own parts is added, in the order of building. A model may
        lie inside another one, or only be referenced by it.
    """
    models: list[Any] = []
    token = _built.set(models)
    try:
        yield models
    finally:
        _built.reset(token)


@contextmanager
def initial_weights(model: Any) -> Iterator[None]:
    """Build own parts of `model` in the `with` block, and draw their weights afterwards.

    In a block of `without_values` they are marked instead, as having no value yet.
    """
    known = {id(part) for part in (*model.modules(), *model.parameters())}
    models = _built.get()
    if models is None:
        yield
    else:
        with _SkippedDraws():
            yield
        if not any(model is other for other in models):
            models.append(model)
    model.tie_weights()  # before drawing, so that a tied tensor is drawn once
    for module in model.modules():
        if id(module) in known:
            continue
        vars(module)["_is_initialized"] = True  # so that `draw_uninitialized` leaves it alone
        new = [p for p in module._parameters.values() if p is not None and id(p) not in known]
        known.update(map(id, new))
        if new and models is None:
            model._init_weights(module)
        else:
            for parameter in new:
                parameter.detach().view(-1)[:1] = torch.nan


def draw_uninitialized(model: Any) -> None:
    """Draw every module that has not been drawn: those that a user's `__init__` adds."""
    for module in modules_of(model):
        if "_is_initialized" not in vars(module):
            vars(module)["_is_initialized"] = True
            model._init_weights(module)


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
                if parameter is not None and id(parameter) not in filled:
                    if _has_no_value(parameter):
                        missing.add(id(parameter))
            if missing:
                _draw(model, module, missing)


def _has_no_value(parameter: nn.Parameter) -> bool:
    return bool(parameter.detach().view(-1)[:1].isnan().any())


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


def modules_of(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules of a model, but not those of models inside, which draw their own."""
    modules: list[nn.Module] = [model]
    for module in modules:  # the loop also visits what it appends
        yield module
        modules.extend(m for m in module.children() if not hasattr(type(m), "_init_weights"))


class _SkippedDraws(TorchFunctionMode):
    """Skips the functions of `torch.nn.init`, which `nn.Linear` and others call when built."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the tensor as it is instead of drawing its values."""
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]  # torch.nn.init always passes it by keyword
        return function(*args, **(kwargs or {}))
