"""The layout of the page in all windows, the tour by keyboard, and the state in the address."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from opened import SECTIONS, Opened, browser as browser, once as once, opened as opened

from minibert.learn.build import write_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(
        path,
        "minibert-tiny",
        "The old man sat on the [MASK] of the river and watched the water go by.",
        "So it goes.",
    )
    return path


# Sizes of the cells of all maps. The animation of a head may have small cells, because the tables
# below it have the same values.
SIZES = """() => [...document.querySelectorAll("section:not([hidden]) canvas")]
  .filter(canvas => canvas.offsetParent && !["places", "film-map"].includes(canvas.id))
  .map(canvas => {
    const map = HeatMap.all.get(canvas.id), box = canvas.parentElement;
    const cell = map ? map.area.width / map.now.cols : 16;
    return [canvas.id, cell, box.scrollWidth > box.clientWidth, map ? map.now.cols > 100 : false];
  })"""


REMEMBER_CUTS = """() => {
  const draw = fitted;
  window.cuts = [];
  window.fitted = (context, text, x, y, room) => {
    if (context.measureText(text).width > room) cuts.push(text);
    draw(context, text, x, y, room);
  };
}"""
# whether the description of the model or the table of tokens is wider than its box
RUNS_OVER = """[document.getElementById("model"), document.getElementById("pieces").parentElement]
  .some(item => item.scrollWidth > item.clientWidth)"""

# elements outside the strip whose text is smaller than 15 pixels
SMALL_PRINT = """() => [...document.querySelectorAll("body *")]
  .filter(item => item.offsetParent && !item.closest("#river") && item.tagName !== "CANVAS")
  .filter(item => [...item.childNodes].some(
    node => node.nodeType === Node.TEXT_NODE && node.data.trim()))
  .filter(item => parseFloat(getComputedStyle(item).fontSize) < 15)
  .map(item => item.outerHTML)"""
# size of the labels of the attention map
LABELS = """() => HeatMap.all.get("attention-map").area.width && labelSize(
  HeatMap.all.get("attention-map").area.width / HeatMap.all.get("attention-map").now.cols)"""

# Korean words that are broken at the end of a line
BROKEN_WORDS = """() => [
  ...document.querySelectorAll("section:not([hidden]) :is(.say, figcaption, h2)")
].flatMap(item => {
  const node = item.firstChild, found = [];
  if (!node || node.nodeType !== Node.TEXT_NODE) return found;
  for (const { index, 0: word } of node.data.matchAll(/[^ ]*[가-힣][^ ]*/g)) {
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    if (range.getClientRects().length > 1) found.push(word);
  }
  return found;
})"""


# one phone and one desktop window, which cover both languages and both color schemes
DEFAULT_WINDOWS = {(360, "en-US", "light"), (1280, "ko-KR", "dark")}
WINDOWS = [
    pytest.param(
        *window, marks=[] if window in DEFAULT_WINDOWS else [pytest.mark.slow], id=str(window)
    )
    for window in product([360, 390, 768, 1280], ["en-US", "ko-KR"], ["light", "dark"])
]


@pytest.mark.parametrize(("width", "language", "scheme"), WINDOWS)
def test_nothing_is_wider_than_the_window(
    browser: Any, file: Path, width: int, language: str, scheme: str
) -> None:
    phone = {"has_touch": True, "is_mobile": True, "device_scale_factor": 3} if width < 500 else {}
    address = "#section=text&other=the+bank"
    with Opened(browser, file, scheme, language, width, address=address, **phone) as opened:
        # the page follows the browser
        assert opened.page.get_attribute("html", "data-theme") == scheme
        assert opened.page.get_attribute("html", "lang") == language[:2]
        opened.page.evaluate(REMEMBER_CUTS)
        for section in SECTIONS:
            opened.open(section)
            over = opened.page.evaluate(
                """() => [document.documentElement.scrollWidth - innerWidth,
                ...["main", "header", "footer"].map(name => document.querySelector(name))
                .map(item => item.scrollWidth - item.clientWidth)]"""
            )
            assert max(over) <= 0, (section, over)
            tab = opened.page.locator(f"#tab-{section}").bounding_box()
            assert tab["x"] >= -1 and tab["x"] + tab["width"] <= width + 1
            for name, cell, scrolls, is_vector in opened.page.evaluate(SIZES):
                is_readable = cell >= 16 or (is_vector and (scrolls or cell >= 4 or width >= 768))
                assert is_readable, (section, name, cell)
            # in other sections labels are tokens, which may have any length
            if section in ("embeddings", "pooler"):
                assert opened.page.evaluate("cuts") == []
            assert not opened.page.evaluate(RUNS_OVER), section
            assert opened.page.evaluate(SMALL_PRINT) == [], section
            if section == "attention":
                assert opened.page.evaluate(LABELS) >= 15
            if language == "ko-KR":
                assert opened.page.evaluate(BROKEN_WORDS) == []
        assert opened.trouble == [] and opened.asked_nothing


@pytest.mark.parametrize("language", ["en-US", pytest.param("ko-KR", marks=pytest.mark.slow)])
def test_maps_are_visible_on_a_phone_and_a_tap_selects_a_cell(
    browser: Any, file: Path, language: str
) -> None:
    phone: dict[str, Any] = {"width": 360, "height": 740, "has_touch": True, "is_mobile": True}
    with Opened(browser, file, language=language, **phone) as opened:
        opened.page.tap("#tab-attention")
        assert opened.page.locator("#grid").bounding_box()["y"] < 0.6 * 740
        assert not opened.page.is_visible("#pin")
        opened.page.evaluate(
            "document.getElementById('attention-map').scrollIntoView({block: 'center'})"
        )
        box = opened.page.locator("#attention-map").bounding_box()
        area = opened.page.evaluate("HeatMap.all.get('attention-map').area")
        cell = area["width"] / opened.page.evaluate("count")
        opened.page.touchscreen.tap(
            box["x"] + area["left"] + 2.5 * cell, box["y"] + area["top"] + 1.5 * cell
        )
        assert opened.page.evaluate("[state.token, state.key]") == [1, 2]
        said = "레이어 " if language == "ko-KR" else "Layer "
        assert opened.readout.startswith(said) and opened.page.is_visible("#copy")
        opened.page.tap("#more summary")
        assert opened.page.is_visible("#pin")


@pytest.mark.parametrize("language", ["en", pytest.param("ko", marks=pytest.mark.slow)])
def test_the_tour_by_keyboard(opened: Opened, language: str) -> None:
    opened.again(f"#language={language}")
    opened.page.focus("#tour-start")
    opened.press("Enter")
    stops = opened.page.evaluate("STOPS.length")
    assert 9 <= stops <= 13
    titles = set()
    for stop in range(stops):
        assert opened.page.evaluate("document.activeElement.closest('#tour') !== null")
        title = opened.page.inner_text("#tour-title")
        text = opened.page.inner_text("#tour-text")
        assert len(text) > 20 and title not in titles
        assert ("가" <= max(text)) == (language == "ko")
        titles.add(title)
        assert opened.page.locator(".here").is_visible()
        assert opened.page.inner_text("#tour-number") == f"{stop + 1} / {stops}"
        if stop == 3:
            opened.press("ArrowLeft")
            assert opened.page.inner_text("#tour-number") == f"3 / {stops}"
            opened.press("ArrowRight")
        opened.press("ArrowRight")
    assert not opened.page.is_visible("#tour")
    assert opened.page.evaluate("document.activeElement.id") == "tour-start"
    opened.press("Enter")
    opened.press("Tab", 3)
    opened.press("Escape")
    assert not opened.page.is_visible("#tour") and opened.trouble == []


def test_a_link_restores_the_state(browser: Any, file: Path, opened: Opened) -> None:
    names = "text, pair, masked, off, section, layer, head, token, key, stage, depth, language"
    names += ", theme, special"
    state = f"(({{{names}}}) => ({{{names}}}))(state)"
    opened.page.fill("#edit", "배 a cat & a dog = 100% #1?")
    opened.page.fill("#edit-pair", "so it is")
    opened.settle()
    opened.page.click("#token-3")
    opened.page.click("#mask")
    opened.settle()
    opened.open("attention")
    opened.page.evaluate("chooseHead(1, 1)")
    opened.page.click("#off-layer")
    opened.settle()
    opened.page.click("[data-stage=scores]")
    opened.page.check("#special")
    opened.page.click("button[data-language=ko]")
    opened.page.click("#theme")
    before = opened.page.evaluate(state)
    tokens = opened.page.inner_text("#tokens")
    assert before["off"] == [[1]] and before["masked"] == [3] and before["language"] == "ko"
    opened.page.wait_for_timeout(300)  # ms: the address is written later
    address = opened.page.url
    with Opened(browser, file, address=address[address.index("#") :]) as other:
        assert other.page.evaluate(state) == before and other.page.inner_text("#tokens") == tokens
        assert other.page.get_attribute("html", "data-theme") == "dark"
        assert other.trouble == []


def test_invalid_values_in_an_address_are_ignored(opened: Opened) -> None:
    opened.again("#section=nothing&layer=99&head=x&off=9.9_a_7&masked=500&tour=-5")
    present = opened.page.evaluate("[state.section, state.layer, state.off.length]")
    assert present == ["text", 1, 0]


def test_options_of_the_attention_map(opened: Opened) -> None:
    opened.open("attention")
    page = opened.page
    whole = page.evaluate("HeatMap.all.get('attention-map').now.shade(0, 0)")
    page.check("#special")
    assert whole is not None
    assert page.evaluate("HeatMap.all.get('attention-map').now.shade(0, 0)") is None
    page.fill("#threshold", "0.5")
    assert page.evaluate(
        "[1, 2, 3].every(k => stageValue(...at(), 1, k) >= 0.5 || !isDrawn(...at(), 1, k))"
    )
    page.click("#pin")
    assert page.evaluate("state.pinned.length") == 1
    sums = page.evaluate(
        "tokens.map((_, q) => tokens.reduce((sum, _, k) => sum + rollout(1).at(q, k), 0))"
    )
    assert sums == pytest.approx([1] * len(sums), abs=1e-5)
    page.focus("#lines")
    page.click("#tab-attention")
    page.focus("#lines")
    token = page.evaluate("state.token")
    opened.press("ArrowUp" if token else "ArrowDown")
    assert page.evaluate("state.token") != token and "“" in opened.readout
    assert "Attention is not explanation" in page.inner_text("#patterns")


def test_patterns_of_the_page_are_those_of_python(opened: Opened) -> None:
    from minibert.study import attention_patterns, run

    text = "The old man sat on the [MASK] of the river and watched the water go by."
    t = run("minibert-tiny", text, pair="So it goes.")
    tokens = opened.page.evaluate("tokens.map(token => token.piece)")
    for layer in range(2):
        ours = opened.page.evaluate(
            f"[0, 1].map(head => pattern({layer}, head)).map(({{name, share}}) => [name, share])"
        )
        theirs = attention_patterns(tokens, t[f"layer.{layer}.attention.probabilities"])
        for (name, share), pattern in zip(ours, theirs, strict=True):
            assert name == pattern.name and share == pytest.approx(pattern.share, abs=1e-5)
