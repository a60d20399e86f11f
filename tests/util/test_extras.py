"""Extras: the command that installs one."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import CHECKOUT

from minibert.util import extras


def test_a_clone_installs_from_itself() -> None:
    """The install is editable, so that changes of the code take effect."""
    assert extras.install_line("train") == f"pip install -e '{CHECKOUT}[train]'"


@pytest.mark.parametrize(
    ("origin", "expected"), [("a clone", "pip install '{clone}[train]'"), ("the index", "")]
)
def test_an_installed_package_remembers_its_clone(
    origin: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()

    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps({"url": clone.as_uri()}) if origin == "a clone" else None

    monkeypatch.setattr(
        extras, "__file__", str(tmp_path / "site-packages" / "minibert" / "util" / "extras.py")
    )
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    line = extras.install_line("train")
    assert line == (expected.format(clone=clone) or "pip install 'minibert-torch[train]'")


def extras_of_messages() -> set[str]:
    """Return the extras that calls of `need` name."""
    named = set()
    for path in (CHECKOUT / "minibert").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id == "need":
                    named.add(ast.literal_eval(node.args[1]))
    return named


def test_every_extra_that_a_message_names_exists() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    named = extras_of_messages()
    assert "train" in named
    # "" is for what the dependencies bring themselves, such as torch's jinja2
    assert named - {""} <= project["project"]["optional-dependencies"].keys()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ImportError('libbroken.so.3: cannot open shared object file')", "libbroken.so.3"),
        ("import no_such_part_of_it", "No module named 'no_such_part_of_it'"),
        ("from json import nothing", "cannot import name 'nothing'"),
    ],
)
def test_a_broken_package_is_not_called_missing(
    code: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match=reason) as caught:
        extras.need("broken_package", "serve", "This")
    assert "not installed" not in str(caught.value) and caught.value.__cause__ is not None
    with pytest.raises(ImportError, match="which is not installed: pip install"):
        extras.need("no_such_package", "serve", "This")


def test_a_module_of_util_is_imported_by_its_package() -> None:
    """Python asks the package for the name first, which has advice for some names."""
    code = "from minibert.util import devices; print(devices.__name__)"
    run = [sys.executable, "-c", code]
    assert subprocess.check_output(run, encoding="utf-8").strip() == "minibert.util.devices"
