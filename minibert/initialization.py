"""When a weight of a model gets its value.

`PreTrainedModel._init_weights` says how each is drawn. A new model is drawn part by part as it is
built: parts of minibert at the end of `with initial_weights(self):`, and those that a subclass adds
by `self.post_init()`. Its tied weights are tied then.

While a checkpoint loads, drawing would take longer than everything else, and nearly all of it would
be replaced. So there is one moment for it:

    build     minibert's own parts are built without values (`without_values`). What a user's
              `__init__` adds is built as it is written there.
    assign    parameters get the tensors of the checkpoint (checkpoints/loading.py).
    draw      `draw_missing` draws the own parts that still have no value.

A parameter has no value if its first number is NaN. The mark is in the memory itself, so a value
that the `__init__` of a user's class gives an own part replaces it, and a copy has it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"

# functions whose tensors have torch's default type: always, or if their numbers have a point
_FLOATING = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.linspace}
_OF_NUMBERS = {torch.tensor, torch.full, torch.arange}

_unfilled: ContextVar[Unfilled | None] = ContextVar("unfilled", default=None)


@contextmanager
def initial_weights(model: Any) -> Iterator[None]:
    """Build own parts of `model` in the `with` block, and draw their weights afterwards.

    While a checkpoint loads they are marked instead, as having no value yet.
    """
    known = {id(part) for part in (*model.modules(), *model.parameters())}
    models = _unfilled.get()
    with nullcontext() if models is None else models.building(model):
        yield
    for module in model.modules():
        if id(module) in known:
            continue
        vars(module)["_is_initialized"] = True  # so that `draw_uninitialized` leaves it alone
        new = [p for p in module._parameters.values() if p is not None and id(p) not in known]
        known.update(map(id, new))
        if models is not None:
            models.mark(new)
        elif new:
            model._init_weights(module)
    # After drawing: transformers draws tied tensors, too, so random numbers after them agree.
    model.tie_weights()


def draw_uninitialized(model: Any) -> None:
    """Draw every module that has not been drawn: those that a user's `__init__` adds."""
    for module in modules_of(model):
        if "_is_initialized" not in vars(module):
            vars(module)["_is_initialized"] = True
            model._init_weights(module)


def modules_of(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules of a model, but not those of models inside, which draw their own."""
    modules: list[nn.Module] = [model]
    for module in modules:  # the loop also visits what it appends
        yield module
        modules.extend(m for m in module.children() if not hasattr(type(m), "_init_weights"))


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
    token = _unfilled.set(built)
    try:
        yield built.models
    finally:
        _unfilled.reset(token)


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


class NewTensors(TorchFunctionMode):
    """Makes new tensors in one type, in the `with` block and in this thread.

    A model is built in its type as in transformers: in another type, the same seed draws other
    numbers. `torch.set_default_dtype` would do it in all threads.

    Args:
        dtype: The type where none is given.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return a new tensor of floating-point numbers in the type, unless one is given."""
        kwargs = kwargs or {}
        if kwargs.get("dtype") is not None:
            return function(*args, **kwargs)
        if function in _FLOATING:
            return function(*args, **{**kwargs, "dtype": self.dtype})
        made = function(*args, **kwargs)
        by_default = function in _OF_NUMBERS and made.dtype == torch.get_default_dtype()
        return made.to(self.dtype) if by_default else made


def declared_ties(model: nn.Module, switched_off: bool = False) -> dict[str, str]:
    """Return the aliases that a model's class declares, each with the name that is saved.

    Models inside have their own. `config.tie_word_embeddings=False` switches all of them off, as in
    transformers.

    Args:
        model: The model.
        switched_off: Return those that are switched off instead.
    """
    ties: dict[str, str] = {}
    for prefix, module in model.named_modules():
        names = getattr(module, "_tied_weights_keys", None)
        if not isinstance(names, Mapping):
            continue
        start = f"{prefix}." if prefix else ""
        if getattr(module.config, "tie_word_embeddings", True) is not switched_off:
            ties.update({start + alias: start + name for alias, name in names.items()})
    return ties


def tie(model: nn.Module, alias: str, name: str) -> None:
    """Make the parameter `alias` of a model the parameter `name`, where it has both."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    if alias in parameters and name in parameters:
        set_parameter(model, alias, parameters[name])


def set_parameter(model: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Make a parameter that of `name` in a model."""
    owner, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(owner), attribute, parameter)
