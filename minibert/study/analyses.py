"""The analyses of a trained BERT that papers report, each in a few lines and with its paper.

What reads one forward pass takes a `Trace` of it; what needs gradients or several passes takes the model and a batch:

```python
with torch.no_grad(), minibert.trace(model) as t:
    model(**batch)
rollout(t)                                      # (layers, batch, seq, seq)
head_importance(model, [{**batch, "labels": labels}])    # (layers, heads)
```

Layers and heads count from 0. None of these says why a model answered as it did: attention is not explanation (Jain and
Wallace 2019), and neither is a gradient. They are measurements to compare.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.base import PreTrainedModel
from minibert.study.trace import Trace, trace

Batch = Mapping[str, Tensor]
Measure = Callable[[Any], Tensor]  # a model's output -> a number for each sequence, (batch,)


class Pattern(NamedTuple):
    """The pattern that a head follows on one text, or None, and the share of its attention that does."""

    name: str | None
    share: float


def rollout(attentions: Trace | Sequence[Tensor]) -> Tensor:
    """How much of each input token reaches each token, through all layers up to each (Abnar and Zuidema 2020).

    A layer mixes its input half by attention, averaged over heads, and half by the residual: `(A + I) / 2`; the
    product of these over the layers follows the tokens. It knows nothing of values, feed-forward networks or LayerNorm.

    Args:
        attentions: a trace, a model's output, or its `attentions`, (batch, heads, seq, seq) each.

    Returns:
        (layers, batch, seq, seq); every row sums to 1.

    Raises:
        ValueError: an output without attentions.
    """
    if isinstance(attentions, Trace):
        layers = range(attentions.model.config.num_hidden_layers)
        attentions = [attentions[f"layer.{i}.attention.probabilities"] for i in layers]
    found = list(getattr(attentions, "attentions", attentions) or ())
    if not found or any(probabilities.dim() != 4 for probabilities in found):
        raise ValueError(
            "pass a trace, or what a model returned that was called with output_attentions=True."
        )
    products: list[Tensor] = []
    for probabilities in found:
        mixed = (
            probabilities.mean(dim=1)
            + torch.eye(probabilities.size(-1), device=probabilities.device)
        ) / 2
        products.append(mixed @ products[-1] if products else mixed)
    return torch.stack(products)


def logit_lens(t: Trace, k: int = 5, words: int | None = None) -> tuple[Tensor, Tensor]:
    """The MLM head's answer after every layer (nostalgebraist 2020, "Interpreting GPT: the logit lens").

    Args:
        t: the trace of a model with an MLM head.
        k: how many of the best words.
        words: only the first this many of the vocabulary, where that was rounded up beyond the tokenizer's.

    Returns:
        Probabilities and ids, (layers + 1, batch, seq, k) each; the embeddings come first.

    Raises:
        ValueError: the model has no MLM head.
    """
    head = getattr(getattr(t.model, "cls", None), "predictions", None)
    if head is None:
        raise ValueError(
            f"logit_lens needs a model with an MLM head, and {type(t.model).__name__} has none."
        )
    names = [
        "embeddings.output",
        *(f"layer.{i}.output" for i in range(t.model.config.num_hidden_layers)),
    ]
    # one layer at a time: the logits are (batch, seq, vocab)
    best = [head(t[name]).softmax(dim=-1)[..., :words].topk(k) for name in names]
    return torch.stack([b.values for b in best]), torch.stack([b.indices for b in best])


def per_head_output(t: Trace, layer: int) -> Tensor:
    """Each head's contribution to the residual stream (Elhage et al. 2021, direct logit attribution).

    The output projection is linear, so its result is a sum over heads: the sum of these and the bias is
    `layer.N.attention.projected`.

    Returns:
        (batch, heads, seq, hidden).
    """
    context = t[f"layer.{layer}.attention.context"]  # (batch, seq, hidden), heads side by side
    dense = t.model.base_model.encoder.layer[layer].attention.output.dense
    heads = t.model.config.num_attention_heads
    weight = dense.weight.view(len(dense.weight), heads, -1)  # (hidden, heads, head_size)
    return torch.einsum("bshd,ohd->bhso", context.view(*context.shape[:2], heads, -1), weight)


def attention_patterns(
    tokens: Sequence[str], probabilities: Tensor, min_share: float = 0.5
) -> list[Pattern]:
    """Which heads of a layer look at a fixed place (Clark et al. 2019, section 3).

    Patterns: "previous", "next" and "itself" (by position), "[CLS]", "[SEP]", "same" (another token that is the same
    piece) and "even" (entropy above 95% of the largest possible). Measured over the tokens that are not special.
    A pattern on one text says little of the head on others.

    Args:
        tokens: the tokens of one sequence.
        probabilities: (heads, seq, seq), or (1, heads, seq, seq).
        min_share: the least share of attention, on average, that makes a pattern.

    Returns:
        One for each head; the name is None, and the share that of the strongest, where no pattern reaches `min_share`.
    """
    maps = (
        probabilities.detach().reshape(-1, len(tokens), len(tokens)).double()
    )  # (heads, seq, seq)
    real = [i for i, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]", "[PAD]")]
    if not real:
        return [Pattern(None, 0.0)] * len(maps)
    visible = [i for i, token in enumerate(tokens) if token != "[PAD]"]
    keys = {
        "previous": {i: [i - 1] for i in real if i > 0},
        "next": {i: [i + 1] for i in real if i + 1 < len(tokens)},
        "itself": {i: [i] for i in real},
        "[CLS]": {i: [j for j in visible if tokens[j] == "[CLS]"] for i in real},
        "[SEP]": {i: [j for j in visible if tokens[j] == "[SEP]"] for i in real},
        "same": {
            i: twins
            for i in real
            if (twins := [j for j in real if j != i and tokens[j] == tokens[i]])
        },
    }
    found = []
    for head in maps:
        rows = head[real]
        entropy = -(rows * rows.clamp_min(1e-30).log()).sum(-1).mean().item() / max(
            np.log(len(visible)), 1e-30
        )
        shares = {
            name: sum(head[i, looked_at].sum().item() for i, looked_at in pairs.items())
            / len(pairs)
            for name, pairs in keys.items()
            if pairs
        }
        best = max(shares, key=lambda name: shares[name])
        if entropy > 0.95 and len(visible) > 3:
            found.append(Pattern("even", entropy))
        else:
            found.append(Pattern(best if shares[best] >= min_share else None, shares[best]))
    return found


def head_importance(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    loss: Measure = lambda output: output.loss,
    normalize: bool = True,
) -> Tensor:
    """How much the loss depends on each head (Michel et al. 2019, equation 2): the mean of `|context . dL/dcontext|`.

    That is the gradient of the loss with respect to a factor on the head's output, where the factor is 1.

    Args:
        model: a model with a head and in eval mode.
        batches: what to call the model with, `labels` included.
        loss: the loss of a model's output, averaged over the batch.
        normalize: divide each layer's by their length (l2), as the paper does before it compares layers.

    Returns:
        (layers, heads).

    Raises:
        ValueError: batches without labels.
    """
    config = model.config
    total = torch.zeros(config.num_hidden_layers, config.num_attention_heads)
    sequences = 0
    for batch in batches:
        with torch.enable_grad(), trace(model) as t:
            value = loss(model(**batch))
            if value is None:
                raise ValueError(
                    "the model returned no loss: each batch needs its labels, or pass `loss`."
                )
        contexts = [t[f"layer.{i}.attention.context"] for i in range(config.num_hidden_layers)]
        for i, (context, gradient) in enumerate(
            zip(contexts, torch.autograd.grad(value.sum(), contexts), strict=True)
        ):
            shape = (*context.shape[:2], config.num_attention_heads, -1)
            heads = (context * gradient).view(shape)  # (batch, seq, heads, head_size)
            # the loss is a mean over the batch, so a sequence's own gradient is len(batch) times as large
            total[i] += heads.sum(dim=(1, 3)).abs().sum(dim=0).detach().cpu() * len(context)
        sequences += len(contexts[0])
    importance = total / max(sequences, 1)
    return F.normalize(importance, dim=-1) if normalize else importance


def integrated_gradients(
    model: PreTrainedModel,
    batch: Batch,
    target: Measure,
    steps: int = 50,
    baseline_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Each token's contribution to a number that the model computes (Sundararajan et al. 2017).

    The gradient with respect to the word embeddings, averaged along the straight path from a baseline to the text
    by Gauss-Legendre quadrature, times that path.

    Args:
        model: any minibert model, in eval mode.
        batch: what to call it with; `input_ids` (batch, seq).
        target: the number, from the model's output to (batch,), such as `lambda out: out.logits[:, 1]`.
        steps: points on the path.
        baseline_ids: (batch, seq). None: [PAD] in place of every token but the first and the last that is no padding.

    Returns:
        The attributions (batch, seq), and by how much their sum falls short of `target(text) - target(baseline)`,
        (batch,): near 0 when `steps` are enough.
    """
    ids, rest = (
        batch["input_ids"],
        {name: values for name, values in batch.items() if name != "input_ids"},
    )
    if baseline_ids is None:
        mask = batch.get("attention_mask", torch.ones_like(ids))
        baseline_ids = torch.full_like(ids, model.config.pad_token_id or 0)
        ends = torch.stack([torch.zeros_like(ids[:, 0]), mask.long().sum(dim=1) - 1], dim=1)
        baseline_ids = baseline_ids.scatter(1, ends, ids.gather(1, ends))
    table = model.base_model.embeddings.word_embeddings
    with torch.no_grad():
        start, way = table(baseline_ids), table(ids) - table(baseline_ids)  # (batch, seq, hidden)
        values = [target(model(inputs_embeds=point, **rest)) for point in (start, start + way)]
    places, weights = np.polynomial.legendre.leggauss(steps)  # on [-1, 1]
    average = torch.zeros_like(way)
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        point = (start + way * place).requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(
                target(model(inputs_embeds=point, **rest)).sum(), point
            )
        average += gradient * weight
    attributions = (average * way).sum(dim=-1)
    return attributions, values[1] - values[0] - attributions.sum(dim=-1)


@torch.no_grad()
def patching_sweep(
    model: PreTrainedModel,
    clean: Batch,
    corrupted: Batch,
    measure: Measure,
    step: str = "layer.{}.output",
) -> Tensor:
    """Which states carry what two texts differ in (Vig et al. 2020; Meng et al. 2022, causal tracing).

    The model reads the corrupted text, with the state of one layer at one place taken from the clean text: where that
    alone brings the clean answer back, the difference passes through.

    Args:
        model: any minibert model, in eval mode.
        clean: one sequence, (1, seq).
        corrupted: another of the same length.
        measure: what to read off, from the model's output to (batch,).
        step: the step to patch, by its name in a trace, with `{}` for the layer; of shape (batch, seq, ...).

    Returns:
        The measure for every layer and place, (layers, seq).

    Raises:
        ValueError: texts of different lengths, or more than one.
    """
    shapes = [tuple(batch["input_ids"].shape) for batch in (clean, corrupted)]
    if shapes[0] != shapes[1] or shapes[0][0] != 1:
        given = " and ".join(map(str, shapes))
        raise ValueError(
            f"patching_sweep takes two sequences of one length, (1, seq), not {given}."
        )
    seq, layers = shapes[0][1], range(model.config.num_hidden_layers)
    with trace(model) as t:
        model(**clean)
    source = {name: t[name] for name in map(step.format, layers)}
    places = torch.arange(seq)
    rows = {
        name: values.expand(seq, *values.shape[1:]) for name, values in corrupted.items()
    }  # a row for each place
    results = []
    for name, states in source.items():

        def patch(value: Tensor, states: Tensor = states) -> Tensor:
            value = value.clone()
            value[places, places] = states[0]
            return value

        with trace(model) as t:
            t.set(name, patch)
            results.append(measure(model(**rows)))
    return torch.stack(results)


def cka(x: Tensor, y: Tensor) -> float:
    """How similar two sets of states are, up to rotation and scale: linear CKA (Kornblith et al. 2019, section 3).

    Debiased, with the estimator of HSIC by Song et al. (2012, equation 5): the plain one finds random numbers alike
    (0.97) where there are fewer rows than components, as with the tokens of one sentence. Of few rows it stays noisy.

    Args:
        x: (n, hidden), such as the states of n tokens after one layer.
        y: (n, other hidden), of the same tokens after another layer or in another model.

    Returns:
        About 0 (nothing in common; a little less by chance) to 1 (the same but for rotation and scale).

    Raises:
        ValueError: fewer than four rows.
    """
    if (n := len(x)) < 4:
        raise ValueError(f"cka takes four rows or more, not {n}.")
    x, y = (states.detach().double() - states.detach().double().mean(dim=0) for states in (x, y))

    def hsic(a: Tensor, b: Tensor) -> Tensor:
        own = [
            states.square().sum(dim=1) for states in (a, b)
        ]  # the diagonals of both kernels, which are left out
        sums = [
            states @ states.sum(dim=0) - diagonal
            for states, diagonal in zip((a, b), own, strict=True)
        ]
        trace = (a.T @ b).square().sum() - own[0] @ own[1]
        return (
            trace
            + sums[0].sum() * sums[1].sum() / ((n - 1) * (n - 2))
            - 2 / (n - 2) * (sums[0] @ sums[1])
        )

    return float(hsic(x, y) / (hsic(x, x) * hsic(y, y)).clamp_min(1e-30).sqrt())


def linear_probe(
    train: Tensor, train_labels: Tensor, test: Tensor, test_labels: Tensor, decay: float = 0.01
) -> float:
    """The accuracy of logistic regression on states: how much a line can read off them (Alain and Bengio 2016).

    Features are standardised; L-BFGS trains to the end, from zero, so the result does not depend on chance.

    Args:
        train: states to train on, (n, hidden).
        train_labels: their classes from 0, (n,).
        test: states to measure on, (m, hidden).
        test_labels: (m,).
        decay: factor of the squared weights that are added to the loss.

    Returns:
        The share of `test` that is classified correctly; compare it with that of the most frequent class.
    """
    mean, spread = train.mean(dim=0), train.std(dim=0) + 1e-6
    x, classes = (
        ((train - mean) / spread).detach(),
        int(max(train_labels.max(), test_labels.max())) + 1,
    )
    weights = torch.zeros(x.size(1), classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        value = F.cross_entropy(x @ weights + bias, train_labels) + decay * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value.item()

    with torch.enable_grad():
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    predicted = (((test - mean) / spread) @ weights + bias).argmax(dim=1)
    return (predicted == test_labels).double().mean().item()
