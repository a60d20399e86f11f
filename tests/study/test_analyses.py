"""Each analysis is tested against its definition, a synthetic case, or another implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from conftest import ragged_batch, tiny_config
from torch import Tensor

import minibert
from minibert.study.analyses import (
    Pattern,
    attention_patterns,
    cka,
    head_importance,
    integrated_gradients,
    linear_probe,
    logit_lens,
    patching_sweep,
    per_head_output,
    probe_predictions,
    rollout,
)
from minibert.study.trace import Trace, trace


def random_model(name: str = "BertForMaskedLM", **overrides: Any) -> Any:
    return getattr(minibert, name)(tiny_config(initializer_range=0.2, **overrides)).eval()


@torch.no_grad()
def traced(model: Any, batch: dict[str, Tensor]) -> Trace:
    with trace(model) as values:
        model(**batch)
    return values


def test_rollout_rows_sum_to_one_and_follow_the_residual() -> None:
    model = random_model()
    batch = ragged_batch(model.config)
    rolled = rollout(traced(model, batch))
    assert rolled.shape == (2, 3, 11, 11)
    torch.testing.assert_close(rolled.sum(-1), torch.ones(2, 3, 11))
    with torch.no_grad():
        output = model(**batch, output_attentions=True)
        torch.testing.assert_close(rolled, rollout(output.attentions))
        torch.testing.assert_close(rolled, rollout(output))
        with pytest.raises(ValueError, match="called with output_attentions=True"):
            rollout(model(**batch))
    # two layers of a head that attends to the previous token:
    # a quarter comes from two positions before, half from one before
    before = torch.eye(5).roll(1, 0)[None, None]
    assert rollout([before, before])[-1, 0, 4].tolist() == [0.0, 0.0, 0.25, 0.5, 0.25]


def test_the_last_row_of_the_logit_lens_is_the_prediction() -> None:
    model = random_model()
    batch = ragged_batch(model.config)
    t = traced(model, batch)
    values, ids = logit_lens(t)
    best = t["mlm.logits"].softmax(-1).topk(5)
    assert values.shape == ids.shape == (3, 3, 11, 5)
    assert torch.equal(ids[-1], best.indices) and torch.equal(values[-1], best.values)
    assert int(logit_lens(t, words=10)[1].max()) < 10
    bare = random_model("BertModel")
    with pytest.raises(ValueError, match="logit_lens needs .*MLM head, .*BertModel"):
        logit_lens(traced(bare, batch))


def test_the_logit_lens_ranks_by_logits_whose_probabilities_are_equal() -> None:
    model = random_model()
    t = traced(model, ragged_batch(model.config))
    with torch.no_grad():
        model.cls.predictions.transform.LayerNorm.weight.zero_()
        model.cls.predictions.transform.LayerNorm.bias.zero_()  # logits are the bias
        bias = model.cls.predictions.bias
        bias.copy_(-1e-9 * torch.arange(len(bias)).flip(0))  # exp rounds all of them to 1
    values, ids = logit_lens(t, k=3)
    last = len(bias) - 1
    assert ids[-1].flatten(0, 1).unique(dim=0).tolist() == [[last, last - 1, last - 2]]
    assert values.unique().numel() == 1


def test_heads_add_up_to_the_projected_output() -> None:
    model = random_model()
    batch = ragged_batch(model.config)
    t = traced(model, batch)
    for layer in range(2):
        dense = model.bert.encoder.layer[layer].attention.output.dense
        heads = per_head_output(t, layer)
        assert heads.shape == (3, 4, 11, 32)
        projected = t[f"layer.{layer}.attention.projected"]
        torch.testing.assert_close(heads.sum(1) + dense.bias, projected, atol=1e-5, rtol=0)
    with torch.no_grad(), trace(model) as off:
        off.switch_off_head(0, 2)
        model(**batch)
    without = t["layer.0.attention.projected"] - per_head_output(t, 0)[:, 2]
    torch.testing.assert_close(without, off["layer.0.attention.projected"], atol=1e-5, rtol=0)


TOKENS = ["[CLS]", "the", "cat", "and", "the", "dog", "[SEP]", "the", "end", "[SEP]", "[PAD]"]


def synthetic_head(rule: Any, noise: float = 0.3) -> Tensor:
    """Build a head that puts 1 - noise of the attention where `rule` says, and the rest at random.

    Args:
        rule: a function from the index of a token to the indices that it attends to.
        noise: the share of the attention that is random.
    """
    seq = len(TOKENS)
    head = torch.rand(seq, seq) * (torch.tensor([token != "[PAD]" for token in TOKENS]))
    head = noise * head / head.sum(-1, keepdim=True)
    for i in range(seq):
        targets = [j for j in rule(i) if 0 <= j < seq] or [0]
        for j in targets:
            head[i, j] += (1 - noise) / len(targets)
    return head


def test_patterns_of_synthetic_heads_are_recognized() -> None:
    rules = {
        "previous": lambda i: [i - 1],
        "next": lambda i: [i + 1],
        "itself": lambda i: [i],
        "[CLS]": lambda i: [0],
        "[SEP]": lambda i: [6, 9],
        "same": lambda i: (
            [j for j, token in enumerate(TOKENS) if token == TOKENS[i] and j != i] or [i]
        ),
        "even": lambda i: range(10),
    }
    for trial in range(20):
        torch.manual_seed(trial)
        heads = torch.stack([synthetic_head(rule) for rule in rules.values()])
        assert [pattern.name for pattern in attention_patterns(TOKENS, heads)] == list(rules)
    unknown = torch.full((1, 1, 11, 11), 0.02)
    unknown[..., [2, 5, 8]] = 0.28
    (pattern,) = attention_patterns(TOKENS, unknown)
    assert pattern.name is None and 0 < pattern.share < 0.5
    assert attention_patterns(["[CLS]", "[SEP]"], torch.eye(2)) == [Pattern(None, 0.0)]


def test_head_importance_is_the_gradient_of_a_factor_on_the_head() -> None:
    model = random_model("BertForSequenceClassification", num_labels=2)
    batch = {**ragged_batch(model.config, (7, 7, 7)), "labels": torch.tensor([0, 1, 1])}
    expected = torch.zeros(2, 4)
    for row in range(3):
        example = {name: values[row : row + 1] for name, values in batch.items()}
        factors = [torch.ones(1, 4, 1, 1, requires_grad=True) for _ in range(2)]
        with trace(model) as t:
            for i, factor in enumerate(factors):
                t.set(f"layer.{i}.attention.probabilities", lambda p, factor=factor: p * factor)
            gradients = torch.autograd.grad(model(**example).loss, factors)
        expected += torch.stack(gradients).flatten(1).abs() / 3
    torch.testing.assert_close(
        head_importance(model, [batch], normalize=False), expected, rtol=1e-4, atol=1e-6
    )
    normalized = head_importance(model, [batch])
    torch.testing.assert_close(normalized.square().sum(-1), torch.ones(2))
    with pytest.raises(ValueError, match="each batch needs its labels"):
        head_importance(
            model, [{name: values for name, values in batch.items() if name != "labels"}]
        )


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_attention_has_gradients_under_every_implementation(attention: str) -> None:
    """They equal finite differences, and the outputs stay the same bit for bit."""
    model = random_model("BertForSequenceClassification", attn_implementation=attention).double()
    batch = {**ragged_batch(model.config), "labels": torch.tensor([0, 1, 1])}
    plain = model(**batch).loss
    with trace(model) as t:
        loss = model(**batch).loss
    assert torch.equal(plain, loss)
    name = "layer.0.attention.probabilities"
    (gradient,) = torch.autograd.grad(loss, [t[name]], retain_graph=True)
    at, small = (0, 2, 3, 4), 1e-6
    values = []
    for sign in (1, -1):
        with torch.no_grad(), trace(model) as changed:
            changed.set(
                name,
                lambda p, sign=sign: p.index_put(
                    tuple(map(torch.tensor, at)), p[at] + sign * small
                ),
            )
            values.append(model(**batch).loss.item())
    assert gradient[at].item() == pytest.approx((values[0] - values[1]) / (2 * small), rel=1e-5)
    parameters = [p for p in model.parameters() if p.requires_grad]
    traced_gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    plain_gradients = torch.autograd.grad(plain, parameters, allow_unused=True)
    for a, b in zip(traced_gradients, plain_gradients, strict=True):
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_integrated_gradients_are_complete_and_equal_captum() -> None:
    captum = pytest.importorskip("captum.attr", reason="needs captum: extra [test]")
    model = minibert.BertForMaskedLM.from_pretrained("minibert-tiny")
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-tiny")
    for text, word in [
        ("Paris is the [MASK] of France.", "capital"),
        ("He opened the [MASK] and went in.", "door"),
        ("The cat sat on the [MASK] and slept.", "bed"),
    ]:
        batch = dict(tokenizer(text, return_tensors="pt"))
        position = batch["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        word_id = tokenizer.convert_tokens_to_ids(word)

        def target(output: Any, position: int = position, word_id: int = word_id) -> Tensor:
            return output.logits[:, position].log_softmax(-1)[:, word_id]

        attributions, error = integrated_gradients(model, batch, target)
        table = model.bert.embeddings.word_embeddings
        baseline = torch.zeros_like(batch["input_ids"])
        baseline[0, [0, -1]] = batch["input_ids"][0, [0, -1]]
        with torch.no_grad():
            values = [
                target(model(**{**batch, "input_ids": ids}))[0]
                for ids in (baseline, batch["input_ids"])
            ]
        change = values[1] - values[0]
        assert abs(error[0]) < 0.01 * abs(change)
        assert attributions.sum().item() == pytest.approx(change.item(), rel=0.01)

        method = captum.IntegratedGradients(
            lambda x, mask=batch["attention_mask"]: target(
                model(inputs_embeds=x, attention_mask=mask)
            )
        )
        theirs = method.attribute(
            table(batch["input_ids"]).detach(), table(baseline).detach(), n_steps=50
        ).sum(-1)
        torch.testing.assert_close(attributions, theirs.float(), atol=1e-4, rtol=0)


def test_integrated_gradients_do_not_depend_on_the_side_of_the_padding() -> None:
    model = random_model()
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    padding = torch.zeros(1, 2, dtype=torch.long)
    attributions = []
    for parts in ((ids, padding), (padding, ids)):
        batch = {"input_ids": torch.cat(parts, dim=1)}
        batch["attention_mask"] = (batch["input_ids"] != 0).long()
        batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp_min(0)
        is_word = batch["attention_mask"].bool()
        values, _ = integrated_gradients(
            model, batch, lambda out, of=is_word: out.logits[of][:, 5].sum()[None]
        )
        attributions.append(values[is_word])
    torch.testing.assert_close(*attributions)


def test_a_sweep_of_patches_equals_one_patch_at_a_time() -> None:
    model = random_model()
    clean, corrupted = ragged_batch(model.config, (6,)), ragged_batch(model.config, (6,))

    def measure(output: Any) -> Tensor:
        return output.logits[:, 2, 7]

    swept = patching_sweep(model, clean, corrupted, measure)
    source = traced(model, clean)
    for layer, position in [(0, 0), (1, 2), (0, 5)]:
        with torch.no_grad(), trace(model) as t:
            name = f"layer.{layer}.output"
            t.set(
                name,
                lambda x, n=name, p=position: torch.cat(
                    [x[:, :p], source[n][:, p : p + 1], x[:, p + 1 :]], 1
                ),
            )
            expected = measure(model(**corrupted))
        torch.testing.assert_close(swept[layer, position], expected[0])
    # after the last layer, only the measured position matters
    with torch.no_grad():
        torch.testing.assert_close(swept[1, 2], measure(model(**clean))[0])
        torch.testing.assert_close(swept[1, 3], measure(model(**corrupted))[0])
    with pytest.raises(ValueError, match=r"one length, .*not \(1, 6\) and \(1, 7\)"):
        patching_sweep(model, clean, ragged_batch(model.config, (7,)), measure)


def test_cka_is_invariant_to_rotation_and_low_by_chance() -> None:
    x = torch.randn(500, 16)
    rotated = x @ torch.linalg.qr(torch.randn(16, 16))[0] * 3 + 1
    assert cka(x, rotated) == pytest.approx(1)
    assert cka(x, torch.randn(500, 16)) < 0.1
    assert cka(x * 1e-9, rotated * 1e9) == pytest.approx(1)
    half = torch.cat([x[:, :8], torch.randn(500, 8)], dim=1)
    assert 0.3 < cka(x, half) < 0.7
    # with fewer rows than dimensions, as for the tokens of one sentence,
    # random vectors still have a similarity near 0, and a rotation has 1
    few = [cka(torch.randn(12, 256), torch.randn(12, 256)) for _ in range(50)]
    assert abs(sum(few) / 50) < 0.05 and cka(x[:12], rotated[:12]) == pytest.approx(1)
    with pytest.raises(ValueError, match="four rows or more, not 3"):
        cka(x[:3], x[:3])


def test_the_predictions_of_a_probe() -> None:
    x = torch.randn(300, 8)
    labels = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    predicted = probe_predictions(x[:200], labels[:200], x[200:])
    accuracy = (predicted == labels[200:]).double().mean().item()
    assert linear_probe(x[:200], labels[:200], x[200:], labels[200:]) == accuracy
    with pytest.warns(UserWarning, match="1 of 100 test labels are classes that train_labels"):
        linear_probe(
            x[:200], labels[:200], x[200:], torch.cat([labels[200:299], torch.tensor([7])])
        )


def test_a_linear_probe_learns_a_linear_rule() -> None:
    x = torch.randn(600, 8)
    labels = (x @ torch.randn(8, 3)).argmax(-1)
    assert linear_probe(x[:400], labels[:400], x[400:], labels[400:]) > 0.85
    with torch.no_grad():  # users call it this way, and it needs gradients inside
        chance = linear_probe(x[:400], labels[:400], torch.randn(200, 8), labels[400:])
    assert chance < 0.6


def test_head_importance_needs_neither_grad_mode_nor_trainable_weights() -> None:
    model = random_model()
    batch = ragged_batch(model.config, (5,))
    batch["labels"] = batch["input_ids"]
    expected = head_importance(model, [batch])
    with torch.no_grad():
        torch.testing.assert_close(head_importance(model, [batch]), expected)
    model.requires_grad_(False)
    torch.testing.assert_close(head_importance(model, [batch]), expected)
    model.cls.requires_grad_(True)  # as where a head is trained on states that stay
    torch.testing.assert_close(head_importance(model, [batch]), expected)


def test_arrays_and_lists_are_measured_like_tensors() -> None:
    states = np.random.default_rng(0).normal(size=(12, 4))
    labels = (states[:, 0] > 0).tolist()
    assert cka(states, states.tolist()) == pytest.approx(1.0)
    assert linear_probe(states, labels, torch.tensor(states).half(), labels) > 0.9


@pytest.mark.parametrize(
    ("analyze", "message"),
    [
        (lambda m, b, t: rollout(t["layer.0.attention.probabilities"]), "pass a trace"),
        (lambda m, b, t: rollout("a text"), "pass a trace"),
        (lambda m, b, t: logit_lens(m), "t should be the trace of a call, .* not BertForMaskedLM"),
        (lambda m, b, t: logit_lens(t, k=0), "k should be a whole number of 1 or more"),
        (lambda m, b, t: logit_lens(t, k=4, words=3), "k should be at most .* words, 3, not 4"),
        (lambda m, b, t: logit_lens(t, words=[1]), "words should be a whole number"),
        (lambda m, b, t: per_head_output(m, 0), "t should be the trace of a call"),
        (lambda m, b, t: per_head_output(t, "0"), "layer should be a whole number"),
        (lambda m, b, t: t.skip_layer("a"), "layer should be a whole number of 0 or more"),
        (lambda m, b, t: t.switch_off_head(0, [0, 1]), "head should be a whole number"),
        (
            lambda m, b, t: attention_patterns(["a"], t["layer.0.attention.probabilities"]),
            r"of one sequence of 1 tokens, \(heads, 1, 1\), not \(4, 6, 6\)",
        ),
        (lambda m, b, t: head_importance(m, []), "batches should be one or more batches"),
        (lambda m, b, t: head_importance(m, b), "each of batches should be a batch with input_ids"),
        (lambda m, b, t: head_importance(m, [b], lambda o: 1.0), "loss should return a tensor"),
        (
            lambda m, b, t: integrated_gradients(m, b, lambda o: o.logits[:, 0].argmax(-1)),
            "target should return a tensor that depends on the model's logits",
        ),
        (
            lambda m, b, t: integrated_gradients(m, b, lambda o: o.logits, steps=0),
            "steps should be a whole number of 1 or more",
        ),
        (lambda m, b, t: integrated_gradients(m, "a", None), "batch should be a batch with"),
        (
            lambda m, b, t: patching_sweep(m, b, b, lambda o: o.logits[0, 1, 5]),
            r"measure should return one number for each row .* it returned .* for 6 rows",
        ),
        (
            lambda m, b, t: patching_sweep(m, b, b, None, "layer.0.output"),
            "step should have {} for the layer, .* not .layer.0.output",
        ),
        (
            lambda m, b, t: patching_sweep(m, b, b, None, "layer.{}.attention.probabilities"),
            r"step should have the shape \(batch, seq, ...\), but layer.0.attention.probabil",
        ),
        (lambda m, b, t: cka(torch.ones(5, 2), torch.ones(4, 2)), "states of the same tokens"),
        (lambda m, b, t: cka("a text!", "b"), "x should be a tensor or an array of numbers"),
        (
            lambda m, b, t: linear_probe(torch.eye(3), [0, 1], torch.eye(3), [0, 1, 2]),
            r"train_labels their n classes, not \(3, 3\) and \(2,\)",
        ),
        (
            lambda m, b, t: linear_probe(torch.eye(2), [-1, 0], torch.eye(2), [0, 1]),
            "train_labels should be 0 or more, not -1",
        ),
        (
            lambda m, b, t: linear_probe(torch.ones(1, 3), [0], torch.eye(3), [0, 1, 2]),
            "train should be two states or more",
        ),
        (
            lambda m, b, t: linear_probe(torch.eye(2), [0, 1], torch.ones(1, 3), [0]),
            "train and test should have equally many dimensions, not 2 and 3",
        ),
    ],
)
def test_mistakes_are_named(analyze: Any, message: str) -> None:
    model = random_model()
    batch = ragged_batch(model.config, (6,))
    with pytest.raises(ValueError, match=message):
        analyze(model, batch, traced(model, batch))


def test_a_step_that_is_not_a_name() -> None:
    with pytest.raises(KeyError, match="0 is not a step of this model"):
        trace(random_model())[0]
