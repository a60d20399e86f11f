"""What the scenes of the English article measure is what PyTorch computes.

tests/page/recorded holds the results, and tests/browser/test_in_node.py compares the page with it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from minibert.learn import live
from minibert.learn.build import load_page_model
from minibert.learn.lesson import article

RECORDED = json.loads(
    (Path(__file__).parents[1] / "page" / "recorded" / "en.json").read_text(encoding="utf-8")
)
ANIMAL = "The animal did not cross the street because {} was too {}."
BANKS = ("He walked along the bank of the river.", "She works at the bank in the city.")


@pytest.fixture(scope="module")
def compute() -> Callable[..., Any]:
    """Computes a text with the weights of the page."""
    network, tokenizer = load_page_model("minibert-en")
    return functools.partial(live.compute, live.rounded(network), tokenizer)


def state(t: Any, depth: int) -> torch.Tensor:
    """Return the states of the tokens at a depth, where 0 is the embeddings."""
    return t["embeddings.output" if depth == 0 else f"layer.{depth - 1}.output"][0]


def best_word(computed: Any) -> tuple[str, float]:
    """Return PyTorch's best word for [MASK], and its probability."""
    t, encoding = computed
    tokenizer = load_page_model("minibert-en")[1]
    place = encoding["input_ids"].index(tokenizer.mask_token_id)
    share, word = t["mlm.logits"][0, place].softmax(-1).max(-1)
    return tokenizer.convert_ids_to_tokens([int(word)])[0], share.item()


def test_cosines_of_a_word_and_of_sentences(compute: Any) -> None:
    rows = RECORDED["numbers"]["rows"]
    (a, _), (b, _) = map(compute, BANKS)
    for column, depth in ((1, 0), (2, 6)):
        expected = torch.cosine_similarity(state(a, depth)[5], state(b, depth)[5], dim=0)
        assert float(rows[0][column]) == pytest.approx(expected.item(), abs=6e-3)
    assert float(rows[1][1]) == 1.0 and float(rows[1][2]) > float(rows[0][2])
    rows = RECORDED["sentence"]["rows"]
    means = [
        state(compute(text)[0], 6).mean(0) for text in ("How old are you?", "What is your age?")
    ]
    cosine = torch.cosine_similarity(*means, dim=0).item()
    assert float(rows[1][2]) == pytest.approx(cosine, abs=6e-3)


def test_what_it_stands_for(compute: Any) -> None:
    scene = RECORDED["it"]
    layer, head = (scene["values"][name] for name in ("layer", "head"))
    assert (layer, head) == (3, 0)
    for place, word in enumerate(("tired", "wide"), 1):
        t, _ = compute(ANIMAL.format("it", word))
        probabilities = t[f"layer.{layer}.attention.probabilities"][0, head]
        for row, key in ((0, 2), (1, 7)):
            share = probabilities[9, key]
            assert float(scene["rows"][row][place]) == pytest.approx(share.item(), abs=6e-3)
            lead = share - probabilities[:, key].mean()
            assert float(scene["rows"][row + 2][place]) == pytest.approx(lead.item(), abs=6e-3)
        best, share = scene["rows"][4][place].split(", ")[0].split()
        expected, expected_share = best_word(compute(ANIMAL.format("the [MASK]", word)))
        assert best == expected and float(share) == pytest.approx(expected_share, abs=6e-3)


def test_skipping_a_layer_often_keeps_the_answer(compute: Any) -> None:
    scene = RECORDED["layer"]
    rows, layer, layers = scene["rows"], scene["values"]["layer"], 6
    opening = "He opened the [MASK] and went in."
    for column, off in ((1, []), (2, [(layer,)])):
        word, share = best_word(compute(opening, off=off))
        assert rows[0][column].startswith(f"{word} {share:.2f}")
    assert rows[1][2] == rows[2][2] == "0%" and rows[3][2] == "1.00"
    answers = [best_word(compute(opening, off=[(skipped,)]))[0] for skipped in range(layers)]
    assert scene["values"]["spared"] == answers.count("door")


def test_hidden_words_are_predicted_from_both_sides(compute: Any) -> None:
    rows = RECORDED["sides"]["rows"]
    text = article("en")["lesson"]["examples"]["sides"]["text"]
    for row, sides in zip(rows, live.VISIBLE_SIDES, strict=False):
        word, share = best_word(compute(text, sides=sides))
        assert row[1].split()[0] == word
        assert float(row[1].split()[1]) == pytest.approx(share, abs=6e-3)
    assert rows[0][2].split()[2] == "300" and rows[4][1] != rows[0][1].split()[0]


def test_two_sentences_follow_or_do_not(compute: Any) -> None:
    rows = RECORDED["pair"]["rows"]
    for place, pair in enumerate(("Let us eat something.", "The war ended in 1945."), 1):
        t, _ = compute("I am hungry.", pair)
        follows = t["nsp.logits"][0].softmax(-1)[0].item()
        assert float(rows[0][place]) == pytest.approx(follows, abs=6e-3)
        assert float(rows[6][place]) < 1e-5  # padding changes nothing
        assert float(rows[5][place]) < 0.999 and float(rows[7][place]) > 1
