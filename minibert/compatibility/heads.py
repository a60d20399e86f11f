"""Attention heads that are weighted or pruned (Michel et al. 2019, "Are Sixteen Heads Really Better than One?")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Attend = TypeVar("Attend", bound=Callable[..., Any])


def each_layers_mask(head_mask: Tensor | None, layers: int) -> Iterable[Tensor | None]:
    """For each layer the weights of its heads: (heads,) for all layers alike or (layers, heads); None: 1 everywhere.

    Raises:
        ValueError: a mask of another shape.
    """
    if head_mask is None:
        return [None] * layers
    if head_mask.dim() not in (1, 2) or (head_mask.dim() == 2 and len(head_mask) != layers):
        raise ValueError(f"head_mask should be (heads,) or ({layers}, heads), not {tuple(head_mask.shape)}.")
    return head_mask.expand(layers, -1).unbind()


def masking_heads(attend: Attend, head_mask: Tensor) -> Attend:
    """An attention function whose heads count as much as `head_mask`, (heads,), says: 0 takes a head away."""

    def masked(query: Tensor, *arguments: Any) -> tuple[Tensor, Tensor | None]:
        if len(head_mask) != query.shape[-2]:
            raise ValueError(f"head_mask is for {len(head_mask)} heads, but there are {query.shape[-2]}.")
        factors = head_mask.to(query)
        context, weights = attend(query, *arguments)
        context = (context.unflatten(-1, query.shape[-2:]) * factors[:, None]).flatten(-2)
        return context, None if weights is None else weights * factors[:, None, None]

    return masked  # type: ignore[return-value]


def prune(attention: Any, heads: Iterable[int]) -> None:
    """Takes heads away from a `BertAttention`: their rows of query, key and value, and what they add to the output.

    Raises:
        ValueError: no such head, or all of them.
    """
    own, gone = attention.self, set(heads)
    if not gone < set(range(own.num_attention_heads)):
        raise ValueError(
            f"heads to prune should be some of 0 to {own.num_attention_heads - 1}, and not all, not {sorted(gone)}."
        )
    keep = torch.ones(own.num_attention_heads, own.attention_head_size, dtype=torch.bool)
    keep[sorted(gone)] = False
    index = keep.flatten().nonzero()[:, 0]
    for name in ("query", "key", "value"):
        linear = getattr(own, name)
        _replace(linear, linear.weight[index], linear.bias[index])
    dense = attention.output.dense
    if not isinstance(dense, PrunedLinear):
        dense = attention.output.dense = PrunedLinear(dense)
    _replace(dense, dense.weight[:, index], dense.bias)
    dense.kept = dense.kept[index.to(dense.kept.device)]
    own.num_attention_heads -= len(gone)


class PrunedLinear(nn.Linear):
    """A linear layer without some of its inputs, summed as if they were there and zero: so the bits are the same."""

    def __init__(self, whole: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = whole.weight, whole.bias
        self.in_features, self.out_features = whole.in_features, whole.out_features
        self.width = whole.in_features
        device = "cpu" if whole.weight.is_meta else whole.weight.device
        self.kept: Tensor = nn.Buffer(torch.arange(self.width, device=device), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs that are left) to (..., outputs)."""
        whole, weight = (t.new_zeros(*t.shape[:-1], self.width).index_copy(-1, self.kept, t) for t in (x, self.weight))
        return F.linear(whole, weight, self.bias)


def _replace(linear: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    linear.out_features, linear.in_features = weight.shape
    for name, tensor in (("weight", weight), ("bias", bias)):
        old = getattr(linear, name)
        setattr(linear, name, nn.Parameter(tensor.detach().clone(), requires_grad=old.requires_grad))
