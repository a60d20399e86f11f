"""Kernels: linear layers for inference, whose weight is laid out once for the processor at hand.

`PlainKernel` and `GroupedKernel` need torch's public interface only. The operators of the others
are not part of it, so none is used before `runs_here` has tried it.
"""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.util.checks import warn

# without one of these instruction sets the precision is slower than float32, which is used instead
NEEDED_FEATURES = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "int8": {"avx512_vnni", "avx_vnni", "amx_int8", "avx2"},
}
# These add products of bytes in 32 bits. AVX2 alone adds pairs of them in 16 bits
VNNI = {"avx512_vnni", "avx_vnni", "amx_int8"}

ActivationFunction = Callable[[Tensor], Tensor]


class Kernel:
    """activation(x W^T + bias) + residual.

    The weight W is (outputs, inputs), the bias (outputs,).
    """

    is_compiled = False  # by oneDNN, for each number of rows on a CPU
    has_fixed_bits = False  # whatever the number of threads

    def __init__(
        self, weight: Tensor, bias: Tensor, activation: ActivationFunction | None = None
    ) -> None:
        self.bias = bias.clone()  # neither weight nor bias may hold on to a memory-mapped file
        self.activation = activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., inputs) to (..., outputs).

        Args:
            x: The inputs.
            residual: Added to the result, of the same shape. The result takes on its dtype.
        """
        y = self.product(x if x.dtype == self.bias.dtype else x.to(self.bias.dtype))
        if self.activation is not None:
            y = self.activation(y)
        if residual is None:
            return y
        return y.add_(residual) if y.dtype == residual.dtype else residual + y

    def product(self, x: Tensor) -> Tensor:
        """X W^T + bias in new memory.

        If an activation was passed and `self.activation` is None, it includes the activation.
        """
        raise NotImplementedError

    def weight(self) -> Tensor:
        """The W that this kernel multiplies by, (outputs, inputs)."""
        raise NotImplementedError


class PlainKernel(Kernel):
    """`F.linear`, on any device: for wherever the others do not run."""

    def __init__(
        self, weight: Tensor, bias: Tensor, activation: ActivationFunction | None = None
    ) -> None:
        super().__init__(weight, bias, activation)
        self._weight = weight.clone()

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        return F.linear(x, self._weight, self.bias)

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        return self._weight


class GroupedKernel(PlainKernel):
    """`F.linear` for many rows. For few rows, the outputs are computed in groups.

    A product of few rows gives a thread little to do, and BLAS libraries tend not to share out the
    columns of the weight. A batch of products, each with a group of the outputs, is shared out.
    """

    MANY_ROWS = 256  # from here on `F.linear` is as fast with two threads, and faster with one
    GROUPS = 8
    has_fixed_bits = True

    def __init__(
        self, weight: Tensor, bias: Tensor, activation: ActivationFunction | None = None
    ) -> None:
        super().__init__(weight, bias, _in_place(activation))
        outputs, inputs = weight.shape
        groups = math.gcd(outputs, self.GROUPS)
        self._weights = self._weight.view(groups, -1, inputs).transpose(1, 2)
        self._biases = self.bias.view(groups, -1)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Kernel.__call__`."""
        rows = x.shape[0]
        is_usual = x.dim() == 2 and x.dtype == self.bias.dtype
        if rows >= self.MANY_ROWS and is_usual and residual is not None and not self.activation:
            # the library adds the product to the residual, which needs no pass of its own then
            return torch.add(residual, self.bias).addmm_(x, self._weight.t())
        if rows >= self.MANY_ROWS or not is_usual:
            return super().__call__(x, residual)
        # few calls: the weights have pushed Python and torch out of the cache
        groups, inputs, outputs = self._weights.shape
        product = torch.bmm(x.expand(groups, rows, inputs), self._weights)
        # the bias is added on the way to the order of the result, which has to be copied anyway
        y = torch.empty(rows, groups, outputs, dtype=product.dtype, device=product.device)
        torch.add(product.transpose(0, 1), self._biases, out=y)
        y = y.view(rows, groups * outputs)
        if self.activation is not None:
            y = self.activation(y)
        return y if residual is None else y.add_(residual)


class MklKernel(Kernel):
    """MKL's product with a packed weight, float32: the quickest on Intel processors.

    MKL packs for a number of rows, which it takes as a hint: only the layout has to be the same
    when the packed weight is used (oneMKL reference, `cblas_?gemm_pack`). torch's operator is
    stricter, and multiplies by the original weight if the number of rows is another one. So it
    always receives the actual number.

    Packing also fixes how many threads a product of a few hundred rows may use: as many as torch
    has at that moment.
    """

    ROWS = 256  # 128 is up to 10% slower with a thousand rows, 1024 a third slower with a few

    def __init__(
        self, weight: Tensor, bias: Tensor, activation: ActivationFunction | None = None
    ) -> None:
        super().__init__(weight, bias, _in_place(activation))
        self._inputs = weight.shape[1]
        self._packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, self.ROWS)
        # torch reads only the shape of the original weight
        self._sizes = torch.empty(1, 1, dtype=torch.float32).expand(weight.shape)
        self._product = torch.ops.mkl._mkl_linear.default

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        return self._multiply(x, self.bias, rows=x.numel() // self._inputs)

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        # one 1 in each row picks one input's weights out of the packed ones
        ones = torch.eye(self._inputs, dtype=torch.float32)
        return self._multiply(ones, None, rows=len(ones)).t()

    def _multiply(self, x: Tensor, bias: Tensor | None, rows: int) -> Tensor:
        product: Tensor = self._product(
            X=x, MKL_W=self._packed, ORI_W=self._sizes, B=bias, batch_size=rows
        )
        return product


class OneDnnKernel(Kernel):
    """oneDNN's product with a packed weight, float32 or bfloat16.

    GELU, or the addition of the residual, is part of it.
    """

    is_compiled = True
    has_fixed_bits = True

    def __init__(
        self, weight: Tensor, bias: Tensor, activation: ActivationFunction | None = None
    ) -> None:
        super().__init__(weight, bias, None if activation is F.gelu else activation)
        operators = torch.ops.mkldnn
        # an opaque tensor, blocked for the vector registers
        self._packed = operators._reorder_linear_weight(weight)
        self._product = operators._linear_pointwise.default
        self._product_and_sum = operators._linear_pointwise.binary
        name = "gelu" if activation is F.gelu else "none"
        # weight, bias, what is applied to the result, its arguments, its algorithm (GELU by erf)
        self._arguments = (self._packed, self.bias, name, (), "none")
        self._adds = activation is None

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As `Kernel.__call__`."""
        if self._adds and residual is not None and residual.dtype == x.dtype == self.bias.dtype:
            summed: Tensor = self._product_and_sum(x, residual, self._packed, self.bias, "add")
            return summed
        return super().__call__(x, residual)

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        product: Tensor = self._product(x, *self._arguments)
        return product

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        return self._packed.to_dense()  # type: ignore[no-any-return]


class Int8Kernel(Kernel):
    """8-bit integers on both sides, summed in 32 bits.

    A token's inputs are written as x = step * n + low with n from 0 to 255. Each token has its own
    step and low, so that its result does not depend on the other tokens of the batch. An output's
    weights are written as w = scale * m with m from -127 to 127:

        x . w = step * scale * (n . m) + low * scale * sum(m)

    Without VNNI m goes from -63 to 63: two products, 2 * 255 * 63, then fit into 16 bits.
    """

    is_compiled = True
    has_fixed_bits = True
    # A row of bytes ends with its step and its low, two float32. Their weights are zero, so that
    # they do not change the product
    TAIL = 8

    def __init__(
        self, weight: Tensor, bias: Tensor, activation: ActivationFunction | None = None
    ) -> None:
        operators = torch.ops
        super().__init__(weight, bias, _in_place(activation))
        largest = 63 if VNNI.isdisjoint(processor_features()) else 127
        scale, whole = in_8_bits(weight, largest)
        self._inputs = weight.shape[1]
        # inputs of zero, so that step and low lie where a float32 may
        self._unused = -self._inputs % 4
        self._sums = scale * whole.sum(1)
        padded = F.pad(whole, (0, self._unused + self.TAIL))
        packed = operators.onednn.qlinear_prepack(padded, None)
        zeros = torch.zeros_like(scale, dtype=torch.long)
        # scale and zero point of the input, the weight with its own, no bias, then scale, zero
        # point and dtype of the result, to which nothing is applied
        result = 1.0, 0, torch.float32, "none", (), "none"
        self._arguments = (1.0, 0, packed, scale, zeros, None, *result)
        self._product = operators.onednn.qlinear_pointwise.default
        self._to_bytes = operators.quantized.embedding_bag_byte_prepack.default

    def product(self, x: Tensor) -> Tensor:
        """As `Kernel.product`."""
        padded = x
        if self._unused:
            padded = F.pad(padded, (0, self._unused))
        if x.dim() > 2:
            padded = padded.flatten(0, -2)
        rows = self._to_bytes(padded)  # (tokens, inputs + 8) bytes
        words = rows.view(torch.float32)
        tokens, width = words.shape
        step = words.as_strided((tokens, 1), (width, 1), width - 2)
        low = words.as_strided((tokens, 1), (width, 1), width - 1)
        y = self._integer_product(rows)
        torch.addcmul(self.bias, y, step, out=y).addcmul_(low, self._sums)
        if x.dim() > 2:
            return y.view(*x.shape[:-1], len(self.bias))
        return y

    def weight(self) -> Tensor:
        """As `Kernel.weight`."""
        # as in MklKernel
        width = self._inputs + self._unused + self.TAIL
        ones = torch.eye(self._inputs, width, dtype=torch.uint8)
        return self._integer_product(ones).t()

    def _integer_product(self, rows: Tensor) -> Tensor:
        """Scale * (n . m), (tokens, outputs) in float32."""
        product: Tensor = self._product(rows, *self._arguments)
        return product


def in_8_bits(matrix: Tensor, largest: int = 127) -> tuple[Tensor, Tensor]:
    """Quantizes the rows of a float32 matrix to whole numbers, each row with a scale of its own.

    Args:
        matrix: (rows, columns).
        largest: Whole numbers go from -largest to largest.

    Returns:
        Scales (rows,) and whole numbers (rows, columns) in int8.
    """
    scales = matrix.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / largest
    return scales, (matrix / scales[:, None]).round().to(torch.int8)


def _in_place(activation: ActivationFunction | None) -> ActivationFunction | None:
    """The activation that overwrites its input, which nothing else refers to.

    For fast products new memory costs as much as the arithmetic.
    """
    if activation is F.gelu:
        return torch.ops.aten.gelu_.default
    return activation


@cache
def runs_here(kernel: type[Kernel], dtype: torch.dtype = torch.float32) -> bool:
    """Whether a kernel runs with this torch and processor, and computes what `F.linear` does."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 64, generator=generator).to(dtype)
    residual = torch.randn(300, 64, generator=generator).to(dtype)
    weight = torch.randn(64, 64, generator=generator).to(dtype) / 8
    bias = torch.randn(64, generator=generator).to(dtype) / 8
    is_rounded = kernel is Int8Kernel or dtype == torch.bfloat16
    tolerance = 0.1 if is_rounded else 1e-4
    for rows in (1, 16, 300):
        product = F.linear(x[:rows], weight, bias)
        try:
            activated = kernel(weight, bias, F.gelu)(x[:rows])
            added = kernel(weight, bias)(x[:rows], residual[:rows])
        except (AttributeError, RuntimeError, TypeError):
            return False  # the operator does not exist, or not for this processor
        if not torch.allclose(activated, F.gelu(product), rtol=tolerance, atol=tolerance):
            return False
        if not torch.allclose(added, product + residual[:rows], rtol=tolerance, atol=tolerance):
            return False
    return True


@cache
def processor_features() -> frozenset[str]:
    """CPU vendor and feature flags, such as `GenuineIntel` and `avx512_bf16`. Empty if unknown.

    Those of AVX-512 and AMX are left out where torch does not use AVX-512, as after
    `ATEN_CPU_CAPABILITY=avx2`.
    """
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        words = cpuinfo.read_text(encoding="utf-8", errors="replace").split()
        if torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2"):
            words = [word for word in words if not word.startswith(("avx512", "amx"))]
        return frozenset(words)
    # torch 2.10 and later
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    features = str(capabilities.get("cpu_name", "")).split()
    features += [name for name, value in capabilities.items() if value is True]
    return frozenset(features)


def has_instructions(precision: str) -> bool:
    """Whether this processor has instructions for "bf16" or "int8"."""
    return not NEEDED_FEATURES[precision].isdisjoint(processor_features())


def choose_kernel(precision: str, device: torch.device) -> tuple[type[Kernel], torch.dtype]:
    """The fastest kernel for a precision on this machine, and the dtype of its weights.

    It warns where the machine lacks instructions or operators for the precision.
    """
    if device.type != "cpu":
        if precision == "int8":
            warn_once(f"int8 runs on the CPU only: on {device.type} optimize uses bf16.")
        return PlainKernel, torch.float32 if precision == "fp32" else torch.bfloat16
    if precision != "fp32" and not has_instructions(precision):
        needed = ", ".join(sorted(NEEDED_FEATURES[precision]))
        warn_once(
            f"This processor has no {precision} instructions ({needed}): optimize uses fp32, "
            "which is faster here."
        )
        precision = "fp32"
    if precision == "int8" and runs_here(Int8Kernel):
        return Int8Kernel, torch.float32
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    kernel = float_kernel(dtype)
    if precision == "int8" or kernel is PlainKernel:
        warn_once(
            f"torch {torch.__version__} lacks operators that optimize needs for {precision} here: "
            "it uses others."
        )
    return kernel, dtype


def float_kernel(dtype: torch.dtype) -> type[Kernel]:
    """The fastest kernel for this dtype on this processor.

    In float32, by scripts/bench/kernels.py (docs/benchmarks.md has the table):

    ```
    Intel                  MKL
    AMD with AVX-512       oneDNN, for any number of rows
    AMD with AVX2 alone    plain weights: with hundreds of rows they are up to 15% faster than
                           oneDNN's, with few rows twice as fast as MKL's
    ```
    """
    features = processor_features()
    if dtype == torch.float32:
        if not features.isdisjoint({"GenuineIntel", "Intel"}) and runs_here(MklKernel):
            return MklKernel
        is_older_amd = "AuthenticAMD" in features and "avx512f" not in features
        if is_older_amd and runs_here(GroupedKernel):
            return GroupedKernel
    return OneDnnKernel if runs_here(OneDnnKernel, dtype) else PlainKernel


@cache
def warn_once(message: str) -> None:
    """Warns with a message the first time it is passed."""
    warn(message)
