"""A smaller model out of a larger one: projection of the hidden states, selection of heads and units.

The student's hidden states z (256) stand for the teacher's x (384) by x = U z + c. U are the first eigenvectors of the
second moment of all hidden states, turned so that the direction of least energy is the one that LayerNorm takes away.
Linear layers follow by algebra; heads and feed-forward units are those that contribute most; what the selection
leaves out on average goes into the biases. LayerNorms and GELU do not commute with a projection: each LayerNorm is
fitted, layer after layer, to the projected states of the teacher.
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
    """What comes out of every named module of a model when it reads a batch, in fp32: (tokens, size) each."""

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        self.found: dict[str, Tensor] = {}
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
                self.found[name] = output.float()
            if inputs and isinstance(inputs[0], Tensor):
                self.found[f"{name}:input"] = inputs[0].float()

        return keep

    def __getitem__(self, name: str) -> Tensor:
        return self.found[name]


def hidden_names(layers: int) -> list[str]:
    """The modules whose outputs are hidden states: every LayerNorm on the way up."""
    names = ["embeddings.LayerNorm"]
    for i in range(layers):
        names += [
            f"encoder.layer.{i}.attention.output.LayerNorm",
            f"encoder.layer.{i}.output.LayerNorm",
        ]
    return names


def basis(states: States, layers: int, size: int, seed: int = 0) -> tuple[Tensor, float]:
    """Orthonormal columns (hidden, size), and the share of the second moment that they keep."""
    moment = sum(states[name].T @ states[name] / len(states[name]) for name in hidden_names(layers))
    assert isinstance(moment, Tensor)
    energies, directions = torch.linalg.eigh(moment.double())
    kept = directions.flip(1)[:, :size]
    # a rotation whose constant direction, which LayerNorm takes away, is that of least energy
    generator = torch.Generator().manual_seed(seed)
    random = torch.randn(size, size, generator=generator, dtype=torch.float64)
    random[:, 0] = 1.0
    rotation = torch.linalg.qr(random).Q  # (size, size), its first column constant
    rotation = rotation.roll(-1, 1)  # the constant column belongs to the last direction
    return (kept @ rotation.T).float(), float(energies.flip(0)[:size].sum() / energies.sum())


def _fit_layer_norm(norm: nn.LayerNorm, summed: Tensor, wanted: Tensor) -> Tensor:
    """Gain and bias of each number by least squares; returns what comes out."""
    normal = nn.functional.layer_norm(summed, summed.shape[-1:], eps=norm.eps)
    mean, aim = normal.mean(0), wanted.mean(0)
    gain = ((normal - mean) * (wanted - aim)).mean(0) / normal.var(0, unbiased=False).clamp_min(
        1e-6
    )
    with torch.no_grad():
        norm.weight.copy_(gain)
        norm.bias.copy_(aim - gain * mean)
    return normal * norm.weight.detach() + norm.bias.detach()


def fit_linear(inputs: Tensor, outputs: Tensor, ridge: float = 1e-3) -> tuple[Tensor, Tensor]:
    """Weight (out, in) and bias by least squares."""
    mean, aim = inputs.mean(0), outputs.mean(0)
    x, y = inputs - mean, outputs - aim
    moment = x.T @ x / len(x)
    moment = moment + ridge * moment.diagonal().mean() * torch.eye(len(moment))
    weight = torch.linalg.solve(moment, x.T @ y / len(x)).T
    return weight, aim - weight @ mean


@torch.no_grad()
def open_gelu(head: nn.Module, states: Tensor) -> None:
    """Sets an MLM head's transform to leave states (tokens, hidden) almost as they are.

    A bias lifts every number above zero, where GELU does next to nothing; the LayerNorm after it takes the bias away.
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
    """A student of another size that begins with what the teacher knows.

    Args:
        teacher: a model with an MLM head.
        config: of the student; heads as wide as the teacher's, as many layers.
        batch: a packed batch of a few thousand tokens that the fits are made on.

    Returns:
        The student, the basis U (teacher's hidden, student's hidden), and the share of energy that it keeps.
    """
    teacher.eval()
    states = States(teacher, batch)
    base = States(teacher.bert, batch)
    layers = config.num_hidden_layers
    directions, kept = basis(base, layers, config.hidden_size)
    mean = torch.stack([base[name].mean(0) for name in hidden_names(layers)]).mean(0)
    rest = mean - directions @ (directions.T @ mean)  # c: what the projection leaves out on average
    student = BertForPreTraining(config)
    ours, theirs = student.bert, teacher.bert
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        table = getattr(theirs.embeddings, name).weight[
            : getattr(ours.embeddings, name).num_embeddings
        ]
        getattr(ours.embeddings, name).weight.copy_(table @ directions)
    summed = base["embeddings.LayerNorm:input"] @ directions
    state = _fit_layer_norm(
        ours.embeddings.LayerNorm, summed, base["embeddings.LayerNorm"] @ directions
    )
    for number in range(layers):
        state = _project_layer(ours, theirs, number, directions, rest, state, base, batch["layout"])
    # the MLM head: the transform's LayerNorm is asked to give the projection of the teacher's, GELU is left open
    head, wanted = (
        student.cls.predictions.transform,
        states["cls.predictions.transform"] @ directions,
    )
    weight, bias = fit_linear(state, wanted)
    fitted = state @ weight.T + bias
    head.dense.weight.copy_(weight)
    head.dense.bias.copy_(bias - fitted.mean(0) + 2.5 * fitted.std())
    _fit_layer_norm(head.LayerNorm, nn.functional.gelu(head.dense(state)), wanted)
    student.cls.predictions.bias.copy_(teacher.cls.predictions.bias)
    return student, directions, kept


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
    """Fills one of the student's layers; returns its hidden states for those of the layer below."""
    name = f"encoder.layer.{number}"
    small, large = ours.encoder.layer[number], theirs.encoder.layer[number]
    size = theirs.config.hidden_size // theirs.config.num_attention_heads

    context = base[f"{name}.attention.output.dense:input"]  # (tokens, hidden), heads side by side
    weight = large.attention.output.dense.weight
    share = torch.stack(
        [
            (context[:, i : i + size] @ weight[:, i : i + size].T).square().sum()
            for i in range(0, len(weight), size)
        ]
    )
    heads = share.topk(ours.config.num_attention_heads).indices.sort().values
    rows = (heads[:, None] * size + torch.arange(size)).flatten()
    for part in ("query", "key", "value"):
        source, target = getattr(large.attention.self, part), getattr(small.attention.self, part)
        target.weight.copy_(source.weight[rows] @ directions)
        target.bias.copy_(source.bias[rows] + source.weight[rows] @ rest)
    left = torch.ones(len(weight), dtype=torch.bool)
    left[rows] = False
    small.attention.output.dense.weight.copy_(directions.T @ weight[:, rows])
    left_out = weight[:, left] @ context[:, left].mean(0)
    small.attention.output.dense.bias.copy_(
        directions.T @ (large.attention.output.dense.bias + left_out)
    )

    attended, _ = small.attention.self(state, layout, sdpa_attention)
    wanted = base[f"{name}.attention.output.LayerNorm"] @ directions
    state = _fit_layer_norm(
        small.attention.output.LayerNorm, small.attention.output.dense(attended) + state, wanted
    )

    active = base[f"{name}.output.dense:input"]  # (tokens, intermediate)
    weight = large.output.dense.weight
    units = (
        (active.square().mean(0).sqrt() * weight.norm(dim=0))
        .topk(ours.config.intermediate_size)
        .indices
    )
    widen = large.intermediate.dense
    small.intermediate.dense.weight.copy_(widen.weight[units] @ directions)
    small.intermediate.dense.bias.copy_(widen.bias[units] + widen.weight[units] @ rest)
    left = torch.ones(weight.shape[1], dtype=torch.bool)
    left[units] = False
    small.output.dense.weight.copy_(directions.T @ weight[:, units])
    left_out = weight[:, left] @ active[:, left].mean(0)
    small.output.dense.bias.copy_(directions.T @ (large.output.dense.bias + left_out))

    summed = small.output.dense(small.intermediate(state)) + state
    return _fit_layer_norm(
        small.output.LayerNorm, summed, base[f"{name}.output.LayerNorm"] @ directions
    )
