"""carriers: its effects and ablations against trace, and the two sentences of the article."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from conftest import tiny_config
from torch import Tensor

import minibert
from minibert.study import carriers, patching_sweep, run
from minibert.study.trace import trace

ANIMAL = "The animal did not cross the street because the [MASK] was too {}."


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return minibert.BertTokenizer.from_pretrained("minibert-en")


def random_model(tokenizer: Any, name: str = "BertForMaskedLM", **overrides: Any) -> Any:
    torch.manual_seed(0)
    config = tiny_config(initializer_range=0.4, vocab_size=len(tokenizer), **overrides)
    return getattr(minibert, name)(config).eval()


@torch.no_grad()
def answer_without(model: Any, batch: Any, heads: list[tuple[int, int]], position: int) -> Tensor:
    with trace(model) as t:
        for layer, head in heads:
            t.switch_off_head(layer, head)
        return model(**batch).logits[0, position].softmax(-1)


def test_effects_equal_patching_and_ablations_equal_trace(tokenizer: Any) -> None:
    model = random_model(tokenizer)
    texts = [f"the [MASK] was {word}." for word in ("old", "new")]
    result = carriers(model, tokenizer, *texts, heads=1, layers=2, controls=3)
    first, second = (tokenizer(text, return_tensors="pt") for text in texts)
    assert result.changed == [4] and result.tokens[4] == "new"

    with torch.no_grad():
        probabilities = model(**first).logits[0, 2].softmax(-1)
    best = probabilities.argmax()
    assert result.first.text == tokenizer.convert_ids_to_tokens(int(best))
    expected = patching_sweep(
        model, second, first, lambda out: out.logits[:, 2].softmax(-1)[:, best]
    )
    torch.testing.assert_close(result.effect, expected)

    assert result.position not in result.changed
    sets = [result.heads, *(control.heads for control in result.controls)]
    answers = [result.cut, *(control.answer for control in result.controls)]
    for heads, answer in zip(sets, answers, strict=True):
        without = answer_without(model, second, heads, 2)
        assert answer.text == tokenizer.convert_ids_to_tokens(int(without.argmax()))
        assert answer.probability == pytest.approx(without.max().item(), rel=1e-4)
    assert all(not set(control.heads) & set(result.heads) for control in result.controls)
    assert result.control_flips == sum(
        control.answer.text != result.second.text for control in result.controls
    )
    assert result.flips == (result.cut.text != result.second.text)


def test_random_draws_depend_on_the_seed_only(tokenizer: Any) -> None:
    model = random_model(tokenizer)
    texts = ("the [MASK] was old.", "the [MASK] was new.")
    draws = [
        carriers(model, tokenizer, *texts, heads=1, layers=2, controls=8, seed=seed).controls
        for seed in (0, 0, 1)
    ]
    assert draws[0] == draws[1] != draws[2]


def test_a_classifier_needs_a_target(tokenizer: Any) -> None:
    labels = {0: "bad", 1: "good"}
    model = random_model(tokenizer, "BertForSequenceClassification", id2label=labels)
    texts = ("it was bad", "it was good")
    result = carriers(
        model, tokenizer, *texts, lambda output: output.logits, heads=1, layers=2, controls=2
    )
    assert {result.first.text, result.second.text, result.cut.text} <= set(labels.values())
    with pytest.raises(ValueError, match="has no MLM head: pass target"):
        carriers(model, tokenizer, *texts)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (("a [MASK]", "a b [MASK]"), {}, "the same number of tokens, not 4 and 5"),
        (("a [MASK]", "a [MASK]"), {}, "the same tokens: there is no difference to follow"),
        (("a old", "a new"), {}, "should have a [MASK] at the same position"),
        (("old [MASK]", "new [MASK]"), {"heads": 5}, "heads should be 1 to 4, half of the 8 heads"),
        (("old [MASK]", "new [MASK]"), {"layers": 0}, "layers should be a whole number of 1"),
        (("old [MASK]", "new [MASK]"), {"controls": -1}, "controls should be a whole number of 0"),
    ],
)
def test_texts_that_cannot_be_compared(
    tokenizer: Any, texts: tuple[str, str], options: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        carriers(random_model(tokenizer), tokenizer, *texts, **options)


@pytest.mark.slow
def test_five_heads_carry_wide_and_random_sets_of_five_do_not(tokenizer: Any) -> None:
    """In the article, the prediction changes from road to animal without these heads only."""
    model = minibert.BertForPreTraining.from_pretrained("minibert-en").eval()
    texts = [ANIMAL.format(word) for word in ("tired", "wide")]
    result = carriers(model, tokenizer, *texts)
    assert set(result.heads) == {(2, 1), (2, 3), (4, 7), (4, 3), (3, 5)}
    assert (result.tokens[result.position], result.layer) == ("[MASK]", 2)
    assert (result.second.text, result.cut.text) == ("road", "animal")
    assert result.second.probability == pytest.approx(0.165, abs=0.001)
    assert result.cut.probability == pytest.approx(0.078, abs=0.001)
    assert len(result.controls) == 100 and result.control_flips <= 5
    t = run("minibert-en", texts[1], off=result.heads)
    assert t["mlm.logits"][0, 10].softmax(-1).max() == pytest.approx(0.078, abs=0.001)
    assert str(result).endswith(f"in {result.control_flips} of 100 random draws")


@pytest.mark.parametrize("index", [(0, 1, 5), (0, 1)])
def test_a_target_without_answers_is_named(index: tuple[int, ...]) -> None:
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-tiny")
    model = minibert.BertForMaskedLM.from_pretrained("minibert-tiny")
    with pytest.raises(ValueError, match=r"target should return the logits of the answers"):
        carriers(model, tokenizer, "a cat", "a dog", lambda output: output.logits[index])
