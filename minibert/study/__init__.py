"""For people who look inside: trace every step, compare with the reference, draw, and walk through on a page.

Nothing in the model knows about this package; everything here looks at it from outside.
"""

from __future__ import annotations

import importlib
from typing import Any

from minibert.checkpoint import read_tensors
from minibert.config import BertConfig
from minibert.files import Source

_CLASSIFIERS = ("BertForSequenceClassification", "BertForTokenClassification", "BertForMultipleChoice")


def head_class(source: Source, config: BertConfig) -> str:
    """The name of the class that has a place for every tensor of a checkpoint, such as `BertForPreTraining`."""
    parts = {".".join(name.split(".")[:2]) for name in read_tensors(source)}
    roots = {part.split(".")[0] for part in parts}
    if {"cls.predictions", "cls.seq_relationship"} <= parts:
        return "BertForPreTraining"
    if "cls.predictions" in parts:
        return "BertForMaskedLM"
    if "cls.seq_relationship" in parts:
        return "BertForNextSentencePrediction"
    if "qa_outputs" in roots:
        return "BertForQuestionAnswering"
    if "classifier" in roots:  # which of them, only the config can tell
        named = config.extra.get("architectures")
        return next((name for name in _CLASSIFIERS if isinstance(named, list) and name in named), _CLASSIFIERS[0])
    return "BertModel"


def has_pooler(source: Source) -> bool:
    """Whether a checkpoint brings a pooler; without one a model would draw it at random."""
    return any(name.endswith("pooler.dense.weight") for name in read_tensors(source))


_HOMES = {
    "analyses": "rollout logit_lens per_head_output attention_patterns head_importance integrated_gradients "
    "patching_sweep cka linear_probe",
}


def __getattr__(name: str) -> Any:
    """The analyses by their own names, imported when they are first used."""
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"minibert.study.{module}"), name)
    raise AttributeError(f"module 'minibert.study' has no attribute {name!r}")
