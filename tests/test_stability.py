"""The lists of docs/stability.md. `python tests/test_stability.py` writes them anew."""

from __future__ import annotations

import itertools
import re
import textwrap
from pathlib import Path

import pytest

import minibert
from minibert.checkpoints.source import Source
from minibert.cli import EXIT_CODES, build_parser
from minibert.cli.parser import Parser
from minibert.serving.app import create_app
from minibert.serving.models import load_served

CHECKOUT = Path(__file__).resolve().parent.parent
PAGES = [CHECKOUT / "docs" / name for name in ("stability.md", "stability.ko.md")]


def names() -> str:
    public = [name for name in minibert.__all__ if not name.startswith("_")]
    return textwrap.fill(" ".join(public), 100)


def parsers(parser: Parser, name: str) -> dict[str, Parser]:
    """Return every command below a parser, by what is typed."""
    found = {}
    for word, command in parser.commands.items():
        found.update(parsers(command, f"{name} {word}") or {f"{name} {word}": command})
    return found


def commands() -> str:
    """Options of all commands, then each command with its own."""
    options = {
        name: sorted(option for option in parser.options_by_name() if option.startswith("--"))
        for name, parser in parsers(build_parser(), "minibert").items()
    }
    lines = []
    for name, own in options.items():
        line = f"{name}: {' '.join(own)}"
        lines += textwrap.wrap(line, 100, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def routes() -> str:
    app = create_app(
        [
            load_served(
                "tiny", Source.of("minibert-tiny"), max_wait_ms=0, max_tokens=1, max_pending=1
            )
        ]
    )
    found = {
        f"{method.upper()} {path}"
        for path, operations in app.openapi()["paths"].items()
        for method in operations
    }
    return "\n".join(sorted(found, key=lambda route: route.split()[::-1]))


def lists() -> list[str]:
    """Return the blocks of the page, in their order."""
    return [names(), commands(), EXIT_CODES.replace(", ", "\n"), routes()]


def with_lists(page: str) -> str:
    """Return a page with the lists of the package in its blocks."""
    parts = re.split(r"```text\n.*?```", page, flags=re.DOTALL)
    blocks = [f"```text\n{block}\n```" for block in lists()]
    pairs = itertools.zip_longest(parts, blocks, fillvalue="")
    return "".join(itertools.chain.from_iterable(pairs))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_lists_are_those_of_the_package(page: Path) -> None:
    pytest.importorskip("fastapi")
    text = page.read_text(encoding="utf-8")
    assert text == with_lists(text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_lists(page.read_text(encoding="utf-8")), encoding="utf-8")
