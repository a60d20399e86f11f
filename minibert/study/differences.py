"""Follow the difference between two texts to the attention heads that carry it.

```python
found = carriers(model, tokenizer, "The [MASK] was too tired.", "The [MASK] was too wide.")
print(found)              # where the difference crosses, the heads, and what cutting them does
found.heads               # [(2, 1), (2, 3), ...]
found.flips               # did the answer change when these heads were switched off?
found.control_flips       # and in how many of the random draws?
```

Attention alone does not show why a model answers as it does (Jain and Wallace 2019). This asks in
two steps. Patching finds where the difference moves from one token to another. Knocking out the
heads that could have moved it there tests whether they did.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minibert.base import PreTrainedModel
from minibert.study.analyses import patching_sweep
from minibert.study.trace import trace
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count
from minibert.util.errors import ArgumentError

Head = tuple[int, int]  # layer and head, from 0
Target = Callable[[Any], Tensor]  # a model's output -> logits of its answers, (batch, answers)

ROWS = 32  # sequences in one forward pass


class Prediction(NamedTuple):
    """The most probable answer of the model, and its probability."""

    text: str
    probability: float


class Control(NamedTuple):
    """Heads that were switched off for comparison, and the answer without them."""

    heads: list[Head]
    answer: Prediction


@dataclass(frozen=True)
class Carriers:
    """What carries the difference between two texts, and what happens without it.

    Attributes:
        tokens: The tokens of the second text.
        changed: The positions at which the texts differ.
        effect: The probability of the first text's answer in the first text, with the output of one
            layer at one token taken from the second text, (layers, seq).
        position: The token that receives the difference.
        layer: The layer in which it receives it.
        heads: The heads that look most from `position` to `changed`, the strongest first.
        attention: The attention weight that each of them gives to `changed`.
        first: The answer to the first text.
        second: The answer to the second text.
        cut: The answer to the second text with `heads` switched off.
        controls: The same for random draws of as many other heads of the same layers.
    """

    tokens: list[str]
    changed: list[int]
    effect: Tensor
    position: int
    layer: int
    heads: list[Head]
    attention: list[float]
    first: Prediction
    second: Prediction
    cut: Prediction
    controls: list[Control]

    @property
    def flips(self) -> bool:
        """Whether the answer to the second text changes without `heads`."""
        return self.cut.text != self.second.text

    @property
    def control_flips(self) -> int:
        """The number of controls without which the answer changes."""
        return sum(control.answer.text != self.second.text for control in self.controls)

    def __str__(self) -> str:
        changed = ", ".join(self.tokens[position] for position in self.changed)
        heads = ", ".join(f"{layer}.{head}" for layer, head in self.heads)
        first, second, cut = (
            f"{answer.text} {answer.probability:.3f}"
            for answer in (self.first, self.second, self.cut)
        )
        return (
            f"{self.tokens[self.position]!r} (position {self.position}) receives the difference in "
            f"layer {self.layer}, from {changed!r}.\n"
            f"answers: {first} and {second}\n"
            f"without heads {heads}: {cut}\n"
            f"without as many other heads of these layers: the answer changes in "
            f"{self.control_flips} of {len(self.controls)} random draws"
        )


@torch.no_grad()
def carriers(
    model: PreTrainedModel,
    tokenizer: BertTokenizer,
    first: str,
    second: str,
    target: Target | None = None,
    *,
    heads: int = 5,
    layers: int = 3,
    controls: int = 100,
    seed: int = 0,
) -> Carriers:
    """Find the attention heads that carry the difference between two texts, and test them.

    1. Activation patching, also called causal tracing (Vig et al. 2020, Meng et al. 2022). The
       model reads the first text, with one state of the second: `effect[l, i]` is the probability
       of the first text's answer `y` where the output of layer `l` at token `i` comes from the
       second text. The difference crosses where this falls most from one layer to the next,
       `argmax over (l, i) of effect[l - 1, i] - effect[l, i]`, at a token that is the same in both
       texts.
    2. The heads of layer `l` and of the following ones (of the last ones, where fewer than `layers`
       follow) are ranked by the attention weight from token `i` to the changed tokens `C` in the
       second text, `sum over j in C of p[i, j]`.
    3. Attention knockout: the strongest are switched off together while the model reads the second
       text. That is the ablation of heads (Michel et al. 2019), aimed at one path (Geva et al.
       2023). As many other heads of the same layers, drawn at random, are the control.

    An answer that changes in step 3 and not in the control was carried by these heads. It need not
    become the first text's answer: without them the model cannot read the changed word at all.

    Args:
        model: A model in eval mode, with an MLM head unless `target` is passed.
        tokenizer: Its tokenizer.
        first: A text, usually with one [MASK].
        second: The same text with a word or a few changed, so that it has as many tokens.
        target: The logits of the answers, from the model's output to (batch, answers), such as
            `lambda output: output.logits` for a classifier. None: the logits of the MLM head at
            the first [MASK].
        heads: Number of heads to switch off together.
        layers: Number of layers whose heads are ranked.
        controls: Number of random draws of other heads.
        seed: Seed of the draws.

    Returns:
        Both results, the map of step 1, (layers, seq), and the heads.

    Raises:
        ValueError: Texts of different lengths, equal texts, no [MASK] where `target` is None, a
            `target` without answers, no layers, or too few heads in these layers for a control.
    """
    check_count("layers", layers)
    check_count("controls", controls, 0)
    texts = [tokenizer(text, return_tensors="pt").to(model.device) for text in (first, second)]
    changed = _changed_positions(texts[0]["input_ids"], texts[1]["input_ids"])
    if target is None:
        target = _at_mask(model, tokenizer, texts[0]["input_ids"], texts[1]["input_ids"])

    def probabilities(output: Any) -> Tensor:
        return target(output).softmax(dim=-1)

    logits = target(model(**texts[0]))
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != 1:
        raise ArgumentError(
            "target",
            "should return the logits of the answers, (batch, answers), such as "
            f"`lambda output: output.logits`, but it returned {logits!r:.60}.",
        )
    before = logits.softmax(dim=-1)[0]
    with trace(model) as t:
        after = probabilities(model(**texts[1]))[0]
    best = int(before.argmax())
    effect = patching_sweep(
        model, clean=texts[1], corrupted=texts[0], measure=lambda out: probabilities(out)[:, best]
    )
    layer, position = _crossing(effect, before[best], after[best], changed)
    start = max(0, min(layer, model.config.num_hidden_layers - layers))
    ranked_layers = range(model.config.num_hidden_layers)[start : start + layers]
    weights: dict[Head, float] = {}  # from the token to the changed ones
    for ranked_layer in ranked_layers:
        rows = t[f"layer.{ranked_layer}.attention.probabilities"][0, :, position]  # (heads, seq)
        for head, weight in enumerate(rows[:, changed].sum(dim=-1).tolist()):
            weights[ranked_layer, head] = weight
    ranked = sorted(weights, key=lambda head: weights[head], reverse=True)
    weaker = sorted(ranked[heads:])
    if not 0 < heads <= len(weaker):
        raise ArgumentError(
            "heads",
            f"should be 1 to {len(weights) // 2}, half of the {len(weights)} heads of layers "
            f"{start} to {ranked_layers[-1]}, so that as many others remain, not {heads}.",
        )
    draw = random.Random(seed)
    draws = [sorted(draw.sample(weaker, heads)) for _ in range(controls)]
    without = _without(model, texts[1], [ranked[:heads], *draws], probabilities)
    answers = [_best(model, tokenizer, row) for row in (before, after, *without)]
    pieces = tokenizer.convert_ids_to_tokens(texts[1]["input_ids"][0].tolist())
    return Carriers(
        tokens=pieces,
        changed=changed,
        effect=effect,
        position=position,
        layer=layer,
        heads=ranked[:heads],
        attention=[weights[head] for head in ranked[:heads]],
        first=answers[0],
        second=answers[1],
        cut=answers[2],
        controls=[Control(*pair) for pair in zip(draws, answers[3:], strict=True)],
    )


def _changed_positions(first: Tensor, second: Tensor) -> list[int]:
    """Return the positions at which two texts differ. Ids are (1, seq)."""
    if first.shape != second.shape:
        raise ArgumentError(
            "first",
            "and second should have the same number of tokens, not "
            f"{first.size(1)} and {second.size(1)}: replace a word by one of as many pieces.",
        )
    changed: list[int] = (first != second)[0].nonzero().flatten().tolist()
    if not changed:
        raise ArgumentError(
            "first", "and second have the same tokens: there is no difference to follow."
        )
    return changed


def _at_mask(
    model: PreTrainedModel, tokenizer: BertTokenizer, first: Tensor, second: Tensor
) -> Target:
    """Return a function from a model's output to the MLM logits at the first [MASK]."""
    if getattr(getattr(model, "cls", None), "predictions", None) is None:
        raise ValueError(
            f"{type(model).__name__} has no MLM head: pass target, a function from the model's "
            "output to the logits of its answers, such as `lambda output: output.logits`."
        )
    both = (first == tokenizer.mask_token_id) & (second == tokenizer.mask_token_id)
    if not both.any():
        raise ArgumentError(
            "first",
            "and second should have a [MASK] at the same position, whose word is the answer. "
            "Or pass target.",
        )
    position = int(both[0].nonzero()[0])

    def logits(output: Any) -> Tensor:
        scores = getattr(output, "prediction_logits", None)
        if scores is None:
            scores = output.logits
        at_mask: Tensor = scores[:, position, : len(tokenizer)]
        return at_mask

    return logits


def _crossing(effect: Tensor, before: Tensor, after: Tensor, changed: list[int]) -> Head:
    """Return the layer and the token at which the difference arrives most suddenly."""
    steps = torch.diff(effect, dim=0, prepend=before.expand(1, effect.size(1)))
    # toward the second text's probability, whether that is lower or higher
    arrived = steps * torch.sign(after - before)
    arrived[:, changed] = -torch.inf
    layer, position = divmod(int(arrived.argmax()), effect.size(1))
    return layer, position


def _without(
    model: PreTrainedModel, text: Any, sets: list[list[Head]], probabilities: Target
) -> Tensor:
    """Return the probabilities of the answers without each set of heads, (sets, answers)."""
    config = model.config
    results = []
    for start in range(0, len(sets), ROWS):
        few = sets[start : start + ROWS]
        shape = config.num_hidden_layers, len(few), config.num_attention_heads, 1, 1
        factors = torch.ones(shape, device=model.device)
        for row, heads in enumerate(few):
            for layer, head in heads:
                factors[layer, row, head] = 0.0
        rows = {key: values.expand(len(few), *values.shape[1:]) for key, values in text.items()}
        with trace(model) as t:
            for layer, factor in enumerate(factors):
                t.set(f"layer.{layer}.attention.probabilities", partial(torch.mul, factor))
            results.append(probabilities(model(**rows)))
    return torch.cat(results)


def _best(model: PreTrainedModel, tokenizer: BertTokenizer, probabilities: Tensor) -> Prediction:
    """Return the best of (answers,): a word of the vocabulary, a label of the model or a number."""
    index = int(probabilities.argmax())
    if len(probabilities) == len(tokenizer):
        text = tokenizer.convert_ids_to_tokens(index)
    else:
        text = model.config.id2label.get(index, str(index))
    return Prediction(str(text), probabilities[index].item())
