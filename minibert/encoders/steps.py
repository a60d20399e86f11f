"""The modules behind the pooling of an embedder, and their files in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.checkpoints.source import Source
from minibert.checkpoints.tensors import read_tensors, write_tensors
from minibert.checks import check_count
from minibert.encoders.sentence_folder import SentenceFolder, activation_name, value_of
from minibert.files import read_json, write_json


class Dense(nn.Module):
    """A linear layer and an activation on sentence vectors, (batch, in_features)."""

    def __init__(self, in_features: int, out_features: int, bias: bool, activation: str) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation = getattr(nn, activation)()

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, in_features) to (batch, out_features)."""
        activated: Tensor = self.activation(self.linear(vectors))
        return activated


class Normalize(nn.Module):
    """L2-normalizes each vector."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, hidden) to (batch, hidden), each of length 1."""
        return F.normalize(vectors, p=2.0, dim=-1)


class Truncate(nn.Module):
    """Truncates each vector to its first dimensions.

    Models trained for it lose little (Kusupati et al. 2022, Matryoshka representations).
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        check_count("truncate_dim", dimension)
        self.dimension = dimension

    def forward(self, vectors: Tensor) -> Tensor:
        """(batch, hidden) to (batch, dimension)."""
        return vectors[:, : self.dimension]


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


def write_dense(dense: Dense, folder: Path) -> None:
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


def without_truncate(steps: Iterable[nn.Module], width: int) -> list[nn.Module]:
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
