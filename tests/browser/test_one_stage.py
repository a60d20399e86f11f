"""A scene shows its own controls alone, and its prediction, act and verdict together."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opened import CONTROLS, STILL, Opened, article_page, browser as browser

pytestmark = pytest.mark.browser

# the largest difference between a shown result and the product of the shown weights and input
LARGEST_ERROR = """() => Math.max(...stage.figures.filter(({kind}) => kind === "product").map(
  ({name, rows, input, output, bias = `${name}.bias`}) => {
    const [weights, shift] = [`${name}.weight`, bias].map(which => weightRows(which, rows));
    const product = r => weights.row(r).reduce((sum, w, c) => sum + w * input.value(c), 0);
    return Math.max(...rows.map((_, r) => Math.abs(output.value(r) - shift.at(r) - product(r))));
  }))"""


@pytest.fixture(scope="module", params=["en", pytest.param("ko", marks=pytest.mark.slow)])
def file(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return article_page(tmp_path_factory, request.param)


@pytest.fixture(scope="module")
def once(browser: Any, file: Path) -> Iterator[Opened]:
    """The article, opened once for the tests of the strip."""
    with Opened(browser, file) as opened:
        yield opened


@pytest.fixture
def strip(once: Opened) -> Iterator[Opened]:
    """The article in its usual window and with no part open."""
    once.page.set_viewport_size({"width": 1280, "height": 800})
    once.page.evaluate("state.part >= 0 && $('part-close').click()")
    yield once
    assert once.trouble == []


def test_everything_is_behind_one_control(strip: Opened) -> None:
    page = strip.page
    assert not page.is_visible("#tab-text")
    assert page.get_attribute("#explore", "aria-pressed") == "false"
    page.focus("#explore")
    strip.press("Enter")
    assert page.get_attribute("#explore", "aria-pressed") == "true"
    assert page.evaluate("document.activeElement.id") == "explore"
    assert len(page.evaluate(CONTROLS)) > 35
    for item in ("#tab-text", "#scenes", "#mask", "#ask-open", "[data-sides=left]"):
        assert page.locator(item).is_visible(), item
    # it stays in the next scene and in the address
    page.click("#scene-next")
    strip.settle()
    assert page.is_visible("#tab-text")
    page.wait_for_function("() => location.hash.includes('explore=yes')")
    page.click("#explore")
    assert not page.is_visible("#tab-text")


def test_the_list_of_scenes_and_the_way_back_are_always_there(strip: Opened) -> None:
    page = strip.page
    page.evaluate("enter(0)")
    strip.settle()
    assert page.is_visible("#ask-open") and not page.is_visible("#scene-3")
    page.click("#scene-count")
    assert page.is_visible("#scene-3") and page.locator("#scenes .short").count() == 8
    page.click("#scene-3")
    strip.settle()
    page.wait_for_function("() => location.hash.includes(`scene=${SCENES[3].id}&`)")
    assert not page.is_visible("#scene-3")
    page.click("#scene-next")
    page.wait_for_function("() => location.hash.includes(`scene=${SCENES[4].id}&`)")
    page.go_back()
    page.wait_for_function("() => state.scene === 3")
    strip.settle()
    assert re.match(r"(Scene|장면) 4 ", page.inner_text("#scene-count"))
    page.go_forward()
    page.wait_for_function("() => state.scene === 4")


def test_a_teacher_prints_a_sheet_for_each_scene(strip: Opened) -> None:
    page = strip.page
    page.evaluate("enter(0)")
    strip.settle()
    page.evaluate("() => { window.printed = 0; window.print = () => { window.printed += 1; }; }")
    page.click("#scene-count")
    page.click("#sheets-print")
    assert page.evaluate("printed") == 1 and not page.is_visible("#sheets")
    page.emulate_media(media="print")
    sheets = page.locator("#sheets article")
    assert sheets.count() == page.evaluate("SCENE_COUNT") and not page.is_visible("#lesson")
    for number, sheet in enumerate(sheets.all_inner_texts()):
        assert page.evaluate("i => SCENES[i].id", number) == sheet.strip().split("#scene=")[1]
        assert "lesson." not in sheet and "{" not in sheet, sheet
    page.emulate_media(media="screen")
    page.evaluate("onafterprint()")
    assert page.is_visible("#lesson") and sheets.count() == 0
    page.click("#scene-count")


def test_on_a_phone_the_picture_of_a_verdict_is_in_sight(strip: Opened) -> None:
    page = strip.page
    page.evaluate(STILL)
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("enter(SCENES.findIndex(({ picture }) => picture === 'lines'))")
    strip.settle()
    page.evaluate("act()")
    page.wait_for_function("() => $('scene-brief').textContent && !running")
    tops = page.evaluate("['scene-brief', 'lines'].map(id => $(id).getBoundingClientRect().top)")
    assert 0 < tops[0] < page.evaluate("$('page').getBoundingClientRect().top") < tops[1] < 700
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.evaluate("enter(0)")


# where the scene on two calculations lies in its window, once it is drawn for it: its columns, its
# picture, and what is wider than its box
CALCULATIONS = """async () => {
  const drawn = () => new Promise((resolve) => requestAnimationFrame(resolve));
  await drawn();
  await drawn();
  const box = (item) => item.getBoundingClientRect();
  const seen = [...document.querySelectorAll("#lesson, #page, :is(#lesson, #page) *")]
    .filter((item) => item.checkVisibility() && item.id !== "tokens");
  return {
    lesson: box($("lesson")),
    page: box($("page")),
    picture: [...$("scene-drawn").querySelectorAll(".arrows, .words")].map(box),
    room: [box($("river")).bottom, innerHeight],
    wide: seen.filter((item) => item.scrollWidth > item.clientWidth + 1
      && getComputedStyle(item).overflowX !== "visible").map((item) => item.outerHTML),
    outside: seen.filter((item) => box(item).right > innerWidth + 1)
      .filter((item) => !item.closest("#tokens, svg")).map((item) => item.outerHTML),
  };
}"""


@pytest.mark.parametrize("width", [1024, 1280, 1440])
def test_the_two_calculations_open_with_their_picture_in_sight(strip: Opened, width: int) -> None:
    page = strip.page
    page.set_viewport_size({"width": width, "height": 800})
    page.evaluate("enter(SCENES.findIndex(({ id }) => id === 'prologue'))")
    strip.settle()
    page.evaluate("judged()")
    seen = page.evaluate(CALCULATIONS)
    lesson, stage = (seen[name] for name in ("lesson", "page"))
    assert 0 <= lesson["left"] and lesson["right"] <= stage["left"] and stage["right"] <= width
    top, bottom = seen["room"]
    assert len(seen["picture"]) == 2  # the arrows, and the shares that the verdict speaks of
    for part in seen["picture"]:
        assert lesson["left"] <= part["left"] and part["right"] <= lesson["right"]
        assert top <= part["top"] and part["bottom"] <= bottom and part["height"] > 50
    assert seen["wide"] == seen["outside"] == []


def test_a_changed_question_has_one_way_back_instead_of_the_act(strip: Opened) -> None:
    page = strip.page
    page.evaluate(STILL)
    page.evaluate("enter(0)")
    strip.settle()
    page.evaluate("ask({text: state.text + ' !'})")
    page.wait_for_function("() => $('scene-verdict').dataset.may === 'changed'")
    names = [name for name, *_ in page.evaluate(CONTROLS)]
    assert "scene-again" in names and "scene-act" not in names and len(names) <= 5
    strip.again()


def test_a_part_of_the_strip_opens_in_place(strip: Opened) -> None:
    """Weights, inputs and results of every part are numbers of the model, each with its Python."""
    page = strip.page
    before = page.evaluate("JSON.stringify([state.section, state.layer, state.head])")
    scene = [name for name, *_ in page.evaluate(CONTROLS)]
    parts = page.evaluate("RIVER_PARTS.map(({name}) => name)")
    for part in dict.fromkeys(parts):
        index = parts.index(part)
        page.click(f"#river-{index}")
        page.wait_for_function(f"() => state.part === {index} && stage.figures.length")
        page.wait_for_function("() => [...stage.rows.values()].every(Boolean)")
        assert not page.is_visible("main") and page.is_visible("#part-close")
        own = [name for name, *_ in page.evaluate(CONTROLS) if name not in scene]
        assert set(own) <= {"part-close", "part-head", "copy"}, part
        for figure in sorted({0, page.evaluate("stage.figures.length") - 1}):
            page.evaluate(f"stage.maps[{figure}].go(0, 3), stage.maps[{figure}].go(0, 2)")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(strip.copied, {})
            said = re.findall(r"-?\d+(?:\.\d+)?", strip.readout.replace("−", "-"))
            values = [float(value) for value in said]
            for value in map(float, printed.getvalue().split()):
                assert any(abs(value - other) < 2e-3 for other in values), (part, figure)
    # nothing that a scene asks about was changed, and the scene's own view comes back
    assert page.evaluate("JSON.stringify([state.section, state.layer, state.head])") == before
    page.focus("#part-close")
    strip.press("Escape")
    assert page.is_visible("main") and not page.is_visible("#part")
    assert page.evaluate("document.activeElement.dataset.part") == "predictions"


def test_a_matrix_times_its_input_is_what_the_page_shows(strip: Opened) -> None:
    page = strip.page
    parts = page.evaluate("RIVER_PARTS.map(({name}) => name)")
    for name in ("attention", "ff", "pooler", "predictions"):
        index = parts.index(name)
        page.click(f"#river-{index}")
        page.wait_for_function(f"() => state.part === {index} && stage.figures.length")
        page.wait_for_function("() => [...stage.rows.values()].every(Boolean)")
        largest = page.evaluate(LARGEST_ERROR)
        assert largest < 1e-4, name


@pytest.mark.parametrize("width", [360, 1280])
def test_the_strip_and_its_parts_fit_a_phone(strip: Opened, width: int) -> None:
    page = strip.page
    page.set_viewport_size({"width": width, "height": 800})
    for name, layer in (("attention", 1), ("ff", 0), ("add2", 2), ("predictions", None)):
        layers = "undefined" if layer is None else layer
        page.evaluate(f"openPart(partIndex({name!r}, {layers}))")
        page.wait_for_function("() => stage.figures.length")
        page.wait_for_function("() => [...stage.rows.values()].every(Boolean)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("$('part').scrollWidth - $('part').clientWidth") <= 0, name
        for size in page.evaluate(
            """() => [...document.querySelectorAll("#river-parts button")]
              .filter(item => item.checkVisibility())
              .flatMap(item => [item.offsetWidth, item.offsetHeight,
                2 * parseFloat(getComputedStyle(item).fontSize)])"""
        ):
            assert size >= 24, name


def check_skip_link(opened: Opened, target: str) -> None:
    """The first stop of Tab skips to the content."""
    page = opened.page
    page.evaluate("document.activeElement.blur(), window.getSelection().removeAllRanges()")
    first = page.evaluate("document.querySelector('button, input, [tabindex=\"0\"]').id")
    assert first == "skip"
    page.focus("#skip")
    box = page.locator("#skip").bounding_box()
    assert box["height"] >= 24
    opened.press("Enter")
    assert page.evaluate("document.activeElement.id") == target


def test_the_first_stop_of_tab_skips_to_the_scene(strip: Opened) -> None:
    check_skip_link(strip, "scene-title")
