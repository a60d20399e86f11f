"""A copy of a model for inference: the same layers, run by kernels that suit the processor.

    fast = optimize(model)                       # float32
    fast = optimize(model, precision="int8")     # 8-bit weights and activations
    plain = unoptimize(fast)                     # an ordinary model again

It is the same stack of the same layers; only the parts of a layer are replaced. Query, key and value become one
product, weights are laid out in advance, GELU and residuals need no memory of their own. Embeddings, pooler and heads
stay. The sequences of a large batch are shared out among threads, each of which takes its own through all layers; many
batches are shared out whole.
"""

from __future__ import annotations

import copy
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.attention import AttentionFunction, BertSelfAttention, BertSelfOutput, sdpa_attention
from minibert.config import BertConfig
from minibert.encoder import BertEncoder, BertIntermediate, BertLayer, BertOutput
from minibert.inference.kernels import (
    Activation,
    Int8Kernel,
    Kernel,
    MklKernel,
    OneDnnKernel,
    PlainKernel,
    processor_features,
    runs_here,
)
from minibert.layouts import Layout, PackedLayout
from minibert.pretrained import Model, PreTrainedModel

PRECISIONS = ("fp32", "bf16", "int8")
# without one of these instruction sets the precision is slower than float32, which is used instead
NEEDED_FEATURES = {"bf16": {"avx512_bf16", "amx_bf16", "bf16"}, "int8": {"avx512_vnni", "avx_vnni", "amx_int8"}}
# a product keeps float32 where 8 bits change its results by more than this (norm of the error over norm of the result,
# on random words); trained BERTs have products whose inputs are a few huge numbers among thousands of small ones
MOST_INT8_ERROR = 0.05
# numbers in a vector register of 512 bits
KEYS_AT_ONCE = 16
# tokens that are worth a thread of their own: with fewer, threads do better to share the weights than the batch
SHARE_TOKENS = 128
# how much larger than the average the largest share may be: all wait for it
MOST_UNEVEN = 1.1
# batches for each thread from which on a thread takes whole ones: with fewer, too many would wait for the last
LEAST_BATCHES = 4

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def optimize(model: Model, precision: str = "fp32") -> Model:
    """A copy of `model` that computes the same faster, for inference only; `model` itself is not touched.

    The copy works wherever the model did (padded or packed, hidden states, attentions, saving); it cannot be trained,
    moved or cast. Its results differ in the last bits for "fp32", because sums are taken in another order. On the CPU
    "bf16" and "int8" need instructions for it; a processor without them runs float32 instead, and a warning says so.

    Its `state_dict` has the official names and plain float32 tensors. For "bf16" and "int8" these are the rounded
    weights that it computes with: keep the original if you want to train on.

    On the CPU a batch of several sequences and at least 256 tokens is shared out among `torch.get_num_threads()`
    threads, if they get even shares: each runs all layers on its own, so that none waits for the others after every
    operator. Forward hooks on layers then run in these threads, once for each share. `SentenceEmbedder` gives each
    thread whole batches when there are many.

    The copy holds every weight once, none of them memory-mapped; so after `model = optimize(model)` the mapped file is
    let go of.

    Args:
        model: any model of this package, on any device.
        precision: "fp32"; "bf16": the encoder in bfloat16; "int8": its products in 8-bit integers (weights with a
            scale for each output, activations with a scale for each token), those that would lose too much in float32.

    Raises:
        ValueError: an unknown precision, or not a model of this package.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision should be one of {', '.join(PRECISIONS)}, not {precision!r}.")
    if not isinstance(model, PreTrainedModel):
        raise ValueError(f"optimize takes a model of minibert, such as BertModel, not {type(model).__name__}.")
    if isinstance(model.base_model.encoder, FusedEncoder):
        model = unoptimize(model)
    with torch.no_grad():
        # the same modules over again on the same memory: what happens to these modules leaves the original alone
        shared = {id(w): nn.Parameter(w.float(), requires_grad=False) for w in model.parameters()}
        twin = copy.deepcopy(model, shared).eval()
        base = twin.base_model
        base.encoder = FusedEncoder(
            base.encoder, base.config, precision, _sample(base) if precision == "int8" else None
        )
        # one memory-mapped tensor would keep the whole file mapped, and what was read of it resident
        owned = {id(w): nn.Parameter(w.to(torch.float32, copy=True), requires_grad=False) for w in twin.parameters()}
    return copy.deepcopy(twin, {**owned, id(base.encoder): base.encoder})


def unoptimize(model: Model) -> Model:
    """An ordinary copy of an optimised model, in float32, that can be trained; the optimised one is not touched.

    Raises:
        ValueError: the model is not optimised.
    """
    encoder = model.base_model.encoder if isinstance(model, PreTrainedModel) else None
    if not isinstance(encoder, FusedEncoder):
        raise ValueError(f"This {type(model).__name__} is not optimised: there is nothing to undo.")
    return copy.deepcopy(model, {id(encoder): encoder.unfused()}).requires_grad_(True)


class FusedEncoder(BertEncoder):
    """The same stack of the same layers, the parts of each layer replaced by their `Fused` counterparts.

    Args:
        encoder: the encoder it computes like; it is not touched.
        config: its config.
        precision: as in `optimize`.
        sample: hidden states (tokens, hidden) to try 8 bits on.
    """

    def __init__(self, encoder: BertEncoder, config: BertConfig, precision: str, sample: Tensor | None = None) -> None:
        nn.Module.__init__(self)
        self.config, self.precision, self.sample = config, precision, sample
        self.gradient_checkpointing = False
        weight = next(encoder.parameters(), torch.empty(0))
        kernel, self.dtype = _choose(precision, weight.device)
        # memory to join weights in; one for all layers, or the holes it leaves would be a tenth of the model
        scratch = weight.new_empty(0)
        x, layout = sample, PackedLayout([] if sample is None else [len(sample)])
        layers = []
        for layer in encoder.layer:
            assert isinstance(layer, BertLayer)
            inputs: dict[nn.Module, Tensor] = {}
            if kernel is Int8Kernel and x is not None:
                x, inputs = _with_inputs(layer, x, layout)
            layers.append(_fused(layer, config, _Products(kernel, self.dtype, inputs, scratch)))
        self.layer = nn.ModuleList(layers)
        self.register_state_dict_post_hook(_in_float32)  # type: ignore[no-untyped-call]
        self.eval()

    def forward(
        self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction, keep_all: bool = False
    ) -> tuple[list[Tensor], list[Tensor]]:
        """As `BertEncoder.forward`; results are float32 whatever they were computed in."""
        if hidden_states.requires_grad and torch.is_grad_enabled():
            raise ValueError("An optimised model has no gradients: use the original, or unoptimize(model).")
        hidden_states = hidden_states.to(self.dtype)
        threads = torch.get_num_threads()
        shares = _shares(hidden_states, layout, threads) if attend is sdpa_attention else []
        if not shares:
            return self._run(hidden_states, layout, attend, keep_all)
        inference = torch.is_inference_mode_enabled()  # every thread has modes of its own

        def run(share: tuple[Tensor, Layout]) -> list[Tensor]:
            with torch.no_grad(), torch.inference_mode(inference):
                states, _ = self._run(*share, attend, keep_all)
            return states

        states = _workers(len(shares), threads, os.getpid()).map(run, shares)
        return [torch.cat(parts) for parts in zip(*states, strict=True)], []

    def _run(
        self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction, keep_all: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        """As `forward`, for a batch that is left whole."""
        on_cpu = hidden_states.device.type == "cpu" and hidden_states.dtype == torch.float32
        quick = on_cpu and attend is sdpa_attention and isinstance(layout, PackedLayout)
        with torch.autocast(hidden_states.device.type, enabled=False):  # kernels take the type they were made for
            chosen = packed_attention if quick else attend
            states, attentions = super().forward(hidden_states, layout, chosen, keep_all)
            if quick and not states[-1].sum().isfinite():  # 0 times NaN is NaN: neighbours would share it
                states, attentions = super().forward(hidden_states, layout, attend, keep_all)
        return [x.float() for x in states], [x.float() for x in attentions]

    def unfused(self) -> BertEncoder:
        """An ordinary encoder with these weights in float32."""
        with torch.device("meta"):
            encoder = BertEncoder(self.config.replace(num_hidden_layers=len(self.layer)))
        encoder.load_state_dict(self.state_dict(), assign=True)
        return encoder.eval()

    def train(self, mode: bool = True) -> FusedEncoder:
        """Refuses: there are no gradients, and no dropout."""
        if mode:
            raise ValueError("An optimised model cannot be trained: train the original, or unoptimize(model).")
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusedEncoder:
        # `.to`, `.half` and the like come through here; packed weights cannot follow
        for kernel in self._kernels()[:1]:
            before, after = kernel.bias, fn(kernel.bias)
            if (before.device, before.dtype) != (after.device, after.dtype):
                raise ValueError("An optimised model stays where and as it was made: move the original, then optimize.")
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # packed weights can be neither copied nor pickled; ordinary ones can, and are packed anew
        return FusedEncoder, (self.unfused(), self.config, self.precision, self.sample)

    def _kernels(self) -> list[Kernel]:
        return [module.kernel for module in self.modules() if isinstance(module, Fused)]

    def extra_repr(self) -> str:
        """What the products run as."""
        kinds = [type(kernel).__name__ for kernel in self._kernels()]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        return f"precision={self.precision!r}, {counts}"


def _shares(hidden_states: Tensor, layout: Layout, threads: int) -> list[tuple[Tensor, Layout]]:
    """The batch cut into even shares, as many as are worth a thread; none if it is better left whole."""
    if hidden_states.device.type != "cpu" or torch.compiler.is_compiling():
        return []
    tokens = hidden_states.shape[:-1]
    for count in range(min(threads, tokens.numel() // SHARE_TOKENS), 1, -1):
        if threads % count == 0:
            layouts, sizes = layout.split(tokens, count)
            if max(sizes) * count <= MOST_UNEVEN * sum(sizes):
                return list(zip(torch.split(hidden_states, sizes), layouts, strict=True))
    return []


def map_batches(model: PreTrainedModel, run: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """What `run` makes of each batch, in order.

    An optimised model on the CPU runs many batches side by side, each in a thread of its own, which waits for the
    others only at the end; a few run one after the other, each shared out among all threads.

    Args:
        model: what `run` calls.
        run: called in other threads, which have modes (`torch.inference_mode`) of their own.
        batches: about equally large.
    """
    threads = torch.get_num_threads()
    apart = isinstance(model.base_model.encoder, FusedEncoder) and model.device.type == "cpu"
    if not apart or threads == 1 or len(batches) < LEAST_BATCHES * threads:
        return map(run, batches)
    return _workers(threads, threads, os.getpid()).map(run, batches)


@cache
def _workers(count: int, threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that have torch's `threads` between them, kept because new ones are slow at first.

    In torch each thread has a number of threads for its operators. Setting it also sets that of all threads to come,
    and those that have not asked for theirs yet. A forked process has no threads but its first, so it needs workers of
    its own.
    """
    started = threading.Barrier(count)

    def start() -> None:
        torch.get_num_threads()  # asks, see above
        torch.set_num_threads(threads // count)
        started.wait()

    workers = ThreadPoolExecutor(count, "minibert", initializer=start)
    list(workers.map(abs, range(count)))  # now all have started
    torch.set_num_threads(threads)
    return workers


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> tuple[Tensor, Tensor | None]:
    """`sdpa_attention` of short sequences in a packed batch, in two thirds of its time.

    torch's float32 kernel for the CPU takes keys 16 at a time and those that are left over one by one. So it gets whole
    sixteens: the keys of a sequence and the first ones of its neighbour, which a mask hides. They lie next to each
    other, so nothing is copied; only the last run, which nothing follows, is taken as it is.
    """
    assert isinstance(layout, PackedLayout)
    contexts, start = [], 0
    for length, count in layout.runs:
        end = start + length * count
        most = -(-length // KEYS_AT_ONCE) * KEYS_AT_ONCE
        if end + most - length > len(key):
            most = length
        mask = None if most == length else (torch.arange(most) < length)[None, None, None]
        q, k, v = (
            x.as_strided(
                (count, x.shape[1], size, x.shape[2]),
                (length * x.stride(0), x.stride(1), x.stride(0), x.stride(2)),
                x.storage_offset() + start * x.stride(0),
            )
            for x, size in ((query, length), (key, most), (value, most))
        )
        contexts.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout))
        start = end
    return layout.join(contexts), None


class Fused(nn.Module):
    """A part of a layer whose linear layers share their input and run as one product, saved under their own names.

    Args:
        part: the part it computes like.
        names: its linear layers.
        products: makes the kernel.
        activation: what follows the product.
    """

    def __init__(
        self, part: nn.Module, names: list[str], products: _Products, activation: Activation | None = None
    ) -> None:
        nn.Module.__init__(self)
        self.names = names
        self.kernel = products.join([part.get_submodule(name) for name in names], activation)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for kind, joined in (("weight", self.kernel.weight()), ("bias", self.kernel.bias)):
            for name, tensor in zip(self.names, joined.chunk(len(self.names)), strict=True):
                destination[f"{prefix}{name}.{kind}"] = tensor


class FusedSelfAttention(Fused, BertSelfAttention):
    """`BertSelfAttention` with one product for query, key and value."""

    def __init__(self, part: BertSelfAttention, products: _Products) -> None:
        super().__init__(part, ["query", "key", "value"], products)
        self.num_attention_heads, self.dropout = part.num_attention_heads, part.dropout

    def project(self, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `BertSelfAttention.project`."""
        qkv = self.kernel(hidden_states)
        sizes = (3, self.num_attention_heads, qkv.shape[-1] // 3 // self.num_attention_heads)
        query, key, value = qkv.view(*qkv.shape[:-1], *sizes).unbind(-3)
        return query, key, value


class FusedIntermediate(Fused):
    """`BertIntermediate` with the activation in the product."""

    def __init__(self, part: BertIntermediate, products: _Products) -> None:
        super().__init__(part, ["dense"], products, part.activation)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """As `BertIntermediate.forward`."""
        return self.kernel(hidden_states)


class FusedOutput(Fused):
    """`BertSelfOutput` or `BertOutput` with the residual in the product."""

    def __init__(self, part: BertSelfOutput | BertOutput, products: _Products) -> None:
        super().__init__(part, ["dense"], products)
        self.LayerNorm = copy.deepcopy(part.LayerNorm).to(products.dtype)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """As `BertOutput.forward`."""
        hidden_states: Tensor = self.LayerNorm(self.kernel(x, residual))
        return hidden_states


FUSED_PARTS: dict[str, Callable[[Any, _Products], Fused]] = {
    "attention.self": FusedSelfAttention,
    "attention.output": FusedOutput,
    "intermediate": FusedIntermediate,
    "output": FusedOutput,
}


@dataclass
class _Products:
    """Makes the products of a layer: of which kernel and type, with samples of their inputs for `Int8Kernel`."""

    kernel: type[Kernel]
    dtype: torch.dtype
    inputs: dict[nn.Module, Tensor]
    scratch: Tensor

    def join(self, linears: list[nn.Module], activation: Activation | None) -> Kernel:
        """One kernel for linear layers with the same input; float32 where 8 bits would lose too much on the sample."""
        weights, biases = ([getattr(m, kind).detach() for m in linears] for kind in ("weight", "bias"))
        # a single weight is not copied, for a kernel reads it but once
        joined = torch.cat(weights, out=self.scratch) if len(weights) > 1 else weights[0]
        weight, bias = joined.to(self.dtype), torch.cat(biases).to(self.dtype)
        kernel, x = self.kernel, self.inputs.get(linears[0])
        if kernel is Int8Kernel and x is not None:
            exact, rounded = F.linear(x, weight), Int8Kernel(weight, torch.zeros_like(bias))(x)
            if torch.linalg.vector_norm(rounded - exact) > MOST_INT8_ERROR * torch.linalg.vector_norm(exact):
                kernel = _float_kernel(torch.float32)
        return kernel(weight, bias, activation)


def _fused(layer: BertLayer, config: BertConfig, products: _Products) -> BertLayer:
    """A layer whose every part is fused."""
    with torch.device("meta"):
        fused = BertLayer(config)
    for name, kind in FUSED_PARTS.items():
        fused.set_submodule(name, kind(layer.get_submodule(name), products))
    return fused


def _in_float32(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: dict[str, Any]) -> None:
    """What the encoder saved, as float32 copies: nothing that is done to them reaches the weights in use."""
    for name in [name for name in state if name.startswith(prefix)]:  # one at a time: no second set of all weights
        state[name] = state[name].to(torch.float32, copy=True)


def _choose(precision: str, device: torch.device) -> tuple[type[Kernel], torch.dtype]:
    """The kernel and the type of the weights that serve a precision best on this machine; says what it cannot do."""
    on_cpu = device.type == "cpu"
    if precision == "int8" and not on_cpu:
        _say_once(f"int8 runs on the CPU only: on {device.type} optimize uses bf16.")
        precision = "bf16"
    if on_cpu and precision != "fp32" and not processor_features() & NEEDED_FEATURES[precision]:
        needed = ", ".join(sorted(NEEDED_FEATURES[precision]))
        _say_once(
            f"This processor has no {precision} instructions ({needed}): optimize uses fp32, which is faster here."
        )
        precision = "fp32"
    if precision == "int8" and runs_here(Int8Kernel):
        return Int8Kernel, torch.float32
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    kernel = _float_kernel(dtype) if on_cpu else PlainKernel
    if on_cpu and (precision == "int8" or kernel is PlainKernel):
        _say_once(
            f"torch {torch.__version__} lacks operators that optimize needs for {precision} here: it uses others."
        )
    return kernel, dtype


def _float_kernel(dtype: torch.dtype) -> type[Kernel]:
    """The quickest kernel on this processor."""
    intel = processor_features() & {"GenuineIntel", "Intel"}
    if dtype == torch.float32 and intel and runs_here(MklKernel):
        return MklKernel
    return OneDnnKernel if runs_here(OneDnnKernel, dtype) else PlainKernel


def _sample(base: Any) -> Tensor:
    """Embeddings of random words, (tokens, hidden): always the same ones, so that the same model is always built."""
    config: BertConfig = base.config
    seq = min(32, config.max_position_embeddings)
    ids = torch.randint(config.vocab_size, (8, seq), generator=torch.Generator().manual_seed(0))
    states: Tensor = base.embeddings(ids.to(base.device))
    return states.flatten(0, 1)


def _with_inputs(layer: BertLayer, x: Tensor, layout: Layout) -> tuple[Tensor, dict[nn.Module, Tensor]]:
    """What a layer makes of `x`, and what each of its linear layers got on the way."""
    inputs: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        inputs[module] = arguments[0]

    hooks = [module.register_forward_pre_hook(keep) for module in layer.modules() if isinstance(module, nn.Linear)]
    y, _ = layer(x, layout, sdpa_attention)
    for hook in hooks:
        hook.remove()
    return y, inputs


@cache
def _say_once(message: str) -> None:
    warnings.warn(message, stacklevel=5)
