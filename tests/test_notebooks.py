"""The notebooks run from top to bottom, offline, and print what is committed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT

FOLDER = CHECKOUT / "docs" / "notebooks"
SOURCES = sorted(FOLDER.glob("*.md"))
# These train models, so their numbers depend on the machine.
LEARNS = FOLDER / "06_a_bert_learns.md"
TUNES = FOLDER / "07_fine_tuning.md"
EMBEDS = FOLDER / "08_sentence_vectors.md"
QUICK = FOLDER / "02_hidden_states.md"  # the only one that runs by default
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.fixture(scope="module")
def build() -> Any:
    pytest.importorskip("nbclient", reason="needs nbclient: extra [notebooks]")
    spec = importlib.util.spec_from_file_location("build_notebooks", FOLDER / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def committed(build: Any, source: Path, language: str) -> Any:
    return build.nbformat.read(FOLDER / f"{source.stem}.{language}.ipynb", as_version=4)


def printed(book: Any) -> list[str]:
    """Return the text that each cell printed or evaluated to."""
    texts = []
    for cell in book.cells:
        for output in cell.get("outputs", []):
            texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return texts


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(path, marks=[] if path == QUICK else pytest.mark.slow, id=path.stem)
        for path in SOURCES
        if path not in (LEARNS, TUNES, EMBEDS)
    ],
)
def test_outputs_are_those_committed(build: Any, source: Path) -> None:
    """Words are equal and numbers close. Korean and English share their code, so English runs."""
    new_texts = printed(build.execute(build.notebook(source, "en")))
    old_texts = printed(committed(build, source, "en"))
    new_words = [NUMBER.sub("#", text) for text in new_texts]
    assert new_words == [NUMBER.sub("#", text) for text in old_texts]
    for new, old in zip(new_texts, old_texts, strict=True):
        new_numbers = [float(number) for number in NUMBER.findall(new)]
        old_numbers = [float(number) for number in NUMBER.findall(old)]
        assert new_numbers == pytest.approx(old_numbers, rel=0.02, abs=0.02), old


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_both_languages_are_built_from_the_source_and_show_the_same(
    build: Any, source: Path
) -> None:
    books = {language: committed(build, source, language) for language in ("en", "ko")}
    for language, book in books.items():
        expected = build.notebook(source, language)
        assert [(cell.cell_type, cell.source) for cell in book.cells] == [
            (cell.cell_type, cell.source) for cell in expected.cells
        ]
        for cell in book.cells:
            assert not any(output.output_type == "error" for output in cell.get("outputs", []))
    assert printed(books["en"]) == printed(books["ko"])
    assert len(books["en"].cells) == len(books["ko"].cells)


def numbers(texts: list[str], line: str) -> list[float]:
    """Return the numbers that follow `line`, the beginning of a line."""
    text = "\n".join(texts).split(line, 1)[1].split("\n")[0]
    return [float(number) for number in NUMBER.findall(text)]


def check_learning(texts: list[str]) -> None:
    """Check that the model beats the baseline, which is the second number of each line."""
    loss, entropy = numbers(texts, "loss on unread text")
    assert loss < 0.9 * entropy  # one in ten of the predicted tokens is not masked
    accuracy, most_frequent = numbers(texts, "masked words found")
    assert accuracy >= most_frequent + 10


def check_tuning(texts: list[str]) -> None:
    """Check that pre-training improves the classifier and the entity tagger."""
    assert numbers(texts, "everything, pre-trained")[0] > numbers(texts, "the head alone")[0]
    assert numbers(texts, "pre-trained  F1")[0] >= numbers(texts, "random       F1")[0] + 5


def check_embedding(texts: list[str]) -> None:
    """Check that training on pairs improves the retrieval of pairs."""
    assert numbers(texts, "after:")[0] > numbers(texts, "before:")[0] + 20


CHECKS = {LEARNS: check_learning, TUNES: check_tuning, EMBEDS: check_embedding}


@pytest.mark.parametrize("source", CHECKS, ids=lambda path: path.stem)
def test_the_committed_outputs_show_that_the_model_learned(build: Any, source: Path) -> None:
    CHECKS[source](printed(committed(build, source, "en")))


@pytest.mark.slow  # training takes minutes
@pytest.mark.parametrize("source", CHECKS, ids=lambda path: path.stem)
def test_models_learn_in_a_notebook(build: Any, source: Path) -> None:
    CHECKS[source](printed(build.execute(build.notebook(source, "en"))))


def test_each_notebook_ends_with_two_exercises() -> None:
    for source in SOURCES:
        text = source.read_text(encoding="utf-8")
        assert text.count("print(check(") >= 2, source
        assert "* **You need:**" in text and "* **준비:**" in text, source
