"""The README as a package page, and its reading order."""

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
