"""The encoder for inference: the same stack of the same layers, each run by four kernels."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from minibert.attention import (
    AttentionFunction,
    AttentionOutput,
    BertAttention,
    BertSelfAttention,
    BertSelfOutput,
    sdpa_attention,
)
from minibert.config import BertConfig
from minibert.encoder import BertEncoder, BertIntermediate, BertLayer, BertOutput
from minibert.inference.attention import bf16_attention, packed_attention
from minibert.inference.batching import rounded_rows
from minibert.inference.kernels import (
    Activation,
    Int8Kernel,
    Kernel,
    choose_kernel,
    float_kernel,
    has_instructions,
)
from minibert.inference.threads import ContentionDetector, even_shares, workers
from minibert.layouts import (
    UNMASKED,
    Layout,
    LayoutOrMask,
    PackedLayout,
    as_layout,
    is_traced,
)
from minibert.outputs import BertModelOutput

# a product keeps float32 where 8 bits change its results by more than this (norm of the error over norm of the result,
# on random words); trained BERTs have products whose inputs are a few huge numbers among thousands of small ones
MAX_INT8_ERROR = 0.05
# tokens of sequences from which on attention is quicker in bfloat16, though queries, keys and values are float32
LONG = 64


def _not_compiled(forward: Callable[..., BertModelOutput]) -> Callable[..., BertModelOutput]:
    """Keeps torch.compile from what is compiled already; the rest of a model can be.

    It is what `torch.compiler.disable` does, whose import takes as long as torch's own, for those who have imported it.
    """

    @wraps(forward)
    def called(*args: Any, **kwargs: Any) -> BertModelOutput:
        if "torch._dynamo" not in sys.modules:
            return forward(*args, **kwargs)
        output: BertModelOutput = torch.compiler.disable(forward)(*args, **kwargs)  # type: ignore[no-untyped-call]
        return output

    return called


class FusedEncoder(BertEncoder):
    """The stack of an encoder, which is not touched, each layer a `FusedLayer`.

    `sample` are hidden states, (tokens, hidden), to try 8 bits on.
    """

    def __init__(
        self, encoder: BertEncoder, config: BertConfig, precision: str, sample: Tensor | None = None
    ) -> None:
        nn.Module.__init__(self)
        self.config, self.precision, self.sample = config, precision, sample
        self.gradient_checkpointing = False
        weight = next(encoder.parameters(), torch.empty(0))
        kernel, self.dtype = choose_kernel(precision, weight.device)
        # memory to join weights in; one for all layers, or the holes it leaves would be a tenth of the model
        scratch = weight.new_empty(0)
        x, layout = sample, PackedLayout([] if sample is None else [len(sample)])
        layers = []
        for index, layer in enumerate(encoder.layer):
            _check_parts(layer, f"encoder.layer.{index}")
            assert isinstance(layer, BertLayer)
            inputs: tuple[Tensor | None, ...] = (None,) * 4
            if kernel is Int8Kernel and x is not None:
                x, inputs = _with_inputs(layer, x, layout)
            layers.append(FusedLayer(layer, inputs, kernel, self.dtype, scratch))
        self.layer = nn.ModuleList(layers)
        self.contention = ContentionDetector()
        self.eval()

    @_not_compiled
    def forward(
        self,
        hidden_states: Tensor,
        layout: LayoutOrMask = UNMASKED,
        attend: AttentionFunction = sdpa_attention,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        attention_mask: Tensor | None = None,
    ) -> BertModelOutput:
        """As `BertEncoder.forward`; results are float32 whatever the products were computed in."""
        if hidden_states.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                "An optimised model has no gradients: use the original, or unoptimize(model)."
            )
        if is_traced(hidden_states) and hidden_states.device.type == "cpu":
            raise ValueError(
                "An optimised model is not exported: load it with precision=None, or unoptimize(model)."
            )
        if attention_mask is not None:
            layout = attention_mask
        layout = as_layout(layout, hidden_states)
        hidden_states = hidden_states.float()
        options = (output_hidden_states, output_attentions)
        inference = torch.is_inference_mode_enabled()

        def run(share: tuple[Tensor, Layout]) -> BertModelOutput:
            with (
                torch.no_grad(),
                torch.inference_mode(inference),
            ):  # every thread has modes of its own
                return self._run(*share, attend, *options)

        shares = even_shares(hidden_states, layout) if attend is sdpa_attention else []
        if not shares:
            return self._run(hidden_states, layout, attend, *options)
        parts = list(workers(len(shares), torch.get_num_threads(), os.getpid()).map(run, shares))
        return tree_map(lambda *tensors: torch.cat(tensors), *parts)  # type: ignore[no-any-return]

    def _run(
        self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction, *options: Any
    ) -> BertModelOutput:
        """As `forward`, for a batch that is left whole."""
        kind, shape, rows = (
            hidden_states.device.type,
            hidden_states.shape,
            hidden_states.shape[:-1].numel(),
        )
        _, output_attentions = options
        # hooks see the batch as it came, and attention probabilities are those of a padded one
        if kind == "cpu" and not output_attentions and not self.has_hooks:
            hidden_states, layout = as_rows(hidden_states, layout)
        run = super().forward
        quickest = self._attention(hidden_states, layout) if attend is sdpa_attention else attend
        # kernels take the type they were made for
        with without_autocast(kind):
            output = run(hidden_states, layout, quickest, *options)
            # 0 times NaN is NaN: neighbours would share it
            if (
                quickest is packed_attention
                and isinstance(layout, PackedLayout)
                and len(layout.lengths) > 1
            ):
                if not output.last_hidden_state.sum().isfinite():
                    output = run(hidden_states, layout, attend, *options)
        if output.last_hidden_state.shape == shape:
            return output
        return tree_map(lambda states: states[:rows].view(shape), output)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def compile_products(self, rows: int) -> None:
        """Lets oneDNN compile the products of batches of up to so many rows, for as many threads as torch has here."""
        every: Any = self.layer
        layers = {
            tuple(map(type, layer.kernels)): layer for layer in every
        }.values()  # equal ones share products

        def attend(
            query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
        ) -> AttentionOutput:
            return value.flatten(-2), None

        # the largest first: the memory that its results leave free is enough for all others
        for size in sorted({rounded_rows(number) for number in range(1, rows + 1)}, reverse=True):
            for layer in layers:
                layer(
                    torch.zeros(size, self.config.hidden_size, dtype=torch.float32, device="cpu"),
                    attend=attend,
                )

    @property
    def is_compiled(self) -> bool:
        """Whether oneDNN compiles products for each number of rows."""
        return any(kernel.is_compiled for kernel in self._kernels())

    @property
    def has_hooks(self) -> bool:
        """Whether a layer has forward hooks."""
        return any(layer._forward_hooks or layer._forward_pre_hooks for layer in self.layer)

    def _attention(self, hidden_states: Tensor, layout: Layout) -> AttentionFunction:
        """The quickest for this batch."""
        if hidden_states.device.type != "cpu":
            return sdpa_attention
        if self.dtype == torch.bfloat16:
            return bf16_attention
        if self.precision == "int8" and has_instructions("bf16"):
            length = float(hidden_states.shape[1])
            if isinstance(layout, PackedLayout):  # the length of an average token's sequence
                length = sum(n * n for n in layout.lengths) / max(1, len(hidden_states))
            if length >= LONG:
                return bf16_attention
        return (
            packed_attention
            if isinstance(layout, PackedLayout) and layout.mask is None
            else sdpa_attention
        )

    def unfused(self) -> BertEncoder:
        """An ordinary encoder with these weights in float32."""
        weights = self.state_dict()
        with torch.device("meta"):
            encoder = BertEncoder(self.config.replace(num_hidden_layers=len(self.layer)))
        encoder.load_state_dict(weights, assign=True)
        return encoder.eval()

    def train(self, mode: bool = True) -> FusedEncoder:
        """Refuses: there are no gradients, and no dropout."""
        if mode:
            raise ValueError(
                "An optimised model cannot be trained: train the original, or unoptimize(model)."
            )
        return super().train(mode)

    def _refuse_quantization(self, _: Any) -> None:
        raise ValueError(
            "Nothing is left to quantise in an optimised model: optimize(model, precision='int8') has 8 bits, or "
            "load it with precision=None."
        )

    qconfig = property(fset=_refuse_quantization)  # which torch.ao.quantization gives every module

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusedEncoder:
        # `.to`, `.half` and the like come through here; packed weights cannot follow
        for kernel in self._kernels()[:1]:
            before, after = kernel.bias, fn(kernel.bias)
            if (before.device, before.dtype) != (after.device, after.dtype):
                raise ValueError(
                    "An optimised model cannot be moved or cast: do so with the original, then optimize."
                )
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # packed weights can be neither copied nor pickled; ordinary ones can, and are packed anew. They go as bytes: a
        # spawned process would get tensors as file descriptors, which close before it starts, as nobody holds them
        return _packed_again, (
            pickle.dumps((self.unfused(), self.config, self.precision, self.sample)),
        )

    def _kernels(self) -> list[Kernel]:
        layers: Any = self.layer
        return [kernel for layer in layers for kernel in layer.kernels]

    def extra_repr(self) -> str:
        """The kernels that the products run as."""
        kinds = [type(kernel).__name__ for kernel in self._kernels()]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        return f"precision={self.precision!r}, {counts}"


def without_autocast(kind: str) -> AbstractContextManager[Any]:
    """A context without `torch.autocast` on this kind of device; it is costly to enter, so only where that is on."""
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def as_rows(hidden_states: Tensor, layout: Layout) -> tuple[Tensor, PackedLayout]:
    """Any batch as rows, `rounded_rows` of them, and their layout."""
    tokens = hidden_states.shape[:-1]
    more = rounded_rows(tokens.numel()) - tokens.numel()
    if isinstance(layout, PackedLayout):
        if not more:
            return hidden_states, layout
        rows = PackedLayout(layout.lengths, tail=layout.tail + more)
    else:
        rows = PackedLayout([tokens[1]] * tokens[0], tail=more)
    rows.mask = layout.mask
    return F.pad(hidden_states.flatten(0, -2), (0, 0, 0, more)), rows


def _packed_again(pickled: bytes) -> FusedEncoder:
    with torch.no_grad():
        return FusedEncoder(*pickle.loads(pickled))


# the parts of a layer that a FusedLayer replaces, and the class whose forward it computes
_PARTS = {
    "attention": BertAttention,
    "attention.self": BertSelfAttention,
    "attention.self.query": nn.Linear,
    "attention.self.key": nn.Linear,
    "attention.self.value": nn.Linear,
    "attention.output": BertSelfOutput,
    "attention.output.dense": nn.Linear,
    "attention.output.LayerNorm": nn.LayerNorm,
    "intermediate": BertIntermediate,
    "intermediate.dense": nn.Linear,
    "output": BertOutput,
    "output.dense": nn.Linear,
    "output.LayerNorm": nn.LayerNorm,
}


def _check_parts(layer: nn.Module, name: str) -> None:
    """Check that a layer computes what a `FusedLayer` does.

    Raises:
        ValueError: the layer or a part of it has been replaced.
    """
    _check_class(layer, BertLayer, name)
    for part, part_class in _PARTS.items():
        _check_class(layer.get_submodule(part), part_class, f"{name}.{part}")


def _check_class(module: nn.Module, expected: type[nn.Module], name: str) -> None:
    # a parametrized module has a class of its own, with the forward of the original
    if type(module).forward is not expected.forward:
        raise ValueError(
            f"{name} is of class {type(module).__name__}, but optimize can rewrite only "
            f"{expected.__name__}. Use the model without optimize (precision=None)."
        )


def _with_inputs(layer: BertLayer, x: Tensor, layout: Layout) -> tuple[Tensor, tuple[Tensor, ...]]:
    """A layer's output for `x`, and what goes into its four products on the way."""
    context, _ = layer.attention.self(x, layout)
    attended = layer.attention.output(context, x)
    widened = layer.intermediate(attended)
    return layer.output(widened, attended), (x, context, attended, widened)


def _product(
    linears: list[nn.Module],
    activation: Activation | None,
    x: Tensor | None,
    kernel: type[Kernel],
    dtype: torch.dtype,
    scratch: Tensor,
) -> Kernel:
    """One kernel for linear layers with the same input; float32 where 8 bits would lose too much on the sample x."""
    weights, biases = ([getattr(m, kind).detach() for m in linears] for kind in ("weight", "bias"))
    # a single weight is not copied, for a kernel reads it but once
    joined = torch.cat(weights, out=scratch.resize_(0)) if len(weights) > 1 else weights[0]
    weight, bias = joined.to(dtype), torch.cat(biases).to(dtype)
    if x is not None:
        exact, rounded = F.linear(x, weight), kernel(weight, torch.zeros_like(bias))(x)
        if torch.linalg.vector_norm(rounded - exact) > MAX_INT8_ERROR * torch.linalg.vector_norm(
            exact
        ):
            kernel = float_kernel(torch.float32)
    return kernel(weight, bias, activation)


class FusedLayer(BertLayer):
    """`BertLayer` in four products: query, key and value together, GELU and residuals as part of theirs.

    `inputs` are samples of what goes into each product, to try 8 bits on; `scratch` is memory to join weights in.
    """

    # the linear layers of each product and the normalisations, by their official names
    PRODUCTS = (
        ["attention.self.query", "attention.self.key", "attention.self.value"],
        ["attention.output.dense"],
        ["intermediate.dense"],
        ["output.dense"],
    )
    NORMS = (["attention.output.LayerNorm"], ["output.LayerNorm"])

    def __init__(
        self,
        layer: BertLayer,
        inputs: tuple[Tensor | None, ...],
        kernel: type[Kernel],
        dtype: torch.dtype,
        scratch: Tensor,
    ) -> None:
        nn.Module.__init__(self)
        attention = layer.attention.self
        self.heads = (3, attention.num_attention_heads, attention.attention_head_size)
        activations = (None, None, layer.intermediate.intermediate_act_fn, None)
        self.kernels = [
            _product(
                [layer.get_submodule(name) for name in names], activation, x, kernel, dtype, scratch
            )
            for names, activation, x in zip(self.PRODUCTS, activations, inputs, strict=True)
        ]
        # in float32, like the residual: so bfloat16 errs half as much
        norms: list[Any] = [layer.get_submodule(name) for (name,) in self.NORMS]
        self.norms = [
            (n.normalized_shape, n.weight.detach().clone(), n.bias.detach().clone(), n.eps)
            for n in norms
        ]

    def forward(
        self,
        hidden_states: Tensor,
        layout: LayoutOrMask = UNMASKED,
        attend: AttentionFunction = sdpa_attention,
        attentions: list[Tensor] | None = None,
    ) -> Tensor:
        """As `BertLayer.forward`."""
        layout = as_layout(layout, hidden_states)
        project, mix, widen, narrow = self.kernels
        query, key, value = (
            project(hidden_states).view(*hidden_states.shape[:-1], *self.heads).unbind(-3)
        )
        context, weights = attend(query, key, value, layout, 0.0)
        if attentions is not None and weights is not None:
            attentions.append(weights.float())
        x = torch.layer_norm(mix(context, hidden_states), *self.norms[0])
        return torch.layer_norm(narrow(widen(x), x), *self.norms[1])

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        weights = [(kernel.weight(), kernel.bias) for kernel in self.kernels] + [
            norm[1:3] for norm in self.norms
        ]
        for names, tensors in zip((*self.PRODUCTS, *self.NORMS), weights, strict=True):
            for kind, joined in zip(("weight", "bias"), tensors, strict=True):
                for name, part in zip(names, joined.chunk(len(names)), strict=True):
                    # a copy: nothing that is done to it reaches the weights in use
                    own = part.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
                    destination[f"{prefix}{name}.{kind}"] = own
