"""The encoder for inference: the same stack of the same layers, each run by four kernels."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from minibert.attention import (
    ATTENTION_FUNCTIONS,
    AttentionFunction,
    AttentionOutput,
    BertAttention,
    BertSelfAttention,
    BertSelfOutput,
    sdpa_attention,
)
from minibert.base import use_one_thread_after_fork
from minibert.config import BertConfig
from minibert.encoder import (
    ACTIVATIONS,
    Activation,
    BertEncoder,
    BertIntermediate,
    BertLayer,
    BertOutput,
)
from minibert.inference.attention_kernels import (
    MIN_TOKENS_FOR_PRODUCTS,
    PackedAttention,
    bf16_attention,
)
from minibert.inference.batching import batches, rounded_tokens
from minibert.inference.kernels import (
    Int8Kernel,
    Kernel,
    choose_kernel,
    float_kernel,
)
from minibert.inference.packing import without_autocast
from minibert.inference.threads import (
    MIN_BATCH_TOKENS,
    MIN_BATCHES_PER_THREAD,
    even_shares,
    usable_threads,
    workers,
)
from minibert.inputs import is_traced
from minibert.layouts import UNMASKED, Layout, PackedLayout
from minibert.outputs import BertModelOutput
from minibert.parts import own_part, takes_layout

# A product keeps float32 where 8 bits change its results by more than this (norm of the error over
# norm of the result, on random words). Trained BERTs have products whose inputs are a few huge
# numbers among thousands of small ones
MAX_INT8_ERROR = 0.05


def _not_compiled(forward: Callable[..., BertModelOutput]) -> Callable[..., BertModelOutput]:
    """Keeps torch.compile from kernels that are compiled already. The rest of a model can be.

    It is what `torch.compiler.disable` does. Its import takes as long as torch's own, so it is used
    only where the compiler has been imported.
    """

    @wraps(forward)
    def called(*args: Any, **kwargs: Any) -> BertModelOutput:
        if "torch._dynamo" not in sys.modules:
            return forward(*args, **kwargs)
        disable: Callable[..., Callable[..., BertModelOutput]] = torch.compiler.disable
        return disable(forward)(*args, **kwargs)

    return called


class FusedEncoder(BertEncoder):
    """The same stack of layers as an encoder's, each a `FusedLayer`. The encoder is not changed.

    Args:
        encoder: The original.
        config: Its config.
        precision: "fp32", "bf16" or "int8".
        sample: Hidden states, (tokens, hidden), to try 8 bits on.
    """

    def __init__(
        self, encoder: BertEncoder, config: BertConfig, precision: str, sample: Tensor | None = None
    ) -> None:
        nn.Module.__init__(self)
        use_one_thread_after_fork()  # or a worker of a pool would wait forever to copy weights
        self.config = config
        self.precision = precision
        self.sample = sample
        self.gradient_checkpointing = False
        weight = next(encoder.parameters(), torch.empty(0))
        kernel, self.dtype = choose_kernel(precision, weight.device)
        # memory to join weights in: one for all layers, or the holes it leaves would be a tenth of
        # the model
        scratch = weight.new_empty(0)
        layers = []
        for layer in encoder.layer:
            assert isinstance(layer, BertLayer)
            inputs: tuple[Tensor | None, ...] = (None, None, None, None)
            if kernel is Int8Kernel and sample is not None:
                # what goes into the four products of this layer, and into the next layer
                context, _ = layer.attention.self(sample, PackedLayout([len(sample)]))
                attended = layer.attention.output(context, sample)
                intermediate = layer.intermediate(attended)
                inputs = sample, context, attended, intermediate
                sample = layer.output(intermediate, attended)
            layers.append(FusedLayer(layer, inputs, kernel, self.dtype, scratch))
        self.layer = nn.ModuleList(layers)
        # whether oneDNN compiles products for each number of rows
        self.is_compiled = any(kernel.is_compiled for kernel in self._kernels())
        self.has_fixed_bits = all(kernel.has_fixed_bits for kernel in self._kernels())
        self.eval()

    @own_part
    @_not_compiled
    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        *,
        attend: AttentionFunction | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BertModelOutput:
        """As `BertEncoder.forward`. Results are float32 whatever the products were computed in."""
        if hidden_states.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                "An optimized model has no gradients: use the original, or unoptimize(model)."
            )
        if is_traced(hidden_states) and hidden_states.device.type == "cpu":
            raise ValueError(
                "An optimized model is not exported: load it with precision=None, or "
                "unoptimize(model)."
            )
        attend = attend or ATTENTION_FUNCTIONS[self.config.attn_implementation]
        hidden_states = hidden_states.float()
        shares = []
        if attend is sdpa_attention:
            shares = even_shares(hidden_states, layout)
        if not shares:
            return self._run(hidden_states, layout, attend, output_hidden_states, output_attentions)
        inference = torch.is_inference_mode_enabled()

        def run_share(share: tuple[Tensor, Layout]) -> BertModelOutput:
            # every thread has modes of its own
            with torch.no_grad(), torch.inference_mode(inference):
                return self._run(*share, attend, output_hidden_states, output_attentions)

        pool = workers(len(shares), torch.get_num_threads(), os.getpid())
        outputs = list(pool.map(run_share, shares))
        joined: BertModelOutput = tree_map(lambda *tensors: torch.cat(tensors), *outputs)
        return joined

    def _run(
        self,
        hidden_states: Tensor,
        layout: Layout,
        attend: AttentionFunction,
        output_hidden_states: bool,
        output_attentions: bool,
    ) -> BertModelOutput:
        """As `forward`, for a batch that is not shared out."""
        shape = hidden_states.shape
        layers = self._layers()
        # hooks see the batch as it came, and attention probabilities are those of a padded one
        is_seen = output_attentions or any(x._forward_hooks or x._forward_pre_hooks for x in layers)
        if hidden_states.device.type == "cpu" and not is_seen:
            hidden_states, layout = as_rows(hidden_states, layout, self.is_compiled)
        if attend is sdpa_attention:
            attend = self._attention(hidden_states, layout)
        # kernels take the dtype they were made for
        with without_autocast(hidden_states.device.type):
            if (
                not is_seen
                and attend is sdpa_attention
                and isinstance(layout, PackedLayout)
                and layout.mask is None
                and hidden_states.device.type == "cpu"
                and all(map(takes_layout, layers))
            ):
                output = self._run_packed(hidden_states, layout, output_hidden_states)
            else:
                output = super().forward(
                    hidden_states,
                    layout,
                    attend=attend,
                    output_hidden_states=output_hidden_states,
                    output_attentions=output_attentions,
                )
        if output.last_hidden_state.shape != shape:
            rows = shape[:-1].numel()
            all_states = output.hidden_states or [output.last_hidden_state]
            unpadded = tuple(states[:rows].view(shape) for states in all_states)
            output.last_hidden_state = unpadded[-1]
            output.hidden_states = unpadded if output_hidden_states else None
        return output

    def _run_packed(
        self, states: Tensor, layout: PackedLayout, output_hidden_states: bool
    ) -> BertModelOutput:
        """The layers by `PackedAttention`, with views that are made once and not in each layer."""
        made: dict[tuple[int, int, int], PackedAttention] = {}
        all_states = [states]
        for layer in self._layers():
            if layer.heads not in made:
                made[layer.heads] = PackedAttention(layout, len(states), *layer.heads[1:])
            states = layer.compute(states, made[layer.heads])
            all_states.append(states)
        return BertModelOutput(
            last_hidden_state=states,
            hidden_states=tuple(all_states) if output_hidden_states else None,
        )

    def plan(
        self, lengths: Sequence[int], batch_tokens: int, device: torch.device
    ) -> tuple[list[list[int]], Callable[..., Iterable[Any]]]:
        """Which rows go through the model together, as `batches` says, and a `map` for the batches.

        Many rows are computed in small batches, each in a thread of its own. The values between two
        products then stay in the cache.

        Args:
            lengths: Tokens of each row.
            batch_tokens: Of a batch at most.
            device: Where they are computed.
        """
        if device.type == "cpu":
            threads = usable_threads()
            # only one thread at a time runs Python: the more there are, the larger are the batches
            small = MIN_BATCH_TOKENS * max(2, threads) // 2
            groups = batches(lengths, min(small, batch_tokens))
            if threads == 1:
                return groups, map
            if len(groups) >= MIN_BATCHES_PER_THREAD * threads:
                return groups, workers(threads, threads, os.getpid()).map
        return batches(lengths, batch_tokens), map

    @torch.inference_mode()
    def compile_products(self, max_rows: int) -> None:
        """Lets oneDNN compile the products of batches of up to `max_rows` rows.

        They are compiled for as many threads as torch has in the calling thread.
        """

        def values_as_context(
            query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
        ) -> AttentionOutput:
            return value.flatten(-2), None  # products of attention are not compiled beforehand

        distinct: dict[Any, Any] = {}  # layers with equal kernels share products
        for layer in self._layers():
            distinct[tuple(type(kernel) for kernel in layer.kernels)] = layer
        sizes = {rounded_tokens(rows) for rows in range(1, max_rows + 1)}
        # the largest first: the memory that its results leave free is enough for all others
        for size in sorted(sizes, reverse=True):
            shape = size, self.config.hidden_size
            for layer in distinct.values():
                states = torch.zeros(shape, dtype=torch.float32, device="cpu")
                layer(states, attend=values_as_context)

    def _layers(self) -> list[FusedLayer]:
        layers: Any = self.layer
        return list(layers)

    def _attention(self, hidden_states: Tensor, layout: Layout) -> AttentionFunction:
        """The fastest attention function for this batch."""
        if hidden_states.device.type != "cpu" or self.dtype != torch.bfloat16:
            return sdpa_attention
        if isinstance(layout, PackedLayout) and layout.mask is None:
            if max(n * count for n, count in layout.runs) < MIN_TOKENS_FOR_PRODUCTS:
                return sdpa_attention
        return bf16_attention

    def unfused(self) -> BertEncoder:
        """An ordinary encoder with these weights in float32."""
        weights = self.state_dict()
        with torch.device("meta"):
            encoder = BertEncoder(self.config.replace(num_hidden_layers=len(self.layer)))
        encoder.load_state_dict(weights, assign=True)
        for plain, fused in zip(encoder.layer, self._layers(), strict=True):
            # what a user may have replaced, so that the config does not tell it
            plain.get_submodule("intermediate").intermediate_act_fn = fused.activations[0]
            for (name,), (*_, eps) in zip(fused.NORMS, fused.norms, strict=True):
                plain.get_submodule(name).eps = eps
        return encoder.eval()

    def train(self, mode: bool = True) -> FusedEncoder:
        """Refuses: there are no gradients, and no dropout."""
        if mode:
            raise ValueError(
                "An optimized model cannot be trained: train the original, or unoptimize(model)."
            )
        return super().train(mode)

    def _refuse_quantization(self, _: Any) -> None:
        raise ValueError(
            "Nothing is left to quantize in an optimized model: optimize(model, precision='int8') "
            "has 8 bits, or "
            "load it with precision=None."
        )

    qconfig = property(fset=_refuse_quantization)  # which torch.ao.quantization gives every module

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusedEncoder:
        # `.to`, `.half` and the like come through here; packed weights cannot follow
        kernels = self._kernels()
        if kernels:
            before = kernels[0].bias
            after = fn(before)
            if before.device != after.device or before.dtype != after.dtype:
                raise ValueError(
                    "An optimized model cannot be moved or cast: do so with the original, then "
                    "optimize. For an embedder, pass device= and precision= to from_pretrained."
                )
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Packed weights can be neither copied nor pickled; ordinary ones can, and are packed again.
        # They are pickled as bytes: a spawned process would receive tensors as file descriptors,
        # which close before it starts, because nothing holds the tensors
        parts = self.unfused(), self.config, self.precision, self.sample
        return _rebuild, (pickle.dumps(parts),)

    def _kernels(self) -> list[Kernel]:
        return [kernel for layer in self._layers() for kernel in layer.kernels]

    def extra_repr(self) -> str:
        """The kernels that the products run as."""
        kinds = [type(kernel).__name__ for kernel in self._kernels()]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        return f"precision={self.precision!r}, {counts}"


def as_rows(
    hidden_states: Tensor, layout: Layout, is_compiled: bool = True
) -> tuple[Tensor, PackedLayout]:
    """Any batch as rows (tokens, hidden) and their layout.

    The rows of a padded batch (batch, seq, hidden) are all of its places. Its mask hides the same
    ones as before. Rows of `is_compiled` products are padded to `rounded_tokens`.
    """
    if isinstance(layout, PackedLayout):
        rows, packed = hidden_states, layout
    else:
        batch, seq = hidden_states.shape[:2]
        rows, packed = hidden_states.flatten(0, 1), PackedLayout([seq] * batch, mask=layout.mask)
    padding = rounded_tokens(len(rows)) - len(rows) if is_compiled else 0
    if not padding:
        return rows, packed
    tail = packed.tail + padding
    return F.pad(rows, (0, 0, 0, padding)), PackedLayout(packed.lengths, tail, packed.mask)


def _rebuild(pickled: bytes) -> FusedEncoder:
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
    "attention.output.dropout": nn.Dropout,
    "attention.output.LayerNorm": nn.LayerNorm,
    "intermediate": BertIntermediate,
    "intermediate.dense": nn.Linear,
    "output": BertOutput,
    "output.dense": nn.Linear,
    "output.dropout": nn.Dropout,
    "output.LayerNorm": nn.LayerNorm,
}


def check_parts(encoder: nn.Module) -> None:
    """Check that an encoder computes what its kernels will.

    Raises:
        ValueError: A part of it is of a user's own class, or has been changed.
    """
    _check_part(encoder, BertEncoder, "encoder")
    assert isinstance(encoder, BertEncoder)
    for index, layer in enumerate(encoder.layer):
        name = f"encoder.layer.{index}"
        _check_part(layer, BertLayer, name)
        _check_part(layer, BertLayer, name, "feed_forward_chunk")
        for part, part_class in _PARTS.items():
            _check_part(layer.get_submodule(part), part_class, f"{name}.{part}")
        activation = layer.get_submodule("intermediate.intermediate_act_fn")
        if isinstance(activation, Activation):  # a module of the user's own is called
            _check_part(activation, Activation, f"{name}.intermediate.intermediate_act_fn")


def _check_part(
    part: nn.Module, expected: type[nn.Module], name: str, method: str = "forward"
) -> None:
    """Check that a part computes what its class says, because kernels compute that instead.

    Raises:
        ValueError: It has another `forward`, hooks, or no bias.
    """
    fault = None
    # a parametrized module has a class of its own, with the forward of the original
    if getattr(type(part), method) is not getattr(expected, method):
        fault = f"is of class {type(part).__name__}"
    elif method in vars(part):
        fault = f"has a {method} of its own"
    elif part._forward_hooks or part._forward_pre_hooks:
        fault = "has forward hooks"
    elif issubclass(expected, nn.Linear | nn.LayerNorm) and part.bias is None:
        fault = "has no bias"
    is_without_dropout = expected is nn.Dropout and isinstance(part, nn.Identity)
    if fault and not is_without_dropout:
        raise ValueError(
            f"{name} {fault}, but optimize can rewrite only a plain {expected.__name__}. Use the "
            "model without optimize (precision=None)."
        )


def _product(
    linears: list[Any],
    activation: Callable[[Tensor], Tensor] | None,
    sample: Tensor | None,
    kernel: type[Kernel],
    dtype: torch.dtype,
    scratch: Tensor,
) -> Kernel:
    """One kernel for linear layers with the same input.

    Args:
        linears: The linear layers.
        activation: Applied to their outputs.
        sample: An input, to try 8 bits on. Where they would lose too much, the kernel is float32.
        kernel: Its class.
        dtype: Of its weight.
        scratch: Memory to join weights in.
    """
    weights = [linear.weight.detach() for linear in linears]
    biases = [linear.bias.detach() for linear in linears]
    weight = weights[0]  # a single weight is not copied, because a kernel reads it only once
    if len(weights) > 1:
        weight = torch.cat(weights, out=scratch.resize_(0))
    weight = weight.to(dtype)
    bias = torch.cat(biases).to(dtype)
    if sample is not None:
        exact = F.linear(sample, weight)
        rounded = kernel(weight, torch.zeros_like(bias))(sample)
        error = torch.linalg.vector_norm(rounded - exact)
        if error > MAX_INT8_ERROR * torch.linalg.vector_norm(exact):
            kernel = float_kernel(torch.float32)
    return kernel(weight, bias, activation)


class FusedLayer(BertLayer):
    """`BertLayer` in four products: query, key and value in one, GELU and residuals in theirs.

    Args:
        layer: The original.
        inputs: A sample input of each product, to try 8 bits on.
        kernel: The class of the products.
        dtype: Of their weights.
        scratch: Memory to join weights in.
    """

    # the linear layers of each product and the normalizations, by their official names
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
        if attention.scaling != attention.attention_head_size**-0.5:
            raise ValueError(
                f"attention.self.scaling is {attention.scaling:g}, but optimize can rewrite only "
                "1 / sqrt(head_size). Scale query.weight and query.bias instead, or use the model "
                "without optimize (precision=None)."
            )
        self.heads = (3, attention.num_attention_heads, attention.attention_head_size)
        activation: Any = layer.intermediate.intermediate_act_fn
        self.activations = [activation]  # in a list, as it is not a part of this module
        if isinstance(activation, Activation):  # kernels know functions
            activation = ACTIVATIONS[activation.name]
        self.kernels = []
        for names, sample in zip(self.PRODUCTS, inputs, strict=True):
            after = activation if names == ["intermediate.dense"] else None
            linears = [layer.get_submodule(name) for name in names]
            self.kernels.append(_product(linears, after, sample, kernel, dtype, scratch))
        # in float32, like the residual: so bfloat16 errs half as much
        self.norms = []
        for (name,) in self.NORMS:
            norm: Any = layer.get_submodule(name)
            weight = norm.weight.detach().clone()
            bias = norm.bias.detach().clone()
            self.norms.append((norm.normalized_shape, weight, bias, norm.eps))

    @own_part
    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout = UNMASKED,
        *,
        attend: AttentionFunction | None = None,
        attentions: list[Tensor] | None = None,
    ) -> Tensor:
        """As `BertLayer.forward`."""
        attend = attend or sdpa_attention

        def attended(projected: Tensor) -> Tensor:
            context, weights = attend(*self._split(projected), layout, 0.0)
            if attentions is not None and weights is not None:
                attentions.append(weights.float())
            return context

        return self.compute(hidden_states, attended)

    def compute(self, hidden_states: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        """The next hidden states, (..., hidden).

        Args:
            hidden_states: (..., hidden).
            attend: From queries, keys and values (..., 3 * hidden) to the context (..., hidden).
        """
        project, mix, widen, narrow = self.kernels
        attention_norm, output_norm = self.norms
        context = attend(project(hidden_states))
        attended = torch.native_layer_norm(mix(context, hidden_states), *attention_norm)[0]
        return torch.native_layer_norm(narrow(widen(attended), attended), *output_norm)[0]

    def _split(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, (..., heads, head_size) each, of (..., 3 * hidden)."""
        query, key, value = projected.view(*projected.shape[:-1], *self.heads).unbind(-3)
        return query, key, value

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for names, kernel in zip(self.PRODUCTS, self.kernels, strict=True):
            _store_parts(destination, prefix, names, kernel.weight(), kernel.bias)
        for names, (_, weight, bias, _) in zip(self.NORMS, self.norms, strict=True):
            _store_parts(destination, prefix, names, weight, bias)


def _store_parts(
    destination: dict[str, Any], prefix: str, names: Sequence[str], weight: Tensor, bias: Tensor
) -> None:
    """Stores joined weights and biases under the official names of their parts, in float32."""
    for kind, joined in (("weight", weight), ("bias", bias)):
        for name, part in zip(names, joined.chunk(len(names)), strict=True):
            # a copy: nothing that is done to it reaches the weights in use
            destination[f"{prefix}{name}.{kind}"] = part.to(
                torch.float32, copy=True, memory_format=torch.contiguous_format
            )
