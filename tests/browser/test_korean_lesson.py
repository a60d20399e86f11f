"""The scenes of the Korean article of `minibert learn --lang ko`."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from opened import browser as browser
from test_lesson import Reader

from minibert.cli import main
from minibert.learn.lesson import article
from minibert.study import run

pytestmark = pytest.mark.browser

NAME = "minibert-ko"
# outcome and part of the verdict of each scene after its button is pressed
VERDICTS = [
    (0, "커졌습니다"),
    (1, "“배 ##도”로 나뉘었습니다"),
    (0, "방 쪽입니다"),
    (2, "[UNK]가 3개입니다"),
    (2, "위치 벡터만 달라졌습니다"),
    (0, "어순만 바꾼 문장이 더 가깝습니다"),
    (1, "점수는 그대로이고 비율만 달라졌습니다"),
    (0, "레이어 0, 헤드 1"),
    (0, "레이어 2 없이 답이 그대로인 문장은 40개 중 12개"),
    (1, "같은 뜻에 더 가까운 수는 배 16, 눈 17입니다"),
    (1, "“타고”에서 “먹고”로 바뀌었습니다"),
    (1, "받침이 없으므로 “를”이어야 합니다"),
    (2, "적은 쪽입니다"),
    (1, "1위인 것은 20개 중 16개"),
    (1, "둘째 문장을 뒤섞어도 80개 중 68개"),
    (1, "뜻이 같은 쪽이 더 가까운 것은 20개 중"),
    (2, "마지막 레이어로 평균 83%"),
    (0, "40개 가운데 평균 31개입니다"),
    (2, "“마지막 네 개를 이어 붙임”이 가장 낫습니다"),
    (1, "다섯 문장에 모두 같은 답을 했습니다"),
    (0, "커지고, 손실은 줄어듭니다"),
    (2, "모두 한 벌을 쓸 때 40개 중 7개"),
    (1, "피드포워드를 모두 빼면 답이 그대로인 것은 40개 중 3개"),
    (2, "5120개 중 236개"),
]

FITS = """() => ["lesson", "scene-verdict", "scenes"].every((id) => {
  const box = document.getElementById(id);
  return box.scrollWidth <= box.clientWidth;
})"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learn") / "korean.html"
    assert main(["learn", "--lang", "ko", "--output", str(path)]) == 0
    return path


def verdict_of(reader: Reader) -> str:
    """Return the verdict, without the word joiners between brackets and particles."""
    return str(reader.page.inner_text("#scene-found")).replace("\u2060", "")


def check_scenes(reader: Reader, language: str) -> None:
    """Check that every scene has rows and a verdict, and that nothing is wider than its box."""
    reader.page.set_default_timeout(120_000)  # ms, because scenes compute dozens of sentences
    for scene, (outcome, part) in enumerate(VERDICTS, 1):
        reader.enter(scene)
        rows = reader.act()
        verdict = verdict_of(reader)
        assert rows and all(len(row) == 3 and row[0] and row[2] for row in rows), scene
        assert reader.outcome == outcome, (scene, rows)
        # the page warns only in the scene with decomposed Hangul, which the model does not know
        assert bool(reader.page.inner_text("#coverage")) == (scene == 4)
        assert len(verdict) > 40 and "{" not in verdict and "undefined" not in verdict
        assert not re.search(r"\((는|가|를|와|으)\)", verdict)
        assert language == "en" or part in verdict, (scene, verdict)
        for name in ("#lesson", "#scene-verdict", "#scenes", "main"):
            over = "e => e.scrollWidth - e.clientWidth"
            assert reader.page.locator(name).evaluate(over) <= 0, (scene, name)
    assert reader.trouble == []


def test_every_scene_has_a_measured_verdict(browser: Any, file: Path) -> None:
    assert file.stat().st_size <= 25e6
    with Reader(browser, file, language="en-US") as reader:
        # --lang ko opens the page in Korean, whatever the language of the browser
        assert reader.page.get_attribute("html", "lang") == "ko"
        assert reader.page.evaluate("SCENE_COUNT") == len(VERDICTS) == 24
        check_scenes(reader, "ko")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "language"), [(360, "ko"), (360, "en"), (768, "en"), (1920, "ko")]
)
def test_every_scene_fits_every_width(browser: Any, file: Path, width: int, language: str) -> None:
    with Reader(browser, file, width=width, height=760) as reader:
        reader.page.evaluate(f"change({{language: '{language}'}})")
        check_scenes(reader, language)


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


def test_particles_follow_numbers_and_names(browser: Any, file: Path) -> None:
    with Reader(browser, file) as reader:
        check_particles(reader)
        reader.enter("batchim")
        rows = reader.write("나는 사과[MASK] 읽었다.")
        assert verdict_of(reader).startswith("질문이 달라졌습니다")
        shares = {row[0]: float(row[2]) for row in rows if row[0] in ("##을", "##를")}
        assert shares["##를"] > shares["##을"] and reader.trouble == []


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


def test_scenes_on_the_whole_model_by_keyboard(browser: Any, file: Path) -> None:
    with Reader(browser, file, width=360, height=760) as reader:
        reader.page.set_default_timeout(120_000)
        for scene in ("layer", "sides", "pair", "task"):
            reader.enter(scene)
            rows = reader.act_by_keyboard()
            assert rows and all(len(row) == 3 for row in rows)
            assert "{" not in verdict_of(reader) and "undefined" not in verdict_of(reader)
            assert reader.page.inner_text("#scene-guess") and reader.page.evaluate(FITS)
        assert reader.trouble == []


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


def test_the_other_language_and_the_other_scenes_are_in_sight(browser: Any, file: Path) -> None:
    with Reader(browser, file) as reader:
        page = reader.page
        assert "minibert learn --lang en" in page.inner_text("#other-scenes")
        page.click("#other-language")
        assert page.get_attribute("html", "lang") == "en"
        assert page.inner_text("#other-language") == "한국어로 읽기"
        page.click("#other-language")
        assert page.get_attribute("html", "lang") == "ko" and reader.trouble == []
