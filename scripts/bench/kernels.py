"""Measures the kernels that `optimize` chooses from: GFLOP/s by shape, rows and threads.

Run it alone on the machine:

    python scripts/bench/kernels.py

On a processor with AVX-512, this is how the others compute (torch and its libraries are told so):

    ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 python ...

Each figure is the best of many runs. `minibert.inference.kernels.float_kernel` says what follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from minibert.inference.kernels import (
    GroupedKernel,
    Int8Kernel,
    Kernel,
    MklKernel,
    OneDnnKernel,
    PlainKernel,
    float_kernel,
    runs_here,
)

KERNELS: tuple[type[Kernel], ...] = (
    PlainKernel,
    GroupedKernel,
    MklKernel,
    OneDnnKernel,
    Int8Kernel,
)
SHAPES = {
    "base": ((768, 2304), (768, 768), (768, 3072), (3072, 768)),
    "MiniLM": ((384, 1152), (384, 384), (384, 1536), (1536, 384)),
}
ROWS = (8, 16, 32, 64, 128, 256, 512, 1024)


def best_seconds(call: Callable[[], object], duration: float = 0.1) -> float:
    """Returns the shortest time of a call within a while."""
    call()
    times = []
    end = time.perf_counter() + duration
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@torch.inference_mode()
def speed(kernel_class: type[Kernel], inputs: int, outputs: int, rows: int) -> float:
    """Returns the GFLOP/s of a product of (rows, inputs) by (outputs, inputs)."""
    kernel = kernel_class(torch.randn(outputs, inputs), torch.randn(outputs))
    x = torch.randn(rows, inputs)
    return 2e-9 * rows * inputs * outputs / best_seconds(lambda: kernel(x))


def products_limit(hidden: int, intermediate: int, rows: int = 1024) -> float:
    """Returns the GFLOP/s that the products of a layer reach alone, with the kernel chosen here.

    An encoder that took no time for anything else would be as fast.
    """
    kernel_class = float_kernel(torch.float32)
    shapes = (
        (hidden, 3 * hidden),
        (hidden, hidden),
        (hidden, intermediate),
        (intermediate, hidden),
    )
    seconds = [a * b / speed(kernel_class, a, b, rows) for a, b in shapes]
    return sum(a * b for a, b in shapes) / sum(seconds)


def main() -> None:
    """Prints a table for one thread and one for two."""
    print(f"torch uses {torch.backends.cpu.get_cpu_capability()}")
    available = [kernel for kernel in KERNELS if runs_here(kernel)]
    print("GFLOP/s of", " / ".join(kernel.__name__ for kernel in available))
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for model, shapes in SHAPES.items():
            for rows in ROWS:
                cells = []
                for inputs, outputs in shapes:
                    speeds = [speed(kernel, inputs, outputs, rows) for kernel in available]
                    cells.append("/".join(f"{value:.0f}" for value in speeds))
                print(f"{threads} threads, {model}, {rows:4} rows:", "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
