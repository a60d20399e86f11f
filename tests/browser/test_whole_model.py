"""Four scenes of the article: a skipped layer, both sides, two sentences, a new task."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opened import STILL, Opened, article_page, browser as browser, shown

from minibert.learn import live
from minibert.learn.build import load
from minibert.learn.lesson import article

pytestmark = pytest.mark.browser

OPENING = "He opened the [MASK] and went in."


@pytest.fixture(scope="module")
def reader(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The opened article, which does not repeat its shipped measurements."""
    path = article_page(tmp_path_factory, "en")
    with Opened(browser, path, reduced_motion="reduce") as opened:
        opened.page.evaluate(STILL)
        yield opened
        assert opened.trouble == []


@pytest.fixture(scope="module")
def model() -> Any:
    network, tokenizer = load("minibert-en")
    return live.rounded(network), tokenizer


def act(reader: Any, scene: str) -> list[list[str]]:
    """Press the button of a scene and return the rows of its verdict."""
    number = reader.page.evaluate(f"SCENES.findIndex(({{ id }}) => id === '{scene}')")
    reader.explore()
    reader.page.click(f"#scene-{number}")
    reader.settle()
    assert reader.page.is_visible("#scene-wait")
    reader.page.click("#scene-act")
    return verdict(reader)


def verdict(reader: Any) -> list[list[str]]:
    reader.settle()
    reader.page.wait_for_function(
        "() => !SCENES[state.scene].progress?.().running"
        " && document.getElementById('scene-wait').hidden",
        timeout=120_000,
    )
    reader.page.evaluate("judge.latest")
    reader.page.evaluate("$('scene-more').open = true")
    text = reader.page.inner_text("#scene-found")
    assert len(text) > 40 and "{" not in text and "undefined" not in text
    rows = reader.page.locator("#scene-table tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def best_words(model: Any, text: str, **options: Any) -> tuple[str, str]:
    """Return PyTorch's best word for [MASK], and its probability in the format of the page."""
    network, tokenizer = model
    t, encoding = live.compute(network, tokenizer, text, **options)
    place = encoding["input_ids"].index(tokenizer.mask_token_id)
    share, word = t["mlm.logits"][0, place].softmax(-1).max(-1)
    return tokenizer.convert_ids_to_tokens([int(word)])[0], shown(share, 2)


def test_skipping_a_layer_often_keeps_the_answer(reader: Any, model: Any) -> None:
    rows = act(reader, "layer")
    layer = reader.page.evaluate("MIDDLE")
    assert rows[0][1].startswith(" ".join(best_words(model, OPENING)))
    assert rows[0][2].startswith(" ".join(best_words(model, OPENING, off=[(layer,)])))
    assert rows[1][2] == rows[2][2] == "0%" and rows[3][2] == "1.00"
    layers = reader.page.evaluate("sizes.layers")
    answers = [best_words(model, OPENING, off=[(layer,)])[0] for layer in range(layers)]
    spared = answers.count("door")
    assert f"{spared} of the {layers} layers" in reader.page.inner_text("#scene-found")
    assert reader.page.evaluate(f"river.goal.layers[{layer}].ff") == 0


def test_hidden_words_are_predicted_from_both_sides(reader: Any, model: Any) -> None:
    rows = act(reader, "sides")
    assert reader.page.evaluate("state.sides") == "left"
    text = reader.page.evaluate("example('sides').text")
    for row, sides in zip(rows, live.SIDES, strict=False):
        word, share = best_words(model, text, sides=sides)
        assert row[1].split()[0] == word
        assert float(row[1].split()[1]) == pytest.approx(float(share), abs=6e-3)
    assert rows[0][2].split()[2] == "300" and rows[4][1] != rows[0][1].split()[0]
    assert "never trained with one side" in reader.page.inner_text("#scene-found")


def test_two_sentences_follow_or_do_not(reader: Any, model: Any) -> None:
    rows = act(reader, "pair")
    pairs = ("Let us eat something.", "The war ended in 1945.")
    for place, pair in enumerate(pairs, 1):
        t, _ = live.compute(*model, "I am hungry.", pair)
        follows = t["nsp.logits"][0].softmax(-1)[0].item()
        assert float(rows[0][place]) == pytest.approx(follows, abs=6e-3)
        assert float(rows[6][place]) < 1e-5  # padding changes nothing
        assert float(rows[5][place]) < 0.999 and float(rows[7][place]) > 1
    reader.open("text")
    reader.page.fill("#edit-pair", "")
    assert verdict(reader)[-1][2] == "–"
    assert "another second text" in reader.page.inner_text("#scene-found")


def test_a_classifier_is_trained_on_the_page(reader: Any, model: Any) -> None:
    rows = act(reader, "task")
    assert len(rows) == 6 and int(rows[2][1].split("%")[0]) >= 90
    reader.open("text")
    for text, name in (("The room was wonderful.", "praise"), ("The room was awful.", "complaint")):
        reader.page.fill("#edit", text)
        opinions = {row[0]: row[2] for row in verdict(reader)}
        assert opinions["from 60 sentences"].startswith(name)
    labeled = article()["lesson"]["labeled"]
    texts = [text for rows in labeled.values() for text, _ in rows]
    assert len(set(texts)) == len(texts) == 100
    for part in labeled.values():
        assert sum(label for _, label in part) == len(part) / 2
    vector = torch.tensor(reader.page.evaluate("unitMean(shown, sizes.layers)"))
    t, _ = live.compute(*model, "The room was awful.")
    mean = t["layer.5.output"][0].mean(0)
    expected = torch.nn.functional.normalize(mean, dim=0)
    torch.testing.assert_close(vector, expected, atol=1e-4, rtol=0)
