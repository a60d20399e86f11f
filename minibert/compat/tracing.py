"""Whether a call only records a graph, which has to be right for other values too."""

import torch
from torch import Tensor


def is_traced(tensor: Tensor) -> bool:
    """Whether `tensor` stands for values still unknown, so that no branch may depend on what it holds.

    So it is under `torch.compile`, `torch.export`, `torch.jit.trace` and both ways to ONNX, on the meta device, for
    fake tensors, and while a CUDA graph is being captured.
    """
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        or tensor.is_meta
        or type(tensor) is not Tensor
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )
