"""The folder of an embedder: what `from_pretrained` reads and `save_pretrained` writes.

`sentence_folder` has the format. Here it becomes an embedder with its weights, and the reverse.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from minibert.checkpoints.model_files import replacing_model
from minibert.checkpoints.source import Source
from minibert.checkpoints.tensors import read_tensors, write_tensors
from minibert.encoders.arithmetic.pooling import resolve_layers
from minibert.encoders.arithmetic.pooling_names import check_saved
from minibert.encoders.arithmetic.steps import Dense, Normalize, Truncate, without_truncate
from minibert.encoders.encoder_options import HubOptions, part_of
from minibert.encoders.folders.checkpoint import Checkpoint
from minibert.encoders.folders.model_card import CARD, EMBEDDER_FRONT, with_checksum
from minibert.encoders.folders.sentence_folder import (
    ACTIVATION_CLASSES,
    SentenceFolder,
    class_named,
    value_of,
    write_sentence_folder,
)
from minibert.encoders.onnx.onnx_embedder import load_exported
from minibert.inference.optimize import optimize
from minibert.inference.precisions import resolve_precision
from minibert.model import BertModel
from minibert.util.errors import ArgumentError
from minibert.util.extras import need
from minibert.util.files import read_json, replacing, write_json

_CARD = """pipeline_tag: sentence-similarity
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


def load_embedder(
    embedder_class: Any,
    name: str | os.PathLike[str] | Source | Checkpoint,
    backend: str,
    options: Any,
) -> Any:
    """Loads an embedder, as `SentenceEmbedder.from_pretrained` describes it.

    Args:
        embedder_class: `SentenceEmbedder` or a subclass.
        name: Folder, bundled model or Hub id, or a checkpoint whose files may have been read.
        backend: "torch" or "onnx".
        options: How.

    Returns:
        An `embedder_class`, or an `OnnxEmbedder`.
    """
    if backend == "onnx":
        return load_exported(name, options)
    if backend != "torch":
        raise ArgumentError("backend", f'should be "torch" or "onnx", not {backend!r}.')
    checkpoint = Checkpoint.of(name, mmap=options.mmap, **part_of(options, HubOptions))
    folder = checkpoint.folder(cross_encoder=False)
    if options.pooling is not None:
        one = isinstance(options.pooling, str)
        folder.pooling = [options.pooling] if one else list(options.pooling)
    if options.truncate_dim is not None:
        folder.truncate_dim = options.truncate_dim
    # it has a pooler only where that is used: sentence models come without one
    with_pooler = "pooler" in folder.pooling
    model: Any = checkpoint.bert(
        BertModel, dtype=torch.float32, add_pooling_layer=with_pooler, device=options.device
    )
    depth = model.config.num_hidden_layers
    layers = "last" if options.layers is None else options.layers
    indices, weights = resolve_layers(layers, depth, options.layer_weights)
    if max(indices) < depth and not with_pooler:
        del model.encoder.layer[max(indices) :]
        model.config = model.config.replace(num_hidden_layers=max(indices))
    precision = resolve_precision(options.precision)
    if precision is not None:
        model = optimize(model, precision=precision)
    try:
        embedder = embedder_class(
            model,
            folder.load_tokenizer(),
            pooling=folder.pooling,
            include_prompt=folder.include_prompt,
            layers=indices,
            layer_weights=weights,
            steps=load_steps(folder, options.normalize),
            **folder.settings(options, model.config.max_position_embeddings),
        )
    except ArgumentError as error:
        if error.argument.name != "layers" or (options.pooling, options.layers) != (None, None):
            raise
        raise ValueError(f"{checkpoint}: {error}") from None  # its own files do not fit together
    embedder.precision = precision
    embedder.model_name = str(checkpoint)
    embedder.similarity_fn_name = folder.similarity_fn_name
    return embedder


def load_steps(folder: SentenceFolder, normalize: bool | None) -> list[nn.Module]:
    """The modules that pooled vectors go through.

    Args:
        folder: The folder.
        normalize: Whether vectors are L2-normalized at the end. None: as the folder says.
    """
    modules = list(folder.modules)
    if normalize is not None:
        while modules and modules[-1][0] == "Normalize":  # one before a Dense stays
            modules.pop()
    steps: list[nn.Module] = []
    for kind, source in modules:
        if kind == "Dense":
            steps.append(_read_dense(source))
        else:
            steps.append(Normalize())
    if folder.truncate_dim is not None:
        steps.append(Truncate(folder.truncate_dim))
    if normalize:
        steps.append(Normalize())
    return steps


def _read_dense(source: Source) -> Dense:
    path = source.require("config.json")
    config = read_json(path)
    if config.get("use_residual"):
        raise ValueError(
            f"{path} asks for a Dense with use_residual, which minibert does not have."
        )
    function = value_of(path, config, "activation_function", str, "torch.nn.Tanh")
    activation = class_named(path, "activation", function, "torch", ACTIVATION_CLASSES)
    inputs = value_of(path, config, "in_features", int, 0)
    outputs = value_of(path, config, "out_features", int, 0)
    bias: bool = value_of(path, config, "bias", bool, True)
    tensors = read_tensors(source)
    expected: dict[str, tuple[int, ...]] = {"linear.weight": (outputs, inputs)}
    if bias:
        expected["linear.bias"] = (outputs,)
    received = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if received != expected:
        raise ValueError(f"{path.parent} should hold the tensors {expected}, not {received!s:.80}.")
    with torch.device("meta"):  # the weights come from the file
        dense = Dense(inputs, outputs, bias, activation)
    dense.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return dense


def _write_dense(dense: Dense, folder: Path) -> None:
    """Writes a Dense layer into a folder of its own."""
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


def save_embedder(embedder: Any, target: Path) -> None:
    """Writes a folder that `load_embedder` and sentence-transformers load.

    Args:
        embedder: A `SentenceEmbedder`. What the format cannot express is refused before anything
            is written.
        target: The folder, which is created if it does not exist.
    """
    bert, pooling, steps = _portable(embedder)
    with replacing_model(target, whole=True) as written:
        _write(embedder, bert, pooling, steps, written)


def check_portable(embedder: Any) -> None:
    """Raise ValueError if `save_embedder` would refuse an embedder, as before it is trained."""
    _portable(embedder)


def _write(
    embedder: Any, bert: BertModel, pooling: list[str], steps: list[nn.Module], target: Path
) -> None:
    folder = SentenceFolder(
        Source(target),
        pooling,
        include_prompt=embedder.include_prompt,
        truncate_dim=embedder.truncate_dim,
        max_length=embedder.max_length,
        prompts=embedder.prompts,
        default_prompt_name=embedder.default_prompt_name,
        similarity_fn_name=embedder.similarity_fn_name,
    )
    kinds = [type(step).__name__ for step in steps]
    modules = ["Pooling", *kinds]
    places = write_sentence_folder(folder, target, modules, bert.config.hidden_size)
    for step, place in zip(steps, places, strict=True):
        if isinstance(step, Dense):
            _write_dense(step, place)
    embedder.tokenizer.save_pretrained(target)
    bert.save_pretrained(target)
    card = _CARD.format(
        max_length=embedder.max_length,
        dimension=embedder.dimension,
        similarity=embedder.similarity_fn_name,
        pooling=", ".join(pooling),
    )
    with replacing(target / CARD) as temporary:
        temporary.write_text(with_checksum(EMBEDDER_FRONT + card), encoding="utf-8")


def _portable(embedder: Any) -> tuple[BertModel, list[str], list[nn.Module]]:
    """The BERT, the poolings and the steps of an embedder in terms of the format.

    It has only the vectors of the last layer, and some of the poolings. A truncation at the end is
    a setting there.

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
    if embedder.truncate_dim is not None:
        steps.pop()
    pooling = embedder.pooling
    check_saved(pooling)
    depth = embedder.layers[0]
    if pooling == ["pooler"]:
        with torch.device("meta"):  # the weights are the pooler's
            dense = Dense(1, 1, True, "Tanh")
        dense.linear = embedder.model.pooler.dense
        steps.insert(0, dense)
        pooling = ["cls"]
        depth = config.num_hidden_layers
    with torch.device("meta"):
        bert = BertModel(config.replace(num_hidden_layers=depth), add_pooling_layer=False)
    weights = embedder.model.state_dict()
    bert.load_state_dict({name: weights[name] for name in bert.state_dict()}, assign=True)
    return bert, pooling, without_truncate(steps, embedder.width)


def as_sentence_transformer(embedder: Any) -> Any:
    """A `sentence_transformers.SentenceTransformer` that runs the model of an embedder.

    Args:
        embedder: A `SentenceEmbedder`.
    """
    library = need("sentence_transformers", "parity", "as_sentence_transformer()")
    # a SentenceTransformer is loaded from files, which Windows does not remove while mapped
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "minibert")
        embedder.save_pretrained(path)
        # for the BERT that gives way to the embedder's own
        unused = {"add_pooling_layer": False}
        transformer = library.SentenceTransformer(
            path, device=str(embedder.device), model_kwargs=unused
        )
    is_saved_as_it_is = embedder.layers == [embedder.model.config.num_hidden_layers]
    if is_saved_as_it_is and embedder.pooling != ["pooler"]:
        step = transformer[0]
        attribute, _ = next(step.named_children())  # "auto_model" before version 6
        setattr(step, attribute, embedder.model)
        # what other steps add to the features, such as token_embeddings, is not for a model that
        # refuses what it does not know
        step.model_forward_params = set(inspect.signature(embedder.model.forward).parameters)
    return transformer
