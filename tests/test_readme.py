"""The README as a package page, and its reading order."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from conftest import CHECKOUT
from test_package import IMPORT_ORDER

READING_PATH = ("embeddings", "layouts", "attention", "encoder", "model", "losses", "heads")
READMES = [path for path in (CHECKOUT / "README.md", CHECKOUT / "README.ko.md") if path.exists()]


ADDRESS = "https://example.org/me/minibert"
# what .github/CONTRIBUTING.md tells to change when the repository has a public address
RELEASE = {
    "replacement = '\\1'\n": f"replacement = '[\\1]({ADDRESS}/blob/v$HFPR_VERSION/\\2)'\n",
}


@pytest.mark.parametrize("address", [ADDRESS, ""])
def test_the_page_of_a_wheel_has_no_relative_links(address: str, tmp_path: Path) -> None:
    """Links are URLs of the repository, or plain text. Commands install from the index.

    The wheel is built from a copy without the models, because packing them takes time.
    """
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "minibert/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    shutil.copytree(CHECKOUT / "configs", tmp_path / "configs")
    if address:
        project = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
        for old, new in RELEASE.items():
            assert project.count(old) == 1
            project = project.replace(old, new)
        (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=120)
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as files:
        assert {"minibert/__init__.py", "minibert/configs/tiny.json"} <= set(files.namelist())
        (name,) = [name for name in files.namelist() if name.endswith("/METADATA")]
        metadata = message_from_string(files.read(name).decode("utf-8"))
    page = str(metadata.get_payload())

    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert targets and all(target.startswith("https://") for target in targets)
    assert any(target.startswith(ADDRESS) for target in targets) == bool(address)
    assert "[]" not in page and "![" not in page
    assert "constraints.txt" not in page and "pip install minibert-torch" in page


def next_files(first: str) -> list[str]:
    """Follow the lines "Next file: ..." of the docstrings, and fail if they go in a circle."""
    path = [first]
    while line := re.search(
        r"^Next file: ([\w/]+\.py)\.",
        ast.get_docstring(ast.parse((CHECKOUT / path[-1]).read_text(encoding="utf-8"))) or "",
        re.MULTILINE,
    ):
        name = line[1]
        # A name without a folder is that of a file in the same one.
        path.append(name if "/" in name else str(Path(path[-1]).with_name(name).as_posix()))
        assert len(path) == len(set(path)), path
    return path


def test_the_lines_of_the_docstrings_lead_through_the_model_as_the_readmes_do() -> None:
    path = next_files("minibert/tokenization/wordpiece.py")
    assert path[-1] == "minibert/heads.py"
    for readme in READMES:
        table = re.findall(r"\]\((minibert/[\w/]+\.py)\)", readme.read_text(encoding="utf-8"))
        assert table == path
    shown = re.search(
        r"The reading path.*?:\n\n(.*?)\n\n",
        (CHECKOUT / "minibert/model.py").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert shown is not None
    assert [f"minibert/{name.strip()}" for name in shown[1].split("->")] == path


def test_the_lines_of_the_docstrings_lead_through_the_tokenizer() -> None:
    folder = CHECKOUT / "minibert" / "tokenization"
    lesson = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert lesson is not None
    names = re.findall(r"^(\w+\.py) ", lesson, re.MULTILINE)
    assert names[0] == "wordpiece.py"  # which the model's path begins with
    assert next_files(f"minibert/tokenization/{names[1]}") == [
        f"minibert/tokenization/{name}" for name in names[1:]
    ]


def test_no_other_file_has_such_a_line() -> None:
    paths = [*next_files("minibert/tokenization/wordpiece.py")]
    paths += next_files("minibert/tokenization/added.py")
    for path in (CHECKOUT / "minibert").rglob("*.py"):
        name = path.relative_to(CHECKOUT).as_posix()
        if "\nNext file: " in path.read_text(encoding="utf-8"):
            assert name in paths


def test_the_reading_order_is_the_import_order() -> None:
    """The READMEs and the docstring of model.py list the modules in import order."""
    order = [name for name in IMPORT_ORDER if name in READING_PATH]
    for text in (
        *(path.read_text(encoding="utf-8") for path in READMES),
        (CHECKOUT / "minibert" / "model.py").read_text(encoding="utf-8"),
    ):
        shown = re.findall(
            r"\b(embeddings|layouts|attention|encoder|model|losses|heads)\.py\b", text
        )
        assert list(dict.fromkeys(shown)) == order
