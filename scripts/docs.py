"""Build the documentation as a folder of web pages that can be published as it is: out/docs/index.html.

    pip install -c constraints.txt . pdoc
    python scripts/docs.py [FOLDER]

It has the READMEs and guides (website.py), the article of `minibert learn`, and in `api/` the reference of the public
names from their docstrings. Fails on a public name without a docstring and on a link that leads nowhere.
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

ARTICLES = {"learn.html": "en", "learn.ko.html": "ko"}  # large pages without links to the others


def undocumented() -> Iterator[str]:
    """Public names without a docstring: those of the package, and what their classes define themselves."""
    for name in minibert.__all__:
        value = getattr(minibert, name)
        if name == "__version__":
            continue
        if not inspect.getdoc(value):
            yield name
        members = vars(value).items() if inspect.isclass(value) else ()
        for member, definition in members:
            function = getattr(definition, "fget", None) or getattr(
                definition, "__func__", definition
            )
            if (
                not member.startswith("_")
                and inspect.isfunction(function)
                and not inspect.getdoc(function)
            ):
                yield f"{name}.{member}"


def broken_links(folder: Path) -> set[str]:
    """Links from page to page, or within one, that lead nowhere."""
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
    """The package, and the modules whose classes the public ones inherit from."""
    classes = (c for name in minibert.__all__ if inspect.isclass(c := getattr(minibert, name)))
    bases = {
        base.__module__
        for c in classes
        for base in c.__mro__
        if base.__module__.startswith("minibert.")
    }
    return ["minibert", *sorted(bases)]


def build(folder: Path) -> None:
    """Writes the reference."""
    import pdoc

    pdoc.render.configure(
        docformat="google", show_source=False, footer_text=f"minibert {minibert.__version__}"
    )
    pdoc.pdoc(*modules(), output_directory=folder)
    for path in folder.rglob(
        "*.html"
    ):  # private bases have no entry: their names stay, without a link
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'<a href="[^"]*#_[^"]*">(.*?)</a>', r"\1", text), encoding="utf-8")


def main() -> None:
    """Builds and checks."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/docs")
    build(folder / "api")
    pages = website.write_pages(folder)
    for name, language in ARTICLES.items():
        output = str(folder / name)
        minibert_command(["learn", "--lang", language, "--output", output, "--force", "--quiet"])
    if bare := sorted(undocumented()):
        raise SystemExit(f"Public names without a docstring: {', '.join(bare)}.")
    if broken := sorted(broken_links(folder)):
        raise SystemExit(f"{folder} has links that lead nowhere: {', '.join(broken)}.")
    names = len(minibert.__all__) - 1
    print(f"{folder / 'index.html'} written: {len(pages)} pages, {names} public names.")


if __name__ == "__main__":
    main()
