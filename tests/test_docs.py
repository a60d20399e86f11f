"""Examples in docstrings work, pages agree in both languages, scripts/README.md lists all scripts.

../conftest.py runs the examples of the pages, and `sphinx-build -W` checks their links.
"""

from __future__ import annotations

import argparse
import doctest
import importlib
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import CHECKOUT, PARAMETERS

from minibert.cli import build_parser

WITH_EXAMPLES = [
    ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
    for path in sorted((CHECKOUT / "minibert").rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]
OUTSIDE_THE_SITE = (".github/CONTRIBUTING.md", "scripts/README.md", "tests/README.md")


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_print_what_they_show(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted and not result.failed


@pytest.mark.parametrize("name", OUTSIDE_THE_SITE)
def test_links_outside_the_site(name: str) -> None:
    page = CHECKOUT / name
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    broken = [target for target in targets if not (page.parent / target).exists()]
    assert not broken


KOREAN = [CHECKOUT / "README.ko.md", *sorted((CHECKOUT / "docs").glob("*.ko.md"))]


@pytest.fixture(scope="module")
def examples(pytestconfig: pytest.Config) -> Any:
    """../conftest.py as pytest has imported it: run once more, it would pause the collector."""
    return pytestconfig.pluginmanager.get_plugin(str(CHECKOUT / "conftest.py"))


def shown(examples: Any, page: Path) -> list[Any]:
    """Return the examples of a page without comments, which may be translated."""
    document = examples.Document.parse(str(page), examples.blocks)
    found = [example.parsed for example in document.examples()]
    return [(re.sub(r" *#.*", "", block.code), block.output, block.note) for block in found]


def figures(page: Path) -> list[list[str]]:
    """Return the numbers in each row of the tables of a page."""
    rows = re.findall(r"^\|.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    texts = [re.sub(r"\]\([^)]*\)", "", row) for row in rows]
    return [sorted(re.findall(r"\d(?:[\d,.]*\d)?", text)) for text in texts]


@pytest.mark.parametrize("page", KOREAN, ids=lambda page: page.name)
def test_korean_pages_show_the_same_examples_and_numbers(examples: Any, page: Path) -> None:
    english = page.with_name(page.name.replace(".ko.md", ".md"))
    assert shown(examples, page) == shown(examples, english)
    assert figures(page) == figures(english)


@pytest.mark.parametrize(
    "printed, shown, same",
    [
        ("0.5869  rain\n", "0.5870  rain\n", True),
        ("0.5869  rain\n", "0.6869  rain\n", False),
        ("0.5869  rain\n", "0.5869  snow\n", False),
        ("first\na\nb\nlast\n", "first\n...\nlast\n", True),
        ("first\na\nb\n", "first\n...\nlast\n", False),
        ("0.1  ...\n", "0.1  ...\n", True),
    ],
)
def test_outputs_are_compared(examples: Any, printed: str, shown: str, same: bool) -> None:
    """Words must be equal and numbers close. A line of dots stands for any lines."""
    assert examples.is_same(printed, shown) == same


@pytest.mark.parametrize("name", ["training.md", "training.ko.md"])
def test_sizes(name: str) -> None:
    text = (CHECKOUT / "docs" / name).read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| \d+ \| \d+ \| \d+ \| ([\d,]+) \|$", text, re.MULTILINE)
    assert {preset: int(count.replace(",", "")) for preset, count in rows} == PARAMETERS


def test_the_korean_site_has_korean_help_of_every_option() -> None:
    pytest.importorskip("sphinx", reason="needs sphinx: extra [dev]")
    tags = SimpleNamespace(has=lambda name: name == "ko")
    conf = runpy.run_path(str(CHECKOUT / "docs" / "conf.py"), {"tags": tags})
    texts = json.loads((CHECKOUT / "docs" / "commands_ko.json").read_text(encoding="utf-8"))
    found = {getattr(*place) for place in conf["help_places"](build_parser())}
    found -= {None, argparse.SUPPRESS}
    assert sorted(found - texts.keys()) == [], "add these to docs/commands_ko.json"
    assert sorted(texts.keys() - found) == [], "remove these from docs/commands_ko.json"
    korean = {getattr(*place) for place in conf["help_places"](conf["korean_parser"]())}
    assert korean - {None, argparse.SUPPRESS} == set(texts.values())


def runnable_scripts() -> set[str]:
    """Return the programs in scripts/ and its folders."""
    folder = CHECKOUT / "scripts"
    files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".md"]
    for path in folder.glob("*/*.py"):
        if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8"):
            files.append(path)
    return {path.relative_to(folder).as_posix() for path in files}


SCRIPTS = (CHECKOUT / "scripts" / "README.md").read_text(encoding="utf-8")


def test_the_index_of_scripts_names_each() -> None:
    names = set(re.findall(r"^\| \[([^\]]+)\]", SCRIPTS, re.MULTILINE))
    assert {name for name in names if not name.endswith("/")} == runnable_scripts()


def test_the_index_of_scripts_calls_each_script_with_options_that_it_has() -> None:
    rows = re.findall(r"^\| \[([^\]]+)\].* \| `(.*)` \|$", SCRIPTS, re.MULTILINE)
    assert rows
    for name, call in rows:
        if name.endswith(".py"):
            source = (CHECKOUT / "scripts" / name).read_text(encoding="utf-8")
            missing = [option for option in re.findall(r"--[\w-]+", call) if option not in source]
            assert not missing, name
