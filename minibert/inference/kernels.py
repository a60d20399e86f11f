"""Kernels: linear layers for inference, whose weight is laid out once for the processor at hand.

The operators of all but `PlainKernel` are not part of torch's public interface, so nothing here is used before
`runs_here` has tried it.
"""

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

PRECISIONS = ("fp32", "bf16", "int8")
# without one of these instruction sets the precision is slower than float32, which is used instead
NEEDED_FEATURES = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "int8": {"avx512_vnni", "avx_vnni", "amx_int8"},
}

Activation = Callable[[Tensor], Tensor]


class Kernel:
    """activation(x W^T + bias) + residual: the weight W is (outputs, inputs), the bias (outputs,)."""

    is_compiled = False  # by oneDNN, for each number of rows on a CPU

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        self.bias = bias.clone()  # neither weight nor bias may hold on to a memory-mapped file
        self.activation = activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., inputs) to (..., outputs); the residual has the shape of the result, and gives it its type."""
        y = self.product(x.to(self.bias.dtype))
        if self.activation is not None:
            y = self.activation(y)
        if residual is None:
            return y
        return y.add_(residual) if y.dtype == residual.dtype else residual + y

    def product(self, x: Tensor) -> Tensor:
        """X W^T + bias in new memory, and the activation if `self.activation` is None where one was given."""
        raise NotImplementedError

    def weight(self) -> Tensor:
        """The W that this kernel multiplies by, (outputs, inputs)."""
        raise NotImplementedError


class PlainKernel(Kernel):
    """`F.linear`, on any device: for wherever the others do not run."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        super().__init__(weight, bias, activation)
        self._weight = weight.clone()

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        return F.linear(x, self._weight, self.bias)

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        return self._weight


class MklKernel(Kernel):
    """MKL's product with a packed weight, float32: the quickest on Intel processors.

    MKL packs for a number of rows, which it takes as a hint: only the layout has to be the same when the packed weight
    is used (oneMKL reference, `cblas_?gemm_pack`). torch's operator is stricter, and multiplies by the original weight
    when it is told of another number of rows; so it is always told the one at hand.

    Packing also fixes how many threads a product of a few hundred rows may use: as many as torch has at that moment.
    """

    ROWS = 256  # 128 is up to 10% slower with a thousand rows, 1024 a third slower with a few

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        super().__init__(weight, bias, _in_place(activation))
        self._inputs = weight.shape[1]
        self._packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, self.ROWS)
        # all that is asked of the original weight is its shape
        self._sizes = torch.empty(1, 1, dtype=torch.float32).expand(weight.shape)
        self._product = torch.ops.mkl._mkl_linear.default

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        rows = x.numel() // self._inputs
        return self._product(x, self._packed, self._sizes, self.bias, rows)  # type: ignore[no-any-return]

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        # one 1 in each row picks one input's weights out of the packed ones
        ones, no_bias = torch.eye(self._inputs, dtype=torch.float32), None
        return self._product(ones, self._packed, self._sizes, no_bias, len(ones)).t()  # type: ignore[no-any-return]


class OneDnnKernel(Kernel):
    """oneDNN's product with a packed weight, GELU or the residual added on the way out: float32, or bfloat16."""

    is_compiled = True

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        super().__init__(weight, bias, None if activation is F.gelu else activation)
        operators = torch.ops.mkldnn
        self._packed = operators._reorder_linear_weight(
            weight
        )  # an opaque tensor, blocked for the vector registers
        self._product = operators._linear_pointwise.default
        self._product_and_sum = operators._linear_pointwise.binary
        no_numbers, by_erf = (), "none"
        self._fused = ("gelu" if activation is F.gelu else "none", no_numbers, by_erf)
        self._adds = activation is None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Kernel.__call__`."""
        if self._adds and residual is not None and residual.dtype == x.dtype == self.bias.dtype:
            return self._product_and_sum(x, residual, self._packed, self.bias, "add")  # type: ignore[no-any-return]
        return super().__call__(x, residual)

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        return self._product(x, self._packed, self.bias, *self._fused)  # type: ignore[no-any-return]

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        return self._packed.to_dense()  # type: ignore[no-any-return]


class Int8Kernel(Kernel):
    """8-bit integers on both sides, summed in 32 bits.

    A token's inputs are written as x = step * n + low with n from 0 to 255, its own step and low, so that its result
    does not depend on the other tokens of the batch; an output's weights as w = scale * m with m from -127 to 127:

        x . w = step * scale * (n . m) + low * scale * sum(m)
    """

    is_compiled = True
    # a row of bytes ends with its step and its low, two float32; zero weights let them through the product unseen
    TAIL = 8

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> None:
        operators = torch.ops
        super().__init__(weight, bias, _in_place(activation))
        self._scale, whole = in_8_bits(weight)
        self._inputs = weight.shape[1]
        self._unused = (
            -self._inputs % 4
        )  # inputs of zero, so that step and low lie where a float32 may
        self._zero = torch.zeros_like(self._scale, dtype=torch.long)
        self._sums = self._scale * whole.sum(1)
        self._packed = operators.onednn.qlinear_prepack(
            F.pad(whole, (0, self._unused + self.TAIL)), None
        )
        self._product = operators.onednn.qlinear_pointwise.default
        self._to_bytes = operators.quantized.embedding_bag_byte_prepack.default

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        padded = F.pad(x, (0, self._unused)) if self._unused else x
        rows = self._to_bytes(
            padded if x.dim() == 2 else padded.flatten(0, -2)
        )  # (tokens, inputs + 8) bytes
        words = rows.view(torch.float32)
        step, low = (
            words.narrow(1, words.shape[1] - place, 1) for place in (2, 1)
        )  # (tokens, 1) each
        y = self._integer_product(rows)
        torch.addcmul(self.bias, y, step, out=y).addcmul_(low, self._sums)
        return y if x.dim() == 2 else y.view(*x.shape[:-1], len(self.bias))

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        ones = torch.eye(
            self._inputs, self._inputs + self._unused + self.TAIL, dtype=torch.uint8
        )  # as in MklKernel
        return self._integer_product(ones).t()

    def _integer_product(self, rows: Tensor) -> Tensor:
        """Scale * (n . m), (tokens, outputs) in float32."""
        plain = ("none", (), "none")  # no operation on the result
        return self._product(  # type: ignore[no-any-return]
            rows, 1.0, 0, self._packed, self._scale, self._zero, None, 1.0, 0, torch.float32, *plain
        )


def in_8_bits(matrix: Tensor, largest: int = 127) -> tuple[Tensor, Tensor]:
    """(rows, columns) in float32 as scales (rows,) and whole numbers (rows, columns) from -largest to largest."""
    scales = matrix.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / largest
    return scales, (matrix / scales[:, None]).round().to(torch.int8)


def _in_place(activation: Activation | None) -> Activation | None:
    """An activation of what nobody else holds: for quick products new memory costs as much as the arithmetic."""
    return torch.ops.aten.gelu_.default if activation is F.gelu else activation


@cache
def runs_here(kernel: type[Kernel], dtype: torch.dtype = torch.float32) -> bool:
    """Whether a kernel runs with this torch on this processor, and computes what `F.linear` does."""
    generator = torch.Generator().manual_seed(0)
    x, residual = (torch.randn(300, 64, generator=generator).to(dtype) for _ in range(2))
    weight, bias = (
        torch.randn(64, *size, generator=generator).to(dtype) / 8 for size in ([64], [])
    )
    tolerance = 0.1 if kernel is Int8Kernel or dtype == torch.bfloat16 else 1e-4
    for rows in (1, 16, 300):
        product = F.linear(x[:rows], weight, bias)
        try:
            activated = kernel(weight, bias, F.gelu)(x[:rows])
            added = kernel(weight, bias)(x[:rows], residual[:rows])
        except (
            AttributeError,
            RuntimeError,
            TypeError,
        ):  # no such operator, or none for this processor
            return False
        for received, expected in (
            (activated, F.gelu(product)),
            (added, product + residual[:rows]),
        ):
            if not torch.allclose(received, expected, rtol=tolerance, atol=tolerance):
                return False
    return True


@cache
def processor_features() -> frozenset[str]:
    """The system's words for this processor, such as `GenuineIntel` and `avx512_bf16`; empty if it has none."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        return frozenset(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.10 and later
    return frozenset(
        [
            *str(known.get("cpu_name", "")).split(),
            *(name for name, has in known.items() if has is True),
        ]
    )


def has_instructions(precision: str) -> bool:
    """Whether this processor has instructions for "bf16" or "int8"."""
    return not NEEDED_FEATURES[precision].isdisjoint(processor_features())


def choose_kernel(precision: str, device: torch.device) -> tuple[type[Kernel], torch.dtype]:
    """The kernel and the type of the weights that serve a precision best on this machine; says what it cannot do."""
    on_cpu = device.type == "cpu"
    if precision == "int8" and not on_cpu:
        _warn_once(f"int8 runs on the CPU only: on {device.type} optimize uses bf16.")
        precision = "bf16"
    if on_cpu and precision != "fp32" and not has_instructions(precision):
        needed = ", ".join(sorted(NEEDED_FEATURES[precision]))
        _warn_once(
            f"This processor has no {precision} instructions ({needed}): optimize uses fp32, which is faster here."
        )
        precision = "fp32"
    if precision == "int8" and runs_here(Int8Kernel):
        return Int8Kernel, torch.float32
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    kernel = float_kernel(dtype) if on_cpu else PlainKernel
    if on_cpu and (precision == "int8" or kernel is PlainKernel):
        _warn_once(
            f"torch {torch.__version__} lacks operators that optimize needs for {precision} here: it uses others."
        )
    return kernel, dtype


def float_kernel(dtype: torch.dtype) -> type[Kernel]:
    """The quickest kernel on this processor."""
    intel = processor_features() & {"GenuineIntel", "Intel"}
    if dtype == torch.float32 and intel and runs_here(MklKernel):
        return MklKernel
    return OneDnnKernel if runs_here(OneDnnKernel, dtype) else PlainKernel


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)
