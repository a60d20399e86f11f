"""Which heads carry a difference: the page shows the results of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opened import Opened, article_page, browser as browser

from minibert import BertForMaskedLM, BertTokenizer
from minibert.learn.build import write_page
from minibert.study import carriers, rounded, run

pytestmark = pytest.mark.browser

ANIMAL = "The animal did not cross the street because {} was too {}."


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wire") / "page.html"
    write_page(path, "minibert-tiny", "The cat sat on the mat.")
    return path


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
    tokenizer = BertTokenizer.from_pretrained(name)
    model = rounded(BertForMaskedLM.from_pretrained(name)).eval()
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


def test_heads_that_carry_the_difference_of_two_texts(browser: Any, file: Path) -> None:
    with Opened(browser, file) as opened:
        opened.open("compare")
        assert not opened.page.is_visible("#follow")
        opened.page.fill("#compare-text", "The cat sat on it.")
        opened.page.wait_for_function(
            "() => compared && document.getElementById('follow').disabled"
        )
        opened.page.fill("#compare-text", "The dog sat on the mat.")
        opened.page.wait_for_selector("#follow:enabled")
        opened.page.click("#token-3")  # a token that both texts share, which the model has to guess
        opened.page.click("#follow")
        result = cut(opened, "compare-wire", "following")
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
        assert not opened.page.is_visible("#compare-wire") and opened.trouble == []


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
    texts = [ANIMAL.format("the [MASK]", word) for word in ("tired", "wide")]
    expected = check_against_python("minibert-en", texts, result, place=10)
    assert set(expected.heads) == {(2, 1), (2, 3), (4, 7), (4, 3), (3, 5)}
    assert (expected.second.text, expected.cut.text) == ("road", "animal")
    assert len(result["wire"]["draws"]) == 100
    assert sum(draw["word"] != "road" for draw in result["wire"]["draws"]) <= 5
