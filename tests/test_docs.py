"""The API reference and the index of scripts are complete, and their links and examples work."""

from __future__ import annotations

import doctest
import importlib
import re
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


def scripts_and_folders() -> set[str]:
    """Return what scripts/ contains: its files and folders, and the programs in the folders."""
    folder = CHECKOUT / "scripts"
    entries = {path for path in folder.iterdir() if not path.name.startswith((".", "__"))}
    for path in folder.glob("*/*.py"):
        if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8"):
            entries.add(path)
    entries.remove(folder / "README.md")
    names = {path.relative_to(folder).as_posix() for path in entries if path.is_file()}
    return names | {f"{path.name}/" for path in entries if path.is_dir()}


SCRIPTS = (CHECKOUT / "scripts" / "README.md").read_text(encoding="utf-8")


def test_the_index_of_scripts_names_exactly_those_that_exist() -> None:
    names = re.findall(r"^\| \[([^\]]+)\]", SCRIPTS, re.MULTILINE)
    assert len(set(names)) == len(names)
    assert set(names) == scripts_and_folders()


def test_the_links_of_the_index_of_scripts_work() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", SCRIPTS)
    broken = [target for target in targets if not (CHECKOUT / "scripts" / target).exists()]
    assert not broken


def test_the_index_of_scripts_calls_each_script_with_options_that_it_has() -> None:
    rows = re.findall(r"^\| \[([^\]]+)\].* \| `(.*)` \|$", SCRIPTS, re.MULTILINE)
    assert len(rows) > 20
    for name, call in rows:
        module = name.removesuffix(".py").replace("/", ".")
        assert f"scripts/{name}" in call or f"-m {module} " in call
        if name != "Dockerfile":  # docker has the options of that call
            source = (CHECKOUT / "scripts" / name).read_text(encoding="utf-8")
            missing = [option for option in re.findall(r"--[\w-]+", call) if option not in source]
            assert not missing, name
