"""How a new model gets its weights: drawn part by part, as it is built, and tied.

`PreTrainedModel._init_weights` says how each is drawn. Parts of minibert are drawn at the end of
`with initial_weights(self):`, and those that a subclass adds by `self.post_init()`. While a
checkpoint loads, no part of minibert is drawn here: checkpoints/drawing.py builds parts without
values, and draws later what the file lacks.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from torch import nn

WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"

unfilled: ContextVar[Any] = ContextVar("unfilled", default=None)
"""The models that get a checkpoint's values: a `checkpoints.drawing.Unfilled` while one loads."""


@contextmanager
def initial_weights(model: Any) -> Iterator[None]:
    """Build own parts of `model` in the `with` block, and draw their weights afterwards.

    While a checkpoint loads they are marked instead, as having no value yet.
    """
    known = {id(part) for part in (*model.modules(), *model.parameters())}
    models = unfilled.get()
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
