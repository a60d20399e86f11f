"""A copy of a model for inference: the same layers, run by kernels that suit the processor.

    fast = optimize(model)                       # float32
    fast = optimize(model, precision="int8")     # 8-bit weights and activations
    plain = unoptimize(fast)                     # an ordinary model again

Only the encoder changes, where nearly all the work is: query, key and value become one product, weights are laid out
in advance, GELU and residuals are added while a product is written. Embeddings, pooler and heads stay as they are.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.attention import AttentionFunction, sdpa_attention
from minibert.checkpoint import Model, PreTrainedModel
from minibert.config import BertConfig
from minibert.encoder import BertEncoder, BertLayer
from minibert.kernels import (
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

PRECISIONS = ("fp32", "bf16", "int8")
# without one of these instruction sets the precision is slower than float32, which is used instead
NEEDED_FEATURES = {"bf16": {"avx512_bf16", "amx_bf16", "bf16"}, "int8": {"avx512_vnni", "avx_vnni", "amx_int8"}}
# a product keeps float32 where 8 bits change its results by more than this (norm of the error over norm of the result,
# on random words); trained BERTs have products whose inputs are a few huge numbers among thousands of small ones
MOST_INT8_ERROR = 0.05

# a product of the fused layer -> the linear layers it stands for, which share their input
PRODUCTS = {
    "qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention_output": ("attention.output.dense",),
    "intermediate": ("intermediate.dense",),
    "output": ("output.dense",),
}
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")


def optimize(model: Model, precision: str = "fp32") -> Model:
    """A copy of `model` that computes the same faster, for inference only; `model` itself is not touched.

    The copy works wherever the model did (padded or packed, hidden states, attentions, saving); it cannot be trained,
    moved or cast. Its results differ in the last bits for "fp32", because sums are taken in another order. On the CPU
    "bf16" and "int8" need instructions for it; a processor without them runs float32 instead, and a warning says so.

    Its `state_dict` has the official names and plain float32 tensors. For "bf16" and "int8" these are the rounded
    weights that it computes with: keep the original if you want to train on.

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
    encoder = model.base_model.encoder
    if not isinstance(encoder, FusedEncoder):
        raise ValueError(f"This {type(model).__name__} is not optimised: there is nothing to undo.")
    return copy.deepcopy(model, {id(encoder): encoder.unfused()}).requires_grad_(True)


class FusedEncoder(nn.Module):
    """The stack of layers for inference, called like `BertEncoder`.

    Args:
        encoder: the encoder it computes like; it is not touched.
        config: its config.
        precision: as in `optimize`.
        sample: hidden states (tokens, hidden) to try 8 bits on.
    """

    def __init__(self, encoder: BertEncoder, config: BertConfig, precision: str, sample: Tensor | None = None) -> None:
        super().__init__()
        self.config = config.replace(num_hidden_layers=len(encoder.layer))
        self.precision = precision
        self.sample = sample
        weight = next(encoder.parameters(), torch.empty(0))
        kernel, self.dtype = _choose(precision, weight.device)
        self.layers: list[FusedLayer] = []
        scratch = weight.new_empty(0)
        x, layout = sample, PackedLayout([] if sample is None else [len(sample)])
        for layer in encoder.layer:
            assert isinstance(layer, BertLayer)
            inputs: dict[nn.Module, Tensor] = {}
            if kernel is Int8Kernel and x is not None:
                x, inputs = _with_inputs(layer, x, layout)
            self.layers.append(FusedLayer(layer, kernel, self.dtype, inputs, scratch))
        self.eval()

    def forward(
        self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction, keep_all: bool = False
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Runs every layer, as `BertEncoder.forward` does; results are float32 whatever they were computed in."""
        if hidden_states.requires_grad and torch.is_grad_enabled():
            raise ValueError("An optimised model has no gradients: use the original, or unoptimize(model).")
        hidden_states = hidden_states.to(self.dtype)
        kept, attentions = [], []
        for layer in self.layers:
            if keep_all:
                kept.append(hidden_states)
            hidden_states, weights = layer(hidden_states, layout, attend)
            if weights is not None:
                attentions.append(weights.float())
        return [states.float() for states in (*kept, hidden_states)], attentions

    def unfused(self) -> BertEncoder:
        """An ordinary encoder with these weights in float32."""
        with torch.device("meta"):
            encoder = BertEncoder(self.config)
        encoder.load_state_dict(self.state_dict(), assign=True)
        return encoder.eval()

    def train(self, mode: bool = True) -> FusedEncoder:
        """Refuses: there are no gradients, and no dropout."""
        if mode:
            raise ValueError("An optimised model cannot be trained: train the original, or unoptimize(model).")
        return super().train(mode)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for number, layer in enumerate(self.layers):
            destination.update({f"{prefix}layer.{number}.{name}": x for name, x in layer.official_weights().items()})

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusedEncoder:
        # `.to`, `.half` and the like come through here; packed weights cannot follow
        for layer in self.layers[:1]:
            before, after = layer.qkv.bias, fn(layer.qkv.bias)
            if (before.device, before.dtype) != (after.device, after.dtype):
                raise ValueError("An optimised model stays where and as it was made: move the original, then optimize.")
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # packed weights can be neither copied nor pickled; ordinary ones can, and are packed anew
        return FusedEncoder, (self.unfused(), self.config, self.precision, self.sample)

    def extra_repr(self) -> str:
        """What each product runs as."""
        kinds = [type(kernel).__name__ for layer in self.layers for kernel in layer.kernels().values()]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        return f"precision={self.precision!r}, {len(self.layers)} layers, {counts}"


class FusedLayer:
    """One encoder layer as four products.

    Args:
        layer: the layer it computes like.
        kernel: what to make its products of.
        dtype: type of the weights and of the hidden states.
        inputs: a sample of what each linear layer gets, for `Int8Kernel`.
        scratch: memory to join weights in; one for all layers, or the holes it leaves would be a tenth of the model.
    """

    def __init__(
        self,
        layer: BertLayer,
        kernel: type[Kernel],
        dtype: torch.dtype,
        inputs: dict[nn.Module, Tensor],
        scratch: Tensor,
    ) -> None:
        def product(name: str, activation: Activation | None = None) -> Kernel:
            linears = [layer.get_submodule(linear) for linear in PRODUCTS[name]]
            weights, biases = ([getattr(m, kind).detach() for m in linears] for kind in ("weight", "bias"))
            # a single weight is not copied, for a kernel reads it but once
            weight = torch.cat(weights, out=scratch) if len(weights) > 1 else weights[0]
            return _careful(kernel, weight.to(dtype), torch.cat(biases).to(dtype), activation, inputs.get(linears[0]))

        self.heads = layer.attention.self.num_attention_heads
        self.qkv = product("qkv")
        self.attention_output = product("attention_output")
        self.intermediate = product("intermediate", layer.intermediate.activation)
        self.output = product("output")
        self.norms = [Norm(layer.get_submodule(name), dtype) for name in NORMS]

    def __call__(
        self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction
    ) -> tuple[Tensor, Tensor | None]:
        """(..., hidden) to (..., hidden), and the attention probabilities if `attend` gives any."""
        qkv = self.qkv(hidden_states)
        query, key, value = qkv.view(*qkv.shape[:-1], 3, self.heads, -1).unbind(-3)
        context, weights = attend(query, key, value, layout, 0.0)
        hidden_states = self.norms[0](self.attention_output(context, hidden_states))
        return self.norms[1](self.output(self.intermediate(hidden_states), hidden_states)), weights

    def kernels(self) -> dict[str, Kernel]:
        """The products by name."""
        return {name: getattr(self, name) for name in PRODUCTS}

    def official_weights(self) -> dict[str, Tensor]:
        """Every weight in float32, by its name in a `BertLayer`."""
        weights = {}
        for name, kernel in self.kernels().items():
            linears = PRODUCTS[name]
            for kind, joined in (("weight", kernel.weight()), ("bias", kernel.bias)):
                for linear, part in zip(linears, joined.chunk(len(linears)), strict=True):
                    weights[f"{linear}.{kind}"] = part.to(torch.float32, copy=True)
        for name, norm in zip(NORMS, self.norms, strict=True):
            weights[f"{name}.weight"], weights[f"{name}.bias"] = norm.weight.float(), norm.bias.float()
        return weights


class Norm:
    """LayerNorm with its own copy of the weights."""

    def __init__(self, norm: nn.Module, dtype: torch.dtype) -> None:
        assert isinstance(norm, nn.LayerNorm)
        self.weight, self.bias = (p.detach().to(dtype, copy=True) for p in (norm.weight, norm.bias))
        self.shape, self.eps = norm.normalized_shape, norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        """(..., hidden) to (..., hidden)."""
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


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


def _careful(
    kernel: type[Kernel], weight: Tensor, bias: Tensor, activation: Activation | None, x: Tensor | None
) -> Kernel:
    """A kernel of this type, or a float32 one where 8 bits would lose too much on the sample `x`."""
    if kernel is Int8Kernel and x is not None:
        exact, rounded = F.linear(x, weight), Int8Kernel(weight, torch.zeros_like(bias))(x)
        if torch.linalg.vector_norm(rounded - exact) > MOST_INT8_ERROR * torch.linalg.vector_norm(exact):
            kernel = _float_kernel(torch.float32)
    return kernel(weight, bias, activation)


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
