"""For people who look inside: trace every step, compare with the reference, draw, and walk through on a page.

Nothing in the model knows about this package; everything here looks at it from outside.
"""

import importlib
from typing import Any

import minibert

_find, _list, __all__ = minibert.lazy(
    __name__,
    {
        "analyses": "rollout logit_lens per_head_output attention_patterns head_importance integrated_gradients "
        "patching_sweep cka linear_probe",
        "exercises": "check",
    },
)
# The page is a package of its own, and these names are offered here as well.
_PAGE = {
    "show": "minibert.page.build",
    "run": "minibert.page.build",
    "rounded": "minibert.page.live",
}
__all__ += _PAGE


def __getattr__(name: str) -> Any:
    if name in _PAGE:
        return getattr(importlib.import_module(_PAGE[name]), name)
    return _find(name)


def __dir__() -> list[str]:
    return sorted([*_list(), *_PAGE])
