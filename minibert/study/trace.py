"""Record every intermediate tensor of a forward pass by name, and replace any of them.

```python
with minibert.trace(model) as t:
    model(**batch)
print(t)                                  # a table: name, shape, formula
t["layer.3.attention.scores"]             # (batch, heads, seq, seq)
```

The model is run as it is, watched through PyTorch's hooks. They are gone when the block ends. They
act in the thread or asyncio task that entered the block, and in tasks that it starts there, alone:
others may use the model meanwhile, and trace it as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from minibert.attention import (
    ATTENTION_FUNCTIONS,
    AttentionFunction,
    AttentionOutput,
    BertSelfAttention,
    eager_attention,
    merge_heads,
    sdpa_attention,
    split_heads,
)
from minibert.base import PreTrainedModel
from minibert.layouts import Layout, PaddedLayout, additive
from minibert.model import BertPooler
from minibert.util.checks import check_count
from minibert.util.errors import ArgumentError

_OF_BERT = (".attention.scores", ".attention.masked_scores", ".attention.probabilities")
"""Steps inside BERT's attention functions, which those of a user's own need not have."""

Patch = Callable[[Tensor], Tensor]

# the traces whose blocks the running code is in; every thread and task has a value of its own
_ENTERED: ContextVar[tuple[Trace, ...]] = ContextVar("entered", default=())


@dataclass(frozen=True)
class Step:
    """One tensor of the computation.

    Attributes:
        name: Readable and unique, such as `layer.0.intermediate`.
        formula: What it is computed from.
        module: The module at which it is seen. None inside the attention function, which is not a
            module.
        is_input: It goes into that module rather than coming out of it.
    """

    name: str
    formula: str
    module: nn.Module | None
    is_input: bool = False


def steps_of(model: PreTrainedModel) -> list[Step]:
    """Return all steps of a model, in the order in which they are computed."""
    base = model.base_model
    embeddings = base.embeddings
    hidden = "embeddings.output"
    own = model.config.own_attention
    steps = [
        Step("embeddings.word", "row input_ids of the word embeddings", embeddings.word_embeddings),
        Step(
            "embeddings.token_type",
            "row token_type_ids of the segment embeddings",
            embeddings.token_type_embeddings,
        ),
        Step(
            "embeddings.position",
            "row 0, 1, 2, ... of the position embeddings",
            embeddings.position_embeddings,
        ),
        Step("embeddings.sum", "word + token_type + position", embeddings.LayerNorm, is_input=True),
        Step("embeddings.normalized", "LayerNorm(sum)", embeddings.LayerNorm),
        Step(hidden, "dropout(normalized), off when not training: h_0", embeddings),
    ]
    for i, layer in enumerate(base.encoder.layer):
        attention = f"layer.{i}.attention"
        mix = layer.attention.output
        output = layer.output
        steps += [
            Step(f"{attention}.query", f"{hidden} W_Q + b_Q, split into heads", None),
            Step(f"{attention}.key", f"{hidden} W_K + b_K, split into heads", None),
            Step(f"{attention}.value", f"{hidden} W_V + b_V, split into heads", None),
            *_attention_steps(attention, own),
            Step(f"{attention}.projected", "context W_O + b_O", mix.dense),
            Step(f"{attention}.sum", f"projected + {hidden}", mix.LayerNorm, is_input=True),
            Step(f"{attention}.output", "LayerNorm(sum)", mix),
            Step(f"layer.{i}.widened", "attention.output W_1 + b_1", layer.intermediate.dense),
            Step(
                f"layer.{i}.intermediate", f"{model.config.hidden_act}(widened)", layer.intermediate
            ),
            Step(f"layer.{i}.narrowed", "intermediate W_2 + b_2", output.dense),
            Step(f"layer.{i}.sum", "narrowed + attention.output", output.LayerNorm, is_input=True),
            Step(f"layer.{i}.output", f"LayerNorm(sum): h_{i + 1}", output),
        ]
        hidden = f"layer.{i}.output"
    if isinstance(base.pooler, BertPooler):
        first_token = f"{hidden} of the first token, [CLS]"
        activation = type(base.pooler.activation).__name__.lower()
        steps += [
            Step("pooler.cls", first_token, base.pooler.dense, is_input=True),
            Step("pooler.dense", "cls W + b", base.pooler.dense),
            Step("pooler.output", f"{activation}(dense)", base.pooler),
        ]
    elif base.pooler is not None:
        steps.append(Step("pooler.output", f"{type(base.pooler).__name__}({hidden})", base.pooler))
    return steps + list(_head_steps(model, hidden))


def _attention_steps(attention: str, own: str | None) -> list[Step]:
    """Return the steps inside BERT's attention functions, or around one of a user's own."""
    if own is not None:
        formula = f"{own}(query, key, value), heads side by side"
        return [
            Step(f"{attention}.probabilities", f"if {own} returns any", None),
            Step(f"{attention}.context", formula, None),
        ]
    return [
        Step(f"{attention}.scores", "query key^T / sqrt(head_size)", None),
        Step(f"{attention}.masked_scores", "scores + (0 to look at, lowest number to hide)", None),
        Step(f"{attention}.probabilities", "softmax(masked_scores) over the keys", None),
        Step(f"{attention}.context", "probabilities value, heads side by side", None),
    ]


def _head_steps(model: nn.Module, hidden: str) -> Iterator[Step]:
    cls = getattr(model, "cls", None)
    predictions = getattr(cls, "predictions", None)
    if predictions is not None:
        yield Step(
            "mlm.transformed", f"LayerNorm(activation({hidden} W + b))", predictions.transform
        )
        yield Step("mlm.logits", "transformed E^T + bias, E the word embeddings", predictions)
    next_sentence = getattr(cls, "seq_relationship", None)
    if next_sentence is not None:
        yield Step("nsp.logits", "pooler.output W + b", next_sentence)
    classifier = getattr(model, "classifier", None)
    if classifier is not None:
        yield Step("classifier.logits", "dropout(what it classifies) W + b", classifier)
    answers = getattr(model, "qa_outputs", None)
    if answers is not None:
        yield Step("qa.logits", f"{hidden} W + b: start and end", answers)


class Trace(Mapping[str, Tensor]):
    """Records the tensors that a model computes inside a `with` block.

    Afterwards it is a read-only dictionary of them, in the order of computation.

    With nothing patched the outputs are those of an untraced call, bit for bit, whatever the
    attention implementation: the model's own attention computes the context. Scores and
    probabilities, which SDPA never writes down, are also computed, by the eager formula. Under
    eager attention they are the very numbers that were used. Gradients lead through them in both.
    In training mode under SDPA the probabilities are those before dropout, and no gradient leads
    through them where there is dropout.

    A registered attention function of a user's own is called as it is. Of what it computes, its
    context is recorded, and the probabilities if it returns any. There are no scores, because only
    the function knows how it made them.

    A second call in the block takes the place of the first. Tensors keep their gradients' history.

    Args:
        model: Any minibert model with minibert's `BertSelfAttention` in every layer.

    Raises:
        ValueError: Not a model that can be traced, or a packed batch.
        KeyError: A name that is not a step, or one that no call has computed.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        if not isinstance(model, PreTrainedModel):
            raise ValueError(f"trace takes a minibert model, not {type(model).__name__}.")
        attentions = [module for module in model.modules() if type(module) is BertSelfAttention]
        if len(attentions) != len(model.base_model.encoder.layer):
            raise ValueError(
                "trace takes a model with minibert's own attention in every layer, not one that "
                "optimize has rewritten (trace before) or whose layers have been replaced."
            )
        self.model = model
        self.steps = {step.name: step for step in steps_of(model)}
        self._attentions = attentions
        self._values: dict[str, Tensor] = {}
        self._patches: dict[str, Patch] = {}
        self._handles: list[RemovableHandle] = []

    def set(self, name: str, value: Tensor | float | Patch) -> None:
        """Replace the value of a step in every later call.

        Args:
            name: The step.
            value: A tensor or number (broadcast to the step's shape), or a function from the value
                to a new one. The function may read what is already computed:
                `t.set("layer.3.output", lambda _: t["layer.2.output"])`.

        Raises:
            KeyError: The model does not have this step.
            ValueError: Neither a tensor nor a number nor a function. Scores or probabilities of an
                attention function of one's own, which computes its context as it likes.
        """
        own = self.model.config.own_attention
        if own is not None and str(name).endswith(_OF_BERT):
            raise _not_traced(name, own)
        self._check(name)
        if callable(value):
            self._patches[name] = value
        else:
            fixed = _tensor(name, value)
            self._patches[name] = lambda _: fixed

    def switch_off_head(self, layer: int, head: int) -> None:
        """Zero ablation: set the attention probabilities of one head to 0, so that it adds nothing.

        Of an attention function of one's own, the context of the head is set to 0.

        Args:
            layer: Index of the layer, from 0.
            head: Index of the head, from 0.

        Raises:
            KeyError: The model does not have that layer.
            ValueError: The layer does not have that head, or a number below 0.
        """
        check_count("layer", layer, 0)
        check_count("head", head, 0)
        attention = f"layer.{layer}.attention"
        self._check(f"{attention}.context")
        if not 0 <= head < self.model.config.num_attention_heads:
            raise ArgumentError(
                "head", f"should be 0 to {self.model.config.num_attention_heads - 1}, not {head}."
            )
        name, axis, switched_off = f"{attention}.probabilities", 1, torch.tensor([head])
        if self.model.config.own_attention is not None:
            size = self.model.config.hidden_size // self.model.config.num_attention_heads
            name, axis = f"{attention}.context", -1
            switched_off = torch.arange(head * size, (head + 1) * size)
        # other heads of the layer may be off already
        before: Patch = self._patches.get(name, lambda x: x)
        self.set(name, lambda x: before(x).index_fill(axis, switched_off.to(x.device), 0.0))

    def skip_layer(self, layer: int) -> None:
        """Replace the output of a layer by its input (layer ablation).

        Args:
            layer: Index of the layer, from 0.

        Raises:
            KeyError: The model does not have that layer.
            ValueError: A number below 0.
        """
        check_count("layer", layer, 0)
        before = "embeddings.output"
        if layer != 0:
            before = f"layer.{layer - 1}.output"
        self.set(f"layer.{layer}.output", lambda _: self[before])

    def __enter__(self) -> Trace:
        self._values.clear()
        self._watch()
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _ENTERED.set(tuple(trace for trace in _ENTERED.get() if trace is not self))
        while self._handles:
            self._handles.pop().remove()

    def __getitem__(self, name: str) -> Tensor:
        own = self.model.config.own_attention
        if own is not None and self._values and str(name).endswith(_OF_BERT):
            if name not in self._values:
                raise KeyError(str(_not_traced(name, own)))
        self._check(name)
        if name not in self._values:
            raise KeyError(
                f"{name!r} has not been computed: call the model inside `with trace(model) as t:`."
            )
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        """Return a table of the computed steps, or of all steps before the first call."""
        rows = []
        for name, step in self.steps.items():
            shape = ""
            if name in self._values:
                shape = str(tuple(self._values[name].shape))
            elif self._values:
                continue
            formula = step.formula
            if name in self._patches:
                formula += "  (patched)"
            rows.append((name, shape, formula))

        width = max(len(name) for name, _, _ in rows)
        shape_width = max(len(shape) for _, shape, _ in rows)
        return "\n".join(
            f"{name:<{width}}  {shape:<{shape_width}}  {formula}"
            for name, shape, formula in [("name", "shape", "formula"), *rows]
        )

    def _check(self, name: str) -> None:
        if name not in self.steps:
            close = ", ".join(difflib.get_close_matches(str(name), self.steps, n=3))
            raise KeyError(
                f"{name!r} is not a step of this model. Close names: {close or 'print the trace'}."
            )

    def _watch(self) -> None:
        def watch(
            register: Callable[..., RemovableHandle], hook: Callable[..., Any], **options: bool
        ) -> None:
            def here(*arguments: Any) -> Any:
                """Call the hook in the code that entered the block. Elsewhere change nothing."""
                if any(trace is self for trace in _ENTERED.get()):
                    return hook(*arguments)
                return None

            self._handles.append(register(here, **options))

        watch(self.model.register_forward_pre_hook, lambda *_: self._values.clear())
        for name, step in self.steps.items():
            if step.module is None:
                continue
            if step.is_input:
                watch(
                    step.module.register_forward_pre_hook,
                    lambda _, x, name=name: (self._record(name, x[0]), *x[1:]),
                )
            else:
                watch(
                    step.module.register_forward_hook,
                    lambda _, __, y, name=name: self._record(name, y),
                )
        # The attention function is wrapped. An attention that is called alone receives none.
        default = ATTENTION_FUNCTIONS[self.model.config.attn_implementation]
        for layer, attention in enumerate(self._attentions):
            name = f"layer.{layer}.attention"
            watch(
                attention.register_forward_pre_hook,
                lambda _, x, keywords, name=name: (
                    x,
                    {**keywords, "attend": self._watched(name, keywords.get("attend") or default)},
                ),
                with_kwargs=True,
            )

    def _watched(self, prefix: str, attend: AttentionFunction) -> AttentionFunction:
        def watched(
            query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
        ) -> AttentionOutput:
            if not isinstance(layout, PaddedLayout):
                raise ValueError(
                    "trace takes a padded batch, (batch, seq): packed sequences have maps of "
                    "many shapes."
                )
            ((q, k, v),) = split_heads(query, key, value, layout)  # (batch, heads, seq, head_size)
            q = self._record(f"{prefix}.query", q)
            k = self._record(f"{prefix}.key", k)
            v = self._record(f"{prefix}.value", v)
            context, used = attend(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), layout, dropout
            )

            if attend not in (eager_attention, sdpa_attention):
                if self._is_patched(prefix, "scores", "masked_scores", "probabilities"):
                    raise _not_traced(f"{prefix}.probabilities", getattr(attend, "__name__", ""))
                if used is not None:
                    used = self._record(f"{prefix}.probabilities", used)
                return self._record(f"{prefix}.context", context), used

            masked_scores = self._masked_scores(prefix, q, k, layout)
            has_patched_scores = self._is_patched(prefix, "scores", "masked_scores")
            probabilities = used
            if probabilities is None or has_patched_scores:
                probabilities = masked_scores.softmax(dim=-1)
            probabilities = self._record(f"{prefix}.probabilities", probabilities)
            if has_patched_scores or self._is_patched(prefix, "probabilities"):
                context = merge_heads([torch.matmul(probabilities, v)], layout)
            elif used is None and context.requires_grad and dropout == 0:
                # the fused kernel's numbers, and the gradients of the written-out formula, which
                # lead through these scores and probabilities: what is added is 0
                written_out = merge_heads([torch.matmul(probabilities, v)], layout)
                context = context.detach() + (written_out - written_out.detach())
            context = self._record(f"{prefix}.context", context)
            if used is None:
                return context, None
            return context, probabilities

        return watched

    def _masked_scores(self, prefix: str, q: Tensor, k: Tensor, layout: PaddedLayout) -> Tensor:
        """Record the scores of one layer, (batch, heads, seq, seq), and return them masked."""
        scores = torch.matmul(q, k.transpose(2, 3)) * q.size(-1) ** -0.5
        scores = self._record(f"{prefix}.scores", scores)
        if layout.mask is not None:
            scores = scores + additive(layout.mask, q, layout.dtype)
        return self._record(f"{prefix}.masked_scores", scores)

    def _is_patched(self, prefix: str, *names: str) -> bool:
        return any(f"{prefix}.{name}" in self._patches for name in names)

    def _record(self, name: str, value: Tensor) -> Tensor:
        """Record a value, patched where its step is, and return it for the rest of the pass."""
        patch = self._patches.get(name)
        if patch is not None:
            new = _tensor(name, patch(value))
            try:
                value = new.to(value).expand(value.shape)
            except RuntimeError:
                raise ValueError(
                    f"the value set for {name} should be of shape {tuple(value.shape)}, "
                    f"not {tuple(new.shape)}."
                ) from None
        self._values[name] = value
        return value


def _not_traced(name: str, function: str) -> ValueError:
    """Return the error for a step that an attention function of a user's own does not have."""
    return ValueError(
        f"{name} is a step of BERT's attention, but the model computes with the function "
        f"{function!r:.80}, of which trace sees the queries, keys and values, the context, and the "
        "probabilities that it returns."
    )


def _tensor(name: str, value: Any) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        kind = type(value).__name__
        raise ValueError(
            f"what is set for {name} should be a tensor or a number, not a {kind}."
        ) from None


trace = Trace
