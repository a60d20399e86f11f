"""The README tells the truth: its example prints what it says, its table is counted, its links lead somewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import refresh
from conftest import CHECKOUT, python_path
from test_model import PARAMETERS
from test_package import ROOMS

PATH = ("embeddings", "layouts", "attention", "encoder", "model", "losses", "heads")
READMES = [path for path in (CHECKOUT / "README.md", CHECKOUT / "README.ko.md") if path.exists()]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_example_prints_what_it_says(readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    found = re.search(
        r"<!-- example -->\n```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL
    )
    assert found
    run = subprocess.run(
        [sys.executable, "-c", found[1]], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout == found[2] and not run.stderr


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_the_example_goes_on(readme: Path, tmp_path: Path) -> None:
    """The later snippets run after the first one, with no name undefined."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: extra [plot]")
    text = readme.read_text(encoding="utf-8")
    snippets = re.findall(
        r"<!-- example(?: that goes on)? -->\n```python\n(.*?)```", text, re.DOTALL
    )
    assert len(snippets) == 3
    environment = {**python_path(CHECKOUT), "MPLBACKEND": "agg"}
    command = [sys.executable, "-c", "".join(snippets)]
    subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True, cwd=tmp_path, env=environment
    )
    assert (tmp_path / "heads.png").stat().st_size > 1000


def test_the_commands_print_what_it_says() -> None:
    """Words and their order; another processor may round the last digit of a number otherwise.

    `scripts/refresh.py` writes them anew. The Korean README has the same, as `test_both_readmes_show_the_same` sees to.
    """
    examples = refresh.EXAMPLE.findall(READMES[0].read_text(encoding="utf-8"))
    assert len(examples) == 2
    for _, commands, printed in examples:
        said = refresh.output(commands)
        assert re.sub(r"-?\d\.\d+", "", said) == re.sub(r"-?\d\.\d+", "", printed)
        numbers = [
            [float(number) for number in re.findall(r"-?\d\.\d+", text)] for text in (said, printed)
        ]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.002)


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_sizes(readme: Path) -> None:
    rows = re.findall(
        r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| ([\d,]+) \|$",
        readme.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert {name: int(number.replace(",", "")) for name, *_, number in rows} == PARAMETERS


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_links(readme: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", readme.read_text(encoding="utf-8"))
    assert links and not [link for link in links if not (CHECKOUT / link).exists()]
    headings = re.findall(r"^#+ (.*)$", readme.read_text(encoding="utf-8"), re.MULTILINE)
    places = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    inside = re.findall(r"\]\(#([^)]+)\)", readme.read_text(encoding="utf-8"))
    assert (
        inside and set(inside) <= places
    )  # the first picture leads to the section on `minibert learn`


@pytest.mark.parametrize("address", ["https://example.org/me/minibert", ""])
def test_the_page_of_a_wheel_needs_no_files_beside_it(address: str, tmp_path: Path) -> None:
    """Each link leads to a file of the repository by its address, or is no link; commands install from the index.

    Built from a copy without the models, which only take time to pack.
    """
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "NOTICE",
        "minibert/__init__.py",
        "scripts/package_page.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    shutil.copytree(CHECKOUT / "configs", tmp_path / "configs")
    project = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    project, found = re.subn(
        r'^address = ".*?"', f'address = "{address}"', project, flags=re.MULTILINE
    )
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        "dist",
    ]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=120)
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith("/METADATA")]
        metadata = message_from_string(files.read(name).decode("utf-8"))
    page = str(metadata.get_payload())
    reference = "HEAD" if ".dev" in metadata["Version"] else f"v{metadata['Version']}"

    targets = re.findall(r"\]\(([^)]+)\)", page)
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert found == 1
    assert targets and all(target.startswith("https://") for target in targets)
    assert "[]" not in page and "href=" not in page + readme
    ours = [target.removeprefix(address) for target in targets if address and address in target]
    assert bool(ours) == bool(address)
    for target in ours:
        if not target.startswith("#"):  # a section of the repository's front page
            assert re.match(r"/(raw|blob)/", target)
            assert (CHECKOUT / target.split(f"/{reference}/")[1].split("#")[0]).exists(), target
    assert "constraints.txt" not in page and "pip install minibert-torch" in page
    urls = dict(entry.split(", ") for entry in metadata.get_all("Project-URL", []))
    expected = {"Homepage", "Documentation", "Repository", "Changelog", "Issues"}
    assert set(urls) == (expected if address else set())
    assert all(url.startswith(address) for url in urls.values())


def code(text: str) -> list[str]:
    """The code blocks without what may be in another language: comments and texts in quotes."""
    return [
        re.sub(r"#.*|\"[^\"]*\"", "", block)
        for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    ]


def tables(text: str) -> list[list[str]]:
    """The numbers of every table row, in order; counts of files and names of sections are alike, too."""
    rows = re.findall(r"^\|.*\|$", text, re.MULTILINE)
    return [
        re.findall(r"\d(?:[\d,.]*\d)?", re.sub(r"\[[^\]]*\]\([^)]*\)", "", row)) for row in rows
    ]


def test_both_readmes_show_the_same() -> None:
    """One is a translation of the other: the same commands, numbers, links and pictures in the same order."""
    english, korean = (path.read_text(encoding="utf-8") for path in READMES)
    assert code(korean) == code(english)
    assert [sorted(row) for row in tables(korean)] == [sorted(row) for row in tables(english)]
    links = [re.findall(r"\]\(([^)#]+)\)", text) for text in (english, korean)]
    assert sorted(links[0]) == sorted(
        "README.ko.md" if link == "README.md" else link for link in links[1]
    )


def test_the_reading_order_is_the_import_order() -> None:
    """README, the docstring of model.py and the rooms of the package lead a reader the same way."""
    order = [room for room in ROOMS if room in PATH]
    for text in (
        *(path.read_text(encoding="utf-8") for path in READMES),
        (CHECKOUT / "minibert" / "model.py").read_text(encoding="utf-8"),
    ):
        shown = re.findall(
            r"\b(embeddings|layouts|attention|encoder|model|losses|heads)\.py\b", text
        )
        assert list(dict.fromkeys(shown)) == order
