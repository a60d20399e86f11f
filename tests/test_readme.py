"""The README as a package page, and its reading order.

test_guides.py runs its examples and checks its links.
"""

from __future__ import annotations

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


@pytest.mark.parametrize("address", ["https://example.org/me/minibert", ""])
def test_the_page_of_a_wheel_has_no_relative_links(address: str, tmp_path: Path) -> None:
    """Links are absolute URLs of the repository, or plain text. Commands install from the index.

    The wheel is built from a copy without the models, because packing them takes time.
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
    project, replacements = re.subn(
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
        assert {"minibert/__init__.py", "minibert/configs/tiny.json"} <= set(files.namelist())
        (name,) = [name for name in files.namelist() if name.endswith("/METADATA")]
        metadata = message_from_string(files.read(name).decode("utf-8"))
    page = str(metadata.get_payload())
    reference = "HEAD" if ".dev" in metadata["Version"] else f"v{metadata['Version']}"

    targets = re.findall(r"\]\(([^)]+)\)", page)
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert replacements == 1
    assert targets and all(target.startswith("https://") for target in targets)
    assert "[]" not in page and "href=" not in page + readme
    ours = [target.removeprefix(address) for target in targets if address and address in target]
    assert bool(ours) == bool(address)
    for target in ours:
        if not target.startswith("#"):  # "#" starts a section of the repository's front page
            assert re.match(r"/(raw|blob)/", target)
            assert (CHECKOUT / target.split(f"/{reference}/")[1].split("#")[0]).exists(), target
    assert "constraints.txt" not in page and "pip install minibert-torch" in page
    urls = dict(entry.split(", ") for entry in metadata.get_all("Project-URL", []))
    expected = {"Homepage", "Documentation", "Repository", "Changelog", "Issues"}
    assert set(urls) == (expected if address else set())
    assert all(url.startswith(address) for url in urls.values())


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
