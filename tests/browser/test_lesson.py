"""The article of `minibert learn`: scenes whose verdicts are computed when the reader acts."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opened import STILL, Opened, article_page, browser as browser

from minibert import BertForPreTraining, BertTokenizer
from minibert.study import patching_sweep, rounded

pytestmark = pytest.mark.browser
ANIMAL = "The animal did not cross the street because {} was too {}."
ROWS = """[...document.querySelectorAll("#scene-table tbody tr")]
  .map(row => [...row.cells].map(cell => cell.innerText))"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return article_page(tmp_path_factory, "en")


class Reader(Opened):
    """An opened article. Only one test repeats its shipped measurements."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        super().__init__(browser, file, **options)
        self.page.evaluate(STILL)

    def enter(self, scene: int | str) -> None:
        """Open a scene by its number, which counts from 1, or by its id."""
        number = scene
        if isinstance(scene, str):
            number = 1 + self.page.evaluate(
                "id => SCENES.findIndex(scene => scene.id === id)", scene
            )
        self.explore()
        self.click(f"#scene-{number - 1}")
        self.settle()

    def act(self) -> list[list[str]]:
        """Press the button of the scene and return the rows of its verdict."""
        self.page.click("#scene-act")
        return self.verdict()

    def press_act_by_keyboard(self) -> None:
        """Select the first choice and press the button, starting at the title of a scene."""
        # a scene takes the focus when it is drawn
        self.page.wait_for_function("document.activeElement.id === 'scene-title'")
        # Tab moves over terms and commands to the choices, and Space selects the first one
        self.press("Tab")
        while self.page.evaluate("document.activeElement.name") != "guess":
            assert self.page.evaluate("document.activeElement.closest('#scene-say, #scene-figure')")
            self.press("Tab")
        self.press("Space")
        assert self.page.evaluate("state.guess") == 0
        self.press("Tab")
        while self.page.evaluate("document.activeElement.id") != "scene-act":
            assert self.page.evaluate("document.activeElement.className") == "term"
            self.press("Tab")
        self.press("Enter")

    def verdict(self) -> list[list[str]]:
        self.settle()
        self.page.wait_for_function(
            "() => !SCENES[state.scene].progress?.().running"
            " && document.getElementById('scene-wait').hidden"
            " && document.getElementById('scene-table').rows.length"
        )
        self.page.evaluate("judge.latest")
        self.page.evaluate("$('scene-more').open = true")
        rows: list[list[str]] = self.page.evaluate(ROWS)
        return rows

    @property
    def outcome(self) -> int:
        return int(
            self.page.evaluate(
                "measured(SCENES[state.scene], 'verdict').then(found => found.outcome)"
            )
        )

    def write(self, text: str) -> list[list[str]]:
        """Edit the text and return the rows of the new verdict."""
        self.open("text")
        self.page.fill("#edit", text)
        return self.verdict()


@pytest.fixture(scope="module")
def opened(browser: Any, file: Path) -> Iterator[Reader]:
    """The article, opened once for the tests that share it."""
    with Reader(browser, file) as reader:
        yield reader


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    """The shared article at its beginning, as if no scene had been read."""
    opened.page.set_viewport_size({"width": 1280, "height": 800})
    opened.page.evaluate(
        """() => {
            window.restore?.(); // what a test has changed
            closeAsk();
            pressed.clear();
            Object.assign(state, { guesses: "", explore: "", ask: "", language: "en" });
            return enter(0);
        }"""
    )
    opened.settle()
    yield opened
    assert opened.trouble == []


def test_a_changed_question_is_measured_and_not_judged(reader: Reader) -> None:
    page = reader.page
    reader.enter("pieces")
    rows = reader.act()
    assert rows[1][2].count("##") == 3 and reader.outcome == 1
    reader.write("The cat was walking on the mat.")
    found = page.inner_text("#scene-found")
    assert found.startswith("You changed the question: another text.")
    assert page.inner_text("#scene-guess") == "" and not page.is_visible("#scene-figure")
    page.click("#scene-again")
    reader.settle()
    assert page.input_value("#edit").startswith("The cat was sl")
    reader.enter("head")
    reader.act()
    assert reader.outcome == 1
    rows = reader.write("Yesterday the cat sat on the mat.")
    # the same two words are compared, wherever they stand
    named = {row[0]: row[1:] for row in rows}
    assert named["the two tokens"] == ["cat → sat", "cat → sat"]
    scores = page.evaluate("shown.steps.get('layer.0.attention.scores').at(0, 3, 4)")
    assert float(named["score q·k / √d"][1]) == pytest.approx(scores, abs=0.01)
    rows = reader.write("Yesterday the dog sat on the mat.")
    assert {row[0]: row[2] for row in rows}["the two tokens"] == "–"
    page.evaluate("ask({off: [[0, 1]]})")
    reader.verdict()
    found = page.inner_text("#scene-found")
    assert "another text, other heads or layers are switched off" in found
    # a sentence that is not there leaves the other one, and what cannot be measured is told
    reader.enter("sentence")
    reader.act()
    page.fill("#compare-same", "")
    page.wait_for_function("() => $('scene-verdict').dataset.may === 'changed'")
    rows = reader.verdict()
    assert [row[1:] for row in rows if row[0] == "second sentence"] == [["How tall are you?"] * 2]
    assert rows[-1][1].startswith("h0: ") and rows[-1][2] == "–"
    page.fill("#compare-text", "word " * 200)
    page.wait_for_function("() => $('scene-wait').checkVisibility()")
    assert "The text has 202 tokens" in page.inner_text("#scene-wait")
    page.fill("#compare-text", "How tall are you?")
    assert len(reader.verdict()) == len(rows)
    page.evaluate("location.hash = 'scene=6'")  # without a state, as somebody may type it
    page.wait_for_function("() => $('scene-title').textContent.startsWith('7. ')")
    reader.settle()
    assert page.input_value("#edit") == "The cat sat on the mat."
    assert page.inner_text("#scene-wait").startswith("Press the button above")


def test_what_has_the_focus_keeps_it_when_the_page_draws_again(reader: Reader) -> None:
    """Measurements end while a reader goes on with the keyboard, and the page draws them."""
    page = reader.page
    focused = "document.activeElement.innerText"

    def draw_again() -> None:
        before = page.evaluate(focused)
        page.evaluate("draw(), judged()")
        assert page.evaluate(focused) == before

    reader.enter("prologue")
    page.focus("#scene-caption .term")
    draw_again()
    page.keyboard.press("Enter")  # explains the term
    draw_again()
    assert page.is_visible("#scene-figure .explained")
    reader.enter("head")
    reader.act()
    page.focus("#scene-found .number")
    draw_again()
    reader.enter("heads")
    reader.act()
    page.wait_for_selector("#scene-shown button")
    page.focus("#scene-shown button >> nth=2")
    page.keyboard.press("Enter")
    reader.verdict()
    assert page.evaluate("document.activeElement.ariaPressed") == "true"


def test_an_interval_is_no_measured_number(reader: Reader) -> None:
    reader.enter("it")
    rows = reader.act()
    remains = next(row[2] for row in rows if row[0] == "change of the answer without it")
    assert f"to {remains})" in str(rows)  # so an interval ends in the same number
    numbers = reader.page.locator("#scene-found .number")
    before = numbers.evaluate_all("all => all.map((one) => one.previousSibling?.textContent ?? '')")
    assert before and not any(re.search(r"95%: \d+ to $", text) for text in before)
    reader.page.evaluate(
        "value => [...document.querySelectorAll('#scene-found .number')]"
        ".find((one) => one.textContent === value).click()",
        remains,
    )
    assert reader.page.locator("#scene-table .lit").all_inner_texts() == [remains]


def test_a_click_patches_one_state(reader: Reader) -> None:
    reader.enter("it")
    reader.act()
    reader.page.wait_for_function(
        "() => patching.cells.length === 6 && patching.cells[5].length === 16", timeout=120_000
    )
    cells, plain = reader.page.evaluate("[patching.cells, patching.plain]")
    # patch “wide” after the first layer
    reader.page.evaluate("patchAt(0, 13).then(() => judge.latest)")
    message = reader.page.inner_text("#scene-said")
    # after the last layer, only the position of the answer matters
    assert cells[5] == pytest.approx([plain[place == 10] for place in range(16)], abs=1e-6)
    name = "minibert-en"
    model = rounded(BertForPreTraining.from_pretrained(name)).eval()
    tokenizer = BertTokenizer.from_pretrained(name)
    wide, tired = (
        tokenizer(ANIMAL.format("the [MASK]", word), return_tensors="pt")
        for word in ("wide", "tired")
    )
    best = patching_sweep(
        model, wide, tired, lambda out: out.prediction_logits[:, 10].argmax(-1).float()
    )
    answer = tokenizer.convert_ids_to_tokens(int(best[0, 13]))
    assert f"“wide” after layer 0 alone exchanged, the answer is: {answer}" in message
    line = reader.page.evaluate("patchFigure.plan().python(13, 0)")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(line, {})
    assert float(printed.getvalue()) == pytest.approx(cells[0][13], abs=2e-4)


def test_five_hundred_sentences_against_chance(reader: Reader) -> None:
    page = reader.page
    reader.enter("heads")
    assert page.evaluate("state.rule") == "same"
    rows = reader.act()
    assert float(rows[0][1]) > 2 * float(rows[1][1])  # true of the single sentence only
    assert reader.outcome > 0
    page.click("#scene-shown button:has-text('previous')")
    rows = reader.verdict()
    assert "another pattern" in page.inner_text("#scene-found")  # a question of the reader's own
    heads = page.evaluate("everyHead().map(head => evidenceOf(...head))")
    assert max(heads) > 10 * page.evaluate("evenEvidence()") and sorted(heads)[-2] < 0.6


def test_shipped_measurements_are_repeated(reader: Reader) -> None:
    """Up to twenty items are measured again within five seconds, with the same results."""
    reader.page.evaluate(
        """() => {
            window.repeats = true;
            window.restore = () => { window.repeats = false; };
            for (const own of [professions, roles]) own.again.tried = false;
        }"""
    )
    for scene, experiment in (("guess", "professions"), ("place", "roles")):
        reader.enter(scene)
        assert reader.act()
        reader.page.wait_for_function(f"() => {experiment}.again.tried", timeout=60_000)
        again = reader.page.evaluate(f"{experiment}.again")
        assert 0 < again["count"] == again["alike"] <= 20
        reader.page.evaluate("judge.latest")
        said = reader.page.inner_text("#scene-again-said")
        assert f"{again['count']} were repeated here just now" in said


def test_another_model_measures_everything_itself(reader: Reader) -> None:
    """Without shipped results, a scene concludes only when its experiment is complete."""
    page = reader.page
    page.evaluate(
        """() => {
            const { lesson } = page;
            const { measured, crowds } = lesson;
            const { measure } = roles;
            const measureAnew = () => Experiment.all.forEach((own) => { own.found = undefined; });
            window.restore = () => {
                Object.assign(lesson, { measured, crowds });
                Object.assign(roles, { measure });
                measureAnew();
            };
            Object.assign(lesson, { measured: null });
            lesson.crowds = { ...crowds, roles: crowds.roles.slice(0, 4) };
            measureAnew();
            window.paused = true;
            roles.measure = async (item, i) => {
                while (i === 2 && window.paused) await new Promise((w) => setTimeout(w, 20));
                return measure(item, i);
            };
        }"""
    )
    reader.enter("place")
    assert "written about another model" in page.inner_text("#scene-say")
    page.click("#scene-act")
    page.wait_for_function("() => roles.results.length === 2")
    assert page.inner_text("#scene-found") == "" and page.is_visible("#scene-wait")
    page.evaluate("window.paused = false")
    rows = reader.verdict()
    assert "of 4" in rows[-1][2]


def test_a_model_without_the_head_of_a_scene_has_no_such_scene(reader: Reader) -> None:
    left_out = reader.page.evaluate(
        """() => {
            const { parameters } = page.live;
            page.live.parameters = parameters.filter(([name]) => !name.startsWith("cls.seq"));
            const left = ENGLISH.filter((scene) => !fits(scene)).map(({ id }) => id);
            page.live.parameters = parameters;
            return left;
        }"""
    )
    assert left_out == ["pair"] and reader.page.evaluate("SCENES.length === ENGLISH.length")


def test_the_address_restores_a_scene(browser: Any, file: Path, reader: Reader) -> None:
    reader.enter("layers")
    reader.page.check("#scene-choices label:nth-of-type(2) input")
    rows = reader.act()
    reader.page.wait_for_function("() => location.hash.includes('guesses=layers')")
    address = reader.page.url
    with Reader(browser, file, address=address[address.index("#") :]) as other:
        assert other.verdict() == rows
        assert "predicted it" in other.page.inner_text("#scene-guess") and other.trouble == []
        # the first guess is kept when the reader returns, and is listed at the end
        other.enter("numbers")
        other.enter("layers")
        assert other.page.is_checked("#scene-choices label:nth-of-type(2) input")
        assert other.page.is_disabled("#scene-choices label:nth-of-type(2) input")
        other.page.click("#scenes li:last-child button")
        assert "1 of" in other.page.inner_text("#ending-score")
        assert "✓" in other.page.inner_text("#ending-guesses tr:nth-child(11)")
        other.page.click("#ending-guesses tr:nth-child(9) button")
        other.settle()
        assert other.page.is_visible("#scene-title") and not other.page.is_visible("#ending")


def test_opening_a_question_is_not_an_act(reader: Reader) -> None:
    page = reader.page
    reader.enter("place")
    first_request = page.evaluate("requestOf(firstState(SCENES[state.scene]))")

    def go_through(question: str) -> None:
        page.evaluate("id => { clearTimeout(remember.later); openDoor({ id }); }", question)
        page.wait_for_function("id => state.ask === id", arg=question)
        reader.settle()
        page.evaluate("judge.latest")
        assert page.evaluate("shown.request") != first_request
        assert page.evaluate("state.guesses") == "" == page.inner_text("#scene-found")
        assert not page.is_visible("#scene-table") and page.is_visible("#scene-aside")

    def check_beginning() -> None:
        reader.settle()
        page.wait_for_function("() => state.ask === ''")
        page.evaluate("judge.latest")
        assert page.evaluate("shown.request") == first_request
        assert page.is_visible("#scene-wait") and not page.is_visible("#scene-aside")
        assert page.evaluate("state.guesses") == ""
        page.wait_for_function(
            "() => !location.hash.includes('ask=')"
        )  # the address is updated later

    for way_back in ("#ask-return", "#ask-close", "#ask-other", "#scene-again"):
        go_through("pad-states")
        page.click(way_back)
        check_beginning()
    go_through("512")
    page.go_back()
    page.wait_for_function("() => state.ask === ''")
    check_beginning()
    go_through("decoder")
    reader.act()
    assert page.evaluate("shown.request.text") == "The man bit the dog."
    assert page.evaluate("state.guesses").startswith("place.none.")


def test_a_narrow_window_leads_to_the_model_and_back(reader: Reader) -> None:
    reader.page.set_viewport_size({"width": 360, "height": 760})
    reader.page.evaluate("change({ language: 'ko' })")
    reader.enter(1)
    reader.page.click("#to-model")
    below = reader.page.evaluate(
        "['page', 'river'].map(id => document.getElementById(id).getBoundingClientRect())"
        ".map(({top, bottom}) => [top, bottom])"
    )
    assert abs(below[0][0] - below[1][1]) < 2 and abs(below[1][0]) < 2
    reader.page.click("#to-lesson")
    assert reader.page.is_visible("#scene-act")


def test_rows_of_a_sum_share_a_color_scale(reader: Reader) -> None:
    """In "one head", colors of weighted values have one scale. A click explains a term."""
    reader.enter("head")
    colors = reader.page.evaluate(
        """() => {
            const step = HEAD_STEPS.find(({ id }) => id === "values");
            const plan = headPlan(step);
            return step.rows().map((row, r) => [row.value(0), plan.shade(r, 0) - 0.5]);
        }"""
    )
    ratios = [shade / value for value, shade in colors[1:] if abs(value) > 1e-6]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-3)
    term = reader.page.locator("#scene-say .term", has_text="softmax")
    term.click()
    assert "sum to 1" in reader.page.inner_text("#scene-say .explained")
    term.click()
    assert reader.page.locator(".explained").count() == 0


def test_the_page_next_to_the_article(reader: Reader) -> None:
    """At 1280 x 800 the maps are visible, and they show the tokens and sentences of the page."""
    page = reader.page
    reader.enter("it")
    assert page.inner_text("#tab-attention") == "Attention"  # without a number
    assert not page.is_visible("#pin")
    for canvas in ("grid", "attention-map", "lines"):
        assert page.locator(f"#{canvas}").bounding_box()["y"] < 550
    reader.act()
    page.wait_for_function("() => patching.cells.length > 0")
    # “wide”, whose index in the page differs by one because “the” is missing before it
    page.evaluate("patchFigure.plan().move(13, 0)")
    assert page.evaluate("tokens[state.token].piece") == "wide"
    # enter the next scene during a measurement
    page.evaluate("enter(6), judge(SCENES[6])")
    reader.settle()
    reader.enter("sentence")
    rows = reader.act()
    cosines = page.locator("#compare-layers tbody tr").last.locator("td").all_inner_texts()
    assert [float(cell) for cell in cosines[1:]] == pytest.approx(
        [float(row[2]) for row in rows[:2]], abs=6e-3
    )
    assert page.evaluate("sentenceMap.now.rows") == 3
    reader.open("pooler")
    page.click("#next button")
    assert page.evaluate("document.activeElement.id") == "edit-pair"
