"""The page's JavaScript, CSS and HTML are formatted by Prettier and pass ESLint."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from minibert.learn.build import SCRIPTS, WORKER, part

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).parent / "format"
FILES = sorted(
    str(path)
    for path in (ROOT / "minibert/learn").iterdir()
    if path.suffix in (".js", ".css", ".html")
)
BROWSER_NAMES = (
    "Blob CSS WebAssembly DecompressionStream ImageData NodeFilter OffscreenCanvas Response "
    "TextDecoder URL URLSearchParams Worker atob btoa cancelAnimationFrame clearTimeout console "
    "document getComputedStyle history innerHeight innerWidth localStorage location matchMedia "
    "navigator performance requestAnimationFrame sessionStorage setTimeout window postMessage "
    "onmessage"
)


def run(tool: str, *arguments: str, text: str | None = None) -> str:
    """Run a tool and return its report, or skip the test if the tool is not installed."""
    if shutil.which("node") is None:
        pytest.skip("needs Node.js")
    program = TOOLS / "node_modules" / ".bin" / tool
    if not program.exists():
        pytest.skip(f"needs {tool}: npm ci --prefix {TOOLS.relative_to(ROOT)}")
    result = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        input=text,
        timeout=120,
    )
    return "" if result.returncode == 0 else result.stdout + result.stderr


def test_prettier_changes_nothing() -> None:
    assert run("prettier", "--config", str(TOOLS / "package.json"), "--check", *FILES) == ""


def test_eslint_finds_nothing() -> None:
    scripts = [path for path in FILES if path.endswith(".js")]
    assert run("eslint", "--config", str(TOOLS / "eslint.config.js"), *scripts) == ""


@pytest.mark.parametrize("names", [SCRIPTS, WORKER], ids=["page", "worker"])
def test_every_name_is_defined(names: tuple[str, ...]) -> None:
    script = "\n".join(part(f"{name}.js") for name in names)
    options = ["--config", str(TOOLS / "eslint.config.js"), "--rule", "no-undef: error"]
    options += [
        "--rule",
        "no-redeclare: error",
        "--stdin",
        "--stdin-filename",
        "minibert/learn/all.js",
    ]
    for name in BROWSER_NAMES.split():
        options += ["--global", name]
    assert run("eslint", *options, text=script) == ""
