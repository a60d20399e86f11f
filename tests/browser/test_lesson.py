"""The article of `minibert learn`: scenes whose verdicts are computed when the reader acts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from opened import Opened, browser as browser, shown

from minibert import BertForPreTraining, BertTokenizer
from minibert.cli import main
from minibert.learn import live
from minibert.learn.build import load
from minibert.learn.lesson import article
from minibert.study import patching_sweep, rounded, run

pytestmark = pytest.mark.browser
# all scenes take long, and only the texts differ in Korean
KOREAN_TOO = pytest.param("ko-KR", marks=pytest.mark.slow)

BANKS = ("He walked along the bank of the river.", "She works at the bank in the city.")
ANIMAL = "The animal did not cross the street because {} was too {}."


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learn") / "learn.html"
    assert main(["learn", "--output", str(path)]) == 0
    return path


class Reader(Opened):
    """An opened article, which computes statistics on few sentences to save time."""

    def __init__(self, browser: Any, file: Path, sentences: int = 12, **options: Any) -> None:
        super().__init__(browser, file, **options)
        self.page.evaluate(f"page.lesson.sentences.length = {sentences}")

    def enter(self, scene: int | str) -> None:
        """Open a scene by its number, which counts from 1, or by its id."""
        number = scene
        if isinstance(scene, str):
            number = 1 + self.page.evaluate(
                "id => SCENES.findIndex(scene => scene.id === id)", scene
            )
        self.page.click(f"#scene-{number - 1}")
        self.settle()

    def act(self) -> list[list[str]]:
        """Press the button of the scene and return the rows of its verdict."""
        self.page.click("#scene-act")
        return self.verdict()

    def act_by_keyboard(self) -> list[list[str]]:
        """Select the first choice and press the button, starting at the title of a scene."""
        # Tab moves over terms and commands to the choices, and Space selects the first one
        self.press("Tab")
        while self.page.evaluate("document.activeElement.name") != "guess":
            assert self.page.evaluate("document.activeElement.closest('#scene-say') !== null")
            self.press("Tab")
        self.press("Space")
        assert self.page.evaluate("state.guess") == 0
        self.press("Tab")
        while self.page.evaluate("document.activeElement.id") != "scene-act":
            assert self.page.evaluate("document.activeElement.className") == "term"
            self.press("Tab")
        self.press("Enter")
        return self.verdict()

    def verdict(self) -> list[list[str]]:
        self.settle()
        self.page.wait_for_function(
            "() => !evidence.running && !SCENES[state.scene].progress?.().running"
            " && document.getElementById('scene-wait').hidden"
            " && document.getElementById('scene-table').rows.length"
        )
        self.page.evaluate("judge.latest")
        rows = self.page.locator("#scene-table tbody tr").all()
        return [row.locator("th, td").all_inner_texts() for row in rows]

    @property
    def outcome(self) -> int:
        return int(self.page.evaluate("measured(SCENES[state.scene]).then(found => found.outcome)"))

    def write(self, text: str) -> list[list[str]]:
        """Edit the text and return the rows of the new verdict."""
        self.open("text")
        self.page.fill("#edit", text)
        return self.verdict()


def shorten_crowds(reader: Reader) -> None:
    """Shorten the experiments, so that tests do not wait for all of them."""
    reader.page.evaluate(
        """() => {
            const { professions, senses, paraphrases } = page.lesson.crowds;
            professions.words.splice(3);
            senses.splice(1);
            senses[0].texts = senses[0].texts.map((own) => own.slice(0, 2));
            paraphrases.splice(2);
            hiding.most = 2;
            page.lesson.labeled.train.splice(12);
            page.lesson.labeled.test.splice(4);
        }"""
    )


@pytest.mark.parametrize("language", ["en-US", KOREAN_TOO])
def test_every_scene_by_keyboard_has_a_verdict(browser: Any, file: Path, language: str) -> None:
    assert file.stat().st_size <= 25e6
    with Reader(browser, file, language=language) as reader:
        shorten_crowds(reader)
        page = reader.page
        verdicts = set()
        scenes = page.evaluate("SCENE_COUNT")
        correct = 0
        for scene in range(1, scenes + 1):
            reader.settle()
            assert page.locator("#scenes [aria-current]").inner_text() == str(scene)
            assert page.evaluate("document.activeElement.id") == "scene-title"
            assert page.is_visible("#scene-wait") and not page.is_visible("#scene-table")
            rows = reader.act_by_keyboard()
            assert rows and all(len(row) >= 3 and row[0] and row[-1] for row in rows)
            verdict = page.inner_text("#scene-found")
            guess = page.inner_text("#scene-guess")
            assert len(verdict) > 40 and "{" not in verdict and "undefined" not in verdict
            assert verdict not in verdicts
            assert ("가" <= max(verdict)) == (language == "ko-KR")
            is_correct = reader.outcome == 0
            assert ("맞았" in guess or "predicted it" in guess) == is_correct
            # the verdict begins in bold, and the guess cannot be changed
            assert verdict.startswith(page.inner_text("#scene-found strong"))
            assert page.locator("#scene-choices input:disabled").count() >= 2
            correct += is_correct
            verdicts.add(verdict)
            page.focus("#scene-next")
            reader.press("Enter")
        assert page.evaluate("document.activeElement.id") == "ending-title"
        score = page.inner_text("#ending-score")
        assert str(scenes) in score and str(correct) in score
        assert page.locator("#ending-guesses tr").count() == scenes
        assert page.locator("#ending ol li").count() == page.locator("#ending ul li").count() == 5
        assert reader.trouble == [] and reader.asked_nothing


@pytest.mark.parametrize("language", ["en-US", KOREAN_TOO])
def test_a_screen_reader_finds_the_parts_of_every_scene(
    browser: Any, file: Path, language: str
) -> None:
    words = {key: texts[language[:2]] for key, texts in article()["lesson"]["texts"].items()}
    with Reader(browser, file, 2, language=language) as reader:
        shorten_crowds(reader)
        lesson = reader.page.get_by_role("article", name=words["title"], exact=True)
        steps = lesson.get_by_role("navigation", name=words["scenes"]).get_by_role("button")
        scenes = reader.page.evaluate("SCENE_COUNT")
        assert steps.count() == scenes + 1
        assert reader.page.get_attribute("html", "lang") == language[:2]
        for scene in range(1, scenes + 1):
            reader.enter(scene)
            title = lesson.get_by_role("heading", level=2).inner_text()
            assert steps.nth(scene - 1).get_attribute("aria-label") == title
            question = lesson.get_by_role(
                "group", name=reader.page.inner_text("#scene-ask"), exact=True
            )
            assert question.get_by_role("radio").count() >= 2
            headings = [part.inner_text() for part in lesson.get_by_role("heading", level=3).all()]
            assert headings == [words[part] for part in ("predict", "act", "verdict")]
            rows = reader.act()
            verdict = reader.page.locator("#scene-verdict[aria-live=polite]")
            assert verdict.get_by_role("rowheader").count() == len(rows)
            assert verdict.get_by_role("columnheader").count() >= 2
            if reader.page.is_visible("#scene-map"):
                scene_map = lesson.get_by_role("application", name=words["map"])
                assert scene_map.get_attribute("tabindex") == "0"
            nameless = lesson.locator("canvas, button, input, progress").evaluate_all(
                """all => all.filter(e => e.offsetParent
                && !e.getAttribute("aria-label")
                && !e.textContent.trim()
                && !e.labels?.[0]?.textContent.trim()).map(e => e.outerHTML)"""
            )
            assert nameless == []
        assert reader.trouble == []


def test_verdicts_are_those_of_python(browser: Any, file: Path) -> None:
    """The numbers of the verdicts are those of PyTorch with the same weights."""

    def state(t: Any, depth: int) -> torch.Tensor:
        return t["embeddings.output" if depth == 0 else f"layer.{depth - 1}.output"][0]

    with Reader(browser, file) as reader:
        reader.enter(2)
        rows = reader.act()
        a, b = (run("minibert-en", text, rounded=True) for text in BANKS)
        for column, depth in ((1, 0), (2, 6)):
            expected = torch.cosine_similarity(state(a, depth)[5], state(b, depth)[5], dim=0)
            assert float(rows[2][column]) == pytest.approx(expected.item(), abs=2e-4)
        assert float(rows[3][1]) == 1.0 and float(rows[3][2]) > float(rows[2][2])
        reader.enter(6)
        layer, head = reader.page.evaluate("[state.layer, state.head]")
        rows = reader.act()
        for place, word in enumerate(("tired", "wide"), 1):
            t = run("minibert-en", ANIMAL.format("it", word), rounded=True)
            layers = range(reader.page.evaluate("sizes.layers"))
            to_animal = torch.stack(
                [t[f"layer.{i}.attention.probabilities"][0, :, :, 2] for i in layers]
            )
            # the head in which "it" attends to "animal" more than other tokens do
            contrast = to_animal[:, :, 9] - to_animal.mean(-1)
            assert place == 2 or contrast[layer, head] == contrast.max()
            probabilities = t[f"layer.{layer}.attention.probabilities"][0, head]
            assert float(rows[0][place]) == pytest.approx(probabilities[9, 2].item(), abs=2e-4)
            assert float(rows[2][place]) == pytest.approx(
                probabilities[:, 2].mean().item(), abs=2e-4
            )
            t = run("minibert-en", ANIMAL.format("the [MASK]", word), rounded=True)
            best = t["mlm.logits"][0, 10].softmax(-1).max()
            assert rows[3][place].split()[1].rstrip(",") == shown(best, 3)
        shorten_crowds(reader)
        reader.enter("sentence")
        rows = reader.act()
        means = [
            state(run("minibert-en", text, rounded=True), 6).mean(0)
            for text in ("How old are you?", rows[1][0])
        ]
        cosine = torch.cosine_similarity(*means, dim=0).item()
        assert float(rows[1][2]) == pytest.approx(cosine, abs=2e-4)
        assert reader.trouble == []


def test_verdicts_depend_on_what_the_reader_does(browser: Any, file: Path) -> None:
    with Reader(browser, file) as reader:
        shorten_crowds(reader)
        assert reader.act()[1][2].count("##") == 3 and reader.outcome == 1
        reader.write("The cat was walking on the mat.")
        assert reader.outcome == 2 and "Nothing was split" in reader.page.inner_text("#scene-found")
        reader.write("The cat was ꙮꙮ on the mat.")
        assert reader.outcome == 0
        reader.page.click("#scene-again")
        assert reader.page.is_visible("#scene-wait")
        assert reader.page.input_value("#edit").startswith("The cat was sl")
        reader.enter(3)
        for text, outcome, sentence in (
            ("The dog bit the cat.", 3, "Nothing changed"),
            ("Yesterday the dog bit the man.", 2, "Now swap"),
            ("The man bit the dog.", 2, "who bit whom. Does it use it?"),
        ):
            rows = reader.write(text)
            assert reader.outcome == outcome
            assert sentence in reader.page.inner_text("#scene-found")
        # swapping who bit whom changes the sentence vector less than the passive does
        swapped, passive = (float(row[2]) for row in rows[4:6])
        assert 1 > swapped > passive + 0.05
        reader.enter("guess")
        for text in (
            None,
            "The king said that he was tired, for [MASK] had not slept.",
            "She washed [MASK] hands.",
        ):
            rows = reader.write(text) if text else reader.act()
            before, after = (cell.split()[0] for cell in rows[0][1:])
            assert reader.outcome == {"he": 0, "she": 1}.get(after, 2)
            is_same = "does not change the guess" in reader.page.inner_text("#scene-found")
            assert is_same == (before == after)
        reader.enter(4)
        reader.act()
        assert reader.outcome == 1
        reader.page.select_option("#head-layer", "4")  # in later layers the score changes, too
        reader.verdict()
        assert reader.outcome == 0 and reader.trouble == []


def test_a_click_patches_one_state(browser: Any, file: Path) -> None:
    with Reader(browser, file) as reader:
        reader.enter(6)
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
        printed = subprocess.run(
            [sys.executable, "-c", line], capture_output=True, encoding="utf-8", check=True
        ).stdout
        assert float(printed) == pytest.approx(cells[0][13], abs=2e-4)
        assert reader.trouble == []


def average_shares(sentences: list[str], layer: int, head: int) -> tuple[float, float]:
    """Return a head's average attention to the previous token, and that of uniform attention."""
    shares, even = [], []
    model, tokenizer = load("minibert-en")
    model = live.rounded(model)
    for sentence in sentences:
        t, _ = live.compute(model, tokenizer, sentence)
        probabilities = t[f"layer.{layer}.attention.probabilities"][0, head]
        shares.append(probabilities.diagonal(-1)[:-1].mean().item())
        even.append(1 / len(probabilities))
    return sum(shares) / len(shares), sum(even) / len(even)


def check_evidence(reader: Reader, count: int) -> None:
    reader.enter(5)
    assert reader.page.evaluate("evidence.rule") == "same"
    rows = reader.act()
    assert float(rows[0][1]) > 3 * float(rows[0][2])  # true of the single sentence only
    assert reader.outcome == 2 and "no reason to call" in reader.page.inner_text("#scene-found")
    reader.page.click("#scene-caption button:has-text('previous')")
    rows = reader.verdict()
    layer, head = reader.page.evaluate("[state.layer, state.head]")
    assert reader.outcome == 0 and "this is a pattern" in reader.page.inner_text("#scene-found")
    share, even = average_shares(article()["lesson"]["sentences"][:count], layer, head)
    print(f"{count} sentences: head {layer}.{head} to the previous token: {share:.3f}")
    print(f"uniform attention: {even:.3f}")
    assert float(rows[0][2]) == pytest.approx(share, abs=2e-4)
    assert float(rows[1][2]) == pytest.approx(even, abs=2e-4) and share > 10 * even
    heads = reader.page.evaluate("everyHead().map(head => evidenceOf(...head))")
    assert max(heads) == pytest.approx(share, abs=2e-4) and sorted(heads)[-2] < 0.5 * share


def test_many_sentences_against_chance(browser: Any, file: Path) -> None:
    assert len(article()["lesson"]["sentences"]) == 500
    with Reader(browser, file, sentences=12) as reader:
        check_evidence(reader, 12)
        reader.page.click("#scene-caption button:has-text('[CLS]')")
        assert reader.page.evaluate("evidence.rule") == "[CLS]"
        # A reader who leaves early sees a partial result, and the experiment resumes on return
        reader.page.evaluate("page.lesson.sentences.push(...page.lesson.sentences)")
        reader.enter(4)
        reader.page.wait_for_function("() => !evidence.running")
        assert reader.page.evaluate("evidence.count") == 12
        reader.page.evaluate("evidence.running = true")  # as if the first sentences took long
        reader.enter(5)
        assert reader.page.inner_text("#scene-found").startswith("So far:")
        assert "12 of 24 sentences" in reader.page.inner_text("#scene-found")
        reader.page.evaluate("evidence.running = false; drawLesson()")
        reader.page.wait_for_function("() => evidence.count === 24 && !evidence.running")
        reader.verdict()
        assert "over 24 sentences" in reader.page.inner_text("#scene-found")
        assert reader.trouble == []


@pytest.mark.slow
def test_five_hundred_sentences_against_chance(browser: Any, file: Path) -> None:
    with Reader(browser, file, sentences=500) as reader:
        reader.page.set_default_timeout(900_000)  # ms, of which an idle machine needs 30,000
        check_evidence(reader, 500)


def test_the_address_restores_a_scene(browser: Any, file: Path) -> None:
    with Reader(browser, file) as reader:
        reader.enter("layers")
        reader.page.check("#scene-choices label:nth-of-type(2) input")
        rows = reader.act()
        reader.page.wait_for_timeout(300)
        address = reader.page.url
    with Reader(browser, file, address=address[address.index("#") :]) as other:
        assert other.verdict() == rows
        assert "predicted it" in other.page.inner_text("#scene-guess") and other.trouble == []
        # the first guess is kept when the reader returns, and is listed at the end
        other.enter(6)
        other.enter("layers")
        assert other.page.is_checked("#scene-choices label:nth-of-type(2) input")
        assert other.page.is_disabled("#scene-choices label:nth-of-type(2) input")
        other.page.click("#scenes li:last-child button")
        assert "1 of" in other.page.inner_text("#ending-score")
        assert "✓" in other.page.inner_text("#ending-guesses tr:nth-child(8)")
        other.page.click("#ending-guesses tr:nth-child(8) button")
        other.settle()
        assert other.page.is_visible("#scene-title") and not other.page.is_visible("#ending")


def test_opening_a_question_is_not_an_act(browser: Any, file: Path) -> None:
    with Reader(browser, file) as reader:
        page = reader.page
        reader.enter("place")
        first_request = page.evaluate("sceneRequest(SCENES[state.scene])")

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
        assert reader.trouble == []


@pytest.mark.parametrize(
    ("width", "language", "scheme"),
    [
        (360, "ko-KR", "dark"),
        pytest.param(360, "en-US", "light", marks=pytest.mark.slow),
        pytest.param(768, "en-US", "dark", marks=pytest.mark.slow),
        pytest.param(1280, "ko-KR", "light", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_wider_than_the_window(
    browser: Any, file: Path, width: int, language: str, scheme: str
) -> None:
    with Reader(
        browser, file, 2, width=width, language=language, scheme=scheme, height=760
    ) as reader:
        shorten_crowds(reader)
        for scene in range(1, reader.page.evaluate("SCENE_COUNT") + 1):
            reader.enter(scene)
            reader.act()
            over = reader.page.evaluate(
                """() => [document.documentElement.scrollWidth - innerWidth,
                ...["#lesson", "#scene-verdict", "#scenes", "main", "header"]
                .map(name => document.querySelector(name))
                .map(item => item.scrollWidth - item.clientWidth)]"""
            )
            assert max(over) <= 0, (scene, over)
        reader.page.click("#scene-next")
        assert reader.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        reader.enter(1)
        if width < 1000:
            reader.page.click("#to-model")
            below = reader.page.evaluate(
                "['page', 'river'].map(id => document.getElementById(id).getBoundingClientRect())"
                ".map(({top, bottom}) => [top, bottom])"
            )
            assert abs(below[0][0] - below[1][1]) < 2 and abs(below[1][0]) < 2
            reader.page.click("#to-lesson")
            assert reader.page.is_visible("#scene-act")
        assert reader.trouble == []


def test_scenes_continue_with_many_sentences(browser: Any, file: Path) -> None:
    """Three scenes repeat their experiment on many sentences, with the results of Python."""
    with Reader(browser, file) as reader:
        shorten_crowds(reader)
        page = reader.page
        reader.enter("guess")
        reader.act()
        page.wait_for_function("() => professions.complete")
        assert page.locator(".ranking li").count() == 3
        for result in page.evaluate("professions.results"):
            text = f"The {result['word']} said that [MASK] was tired."
            shares = run("minibert-en", text, rounded=True)["mlm.logits"][0, 5].softmax(-1)
            ids = BertTokenizer.from_pretrained("minibert-en").convert_tokens_to_ids(["she", "he"])
            assert [result["she"], result["he"]] == pytest.approx(shares[ids].tolist(), abs=1e-4)
        reader.enter("layers")
        reader.act()
        page.wait_for_function("() => senses.complete")
        page.evaluate("judge.latest")
        texts = page.evaluate("comparisons()[0]")
        first, same, other = (
            run("minibert-en", texts[name], rounded=True)["layer.5.output"][0, 5]
            for name in ("text", "same", "other")
        )
        closer = torch.cosine_similarity(first, same, dim=0)
        expected = closer - torch.cosine_similarity(first, other, dim=0)
        assert page.evaluate("senses.results[0].at(-1)") == pytest.approx(expected.item(), abs=2e-4)
        assert page.evaluate("senses.results.length") == 4
        assert "of 4" in page.inner_text("#scene-said")
        reader.enter("sentence")
        rows = reader.act()
        page.wait_for_function("() => paraphrases.complete")
        page.evaluate("judge.latest")
        # sentences with the same words are closer in a BERT with masked language modeling only
        assert float(rows[0][3]) > float(rows[1][3]) and float(rows[0][2]) < float(rows[1][2])
        assert "plain BERT" in page.inner_text("#scene-drawn") and reader.trouble == []


@pytest.mark.slow
def test_experiments_support_the_texts_of_the_scenes(browser: Any, file: Path) -> None:
    """The complete experiments support the claims in the texts of the scenes."""
    with Reader(browser, file) as reader:
        page = reader.page
        page.set_default_timeout(600_000)  # ms
        for scene, experiment in (
            ("layers", "senses"),
            ("guess", "professions"),
            ("sentence", "paraphrases"),
        ):
            reader.enter(scene)
            reader.act()
            page.wait_for_function(f"() => {experiment}.complete")
        he = page.evaluate("professions.results.filter(({ she, he }) => he > she).length")
        assert he >= 55  # of 60 professions, as the text claims
        means = page.evaluate("sizes && [1, 6].map(h => average(senses.results.map(r => r[h])))")
        assert (
            0 < means[0] and means[0] >= means[1] / 2
        )  # the senses differ from the first layers on
        wins = page.evaluate(
            "['first', 'last', 'plain'].map(name => "
            "paraphrases.results.filter(r => r[name][1] > r[name][0]).length)"
        )
        assert wins[0] == wins[2] == 0 and 5 <= wins[1] <= 15


def test_rows_of_a_sum_share_a_color_scale(browser: Any, file: Path) -> None:
    """In "one head", colors of weighted values have one scale. A click explains a term."""
    with Reader(browser, file) as reader:
        reader.enter(4)
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
        assert reader.page.locator(".explained").count() == 0 and reader.trouble == []


def test_the_page_next_to_the_article(browser: Any, file: Path) -> None:
    """At 1280 x 800 the maps are visible, and they show the tokens and sentences of the page."""
    with Reader(browser, file, width=1280, height=800) as reader:
        page = reader.page
        reader.enter(6)
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
        shorten_crowds(reader)
        reader.enter("sentence")
        rows = reader.act()
        cosines = page.locator("#compare-layers tbody tr").last.locator("td").all_inner_texts()
        assert cosines[1:] == [row[2] for row in rows[:2]]
        assert page.evaluate("sentenceMap.now.rows") == 3
        reader.open("pooler")
        page.click("#next button")
        assert page.evaluate("document.activeElement.id") == "edit-pair" and reader.trouble == []
