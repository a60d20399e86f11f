"""What a library does not do: files, progress lines, checks, devices, extras."""

import sys
from typing import Any


def __getattr__(name: str) -> Any:
    """Say where a function of `sentence_transformers.util` is, whose name this package has.

    Raises:
        AttributeError: Always.
        ImportError: The same, in `from minibert.util import ...`, where there is advice.
    """
    import minibert

    is_import = sys._getframe(1).f_code.co_name == "_handle_fromlist"
    error = ImportError if is_import else AttributeError
    if name in minibert.__all__:
        raise error(f"minibert.util has no {name}: it is minibert.{name}.")
    try:
        return getattr(minibert, name)
    except AttributeError as reason:
        if str(reason).startswith("module "):  # no advice: Python looks for a module of this name
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        raise error(str(reason).replace("minibert", "minibert.util", 1)) from None
