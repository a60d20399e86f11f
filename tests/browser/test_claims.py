"""What the page says of single texts, of colors and of the model's name is true."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from opened import Opened, browser as browser, once as once, opened as opened

from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.learn.build import write_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of one text without a [MASK], of a model in a folder that is named `model`."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "my-bert").mkdir()
    shutil.copytree(BUNDLED_MODELS / "minibert-tiny", folder / "my-bert" / "model")
    write_page(folder / "page.html", str(folder / "my-bert" / "model"), "I love Korea")
    return folder / "page.html"


@pytest.mark.parametrize(
    ("language", "single", "root"),
    [("en", "a single one", "square root"), ("ko", "하나뿐", "제곱근")],
)
def test_the_page_makes_no_false_claims(
    opened: Opened, language: str, single: str, root: str
) -> None:
    opened.again(f"#language={language}")
    assert "my-bert/model" in opened.page.inner_text("header")
    opened.open("pooler")
    next_sentence = opened.page.inner_text("#next")
    assert single in next_sentence and "%" not in next_sentence
    opened.open("attention")
    assert root in opened.page.inner_text("#attention-legend")
