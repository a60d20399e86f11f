"""The analyses of a trained BERT that papers report, each in a few lines and with its paper.

What reads one forward pass takes a `Trace` of it. What needs gradients or several passes takes the
model and a batch:

```python
with torch.no_grad(), minibert.trace(model) as t:
    model(**batch)
rollout(t)                                      # (layers, batch, seq, seq)
head_importance(model, [{**batch, "labels": labels}])    # (layers, heads)
```

Layers and heads count from 0. None of these says why a model answered as it did: attention is not
explanation (Jain and Wallace 2019), and neither is a gradient. They are measurements to compare.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.base import PreTrainedModel
from minibert.study.checking import (
    as_tensor,
    check_differentiable,
    check_inputs,
    check_trace,
)
from minibert.study.trace import Trace, trace
from minibert.util.checks import check_count, warn
from minibert.util.errors import ArgumentError

Batch = Mapping[str, Tensor]
Measure = Callable[[Any], Tensor]  # a model's output -> a number for each sequence, (batch,)


class Pattern(NamedTuple):
    """A head's pattern on one text, or None, and the share of its attention that follows it."""

    name: str | None
    share: float


def rollout(attentions: Trace | Sequence[Tensor]) -> Tensor:
    """Compute how much of each input token reaches each token of each layer.

    This is attention rollout (Abnar and Zuidema 2020).
    A layer mixes its input half by attention, averaged over heads, and half by the residual: `(A +
    I) / 2`. The product of these over the layers follows the tokens. It knows nothing of values,
    feed-forward networks or LayerNorm.

    Args:
        attentions: A trace, a model's output, or its `attentions`, (batch, heads, seq, seq) each.

    Returns:
        (layers, batch, seq, seq). Every row sums to 1.

    Raises:
        ValueError: An output without attentions.
    """
    if isinstance(attentions, Trace):
        layers = range(attentions.model.config.num_hidden_layers)
        attentions = [attentions[f"layer.{i}.attention.probabilities"] for i in layers]
    maps = getattr(attentions, "attentions", attentions)
    if not isinstance(maps, list | tuple):
        maps = []
    maps = [torch.as_tensor(probabilities) for probabilities in maps]
    if not maps or any(probabilities.dim() != 4 for probabilities in maps):
        raise ValueError(
            "pass a trace, or what a model returned that was called with output_attentions=True."
        )
    products: list[Tensor] = []
    for probabilities in maps:
        identity = torch.eye(probabilities.size(-1), device=probabilities.device)
        product = (probabilities.mean(dim=1) + identity) / 2
        if products:
            product = product @ products[-1]
        products.append(product)
    return torch.stack(products)


def logit_lens(t: Trace, k: int = 5, words: int | None = None) -> tuple[Tensor, Tensor]:
    """Read the MLM head's answer off every layer.

    This is the logit lens (nostalgebraist 2020, "Interpreting GPT: the logit lens").

    Args:
        t: The trace of a model with an MLM head.
        k: Number of the best words.
        words: Size of the tokenizer's vocabulary, where the model's was rounded up. None: all ids
            of the model.

    Returns:
        Probabilities and ids, (layers + 1, batch, seq, k) each. The embeddings come first.

    Raises:
        ValueError: The model has no MLM head, or `k` or `words` is impossible.
    """
    check_trace(t)
    vocabulary = t.model.config.vocab_size
    if words is None:
        words = vocabulary
    check_count("words", words)
    check_count("k", k)
    if k > min(words, vocabulary):
        raise ArgumentError("k", f"should be at most the number of words, {words}, not {k}.")
    if "mlm.logits" not in t.steps:
        raise ValueError(
            f"logit_lens needs a model with an MLM head, and {type(t.model).__name__} has none."
        )
    head: Any = t.steps["mlm.logits"].module
    names = [
        "embeddings.output",
        *(f"layer.{i}.output" for i in range(t.model.config.num_hidden_layers)),
    ]
    probabilities = []
    ids = []
    for name in names:  # one layer at a time: the logits are (batch, seq, vocab)
        logits = head(t[name])
        # by the logits, because different ones may have the same probability when rounded
        ids.append(logits[..., :words].topk(k).indices)
        probabilities.append(logits.softmax(dim=-1).gather(-1, ids[-1]))
    return torch.stack(probabilities), torch.stack(ids)


def per_head_output(t: Trace, layer: int) -> Tensor:
    """Compute each head's contribution to the residual stream.

    It serves direct logit attribution (Elhage et al. 2021).
    The output projection is linear, so its result is a sum over heads: the sum of these and the
    bias is `layer.N.attention.projected`.

    Returns:
        (batch, heads, seq, hidden).
    """
    check_trace(t)
    check_count("layer", layer, 0)
    context = t[f"layer.{layer}.attention.context"]  # (batch, seq, hidden), heads side by side
    dense = t.model.base_model.encoder.layer[layer].attention.output.dense
    heads = t.model.config.num_attention_heads
    weight = dense.weight.view(len(dense.weight), heads, -1)  # (hidden, heads, head_size)
    return torch.einsum("bshd,ohd->bhso", context.view(*context.shape[:2], heads, -1), weight)


def attention_patterns(
    tokens: Sequence[str], probabilities: Tensor, min_share: float = 0.5
) -> list[Pattern]:
    """Find the heads of a layer that look at a fixed place (Clark et al. 2019, section 3).

    Patterns: "previous", "next" and "itself" (by position), "[CLS]", "[SEP]", "same" (another token
    that is the same piece) and "even" (entropy above 95% of the largest possible). Measured over
    the tokens that are not special. A pattern on one text says little of the head on others.

    Args:
        tokens: The tokens of one sequence.
        probabilities: (heads, seq, seq), (1, heads, seq, seq), or those of one head, (seq, seq).
        min_share: The least share of attention, on average, that makes a pattern.

    Returns:
        One for each head. The name is None, and the share that of the strongest, where no pattern
        reaches `min_share`.

    Raises:
        ValueError: Probabilities of another shape.
    """
    maps = _maps_of_sequence(probabilities, len(tokens))
    ordinary = torch.tensor([token not in ("[CLS]", "[SEP]", "[PAD]") for token in tokens])
    if not ordinary.any():
        return [Pattern(None, 0.0)] * len(maps)
    place = torch.arange(len(tokens))
    piece = torch.tensor([tokens.index(token) for token in tokens])  # equal where tokens are
    same_place = place[:, None] == place
    keys = {  # that each pattern looks at, (seq, seq) or (1, seq)
        "previous": place[:, None] - 1 == place,
        "next": place[:, None] + 1 == place,
        "itself": same_place,
        "[CLS]": torch.tensor([[token == "[CLS]" for token in tokens]]),
        "[SEP]": torch.tensor([[token == "[SEP]" for token in tokens]]),
        "same": (piece[:, None] == piece) & ~same_place,
    }
    rows = maps[:, ordinary]  # (heads, queries, seq)
    shares = []
    for looked_at in keys.values():
        looked_at = looked_at.expand_as(same_place)[ordinary]
        queries = looked_at.any(dim=-1).sum()  # first and last token, for one, lack a neighbor
        shares.append((rows * looked_at).sum(dim=(1, 2)) / queries.clamp_min(1))
    visible = sum(token != "[PAD]" for token in tokens)
    entropies = torch.special.entr(rows).sum(dim=-1).mean(dim=-1)
    patterns = []
    for entropy, head_shares in zip(entropies, torch.stack(shares, dim=1), strict=True):
        evenness = entropy.item() / max(math.log(visible), 1e-30)
        strongest = int(head_shares.argmax())
        share = head_shares[strongest].item()
        if evenness > 0.95 and visible > 3:
            patterns.append(Pattern("even", evenness))
        elif share < min_share:
            patterns.append(Pattern(None, share))
        else:
            patterns.append(Pattern([*keys][strongest], share))
    return patterns


def head_importance(
    model: PreTrainedModel,
    batches: Iterable[Batch],
    loss: Measure = lambda output: output.loss,
    normalize: bool = True,
) -> Tensor:
    """Measure how much the loss depends on each head (Michel et al. 2019, equation 2).

    The importance is the mean of `|context . dL/dcontext|`. That is the gradient of the loss with
    respect to a factor on the head's output, where the factor is 1.

    Args:
        model: A model with a head and in eval mode.
        batches: What to call the model with, `labels` included.
        loss: The loss of a model's output, averaged over the batch.
        normalize: L2-normalize each layer, as the paper does before it compares layers.

    Returns:
        (layers, heads).

    Raises:
        ValueError: No batches, batches without labels, or a loss without a gradient.
    """
    config = model.config
    total = torch.zeros(config.num_hidden_layers, config.num_attention_heads)
    sequences = 0
    for batch in batches:
        check_inputs("each of batches", batch)
        contexts, gradients = _context_gradients(model, batch, loss)
        for i, (context, gradient) in enumerate(zip(contexts, gradients, strict=True)):
            shape = (*context.shape[:2], config.num_attention_heads, -1)
            heads = (context * gradient).view(shape)  # (batch, seq, heads, head_size)
            # the loss is a mean over the batch, so a sequence's own gradient is len(batch) times as
            # large
            total[i] += heads.sum(dim=(1, 3)).abs().sum(dim=0).detach().cpu() * len(context)
        sequences += len(contexts[0])
    if not sequences:
        raise ArgumentError("batches", "should be one or more batches, not none.")
    importance = total / sequences
    if normalize:
        importance = F.normalize(importance, dim=-1)
    return importance


def _context_gradients(
    model: PreTrainedModel, batch: Batch, loss: Measure
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Return the context of every layer, (batch, seq, hidden), and the gradient of the loss."""
    names = [f"layer.{i}.attention.context" for i in range(model.config.num_hidden_layers)]
    t = trace(model)
    t.set(names[0], lambda context: context.requires_grad_())  # also where weights are frozen
    with torch.enable_grad(), t:
        value = loss(model(**batch))
        if value is None:
            raise ValueError(
                "the model returned no loss: each batch needs its labels, or pass `loss`."
            )
        check_differentiable("loss", value)
        contexts = [t[name] for name in names]
        return contexts, torch.autograd.grad(value.sum(), contexts)


def integrated_gradients(
    model: PreTrainedModel,
    batch: Batch,
    target: Measure,
    steps: int = 50,
    baseline_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attribute a number that the model computes to the tokens (Sundararajan et al. 2017).

    The gradient with respect to the word embeddings, averaged along the straight path from a
    baseline to the text by Gauss-Legendre quadrature, times that path.

    Args:
        model: Any minibert model, in eval mode.
        batch: Keyword arguments of the model, with `input_ids` (batch, seq).
        target: The number, from the model's output to (batch,), such as `lambda out: out.logits[:,
            1]`.
        steps: Points on the path.
        baseline_ids: (batch, seq). None: [PAD] in place of every token but the first and the last
            that is no padding.

    Returns:
        The attributions (batch, seq), and by how much their sum falls short of `target(text) -
        target(baseline)`, (batch,): near 0 when `steps` are enough.

    Raises:
        ValueError: No batch with `input_ids`, no steps, or a target without a gradient.
    """
    check_inputs("batch", batch)
    check_count("steps", steps)
    ids = batch["input_ids"]
    rest = {name: values for name, values in batch.items() if name != "input_ids"}
    if baseline_ids is None:
        mask = batch.get("attention_mask", torch.ones_like(ids))
        baseline_ids = torch.full_like(ids, model.config.pad_token_id or 0)
        visible = mask.ne(0).int()
        last = ids.size(1) - 1 - visible.flip(1).argmax(dim=1)
        ends = torch.stack([visible.argmax(dim=1), last], dim=1)
        baseline_ids = baseline_ids.scatter(1, ends, ids.gather(1, ends))
    table = model.base_model.embeddings.word_embeddings
    with torch.no_grad():
        start = table(baseline_ids)  # (batch, seq, hidden)
        way = table(ids) - start
        values = [target(model(inputs_embeds=point, **rest)) for point in (start, start + way)]
    places, weights = np.polynomial.legendre.leggauss(steps)  # on [-1, 1]
    average = torch.zeros_like(way)
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        point = (start + way * place).requires_grad_()
        with torch.enable_grad():
            value = target(model(inputs_embeds=point, **rest))
            check_differentiable("target", value)
            (gradient,) = torch.autograd.grad(value.sum(), point)
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
    """Find the states that carry the difference between two texts.

    This is activation patching, also called causal tracing (Vig et al. 2020, Meng et al. 2022).
    The model reads the corrupted text, with the state of one layer at one place taken from the
    clean text: where that alone brings the clean answer back, the difference passes through.

    Args:
        model: Any minibert model, in eval mode.
        clean: One sequence, (1, seq).
        corrupted: Another of the same length.
        measure: What to read off, from the model's output to (batch,).
        step: The step to patch, by its name in a trace, with `{}` for the layer. Its shape is
            (batch, seq, ...).

    Returns:
        The measure for every layer and place, (layers, seq).

    Raises:
        ValueError: Texts of different lengths, more than one, a step without places, or a measure
            that is not one number for each row.
    """
    _check_texts(clean, corrupted, step)
    seq = clean["input_ids"].size(1)
    layers = range(model.config.num_hidden_layers)
    with trace(model) as t:
        model(**clean)
    source = {name: t[name] for name in map(step.format, layers)}
    for name, states in source.items():
        if states.shape[:2] != (1, seq):
            raise ArgumentError(
                "step",
                f"should have the shape (batch, seq, ...), but {name} has {tuple(states.shape)}.",
            )
    places = torch.arange(seq)
    # a row for each place
    rows = {name: values.expand(seq, *values.shape[1:]) for name, values in corrupted.items()}
    results = []
    for name, states in source.items():

        def patch(value: Tensor, states: Tensor = states) -> Tensor:
            value = value.clone()
            value[places, places] = states[0]
            return value

        with trace(model) as t:
            t.set(name, patch)
            value = measure(model(**rows))
        if not isinstance(value, Tensor) or value.shape != (seq,):
            raise ArgumentError(
                "measure",
                "should return one number for each row of the batch, such as "
                f"out.logits[:, 1], but it returned {value!r:.60} for {seq} rows.",
            )
        results.append(value)
    return torch.stack(results)


def cka(x: Tensor, y: Tensor) -> float:
    """Measure how similar two sets of states are, up to rotation and scale.

    This is linear CKA (Kornblith et al. 2019, section 3), debiased with the estimator of HSIC by
    Song et al. (2012, equation 5). The plain estimator reports that random numbers are alike (0.97)
    where there are fewer rows than dimensions, as with the tokens of one sentence. For few rows
    the debiased one is noisy.

    Args:
        x: (n, hidden), such as the states of n tokens after one layer.
        y: (n, other hidden), of the same tokens after another layer or in another model.

    Returns:
        About 0 (nothing in common, by chance a little less) to 1 (the same but for rotation and
        scale).

    Raises:
        ValueError: Fewer than four rows, or states of different tokens.
    """
    x = as_tensor("x", x)
    y = as_tensor("y", y)
    n = len(x)
    if n < 4:
        raise ValueError(f"cka takes four rows or more, not {n}.")
    if x.dim() != 2 or y.dim() != 2 or len(y) != n:
        raise ArgumentError(
            "x",
            "and y should be states of the same tokens, (n, hidden), not "
            f"{tuple(x.shape)} and {tuple(y.shape)}.",
        )
    x = _centered(x)
    y = _centered(y)
    similarity = _hsic(x, y) / (_hsic(x, x) * _hsic(y, y)).clamp_min(1e-30).sqrt()
    return float(similarity)


def _centered(states: Tensor) -> Tensor:
    states = states.double()
    states = states / states.abs().max().clamp_min(1e-300)  # the least numbers of any scale
    return states - states.mean(dim=0)


def _hsic(a: Tensor, b: Tensor) -> Tensor:
    """Estimate HSIC without bias, up to a factor, of `a` and `b` (n, dimensions)."""
    n = len(a)
    # the diagonals of both kernels, which are left out
    diagonal_a = a.square().sum(dim=1)
    diagonal_b = b.square().sum(dim=1)
    sums_a = a @ a.sum(dim=0) - diagonal_a
    sums_b = b @ b.sum(dim=0) - diagonal_b
    kernel_trace = (a.T @ b).square().sum() - diagonal_a @ diagonal_b
    return (
        kernel_trace
        + sums_a.sum() * sums_b.sum() / ((n - 1) * (n - 2))
        - 2 / (n - 2) * (sums_a @ sums_b)
    )


def linear_probe(
    train: Tensor, train_labels: Tensor, test: Tensor, test_labels: Tensor, decay: float = 0.01
) -> float:
    """Compute the accuracy of logistic regression on states (Alain and Bengio 2016).

    `probe_predictions` has what it predicts, for intervals, scores by class and paired tests.

    Args:
        train: States to train on, (n, hidden).
        train_labels: Their classes from 0, (n,).
        test: States to measure on, (m, hidden).
        test_labels: (m,).
        decay: Factor of the squared weights that are added to the loss.

    Returns:
        The share of `test` that is classified correctly. Compare it with that of the most frequent
        class.

    Raises:
        ValueError: States and labels that do not fit.
    """
    test, test_labels = _probe_data("test", test, test_labels)
    predicted = probe_predictions(train, train_labels, test, decay)
    unseen = set(test_labels.tolist()) - set(as_tensor("train_labels", train_labels).tolist())
    if unseen:
        count = sum(label in unseen for label in test_labels.tolist())
        warn(
            f"{count} of {len(test_labels)} test labels are classes that train_labels does not "
            f"have ({min(unseen)}, for instance): they count as wrong."
        )
    return (predicted == test_labels).double().mean().item()


def probe_predictions(
    train: Tensor, train_labels: Tensor, test: Tensor, decay: float = 0.01
) -> Tensor:
    """Predict the classes of states by logistic regression on other states.

    Features are standardized. L-BFGS trains to the end, from zero, so the result does not depend on
    chance.

    Args:
        train: States to train on, (n, hidden).
        train_labels: Their classes from 0, (n,).
        test: States to classify, (m, hidden).
        decay: Factor of the squared weights that are added to the loss.

    Returns:
        The class of each state of `test`, (m,).

    Raises:
        ValueError: States and labels that do not fit.
    """
    train, train_labels = _probe_data("train", train, train_labels)
    test, _ = _probe_data("test", test, torch.zeros(len(test), dtype=torch.long))
    if len(train) < 2:
        raise ArgumentError("train", "should be two states or more, to be standardized, not 1.")
    if train.size(1) != test.size(1):
        raise ArgumentError(
            "train",
            "and test should have equally many dimensions, not "
            f"{train.size(1)} and {test.size(1)}.",
        )
    mean = train.mean(dim=0)
    spread = train.std(dim=0) + 1e-6
    x = ((train - mean) / spread).detach()
    classes = int(train_labels.max()) + 1
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
    return (((test - mean) / spread) @ weights + bias).argmax(dim=1)


def _probe_data(name: str, states: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Return states (n, hidden) as float32 and classes (n,) as integers."""
    states = as_tensor(name, states).float()
    classes = as_tensor(f"{name}_labels", labels)
    if states.dim() != 2 or not len(states) or classes.shape != states.shape[:1]:
        raise ArgumentError(
            name,
            f"should be states of shape (n, hidden) and {name}_labels their n classes, not "
            f"{tuple(states.shape)} and {tuple(classes.shape)}.",
        )
    if classes.is_floating_point() and not torch.equal(classes, classes.round()):
        raise ValueError(f"{name}_labels should be whole numbers from 0.")
    classes = classes.long()
    if classes.min() < 0:
        raise ValueError(f"{name}_labels should be 0 or more, not {classes.min().item()}.")
    return states, classes


def _maps_of_sequence(probabilities: Any, seq: int) -> Tensor:
    """Return the attention of one sequence as (heads, seq, seq)."""
    maps = as_tensor("probabilities", probabilities).double()
    if maps.dim() == 2 or (maps.dim() == 4 and len(maps) == 1):
        maps = maps.reshape(-1, *maps.shape[-2:])
    if maps.dim() != 3 or maps.shape[1:] != (seq, seq):
        raise ArgumentError(
            "probabilities",
            f"should be those of one sequence of {seq} tokens, (heads, {seq}, "
            f"{seq}), not {tuple(maps.shape)}. Pass probabilities[i] of a batch.",
        )
    return maps


def _check_texts(clean: Any, corrupted: Any, step: str) -> None:
    """Check that these are two single sequences of one length, and that a step has a layer."""
    check_inputs("clean", clean)
    check_inputs("corrupted", corrupted)
    if "{}" not in step:
        raise ArgumentError(
            "step", f'should have {{}} for the layer, "layer.{{}}.output", not {step!r}.'
        )
    shapes = [tuple(batch["input_ids"].shape) for batch in (clean, corrupted)]
    if shapes[0] != shapes[1] or shapes[0][0] != 1:
        raise ValueError(
            "patching_sweep takes two sequences of one length, (1, seq), "
            f"not {shapes[0]} and {shapes[1]}."
        )
