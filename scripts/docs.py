"""Builds the documentation as a website, in out/docs by default.

    pip install -c constraints.txt . pdoc
    python scripts/docs.py [FOLDER]

The website has the READMEs and guides (website.py), the article of `minibert learn`, and in `api/`
the reference of the public names, from their docstrings. The script fails if a public name has no
docstring, or if a link is broken.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import website

import minibert
from minibert.cli import main as minibert_command

ARTICLES = {"learn.html": "en", "learn.ko.html": "ko"}  # large pages without links to other pages


def undocumented() -> Iterator[str]:
    """Yields the public names without a docstring, of the package and of its classes."""
    for name in minibert.__all__:
        value = getattr(minibert, name)
        if name == "__version__":
            continue
        if not inspect.getdoc(value):
            yield name
        members = vars(value).items() if inspect.isclass(value) else ()
        for member, definition in members:
            if member.startswith("_"):
                continue
            # the function of a property, a class method or a static method
            function = getattr(definition, "fget", None)
            function = function or getattr(definition, "__func__", definition)
            if inspect.isfunction(function) and not inspect.getdoc(function):
                yield f"{name}.{member}"


def broken_links(folder: Path) -> set[str]:
    """Returns the links between pages, or within a page, whose targets do not exist."""
    files = [path.resolve() for path in folder.rglob("*.html") if path.name not in ARTICLES]
    pages = {path: path.read_text(encoding="utf-8") for path in files}
    places = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    broken = set()
    for path, text in pages.items():
        for file, place in re.findall(r'href="([^":#]*\.html)?(?:#([^"]+))?"', text):
            target = (path.parent / file).resolve() if file else path
            if target.name in ARTICLES and target.exists():
                continue
            if target not in places or (place and place not in places[target]):
                broken.add(f"{path.name} -> {file}#{place}")
    return broken


def modules() -> list[str]:
    """Returns the package and the modules that define base classes of its public classes."""
    bases = set()
    for name in minibert.__all__:
        value = getattr(minibert, name)
        if inspect.isclass(value):
            bases |= {base.__module__ for base in value.__mro__}
    bases = {base for base in bases if base.startswith("minibert.")}
    return ["minibert", *sorted(bases)]


def build(folder: Path) -> None:
    """Writes the API reference."""
    import pdoc

    pdoc.render.configure(
        docformat="google", show_source=False, footer_text=f"minibert {minibert.__version__}"
    )
    pdoc.pdoc(*modules(), output_directory=folder)
    for path in folder.rglob("*.html"):
        # private base classes have no entry, so their names stay without a link
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'<a href="[^"]*#_[^"]*">(.*?)</a>', r"\1", text), encoding="utf-8")


def main() -> None:
    """Builds the website and checks it."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/docs")
    build(folder / "api")
    pages = website.write_pages(folder)
    for name, language in ARTICLES.items():
        output = str(folder / name)
        minibert_command(["learn", "--lang", language, "--output", output, "--force", "--quiet"])
    if bare := sorted(undocumented()):
        raise SystemExit(f"Public names without a docstring: {', '.join(bare)}.")
    if broken := sorted(broken_links(folder)):
        raise SystemExit(f"{folder} has broken links: {', '.join(broken)}.")
    names = len(minibert.__all__) - 1
    print(f"{folder / 'index.html'} written: {len(pages)} pages, {names} public names.")


if __name__ == "__main__":
    main()
