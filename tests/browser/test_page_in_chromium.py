"""In a real browser the page shows the model's values, makes no requests and works by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from opened import SECTIONS, Opened, browser as browser, once as once, opened as opened, shown

import minibert
from minibert.learn.build import page_data, render
from minibert.study.trace import trace

pytestmark = pytest.mark.browser

TEXT = "I love Korea, and [MASK] is"
PAIR = "unaffable naïve café"
LENGTH = 20
HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1> "
    "\"'&amp; {{data}} \u2028 \U0001f469\u200d\U0001f469\u200d\U0001f467 مرحبا 한국어"
)


@pytest.fixture(scope="module")
def tokenizer(minilm: str) -> Any:
    return minibert.BertTokenizer.from_pretrained(minilm)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 30522, "num_hidden_layers": 3, "max_position_embeddings": 128}
    config = tiny_config(**sizes, attn_implementation="eager", initializer_range=0.3)
    return minibert.BertForPreTraining(config).eval()


@pytest.fixture(scope="module")
def reference(model: Any, tokenizer: Any) -> Any:
    """A trace of the model for the text of the page."""
    batch = tokenizer(TEXT, PAIR, padding="max_length", max_length=LENGTH, return_tensors="pt")
    with torch.no_grad(), trace(model) as t:
        model(**batch)
    return t


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, model: Any, tokenizer: Any) -> Path:
    return write(tmp_path_factory, page_data(model, tokenizer, TEXT, PAIR, pad_to=LENGTH))


def write(folders: pytest.TempPathFactory, data: dict[str, Any]) -> Path:
    path = folders.mktemp("page") / "page.html"
    path.write_text(render({"name": "random", "source": "random", **data}), encoding="utf-8")
    return path


def test_attention_shows_the_models_numbers_on_hover(opened: Opened, reference: Any) -> None:
    opened.open("attention")
    for layer, head, row, col in [(0, 0, 0, 0), (1, 3, 7, 2), (2, 1, 19, 5), (2, 2, 4, 12)]:
        opened.page.fill("#layer", str(layer))
        opened.page.fill("#head-choice", str(head))
        opened.page.click("[data-stage=probabilities]")
        probability = reference[f"layer.{layer}.attention.probabilities"][0, head, row, col]
        assert opened.hover("attention-map", row, col).endswith(f": {shown(probability)}")
        opened.page.click("[data-stage=scores]")
        score = reference[f"layer.{layer}.attention.scores"][0, head, row, col]
        assert opened.hover("attention-map", row, col).endswith(f": {shown(score)}")
    opened.page.click("[data-stage=masked]")
    assert opened.hover("attention-map", 3, LENGTH - 1).endswith("-3.4e+38 (hidden)")


def test_step_by_step_shows_score_mask_and_probability_of_every_key(
    opened: Opened, reference: Any
) -> None:
    opened.open("attention")
    opened.page.fill("#layer", "1")
    opened.page.fill("#head-choice", "2")
    opened.page.click("#token-4")
    opened.page.click("[data-view=steps]")
    rows = opened.page.evaluate(
        "[...document.querySelectorAll('#steps tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )
    scores, probabilities = (
        reference[f"layer.1.attention.{name}"][0, 2, 4] for name in ("scores", "probabilities")
    )
    assert [row[1] for row in rows] == [shown(score) for score in scores]
    assert [row[3] for row in rows] == [shown(probability) for probability in probabilities]
    assert {row[2] for row in rows if row[0] == "[PAD]"} == {"−3.4e+38"} and rows[0][2] == "0"


def test_vectors_and_cosines_show_the_models_numbers(opened: Opened, reference: Any) -> None:
    hidden = [
        reference["embeddings.output"][0],
        *(reference[f"layer.{i}.output"][0] for i in range(3)),
    ]
    opened.open("hidden")
    for depth in (3, 0):
        opened.page.fill("#depth", str(depth))
        assert opened.hover("hidden-map", 6, 17).endswith(f": {shown(hidden[depth][6, 17])}")
    cosine = torch.cosine_similarity(hidden[2][5], hidden[1][5], dim=0)
    assert opened.hover("moved-map", 5, 1).endswith(shown(cosine))
    opened.page.click("[data-compare=kept]")
    cosine = torch.cosine_similarity(hidden[3][5], hidden[0][5], dim=0)
    assert opened.hover("moved-map", 5, 2).endswith(shown(cosine))

    opened.open("pooler")
    for row, name in enumerate(("cls", "dense", "output")):
        assert opened.hover("pooler-map", row, 9).endswith(
            f": {shown(reference[f'pooler.{name}'][0, 9])}"
        )
    follows = reference["nsp.logits"].softmax(-1)[0, 0]
    assert shown(follows) in opened.page.inner_text("#next")

    opened.page.click("#token-3")
    opened.open("embeddings")
    for row, name in [(0, "word"), (1, "token_type"), (3, "sum")]:
        assert opened.hover("embeddings-map", row, 5).endswith(
            f": {shown(reference[f'embeddings.{name}'][0, 3, 5])}"
        )


def test_predictions_show_the_best_words_of_every_layer(
    opened: Opened, model: Any, reference: Any, tokenizer: Any
) -> None:
    opened.open("predictions")
    for token, depth, name in [
        (7, 3, "layer.2.output"),
        (2, 1, "layer.0.output"),
        (0, 0, "embeddings.output"),
    ]:
        opened.page.click(f"#lens-{token}-{depth}")
        with torch.no_grad():
            best = model.cls.predictions(reference[name][0, token]).softmax(-1).topk(5)
        expected = zip(
            tokenizer.convert_ids_to_tokens(best.indices.tolist()), best.values, strict=True
        )
        lines = opened.page.inner_text("#best").split()
        for word, probability in expected:
            assert lines[lines.index(word) + 1] == shown(probability)


def test_everything_is_reachable_by_keyboard(opened: Opened) -> None:
    reached = set()
    for _ in range(12):  # past the strip and the buttons
        opened.press("Tab")
        if opened.page.evaluate("document.activeElement.id") == "tokens":
            break
    assert opened.page.evaluate("document.activeElement.id") == "tokens"
    opened.press("ArrowRight")
    assert f": {opened.page.inner_text('#tokens [aria-selected=true]')} · " in opened.readout
    opened.press("Tab", 2)
    for section in SECTIONS[1:]:
        opened.press("ArrowRight")
        assert opened.page.evaluate("document.activeElement.id") == f"tab-{section}"
        assert opened.page.is_visible(f"#{section}")
    opened.press("ArrowLeft", 5)
    for _ in range(16):
        opened.press("Tab")
        reached.add(
            opened.page.evaluate("document.activeElement.id || document.activeElement.textContent")
        )
        if "attention-map" in reached:
            break
    assert {
        "layer",
        "head-choice",
        "softmax",
        "Lines",
        "threshold",
        "pin",
        "grid",
        "attention-map",
    } <= reached

    opened.page.focus("#grid")
    opened.press("ArrowUp", 3)
    opened.press("ArrowLeft", 3)
    opened.press("ArrowDown", 2)
    opened.press("ArrowRight")
    opened.press("ArrowDown")  # has no effect at the last layer
    assert opened.readout == "Layer 2, head 1"
    opened.page.focus("#attention-map")
    opened.press("ArrowUp", 30)
    opened.press("ArrowLeft", 30)
    opened.press("ArrowRight")
    assert opened.readout.startswith("Layer 2, head 1: “[CLS]” looks at “i”: 0.")


# visible elements that have no accessible name
NAMELESS = """() => {
  const elements = document.querySelectorAll("canvas, [role], input, button, [tabindex]");
  return [...elements].filter(e => e.offsetParent
    && !e.getAttribute("aria-label")
    && !e.getAttribute("aria-labelledby")
    && !e.textContent.trim()
    && !(e.labels && e.labels[0].textContent.trim())).map(e => e.outerHTML);
}"""


def test_a_screen_reader_finds_roles_and_names(opened: Opened) -> None:
    for language in ("en", "ko"):
        opened.page.click(f"button[data-language={language}]")
        for section in SECTIONS:
            opened.open(section)
            assert opened.page.is_visible(f"#{section}")
            nameless = opened.page.evaluate(NAMELESS)
            assert nameless == []
            # nothing is wider than a window of 1280 x 800
            assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.page.get_attribute("#readout", "aria-live") == "polite"
    assert opened.page.get_attribute("#tab-predictions", "aria-selected") == "true"
    assert opened.page.inner_text("#tab-predictions").endswith("예측")
    assert opened.asked_nothing


def test_theme_and_language_can_be_switched(opened: Opened) -> None:
    opened.again("#theme=dark")
    opened.open("attention")
    dark = opened.page.screenshot()
    opened.page.click("#theme")
    assert opened.page.get_attribute("html", "data-theme") == "light"
    assert opened.page.screenshot() != dark
    opened.page.click("button[data-language=ko]")
    assert "어텐션" in opened.page.inner_text("#tabs")
    assert opened.trouble == []


def test_html_in_a_text_is_shown_and_not_executed(
    browser: Any, tmp_path_factory: pytest.TempPathFactory, model: Any, tokenizer: Any
) -> None:
    file = write(tmp_path_factory, page_data(model, tokenizer, HOSTILE, "한국어 <b>bold</b>"))
    with Opened(browser, file) as opened:
        for section in SECTIONS:
            opened.open(section)
        texts = opened.page.evaluate(
            "[...document.querySelectorAll('#texts p')].map(p => p.textContent)"
        )
        assert texts == [HOSTILE, "한국어 <b>bold</b>"]
        assert opened.page.evaluate(
            "window.hacked === undefined && !document.querySelector('img, b b, #texts b')"
        )
        assert opened.trouble == [] and opened.asked_nothing


def test_the_page_says_what_a_model_without_heads_lacks(
    browser: Any, tmp_path_factory: pytest.TempPathFactory, tokenizer: Any
) -> None:
    bare = minibert.BertModel(tiny_config(vocab_size=30522), add_pooling_layer=False).eval()
    with Opened(
        browser, write(tmp_path_factory, page_data(bare, tokenizer, "I love Korea"))
    ) as opened:
        opened.open("pooler")
        assert opened.page.inner_text("#pooler") == "This model has no pooler."
        opened.open("predictions")
        assert "no MLM head" in opened.page.inner_text("#predictions")
        assert opened.trouble == []


@pytest.mark.slow
def test_a_page_of_base_size_with_128_tokens_is_below_25_mb(
    browser: Any, tmp_path_factory: pytest.TempPathFactory, tokenizer: Any
) -> None:
    """The intermediate size is small to save time, because the page does not show those states."""
    torch.manual_seed(0)
    config = minibert.BertConfig.from_preset("base", intermediate_size=64, initializer_range=0.1)
    words = tokenizer.convert_ids_to_tokens(torch.randint(2000, 9000, (400,)).tolist())
    text = " ".join([word for word in words if word.isalpha()][:126])
    data = page_data(minibert.BertForPreTraining(config).eval(), tokenizer, text)
    assert len(data["tokens"]) == 128
    file = write(tmp_path_factory, data)
    assert file.stat().st_size < 25e6
    with Opened(browser, file) as opened:
        for section in SECTIONS:
            opened.open(section)
        assert opened.trouble == []
