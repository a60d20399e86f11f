"""Initial weights while a checkpoint is loaded: what the file has is not drawn first.

Drawing the weights of a base-size model takes longer than everything else that loading does. So the
parts of minibert's own classes are built without drawing, if the checkpoint has a tensor for them.
Everything that a subclass builds in its `__init__` is built as it is written.
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
        names: names of its tensors, as a model calls them.

    Attributes:
        open_parameters: parameters whose values are not drawn, by `id`. They are any values that
            were in memory.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.open_parameters: dict[int, nn.Parameter] = {}
        self._suffixes: set[str] = set()
        for name in names:
            parts = name.split(".")
            for start in range(len(parts)):
                self._suffixes.add(".".join(parts[start:]))

    def has(self, name: str) -> bool:
        """Whether the checkpoint has a tensor of this name, below some module or other."""
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
    """Leaves out `torch.nn.init`, whose functions torch's modules call in their constructors."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the tensor as it is instead of drawing its values."""
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        return function(*args, **(kwargs or {}))
