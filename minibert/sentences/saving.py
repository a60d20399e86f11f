"""Writing a sentence-transformers folder; `folder` describes the format, and reads it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from minibert.checkpoints.tensors import write_tensors
from minibert.files import replacing, write_json
from minibert.model import BertModel
from minibert.sentences.embedder import SentenceEmbedder
from minibert.sentences.folder import MODULES, POOLING_FLAGS, POOLINGS
from minibert.sentences.pooling import Dense, Truncate

_CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- sentence-similarity
- feature-extraction
- minibert
---

# A sentence embedder

Turns texts of up to {max_length} tokens into vectors of {dimension} numbers ({similarity}); pooling: {pooling}.

```python
from minibert import SentenceEmbedder  # or: from sentence_transformers import SentenceTransformer

embedder = SentenceEmbedder.from_pretrained("path/of/this/folder")  # or: SentenceTransformer(...)
vectors = embedder.encode(["I love Korea", "Paris"])
```
"""


def save_sentence_folder(embedder: SentenceEmbedder, path: Path) -> None:
    """Writes everything that a `SentenceEmbedder` is made of; see its `save_pretrained`.

    Args:
        embedder: what is saved.
        path: the folder, which is made.
    """
    bert, pooling, steps = _portable(embedder)
    # the format has a truncation at the end apart from the modules
    steps = list(
        _without_truncate(steps if embedder.truncate_dim is None else steps[:-1], embedder.width)
    )
    kinds = ["Transformer", "Pooling", *(type(step).__name__ for step in steps)]
    folders = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds) if number)]
    modules = [
        {"idx": number, "name": str(number), "path": folder, "type": f"{MODULES}.{kind}"}
        for number, (kind, folder) in enumerate(zip(kinds, folders, strict=True))
    ]
    for folder in folders:
        (path / folder).mkdir(parents=True, exist_ok=True)
    # this first: without it, what a kill leaves behind would be loaded as a plain BERT; with it, it is refused
    write_json(path / "modules.json", modules)
    write_json(
        path / "sentence_bert_config.json",
        {"max_seq_length": embedder.max_length, "do_lower_case": False},
    )
    named = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
    write_json(
        path / "config_sentence_transformers.json",
        {name: getattr(embedder, name) for name in named},
    )
    pooled = {
        **_pooling_config(pooling, bert.config.hidden_size),
        "include_prompt": embedder.include_prompt,
    }
    write_json(path / folders[1] / "config.json", pooled)
    for folder, step in zip(folders[2:], steps, strict=True):
        if isinstance(step, Dense):
            _write_dense(step, path / folder)
    embedder.tokenizer.save_pretrained(path)
    bert.save_pretrained(path)
    with replacing(path / "README.md") as temporary:
        sizes = {"max_length": embedder.max_length, "dimension": embedder.dimension}
        names = {"similarity": embedder.similarity_fn_name, "pooling": ", ".join(pooling)}
        temporary.write_text(_CARD.format(**sizes, **names), encoding="utf-8")


def _portable(model: SentenceEmbedder) -> tuple[BertModel, list[str], list[nn.Module]]:
    """The BERT, the poolings and the steps in terms of the format, which has the last layer only and no pooler.

    Raises:
        ValueError: the format has no place for them.
    """
    steps, pooling, depth, weights = (
        list(model.steps),
        model.pooling,
        model.layers[0],
        model.model.state_dict(),
    )
    if len(model.layers) > 1 or model.layer_weights not in (None, [1.0]):
        raise ValueError(
            f"a sentence-transformers folder has the vectors of one layer; this embedder combines {model.layers}."
        )
    if pooling == ["pooler"]:
        pooler: Any = model.model.pooler
        with torch.device("meta"):  # the numbers are the pooler's
            dense = Dense(1, 1, True, "Tanh")
        dense.linear = pooler.dense
        steps, pooling, depth = [dense, *steps], ["cls"], model.model.config.num_hidden_layers
    elif "pooler" in pooling:
        raise ValueError(
            f"a sentence-transformers folder has no pooler beside other poolings; this one: {pooling}."
        )
    with torch.device("meta"):
        bert = BertModel(
            model.model.config.replace(num_hidden_layers=depth), add_pooling_layer=False
        )
    bert.load_state_dict({name: weights[name] for name in bert.state_dict()}, assign=True)
    return bert, pooling, steps


def _without_truncate(steps: Iterable[nn.Module], width: int) -> Iterable[nn.Module]:
    """The steps, with each truncation, which the format allows only at the end, as a matrix product."""
    for step in steps:
        if isinstance(step, Truncate):
            kept = min(width, step.dimension)
            identity = Dense(width, kept, False, "Identity").requires_grad_(False)
            identity.linear.weight.copy_(torch.eye(kept, width))
            step = identity
        width = step.linear.out_features if isinstance(step, Dense) else width
        yield step


def _pooling_config(pooling: Sequence[str], hidden: int) -> dict[str, Any]:
    flags = {flag: POOLINGS.get(mode) in pooling for flag, mode in POOLING_FLAGS.items()}
    in_order = [POOLINGS[mode] for flag, mode in POOLING_FLAGS.items() if flags[flag]]
    if in_order == list(pooling):  # every version reads this
        return {"word_embedding_dimension": hidden, **flags}
    modes = {ours: theirs for theirs, ours in POOLINGS.items()}
    return {"embedding_dimension": hidden, "pooling_mode": [modes[name] for name in pooling]}


def _write_dense(dense: Dense, folder: Path) -> None:
    linear, activation = dense.linear, type(dense.activation)
    config = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }
    write_json(folder / "config.json", config)
    tensors = {name: tensor.detach().contiguous() for name, tensor in dense.state_dict().items()}
    write_tensors(folder / "model.safetensors", tensors)
