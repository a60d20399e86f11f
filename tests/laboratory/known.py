"""All differences from the references that the laboratory knows of, each with its reason."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

import torch
from conftest import tiny_config, with_reference
from programs import Failure, Known, outcome
from tiny_folder import sentence_folder

from minibert import SentenceEmbedder


def boolean_masks_differ() -> bool:
    """Whether transformers still adds a boolean mask of four dimensions under eager attention."""
    importlib.import_module("transformers")
    pair = with_reference("BertModel", tiny_config(attn_implementation="eager"))
    ids, mask = torch.tensor([[1, 7, 2]]), torch.tensor([[[[True, True, False]]]])
    states = [model(ids, attention_mask=mask).last_hidden_state for model in pair]
    return not torch.equal(*states)


def longer_vectors_raise() -> bool:
    """Whether three dimensions of a model that keeps two raise an error only here."""
    library = importlib.import_module("sentence_transformers")
    pooling = ("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean"})
    with tempfile.TemporaryDirectory() as folder:
        settings = {"config_sentence_transformers": {"truncate_dim": 2}}
        sentence_folder(Path(folder), pooling, layers=1, **settings)
        ours = SentenceEmbedder.from_pretrained(folder, precision=None)
        theirs = library.SentenceTransformer(folder, device="cpu", truncate_dim=2)
    found, expected = (
        outcome(lambda m=m: m.encode("hello", truncate_dim=3)) for m in (ours, theirs)
    )
    return isinstance(found, Failure) and not isinstance(expected, Failure)


KNOWN: list[Known] = [
    Known(
        "boolean masks of four dimensions under eager attention",
        "transformers adds them to the scores",
        "docs/parity.md",
        "A boolean mask of four dimensions hides keys under eager attention, too.",
        boolean_masks_differ,
    ),
    Known(
        "more dimensions than the model keeps",
        "in sentence-transformers the call decides, and here the rest of a vector is not computed",
        "docs/migrating.md",
        "A `truncate_dim` of a call above the model's raises an error.",
        longer_vectors_raise,
    ),
]
