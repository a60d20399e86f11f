"""All differences from the references that the laboratory knows of, each with its reason."""

from __future__ import annotations

import importlib

import torch
from conftest import tiny_config, with_reference
from programs import Known


def boolean_masks_differ() -> bool:
    """Whether transformers still adds a boolean mask of four dimensions under eager attention."""
    importlib.import_module("transformers")
    pair = with_reference("BertModel", tiny_config(attn_implementation="eager"))
    ids, mask = torch.tensor([[1, 7, 2]]), torch.tensor([[[[True, True, False]]]])
    states = [model(ids, attention_mask=mask).last_hidden_state for model in pair]
    return not torch.equal(*states)


KNOWN: list[Known] = [
    Known(
        "boolean masks of four dimensions under eager attention",
        "transformers adds them to the scores",
        "docs/parity.md",
        "A boolean mask of four dimensions hides keys under eager attention, too.",
        boolean_masks_differ,
    )
]
