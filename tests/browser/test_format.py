"""The page's JavaScript, CSS and HTML are formatted by Prettier and pass ESLint."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).parent / "format"


def run(tool: str, *arguments: str) -> str:
    """Run a tool and return its report, or skip the test if the tool is not installed."""
    if shutil.which("node") is None:
        pytest.skip("needs Node.js")
    program = TOOLS / "node_modules" / ".bin" / tool
    if not program.exists():
        pytest.skip(f"needs {tool}: npm ci --prefix {TOOLS.relative_to(ROOT)}")
    result = subprocess.run(
        [str(program), *arguments], capture_output=True, encoding="utf-8", cwd=ROOT, timeout=120
    )
    return "" if result.returncode == 0 else result.stdout + result.stderr


def test_prettier_changes_nothing() -> None:
    config = str(TOOLS / "package.json")
    files = "minibert/learn/page/**/*.{js,css,html}"
    assert run("prettier", "--config", config, "--check", files) == ""


def test_eslint_finds_nothing() -> None:
    assert run("eslint", "--config", str(TOOLS / "eslint.config.js"), "minibert/learn/page") == ""
