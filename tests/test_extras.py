"""Extras: the line that installs one works where it is printed, and the other `minibert` is told apart."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import CHECKOUT, python_path

import minibert
from minibert import extras


def test_a_clone_installs_from_itself() -> None:
    """As an editable install, so that a change of the code still has an effect."""
    assert extras.install_line("train") == f"pip install -e '{CHECKOUT}[train]'"


@pytest.mark.parametrize(
    ("made_from", "expected"), [("a clone", "pip install '{clone}[train]'"), ("the index", "")]
)
def test_an_installed_package_remembers_its_clone(
    made_from: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()

    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps({"url": clone.as_uri()}) if made_from == "a clone" else None

    monkeypatch.setattr(
        extras, "__file__", str(tmp_path / "site-packages" / "minibert" / "extras.py")
    )
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    line = extras.install_line("train")
    assert line == (expected.format(clone=clone) or "pip install 'minibert-torch[train]'")


def test_every_extra_that_a_message_names_exists() -> None:
    declared = (
        (CHECKOUT / "pyproject.toml")
        .read_text(encoding="utf-8")
        .split("[project.optional-dependencies]")[1]
    )
    for path in sorted((CHECKOUT / "minibert").rglob("*.py")):
        for call in path.read_text(encoding="utf-8").split("need(")[1:]:
            arguments = call.split(")")[0].split('"')[1::2]
            if path.name != "extras.py" and len(arguments) == 3:
                assert f"\n{arguments[1]} = [" in declared, f"{path} names the extra {arguments[1]}"


def test_the_other_package_is_named_where_a_name_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        return "0.2.2"

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setitem(sys.modules, "minibert.model", None)  # cannot be imported
    with pytest.raises(
        ImportError, match=r"Another package called minibert \(0\.2\.2\) is installed"
    ):
        minibert.BertModel  # noqa: B018


def test_without_the_other_package_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert extras.other_package() == ""


@pytest.mark.parametrize(("installed_last", "code"), [("ours", 0), ("theirs", 1)])
@pytest.mark.needs("symbolic links")
def test_both_packages_in_one_environment(installed_last: str, code: int, tmp_path: Path) -> None:
    """Files of the other minibert (0.2.2) lie among ours; of files that both have, those installed last stay."""
    package = tmp_path / "minibert"
    package.mkdir()
    for path in Path(minibert.__file__).parent.iterdir():
        (package / path.name).symlink_to(path)
    for name in ("activations", "configuration", "modules"):  # theirs alone
        (package / f"{name}.py").write_text(
            "raise ImportError('no module of ours')", encoding="utf-8"
        )
    if installed_last == "theirs":
        for name in ("__init__", "attention", "embeddings"):
            (package / f"{name}.py").unlink()
            (package / f"{name}.py").write_text("class Attention: ...", encoding="utf-8")
    (tmp_path / "minibert-0.2.2.dist-info").mkdir()
    (tmp_path / "minibert-0.2.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: minibert\nVersion: 0.2.2\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "minibert", "tokenize", "I love Korea"]
    environment = python_path(tmp_path)
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=120
    )
    assert run.returncode == code, run.stderr
    if code:
        assert run.stderr.startswith(
            "minibert cannot start. Another package called minibert (0.2.2) is installed"
        )
        assert (
            run.stderr.count("\n") == 1
            and "pip uninstall minibert minibert-torch && pip install " in run.stderr
        )
    else:
        assert "korea" in run.stdout and not run.stderr
