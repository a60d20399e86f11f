"""Runs the examples of the READMEs and guides with Sybil, as tests of the file they stand in.

    python -m pytest README.md docs/training.md
    python -m pytest README.md docs --update-examples    writes what they print, in both languages

The blocks of a page run in order, in a folder of their own and one Python session:

    ```python   is executed
    ```bash     is executed line by line, without `pip install`
    ```text     directly after one of them is its output
    ```console  has commands after "$ ", each followed by its output

A comment on the line before a block changes this:

    <!-- not run: WHY -->   The block does not run.
    <!-- slow -->           The block is a slow test.
    <!-- needs NAME -->     The block runs if the module can be imported. NAME, NAME names several.

The Korean pages have the same blocks, which tests/test_docs.py checks. The English ones run.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sybil import Document, Example, Region, Sybil

# Only the tests in tests/hub may use the network.
os.environ["HF_HUB_OFFLINE"] = "1"

# argparse would look for translations of its words on the disk, in each parser that is made.
os.environ["LANGUAGE"] = "C"

# Each worker has one core, and so do the processes that it starts. More threads than cores only
# wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Looking for garbage in what is imported takes seconds: pytest_collection_finish turns this on.
gc.disable()

ROOT = Path(__file__).resolve().parent
BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?"
    r"```(?P<language>python|bash|console)\n(?P<code>.*?)^```$"
    r"(?:\n\n```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ (?P<code>.*\n)(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")
SHELL_OPERATORS = {"|", ">", ">>", "<", "&&", "&", ";"}
TOLERANCE = 0.002  # the last digits can differ between processors


@dataclass
class Block:
    """Code of a page, and the output that the page shows, if any."""

    language: str
    code: str
    output: str | None
    note: str
    has_run: bool = False
    printed: str | None = None  # None if it raised


class Terminal(io.StringIO):
    """Collects output and claims to be a terminal."""

    def isatty(self) -> bool:
        """Returns True."""
        return True


def blocks(document: Document) -> Iterator[Region]:
    """Yields the examples of a page. Each command of a console block is one."""
    for block in BLOCK.finditer(document.text):
        language, note = block["language"], block["note"] or ""
        parts = COMMAND.finditer(block["code"]) if language == "console" else [block]
        for part in parts:
            start = part.start("code") + (block.start("code") if part is not block else 0)
            end = part.end() + (block.start("code") if part is not block else 0)
            parsed = Block(language, part["code"], part["output"], note)
            yield Region(start, end, parsed, evaluate)


def evaluate(example: Example) -> str | None:
    """Runs an example once, after those before it that have not run, and compares its output.

    In random order, it has run if a later one was first.
    """
    block: Block = example.parsed
    if reason := why_not(block):
        pytest.skip(reason)
    for earlier in example.document.examples():
        other: Block = earlier.parsed
        if earlier.start < example.start and not (
            other.has_run or other.note == "slow" or why_not(other)
        ):
            earlier.evaluate()
    block.has_run = True
    if block.printed is None:
        block.printed = run(block, example.namespace)
    if block.output is None or is_same(block.printed, block.output):
        return None
    shown, block.output = block.output, block.printed  # which --update-examples writes
    return f"{block.code}prints\n{block.printed}instead of\n{shown}"


def why_not(block: Block) -> str:
    """Returns why a block does not run here, or ""."""
    kind, _, modules = block.note.partition(" ")
    missing = [
        name
        for name in modules.split(", ")
        if kind == "needs" and importlib.util.find_spec(name) is None
    ]
    if missing:
        return f"needs {', '.join(missing)}: 'clients' in tests/README.md"
    return block.note if block.note.startswith(("not run", "test command")) else ""


def run(block: Block, names: dict[str, Any]) -> str:
    """Runs a block and returns what it prints to stdout."""
    if block.language == "python":
        with redirect_stdout(Terminal()) as printed:
            exec(compile(block.code, "<example>", "exec"), names)
        return printed.getvalue()
    lines = block.code.replace("\\\n", " ").splitlines()
    return "".join(run_line(re.sub(r"^pip install [^&#]*(&& )?", "", line)) for line in lines)


def run_line(line: str) -> str:
    """Runs a shell command, in this process if it is minibert alone: torch loads slowly."""
    from minibert.cli import main

    words = shlex.split(line, comments=True)
    if not words:
        return ""
    if words[0] == "minibert" and not SHELL_OPERATORS & set(words):
        with redirect_stdout(Terminal()) as printed:
            code = main(words[1:])
        assert not code, f"{line} ends with {code}:\n{printed.getvalue()}"
        return printed.getvalue()
    script = f'minibert() {{ "{sys.executable}" -m minibert "$@"; }}\n{line}'
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, stdout=subprocess.PIPE, encoding="utf-8", check=True, env=environment
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


def begin_page(names: dict[str, Any]) -> None:
    """Enters the page's folder, empty at first, with a terminal of 80 columns and no browser.

    In random order, a page is left and entered again.
    """
    import torch

    torch.manual_seed(0)
    patch = pytest.MonkeyPatch()
    patch.setattr("webbrowser.open", lambda address: True)
    patch.setenv("MPLBACKEND", "agg")
    patch.setenv("COLUMNS", "80")
    stack = ExitStack()
    stack.callback(patch.undo)
    folder = names.setdefault("_folder", tempfile.TemporaryDirectory())  # removed at exit
    stack.enter_context(chdir(folder.name))
    names.update(__name__="__main__", _end_page=stack.close)


def end_page(names: dict[str, Any]) -> None:
    """Leaves the folder."""
    names["_end_page"]()


pytest_collect_file = Sybil(
    [blocks],
    patterns=["README.md", "docs/*.md"],
    excludes=["docs/*/*", "*.ko.md", ".*/*", "scripts/*", "tests/*", "*/*/README.md"],
    setup=begin_page,
    teardown=end_page,
).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that writes outputs."""
    parser.addoption("--update-examples", action="store_true", help="write outputs into the pages")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the slow examples."""
    for item in items:
        example = getattr(item, "example", None)
        if example is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            if example.parsed.note == "slow":
                item.add_marker(pytest.mark.slow)
                item.add_marker(pytest.mark.timeout(1800))


def pytest_collection_finish() -> None:
    """Leaves what was imported out of all garbage collections, also in forked processes."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the outputs that differ, if the option is there."""
    if not session.config.getoption("--update-examples"):
        return
    documents = {item.example.document for item in session.items if hasattr(item, "example")}
    for document in documents:
        parsed = [example.parsed for example in document.examples()]
        if not any(block.has_run for block in parsed):
            continue
        outputs = [block.output for block in parsed]
        for page in (Path(document.path), Path(document.path).with_suffix(".ko.md")):
            if page.exists():
                write_outputs(page, outputs)


def write_outputs(page: Path, outputs: list[str | None]) -> None:
    """Writes the outputs of the examples of a page."""
    document = Document.parse(str(page), blocks)
    text = document.text
    pairs = zip(document.examples(), outputs, strict=True)
    for example, output in reversed(list(pairs)):
        shown = example.parsed.output
        if shown is not None and output is not None and shown != output:
            start = text.rindex(shown, example.start, example.end)
            text = text[:start] + output + text[start + len(shown) :]
    page.write_text(text, encoding="utf-8")
