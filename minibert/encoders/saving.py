"""Writing a sentence-transformers folder. `folder` describes the format, and reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from minibert.checkpoints.tensors import write_tensors
from minibert.encoders.pooling import Dense, Truncate
from minibert.encoders.sentence_folder import MODULES, POOLING_FLAGS, POOLINGS
from minibert.files import replacing, write_json
from minibert.model import BertModel
from minibert.tokenization.tokenizer import BertTokenizer

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

Turns texts of up to {max_length} tokens into vectors of {dimension} dimensions ({similarity}).
Pooling: {pooling}.

```python
from minibert import SentenceEmbedder  # or: from sentence_transformers import SentenceTransformer

embedder = SentenceEmbedder.from_pretrained("path/of/this/folder")  # or: SentenceTransformer(...)
vectors = embedder.encode(["I love Korea", "Paris"])
```
"""


class TorchEmbedder(Protocol):
    """The parts of a `SentenceEmbedder` that are saved."""

    model: BertModel
    tokenizer: BertTokenizer
    pooling: list[str]
    layers: list[int]
    layer_weights: list[float] | None
    steps: nn.Sequential
    width: int
    dimension: int
    prompts: dict[str, str]
    default_prompt_name: str | None
    include_prompt: bool

    @property
    def max_length(self) -> int:
        """Tokens of the longest row."""

    @property
    def truncate_dim(self) -> int | None:
        """Dimensions that the last step keeps."""

    @property
    def similarity_fn_name(self) -> str:
        """How vectors are compared."""


def save_sentence_folder(embedder: TorchEmbedder, path: Path) -> None:
    """Writes everything that a `SentenceEmbedder` consists of. See its `save_pretrained`.

    Args:
        embedder: What is saved.
        path: The folder, which is created.
    """
    bert, pooling, steps = _portable(embedder)
    if embedder.truncate_dim is not None:
        steps = steps[:-1]  # in the format a truncation at the end is a setting
    steps = _without_truncate(steps, embedder.width)
    module_folders = ["", "1_Pooling"]
    kinds = ["Transformer", "Pooling"]
    for index, step in enumerate(steps, start=2):
        kind = type(step).__name__
        kinds.append(kind)
        module_folders.append(f"{index}_{kind}")
    modules = []
    for index, kind in enumerate(kinds):
        module = {"idx": index, "name": str(index), "path": module_folders[index]}
        modules.append({**module, "type": f"{MODULES}.{kind}"})
        (path / module_folders[index]).mkdir(parents=True, exist_ok=True)
    # This file first: without it, an interrupted save would be loaded as a plain BERT. With it, the
    # folder is refused
    write_json(path / "modules.json", modules)
    limits = {"max_seq_length": embedder.max_length, "do_lower_case": False}
    write_json(path / "sentence_bert_config.json", limits)
    settings = {
        "prompts": embedder.prompts,
        "default_prompt_name": embedder.default_prompt_name,
        "similarity_fn_name": embedder.similarity_fn_name,
        "truncate_dim": embedder.truncate_dim,
    }
    write_json(path / "config_sentence_transformers.json", settings)
    pooling_config = _pooling_config(pooling, bert.config.hidden_size)
    pooling_config["include_prompt"] = embedder.include_prompt
    write_json(path / "1_Pooling" / "config.json", pooling_config)
    for index, step in enumerate(steps, start=2):
        if isinstance(step, Dense):
            _write_dense(step, path / module_folders[index])
    embedder.tokenizer.save_pretrained(path)
    bert.save_pretrained(path)
    card = _CARD.format(
        max_length=embedder.max_length,
        dimension=embedder.dimension,
        similarity=embedder.similarity_fn_name,
        pooling=", ".join(pooling),
    )
    with replacing(path / "README.md") as temporary:
        temporary.write_text(card, encoding="utf-8")


def _portable(embedder: TorchEmbedder) -> tuple[BertModel, list[str], list[nn.Module]]:
    """The BERT, the poolings and the steps in terms of the format.

    It has only the vectors of the last layer, and no pooler.

    Raises:
        ValueError: The format cannot express them.
    """
    if len(embedder.layers) > 1 or embedder.layer_weights not in (None, [1.0]):
        raise ValueError(
            "a sentence-transformers folder has the vectors of one layer, but this embedder "
            f"combines {embedder.layers}."
        )
    config = embedder.model.config
    steps = list(embedder.steps)
    pooling = embedder.pooling
    depth = embedder.layers[0]
    if pooling == ["pooler"]:
        pooler: Any = embedder.model.pooler
        with torch.device("meta"):  # the weights are the pooler's
            dense = Dense(1, 1, True, "Tanh")
        dense.linear = pooler.dense
        steps.insert(0, dense)
        pooling = ["cls"]
        depth = config.num_hidden_layers
    elif "pooler" in pooling:
        raise ValueError(
            "a sentence-transformers folder has no pooler beside other poolings, but this embedder "
            f"has {pooling}."
        )
    with torch.device("meta"):
        bert = BertModel(config.replace(num_hidden_layers=depth), add_pooling_layer=False)
    weights = embedder.model.state_dict()
    bert.load_state_dict({name: weights[name] for name in bert.state_dict()}, assign=True)
    return bert, pooling, steps


def _without_truncate(steps: list[nn.Module], width: int) -> list[nn.Module]:
    """The steps with each truncation, which the format allows only at the end, as a `Dense`."""
    replaced: list[nn.Module] = []
    for step in steps:
        if isinstance(step, Truncate):
            dimension = min(width, step.dimension)
            dense = Dense(width, dimension, False, "Identity").requires_grad_(False)
            dense.linear.weight.copy_(torch.eye(dimension, width))
            step = dense
        if isinstance(step, Dense):
            width = step.linear.out_features
        replaced.append(step)
    return replaced


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
