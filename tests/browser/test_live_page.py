"""The live model of the page in a browser, where Python prints every value that it shows."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from opened import NAMES, SECTIONS, Opened, article_page, browser as browser, opened as opened
from page_warning import page_warning

import minibert
from minibert.learn import build as page_build, live
from minibert.learn.build import page_data, render, run, write_page
from minibert.study import carriers

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("english") / "page.html"
    write_page(path, "minibert-tiny", "Paris is the [MASK] of France.")
    return path


@pytest.fixture(scope="module")
def once(browser: Any, english: Path) -> Iterator[Opened]:
    with Opened(browser, english) as opened:
        yield opened
        assert opened.trouble == [] and opened.asked_nothing


@pytest.fixture(
    scope="module",
    params=[
        "minibert-tiny",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("minibert-en", "minibert-ko")),
    ],
)
def named(
    browser: Any, request: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Opened]]:
    """A model and its page."""
    if request.param == "minibert-tiny":
        yield request.param, request.getfixturevalue("once")
        return
    path = tmp_path_factory.mktemp("named") / "page.html"
    write_page(path, request.param, "Paris is the [MASK] of France.")
    with Opened(browser, path) as opened:
        yield request.param, opened
        assert opened.trouble == [] and opened.asked_nothing


def test_attention_of_one_side_has_its_line_of_python(opened: Opened) -> None:
    """tests/learn/test_page_model.py compares the values with those of PyTorch."""
    opened.again("#section=attention&text=Paris%20is%20large.&sides=left")
    assert opened.page.evaluate("shown.request.sides") == "left"
    line = opened.page.evaluate("stepPython('layer.1.attention.masked_scores', 0, 3, 4)")
    assert 'sides="left"' in line
    value = opened.page.evaluate("numbers('layer.1.attention.masked_scores').at(0, 3, 4)")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(line, {})
    assert float(printed.getvalue()) < -1e30 and value < -1e30
    assert opened.trouble == []


def test_editing_masking_and_switching_off_redraw(opened: Opened) -> None:
    opened.page.fill("#edit", "The cat sat on the mat.")
    opened.settle()
    assert (
        opened.page.inner_text("#tokens").split() == "[CLS] the cat sat on the mat . [SEP]".split()
    )
    opened.page.click("#token-2")
    opened.page.click("#mask")
    opened.settle()
    assert opened.page.inner_text("#token-2") == "[MASK]"
    opened.open("attention")
    before = opened.page.evaluate("stageValue(1, 0, 2, 3)")
    opened.page.evaluate("chooseHead(0, 1)")
    opened.page.click("#off-head")
    opened.settle()
    assert opened.page.evaluate("stageValue(1, 0, 2, 3)") != before
    assert opened.page.evaluate("stageValue(0, 1, 2, 3)") == 0
    opened.open("predictions")
    opened.page.wait_for_function("() => shown.lens[0]")
    best = opened.page.inner_text("#lens-2-2")
    model, tokenizer = page_build.load_page_model("minibert-tiny")
    t, _ = live.compute(
        live.rounded(model), tokenizer, "The cat sat on the mat.", masked=[2], off=[(0, 1)]
    )
    assert best == tokenizer.convert_ids_to_tokens(t["mlm.logits"][0, 2].argmax().item())

    opened.open("text")
    opened.page.fill("#edit", "word " * 200)
    opened.page.wait_for_function("() => document.getElementById('trouble').textContent")
    assert (
        opened.page.inner_text("#trouble")
        == "The text has 202 tokens, and the page shows up to 128: shorten it."
    )
    # comparing it fails, too, and is not tried for ever, also with a second text that is too long
    opened.open("compare")
    for tokens in (202, 142):
        opened.page.wait_for_function(
            "said => document.getElementById('compare-trouble').textContent.startsWith(said)",
            arg=f"The text has {tokens} tokens",
        )
        opened.page.fill("#compare-text", "word " * 140)
        opened.page.evaluate("ask({ text: 'so it is' })")
    opened.page.fill("#compare-text", "")
    opened.open("text")
    opened.page.fill("#edit", "")
    opened.settle()
    assert opened.page.inner_text("#tokens").split() == ["[CLS]", "[SEP]"]
    for section in ("attention", "head", "hidden", "predictions"):
        opened.open(section)
    assert opened.trouble == []


# Text and line of Python of every cell, as JSON. The rows that an animation does not show yet are
# left out.
CELLS = """() => {
  const cells = [];
  for (const map of HeatMap.all.values()) {
    if (!map.canvas.offsetParent) continue;
    const now = map.plan();
    for (let r = 0; r < now.rows; r++) {
      for (let c = 0; c < now.cols; c++) cells.push([now.describe(r, c), now.python(r, c)]);
      if (!now.describe(r, 0)) cells.splice(-now.cols);
    }
  }
  return JSON.stringify(cells);
}"""


@pytest.mark.parametrize("edited", [pytest.param(False, marks=pytest.mark.slow), True])
def test_every_number_of_one_head_is_what_its_copied_line_prints(
    named: tuple[str, Opened], edited: bool
) -> None:
    """The copied line of every cell prints the value that the page shows."""
    name, opened = named
    opened.again()
    query, key = (4, 8) if edited else (1, 2)
    config = minibert.BertConfig.from_pretrained(name)
    answers: dict[str, Any] = {}
    namespaces: dict[str, dict[str, Any]] = {}

    # every line loads a model and runs it, so the results are cached
    def run_once(*arguments: Any, **options: Any) -> Any:
        key = repr((arguments, options))
        if key not in answers:
            answers[key] = run(*arguments, **options)
        return answers[key]

    if edited:
        opened.page.fill("#edit", "The cat sat on the mat.")
        opened.settle()
    opened.open("head")
    checked = 0
    heads = list(product(range(config.num_hidden_layers), range(config.num_attention_heads)))
    if name == "minibert-tiny":
        heads = [(0, 0), (1, 1)]  # the slow tests read all heads of the larger models
    for layer, head in heads:
        opened.page.evaluate(
            f"change({{layer: {layer}, head: {head}, token: {query}, key: {key},"
            f" step: {(layer + head) % 7}}})"
        )
        for says, line in json.loads(opened.page.evaluate(CELLS)):
            prelude, expression = line.split("; print(")
            prelude = prelude.removeprefix("from minibert.study import run; ")
            if prelude not in namespaces:
                namespaces[prelude] = {"run": run_once}
                exec(prelude, namespaces[prelude])
            printed = eval(expression.removesuffix(")"), namespaces[prelude])
            shown = float(says.split(": ")[-1])
            expected = pytest.approx(float(printed), abs=1.01e-4, rel=1e-6)
            assert shown == expected, (says, line)
            checked += 1
    assert checked > 2500 * len(heads) and len(answers) == 1
    assert ("rounded" in next(iter(answers))) == edited


SECTION_MAPS = {
    "embeddings": ["embeddings-map"],
    "attention": ["attention-map"],
    "hidden": ["hidden-map", "moved-map"],
    "compare": ["compare-map"],
    "pooler": ["pooler-map"],
}


def test_copied_lines_of_every_section_print_the_number(opened: Opened) -> None:
    """Each line is executed in a namespace of its own."""
    generator = random.Random(1)
    lines = []
    address = "#section=compare&text=Paris+is+the+[MASK]+of+France.&other=so+is+it"
    opened.again(address)
    for section, maps in SECTION_MAPS.items():
        opened.open(section)
        for stage in ("scores", "probabilities", "rollout") if section == "attention" else ("",):
            if stage:
                opened.page.click(f"[data-stage={stage}]")
            for name in maps:
                heat_map = f"HeatMap.all.get('{name}').now"
                rows, cols = opened.page.evaluate(f"[{heat_map}.rows, {heat_map}.cols]")
                for _ in range(2):
                    at = f"{generator.randrange(rows)}, {generator.randrange(cols)}"
                    lines.append(
                        opened.page.evaluate(
                            f"[{heat_map}.describe({at}), {heat_map}.python({at})]"
                        )
                    )
    opened.open("predictions")
    opened.page.click("#lens-4-2")
    lines.append((opened.readout, opened.copied))
    opened.open("attention")
    opened.page.evaluate("pattern(1, 0).name ??= 'even'; chooseHead(1, 0)")
    lines.append((opened.readout, opened.copied))
    opened.page.click("#token-3")
    lines.append((opened.readout, opened.copied))
    for says, line in lines:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(line, {})
        assert float(says.split()[-1]) == pytest.approx(float(printed.getvalue()), abs=1.01e-4), (
            says,
            line,
        )


def test_a_model_that_is_too_large_for_the_page_is_a_photograph(
    browser: Any, tmp_path: Path, minilm: str
) -> None:
    tokenizer = minibert.BertTokenizer.from_pretrained(minilm)
    with Opened(
        browser,
        write(tmp_path, minibert.BertModel.from_pretrained(minilm), tokenizer, "I love Korea"),
    ) as opened:
        assert opened.page.evaluate("live") is None and not opened.page.is_visible("#edit")
        assert "photograph" in opened.page.inner_text("#source-say")
        with pytest.raises(Exception, match="This page is a photograph: its model is too large"):
            opened.run("x")
        opened.open("head")
        assert opened.page.is_visible("#head-qk")
        assert opened.trouble == []


def write(folder: Path, model: Any, tokenizer: Any, text: str) -> Path:
    data = page_data(model, tokenizer, text)
    path = folder / "page.html"
    path.write_text(render({"name": "m", "source": "m", **data}), encoding="utf-8")
    return path


@pytest.mark.slow
def test_speed_of_an_edit(browser: Any, tmp_path: Path) -> None:
    """Print the times with minibert-en and 15 tokens, whose goals are 300 and 50 ms.

    The limits are far above the goals, so that a busy machine does not fail the test.
    """
    path = tmp_path / "page.html"
    text = "the old man sat on the bank of the river and ate"
    write_page(path, "minibert-en", text)
    with Opened(browser, path) as opened:
        times, longest = opened.page.evaluate(EDITS, text)
        assert opened.page.evaluate("count") == 15
    times.sort()
    median = times[len(times) // 2]
    print(f"edit to redraw {median:.0f} ms, at most {times[-1]:.0f}, page blocked {longest:.0f}")
    assert median < 1000 and longest < 500


EDITS = """async (text) => {
  change({section: "attention"});
  let last = performance.now();
  let longest = 0; // the longest time for which the page was blocked
  const times = [];
  const beat = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }, 4);
  for (let i = 0; i < 24; i++) {
    const start = performance.now();
    ask({text: text + (i % 2 ? " ." : " !")});
    while (running) await new Promise((done) => setTimeout(done, 1));
    await new Promise((done) => requestAnimationFrame(done));
    times.push(performance.now() - start);
  }
  clearInterval(beat);
  return [times, longest];
}"""


def test_values_that_are_too_large_for_the_file_are_computed_at_opening(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # minibert-en reaches the limit with about thirty tokens
    monkeypatch.setattr(page_build, "MAX_LIVE_DETAILS", 0)
    path = tmp_path / "page.html"
    write_page(path, "minibert-tiny", "Paris is the [MASK] of France.")
    with Opened(browser, path, address="#section=attention") as opened:
        assert opened.page.evaluate("[photograph.live, count, page.arrays.table.length]") == [
            True,
            9,
            0,
        ]
        for section in SECTIONS:
            opened.open(section)
        opened.page.wait_for_function("() => shown.lens[0]")
        assert opened.trouble == []


def check_two_meanings(opened: Opened, word: str) -> None:
    """The example of two meanings is in the model's language."""
    for language in ("en", "ko"):
        opened.again(f"#language={language}&text=so+it+is")
        opened.open("compare")
        assert word[0] in opened.page.inner_text("#compare-example")
        opened.page.click("#compare-example")
        opened.page.wait_for_function(
            "() => document.getElementById('compare-caption')"
            f".textContent.split('“{word}”').length === 3"
        )


def test_the_example_of_two_meanings_is_in_the_models_language(opened: Opened) -> None:
    check_two_meanings(opened, "bank")


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_text_in_an_unknown_script_is_reported(opened: Opened, language: str) -> None:
    """The page shows its warning, also in Korean with the same numbers."""
    tokenizer = minibert.BertTokenizer.from_pretrained("minibert-tiny")
    texts = [
        "나는 한국을 사랑합니다.",
        "🎉🎉🎉 🎊",
        "北京欢迎你们大家",
        "Привет, как твои дела сегодня?",
        "Café naïve",
        "I love Korea",
        "나",
    ]
    opened.again(f"#language={language}")
    for text in texts:
        opened.page.fill("#edit", text)
        opened.settle()
        warning = opened.page.inner_text("#coverage")
        expected = page_warning(tokenizer, text)
        if language == "en":
            assert warning == expected + " Try --model minibert-ko." * ("Hangul" in expected)
        else:
            numbers = sorted(re.findall(r"\d+", warning))
            assert numbers == sorted(re.findall(r"\d+", expected))
            assert "pieces" not in warning
            assert ("minibert-ko" in warning) == ("Hangul" in expected)
    opened.page.fill("#edit-pair", texts[0])
    opened.settle()
    assert ("한글" if language == "ko" else "Hangul") in opened.page.inner_text("#coverage")


def cut(opened: Opened, box: str, store: str, presses: int = 1) -> dict[str, Any]:
    """Press both buttons of a panel, the second one several times, and return what was measured."""
    opened.page.wait_for_selector(f"#{box}:not([hidden])")
    opened.page.click(f"#{box} .acts button:nth-child(1)")
    opened.page.wait_for_function(f"() => {store}.wire.cut")
    for press in range(1, presses + 1):
        opened.page.click(f"#{box} .acts button:nth-child(2)")
        opened.page.wait_for_function(
            f"() => {store}.wire.draws.length === {20 * press} && !{store}.wire.running"
        )
    result: dict[str, Any] = opened.page.evaluate(
        f"(({{wire, cells, plain, word}}) => ({{wire, cells, plain, word}}))({store})"
    )
    return result


def check_against_python(name: str, texts: list[str], result: dict[str, Any], place: int) -> Any:
    """Compare the map, the heads, the ablation and two random draws of the page with Python.

    Args:
        name: The model.
        texts: Both texts.
        result: The return value of `cut`.
        place: Index of the token that the model predicts.

    Returns:
        The results of Python.
    """
    tokenizer = minibert.BertTokenizer.from_pretrained(name)
    model = live.rounded(minibert.BertForMaskedLM.from_pretrained(name)).eval()
    count = len(result["wire"]["heads"])
    expected = carriers(model, tokenizer, *texts, heads=count, controls=2)
    for row, cells in zip(expected.effect.tolist(), result["cells"], strict=True):
        assert cells == pytest.approx(row, abs=2e-4)
    wire = result["wire"]
    assert (wire["place"], wire["layer"]) == (expected.position, expected.layer)
    assert [(head["layer"], head["head"]) for head in wire["heads"]] == expected.heads
    weights = [head["weight"] for head in wire["heads"]]
    assert weights == pytest.approx(expected.attention, abs=2e-4)
    assert (result["word"], wire["cut"]["word"]) == (expected.first.text, expected.cut.text)
    assert wire["cut"]["best"] == pytest.approx(expected.cut.probability, abs=2e-4)
    for draw in wire["draws"][:2]:
        t = run(name, texts[1], off=draw["heads"], rounded=True)
        best = t["mlm.logits"][0, place, : len(tokenizer)].softmax(-1).max(dim=-1)
        assert draw["word"] == tokenizer.convert_ids_to_tokens(int(best.indices))
        assert draw["best"] == pytest.approx(best.values.item(), abs=2e-4)
        assert not {tuple(head) for head in draw["heads"]} & set(expected.heads)
    return expected


def test_heads_that_carry_the_difference_of_two_texts(opened: Opened) -> None:
    opened.again("#section=compare&text=The+cat+sat+on+the+mat.")
    assert not opened.page.is_visible("#follow")
    opened.page.fill("#compare-text", "The cat sat on it.")
    opened.page.wait_for_function(
        "() => comparison.texts && document.getElementById('follow').disabled"
    )
    opened.page.fill("#compare-text", "The dog sat on the mat.")
    opened.page.wait_for_selector("#follow:enabled")
    opened.page.click("#token-3")  # a token that both texts share, which the model has to guess
    opened.page.click("#follow")
    result = cut(opened, "compare-wire", "compareWire.map()")
    texts = [f"The {animal} [MASK] on the mat." for animal in ("cat", "dog")]
    assert all(literal in opened.copied for literal in texts)
    check_against_python("minibert-tiny", texts, result, place=3)
    assert opened.page.locator("#compare-wire tbody tr").count() == 3
    for language, word in (("en", "heads"), ("ko", "헤드")):
        opened.page.click(f"header button[data-language={language}]")
        text = opened.page.inner_text("#compare-wire")
        assert word in text
        assert not any(error in text for error in ("undefined", "{", "NaN"))
    opened.page.click("#token-5")  # another question
    assert not opened.page.is_visible("#compare-wire")


@pytest.mark.slow
def test_scene_six_ends_at_the_heads_that_carry_it(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without five heads the answer changes from road to animal.

    Of a hundred random sets of five other heads, at most five sets change the answer.
    """
    with Opened(browser, article_page(tmp_path_factory, "en")) as opened:
        opened.page.set_default_timeout(300_000)  # ms
        opened.explore()
        opened.page.click("#scene-6")
        opened.settle()
        opened.page.click("#scene-act")
        result = cut(opened, "scene-wire", "patching", presses=5)
        said = opened.page.inner_text("#scene-wire")
        assert "These heads carry it" in said and opened.trouble == []
    texts = [
        f"The animal did not cross the street because the [MASK] was too {word}."
        for word in ("tired", "wide")
    ]
    expected = check_against_python("minibert-en", texts, result, place=10)
    assert set(expected.heads) == {(2, 1), (2, 3), (4, 7), (4, 3), (3, 5)}
    assert (expected.second.text, expected.cut.text) == ("road", "animal")
    assert len(result["wire"]["draws"]) == 100
    assert sum(draw["word"] != "road" for draw in result["wire"]["draws"]) <= 5


def test_a_page_works_in_the_frame_of_a_notebook(browser: Any, tmp_path: Path) -> None:
    """The page works in a sandboxed frame, without storage, clipboard and address."""
    model, tokenizer = page_build.load_page_model("minibert-tiny")
    frame = page_build.show(model, tokenizer, "Paris is the [MASK] of France.")._repr_html_()
    (tmp_path / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8"
    )
    context = browser.new_context(offline=True, locale="en-US")
    outside = context.new_page()
    trouble = []
    outside.on("pageerror", lambda error: trouble.append(str(error)))
    outside.goto((tmp_path / "notebook.html").as_uri())
    inside = next(frame for frame in outside.frames if frame.parent_frame)
    inside.wait_for_selector("html[data-ready]")
    inside.evaluate(NAMES)
    found = inside.evaluate("minibert.run('I love Korea')")
    assert found["tokens"] == ["[CLS]", "i", "love", "korea", "[SEP]"]
    inside.fill("#edit", "so it is")
    # by keyboard, because a click waits for frames, which are rare inside a frame
    inside.press("#tab-attention", "Enter")
    inside.wait_for_function("() => shown.live && count === 5")
    inside.press("#attention-map", "ArrowRight")
    inside.press("#copy", "Enter")
    inside.wait_for_function("() => document.getElementById('copy').textContent === 'Copied'")
    assert trouble == []
    context.close()
