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

# beginnings and forms of words that American English spells in another way
BRITISH = re.compile(
    r"(?i)\b(?:analys(?:ed|er|ers|ing)\b|artefact|behaviour|catalogue|centre|colour"
    r"|defence|favour|fibre|flavour|fulfil\b|grey|honour|labelled|labelling|learnt\b|licence|metre"
    r"|modelled|modelling|neighbour|programme\b|spelt|travelled"
    r"|(?:capital|categor|custom|equal|final|general|initial|local|maxim|memor|minim|normal|optim"
    r"|organ|parallel|penal|quant|random|recogn|regular|serial|special|standard|summar|symbol"
    r"|synchron|token|util|vector|visual)is(?:e|ed|er|ers|es|ing|ation|ations)\b)"
)
# a test of typing errors, and the name of an attribute of HTML
EXEMPT = ("normalise_embeddings", "aria-labelledby")


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


def docstrings(folder: str) -> Iterator[str]:
    for path in sorted((CHECKOUT / folder).rglob("*.py")):
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


@pytest.mark.parametrize("folder", ["minibert", "scripts", "tests"])
def test_docstrings_have_no_chains(folder: str) -> None:
    assert semicolons_per_word(list(docstrings(folder))) <= 0.003


def test_help_texts_have_no_chains() -> None:
    assert semicolons_per_word(list(helps(build_parser()))) <= 0.003


def semicolons_per_word(texts: list[str]) -> float:
    """Other projects have 0.0 to 0.002."""
    words = sum(len(text.split()) for text in texts)
    return sum(text.count(";") for text in texts) / words


@pytest.mark.parametrize("folder", ["minibert", "scripts", "tests", "docs"])
def test_spelling_is_american(folder: str) -> None:
    found = []
    for path in sorted((CHECKOUT / folder).rglob("*")):
        if path.suffix not in (".py", ".js", ".css", ".html", ".md", ".sh") or path == Path(
            __file__
        ):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            words = BRITISH.findall(re.sub("|".join(EXEMPT), "", line).replace("_", " "))
            found += [f"{path.relative_to(CHECKOUT)}, line {number}: {word}" for word in words]
    assert not found
