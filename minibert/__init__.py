"""minibert: a from-scratch, pure-PyTorch BERT, equal to the reference bit for bit.

The public names are listed in `__init__.pyi`, each once, where type checkers find them. A name is imported when it is
first used, so that `import minibert` costs next to nothing.
"""

import importlib
import re
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


_PUBLIC: dict[str, str] = {}  # name -> module that defines it
for _group in Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").split("\n# ")[2:]:
    _found = re.findall(r"^from (\S+) import (?:\(([^)]*)\)|(.*))", _group, re.MULTILINE)
    _names = {name: module for module, *lines in _found for name in re.findall(r"(\w+) as", "".join(lines))}
    _PUBLIC |= _names
    __doc__ += f"\n{_group.splitlines()[0]}:\n    {', '.join(_names)}\n"
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'minibert' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    except (ImportError, AttributeError) as error:  # perhaps another package's file lies in the place of ours
        from minibert.extras import other_package

        if advice := other_package():
            raise ImportError(f"minibert.{name} cannot be imported ({error}).{advice}") from error
        raise
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
