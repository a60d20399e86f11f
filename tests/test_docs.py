"""Examples in docstrings work, and what links to files of the repository finds them.

`sphinx-build -W` checks the links of the READMEs and guides: docs/conf.py.
"""

from __future__ import annotations

import doctest
import importlib
import re

import pytest
from conftest import CHECKOUT

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
