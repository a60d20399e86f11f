"""The prose: short sentences without semicolon chains, and a README of one page."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CHECKOUT

from minibert.cli import build_parser

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
ENGLISH = [page for page in PAGES if not page.name.endswith(".ko.md")]


def prose(markdown: str) -> list[str]:
    """Return the paragraphs and list items, without code, tables, headings and link targets."""
    markdown = re.sub(r"<!--.*?-->", "", markdown, flags=re.DOTALL)
    markdown = re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)
    lines = [
        "" if line.startswith(("|", "#", "![", "[![")) else line for line in markdown.split("\n")
    ]
    blocks = re.split(r"\n\s*\n|\n(?=[-*] |\d+\. )", "\n".join(lines))
    texts = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block) for block in blocks]
    return [re.sub(r"`[^`]*`", "code", text) for text in texts if text.strip()]


def sentences(texts: list[str]) -> list[list[str]]:
    """Return the words of each sentence."""
    parts = [part for text in texts for part in re.split(r"(?<=[.!?])[\"”)]*\s+", text)]
    return [words for words in (re.findall(r"\w[\w'.-]*", part) for part in parts) if words]


def docstrings() -> Iterator[str]:
    for path in sorted((CHECKOUT / "minibert").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds):
                yield ast.get_docstring(node) or ""


def helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from helps(command)
        elif action.help and action.help != argparse.SUPPRESS:
            yield action.help


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_a_page_has_short_sentences(page: Path) -> None:
    texts = prose(page.read_text(encoding="utf-8"))
    assert not [text for text in texts if ";" in text]
    lengths = [len(words) for words in sentences(texts)]
    assert sum(lengths) / len(lengths) <= 18
    assert max(lengths) <= 35


def test_the_readme_is_one_page() -> None:
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 170
    assert sum(len(words) for words in sentences(prose(text))) <= 1200
    assert sum(line.startswith("|") for line in text.splitlines()) <= 25


def test_docstrings_and_help_texts_have_no_chains() -> None:
    """There are at most 0.3 semicolons per 100 words. Other projects have 0.0 to 0.2."""
    for texts in (list(docstrings()), list(helps(build_parser()))):
        words = sum(len(text.split()) for text in texts)
        assert sum(text.count(";") for text in texts) <= 0.003 * words
