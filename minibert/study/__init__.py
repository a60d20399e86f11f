"""For people who look inside: trace every step, compare with the reference, draw, and walk through on a page.

Nothing in the model knows about this package; everything here looks at it from outside.
"""

import minibert

__getattr__, __dir__, __all__ = minibert.lazy(
    __name__,
    {
        "analyses": "rollout logit_lens per_head_output attention_patterns head_importance integrated_gradients "
        "patching_sweep cka linear_probe",
        "exercises": "check",
        "page.build": "show run",
        "page.live": "rounded",
    },
)
