"""The page's JavaScript, CSS and HTML: formatted by Prettier, checked by ESLint and TypeScript."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tests" / "page"


def run(tool: str, *arguments: str) -> str:
    """Run a tool and return its report."""
    if shutil.which("node") is None:
        pytest.fail("needs Node.js 20 or newer: https://nodejs.org, or apt-get install nodejs npm")
    program = TOOLS / "node_modules" / ".bin" / tool
    if not program.exists():
        pytest.fail(f"needs {tool}: npm ci --prefix {TOOLS.relative_to(ROOT)}")
    result = subprocess.run(
        [str(program), *arguments], capture_output=True, encoding="utf-8", cwd=ROOT, timeout=120
    )
    return "" if result.returncode == 0 else result.stdout + result.stderr


def test_prettier_changes_nothing() -> None:
    files = ["minibert/learn/page/**/*.{js,ts,css,html}", "tests/page/*.js"]
    assert run("prettier", "--config", str(TOOLS / "package.json"), "--check", *files) == ""


def test_eslint_finds_nothing() -> None:
    files = ["minibert/learn/page", "tests/page/*.js"]
    assert run("eslint", "--config", str(TOOLS / "eslint.config.js"), *files) == ""


def test_types_fit() -> None:
    """TypeScript checks the types in the comments, strictly."""
    # the types of the language and of the browser come with TypeScript, and take a second to check
    assert run("tsc", "--project", str(TOOLS), "--skipDefaultLibCheck") == ""


def test_the_lock_file_names_no_registry() -> None:
    lock = (TOOLS / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock and '"integrity"' in lock
