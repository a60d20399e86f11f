"""Regression tests for places of the page that confused learners."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from opened import SECTIONS, Opened, browser as browser, once as once, opened as opened

from minibert.learn.build import write_page

pytestmark = pytest.mark.browser

TEXT = "The old man sat on the bank of the river"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(path, "minibert-tiny", TEXT)
    return path


def test_a_second_sense_is_compared_with_the_same_sense(opened: Opened) -> None:
    """The verdict is computed, so exchanging the two sentences reverses it."""
    opened.open("compare")
    opened.page.click("#compare-example")
    opened.page.wait_for_function(
        "() => comparison.texts?.[2] && document.getElementById('compare-verdict').textContent"
    )
    cells = opened.page.locator("#compare-layers tbody tr:last-child td").all_inner_texts()
    other, same = (float(cell) for cell in cells[1:])
    assert same > other and cells[1] in opened.page.inner_text("#compare-verdict")
    assert "the two senses have parted" in opened.page.inner_text("#compare-verdict")
    opened.page.click("#compare-layers tbody tr:last-child td:last-child")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(opened.copied, {})
    assert (
        float(printed.getvalue()) == pytest.approx(same, abs=2e-4)
        and f": {cells[2]}" in opened.readout
    )
    second, third = (opened.page.input_value(f"#compare-{name}") for name in ("text", "same"))
    opened.page.fill("#compare-text", third)
    opened.page.fill("#compare-same", second)
    opened.page.wait_for_function("() => comparison.texts.wish === wished().join('\\n')")
    assert "do not tell the two apart" in opened.page.inner_text("#compare-verdict")
    opened.reload()
    assert opened.page.input_value("#compare-same") == second


def test_every_tab_shows_what_is_switched_off_and_can_undo_it(opened: Opened) -> None:
    page = opened.page
    assert not page.is_visible("#off")
    opened.open("attention")
    page.evaluate("chooseHead(0, 1)")
    page.click("#off-head")
    opened.settle()
    page.click("#off-layer")
    opened.settle()
    for section in SECTIONS:
        opened.open(section)
        opened.settle()
        assert page.is_visible("#off")
        assert "Layer 0, head 1 · Layer 0 skipped" in page.inner_text("#off")
    # the tab of predictions is open and shows the five best words before and after
    page.wait_for_function("() => shown.whole.lens[0] && shown.lens[0]")
    before, after = (
        page.locator("#best .words").nth(i).locator("b").all_inner_texts() for i in range(2)
    )
    assert len(before) == len(after) == 5 and before != after
    page.wait_for_function("() => document.getElementById('off').textContent.includes('→')")
    assert before[0] in page.inner_text("#off") and after[0] in page.inner_text("#off")
    opened.open("text")
    page.fill("#edit", TEXT + " again")
    opened.settle()
    assert page.is_visible("#off")
    page.click("#off-undo")
    opened.settle()
    assert page.evaluate("state.off") == [[0, 1]] and "skipped" not in page.inner_text("#off")
    page.click("#all-on")
    opened.settle()
    assert not page.is_visible("#off")


def test_predictions_open_with_a_word_to_guess(opened: Opened) -> None:
    opened.open("predictions")
    opened.settle()
    assert opened.page.inner_text("#tokens").split()[-2] == "[MASK]"
    assert "“river”" in opened.page.inner_text("#best")
    opened.page.click("#mask")
    opened.settle()
    opened.open("text")
    opened.open("predictions")
    opened.settle()
    assert "[MASK]" not in opened.page.inner_text("#tokens")  # masked at the first visit only
    opened.open("text")
    opened.page.fill("#edit", "the cat sat on the mat")
    opened.settle()
    opened.page.evaluate("goTo(STOPS.findIndex(stop => stop.section === 'predictions'))")
    opened.settle()
    assert opened.page.inner_text("#tokens").split()[-2] == "[MASK]"
    opened.page.evaluate("ask({pad: 12})")
    opened.settle()
    opened.page.evaluate("change({token: 10})")
    opened.page.click("#mask")
    opened.settle()
    assert "“[PAD]”" in opened.page.inner_text("#best")  # padding can be hidden, too


def test_the_tab_of_states_opens_at_the_chosen_layer(opened: Opened) -> None:
    opened.open("attention")
    opened.page.evaluate("chooseHead(0, 1)")
    opened.open("hidden")
    assert opened.page.inner_text("#depth-number") == "1 (h1)"
    assert opened.page.inner_text("#places-caption").startswith("h1 ")


def test_the_footer_is_cleared_when_the_layer_changes(opened: Opened) -> None:
    opened.open("attention")
    opened.page.click("#token-3")
    assert opened.readout.startswith("Token 3")
    opened.page.fill("#layer", "0")
    assert opened.readout == "" and not opened.page.is_visible("#copy")


@pytest.mark.parametrize(
    ("language", "single", "root"),
    [("en", "a single one", "square root"), ("ko", "하나뿐", "제곱근")],
)
def test_the_page_makes_no_false_claims(
    opened: Opened, language: str, single: str, root: str
) -> None:
    """What it says of a single text and of colors is true."""
    opened.again(f"#language={language}")
    assert "minibert-tiny" in opened.page.inner_text("header")
    opened.open("pooler")
    next_sentence = opened.page.inner_text("#next")
    assert single in next_sentence and "%" not in next_sentence
    opened.open("attention")
    assert root in opened.page.inner_text("#attention-legend")


@pytest.mark.slow
def test_a_long_map_scrolls_to_its_cell(browser: Any, tmp_path: Path) -> None:
    write_page(
        tmp_path / "page.html",
        "minibert-tiny",
        "one two three four five six seven eight nine ten " * 8,
    )
    inside = """id => {
      const map = HeatMap.all.get(id);
      const { area, now } = map;
      const box = map.canvas.parentElement.getBoundingClientRect();
      const canvas = map.canvas.getBoundingClientRect();
      const main = document.querySelector("main").getBoundingClientRect();
      const y = canvas.top + area.top + ((now.cursor[0] + 0.5) / now.rows) * area.height;
      const x = canvas.left + area.left + ((now.cursor[1] + 0.5) / now.cols) * area.width;
      const inBox = y > box.top && y < box.bottom && x > box.left && x < box.right;
      return [inBox, y > main.top && y < main.bottom];
    }"""
    with Opened(browser, tmp_path / "page.html", height=500) as opened:
        opened.open("attention")
        opened.page.evaluate("change({token: 80, key: 81})")
        assert opened.page.evaluate(inside, "attention-map")[0]
        opened.page.focus("#attention-map")
        for key, times in (("ArrowUp", 60), ("ArrowLeft", 60), ("ArrowDown", 61)):
            opened.press(key, times)
            in_box, on_screen = opened.page.evaluate(inside, "attention-map")
            assert in_box and on_screen, key


# returns what hides part of the focus ring, "" if nothing does, and null if nothing has the focus
CUT = """() => {
  const item = document.activeElement;
  const style = (element) => getComputedStyle(element);
  if (item === document.body) return null;
  const around = [item, item.parentElement].find((of) => style(of).outlineStyle === "solid");
  if (!around) return `no ring: ${item.outerHTML}`;
  const ring = around.getBoundingClientRect();
  const { outlineOffset, outlineWidth } = style(around);
  const width = Math.max(parseFloat(outlineOffset) + parseFloat(outlineWidth), 0) - 0.6;
  for (let box = around.parentElement; box; box = box.parentElement) {
    const { left, right, top, bottom } = box.getBoundingClientRect();
    const cut =
      ring.left - width < left ||
      ring.right + width > right ||
      ring.top - width < top ||
      ring.bottom + width > bottom;
    if (cut && style(box).overflowY !== "visible") {
      return `${item.id || item.outerHTML} in ${box.id || box.outerHTML}`;
    }
  }
  return "";
}"""


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=pytest.mark.slow)])
def test_every_focus_ring_is_fully_visible(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 1600})
    for section in SECTIONS:
        opened.open(section)
        opened.page.focus("#theme")
        opened.press("Tab")
        cuts: list[str] = []
        while (cut := opened.page.evaluate(CUT)) is not None:
            cuts.append(cut)
            assert len(cuts) < 100
            opened.press("Tab")
        assert len(cuts) >= 4 and not any(cuts), (section, cuts)


def test_the_page_says_that_it_is_opening(browser: Any, file: Path, once: Opened) -> None:
    """The notice is visible until the scripts run, and stays if they are blocked."""
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "unpacked" in page.inner_text("#opening") and "불러오고" in page.inner_text("#opening")
    assert "its own script" in page.inner_text("#opening")
    context.close()
    assert not once.page.is_visible("#opening")
