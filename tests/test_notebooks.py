"""The notebooks run from top to bottom, offline, and print what is committed.

A notebook NAME.ipynb is paired with NAME.md, where it is edited, and NAME.ko.md has the same code
with Korean texts. After an edit:

    jupytext --sync docs/notebooks/*.md
    python -m pytest tests/test_notebooks.py -m "slow or not slow" --update-examples

The second command runs the notebooks and writes their outputs, in both languages.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT

FOLDER = CHECKOUT / "docs" / "notebooks"
PAGES = sorted(FOLDER.glob("*.md"))
NOTEBOOKS = [path.with_suffix(".ipynb") for path in PAGES if not path.name.endswith(".ko.md")]
# These train models, so their numbers depend on the machine.
LEARNS = FOLDER / "06_a_bert_learns.ipynb"
TUNES = FOLDER / "07_fine_tuning.ipynb"
EMBEDS = FOLDER / "08_sentence_vectors.ipynb"
QUICK = FOLDER / "02_hidden_states.ipynb"  # the only one that runs by default
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
MAX_HTML = 100_000  # characters of an output: a page that contains a model is left out


def read(path: Path) -> Any:
    return pytest.importorskip("jupytext", reason="needs jupytext: extra [test]").read(path)


def executed(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a notebook with the outputs of this computer, without progress bars and times."""
    from nbclient import NotebookClient

    book = read(path)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    NotebookClient(
        book,
        timeout=None,
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    ).execute()
    book.metadata.pop("language_info", None)  # the version of this Python
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if len(output.get("data", {}).get("text/html", "")) > MAX_HTML:
                    del output["data"]["text/html"]
    return book


def update(path: Path, book: Any) -> None:
    """Write the outputs into the notebook and its translation."""
    import nbformat

    nbformat.write(book, path)
    korean = path.with_suffix(".ko.ipynb")
    translated = read(korean)
    for cell, done in zip(translated.cells, book.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = done.outputs, done.execution_count
    nbformat.write(translated, korean)


def printed(book: Any) -> list[str]:
    """Return the text that each cell printed or evaluated to."""
    texts = []
    for cell in book.cells:
        for output in cell.get("outputs", []):
            texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return texts


def cells(path: Path) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in read(path).cells]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path == QUICK else pytest.mark.slow, id=path.stem)
        for path in NOTEBOOKS
        if path not in (LEARNS, TUNES, EMBEDS)
    ],
)
def test_outputs_are_those_committed(
    path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Words are equal and numbers close. Korean and English share their code, so English runs."""
    new, old = executed(path, monkeypatch), read(path)
    if request.config.getoption("--update-examples"):
        update(path, new)
    new_words = [NUMBER.sub("#", text) for text in printed(new)]
    assert new_words == [NUMBER.sub("#", text) for text in printed(old)]
    for new_text, old_text in zip(printed(new), printed(old), strict=True):
        new_numbers = [float(number) for number in NUMBER.findall(new_text)]
        old_numbers = [float(number) for number in NUMBER.findall(old_text)]
        assert new_numbers == pytest.approx(old_numbers, rel=0.02, abs=0.02), old_text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_notebook_has_the_cells_of_its_page(page: Path) -> None:
    path = page.with_suffix(".ipynb")
    assert cells(path) == cells(page), "run jupytext --sync docs/notebooks/*.md"
    outputs = [output for cell in read(path).cells for output in cell.get("outputs", [])]
    assert not any(output.output_type == "error" for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_both_languages_have_the_same_code_and_outputs(path: Path) -> None:
    english, korean = read(path), read(path.with_suffix(".ko.ipynb"))
    code = [cell.source if cell.cell_type == "code" else None for cell in english.cells]
    assert code == [cell.source if cell.cell_type == "code" else None for cell in korean.cells]
    assert printed(english) == printed(korean)


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


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.stem)
def test_the_committed_outputs_show_that_the_model_learned(path: Path) -> None:
    CHECKS[path](printed(read(path)))


@pytest.mark.slow  # training takes minutes
@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.stem)
def test_models_learn_in_a_notebook(
    path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    book = executed(path, monkeypatch)
    if request.config.getoption("--update-examples"):
        update(path, book)
    CHECKS[path](printed(book))
