"""For people who look inside: trace every step, compare with transformers, plot, and run the page.

Nothing in the model knows about this package. Everything here looks at it from outside.
"""

import importlib
from typing import Any

_MODULES = {
    "rollout": "minibert.study.analyses",
    "logit_lens": "minibert.study.analyses",
    "per_head_output": "minibert.study.analyses",
    "attention_patterns": "minibert.study.analyses",
    "head_importance": "minibert.study.analyses",
    "integrated_gradients": "minibert.study.analyses",
    "patching_sweep": "minibert.study.analyses",
    "carriers": "minibert.study.differences",
    "cka": "minibert.study.analyses",
    "linear_probe": "minibert.study.analyses",
    "probe_predictions": "minibert.study.analyses",
    "check": "minibert.learn.check",
    # The page is a subpackage of its own, and these names are offered here as well.
    "show": "minibert.learn.build",
    "run": "minibert.learn.build",
    "rounded": "minibert.learn.live",
}
"""Public names, and the modules that define them."""

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
