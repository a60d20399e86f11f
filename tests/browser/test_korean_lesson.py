"""The Korean article of `minibert learn --lang ko`: ten scenes of its own, whose verdicts the page measures."""

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
from minibert.page.lesson import article
from minibert.study import run

pytestmark = pytest.mark.browser

NAME = "minibert-ko"
# the outcome and a part of the verdict of each scene, as its button leaves it
VERDICTS = [
    (1, "“배 ##도”로 나뉘었습니다"),
    (0, "방 쪽입니다"),
    (2, "[UNK]가 3개입니다"),
    (0, "어순만 바꾼 문장이 더 가깝습니다"),
    (0, "레이어 0, 헤드 1"),
    (1, "h5에서 뜻이 갈라진 것은 배, 눈입니다"),
    (1, "“타고”에서 “먹고”로 바뀌었습니다"),
    (1, "“뙤” 뒤에는 “를”이어야 하는데"),
    (1, "16명에게 연기를 1위로 답합니다"),
    (1, "뜻이 같은 쪽이 더 가깝습니다"),
]

COUNTED = """() => {
  counts.set("particles", [{ consonant: 12, vowel: 12 }, { consonant: 12, vowel: 0 }]);
  counts.set("people", 16);
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learn") / "korean.html"
    assert main(["learn", "--lang", "ko", "--output", str(path)]) == 0
    return path


def said(reader: Reader) -> str:
    """The verdict, without the joiners that keep a bracket and its particle on one line."""
    return str(reader.page.inner_text("#scene-found")).replace("\u2060", "")


def check_scenes(reader: Reader, language: str) -> None:
    """Goes through the ten scenes: each has rows and a verdict, and nothing runs out of the window."""
    reader.page.set_default_timeout(120_000)  # ms: scenes count over dozens of sentences
    for scene, (outcome, part) in enumerate(VERDICTS, 1):
        reader.enter(scene)
        rows = reader.act()
        found = said(reader)
        assert rows and all(len(row) == 3 and row[0] and row[2] for row in rows), scene
        assert reader.outcome == outcome, (scene, rows)
        # a Korean model knows Korean: only where Hangul is taken apart does the page warn
        assert bool(reader.page.inner_text("#coverage")) == (scene == 3)
        assert len(found) > 40 and "{" not in found and "undefined" not in found
        assert not re.search(r"\((는|가|를|와|으)\)", found)
        assert language == "en" or part in found, (scene, found)
        for name in ("#lesson", "#scene-verdict", "#scenes", "main"):
            over = "e => e.scrollWidth - e.clientWidth"
            assert reader.page.locator(name).evaluate(over) <= 0, (scene, name)
    assert reader.trouble == []


def test_ten_scenes_have_ten_measured_verdicts(browser: Any, file: Path) -> None:
    assert file.stat().st_size <= 25e6
    with Reader(browser, file, 8, language="en-US") as reader:
        # --lang ko opens the page in Korean whatever the browser speaks
        assert reader.page.get_attribute("html", "lang") == "ko"
        assert reader.page.evaluate("SCENE_COUNT") == len(VERDICTS) == 10
        check_scenes(reader, "ko")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "language"), [(360, "ko"), (360, "en"), (768, "en"), (1920, "ko")]
)
def test_ten_scenes_fit_every_width(browser: Any, file: Path, width: int, language: str) -> None:
    with Reader(browser, file, 8, width=width, height=760) as reader:
        reader.page.evaluate(f"change({{language: '{language}'}})")
        check_scenes(reader, language)


def check_particles(reader: Reader) -> None:
    """A particle follows the last sound of what stands before it, also of a number read aloud."""
    for text, expected in {
        "헤드 {x}이(가)": {"1": "헤드 1이", "2": "헤드 2가", "0": "헤드 0이"},
        "{x}(으)로": {"0.40": "0.40으로", "0.07": "0.07로", "0.15": "0.15로", "“먹고”": "“먹고”로"},
        "{x}을(를)": {"책": "책을", "“배”": "“배”를", "[MASK]": "[MASK]를", "책(0.2)": "책(0.2)을"},
        "{x}과(와) {x}은(는)": {"물": "물과 물은", "시": "시와 시는"},
    }.items():
        for value, sentence in expected.items():
            assert reader.page.evaluate("withParticles", text.replace("{x}", value)) == sentence


def test_what_is_edited_decides_the_korean_verdicts(browser: Any, file: Path) -> None:
    with Reader(browser, file, 2) as reader:
        # what the scenes count over sentences of their own is in the test of all ten
        reader.page.set_default_timeout(120_000)
        reader.page.evaluate(COUNTED)
        check_particles(reader)
        reader.enter(1)
        reader.write("어부들이 배가 좋다.")
        assert reader.outcome == 0 and "조각 하나입니다" in said(reader)
        reader.write("나무에 사과가 많다.")
        assert reader.outcome == 3 and "시작하는 말이 없습니다" in said(reader)
        reader.enter(2)
        reader.write("아버지 가방에 들어가신다")
        assert reader.outcome == 1 and "띄어쓰기가 있습니다" in said(reader)
        reader.enter(3)
        reader.write("나는 한글을 읽는다!")
        assert reader.outcome == 1
        reader.write(unicodedata.normalize("NFD", "한글"))
        assert reader.outcome == 2 and "[UNK]가 1개입니다" in said(reader)
        reader.enter(8)
        reader.write("나는 사과[MASK] 읽었다.")
        assert reader.outcome == 0 and "맞춤법에 맞습니다" in said(reader)
        reader.enter(9)
        rows = reader.write("요리사는 [MASK]를 잘한다.")
        assert rows[0][2].startswith("요리") and reader.outcome == 2
        assert reader.trouble == []


@pytest.mark.slow
def test_korean_verdicts_are_those_of_python(browser: Any, file: Path) -> None:
    """Sentence vectors in two orders, and the answers at a [MASK], beside PyTorch with the same weights."""

    def mean(text: str) -> torch.Tensor:
        return run(NAME, text, rounded=True)["layer.4.output"][0].mean(0)

    texts = ("개가 사람을 물었다.", "사람을 개가 물었다.", "사람이 개를 물었다.")
    plain, order, particles = (mean(text) for text in texts)
    alike = [torch.cosine_similarity(plain, other, dim=0).item() for other in (order, particles)]
    assert alike == pytest.approx([0.990, 0.947], abs=2e-3)
    with Reader(browser, file, 2) as reader:
        reader.enter(4)
        rows = reader.act()
        assert [float(row[2]) for row in rows[:2]] == pytest.approx(alike, abs=2e-4)
        reader.enter(8)
        rows = reader.act()
        logits = run(NAME, "나는 뙤[MASK] 읽었다.", rounded=True)["mlm.logits"][0, 3]
        ids = [reader.page.evaluate(f"live.tokenizer.ids.get('{row[0]}')") for row in rows[:2]]
        shares = logits.softmax(-1)[ids].tolist()
        assert [float(row[2]) for row in rows[:2]] == pytest.approx(shares, abs=2e-4)


def test_the_sample_has_five_hundred_composed_sentences() -> None:
    sentences = article("ko")["lesson"]["sentences"]
    assert len(sentences) == len(set(sentences)) == 500
    assert all(unicodedata.is_normalized("NFC", sentence) for sentence in sentences)
