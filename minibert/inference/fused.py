"""The encoder for inference: the same stack of the same layers, the parts of a layer run by kernels."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from minibert.attention import AttentionFunction, AttentionOutput, BertSelfAttention, BertSelfOutput, sdpa_attention
from minibert.compatibility.tracing import is_traced
from minibert.config import BertConfig
from minibert.encoder import BertEncoder, BertIntermediate, BertLayer
from minibert.inference.attention import bf16_attention, packed_attention
from minibert.inference.kernels import Activation, Int8Kernel, Kernel, choose_kernel, float_kernel, has_instructions
from minibert.inference.threads import Meetings, even_shares, usable_threads, workers
from minibert.layouts import UNMASKED, Layout, PackedLayout
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
        kernel, self.dtype = choose_kernel(precision, weight.device)
        # memory to join weights in; one for all layers, or the holes it leaves would be a tenth of the model
        scratch = weight.new_empty(0)
        x, layout = sample, PackedLayout([] if sample is None else [len(sample)])
        layers = []
        for layer in encoder.layer:
            assert isinstance(layer, BertLayer)
            inputs: dict[nn.Module, Tensor] = {}
            if kernel is Int8Kernel and x is not None:
                x, inputs = _with_inputs(layer, x, layout)
            layers.append(FusedLayer(layer, config, _Products(kernel, self.dtype, inputs, scratch)))
        self.layer = nn.ModuleList(layers)
        inside = [part for part in self.modules() if part is not self]
        # dicts that stay the same: whether `any` has a hook is soon said
        self.hooks = [hooks for part in inside for hooks in (part._forward_hooks, part._forward_pre_hooks)]
        self.meetings = Meetings()
        self.register_state_dict_post_hook(_in_float32)  # type: ignore[no-untyped-call]
        self.eval()

    @_not_compiled
    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        attend: AttentionFunction = sdpa_attention,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BertModelOutput:
        """As `BertEncoder.forward`; results are float32 whatever the products were computed in."""
        if hidden_states.requires_grad and torch.is_grad_enabled():
            raise ValueError("An optimised model has no gradients: use the original, or unoptimize(model).")
        if is_traced(hidden_states) and hidden_states.device.type == "cpu":
            raise ValueError("An optimised model is not exported: load it with precision=None, or unoptimize(model).")
        hidden_states = hidden_states.float()
        # hooks see the batch as it came, and attention probabilities are those of a padded one
        direct = not output_attentions and not any(self.hooks)
        options = (direct, output_hidden_states, output_attentions)
        threads, inference = usable_threads(), torch.is_inference_mode_enabled()

        def run(share: tuple[Tensor, Layout]) -> BertModelOutput:
            with torch.no_grad(), torch.inference_mode(inference):  # every thread has modes of its own
                return self._run(*share, attend, *options)

        shares = even_shares(hidden_states, layout, threads) if attend is sdpa_attention else []
        if not shares:
            return self._run(hidden_states, layout, attend, *options)
        parts = list(workers(len(shares), threads, os.getpid()).map(run, shares))
        return tree_map(lambda *tensors: torch.cat(tensors), *parts)  # type: ignore[no-any-return]

    def _run(
        self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction, direct: bool, *options: bool
    ) -> BertModelOutput:
        """As `forward`, for a batch that is left whole."""
        kind, shape, rows = hidden_states.device.type, hidden_states.shape, hidden_states.shape[:-1].numel()
        if direct and kind == "cpu":
            hidden_states, layout = as_rows(hidden_states, layout)
        run = self._run_directly if direct else super().forward
        quickest = self._attention(hidden_states, layout) if attend is sdpa_attention else attend
        # kernels take the type they were made for
        with without_autocast(kind):
            output = run(hidden_states, layout, quickest, *options)
            # 0 times NaN is NaN: neighbours would share it
            if quickest is packed_attention and isinstance(layout, PackedLayout) and len(layout.lengths) > 1:
                if not output.last_hidden_state.sum().isfinite():
                    output = run(hidden_states, layout, attend, *options)
        if options[1]:
            return tree_map(Tensor.float, output)  # type: ignore[no-any-return]
        if output.hidden_states is not None:
            output.hidden_states = tuple(states[:rows].view(shape) for states in output.hidden_states)
        if output.last_hidden_state.shape != shape:
            output.last_hidden_state = output.last_hidden_state[:rows].view(shape)
        return output

    def _run_directly(self, x: Tensor, layout: Layout, attend: AttentionFunction, *options: bool) -> BertModelOutput:
        """As `BertEncoder.forward`, without what `nn.Module` does around calls: a short text is computed as quickly."""
        states = [x]
        for layer in self.layer:
            assert isinstance(layer, FusedLayer)
            x = layer.run(x, layout, attend)
            states = [*states, x] if options[0] else [x]
        return BertModelOutput(x, hidden_states=tuple(states) if options[0] else None)

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
        return packed_attention if isinstance(layout, PackedLayout) and layout.mask is None else sdpa_attention

    def unfused(self) -> BertEncoder:
        """An ordinary encoder with these weights in float32."""
        return _plain_encoder(self.state_dict(), len(self.layer), self.config)

    def train(self, mode: bool = True) -> FusedEncoder:
        """Refuses: there are no gradients, and no dropout."""
        if mode:
            raise ValueError("An optimised model cannot be trained: train the original, or unoptimize(model).")
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
                raise ValueError("An optimised model cannot be moved or cast: do so with the original, then optimize.")
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # packed weights can be neither copied nor pickled; ordinary ones can, and are packed anew. They go as bytes: a
        # spawned process would get tensors as file descriptors, which close before it starts, as nobody holds them
        device = next((kernel.bias.device for kernel in self._kernels()), torch.device("cpu"))
        weights = safetensors.torch.save(self.state_dict())
        return _encoder_of, (weights, len(self.layer), device, self.config, self.precision, self.sample)

    def _kernels(self) -> list[Kernel]:
        return [module.kernel for module in self.modules() if isinstance(module, Fused)]

    def extra_repr(self) -> str:
        """The kernels that the products run as."""
        kinds = [type(kernel).__name__ for kernel in self._kernels()]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        return f"precision={self.precision!r}, {counts}"


def without_autocast(kind: str) -> AbstractContextManager[Any]:
    """A context without `torch.autocast` on this kind of device; it is costly to enter, so only where that is on."""
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def as_rows(hidden_states: Tensor, layout: Layout) -> tuple[Tensor, Layout]:
    """Any batch as rows, `rounded_rows` of them, and their layout."""
    tokens = hidden_states.shape[:-1]
    more = rounded_rows(tokens.numel()) - tokens.numel()
    if isinstance(layout, PackedLayout) and not more:
        return hidden_states, layout
    rows = PackedLayout(layout.lengths if isinstance(layout, PackedLayout) else [tokens[1]] * tokens[0], tail=more)
    rows.mask = layout.mask
    return F.pad(hidden_states.flatten(0, -2), (0, 0, 0, more)), rows


def rounded_rows(rows: int) -> int:
    """The rows that so many are filled up to: eight steps an octave.

    oneDNN compiles a product for each number of rows that it meets and keeps it for good, up to a megabyte each.
    """
    step = 1 << max(0, rows.bit_length() - 4)
    return -(-rows // step) * step


def _plain_encoder(weights: dict[str, Tensor], layers: int, config: BertConfig) -> BertEncoder:
    with torch.device("meta"):
        encoder = BertEncoder(config.replace(num_hidden_layers=layers))
    encoder.load_state_dict(weights, assign=True)
    return encoder.to(next((weight.device for weight in weights.values()), "cpu")).eval()


def _encoder_of(
    weights: bytes, layers: int, device: torch.device, config: BertConfig, precision: str, sample: Tensor | None
) -> FusedEncoder:
    """Builds the encoder of a pickle again."""
    tensors = {name: tensor.to(device) for name, tensor in safetensors.torch.load(weights).items()}
    with torch.no_grad():
        return FusedEncoder(_plain_encoder(tensors, layers, config), config, precision, sample)


def _in_float32(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: dict[str, Any]) -> None:
    """Makes float32 copies of what the encoder saved: nothing that is done to them reaches the weights in use."""
    for name in [name for name in state if name.startswith(prefix)]:  # one at a time: no second set of all weights
        state[name] = state[name].to(torch.float32, copy=True, memory_format=torch.contiguous_format)


def _with_inputs(layer: BertLayer, x: Tensor, layout: Layout) -> tuple[Tensor, dict[nn.Module, Tensor]]:
    """A layer's output for `x`, and the input that each of its linear layers got on the way."""
    inputs: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        inputs[module] = arguments[0]

    hooks = [module.register_forward_pre_hook(keep) for module in layer.modules() if isinstance(module, nn.Linear)]
    y: Tensor = layer(x, layout, sdpa_attention)
    for hook in hooks:
        hook.remove()
    return y, inputs


class Fused(nn.Module):
    """A part of a layer whose linear layers share their input and run as one product, saved under their own names.

    Args:
        part: the part it computes like.
        names: its linear layers.
        products: makes the kernel.
        activation: applied to the product; None: none.
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
        self.num_attention_heads, self.attention_head_size = part.num_attention_heads, part.attention_head_size
        self._sizes = (3, part.num_attention_heads, part.attention_head_size)

    def forward(
        self, hidden_states: Tensor, layout: Layout = UNMASKED, attend: AttentionFunction = sdpa_attention
    ) -> AttentionOutput:
        """As `BertSelfAttention.forward`."""
        qkv = self.kernel(hidden_states)
        query, key, value = qkv.view(*qkv.shape[:-1], *self._sizes).unbind(-3)
        return attend(query, key, value, layout, 0.0)


class FusedIntermediate(Fused):
    """`BertIntermediate` with the activation in the product."""

    def __init__(self, part: BertIntermediate, products: _Products) -> None:
        super().__init__(part, ["dense"], products, part.intermediate_act_fn)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """As `BertIntermediate.forward`."""
        return self.kernel(hidden_states)


class FusedOutput(Fused):
    """`BertSelfOutput` or `BertOutput` with the residual in the product."""

    def __init__(self, part: BertSelfOutput, products: _Products) -> None:
        super().__init__(part, ["dense"], products)
        self.LayerNorm = copy.deepcopy(part.LayerNorm)  # in float32, like the residual: so bfloat16 errs half as much

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """As `BertSelfOutput.forward`."""
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
        joined = torch.cat(weights, out=self.scratch.resize_(0)) if len(weights) > 1 else weights[0]
        weight, bias = joined.to(self.dtype), torch.cat(biases).to(self.dtype)
        kernel, x = self.kernel, self.inputs.get(linears[0])
        if kernel is Int8Kernel and x is not None:
            exact, rounded = F.linear(x, weight), Int8Kernel(weight, torch.zeros_like(bias))(x)
            if torch.linalg.vector_norm(rounded - exact) > MAX_INT8_ERROR * torch.linalg.vector_norm(exact):
                kernel = float_kernel(torch.float32)
        return kernel(weight, bias, activation)


class FusedLayer(BertLayer):
    """`BertLayer` with every part fused."""

    def __init__(self, layer: BertLayer, config: BertConfig, products: _Products) -> None:
        with torch.device("meta"):
            super().__init__(config)
        for name, kind in FUSED_PARTS.items():
            self.set_submodule(name, kind(layer.get_submodule(name), products))
        self._kernels = [part.kernel for part in self.modules() if isinstance(part, Fused)]
        norms = [part.LayerNorm for part in self.modules() if isinstance(part, FusedOutput)]
        self._sizes = (3, config.num_attention_heads, config.hidden_size // config.num_attention_heads)
        self._norms = [(norm.normalized_shape, norm.weight, norm.bias, norm.eps) for norm in norms]

    def run(self, hidden_states: Tensor, layout: Layout, attend: AttentionFunction) -> Tensor:
        """As `forward`, unseen by hooks."""
        project, mix, widen, narrow = self._kernels
        query, key, value = project(hidden_states).view(*hidden_states.shape[:-1], *self._sizes).unbind(-3)
        context, _ = attend(query, key, value, layout, 0.0)
        x = torch.layer_norm(mix(context, hidden_states), *self._norms[0])
        return torch.layer_norm(narrow(widen(x), x), *self._norms[1])
