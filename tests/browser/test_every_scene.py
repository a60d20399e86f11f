"""What holds in every scene of both articles.

A scene computes for about a second, so each article is read once: `read` walks through its scenes
and keeps what it sees, and each test asks one question about all of them. The reader acts in every
second scene of the Korean article, and of the English one in those that are not in the Korean one,
too. Half of these are looked at in full: by keyboard, with changed questions, by their roles, and
in the other language. The other scenes are only opened: what they measure is tested in Node.js, and
compared with PyTorch in tests/learn. The slow walks act in every scene of both, and look at all of
them in full.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from opened import CONTROLS, article_page, browser as browser
from test_changed_questions import TRY, check_changed, some_changes
from test_lesson import Reader
from test_live_page import check_two_meanings

from minibert.learn.build import part
from minibert.learn.lesson import article, article_texts
from minibert.study import run

pytestmark = pytest.mark.browser

ACTED, FULL = 2, 4  # scenes of which the reader acts in one, and looks at one in full
NARROW = 360  # pixels, as on a phone
OTHER_WIDTHS = (768, 1920)  # in slow tests
# Changes in scenes of each article, whose results are checked.
TRIES: dict[str, dict[str, list[dict[str, Any]]]] = {
    "en": {
        "task": [
            {"text": "The room was wonderful.", "masked": []},
            {"text": "The room was awful.", "masked": []},
        ],
    },
    "ko": {
        "pair": [{"pair": None}],
        "task": [
            {"text": "방이 아주 깨끗하고 조용했다.", "masked": []},
            {"text": "방이 아주 지저분하고 시끄러웠다.", "masked": []},
        ],
    },
}
# how the classifier of the scene "task" names the two texts above, by the reader's language
OPINIONS = {"en": ("praise", "complaint"), "ko": ("칭찬", "불평")}
KOREAN_OUTCOMES = [
    (1, "거기에 맞는 다른 단어가 됩니다"),
    (1, "“배 ##도”로 나뉘었습니다"),
    (0, "방 쪽입니다"),
    (2, "[UNK]가 3개입니다"),
    (2, "위치 벡터만 달라졌습니다"),
    (0, "어순만 바꾼 문장이 더 가깝습니다"),
    (0, "커졌습니다"),
    (1, "여전히 그 자리를 보고, 다른 밸류를 가져옵니다"),
    (1, "점수는 그대로이고 비율만 달라졌습니다"),
    (0, "레이어 0, 헤드 1"),
    (0, "레이어 2 없이 답이 그대로인 문장은 40개 중 12개"),
    (1, "같은 뜻에 더 가까운 수는 배 16, 눈 17입니다"),
    (1, "“타고”에서 “먹고”로 바뀌었습니다"),
    (1, "받침이 없으므로 “를”이어야 합니다"),
    (2, "적은 쪽입니다"),
    (1, "1위인 것은 20개 중 16개"),
    (1, "둘째 문장을 뒤섞어도 80개 중 68개"),
    (2, "뜻이 같은 쪽이 더 가까운 것은 20개 중 6개"),
    (1, "다섯 문장에 모두 같은 답을 했습니다"),
    (0, "커지고, 손실은 줄어듭니다"),
    (2, "토큰 10개 모두에 있습니다"),
    (2, "마지막 레이어로 평균 83%"),
    (0, "40개 가운데 평균 31개입니다"),
    (2, "“마지막 네 개를 이어 붙임”이 가장 낫습니다"),
    (2, "모두 한 벌을 쓸 때 40개 중 7개"),
    (0, "피드포워드를 모두 빼면 답이 그대로인 것은 40개 중 5개"),
    (2, "5120개 중 236개"),
]

# parts of visible lists of words that are not visible themselves
HIDDEN_NUMBERS = """() => [...document.querySelectorAll(".words > *")]
  .filter(item => item.parentElement.checkVisibility() && !item.checkVisibility())
  .map(item => item.outerHTML)"""
# what scrolls: the window, and visible elements that are smaller than their content
SCROLLING = """() => [document.scrollingElement, ...document.querySelectorAll("body *")]
  .filter((item, i) => {
    const { overflowX, overflowY } = getComputedStyle(item);
    const scrolls = way => i === 0 ? way !== "hidden" : /auto|scroll/.test(way);
    return item.checkVisibility() && item.id !== "river-scroll" && (
      scrolls(overflowX) && item.scrollWidth > item.clientWidth + 1 ||
      scrolls(overflowY) && item.scrollHeight > item.clientHeight + 1);
  })
  .map(item => item === document.scrollingElement ? "window" : item.outerHTML.slice(0, 80))"""
# the view before the reader acts, with the top of the title from the strip
BEFORE = f"""() => ({{
  scene: SCENES[state.scene].id,
  shared: [ENGLISH, KOREAN].every(scenes => scenes.includes(SCENES[state.scene])),
  current: document.querySelector("#scenes [aria-current]").textContent,
  focus: document.activeElement.id,
  waits: $("scene-wait").checkVisibility(),
  table: $("scene-table").checkVisibility(),
  text: $("scene").innerText,
  title: $("scene-title").getBoundingClientRect().top - $("river").offsetHeight,
  head: [state.layer, state.head],
  concerns: SCENES[state.scene].concerns ?? [],
  hidden: ({HIDDEN_NUMBERS})(),
  scrolling: ({SCROLLING})(),
  controls: ({CONTROLS})(),
}})"""
# each number of a verdict that is a button, with the cells that it lights up
LIT = """() => [...document.querySelectorAll("#scene-brief .number")].map(number => {
  number.focus();
  const lit = [...document.querySelectorAll("#scene-table td.lit")];
  return [number.textContent, lit.map(cell => cell.textContent)];
})"""
# the view after it, with the top of the prediction and the bottom of the verdict from the strip
# and the end of the window
AFTER = f"""() => {{
  const box = id => $(id).getBoundingClientRect();
  return {{
    controls: ({CONTROLS})(),
    choices: [...document.querySelectorAll("#scene-choices label")].map(item => item.offsetHeight),
    scrolling: ({SCROLLING})(),
    room: [
      box("scene-predict").top - box("river").bottom,
      innerHeight - box("scene-brief").bottom,
    ],
    lit: ({LIT})(),
  }};
}}"""
# the verdict, without the word joiners between brackets and Korean particles
VERDICT = """() => ({
  found: $("scene-found").innerText.replaceAll("\\u2060", ""),
  bold: $("scene-found").querySelector("strong").innerText.replaceAll("\\u2060", ""),
  guess: $("scene-guess").innerText,
  disabled: document.querySelectorAll("#scene-choices input:disabled").length,
  coverage: $("coverage").innerText,
})"""
NAMELESS = """() => [...$("lesson").querySelectorAll("canvas, button, input, progress")]
  .filter(e => e.offsetParent
    && !e.getAttribute("aria-label")
    && !e.textContent.trim()
    && !e.labels?.[0]?.textContent.trim()).map(e => e.outerHTML)"""
# how much wider the window and the parts of the page are than there is room, once the page has
# drawn itself for the window
OVER = """async () => {
  const drawn = () => new Promise(resolve => requestAnimationFrame(resolve));
  await drawn();
  await drawn();
  return [
    document.documentElement.scrollWidth - innerWidth,
    ...["#lesson", "#scene-verdict", "#scenes", "main", "header"]
      .map(name => document.querySelector(name))
      .map(item => item.scrollWidth - item.clientWidth),
  ];
}"""


@dataclass
class Read:
    """An article after it was read to its end, and what each scene showed."""

    reader: Reader
    file: Path
    article: str
    language: str
    scenes: list[dict[str, Any]] = field(default_factory=list)
    focus: str = ""  # the element that has it at the end

    def scene(self, name: str) -> dict[str, Any]:
        """Return what a scene showed."""
        return next(seen for seen in self.scenes if seen["scene"] == name)

    @property
    def is_foreign(self) -> bool:
        """Whether the language of the reader is not the one of the article. Such walks are slow."""
        return self.article != self.language

    @property
    def acted(self) -> list[dict[str, Any]]:
        """The scenes in which the reader predicted and acted."""
        return [seen for seen in self.scenes if "rows" in seen]


@pytest.fixture(
    scope="module",
    params=[
        ("en", "en"),
        ("ko", "ko"),
        pytest.param(("en", "ko"), marks=pytest.mark.slow),
        pytest.param(("ko", "en"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def read(browser: Any, request: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An article, in a language of its reader, that was read to its end."""
    name, language = request.param
    file = article_page(tmp_path_factory, name)
    with Reader(browser, file, scheme="dark" if name == "ko" else "light") as reader:
        # `--lang` of the command decides about the language, not the browser
        assert reader.page.get_attribute("html", "lang") == name
        reader.page.evaluate("language => change({language})", language)
        reader.page.set_default_timeout(120_000)  # ms, because scenes compute dozens of sentences
        found = Read(reader, file, name, language)
        widths = [NARROW, *(OTHER_WIDTHS if found.is_foreign else ())]
        for _ in range(reader.page.evaluate("SCENE_COUNT")):
            seen = open_scene(found)
            number = len(found.scenes)
            is_new = name == "ko" or not seen["shared"]
            if found.is_foreign or (is_new and number % ACTED == 0):
                in_full = found.is_foreign or number % FULL == 0
                act_in_scene(found, seen, widths, in_full)
            else:
                look_at_widths(found, seen, [NARROW])
            found.scenes.append(seen)
            reader.page.set_viewport_size({"width": 1280, "height": 800})
            reader.page.focus("#scene-next")
            reader.press("Enter")
        found.focus = reader.page.evaluate("document.activeElement.id")
        yield found


def open_scene(read: Read) -> dict[str, Any]:
    """Return what the scene that was opened last shows before the reader acts."""
    read.reader.settle()
    read.reader.page.wait_for_function("document.activeElement.id === 'scene-title'")
    return {**read.reader.page.evaluate(BEFORE), "over": {}}


def look_at_widths(read: Read, seen: dict[str, Any], widths: list[int]) -> None:
    """Add to `seen` how much wider than its window a scene is."""
    for width in widths:
        read.reader.page.set_viewport_size({"width": width, "height": 760})
        seen["over"][width, read.language] = read.reader.page.evaluate(OVER)


def act_in_scene(read: Read, seen: dict[str, Any], widths: list[int], in_full: bool) -> None:
    """Act in the scene that is open, and add to `seen` what it shows then."""
    reader, page = read.reader, read.reader.page
    if in_full:
        reader.press_act_by_keyboard()
    else:
        reader.click("#scene-choices input")
        reader.click("#scene-act")
    page.wait_for_function("() => document.activeElement.id === 'scene-result'")
    page.wait_for_function("() => $('scene-brief').textContent")
    after = page.evaluate(AFTER)
    for name in ("controls", "scrolling"):
        seen[name] = [seen[name], after.pop(name)]
    seen |= after
    seen["rows"] = reader.verdict()
    seen["verdicts"] = {read.language: page.evaluate(VERDICT)}
    seen["outcome"] = reader.outcome
    number = len(read.scenes)
    seen["tries"] = some_changes(read.article, number, seen["concerns"]) if in_full else []
    seen["tries"] += TRIES[read.article].get(seen["scene"], [])
    seen["changed"] = page.evaluate(TRY, seen["tries"])
    if in_full:
        page.evaluate("change({explore: 'yes'})")
        seen["roles"] = roles(reader)
        seen["over"][1280, read.language] = page.evaluate(OVER)
    look_at_widths(read, seen, widths)
    # the other walk sees what both articles have
    if read.is_foreign or (in_full and not seen["shared"]):
        other = "ko" if read.language == "en" else "en"
        page.evaluate("language => change({language})", other)
        reader.verdict()
        seen["verdicts"][other] = page.evaluate(VERDICT)
        seen["over"][widths[-1], other] = page.evaluate(OVER)
    page.evaluate("language => change({language, explore: ''})", read.language)
    reader.settle()
    page.evaluate("judged()")


def roles(reader: Reader) -> dict[str, Any]:
    """Return what a screen reader finds in a scene: each part as (role, name, state)."""

    def parts(selector: str) -> list[tuple[str, str, str]]:
        said = reader.page.locator(selector).aria_snapshot()
        lines = said.replace("\u2060", "").replace("''", "'").splitlines()
        found = [re.match(r'\s*- \'?(\w+)(?: "((?:[^"\\]|\\.)*)")?(.*)', line) for line in lines]
        return [(part[1], part[2] or "", part[3]) for part in found if part]

    has_map = reader.page.is_visible("#scene-map")  # first: it may appear while it is measured
    return {
        "lesson": parts("#lesson"),
        "verdict": parts("#scene-verdict[aria-live=polite]"),
        "ask": reader.page.inner_text("#scene-ask").replace("\u2060", ""),
        "has map": has_map,
        "tabindex of the map": reader.page.get_attribute("#scene-map", "tabindex"),
        "nameless": reader.page.evaluate(NAMELESS),
    }


def test_a_scene_begins_with_its_title_and_without_a_verdict(read: Read) -> None:
    assert len(read.scenes) == read.reader.page.evaluate("SCENE_COUNT") > 15
    for number, seen in enumerate(read.scenes, 1):
        assert seen["current"] == str(number), seen["scene"]
        assert seen["focus"] == "scene-title" and seen["title"] >= 0, seen["scene"]
        assert seen["waits"] and not seen["table"], seen["scene"]
        assert "lesson." not in seen["text"], seen["scene"]  # a text is missing
        assert seen["hidden"] == [], seen["scene"]


def test_a_scene_has_five_controls_and_one_view(read: Read) -> None:
    """The prediction, the act and the verdict fit the window together."""
    for seen in read.acted:
        for controls in seen["controls"]:  # before and after the act
            assert 3 <= len(controls) <= 5, (seen["scene"], controls)
            assert all(min(sizes) >= 24 for _, *sizes in controls), (seen["scene"], controls)
        assert min(seen["choices"]) >= 24, seen["scene"]
        assert min(seen["room"]) >= -1, (seen["scene"], seen["room"])
        for scrolling in seen["scrolling"]:
            assert set(scrolling) <= {"window"}, seen["scene"]


def test_a_number_of_a_verdict_lights_up_its_cells(read: Read) -> None:
    for seen in read.acted:
        for number, lit in seen["lit"]:
            assert lit and all(number in cell for cell in lit), (seen["scene"], number)


def test_every_scene_has_a_verdict_of_its_own(read: Read) -> None:
    for seen in read.acted:
        rows = seen["rows"]
        assert rows and all(len(row) >= 3 and row[0] and row[-1] for row in rows), seen["scene"]
        for language, verdict in seen["verdicts"].items():
            found = verdict["found"]
            if language == "ko":
                assert "가" <= max(found), seen["scene"]
            else:
                assert max(found) < "가" or read.article == "ko", seen["scene"]
            assert len(found) > 40 and "{" not in found and "undefined" not in found, seen["scene"]
            assert not re.search(r"\((는|가|를|와|으)\)", found), seen["scene"]
            # the verdict begins in bold, and the guess cannot be changed
            assert found.startswith(verdict["bold"]) and verdict["bold"], seen["scene"]
            assert verdict["disabled"] >= 2, seen["scene"]
            is_correct = "맞았" in verdict["guess"] or "predicted it" in verdict["guess"]
            assert is_correct == (seen["outcome"] == 0), seen["scene"]
    assert len({seen["verdicts"][read.language]["found"] for seen in read.acted}) == len(read.acted)


def test_a_changed_question_has_no_verdict(read: Read) -> None:
    for seen in read.acted:
        check_changed(seen["scene"], read.language, seen["tries"], *seen["changed"])


def test_the_loss_is_the_logarithm_of_the_probability_shown(read: Read) -> None:
    seen = read.scene("step")
    for column in (1, 2) if "rows" in seen else ():
        probability, loss = (float(row[column]) for row in seen["rows"][1:3])
        assert -math.log(probability) == pytest.approx(loss, abs=6e-3)


def test_outcomes_of_the_korean_article(read: Read) -> None:
    if read.article == "en":
        pytest.skip("outcomes of the English article are recorded in tests/page")
    assert len(read.scenes) == len(KOREAN_OUTCOMES)
    for number, (seen, (outcome, words)) in enumerate(
        zip(read.scenes, KOREAN_OUTCOMES, strict=True)
    ):
        if "rows" not in seen:
            continue  # not acted in
        assert seen["outcome"] == outcome, (seen["scene"], seen["rows"])
        assert words in seen["verdicts"]["ko"]["found"], seen["scene"]
        assert all(len(row) == 3 and row[2] for row in seen["rows"]), seen["scene"]
        # the page warns only in the scene with decomposed Hangul, which the model does not know
        verdict = seen["verdicts"][read.language]
        assert bool(verdict["coverage"]) == (number == 3), seen["scene"]


def test_a_screen_reader_finds_the_parts_of_every_scene(read: Read) -> None:
    texts = article(read.article)["lesson"]["texts"]
    words = {key: both[read.language] for key, both in texts.items()}
    titles = [f"{i}. {words[seen['scene'] + '.title']}" for i, seen in enumerate(read.scenes, 1)]
    for title, seen in zip(titles, read.scenes, strict=True):
        if "roles" not in seen:
            continue
        found = seen["roles"]
        names: dict[str, list[str]] = {}
        for role, name, state in found["lesson"]:
            level = re.sub(r"\D", "", state) if role == "heading" else ""
            names.setdefault(role + level, []).append(name)
        assert names["article"] == [words["title"]], seen["scene"]
        assert words["scenes"] in names["navigation"], seen["scene"]
        assert names["button"][: len(titles) + 1] == [*titles, words["end.title"]], seen["scene"]
        assert names["heading2"] == [title], seen["scene"]
        headings = [words[part] for part in ("predict", "act", "verdict")]
        assert names["heading3"] == headings, seen["scene"]
        assert found["ask"] in names["group"] and len(names["radio"]) >= 2, seen["scene"]
        kinds = [role for role, *_ in found["verdict"]]
        assert kinds.count("rowheader") == len(seen["rows"]), seen["scene"]
        assert kinds.count("columnheader") >= 2, seen["scene"]
        if found["has map"]:
            assert words["map"] in names["application"], seen["scene"]
            assert found["tabindex of the map"] == "0", seen["scene"]
        assert found["nameless"] == [], seen["scene"]
    # in the English article, the maps of these scenes may still be measured
    has_map = [seen["roles"]["has map"] for seen in read.scenes if "roles" in seen]
    assert read.article == "en" or any(has_map)


def test_nothing_is_wider_than_the_window(read: Read) -> None:
    for seen in read.scenes:
        for window, over in seen["over"].items():
            assert max(over) <= 0, (seen["scene"], window, over)


def test_the_end_counts_the_predictions(read: Read) -> None:
    page = read.reader.page
    assert read.focus == "ending-title"
    score = page.inner_text("#ending-score")
    correct = sum(seen["outcome"] == 0 for seen in read.acted)
    assert str(len(read.acted)) in score and str(correct) in score
    assert page.locator("#ending-guesses tr").count() == len(read.scenes)
    assert page.locator("#ending ol li").count() == page.locator("#ending ul li").count() == 5
    page.set_viewport_size({"width": NARROW, "height": 760})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.fixture
def english(read: Read) -> Read:
    """The English article in English."""
    if read.article != "en" or read.is_foreign:
        pytest.skip("is about the English article")
    return read


def test_a_pair_without_its_second_text_is_a_changed_question(read: Read) -> None:
    seen = read.scene("pair")
    if "rows" not in seen:
        pytest.skip("is seen in the Korean article, and in a slow walk")
    alone = next(
        own for own, tried in zip(seen["changed"][1], seen["tries"], strict=True) if "pair" in tried
    )
    said = article_texts(read.article)["part.pair"][read.language]
    assert alone["rows"][-1][2] == "–" and said in alone["verdict"]


def test_a_classifier_is_trained_on_the_page(read: Read) -> None:
    seen = read.scene("task")
    if "rows" not in seen:
        pytest.skip("one is trained in the Korean article, and in a slow walk")
    most = [i for i, row in enumerate(seen["rows"]) if "60" in row[0]][0]  # of 60 sentences
    assert len(seen["rows"]) == 6 and int(seen["rows"][most][1].split("%")[0]) >= 80
    for own, name in zip(seen["changed"][1][-2:], OPINIONS[read.language], strict=True):
        assert own["rows"][most][2].startswith(name)


@pytest.mark.parametrize(
    ("language", "text", "pair", "says"),
    [
        (
            "ko",
            "나는 어제 친구와 함께 바다에 갔다.",
            "물이 차가웠지만 즐거웠다.",
            "믿기 어렵습니다",
        ),
        ("en", "The old man sat by the river.", "He watched the water go by.", "얼마나 믿을"),
    ],
)
def test_next_sentence_prediction_says_how_reliable_it_is(
    read: Read, language: str, text: str, pair: str, says: str
) -> None:
    """minibert-ko predicts that any sentence follows, and minibert-en does not."""
    if read.article != language:
        pytest.skip("is said in the other article")
    page = read.reader.page
    page.evaluate(
        "([text, pair]) => ask({ text, pair, masked: [], section: 'pooler', language: 'ko' })",
        [text, pair],
    )
    read.reader.settle()
    page.wait_for_function("says => $('next').textContent.includes(says)", arg=says)


def test_shipped_vectors_are_used_and_right(english: Read) -> None:
    far = english.reader.page.evaluate("""async () => {
        const shipped = await shippedVectors();
        const text = questions[40].en.question;
        const distances = [await vectorOf(text), await computedVector(text)].map((vector) =>
            Math.max(...vector.map((value, c) => Math.abs(value - shipped.get(text)[c]))));
        return [shipped.size > 1000, ...distances];
    }""")
    scale = json.loads(part("ask/vectors.json"))["en"]["scale"]
    assert far[:2] == [True, 0] and 0 < far[2] < 0.6 * scale


def test_reading_makes_no_request_and_no_error(read: Read) -> None:
    assert read.file.stat().st_size < 23e6
    assert read.reader.trouble == [] and read.reader.asked_nothing


@pytest.fixture
def korean(read: Read) -> Iterator[Reader]:
    """The Korean article, after it was read."""
    if read.article != "ko":
        pytest.skip("is about Korean")
    read.reader.again()
    yield read.reader
    assert read.reader.trouble == []


def test_particles_of_a_changed_sentence(korean: Reader) -> None:
    """tests/page/korean.test.js has the forms of particles after numbers and names."""
    korean.enter("batchim")
    rows = korean.write("나는 사과[MASK] 읽었다.")
    assert korean.page.inner_text("#scene-found").startswith("질문이 달라졌습니다")
    shares = {row[0]: float(row[2]) for row in rows if row[0] in ("##을", "##를")}
    assert shares["##를"] > shares["##을"]


def test_the_example_of_two_meanings_is_korean(korean: Reader) -> None:
    check_two_meanings(korean, "배를")


def test_the_other_language_and_the_other_scenes_are_in_sight(korean: Reader) -> None:
    page = korean.page
    assert "minibert learn --lang en" in page.inner_text("#other-scenes")
    page.click("#other-language")
    assert page.get_attribute("html", "lang") == "en"
    assert page.inner_text("#other-language") == "한국어로 읽기"
    page.click("#other-language")
    assert page.get_attribute("html", "lang") == "ko"


@pytest.mark.slow
def test_korean_verdicts_are_those_of_python(browser: Any, tmp_path_factory: Any) -> None:
    """Cosines of sentences and predictions of [MASK] are those of PyTorch."""

    def mean(text: str) -> torch.Tensor:
        return run("minibert-ko", text, rounded=True)["layer.4.output"][0].mean(0)

    texts = ("개가 사람을 물었다.", "사람을 개가 물었다.", "사람이 개를 물었다.")
    plain, order, particles = (mean(text) for text in texts)
    alike = [torch.cosine_similarity(plain, other, dim=0).item() for other in (order, particles)]
    assert alike == pytest.approx([0.990, 0.947], abs=2e-3)
    with Reader(browser, article_page(tmp_path_factory, "ko")) as reader:
        reader.enter("order")
        rows = reader.act()
        assert [float(row[2]) for row in rows[:2]] == pytest.approx(alike, abs=6e-3)
        reader.enter("batchim")
        rows = reader.act()
        logits = run("minibert-ko", "나는 뙤[MASK] 읽었다.", rounded=True)["mlm.logits"][0, 3]
        ids = [reader.page.evaluate(f"live.tokenizer.ids.get('{row[0]}')") for row in rows[:2]]
        shares = logits.softmax(-1)[ids].tolist()
        assert [float(row[2]) for row in rows[:2]] == pytest.approx(shares, abs=6e-3)
