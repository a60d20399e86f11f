"""Kernels: linear layers for inference, whose weight is laid out once for the processor at hand.

All have one interface and are made from a weight (outputs, inputs), a bias (outputs,) and what follows the product:

    PlainKernel     `F.linear`, on any device: what is left where the others do not run
    OneDnnKernel    oneDNN by torch's own operators: a prepacked weight, and GELU or the residual added on the way out
    Int8Kernel      8-bit weights with a scale for each output, 8-bit inputs with a scale and a minimum for each token

The operators of the last two are not part of torch's public interface, so nothing here is used before `runs_here` has
tried it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Callable[[Tensor], Tensor]


class Kernel:
    """activation(x W^T + bias) + residual.

    Args:
        weight: W, (outputs, inputs).
        bias: (outputs,).
        activation: None: there is none.
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        self.bias = bias.clone()  # neither weight nor bias may hold on to a memory-mapped file
        self.activation = activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., inputs) to (..., outputs); the residual has the shape of the result."""
        y = self.product(x)
        if self.activation is not None:
            y = self.activation(y)
        return y if residual is None else y.add_(residual)

    def product(self, x: Tensor) -> Tensor:
        """X W^T + bias in new memory, and the activation if `self.activation` is None where one was given."""
        raise NotImplementedError

    def weight(self) -> Tensor:
        """The W that this kernel multiplies by, (outputs, inputs)."""
        raise NotImplementedError


class PlainKernel(Kernel):
    """`F.linear`."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        super().__init__(weight, bias, activation)
        self._weight = weight.clone()

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        return F.linear(x, self._weight, self.bias)

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        return self._weight


class OneDnnKernel(Kernel):
    """oneDNN's product, as torch's compiler calls it: float32, or bfloat16 where the weight is."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        super().__init__(weight, bias, None if activation is F.gelu else activation)
        operators = torch.ops.mkldnn
        self._packed = operators._reorder_linear_weight(weight)  # an opaque tensor, blocked for the vector registers
        self._product = operators._linear_pointwise.default
        self._product_and_sum = operators._linear_pointwise.binary
        self._fused = "gelu" if activation is F.gelu else "none"

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Kernel.__call__`."""
        if residual is not None and self._fused == "none" and self.activation is None:
            return self._product_and_sum(x, residual, self._packed, self.bias, "add")  # type: ignore[no-any-return]
        return super().__call__(x, residual)

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        no_numbers, by_erf = (), "none"
        return self._product(x, self._packed, self.bias, self._fused, no_numbers, by_erf)  # type: ignore[no-any-return]

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        return self._packed.to_dense()  # type: ignore[no-any-return]


class Int8Kernel(Kernel):
    """8-bit integers on both sides, summed in 32 bits.

    A token's inputs are written as x = step * n + low with n from 0 to 255, its own step and low, so that its result
    does not depend on the other tokens of the batch; an output's weights as w = scale * m with m from -127 to 127:

        x . w = step * scale * (n . m) + low * scale * sum(m)
    """

    # a row of bytes ends with its step and its low, two float32; zero weights let them through the product unseen
    TAIL = 8

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        operators = torch.ops
        super().__init__(weight, bias, operators.aten.gelu_ if activation is F.gelu else activation)
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        whole = (weight / scale[:, None]).round().to(torch.int8)
        self._inputs = weight.shape[1]
        self._scale = scale
        self._zero = torch.zeros_like(scale, dtype=torch.long)
        self._sums = scale * whole.sum(1)
        self._packed = operators.onednn.qlinear_prepack(F.pad(whole, (0, self.TAIL)), None)
        self._product = operators.onednn.qlinear_pointwise.default
        self._to_bytes = operators.quantized.embedding_bag_byte_prepack.default

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        rows = self._to_bytes(x.reshape(-1, self._inputs))  # (tokens, inputs + 8) bytes
        tail = rows[:, self._inputs :].clone(memory_format=torch.contiguous_format)
        step, low = tail.view(torch.float32).split(1, dim=1)  # (tokens, 1) each
        y = self._integer_product(rows)
        # in place: for products as quick as these, new memory costs as much as the arithmetic
        torch.addcmul(self.bias, y, step, out=y).addcmul_(low, self._sums)
        return y.view(*x.shape[:-1], len(self.bias))

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        # one byte 1 in each row picks one input's weights out of the packed ones
        ones = torch.eye(self._inputs, self._inputs + self.TAIL, dtype=torch.uint8)
        return self._integer_product(ones).t()

    def _integer_product(self, rows: Tensor) -> Tensor:
        """Scale * (n . m), (tokens, outputs) in float32."""
        plain = ("none", (), "none")  # no operation on the result
        return self._product(  # type: ignore[no-any-return]
            rows, 1.0, 0, self._packed, self._scale, self._zero, None, 1.0, 0, torch.float32, *plain
        )


@cache
def runs_here(kernel: type[Kernel], dtype: torch.dtype = torch.float32) -> bool:
    """Whether a kernel runs with this torch on this processor, and computes what `F.linear` does."""
    generator = torch.Generator().manual_seed(0)
    x, weight, other = (torch.randn(16, 16, generator=generator).to(dtype) for _ in range(3))
    expected = F.gelu(F.linear(x, weight, weight[0])), F.linear(x, weight, weight[0]) + other
    try:
        received = kernel(weight, weight[0], F.gelu)(x), kernel(weight, weight[0])(x, other)
    except (AttributeError, RuntimeError, TypeError):  # no such operator, or none for this processor
        return False
    tolerance = 1e-4 if kernel is OneDnnKernel and dtype == torch.float32 else 0.1
    return all(torch.allclose(r, e, rtol=tolerance, atol=tolerance) for r, e in zip(received, expected, strict=True))


@cache
def processor_features() -> frozenset[str]:
    """Names of this processor's instruction sets, such as `avx512_bf16`; empty where nothing tells them."""
    if hasattr(torch.cpu, "get_capabilities"):  # torch 2.10 and later
        return frozenset(name for name, has in torch.cpu.get_capabilities().items() if has is True)
    cpuinfo = Path("/proc/cpuinfo")
    return frozenset(cpuinfo.read_text().split()) if cpuinfo.exists() else frozenset()
