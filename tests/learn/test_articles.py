"""How `minibert learn` chooses an article: by the model's vocabulary, the option and the locale."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

from minibert import BertTokenizer
from minibert.cli import main
from minibert.cli.look import ARTICLE_MODELS
from minibert.learn import lesson
from minibert.learn.language import locale_language
from minibert.learn.lesson import articles, fitting_article

article = cache(lesson.article)  # unpacks a training run


def test_a_vocabulary_that_does_not_fit_the_scenes_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "bank", "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")
    out = tmp_path / "learn.html"
    assert main(["learn", "--model", str(tmp_path), "--output", str(out)]) == 1
    message = capsys.readouterr().err
    assert "minibert-en need doctor, which it cuts into [UNK]" in message
    assert "minibert-ko need 병원" in message and "Take minibert-en or minibert-ko" in message
    assert not out.exists()


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "en_US.UTF-8"}, "en"),
        ({"LC_MESSAGES": "ko", "LANG": "C"}, "ko"),
        ({"LANG": "kok_IN"}, "en"),
    ],
)
def test_a_korean_locale_gets_the_korean_article(
    environment: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert locale_language() == language


def test_the_article_fits_the_vocabulary_of_the_model() -> None:
    tokenizers = {name: BertTokenizer.from_pretrained(name) for name in ARTICLE_MODELS.values()}
    for language, name in ARTICLE_MODELS.items():
        for preferred in ARTICLE_MODELS:
            assert fitting_article(tokenizers[name], preferred) == language


def test_both_languages_have_every_text_of_the_korean_article() -> None:
    for key, texts in article("ko")["lesson"]["texts"].items():
        fields = [set(re.findall(r"\{\w+\}", texts[language])) for language in ("en", "ko")]
        assert texts["en"] and texts["ko"] and fields[0] == fields[1], key


@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_scene_has_a_sheet_for_teachers(language: str) -> None:
    texts = article(language)["lesson"]["texts"]
    scenes = [key.removesuffix(".title") for key in texts if key.endswith(".title")]
    for scene in set(scenes) - {"end"}:
        for part in ("ask", "teach.expect", "teach.discuss"):
            assert all(texts[f"{scene}.{part}"].values()), (scene, part)


def test_a_korean_particle_fits_any_number_before_it() -> None:
    """Both forms stand in the text, as in "{head}이(가)", and the page chooses one."""
    bare = re.compile(r"\{(layer|head|lower|same)\}[은는이가을를과와로](?![가-힣(])")
    for language in articles():
        for key, texts in article(language)["lesson"]["texts"].items():
            assert not bare.search(texts["ko"]), key


def test_labeled_sentences_of_the_english_article_are_half_praise() -> None:
    labeled = article("en")["lesson"]["labeled"]
    texts = [text for rows in labeled.values() for text, _ in rows]
    assert len(set(texts)) == len(texts) == 100
    for name, rows in labeled.items():
        assert sum(label for _, label in rows) == len(rows) / 2, name


def test_labeled_sentences_of_the_korean_article_are_half_praise() -> None:
    labeled = article("ko")["lesson"]["labeled"]
    texts = [text for part in labeled.values() for text, _ in part]
    assert len(set(texts)) == len(texts) == 120
    assert all(unicodedata.is_normalized("NFC", text) for text in texts)
    for part in labeled.values():
        # praise and complaint about one thing alternate, so that no split separates a pair
        assert [label for _, label in part] == [1, 0] * (len(part) // 2)


def test_the_korean_sample_has_five_hundred_composed_sentences() -> None:
    sentences = article("ko")["lesson"]["sentences"]
    assert len(sentences) == len(set(sentences)) == 500
    assert all(unicodedata.is_normalized("NFC", sentence) for sentence in sentences)


def test_both_articles_show_the_training_run() -> None:
    for language in articles():
        assert article(language)["run"]["steps"][0] == 0


# Scenes that take something away, with the values of a verdict on it and on its control
REMOVALS = {
    "it": ("remains", "others"),
    "patch": ("after", "control"),
    "several": ("all", "neighbors"),
    "transform": ("idle", "deaf"),
    "layer": ("few", "lots"),  # each layer is the control of the others
}
ALTERED = re.compile(r"\b(?:off|idle|sharing|shifted)\b")


def test_a_conclusion_from_a_removal_names_its_control() -> None:
    scenes = Path(lesson.__file__).parent / "page" / "article" / "scenes"
    altering = {
        path.parent.name
        for path in scenes.glob("*/scene.js")
        if ALTERED.search(re.sub("//.*", "", path.read_text(encoding="utf-8")))
    }
    assert altering <= set(REMOVALS)
    for scene, values in REMOVALS.items():
        texts = json.loads((scenes / scene / "texts.json").read_text(encoding="utf-8"))
        verdicts = [
            text[language]
            for part in texts.values()
            for name, text in part.items()
            for language in ("en", "ko")
            if name.startswith("verdict.")
        ]
        assert verdicts
        for verdict in verdicts:
            assert all(f"{{{value}}}" in verdict for value in values)


def test_a_marked_word_has_a_sense() -> None:
    page = Path(lesson.__file__).parent / "page"
    terms = json.loads((page / "ask" / "terms.json").read_text(encoding="utf-8"))
    marked = {
        sense
        for path in page.glob("article/**/texts.json")
        for sense in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    }
    assert marked and marked <= set(terms)
