"""From a sentence-transformers folder to the BERT and the steps of a `SentenceEmbedder`."""

from collections.abc import Sequence

import torch
from torch import nn

from minibert.checkpoints.source import Source
from minibert.checkpoints.tensors import read_tensors
from minibert.encoders.pooling import (
    Dense,
    Layers,
    Normalize,
    Truncate,
    activation_name,
    resolve_layers,
)
from minibert.encoders.sentence_folder import SentenceFolder, value_of
from minibert.files import read_json
from minibert.inference.optimize import FastPrecision, optimize
from minibert.model import BertModel


def load_bert(
    folder: SentenceFolder,
    layers: Layers,
    layer_weights: Sequence[float] | None,
    *,
    precision: FastPrecision | None,
    device: torch.device | str | None,
    mmap: bool,
) -> tuple[BertModel, list[int], list[float] | None]:
    """The BERT of a folder as far as the chosen layers reach, the layers' indices and weights.

    It has a pooler only where that is used: sentence models come without one.
    """
    with_pooler = "pooler" in folder.pooling
    model = BertModel.from_pretrained(
        folder.transformer,
        dtype=torch.float32,
        add_pooling_layer=with_pooler,
        device=device,
        mmap=mmap,
    )
    depth = model.config.num_hidden_layers
    indices, weights = resolve_layers(layers, depth, layer_weights)
    highest = max(indices)
    if highest < depth and not with_pooler:
        del model.encoder.layer[highest:]
        model.config = model.config.replace(num_hidden_layers=highest)
    if precision is not None:
        model = optimize(model, precision=precision)
    return model, indices, weights


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
    activation = activation_name(path, function)
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
