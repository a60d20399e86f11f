"""Counting as a class of LangChain, which checks the type where it takes an embedder, without importing LangChain.

Its base classes are abstract, so that other classes can be registered with them; but only once they are there.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def count_as(module: str, name: str, ours: type) -> None:
    """Registers a class with the abstract class `name` of a module: now if that is loaded, else when it is."""
    if module in sys.modules:
        getattr(sys.modules[module], name).register(ours)
    else:
        sys.meta_path.insert(0, _Waiting(module, name, ours))


class _Waiting(MetaPathFinder):
    """Leaves finding the module to the other finders, and registers as soon as it has run."""

    def __init__(self, module: str, name: str, ours: type) -> None:
        self.module, self.name, self.ours = module, name, ours

    def find_spec(self, fullname: str, *_: Any, **__: Any) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                run(module)
                getattr(module, self.name).register(self.ours)

            loader.exec_module = run_and_register
        return spec
