"""The scenes of the Korean article of `minibert learn --lang ko`."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from opened import article_page, browser as browser
from test_lesson import Reader
from test_live_page import check_two_meanings

from minibert.learn.lesson import article
from minibert.study import run

pytestmark = pytest.mark.browser

NAME = "minibert-ko"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return article_page(tmp_path_factory, "ko")


def verdict_of(reader: Reader) -> str:
    """Return the verdict, without the word joiners between brackets and particles."""
    return str(reader.page.inner_text("#scene-found")).replace("\u2060", "")


def check_particles(reader: Reader) -> None:
    """The form of a particle depends on the last sound before it, also for numbers."""
    for text, expected in {
        "헤드 {x}이(가)": {"1": "헤드 1이", "2": "헤드 2가", "0": "헤드 0이"},
        "{x}(으)로": {"0.40": "0.40으로", "0.07": "0.07로", "0.15": "0.15로", "“먹고”": "“먹고”로"},
        "{x}을(를)": {"책": "책을", "“배”": "“배”를", "[MASK]": "[MASK]를", "책(0.2)": "책(0.2)을"},
        "{x}과(와) {x}은(는)": {"물": "물과 물은", "시": "시와 시는"},
    }.items():
        for value, sentence in expected.items():
            assert reader.page.evaluate("withParticles", text.replace("{x}", value)) == sentence


@pytest.fixture(scope="module")
def opened(browser: Any, file: Path) -> Iterator[Reader]:
    """The article, opened once for the tests that share it."""
    with Reader(browser, file) as reader:
        yield reader
        assert reader.trouble == []


def test_particles_follow_numbers_and_names(opened: Reader) -> None:
    check_particles(opened)
    opened.enter("batchim")
    rows = opened.write("나는 사과[MASK] 읽었다.")
    assert verdict_of(opened).startswith("질문이 달라졌습니다")
    shares = {row[0]: float(row[2]) for row in rows if row[0] in ("##을", "##를")}
    assert shares["##를"] > shares["##을"]


def test_the_example_of_two_meanings_is_korean(opened: Reader) -> None:
    check_two_meanings(opened, "배를")


@pytest.mark.slow
def test_korean_verdicts_are_those_of_python(browser: Any, file: Path) -> None:
    """Cosines of sentences and predictions of [MASK] are those of PyTorch."""

    def mean(text: str) -> torch.Tensor:
        return run(NAME, text, rounded=True)["layer.4.output"][0].mean(0)

    texts = ("개가 사람을 물었다.", "사람을 개가 물었다.", "사람이 개를 물었다.")
    plain, order, particles = (mean(text) for text in texts)
    alike = [torch.cosine_similarity(plain, other, dim=0).item() for other in (order, particles)]
    assert alike == pytest.approx([0.990, 0.947], abs=2e-3)
    with Reader(browser, file) as reader:
        reader.enter("order")
        rows = reader.act()
        assert [float(row[2]) for row in rows[:2]] == pytest.approx(alike, abs=6e-3)
        reader.enter("batchim")
        rows = reader.act()
        logits = run(NAME, "나는 뙤[MASK] 읽었다.", rounded=True)["mlm.logits"][0, 3]
        ids = [reader.page.evaluate(f"live.tokenizer.ids.get('{row[0]}')") for row in rows[:2]]
        shares = logits.softmax(-1)[ids].tolist()
        assert [float(row[2]) for row in rows[:2]] == pytest.approx(shares, abs=6e-3)


def test_labeled_sentences_are_half_praise() -> None:
    labeled = article("ko")["lesson"]["labeled"]
    texts = [text for part in labeled.values() for text, _ in part]
    assert len(set(texts)) == len(texts) == 120
    assert all(unicodedata.is_normalized("NFC", text) for text in texts)
    for part in labeled.values():
        # praise and complaint about one thing alternate, so that no split separates a pair
        assert [label for _, label in part] == [1, 0] * (len(part) // 2)


def test_the_sample_has_five_hundred_composed_sentences() -> None:
    sentences = article("ko")["lesson"]["sentences"]
    assert len(sentences) == len(set(sentences)) == 500
    assert all(unicodedata.is_normalized("NFC", sentence) for sentence in sentences)


def test_the_other_language_and_the_other_scenes_are_in_sight(opened: Reader) -> None:
    opened.again()
    page = opened.page
    assert "minibert learn --lang en" in page.inner_text("#other-scenes")
    page.click("#other-language")
    assert page.get_attribute("html", "lang") == "en"
    assert page.inner_text("#other-language") == "한국어로 읽기"
    page.click("#other-language")
    assert page.get_attribute("html", "lang") == "ko"
