"""All differences from the references that the laboratory knows of, each with its reason."""

from __future__ import annotations

import functools
import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from conftest import tiny_config, with_reference
from programs import Failure, Known, outcome
from tiny_folder import sentence_folder

import minibert
from minibert import SentenceEmbedder
from minibert.tokenization.added import AddedToken

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def boolean_masks_differ() -> bool:
    """Whether transformers still adds a boolean mask of four dimensions under eager attention."""
    importlib.import_module("transformers")
    pair = with_reference("BertModel", tiny_config(attn_implementation="eager"))
    ids, mask = torch.tensor([[1, 7, 2]]), torch.tensor([[[[True, True, False]]]])
    states = [model(ids, attention_mask=mask).last_hidden_state for model in pair]
    return not torch.equal(*states)


@functools.cache
def embedders() -> tuple[SentenceEmbedder, Any]:
    """A model of both libraries that keeps two dimensions, and has a prompt for passages."""
    library = importlib.import_module("sentence_transformers")
    pooling = ("Pooling", {"embedding_dimension": 32, "pooling_mode": "mean"})
    with tempfile.TemporaryDirectory() as folder:
        settings = {"truncate_dim": 2, "prompts": {"passage": "how tall "}}
        sentence_folder(Path(folder), pooling, layers=1, config_sentence_transformers=settings)
        ours = SentenceEmbedder.from_pretrained(folder, precision=None)
        theirs = library.SentenceTransformer(folder, device="cpu", truncate_dim=2)
    return ours, theirs


def raises_only_here(**options: Any) -> bool:
    """Whether a call of `encode` raises an error only here."""
    found, expected = (outcome(lambda m=m: m.encode("hello", **options)) for m in embedders())
    return isinstance(found, Failure) and not isinstance(expected, Failure)


def passages_have_no_prompt() -> bool:
    """Whether sentence-transformers encodes a document without the prompt for passages."""
    ours, theirs = (model.encode_document("hello") for model in embedders())
    plain = embedders()[0].encode("hello")
    return not np.allclose(ours, plain) and np.allclose(theirs, plain, atol=1e-6)


def rows_keep_a_former_token() -> bool:
    """Whether a new [SEP] is in the rows of transformers only after saving and loading."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a", "b"])}
    rows = []
    for library in (minibert, importlib.import_module("transformers")):
        tokenizer = library.BertTokenizer(vocab=vocabulary)
        tokenizer.sep_token = "b"
        rows.append(tokenizer("a")["input_ids"])
    return rows == [[2, 5, 6], [2, 5, 3]]


def lower_case_is_kept() -> bool:
    """Whether transformers decodes a special token that it has in lower case."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a"])}
    transformers = importlib.import_module("transformers")
    texts = []
    for library, added in ((minibert, AddedToken), (transformers, transformers.AddedToken)):
        tokenizer = library.BertTokenizer(vocab=vocabulary)
        tokenizer.add_tokens(added("[MASK]", normalized=True), special_tokens=True)
        texts.append(tokenizer.decode([4, 5], skip_special_tokens=True))
    return texts == ["a", "[mask] a"]


def added_again_is_left_out() -> bool:
    """Whether transformers leaves out a special token that has become an ordinary one."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a"])}
    texts = []
    for library in (minibert, importlib.import_module("transformers")):
        tokenizer = library.BertTokenizer(vocab=vocabulary)
        tokenizer.add_tokens("<new>", special_tokens=True)
        tokenizer.add_tokens("<new>")
        texts.append(tokenizer.decode([5, 6], skip_special_tokens=True))
    return texts == ["a <new>", "a"]


def former_mask_is_ordinary() -> bool:
    """Whether transformers saves a former [MASK] as an ordinary token, and minibert does not."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, "a", "b"])}
    texts = []
    for library in (minibert, importlib.import_module("transformers")):
        tokenizer = library.BertTokenizer(vocab=vocabulary, do_lower_case=False)
        tokenizer.add_tokens("[MASK]")
        tokenizer.mask_token = "b"
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            tokenizer = library.BertTokenizer.from_pretrained(folder)
        texts.append(tokenizer.decode([4, 5], skip_special_tokens=True))
    return texts == ["a", "[MASK] a"]


def tied_tensors_are_named_twice() -> bool:
    """Whether transformers names a tied tensor that a folder lacks twice."""
    missing = []
    with tempfile.TemporaryDirectory() as folder:
        minibert.BertModel(tiny_config()).save_pretrained(folder)
        for library in (minibert, importlib.import_module("transformers")):
            load = library.BertForMaskedLM.from_pretrained
            missing.append(set(load(folder, output_loading_info=True)[1]["missing_keys"]))
    return missing[1] - missing[0] == {"cls.predictions.decoder.bias"}


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
        "A `truncate_dim` of a call above the model's raises an error",
        lambda: raises_only_here(truncate_dim=3),
    ),
    Known(
        "all features of a model",
        "a dict of the tensors of sentence-transformers has no place here",
        "docs/migrating.md",
        "so does `output_value=None`.",
        lambda: raises_only_here(output_value=None),
    ),
    Known(
        "a document of a model with a prompt for passages",
        "the guide of sentence-transformers says so, but there every model has an empty document",
        "docs/migrating.md",
        "`encode_document` the prompt `passage` or `corpus`, then the default one.",
        passages_have_no_prompt,
    ),
    Known(
        "another [CLS] or [SEP]",
        "transformers makes its template when it loads",
        "docs/parity.md",
        "rows keep the former one until the tokenizer is saved and loaded | rows have the new one",
        rows_keep_a_former_token,
    ),
    Known(
        "a special token that is normalized",
        "transformers looks for its former name among the special tokens",
        "docs/parity.md",
        "`decode(skip_special_tokens=True)` keeps it in lower case | leaves it out",
        lower_case_is_kept,
    ),
    Known(
        "a special token that becomes an ordinary one",
        "tokenizers never takes a token from its set of special tokens",
        "docs/parity.md",
        "leaves it out until the tokenizer is saved and loaded | keeps it",
        added_again_is_left_out,
    ),
    Known(
        "a former [MASK] that became an ordinary token",
        "transformers keeps what a token was added as, also while it has a role",
        "docs/parity.md",
        "`[MASK]` is an ordinary token once the tokenizer is saved and loaded",
        former_mask_is_ordinary,
    ),
    Known(
        "a tied tensor that a folder lacks",
        "transformers looks for each name, and a file has each tensor once",
        "docs/parity.md",
        "transformers also names `cls.predictions.decoder.bias`.",
        tied_tensors_are_named_twice,
    ),
]
