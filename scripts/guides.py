"""Runs the examples of the READMEs and of docs/, and updates the output that the pages show.

    python scripts/guides.py            reports examples whose output differs from the page
    python scripts/guides.py --write    writes the output of the examples into the pages
    python scripts/guides.py --fast     skips the slow examples

The blocks of a page run in order, in one folder and one Python session:

    ```python   is executed
    ```bash     is executed line by line, without `pip install`
    ```text     directly after one of them is its output
    ```console  has commands after "$ ", each followed by its output

A comment on the line before a block changes this:

    <!-- not run: WHY -->   The block does not run.
    <!-- slow -->           The block runs in the slow tests only.
    <!-- needs NAME -->     The block runs if the module can be imported. NAME, NAME names several.

The Korean pages (NAME.ko.md) have the same blocks as the English ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?"
    r"```(?P<language>\w+)\n(?P<code>.*?)^```$"
    r"(?:\n\n```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ (?P<code>.*\n)(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")
RUNNABLE = ("python", "bash", "console")
SHELL_OPERATORS = {"|", ">", ">>", "<", "&&", "&", ";"}
TOLERANCE = 0.002  # the last digits can differ between processors


@dataclass(frozen=True)
class Example:
    """A block of code and its output.

    Attributes:
        language: "python", "bash" or "console".
        code: The code.
        output: Output that the page shows, or None.
        note: Comment before the block, or "".
        start: Position of the output in the page, or -1.
    """

    language: str
    code: str
    output: str | None
    note: str
    start: int

    @property
    def is_slow(self) -> bool:
        """Whether the block runs in the slow tests only."""
        return self.note == "slow"

    @property
    def missing(self) -> list[str]:
        """Modules that the block needs and that are not installed."""
        kind, _, modules = self.note.partition(" ")
        if kind != "needs":
            return []
        return [name for name in modules.split(", ") if importlib.util.find_spec(name) is None]

    @property
    def is_run(self) -> bool:
        """Whether the block can run in this environment."""
        return not self.missing and not self.note.startswith(("not run", "test command"))


def pages(korean: bool = False) -> list[Path]:
    """Returns README.md and the guides, or their Korean translations."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    files = [path for path in files if not path.name.endswith(".ko.md")]
    if not korean:
        return files
    translations = [path.with_suffix(".ko.md") for path in files]
    return [path for path in translations if path.exists()]


def examples(page: Path) -> list[Example]:
    """Returns the examples of a page, in order."""
    result = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        language, code, note = block["language"], block["code"], block["note"] or ""
        if language == "console":
            start = block.start("code")
            for match in COMMAND.finditer(code):
                place = start + match.start("output")
                result.append(Example(language, match["code"], match["output"], note, place))
        elif language in RUNNABLE:
            place = block.start("output")
            result.append(Example(language, code, block["output"], note, place))
    return result


def anchor(heading: str) -> str:
    """Returns the id of a heading, as GitHub generates it."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


class Session:
    """Runs the examples of a page in the current folder, with shared variables."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, example: Example) -> str:
        """Runs an example and returns its output."""
        if example.language == "python":
            printed = _Terminal()
            with redirect_stdout(printed):
                exec(compile(example.code, "<example>", "exec"), self.names)
            return printed.getvalue()
        return "".join(_run_line(line) for line in _lines(example.code))


class _Terminal(io.StringIO):
    """Collects output and claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def _lines(code: str) -> list[str]:
    """Returns the commands of a block, without installations."""
    lines = code.replace("\\\n", " ").splitlines()
    return [re.sub(r"^pip install [^&#]*(&& )?", "", line).strip() for line in lines]


def _run_line(line: str) -> str:
    """Runs a shell command.

    minibert runs in this process where possible, so torch is not imported again.
    """
    from minibert.cli import main

    words = shlex.split(line, comments=True)
    if not words:
        return ""
    if words[0] == "minibert" and not SHELL_OPERATORS & set(words):
        printed = _Terminal()
        with redirect_stdout(printed):
            code = main(words[1:])
        if code:
            raise RuntimeError(f"{line} failed with exit code {code}:\n{printed.getvalue()}")
        return printed.getvalue()
    script = f'minibert() {{ "{sys.executable}" -m minibert "$@"; }}\n{line}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    run = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
        timeout=600,
        env=environment,
    )
    return run.stdout


def is_same(printed: str, shown: str) -> bool:
    """Returns whether two outputs agree: the same words, and numbers within the tolerance.

    A line of three dots in `shown` matches any number of lines.
    """
    parts = re.split(r"^\.\.\.\n", NUMBER.sub("0.0", shown), flags=re.MULTILINE)
    pattern = r"(?:.*\n)*?".join(re.escape(part) for part in parts)
    if not re.fullmatch(pattern, NUMBER.sub("0.0", printed)):
        return False
    if len(parts) > 1:
        return True
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return all(abs(float(ours) - float(theirs)) <= TOLERANCE for ours, theirs in pairs)


def run_page(page: Path, write: bool = False, slow: bool = True) -> list[str]:
    """Runs all examples of a page and returns the differences.

    Args:
        page: An English page.
        write: Whether to write the outputs into the page and its translation.
        slow: Whether to run the slow examples.
    """
    differences = []
    session = Session()
    outputs = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for example in examples(page):
            shown = example.output
            if example.is_run and (slow or not example.is_slow):
                printed = session.run(example)
                if shown is not None and not is_same(printed, shown):
                    differences.append(f"{page.name} prints\n{printed}instead of\n{shown}")
                    shown = printed
            outputs.append(shown)
    if write and differences:
        for path in (page, page.with_suffix(".ko.md")):
            if path.exists():
                _write_outputs(path, outputs)
    return differences


def _write_outputs(page: Path, outputs: list[str | None]) -> None:
    text = page.read_text(encoding="utf-8")
    pairs = list(zip(examples(page), outputs, strict=True))
    for example, output in reversed(pairs):
        if example.output is not None and output is not None:
            end = example.start + len(example.output)
            text = text[: example.start] + output + text[end:]
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Runs the examples of all pages, or of those on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="Pages (default: all).")
    parser.add_argument("--write", action="store_true", help="Write the outputs into the pages.")
    parser.add_argument("--fast", action="store_true", help="Skip the slow examples.")
    options = parser.parse_args()
    differences = []
    for page in options.pages or pages():
        differences += run_page(page.resolve(), options.write, not options.fast)
    print("\n".join(differences))
    if differences and not options.write:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
