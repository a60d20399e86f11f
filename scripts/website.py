"""Converts the READMEs and the guides to web pages, for `python scripts/docs.py`.

    FOLDER/index.html         README.md (README.ko.html in Korean)
    FOLDER/docs/NAME.html     a page for each guide, with its pictures
    FOLDER/learn.html         the article of `minibert learn` (learn.ko.html in Korean)
    FOLDER/api/               the API reference, which docs.py builds

Links between pages stay within the folder. Links to other files of the repository lead to its
public address, which is set in pyproject.toml. Without an address, they become plain text.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import tomllib
from pathlib import Path

import guides

ROOT = guides.ROOT
STYLE = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.6 system-ui, sans-serif;
  word-break: keep-all; overflow-wrap: break-word; color: #22252b; background: #fbfaf7; }
nav { margin-bottom: 2rem; }
pre { padding: .8rem; overflow-x: auto; background: #efeeea; border-radius: .4rem; }
code { font: 90% ui-monospace, monospace; overflow-wrap: anywhere; }
pre code { overflow-wrap: normal; }
table { display: block; overflow-x: auto; border-collapse: collapse; }
th, td { padding: .3rem .6rem; border: 1px solid #d8d5cc; text-align: left; vertical-align: top; }
img { max-width: 100%; }
a { color: #2f4fb3; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e4de; background: #1c1e22; }
  pre { background: #2a2d33; }
  th, td { border-color: #44484f; }
  a { color: #9db4ff; }
}
"""
PAGE = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
<nav>{navigation}</nav>
{body}
</html>
"""
HOMES = {"en": ("index.html", ".html"), "ko": ("README.ko.html", ".ko.html")}
LABELS = {"en": ("guides", "learn", "API"), "ko": ("가이드", "배우기", "API")}


def write_pages(folder: Path) -> list[Path]:
    """Writes a page for each README and guide, copies the pictures, and returns the pages."""
    sources = [*guides.pages(), *guides.pages(korean=True)]
    address = public_address()
    written = []
    for source in sources:
        target = folder / page_of(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(source, sources, address), encoding="utf-8")
        written.append(target)
    pictures = ROOT / "docs" / "figures"
    shutil.copytree(pictures, folder / "docs" / "figures", dirs_exist_ok=True)
    return written


def page_of(source: Path) -> Path:
    """Returns the path of a page, relative to the folder."""
    if source == ROOT / "README.md":
        return Path("index.html")
    return source.relative_to(ROOT).with_suffix(".html")


def public_address() -> str:
    """Returns the address of the repository in pyproject.toml, or ""."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        hooks = tomllib.load(file)["tool"]["hatch"]["metadata"]["hooks"]
    address: str = hooks["custom"]["address"].rstrip("/")
    return address


def page(source: Path, sources: list[Path], address: str) -> str:
    """Converts a Markdown file to a page.

    Args:
        source: The file.
        sources: All files that become pages.
        address: Address of the repository, or "".
    """
    import markdown2

    text = re.sub(r"^<!-- .* -->\n", "", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    body = markdown2.markdown(
        text, extras=["tables", "fenced-code-blocks", "cuddled-lists", "code-friendly"]
    )

    def link(match: re.Match[str]) -> str:
        target = resolved(html.unescape(match["target"]), source, sources, address)
        if target is None:
            return match["text"]
        return f'<a href="{html.escape(target)}">{match["text"]}</a>'

    body = re.sub(r'<a href="(?P<target>[^"]*)">(?P<text>.*?)</a>', link, body, flags=re.DOTALL)
    body = re.sub(r"<h([1-6])>(.*?)</h\1>", heading, body)
    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    language = "ko" if source.name.endswith(".ko.md") else "en"
    return PAGE.format(
        language=language,
        title=html.escape(title[1] if title else source.stem),
        style=STYLE,
        navigation=navigation(source, language),
        body=body,
    )


def resolved(target: str, source: Path, sources: list[Path], address: str) -> str | None:
    """Resolves the target of a link on a page.

    Returns:
        The target, or None for a file of the repository if the repository has no address.
    """
    if re.match(r"https?://|mailto:|#", target):
        return target
    file, _, place = target.partition("#")
    path = (source.parent / file).resolve()
    if path in sources:
        start = page_of(source).parent
        relative = os.path.relpath(page_of(path), start)
        return f"{relative}#{place}" if place else relative
    if not address:
        return None
    return f"{address}/blob/HEAD/{path.relative_to(ROOT).as_posix()}"


def heading(match: re.Match[str]) -> str:
    """Returns a heading with the id that GitHub generates."""
    level, text = match.groups()
    shown = html.unescape(re.sub(r"<[^>]*>", "", text))
    return f'<h{level} id="{guides.anchor(shown)}">{text}</h{level}>'


def navigation(source: Path, language: str) -> str:
    """Returns the links at the top of a page: home, guides, learn, API."""
    names = LABELS[language]
    home, ending = HOMES[language]
    targets = [home, f"docs/README{ending}", f"learn{ending}", "api/index.html"]
    start = page_of(source).parent
    links = []
    for name, target in zip(("minibert", *names), targets, strict=True):
        links.append(f'<a href="{os.path.relpath(target, start)}">{name}</a>')
    return " · ".join(links)
