"""Settings of the site: the guides, the notebooks, the API and the commands, with Sphinx.

    pip install -c constraints.txt -e '.[dev]'
    sphinx-build -W docs out/docs            English
    sphinx-build -W -t ko docs out/docs/ko   Korean, inside of the English site

A page NAME.md is English and NAME.ko.md its translation, here and on GitHub. Each build has the
pages of one language. The start page is the README, followed by the navigation in index.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pydoc
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.locale import translators
from sphinx.search import SearchLanguage

import minibert
import minibert.cli
from minibert.cli import build_parser, main as minibert_command

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
KOREAN = tags.has("ko")  # noqa: F821
MARK = ".ko" if KOREAN else ""
# such as https://github.com/NAME/minibert; the workflow sets it
REPOSITORY = os.environ.get("DOCS_REPOSITORY", "")

project = "minibert"
author = copyright = "The minibert authors"  # noqa: A001
release = version = minibert.__version__
language = "ko" if KOREAN else "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinxarg.ext",
]
# The first suffix that fits gives a page its name, so parity.ko.md is parity.html in Korean.
source_suffix = {".rst": "restructuredtext", f"{MARK}.md": "myst-nb", f"{MARK}.ipynb": "myst-nb"}
exclude_patterns = ["notebooks/*.md", "README*.md"]
for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]):
    if (".ko." in path.name) != KOREAN:
        exclude_patterns.append(path.relative_to(DOCS).as_posix())

smartquotes = False  # it would turn the -- of options into a dash, and the quotes of examples
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"  # the tests run the notebooks and the examples
nb_merge_streams = True
autodoc_default_options = {"members": True, "inherited-members": "Module,dict,tuple,object"}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autosummary_ignore_module_all = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = False

html_theme = "furo"
html_title = "minibert"
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/language.html",
        "sidebar/search.html",
        "sidebar/learn.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
if REPOSITORY:
    html_theme_options = {
        "source_repository": REPOSITORY,
        "source_branch": "main",
        "source_directory": "docs/",
    }


# [text](file.md#place) and ![text](file.png), but not addresses and places of the same page
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
QUESTION = """
## {number}. {question}

{answer}

<a href="learn.html#ask={id}">{tab}: “{text}”</a>
"""


# at the top of the start page
DOOR = """
```{raw} html
<p><a href="learn.html"><strong>%s</strong></a></p>
```
""" % (
    "글 열기: 브라우저에서 BERT를 직접 움직여 보기"
    if KOREAN
    else "Open the article: a live BERT in your browser"
)


class SearchKorean(SearchLanguage):
    """Indexes Korean words and their beginnings, so that 토큰 finds 토큰은."""

    lang = "ko"
    language_name = "Korean"

    def split(self, text: str) -> list[str]:
        """Returns the words of a text, and what Korean ones begin with, from two syllables on."""
        words = super().split(text)
        korean = [word for word in words if re.match(r"[가-힣]", word)]
        return words + [word[:end] for word in korean for end in range(2, len(word))]


def linked(text: str, folder: Path) -> str:
    """Returns Markdown whose links work on the site.

    Args:
        text: Markdown, whose links work in the repository.
        folder: Folder of the file.
    """

    def link(match: re.Match[str]) -> str:
        image, label, file, place = match.groups(default="")
        path = (folder / file).resolve()
        if path.name in ("README.md", "README.ko.md") and path.parent in (ROOT, DOCS):
            path = DOCS / path.name.replace("README", "index")
        if not path.exists():
            return match[0]
        if path.suffix in (".md", ".ipynb") and path.is_relative_to(DOCS):
            if (".ko." in path.name) == KOREAN:
                return f"[{label}](/{path.relative_to(DOCS)}{place})"
            other = "../" if KOREAN else "ko/"
            page = path.relative_to(DOCS).as_posix().split(".")[0]
            return f'<a href="{other}{page}.html">{label}</a>'
        if image:
            return f"![{label}](/{path.relative_to(DOCS)})"
        if not REPOSITORY:
            return label
        return f"[{label}]({REPOSITORY}/blob/main/{path.relative_to(ROOT)}{place})"

    return LINK.sub(link, text)


def questions() -> str:
    """Returns the questions that the page of `minibert learn` answers, as Markdown."""
    folder = ROOT / "minibert" / "learn" / "page"
    tabs = json.loads((folder / "state" / "words.json").read_text(encoding="utf-8"))[language]
    parts = []
    for number, entry in enumerate(json.loads((folder / "ask" / "questions.json").read_bytes()), 1):
        door = entry["door"][language]
        section = "head.tab" if door["section"] == "head" else door["section"]
        words = {"tab": tabs[section], "text": door["text"], **entry[language]}
        words = {key: re.sub(r"([\\`*_\[\]#<$])", r"\\\1", str(words[key])) for key in words}
        parts.append(QUESTION.format(number=number, id=entry["id"], **words))
    return "".join(parts)


def api() -> str:
    """Returns the page of the public names, in the groups of __init__.pyi, as reStructuredText.

    Names that only the guides import from a module follow. Sphinx makes a page for each name.
    """
    stub = (ROOT / "minibert" / "__init__.pyi").read_text(encoding="utf-8")
    groups = re.split(r"^# (.*)$", stub, flags=re.MULTILINE)[3:]
    guides = "".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md")))
    imports = re.findall(r"^from (minibert\.[\w.]+) import ([\w, ]+)", guides, re.MULTILINE)
    further = [f"{where}.{name}" for where, names in imports for name in names.split(", ")]
    further = [name for name in further if callable(pydoc.locate(name))]
    text = "API\n===\n\nThe public names of ``minibert``, and those that the guides use.\n\n"
    for title, lines in zip(groups[::2], groups[1::2], strict=True):
        names = [f"minibert.{name}" for name in re.findall(r" as (\w+)", lines)]
        text += listing(title, names)
    return text + listing("Further names in the guides", sorted(set(further)))


def listing(title: str, names: list[str]) -> str:
    """Returns a section with a table of names, each of which has a page."""
    rows = "".join(f"   {name}\n" for name in names)
    return f"{title}\n{'-' * len(title)}\n\n.. autosummary::\n   :toctree: api\n\n{rows}\n"


def help_places(parser: argparse.ArgumentParser) -> Iterator[tuple[object, str]]:
    """Yields what holds a text of the help of a parser and of its commands: object, attribute."""
    yield parser, "description"
    for group in parser._action_groups:
        yield group, "title"
        yield group, "description"
    for action in parser._actions:
        yield action, "help"
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield choice, "help"
            for command in action.choices.values():
                yield from help_places(command)


def korean_parser(needed: str | None = None) -> argparse.ArgumentParser:
    """Returns the parser of the command line with the texts of commands_ko.json."""
    texts = json.loads((DOCS / "commands_ko.json").read_text(encoding="utf-8"))
    parser = build_parser(needed)
    for item, name in help_places(parser):
        text = getattr(item, name)
        setattr(item, name, texts.get(text, text))
    return parser


def site_parser(needed: str | None = None) -> argparse.ArgumentParser:
    """Returns the parser of the command line with its texts as reStructuredText.

    In that, `*` begins an emphasis: the hosts "*.example.org" would be one without an end.
    """
    parser = korean_parser(needed) if KOREAN else build_parser(needed)
    for item, name in help_places(parser):
        text = getattr(item, name)
        if text:
            setattr(item, name, text.replace("*", r"\*"))
    return parser


def prepare_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Completes the pages that are made from other files, and changes the links of all pages."""
    if docname == "index":
        readme = ROOT / f"README{MARK}.md"
        title, _, text = readme.read_text(encoding="utf-8").partition("\n")
        source[0] = f"{title}\n{DOOR}" + linked(text, ROOT) + source[0]
    elif docname == "questions":
        source[0] += questions()
    elif not docname.startswith("api"):
        source[0] = linked(source[0], (DOCS / docname).parent)


def prepare_docstring(
    app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Turns the Markdown of docstrings into reStructuredText: code, and indented tables."""
    text = "\n".join(lines)
    text = re.sub(r"^```(\w+)\n(.*?)^```$", code_block, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(.*[ `].*):\n\n((?:    .*\n|\n)+)", literal_block, text, flags=re.MULTILINE)
    text = re.sub(r"(?<![`:])`([^`]+)`(?!`)", r"``\1``", text)
    parts = re.split(r"(``[^`]+``)", text)  # code is between the others, in which test_ is a link
    parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\_", part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def literal_block(match: re.Match[str]) -> str:
    """Returns a line that ends in a colon, and the indented block that it introduces."""
    return f"{match[1]}::\n\n{match[2].replace('`', '')}"


def code_block(match: re.Match[str]) -> str:
    """Returns a fenced block of code as a directive."""
    return f".. code-block:: {match[1]}\n\n{textwrap.indent(match[2], '   ')}"


def add_other_language(
    app: Sphinx, page: str, template: str, context: dict[str, object], doctree: object
) -> None:
    """Tells the template of the language switch whether the page has a translation."""
    other = DOCS / (f"{page}.md" if KOREAN else f"{page}.ko.md")
    context["translated"] = other.exists() or (DOCS / f"{page}.rst").exists()


def write_article(app: Sphinx, error: Exception | None) -> None:
    """Writes the article of `minibert learn`."""
    if error is None and app.builder.name == "html":
        arguments = ["learn", "--lang", language, "--output", str(app.outdir / "learn.html")]
        minibert_command([*arguments, "--force", "--quiet"])


def setup(app: Sphinx) -> None:
    """Connects the functions above to the events of Sphinx."""
    if KOREAN:  # Sphinx's text lacks the space after the name, which reStructuredText needs
        translators["general", "sphinx"]._catalog["alias of %s"] = "%s 의 별칭"
    minibert.cli.build_parser = site_parser  # which the page of the commands calls
    (DOCS / "api.rst").write_text(api(), encoding="utf-8")
    app.add_search_language(SearchKorean)
    app.connect("source-read", prepare_page)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=400)
    app.connect("html-page-context", add_other_language)
    app.connect("build-finished", write_article)
