"""The steps of a training: one update of the weights by one batch each.

A batch is divided among the processes, and each splits its share into forward passes of at most
`tokens_per_forward` tokens. Every loss is a sum over labels divided by the number of labels in the
whole batch, so the result does not depend on how the batch was split.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.inference.training_speedups import faster_operators
from minibert.losses import IGNORED
from minibert.tasks.task import Batch, Example
from minibert.training.data import length, pack, pad, split_by_tokens, to_device
from minibert.training.options import TrainingOptions
from minibert.training.processes import Processes
from minibert.util.checks import type_of
from minibert.util.errors import ArgumentError

Objective = Callable[[nn.Module, Batch], dict[str, Tensor]]
"""Computes the summed loss of each kind of label in a batch, by its name in the examples."""


@dataclass(frozen=True)
class Update:
    """What a step has done.

    Attributes:
        losses: The mean loss of each kind of label.
        rate: The learning rate of the head.
        norm: The norm of the gradients before clipping.
        stops: A process has requested to stop after this step.
    """

    losses: dict[str, float]
    rate: float
    norm: float
    stops: bool


class Steps:
    """Trains a model step by step: forward and backward, reduce, clip, update.

    Args:
        model: Trained in place. Moved to the device of this process.
        objective: Computes the summed losses of a batch.
        options: How to train.
        total: Number of steps of the whole training, on which the learning rate depends.
        processes: The processes that share each batch. None: those of torchrun, or this one.

    Raises:
        ValueError: There are fewer layers than should be frozen.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        objective: Objective,
        options: TrainingOptions,
        total: int,
        processes: Processes | None = None,
    ) -> None:
        if options.learning_rate is None:
            rate = default_learning_rate(model.config.hidden_size)
            options = replace(options, learning_rate=rate)
        self.processes = processes or Processes.join(options.device)
        self.model = model.to(self.processes.device).train()
        self.objective = objective
        self.options = options
        self.total = total
        layers = model.config.num_hidden_layers
        if options.freeze > layers:
            raise ArgumentError(
                "freeze", f"is {options.freeze}, but the model has only {layers} layers."
            )
        for name, parameter in model.named_parameters():
            if options.freeze and _depth(name) <= options.freeze:
                parameter.requires_grad_(False)
        self.processes.broadcast(model)
        self.optimizer = make_optimizer(model, options)

    def take(
        self, batch: Sequence[Example], step: int, stop_requested: Callable[[], bool] | None = None
    ) -> Update:
        """Update the weights by a batch.

        Args:
            batch: The examples, the same in every process.
            step: Number of the step, from 0.
            stop_requested: Whether this process should stop, asked after the backward pass.

        Raises:
            FloatingPointError: The loss or a gradient is not finite. The weights stay.
        """
        options = self.options
        share = linear_schedule(step, self.total, options.warmup, options.decay_steps)
        rate = (options.learning_rate or 0.0) * share
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        losses, stops = self._reduce(self._forward_backward(batch), stop_requested)
        norm = self._update(math.fsum(losses.values()))
        return Update(losses, rate, norm, stops)

    def _forward_backward(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Compute the gradients of this process's share of a batch.

        Returns:
            The share of its examples in the losses of the batch.
        """
        rank = self.processes.rank
        ordered = sorted(batch, key=length)
        examples = ordered[rank :: self.processes.size]
        weight = 1.0
        if not examples:
            # all processes must take part, so this one computes an example that does not count
            examples = ordered[:1]
            weight = 0.0
        losses: dict[str, Tensor] = {}
        device = self.processes.device
        for part in split_by_tokens(examples, self.options.tokens_per_forward):
            with nullcontext() if self.options.exact else faster_operators(device, self.model):
                shares = self._losses(part, batch)
                share_of_loss = torch.stack(list(shares.values())).sum() * weight
                share_of_loss.backward()  # type: ignore[no-untyped-call]
            for name, share in shares.items():
                losses[name] = losses.get(name, 0) + share.detach() * weight
        return losses

    def _reduce(
        self, losses: dict[str, Tensor], stop_requested: Callable[[], bool] | None
    ) -> tuple[dict[str, float], bool]:
        """Sum gradients and losses over all processes, and find out whether one of them stops."""
        self.processes.sum_gradients(self.model)
        values = torch.stack(list(losses.values()))
        # torchrun sends its signal to all processes, but they may not be in the same step
        stops = values.new_tensor([stop_requested is not None and stop_requested()])
        values = self.processes.sum(torch.cat([values, stops]))
        *sums, stops_in_all = values.tolist()
        return dict(zip(losses, sums, strict=True)), stops_in_all > 0

    def _update(self, loss: float) -> float:
        """Update the weights, unless the loss or a gradient is not finite.

        Returns:
            The norm of the gradients before clipping.
        """
        max_norm = self.options.max_grad_norm or math.inf
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), max_norm))
        for name, value in (("The loss", loss), ("The gradient's norm", norm)):
            if not math.isfinite(value):
                raise FloatingPointError(f"{name} is {value}")
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def _losses(self, part: Sequence[Example], batch: Sequence[Example]) -> dict[str, Tensor]:
        """The share of `part` in the mean losses of `batch`."""
        padded = self.options.exact and "lengths" not in part[0]  # as a plain loop does
        inputs = pad(part, self.model.config.pad_token_id or 0) if padded else pack(part)
        device = self.processes.device
        inputs = to_device(inputs, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.options.bf16):
            sums: Any = self.objective(self.model, inputs)
        if not isinstance(sums, Mapping) or not sums.keys() <= batch[0].keys():
            returned = list(sums) if isinstance(sums, Mapping) else type_of(sums)
            raise TypeError(
                "A loss should be a dict: for labels of the examples "
                f"({', '.join(batch[0])}) their summed loss. It is {returned}."
            )
        return {name: summed / max(1, count_labels(batch, name)) for name, summed in sums.items()}


def make_optimizer(model: Any, options: TrainingOptions) -> torch.optim.AdamW:
    """Make AdamW (Loshchilov and Hutter 2019) for the parameters that are trained.

    Only matrices decay: biases and LayerNorms are vectors. The `share` of a group scales the
    learning rate. Lower layers learn more slowly (Howard and Ruder 2018, section 3.2).
    """
    layers = model.config.num_hidden_layers
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            layers_above = max(0, layers + 1 - _depth(name))  # 0 for the head
            decay = options.weight_decay if parameter.dim() > 1 else 0.0
            share = options.layer_decay**layers_above
            groups.setdefault((decay, share), []).append(parameter)
    described = [
        {"params": parameters, "weight_decay": decay, "share": share}
        for (decay, share), parameters in groups.items()
    ]
    return torch.optim.AdamW(described, lr=options.learning_rate or 0.0, fused=True)


def default_learning_rate(hidden_size: int) -> float:
    """The default peak learning rate of a model.

    It is 5e-5 for BERT base (paper, appendix A.3), whose hidden size is 768. Smaller models need
    larger steps: it grows with the square of 768 / hidden_size, up to 1e-3.
    """
    return float(f"{min(1e-3, 5e-5 * (768 / hidden_size) ** 2):.2g}")


def _depth(name: str) -> float:
    """Return the depth of a parameter.

    It is 0 in the embeddings, 1 in the first layer and so on, and infinite above the layers.
    """
    layer = re.search(r"encoder\.layer\.(\d+)\.", name)
    if layer:
        return int(layer[1]) + 1
    if re.search(r"\bembeddings\.", name):  # a head may have embeddings of labels
        return 0
    return math.inf


def linear_schedule(step: int, steps: int, warmup: float, decay_steps: int | None = None) -> float:
    """The share of the peak learning rate in a step.

    Args:
        step: The step, counted from 0.
        steps: Number of steps of the run.
        warmup: Share of the steps in which the learning rate rises.
        decay_steps: Number of last steps in which it falls to 0. None: all steps after the warm-up.
    """
    rising = round(steps * warmup)
    falling = steps - rising
    if decay_steps is not None:
        falling = min(decay_steps, falling)
    if step < rising:
        return step / max(1, rising)
    return min(1.0, max(0.0, (steps - step) / max(1, falling)))


class LossWatch:
    """Notices, once, that the loss of a run rises.

    It compares the medians of many steps, because one batch of rare labels or large numbers may
    have a loss that is many times that of the others.
    """

    STEPS = 50

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=self.STEPS)
        self._first: float | None = None
        self._lowest = math.inf
        self._is_reported = False

    def rise(self, loss: float) -> tuple[float, float] | None:
        """Add the loss of a step.

        Returns:
            The lowest median and that of the last steps, if the latter is more than three times
            the former and half of the first. None otherwise, and after it was returned once.
        """
        self._losses.append(loss)
        if len(self._losses) < self.STEPS or self._is_reported:
            return None
        median = statistics.median(self._losses)
        if self._first is None:
            self._first = median
        self._lowest = min(self._lowest, median)
        if median <= max(3 * self._lowest, self._first / 2):
            return None
        self._is_reported = True
        return self._lowest, median


def count_labels(examples: Sequence[Example], name: str) -> int:
    """Count the labels of this name in the examples, without `IGNORED` ones.

    Labels that are numbers instead of ids all count: -100 is one of them.
    """
    values = [np.asarray(example[name]) for example in examples]
    return sum(
        int(np.count_nonzero(labels != IGNORED)) if labels.dtype.kind == "i" else labels.size
        for labels in values
    )
