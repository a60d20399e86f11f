"""Compares the optimized encoder with transformers, ONNX Runtime and OpenVINO.

All models have the size of bert-base and random weights.
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from bench.timing import added_memory, interleaved, row
from torch import Tensor

from minibert import BertConfig, BertModel, PackedLayout, optimize
from minibert.inference.kernels import (
    NEEDED_FEATURES,
    Int8Kernel,
    MklKernel,
    OneDnnKernel,
    processor_features,
    runs_here,
)

# (batch, seq) -> lowest acceptable ratio to each peer in float32
SHAPES: dict[tuple[int, int], dict[str, float]] = {
    (1, 16): {"transformers": 2.3, "torch.compile": 1.5, "ONNX Runtime": 1.0, "OpenVINO": 0.9},
    (8, 128): {"transformers": 1.12, "torch.compile": 1.1, "ONNX Runtime": 1.1, "OpenVINO": 1.03},
    (4, 512): {"transformers": 1.12, "torch.compile": 1.1, "ONNX Runtime": 1.1, "OpenVINO": 1.03},
}
# (input, output) dimensions of the matrix products in a layer of bert-base
PRODUCTS = [(768, 2304), (768, 768), (768, 3072), (3072, 768)]
Run = Callable[[Tensor, Tensor], Any]


def encoder_speed(repeats: int = 9) -> Iterator[dict[str, Any]]:
    """Yields rows for every shape, precision and peer, and for the GEMM peak and memory."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        BertModel(BertConfig.from_preset("base")).save_pretrained(folder)
        yield memory(folder)
        # the peers compute hidden states only
        model = BertModel.from_pretrained(folder, add_pooling_layer=False)
        peers = fp32_peers(folder)
        fast = optimize(model)
        for (batch, seq), targets in SHAPES.items():
            yield from padded(fast, peers, batch, seq, targets, repeats)
        yield share_of_peak(fast, repeats)
        yield from packed(fast, peers["transformers"], repeats)
        del peers, fast
        yield low_precision(model, folder, "int8", (8, 128), 1.35, repeats)
        yield low_precision(model, folder, "int8", (1, 16), 1.3, repeats)
        yield low_precision(model, folder, "bf16", (8, 128), 1.0, repeats)


def fp32_peers(folder: str) -> dict[str, Run]:
    """Returns each peer as a function of ids and mask that computes hidden states."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    reference = transformers.BertModel.from_pretrained(
        folder, attn_implementation="sdpa", add_pooling_layer=False
    ).eval()
    export(reference, onnx_file(folder))
    compiled = torch.compile(reference, dynamic=False)
    return {
        "transformers": lambda ids, mask: reference(ids, mask).last_hidden_state,
        "torch.compile": lambda ids, mask: compiled(ids, mask).last_hidden_state,
        "ONNX Runtime": onnx_runtime(onnx_file(folder)),
        "OpenVINO": openvino(onnx_file(folder), "f32"),
    }


def onnx_file(folder: str) -> str:
    """Returns the path of the exported model."""
    return str(Path(folder, "model.onnx"))


def export(model: Any, path: str) -> None:
    """Exports a transformers model to ONNX with a dynamic batch size and sequence length."""

    class HiddenStates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            states: Tensor = self.model(input_ids, attention_mask).last_hidden_state
            return states

    ids = torch.randint(5, 1000, (2, 17))
    sizes = {
        0: torch.export.Dim("batch", min=1, max=4096),
        1: torch.export.Dim("seq", min=2, max=512),
    }
    torch.onnx.export(
        HiddenStates(),
        (ids, torch.ones_like(ids)),
        path,
        input_names=["input_ids", "attention_mask"],
        output_names=["hidden_states"],
        dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
        dynamo=True,
        verbose=False,
    )


def onnx_runtime(path: str) -> Run:
    """Loads a model into ONNX Runtime with all graph optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(
        None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    )[0]


def openvino(path: str, precision: str) -> Run:
    """Compiles a model with OpenVINO for low latency."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(path, "CPU", settings)

    def run(ids: Tensor, mask: Tensor) -> Any:
        inputs = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        return compiled(inputs, share_inputs=True, share_outputs=True)[0]

    return run


def padded(
    fast: BertModel,
    peers: dict[str, Run],
    batch: int,
    seq: int,
    targets: dict[str, float],
    repeats: int,
) -> list[dict[str, Any]]:
    """Compares fp32 with every peer on one batch without padding.

    `torch.compile` is left out if no C++ compiler is installed.
    """
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        peers = {name: run for name, run in peers.items() if name != "torch.compile"}
    ids = torch.randint(5, 30000, (batch, seq))
    mask = torch.ones_like(ids)
    work: dict[str, Run] = {**peers, "minibert": fast}
    seconds = passes(work, ids, mask, repeats)
    return [
        row(
            f"base, {batch}x{seq} tokens, fp32",
            seconds["minibert"],
            name,
            seconds[name],
            targets[name],
            largest_difference=difference(fast(ids, mask).last_hidden_state, run(ids, mask)),
        )
        for name, run in peers.items()
    ]


def passes(work: dict[str, Run], ids: Tensor, mask: Tensor, repeats: int) -> dict[str, list[float]]:
    """Measures the seconds of a forward pass of each model, or the mean of several short ones."""
    calls = max(1, 100 // ids.numel() * 2)
    again = {
        name: lambda run=run: [run(ids, mask) for _ in range(calls)] for name, run in work.items()
    }
    return {
        name: [s / calls for s in seconds]
        for name, seconds in interleaved(again, repeats, warmup=2).items()
    }


def difference(ours: Tensor, theirs: Any) -> float:
    """Returns the largest absolute difference. `theirs` is a tensor or a NumPy array."""
    return float((ours - torch.as_tensor(theirs)).abs().max())


def packed(fast: BertModel, reference: Run, repeats: int) -> Iterator[dict[str, Any]]:
    """Compares on 64 texts of log-normal length in random order, which minibert packs.

    The peer is timed twice: with one batch padded to the longest text, and with texts sorted by
    length in batches of eight, each padded to its own longest text.
    """
    lengths = torch.randn(64).mul(0.8).add(math.log(27)).exp().round().clamp(3, 256).long()
    ids = torch.randint(5, 30000, (64, int(lengths.max())))
    mask = (torch.arange(ids.shape[1])[None] < lengths[:, None]).long()

    def ours() -> Tensor:
        order = lengths.argsort(descending=True)
        layout = PackedLayout(lengths[order].tolist())
        states: Tensor = fast(ids[order][mask[order].bool()], layout=layout).last_hidden_state
        return states

    def sorted_batches() -> list[Any]:
        results = []
        for rows in lengths.argsort(descending=True).split(8):
            longest = int(lengths[rows].max())
            results.append(reference(ids[rows, :longest], mask[rows, :longest]))
        return results

    work: dict[str, Callable[[], Any]] = {
        "ours": ours,
        "padded": lambda: reference(ids, mask),
        "sorted": sorted_batches,
    }
    seconds = interleaved(work, repeats)
    average = float(lengths.float().mean())
    name = f"base, 64 texts of 3 to {int(lengths.max())} tokens ({average:.0f} on average), fp32"
    yield row(name, seconds["ours"], "transformers, padded", seconds["padded"], 4.5)
    peer = "transformers, sorted by length in batches of 8"
    yield row(name, seconds["ours"], peer, seconds["sorted"], None)


def share_of_peak(fast: BertModel, repeats: int, batch: int = 8, seq: int = 128) -> dict[str, Any]:
    """Compares the FLOP/s of a forward pass with those of the fastest matrix product here."""
    ids = torch.randint(5, 30000, (batch, seq))
    candidates = products()
    seconds = interleaved({**candidates, "pass": lambda: fast(ids)}, repeats, warmup=2)
    gemm = 2 * 2048 * sum(inputs * outputs for inputs, outputs in PRODUCTS)
    peaks = {name: gemm / statistics.median(seconds[name]) / 1e9 for name in candidates}
    best = max(peaks, key=lambda name: peaks[name])
    weights = 12 * sum(inputs * outputs for inputs, outputs in PRODUCTS)
    attention = 12 * 2 * 768 * seq  # scores and context, for each token
    work = 2 * (weights + attention) * batch * seq
    shares = [
        work / gemm * peak / ours for peak, ours in zip(seconds[best], seconds["pass"], strict=True)
    ]
    return {
        "work": f"base, {batch}x{seq}, fp32: share of the GEMM peak",
        "share": statistics.median(shares),
        "least": 0.88,
        "gflops": work / statistics.median(seconds["pass"]) / 1e9,
        "peak_gflops": peaks[best],
        "peak_by": best,
    }


def products() -> dict[str, Callable[[], Any]]:
    """Returns the products of a bert-base layer with 2048 rows, for each float32 kernel."""
    inputs = {width: torch.randn(2048, width) for width in (768, 3072)}
    weights = [torch.randn(n, k) for k, n in PRODUCTS]
    plain: dict[str, Callable[[], Any]] = {
        "mm": lambda: [torch.mm(inputs[w.shape[1]], w.t()) for w in weights],
        "linear": lambda: [F.linear(inputs[w.shape[1]], w, w[:, 0]) for w in weights],
    }
    for name, kernel in (("oneDNN, prepacked", OneDnnKernel), ("MKL, packed", MklKernel)):
        if runs_here(kernel):
            pairs = [(kernel(w, w[:, 0]), inputs[w.shape[1]]) for w in weights]
            plain[name] = lambda pairs=pairs: [packed.product(x) for packed, x in pairs]
    return plain


def low_precision(
    model: BertModel,
    folder: str,
    precision: str,
    shape: tuple[int, int],
    target: float,
    repeats: int,
) -> dict[str, Any]:
    """Compares int8 with ONNX Runtime's dynamic int8, or bf16 with OpenVINO's.

    The row also has the relative error of both against float32.
    """
    work = f"base, {shape[0]}x{shape[1]} tokens, {precision}"
    runs = precision != "int8" or runs_here(Int8Kernel)
    if not runs or not processor_features() & NEEDED_FEATURES[precision]:
        return {"work": work, "skipped": "this processor has no instructions for it"}
    fast = optimize(model, precision=precision)
    name, peer = (
        ("ONNX Runtime, dynamic int8", onnx_runtime(quantized(folder)))
        if precision == "int8"
        else ("OpenVINO bf16", openvino(onnx_file(folder), "bf16"))
    )
    ids = torch.randint(5, 30000, shape)
    mask = torch.ones_like(ids)
    seconds = passes({"ours": fast, "peer": peer}, ids, mask, repeats)
    exact = model(ids, mask).last_hidden_state
    return row(
        work,
        seconds["ours"],
        name,
        seconds["peer"],
        target,
        error=relative_error(fast(ids, mask).last_hidden_state, exact),
        peer_error=relative_error(torch.as_tensor(peer(ids, mask)), exact),
    )


def quantized(folder: str) -> str:
    """Quantizes the exported model to int8 with ONNX Runtime: dynamic, with per-channel scales."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = str(Path(folder, "int8.onnx"))
    quantize_dynamic(onnx_file(folder), path, weight_type=QuantType.QInt8, per_channel=True)
    return path


def relative_error(received: Tensor, exact: Tensor) -> float:
    """Returns the norm of the error divided by the norm of the exact result."""
    return float((received - exact).norm() / exact.norm())


def memory(folder: str) -> dict[str, Any]:
    """Measures the resident memory of an optimized float32 model."""
    size = Path(folder, "model.safetensors").stat().st_size / 1e6
    return {
        "work": "base, fp32: resident memory after optimize",
        "times_the_file": added_memory(folder, "fp32") / size,
        "most": 1.15,
    }
