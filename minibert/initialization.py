"""Initial weights while a checkpoint is loaded: only what the file lacks is drawn at random.

Drawing the weights of a base-size model takes longer than everything else that loading does. So
minibert's own layers are built without drawing if the checkpoint has a tensor for them. Their
parameters are "open": memory without a value, until loading assigns the tensor of the file. Layers
that a subclass adds in its `__init__` are drawn as usual.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode


class Loading:
    """The checkpoint that is being loaded.

    Args:
        names: Names of its tensors, as a model calls them.

    Attributes:
        open_parameters: Parameters that have no value yet, by `id`.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.open_parameters: dict[int, nn.Parameter] = {}
        # A layer is built before it is part of a model, so its tensors are looked up without the
        # prefix that they have in the file.
        self._suffixes: set[str] = set()
        for name in names:
            parts = name.split(".")
            for start in range(len(parts)):
                self._suffixes.add(".".join(parts[start:]))

    def has(self, name: str) -> bool:
        """Whether the checkpoint has a tensor of this name, with any prefix."""
        return name in self._suffixes

    def leave_open(self, parameter: nn.Parameter) -> None:
        """Remember a parameter that has no value yet."""
        self.open_parameters[id(parameter)] = parameter

    def is_open(self, parameter: nn.Parameter) -> bool:
        """Whether a parameter has no value yet."""
        return id(parameter) in self.open_parameters


_loading: ContextVar[Loading | None] = ContextVar("loading", default=None)


def current_loading() -> Loading | None:
    """Return the checkpoint that this thread is loading, or None."""
    return _loading.get()


@contextmanager
def loading(names: Iterable[str]) -> Iterator[Loading]:
    """Build a model whose values come from the tensors of these names."""
    checkpoint = Loading(names)
    token = _loading.set(checkpoint)
    try:
        yield checkpoint
    finally:
        _loading.reset(token)


class NoDraws(TorchFunctionMode):
    """Skips the functions of `torch.nn.init`, which `nn.Linear` and others call when built."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the tensor as it is instead of drawing its values."""
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]  # torch.nn.init always passes it by keyword
        return function(*args, **(kwargs or {}))
