"""Initializes a smaller model from a larger one: projects hidden states, selects heads and units.

The teacher's hidden states x (384) are approximated by x = U z + c, where z (256) are those of the
student. The columns of U are the first eigenvectors of the second moment of all hidden states. They
are rotated so that the component that LayerNorm removes is that of least energy.

The linear layers follow by algebra. The heads and feed-forward units that contribute most are kept,
and the mean contribution of the others goes into the biases. LayerNorm and GELU do not commute with
a projection, so each LayerNorm is fitted to the projected states of the teacher, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from minibert import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel
from minibert.attention import sdpa_attention
from minibert.layouts import PackedLayout
from minibert.training.data import Batch


class States:
    """Outputs of all named modules of a model for a batch, (tokens, size) each, in fp32.

    The first input of a module is stored as "NAME:input".
    """

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        self.tensors: dict[str, Tensor] = {}
        hooks = [
            module.register_forward_hook(self._keep(name)) for name, module in model.named_modules()
        ]
        with torch.no_grad():
            model(
                input_ids=batch["input_ids"],
                token_type_ids=batch["token_type_ids"],
                layout=batch["layout"],
            )
        for hook in hooks:
            hook.remove()

    def _keep(self, name: str) -> Callable[..., None]:
        def keep(_: nn.Module, inputs: tuple[object, ...], output: object) -> None:
            if isinstance(output, Tensor):
                self.tensors[name] = output.float()
            if inputs and isinstance(inputs[0], Tensor):
                self.tensors[f"{name}:input"] = inputs[0].float()

        return keep

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]


def hidden_names(layers: int) -> list[str]:
    """Returns the names of the modules whose outputs are hidden states: all LayerNorms."""
    names = ["embeddings.LayerNorm"]
    for i in range(layers):
        names += [
            f"encoder.layer.{i}.attention.output.LayerNorm",
            f"encoder.layer.{i}.output.LayerNorm",
        ]
    return names


def basis(states: States, layers: int, size: int, seed: int = 0) -> tuple[Tensor, float]:
    """Computes U, (hidden, size), and the share of the second moment that it keeps."""
    moment = sum(states[name].T @ states[name] / len(states[name]) for name in hidden_names(layers))
    assert isinstance(moment, Tensor)
    energies, directions = torch.linalg.eigh(moment.double())
    components = directions.flip(1)[:, :size]
    # LayerNorm removes the constant direction, so this rotation maps it to that of least energy
    generator = torch.Generator().manual_seed(seed)
    random = torch.randn(size, size, generator=generator, dtype=torch.float64)
    random[:, 0] = 1.0
    rotation = torch.linalg.qr(random).Q  # (size, size), with a constant first column
    rotation = rotation.roll(-1, 1)  # moves the constant column to the last direction
    return (components @ rotation.T).float(), float(energies.flip(0)[:size].sum() / energies.sum())


def _fit_layer_norm(norm: nn.LayerNorm, inputs: Tensor, targets: Tensor) -> Tensor:
    """Fits the gain and bias of each dimension by least squares, and returns the outputs."""
    normal = nn.functional.layer_norm(inputs, inputs.shape[-1:], eps=norm.eps)
    mean, target_mean = normal.mean(0), targets.mean(0)
    covariance = ((normal - mean) * (targets - target_mean)).mean(0)
    gain = covariance / normal.var(0, unbiased=False).clamp_min(1e-6)
    with torch.no_grad():
        norm.weight.copy_(gain)
        norm.bias.copy_(target_mean - gain * mean)
    return normal * norm.weight.detach() + norm.bias.detach()


def fit_linear(inputs: Tensor, outputs: Tensor, ridge: float = 1e-3) -> tuple[Tensor, Tensor]:
    """Fits a weight (out, in) and a bias by ridge regression."""
    mean, output_mean = inputs.mean(0), outputs.mean(0)
    x, y = inputs - mean, outputs - output_mean
    moment = x.T @ x / len(x)
    moment = moment + ridge * moment.diagonal().mean() * torch.eye(len(moment))
    weight = torch.linalg.solve(moment, x.T @ y / len(x)).T
    return weight, output_mean - weight @ mean


@torch.no_grad()
def open_gelu(head: nn.Module, states: Tensor) -> None:
    """Makes the transform of an MLM head almost the identity on states (tokens, hidden).

    A bias shifts all values above zero, where GELU is almost linear. The LayerNorm after it removes
    the bias.
    """
    size = states.shape[1]
    head.dense.weight.copy_(torch.eye(size))
    head.dense.bias.copy_(2.5 * states.std() - states.mean(0))
    head.LayerNorm.weight.fill_(1.0)
    head.LayerNorm.bias.zero_()


@torch.no_grad()
def project(
    teacher: BertForMaskedLM, config: BertConfig, batch: Batch
) -> tuple[BertForPreTraining, Tensor, float]:
    """Initializes a student of another size from a teacher.

    Args:
        teacher: A model with an MLM head.
        config: Configuration of the student, with the number of layers and the head size of the
            teacher.
        batch: Packed batch of a few thousand tokens, on which the student is fitted.

    Returns:
        The student, the basis U (teacher's hidden, student's hidden), and the share of energy that
        it keeps.
    """
    teacher.eval()
    states = States(teacher, batch)
    base = States(teacher.bert, batch)
    layers = config.num_hidden_layers
    directions, share = basis(base, layers, config.hidden_size)
    mean = torch.stack([base[name].mean(0) for name in hidden_names(layers)]).mean(0)
    rest = mean - directions @ (directions.T @ mean)  # c: the mean outside the projection
    student = BertForPreTraining(config)
    ours, theirs = student.bert, teacher.bert
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        target = getattr(ours.embeddings, name)
        rows = getattr(theirs.embeddings, name).weight[: target.num_embeddings]
        target.weight.copy_(rows @ directions)
    summed = base["embeddings.LayerNorm:input"] @ directions
    state = _fit_layer_norm(
        ours.embeddings.LayerNorm, summed, base["embeddings.LayerNorm"] @ directions
    )
    for number in range(layers):
        state = _project_layer(ours, theirs, number, directions, rest, state, base, batch["layout"])
    # MLM head: LayerNorm is fitted to the teacher's projected transform, with GELU almost linear
    head = student.cls.predictions.transform
    targets = states["cls.predictions.transform"] @ directions
    weight, bias = fit_linear(state, targets)
    fitted = state @ weight.T + bias
    head.dense.weight.copy_(weight)
    head.dense.bias.copy_(bias - fitted.mean(0) + 2.5 * fitted.std())
    _fit_layer_norm(head.LayerNorm, nn.functional.gelu(head.dense(state)), targets)
    student.cls.predictions.bias.copy_(teacher.cls.predictions.bias)
    return student, directions, share


def _project_layer(
    ours: BertModel,
    theirs: BertModel,
    number: int,
    directions: Tensor,
    rest: Tensor,
    state: Tensor,
    base: States,
    layout: PackedLayout,
) -> Tensor:
    """Initializes a layer of the student, and returns its output for `state`, its input."""
    name = f"encoder.layer.{number}"
    small, large = ours.encoder.layer[number], theirs.encoder.layer[number]
    size = theirs.config.hidden_size // theirs.config.num_attention_heads

    context = base[f"{name}.attention.output.dense:input"]  # (tokens, hidden), heads side by side
    weight = large.attention.output.dense.weight
    energies = []
    for start in range(0, len(weight), size):
        head = slice(start, start + size)
        energies.append((context[:, head] @ weight[:, head].T).square().sum())
    largest = torch.stack(energies).topk(ours.config.num_attention_heads)
    heads = largest.indices.sort().values
    rows = (heads[:, None] * size + torch.arange(size)).flatten()
    for part in ("query", "key", "value"):
        source, target = getattr(large.attention.self, part), getattr(small.attention.self, part)
        target.weight.copy_(source.weight[rows] @ directions)
        target.bias.copy_(source.bias[rows] + source.weight[rows] @ rest)
    dropped = torch.ones(len(weight), dtype=torch.bool)
    dropped[rows] = False
    small.attention.output.dense.weight.copy_(directions.T @ weight[:, rows])
    dropped_mean = weight[:, dropped] @ context[:, dropped].mean(0)
    small.attention.output.dense.bias.copy_(
        directions.T @ (large.attention.output.dense.bias + dropped_mean)
    )

    attended, _ = small.attention.self(state, layout, attend=sdpa_attention)
    targets = base[f"{name}.attention.output.LayerNorm"] @ directions
    state = _fit_layer_norm(
        small.attention.output.LayerNorm, small.attention.output.dense(attended) + state, targets
    )

    active = base[f"{name}.output.dense:input"]  # (tokens, intermediate)
    weight = large.output.dense.weight
    contribution = active.square().mean(0).sqrt() * weight.norm(dim=0)
    units = contribution.topk(ours.config.intermediate_size).indices
    widen = large.intermediate.dense
    small.intermediate.dense.weight.copy_(widen.weight[units] @ directions)
    small.intermediate.dense.bias.copy_(widen.bias[units] + widen.weight[units] @ rest)
    dropped = torch.ones(weight.shape[1], dtype=torch.bool)
    dropped[units] = False
    small.output.dense.weight.copy_(directions.T @ weight[:, units])
    dropped_mean = weight[:, dropped] @ active[:, dropped].mean(0)
    small.output.dense.bias.copy_(directions.T @ (large.output.dense.bias + dropped_mean))

    summed = small.output.dense(small.intermediate(state)) + state
    return _fit_layer_norm(
        small.output.LayerNorm, summed, base[f"{name}.output.LayerNorm"] @ directions
    )
