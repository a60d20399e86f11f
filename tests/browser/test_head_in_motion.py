"""The animation of one head: each step shows PyTorch's values, and it starts only on demand."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from opened import Opened, browser as browser, once as once, shown

from minibert.learn.build import write_page
from minibert.study import run

pytestmark = pytest.mark.browser

MODEL = "minibert-tiny"
TEXT = "He walked along the bank of the river."
STEPS = ["query", "keys", "scores", "shares", "values", "weigh", "sum"]
LAYER, HEAD, TOKEN = 1, 1, 5


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("motion") / "page.html"
    write_page(path, MODEL, TEXT)
    return path


@pytest.fixture
def opened(once: Opened) -> Iterator[Opened]:
    """The page at one head, opened once for the tests that share it."""
    once.again(f"#section=head&layer={LAYER}&head={HEAD}&token={TOKEN}")
    yield once
    assert once.trouble == []


@pytest.fixture(scope="module")
def clocked(browser: Any, file: Path) -> Iterator[Opened]:
    with Opened(browser, file, reduced_motion="no-preference") as opened:
        opened.page.clock.install(time=0)
        opened.page.clock.pause_at(1000)
        yield opened


@pytest.fixture
def held(clocked: Opened) -> Iterator[Opened]:
    """The page at one head. It moves, and only the test advances its clock."""
    clocked.again(f"#section=head&layer={LAYER}&head={HEAD}&token={TOKEN}")
    end_of(clocked, "query")
    yield clocked
    assert clocked.trouble == []


def play(page: Any, seconds: int) -> None:
    """Let time pass for an animation, with two frames in a second."""
    for _ in range(2 * seconds):
        page.clock.fast_forward(500)


def end_of(opened: Opened, step: str) -> None:
    """Go to the end of a step without its animation."""
    opened.page.evaluate(
        "step => { film.time = filmEnds()[FILM_STEPS.indexOf(step)]; drawFilm(); }", step
    )


def cells(opened: Opened) -> list[list[float] | None]:
    """Return the values of the cells by row, with None for rows that are not shown yet."""
    rows: list[list[float] | None] = opened.page.evaluate(
        "() => Array.from({ length: count + 2 }, (_, r) => filmValue(r, 0) === null ? null"
        " : Array.from({ length: headSize() }, (_, c) => filmValue(r, c)))"
    )
    return rows


def test_every_step_shows_the_numbers_of_pytorch(opened: Opened) -> None:
    t = run(MODEL, TEXT)
    query, key, value, scores, shares = (
        t[f"layer.{LAYER}.attention.{name}"][0, HEAD]
        for name in ("query", "key", "value", "scores", "probabilities")
    )
    size = query.shape[-1]
    output = t[f"layer.{LAYER}.attention.context"][0, TOKEN, HEAD * size : (HEAD + 1) * size]
    torch.testing.assert_close(query[TOKEN] @ key.T / math.sqrt(size), scores[TOKEN])
    weighted = shares[TOKEN][:, None] * value
    torch.testing.assert_close(weighted.sum(0), output)
    expected = {
        "query": (None, None),
        "keys": (key, None),
        "scores": (key, None),
        "shares": (key, None),
        "values": (value, None),
        "weigh": (weighted, None),
        "sum": (weighted, output),
    }
    count = len(key)
    for step, (rows, total) in expected.items():
        end_of(opened, step)
        drawn = cells(opened)
        assert drawn[0] == pytest.approx(query[TOKEN].tolist(), abs=1e-4), step
        for i in range(count):
            ours = drawn[1 + i]
            assert ours == (None if rows is None else pytest.approx(rows[i].tolist(), abs=1e-4))
        assert drawn[-1] == (None if total is None else pytest.approx(total.tolist(), abs=1e-4))
    beside = "() => tokens.map((_, i) => besideKey(i))"
    end_of(opened, "keys")
    assert opened.page.evaluate(beside) == [""] * count
    for step, numbers in (("scores", scores), ("shares", shares), ("sum", shares)):
        end_of(opened, step)
        written = [float(text) for text in opened.page.evaluate(beside)]
        assert written == pytest.approx(numbers[TOKEN].tolist(), abs=1e-4)
    assert opened.page.evaluate("written(sumOfShares())") == "1.0000"
    assert shown(shares[TOKEN].max(), 2) in opened.page.inner_text("#film-say")


def test_a_row_comes_from_the_state_and_a_learned_matrix(opened: Opened) -> None:
    t = run(MODEL, TEXT, rounded=True)
    for step, name in (("query", "query"), ("keys", "key"), ("values", "value")):
        end_of(opened, step)
        opened.page.wait_for_function(
            "name => $('film-origin').textContent.includes(`W_${name[0].toUpperCase()}`)", arg=name
        )
        said = opened.page.inner_text("#film-origin").replace("−", "-")
        match = re.search(r" = (-?\d+\.\d\d)\.", said)
        number = t[f"layer.{LAYER}.attention.{name}"][0, HEAD, TOKEN, 0].item()
        assert match and float(match[1]) == pytest.approx(number, abs=0.02), (name, said)
    end_of(opened, "scores")
    assert opened.page.inner_text("#film-origin") == ""


def test_the_query_is_made_column_by_column(opened: Opened) -> None:
    t = run(MODEL, TEXT, rounded=True)
    opened.page.wait_for_function("() => showsMatrix()")
    size = opened.page.evaluate("headSize()")
    columns = torch.tensor(opened.page.evaluate("[...film.matrix]")).reshape(size, -1)
    name = f"encoder.layer.{LAYER}.attention.self.query"
    layer = t.model.base_model.get_submodule(name)
    own = slice(HEAD * size, (HEAD + 1) * size)
    torch.testing.assert_close(columns, layer.weight[own].detach(), atol=1e-5, rtol=0)
    opened.page.evaluate("() => { film.time = 0.5; drawFilm(); }")
    drawn = (cells(opened) or [None])[0]
    query = run(MODEL, TEXT)[f"layer.{LAYER}.attention.query"][0, HEAD, TOKEN].tolist()
    assert drawn == pytest.approx([*query[: size // 2], *[0] * (size // 2)], abs=1e-4)
    end_of(opened, "keys")
    assert not opened.page.evaluate("showsMatrix()")


def test_keys_and_values_are_made_column_by_column(opened: Opened) -> None:
    t = run(MODEL, TEXT)
    keys, values = (t[f"layer.{LAYER}.attention.{name}"][0, HEAD] for name in ("key", "value"))
    half = keys.shape[-1] // 2
    for step, before in (("keys", torch.zeros_like(keys)), ("values", keys)):
        after = keys if step == "keys" else values
        opened.page.evaluate(
            "step => { film.time = filmEnds()[FILM_STEPS.indexOf(step)] - 0.5; drawFilm(); }", step
        )
        drawn = torch.tensor(cells(opened)[1:-1])
        expected = torch.cat([after[:, :half], before[:, half:]], dim=1)
        torch.testing.assert_close(drawn, expected, atol=1e-4, rtol=0)


def test_a_cell_has_a_readout_and_a_line_of_python(opened: Opened) -> None:
    for step, row, label in (
        ("query", 0, "q “bank”"),
        ("scores", 9, "k “river”"),
        ("values", 9, "v “river”"),
        ("weigh", 9, "p × v “river”"),
        ("sum", 12, "sum = context"),
    ):
        end_of(opened, step)
        said = opened.hover("film-map", row, 3)
        assert said.startswith(label) and ", component 3: " in said
        opened.page.evaluate("row => filmMap.go(row, 3)", row)
        assert opened.readout == said
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(opened.copied, {})
        number = float(said.split(": ")[1])
        assert number == pytest.approx(float(printed.getvalue()), abs=1.01e-4)
    scores = run(MODEL, TEXT)[f"layer.{LAYER}.attention.scores"]
    size = opened.page.evaluate("headSize()")
    end_of(opened, "scores")
    opened.page.evaluate("filmMap.go(9, 3)")
    score = shown(scores[0, HEAD, TOKEN, 8])
    assert opened.readout.startswith(f"k “river” (q · k / √{size} = {score}), component 3: ")
    end_of(opened, "query")
    opened.page.evaluate("filmMap.go(9, 3)")
    assert opened.readout == ""  # a row that is not shown yet has no readout


def test_nothing_moves_until_play_is_pressed(held: Opened) -> None:
    page = held.page
    play(page, 3)
    assert page.evaluate("film.time") == 1 and page.inner_text("#film-play") == "▶ Play"
    page.click("#film-play")
    page.clock.run_for(200)
    assert 0 < page.evaluate("film.time") < 1 and page.inner_text("#film-play") == "❚❚ Pause"
    page.click("#film-play")
    paused = page.evaluate("film.time")
    play(page, 3)
    assert page.evaluate("film.time") == paused and page.inner_text("#film-play") == "▶ Play"
    page.click("#film-play")
    play(page, 50)
    assert page.evaluate("film.time === filmEnds().at(-1)")
    assert page.inner_text("#film-play") == "↻ Again" and page.is_disabled("#film-next")
    page.click("#film-play")
    page.clock.run_for(100)
    assert page.evaluate("film.time") < 1
    held.open("text")
    play(page, 5)
    assert page.evaluate("film.time") < 3  # the animation pauses in other tabs


def test_steps_by_button_and_by_keyboard(held: Opened) -> None:
    page = held.page
    for number, step in enumerate(STEPS[1:], 2):
        page.click("#film-next")
        page.clock.fast_forward(6_000)  # ms: the longest step has a frame for each of 11 tokens
        assert page.evaluate("[film.time, FILM_STEPS[state.step]]") == [
            page.evaluate(f"filmEnds()[{number - 1}]"),
            step,
        ]
        assert page.inner_text("#film-say").startswith(f"{number}/7 ")
    page.click("#film-back")
    page.clock.fast_forward(500)
    assert page.evaluate("FILM_STEPS[state.step]") == "weigh"
    page.focus("#film-time")
    held.press("Home")
    page.clock.fast_forward(500)
    held.press("ArrowRight", 5)
    page.clock.fast_forward(500)
    assert page.evaluate("film.time") == 6 and page.input_value("#film-time") == "6"
    scores = run(MODEL, TEXT)[f"layer.{LAYER}.attention.scores"]
    said = page.get_attribute("#film-time", "aria-valuetext")
    assert said == f"3/7 Scores. · along: {shown(scores[0, HEAD, TOKEN, 3])}"
    page.focus("#film-next")
    held.press("Enter")
    page.clock.fast_forward(6_000)
    assert page.evaluate("film.time === filmEnds()[2]")


def test_with_reduced_motion_the_steps_change_at_once(held: Opened) -> None:
    page = held.page
    page.emulate_media(reduced_motion="reduce")
    times = [page.evaluate("film.time")]
    for _ in STEPS[1:]:
        page.click("#film-next")
        times.append(page.evaluate("film.time"))
    assert times == page.evaluate("filmEnds()")
    page.click("#film-play")
    seen = []
    for _ in range(40):
        seen.append(page.evaluate("film.time"))
        page.clock.fast_forward(500)
    assert sorted(set(seen)) == times
    page.emulate_media(reduced_motion="no-preference")


def test_hidden_keys_disabled_heads_and_other_texts(opened: Opened) -> None:
    page = opened.page
    end_of(opened, "sum")
    page.evaluate("ask({ text: 'Paris is large.', sides: 'left', token: 2 })")
    opened.settle()
    assert page.evaluate("film.time === filmEnds().at(-1)")  # the same step of a shorter text
    end_of(opened, "scores")
    beside = page.evaluate("tokens.map((_, i) => besideKey(i))")
    assert beside[3:] == ["hidden"] * (len(beside) - 3) and "hidden" not in beside[:3]
    end_of(opened, "shares")
    assert page.evaluate("besideKey(3)") == "0.0000"
    page.evaluate(f"ask({{ off: [[{LAYER}, {HEAD}]] }})")
    opened.settle()
    end_of(opened, "sum")
    assert "switched off" in page.inner_text("#film-say")
    assert all(value == 0 for value in cells(opened)[-1] or [1.0])


def test_a_long_text_stays_in_sight(held: Opened) -> None:
    page = held.page
    page.evaluate("ask({ text: 'the old man sat on the bank '.repeat(15), token: 6 })")
    page.wait_for_function("() => count > 100")
    end_of(held, "keys")
    box = "document.getElementById('film-map').parentElement.scrollTop"
    page.evaluate("() => { $('film-map').parentElement.scrollTop = 0; }")
    page.click("#film-next")
    page.clock.fast_forward(7_000)  # ms: a long text takes no longer than six seconds
    assert page.evaluate("film.time === filmEnds()[2]") and page.evaluate(box) > 500


@pytest.fixture
def phone(once: Opened) -> Iterator[Opened]:
    """The page in a narrow window."""
    once.page.set_viewport_size({"width": 360, "height": 740})
    yield once
    once.page.set_viewport_size({"width": 1280, "height": 800})
    assert once.trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_animation_fits_a_phone_in_korean(phone: Opened, scheme: str) -> None:
    phone.again(f"#section=head&token={TOKEN}&step=2&language=ko&theme={scheme}")
    page = phone.page
    assert page.get_attribute("html", "data-theme") == scheme
    assert page.inner_text("#film-say").startswith("3/7 점수. 쿼리를 모든 키와 칸끼리 곱하고")
    assert page.evaluate("film.time === filmEnds()[2]")
    for name in ("film-map", "page"):
        wide = page.evaluate(
            f"(({{ scrollWidth, clientWidth }}) => scrollWidth - clientWidth)"
            f"(document.getElementById('{name}').parentElement)"
        )
        assert wide <= 0
    page.click("#film-next")  # controls and output are now visible together
    places = [page.locator(name).bounding_box() for name in ("#film-play", "#film-map")]
    main = page.locator("main").bounding_box()
    assert places[0]["y"] >= main["y"] and main["height"] > 0
    assert places[1]["y"] + places[1]["height"] <= main["y"] + main["height"] + 8


def test_two_questions_open_the_animation(once: Opened) -> None:
    for question, step, said in (("qkv", 0, "looks for"), ("root-d", 2, "√")):
        once.again(f"#ask={question}")
        assert once.page.is_visible("#film-map")
        assert once.page.evaluate("state.step") == step
        assert said in once.page.inner_text("#film-say") and once.trouble == []


BELOW_MAIN = """() => {
  const bottom = (element) => element.getBoundingClientRect().bottom;
  return bottom($("film-map")) - bottom(document.querySelector("main"));
}"""


@pytest.mark.parametrize("language", ["en-US", pytest.param("ko-KR", marks=pytest.mark.slow)])
def test_the_output_is_in_sight_beside_an_answer(browser: Any, file: Path, language: str) -> None:
    with Opened(browser, file, address="#ask=qkv", language=language) as opened:
        opened.settle()
        assert opened.page.is_visible("#ask-text")
        assert not opened.page.is_visible("#ask-fold")
        opened.page.wait_for_function(f"() => ({BELOW_MAIN})() <= 1")


def test_a_door_in_an_open_page_brings_the_animation_into_sight(phone: Opened) -> None:
    phone.again("#section=text&text=Paris is large.")
    phone.page.evaluate("() => { location.hash = 'ask=qkv'; }")
    phone.page.wait_for_function(
        "() => { const { top } = $('film-play').getBoundingClientRect();"
        " return state.section === 'head' && top > 0 && top < innerHeight; }"
    )


def test_an_answer_on_a_phone_is_folded_while_the_animation_plays(phone: Opened) -> None:
    phone.again("#ask=qkv")
    page = phone.page
    assert page.is_visible("#ask-text")  # the answer is read first
    page.click("#film-next")
    assert not page.is_visible("#ask-text") and page.is_visible("#ask-title")
    page.wait_for_function(f"() => ({BELOW_MAIN})() <= 1")
    page.click("#ask-fold")
    assert page.is_visible("#ask-text")
    assert page.get_attribute("#ask-fold", "aria-expanded") == "true"
    assert page.evaluate("document.activeElement.id") == "ask-fold"
