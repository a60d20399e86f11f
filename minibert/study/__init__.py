"""For people who look inside: trace every step, compare with the reference, draw, and walk through on a page.

Nothing in the model knows about this package; everything here looks at it from outside.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "analyses": "rollout logit_lens per_head_output attention_patterns head_importance integrated_gradients "
    "patching_sweep cka linear_probe",
    "exercises": "check",
    "page.build": "show run",
    "page.live": "rounded",
}


def __getattr__(name: str) -> Any:
    """The analyses and the page by their own names, imported when they are first used."""
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"minibert.study.{module}"), name)
    raise AttributeError(f"module 'minibert.study' has no attribute {name!r}")
