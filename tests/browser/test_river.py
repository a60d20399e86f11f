"""The strip above the page shows the live model, and links every part to its tab and code."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from opened import Opened, browser as browser, once as once, opened as opened
from test_one_stage import check_skip_link

import minibert
from minibert.learn.build import code_places, write_page

pytestmark = pytest.mark.browser

TABS = {
    "pieces": "text",
    "embeddings": "embeddings",
    "attention": "attention",
    "add": "head",
    "ff": "head",
    "add2": "head",
    "pooler": "pooler",
    "predictions": "predictions",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("river") / "page.html"
    write_page(path, "minibert-tiny", "Paris is the [MASK] of France.")
    return path


def test_the_code_of_a_part_is_where_the_page_says() -> None:
    for name, (file, first, last) in code_places().items():
        lines = (Path(minibert.__file__).parents[1] / file).read_text(encoding="utf-8").splitlines()
        assert re.match(r"@|class |def ", lines[first - 1]), name
        assert first < last <= len(lines) and not lines[last - 1].startswith(("class ", "def "))


@pytest.mark.parametrize("language", ["en", pytest.param("ko", marks=pytest.mark.slow)])
def test_every_part_opens_its_tab_and_names_its_code(opened: Opened, language: str) -> None:
    opened.again(f"#language={language}")
    page = opened.page
    layers = page.evaluate("sizes.layers")
    assert page.locator("#river-parts button").count() == 4 * layers + 4
    for name, (path, first, last) in code_places().items():
        button = page.locator(f"#river-parts [data-part={name}]").last
        assert button.get_attribute("aria-label")
        button.click()
        opened.settle()
        assert page.evaluate("state.section") == TABS[name]
        assert button.get_attribute("aria-current") == "location"
        text = page.inner_text("#river-say")
        assert path in text and str(first) in text and str(last) in text
        assert "{" not in text and "undefined" not in text
    button = page.locator("#river-parts [data-part=ff]").first
    button.click()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(opened.copied, {})
    length = page.evaluate("river.goal.layers[0].ff")
    assert float(printed.getvalue()) == pytest.approx(length, abs=2e-3)
    assert f"{length:.2f}" in page.inner_text("#river-say")
    assert page.evaluate("river.shown === river.goal")


def test_arrow_keys_move_the_focus_and_a_switch_hides_one_side(opened: Opened) -> None:
    page = opened.page
    page.focus("#river-parts [tabindex='0']")
    assert page.evaluate("document.activeElement.dataset.part") == "pieces"
    opened.press("ArrowRight", 2)
    assert page.evaluate("document.activeElement.dataset.part") == "attention"
    assert "layer 0, attention" in page.inner_text("#river-say")
    opened.press("Enter")
    assert page.evaluate("[state.section, state.layer]") == ["attention", 0]
    token = page.evaluate("state.token")
    assert 0 < token < page.evaluate("count - 1")
    for sides, hidden in (("left", "right"), ("right", "left"), ("none", "left")):
        page.click(f"[data-sides={sides}]")
        opened.settle()
        assert page.evaluate("shown.request.sides") == sides
        flows = page.evaluate("river.goal.layers")
        assert all(flow[hidden] == 0 for flow in flows)
    assert flows[0]["self"] == pytest.approx(1, abs=1e-5)
    page.wait_for_timeout(250)
    assert "sides=none" in page.url
    page.click("[data-sides=both]")
    opened.settle()
    assert page.evaluate("river.goal.layers[0].left * river.goal.layers[0].right") > 0


def test_a_skipped_layer_adds_nothing_and_changes_are_animated(opened: Opened) -> None:
    page = opened.page
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate("ask({off: [[0]]})")
    page.wait_for_function("() => shown.request.off.length === 1")
    page.wait_for_function("() => river.shown === river.goal")
    first = page.evaluate("river.goal.layers[0]")
    assert first["attention"] == 0 and first["ff"] == 0 and first["cosine"] == 1
    halfway = page.evaluate("mixed({layers: [{ff: 0}]}, {layers: [{ff: 2}]}, 0.5)")
    assert halfway == {"layers": [{"ff": 1}]}
    page.emulate_media(reduced_motion="reduce")


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_strip_fits_its_window(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 740})
    opened.open("attention")
    over = opened.page.evaluate(
        "[document.documentElement, document.getElementById('river')]"
        ".map(item => item.scrollWidth - item.clientWidth)"
    )
    assert max(over) <= 0
    assert opened.page.evaluate("document.getElementById('river').offsetHeight") <= 130


def test_the_first_stop_of_tab_skips_to_the_tabs(opened: Opened) -> None:
    check_skip_link(opened, "tab-text")


def test_minibert_view_shows_everything(opened: Opened) -> None:
    """It has no article, so nothing is behind a control."""
    assert opened.page.locator("#explore").count() == 0
    assert opened.page.get_attribute("html", "data-calm") is None
    assert opened.page.is_visible("#tab-text") and opened.page.is_visible("#edit")
