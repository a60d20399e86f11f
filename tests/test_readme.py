"""The README tells the truth: its example prints what it says, its table is counted, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHECKOUT
from test_model import PARAMETERS

READMES = [path for path in (CHECKOUT / "README.md", CHECKOUT / "README.ko.md") if path.exists()]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_example_prints_what_it_says(readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    found = re.search(r"<!-- example -->\n```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found
    run = subprocess.run([sys.executable, "-c", found[1]], capture_output=True, text=True, check=True)
    assert run.stdout == found[2] and not run.stderr


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_sizes(readme: Path) -> None:
    rows = re.findall(
        r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| ([\d,]+) \|$", readme.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {name: int(number.replace(",", "")) for name, *_, number in rows} == PARAMETERS


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_links(readme: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", readme.read_text(encoding="utf-8"))
    assert links and not [link for link in links if not (CHECKOUT / link).exists()]
