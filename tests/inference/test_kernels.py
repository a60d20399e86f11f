"""Every kernel computes what `F.linear` does, on shapes that are convenient for none of them."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st

from minibert.inference import kernels
from minibert.inference.kernels import (
    GroupedKernel,
    Int8Kernel,
    Kernel,
    MklKernel,
    OneDnnKernel,
    PlainKernel,
    processor_features,
    runs_here,
)

needs_onednn = pytest.mark.skipif(
    not runs_here(OneDnnKernel), reason="this torch has no oneDNN operators here"
)
needs_mkl = pytest.mark.skipif(not runs_here(MklKernel), reason="this torch has no MKL operators")
needs_bf16 = pytest.mark.skipif(
    not runs_here(OneDnnKernel, torch.bfloat16), reason="no bfloat16 in oneDNN here"
)
needs_int8 = pytest.mark.skipif(
    not runs_here(Int8Kernel), reason="this torch has no 8-bit operators here"
)
# kernel, dtype of the weight, and the largest relative error against float32
KERNELS = [
    pytest.param(PlainKernel, torch.float32, 1e-6, id="plain"),
    pytest.param(GroupedKernel, torch.float32, 1e-6, id="grouped"),
    pytest.param(MklKernel, torch.float32, 1e-6, id="mkl", marks=needs_mkl),
    pytest.param(OneDnnKernel, torch.float32, 1e-6, id="onednn", marks=needs_onednn),
    pytest.param(OneDnnKernel, torch.bfloat16, 1e-2, id="bf16", marks=needs_bf16),
    pytest.param(Int8Kernel, torch.float32, 2e-2, id="int8", marks=needs_int8),
]
SHAPES = [(1, 32), (5, 33), (3, 7, 64), (2, 100, 768), (0, 32)]


def relative_error(received: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the norm of the error divided by the norm of the expected result."""
    assert received.shape == expected.shape
    return float((received.float() - expected).norm() / expected.norm().clamp(min=1e-12))


@pytest.mark.parametrize(("kernel", "dtype", "tolerance"), KERNELS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("activation", [None, F.gelu, F.silu], ids=["none", "gelu", "silu"])
def test_a_kernel_is_a_linear_layer(kernel, dtype, tolerance, shape, activation) -> None:
    x, weight, bias = torch.randn(shape), torch.randn(48, shape[-1]), torch.randn(48)
    residual = torch.randn(*shape[:-1], 48)
    ours = kernel(weight.to(dtype), bias.to(dtype), activation)

    expected = F.linear(x, weight, bias)
    if activation is not None:
        expected = activation(expected)

    assert relative_error(ours(x.to(dtype)), expected) < tolerance
    assert relative_error(ours(x.to(dtype), residual.to(dtype)), expected + residual) < tolerance


@pytest.mark.parametrize(("kernel", "dtype", "tolerance"), KERNELS)
def test_inputs_are_not_changed_and_may_be_noncontiguous(kernel, dtype, tolerance) -> None:
    weight, bias = torch.randn(24, 40).to(dtype), torch.randn(24).to(dtype)
    x, residual = torch.randn(40, 9).to(dtype).t(), torch.randn(9, 24).to(dtype)
    copies = [t.clone() for t in (weight, bias, x, residual)]
    ours = kernel(weight, bias)

    received = ours(x, residual)

    expected = F.linear(x.float(), weight.float(), bias.float()) + residual.float()
    assert relative_error(received, expected) < tolerance
    assert all(
        torch.equal(t, copy) for t, copy in zip((weight, bias, x, residual), copies, strict=True)
    )


@pytest.mark.parametrize(("kernel", "dtype", "tolerance"), KERNELS)
def test_a_kernel_has_its_own_memory(kernel, dtype, tolerance) -> None:
    """The weights that a kernel was built from may change or be unmapped afterwards."""
    weight = torch.randn(24, 40).to(dtype)
    bias = torch.randn(24).to(dtype)
    x = torch.randn(9, 40).to(dtype)
    ours = kernel(weight, bias)
    before = ours(x)
    weight.zero_()
    bias.zero_()
    assert torch.equal(ours(x), before)


@pytest.mark.parametrize(("kernel", "dtype", "tolerance"), KERNELS[:-1])
def test_weights_are_restored_exactly(kernel, dtype, tolerance) -> None:
    weight = torch.randn(37, 50).to(dtype)
    assert torch.equal(kernel(weight, torch.randn(37).to(dtype)).weight(), weight)


@needs_int8
def test_8_bit_weights_are_rounded_only_once() -> None:
    weight = torch.randn(37, 50)
    weight[5] = 0.0
    largest = 63 if kernels.VNNI.isdisjoint(processor_features()) else 127
    step = weight.abs().amax(1, keepdim=True) / largest

    rounded = Int8Kernel(weight, torch.zeros(37)).weight()
    again = Int8Kernel(rounded, torch.zeros(37)).weight()

    assert ((rounded - weight).abs() <= 0.5001 * step).all()
    assert torch.allclose(again, rounded, rtol=1e-6, atol=0)


@needs_int8
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e4, 1e4), st.floats(1e-6, 1e4), st.integers(0, 3)),
        min_size=1,
        max_size=12,
    ),
    width=st.integers(1, 70),
    outputs=st.integers(1, 70),
)
def test_8_bit_tokens_do_not_affect_each_other(
    rows: list[tuple[float, float, int]], width: int, outputs: int
) -> None:
    """Each token has its own scale and offset, so other tokens do not change its result."""
    torch.manual_seed(0)
    offsets, sizes, kinds = (torch.tensor(column)[:, None] for column in zip(*rows, strict=True))
    x = torch.randn(len(rows), width) * sizes + offsets
    x = torch.where(kinds == 0, offsets.expand_as(x), x).float()  # some rows are constant
    weight, bias = torch.randn(outputs, width), torch.randn(outputs)
    ours = Int8Kernel(weight, bias)

    together = ours(x)
    alone = torch.cat([ours(row[None]) for row in x])

    assert torch.allclose(together, alone, rtol=1e-5, atol=1e-5)
    # |error| <= half a step of x times the sum of |w|, plus half a step of w times the sum of |x|.
    # The bound is twice as large, to allow for rounding.
    step = (x.amax(1, keepdim=True) - x.amin(1, keepdim=True)) / 255
    bound = (
        step * weight.abs().sum(1)
        + x.abs().sum(1, keepdim=True) * weight.abs().amax(1) / 127
        + 1e-3
    )
    assert ((together - F.linear(x, weight, bias)).abs() <= bound).all()


def test_a_kernel_without_its_operators_does_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    runs_here.cache_clear()
    monkeypatch.setattr(torch, "ops", types.SimpleNamespace(mkldnn=types.SimpleNamespace()))
    assert not runs_here(OneDnnKernel)
    assert not runs_here(Int8Kernel)
    assert runs_here(PlainKernel)
    runs_here.cache_clear()


def test_a_kernel_that_computes_something_else_does_not_run_here() -> None:
    class Wrong(PlainKernel):
        def product(self, x: torch.Tensor) -> torch.Tensor:
            return super().product(x) * 1.5

    class Refuses(Kernel):
        def product(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("could not create a primitive")

    assert not runs_here(Wrong)
    assert not runs_here(Refuses)


def test_processor_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """The features come from Linux, or else from PyTorch. An old PyTorch reports none."""
    if Path("/proc/cpuinfo").exists():
        assert processor_features() >= {"processor", ":"}
    processor_features.cache_clear()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not any(name.startswith(("avx512", "amx")) for name in processor_features())
    processor_features.cache_clear()
    monkeypatch.setattr(Path, "exists", lambda path: False)
    capabilities = {"avx2": True, "amx_bf16": False, "cpu_name": "Intel X", "num_sockets": 1}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert processor_features() == {"avx2", "Intel", "X"}
    processor_features.cache_clear()
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert processor_features() == frozenset()
    processor_features.cache_clear()


def test_8_bits_without_vnni_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2 adds two products of bytes in 16 bits, which the largest ones would overflow."""
    if not runs_here(Int8Kernel):
        pytest.skip("Int8Kernel does not run here")
    monkeypatch.setattr(kernels, "processor_features", lambda: frozenset({"avx2"}))
    weight = torch.ones(8, 64)  # all weights and inputs are the largest
    x = torch.cat([torch.ones(3, 63), torch.zeros(3, 1)], dim=1)
    kernel = Int8Kernel(weight, torch.zeros(8))
    assert torch.allclose(kernel(x), F.linear(x, weight), rtol=0.02)
    assert torch.allclose(kernel.weight(), weight, rtol=0.02)
