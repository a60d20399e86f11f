"""Run the examples of the READMEs and of docs/, and write what they print.

    python scripts/guides.py            names the examples that print something else
    python scripts/guides.py --write    writes what they print into the pages
    python scripts/guides.py --fast     leaves out the slow ones

The blocks of a page run in order, in one folder and one Python session, as a reader would run them:

    ```python   is executed
    ```bash     is executed line by line; `pip install` is left out
    ```text     right behind one of them is what it prints
    ```console  has commands behind "$ ", each followed by what it prints

A comment on the line before a block changes that:

    <!-- not run: WHY -->   it stays as it is
    <!-- slow -->           it runs in the slow tests
    <!-- needs NAME -->     it runs where this module can be imported (NAME, NAME: all of them)

The Korean pages (NAME.ko.md) show the blocks of the English ones.
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
TOLERANCE = 0.002  # another processor may round the last digits otherwise


@dataclass(frozen=True)
class Example:
    """A block of code, and what it prints.

    Attributes:
        language: "python", "bash" or "console".
        code: the block.
        output: what the page says that it prints; None if it says nothing.
        note: the comment before it, or "".
        start: where the output stands in the page, or -1.
    """

    language: str
    code: str
    output: str | None
    note: str
    start: int

    @property
    def is_slow(self) -> bool:
        """Whether it runs in the slow tests only."""
        return self.note == "slow"

    @property
    def missing(self) -> list[str]:
        """The modules that it needs and that are not installed here."""
        kind, _, modules = self.note.partition(" ")
        if kind != "needs":
            return []
        return [name for name in modules.split(", ") if importlib.util.find_spec(name) is None]

    @property
    def is_run(self) -> bool:
        """Whether it can run here."""
        return not self.missing and not self.note.startswith(("not run", "test command"))


def pages(korean: bool = False) -> list[Path]:
    """The READMEs and the guides of a language; all others are made by programs."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    files = [path for path in files if not path.name.endswith(".ko.md")]
    if not korean:
        return files
    translations = [path.with_suffix(".ko.md") for path in files]
    return [path for path in translations if path.exists()]


def examples(page: Path) -> list[Example]:
    """The examples of a page, in order."""
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
    """The name of a heading in links, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


class Session:
    """Runs the examples of a page in the current folder, one after the other."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, example: Example) -> str:
        """Return what an example prints, as a terminal shows it."""
        if example.language == "python":
            printed = _Terminal()
            with redirect_stdout(printed):
                exec(compile(example.code, "<example>", "exec"), self.names)
            return printed.getvalue()
        return "".join(_run_line(line) for line in _lines(example.code))


class _Terminal(io.StringIO):
    """Collects what is printed, and is taken for a terminal."""

    def isatty(self) -> bool:
        return True


def _lines(code: str) -> list[str]:
    """The commands of a block, without installations."""
    lines = code.replace("\\\n", " ").splitlines()
    return [re.sub(r"^pip install [^&#]*(&& )?", "", line).strip() for line in lines]


def _run_line(line: str) -> str:
    """Run a line of shell; minibert runs in this process, which need not import torch again."""
    from minibert.cli import main

    words = shlex.split(line, comments=True)
    if not words:
        return ""
    if words[0] == "minibert" and not SHELL_OPERATORS & set(words):
        printed = _Terminal()
        with redirect_stdout(printed):
            code = main(words[1:])
        if code:
            raise RuntimeError(f"{line} ends with {code}:\n{printed.getvalue()}")
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
    """Whether two outputs agree: the same words, and numbers within the tolerance.

    A line of three dots in what is shown stands for any lines.
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
    """Run all examples of a page; return those that print something else.

    Args:
        page: an English page.
        write: write what they print into it, and into its translation.
        slow: run the slow examples, too.
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
    """Run all pages, or those that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all")
    parser.add_argument("--write", action="store_true", help="write what the examples print")
    parser.add_argument("--fast", action="store_true", help="leave out the slow examples")
    options = parser.parse_args()
    differences = []
    for page in options.pages or pages():
        differences += run_page(page.resolve(), options.write, not options.fast)
    print("\n".join(differences))
    if differences and not options.write:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
