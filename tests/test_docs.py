"""The API reference: public names are documented, links work, and examples print what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
import website
from conftest import CHECKOUT

import docs

WITH_EXAMPLES = [
    ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
    for path in sorted((CHECKOUT / "minibert").rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


def test_every_public_name_is_documented() -> None:
    assert not list(docs.undocumented())


@pytest.mark.filterwarnings("ignore:Error parsing type annotation")
def test_the_reference_has_no_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="needs pdoc: extra [test]")
    docs.build(tmp_path)
    page = (tmp_path / "minibert.html").read_text(encoding="utf-8")
    assert 'id="BertModel"' in page and 'id="SentenceEmbedder"' in page
    assert not docs.broken_links(tmp_path)


def test_the_guides_as_pages(tmp_path: Path) -> None:
    """Links between the pages and to headings work, as on GitHub."""
    pytest.importorskip("markdown2", reason="needs pdoc: extra [test]")
    for name in ("learn.html", "learn.ko.html", "api/index.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    pages = website.write_pages(tmp_path)
    assert tmp_path / "docs" / "parity.ko.html" in pages
    assert not docs.broken_links(tmp_path)
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="docs/parity.html"' in index and 'src="docs/figures/learn.png"' in index
    assert '<h2 id="learn">' in index and "<table>" in index and "not run" not in index


def test_broken_links_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here">fine</a> <a href="b.html#there">lost</a>', encoding="utf-8"
    )
    (tmp_path / "b.html").write_text(
        '<a href="a.html#here">fine</a> <a href="#gone">lost</a>', encoding="utf-8"
    )
    assert docs.broken_links(tmp_path) == {"a.html -> b.html#there", "b.html -> #gone"}


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_print_what_they_show(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted and not result.failed
