"""Build the notebooks: every `NAME.md` becomes NAME.en.ipynb and NAME.ko.ipynb, with outputs.

    pip install -c constraints.txt '.[notebooks]'
    python docs/notebooks/build.py [NAME ...]

A source is a sequence of blocks, each opened by a line of its own. `:::en` and `:::ko` hold the
same words in two languages, and `:::code` is shared, so that the two versions cannot drift apart.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
LANGUAGES = ("en", "ko")
TIMEOUT = 7200  # seconds for one cell, on a machine that has much else to do
MAX_HTML = 100_000  # characters of an output that is kept


def notebook(source: Path, language: str) -> nbformat.NotebookNode:
    """Return the notebook of a source in one language, not yet executed."""
    cells = []
    parts = re.split(r"^:::(\w+)\n", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for kind, content in zip(parts[1::2], parts[2::2], strict=True):
        content = content.strip("\n")
        if kind == "code":
            cells.append(nbformat.v4.new_code_cell(content))
        elif kind == language:
            cells.append(nbformat.v4.new_markdown_cell(content))
    for number, cell in enumerate(
        cells
    ):  # the same every time, so that a new build changes only what has changed
        cell["id"] = hashlib.sha256(f"{number} {cell.source}".encode()).hexdigest()[:8]
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )


def execute(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Run all cells with this Python, offline.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell fails.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    options = {"timeout": TIMEOUT, "kernel_name": "python3", "coalesce_streams": True}
    NotebookClient(book, resources={"metadata": {"path": str(HERE)}}, **options).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # the times of this run
        if "outputs" in cell:
            cell.outputs = [
                each for each in cell.outputs if each.get("name") != "stderr"
            ]  # how far training was
        for output in cell.get("outputs", []):
            if len(output.get("data", {}).get("text/html", "")) > MAX_HTML:
                del output["data"][
                    "text/html"
                ]  # a page with a model in it; its text says to run the cell
    book.metadata.pop("language_info", None)  # the version of this Python
    return book


def main(names: list[str]) -> None:
    """Build the named notebooks, or all."""
    for source in sorted(HERE.glob("*.md")):
        if names and source.stem not in names:
            continue
        executed = execute(notebook(source, "en"))
        for language in LANGUAGES:
            book, target = notebook(source, language), HERE / f"{source.stem}.{language}.ipynb"
            for cell, done in zip(book.cells, executed.cells, strict=True):
                if cell.cell_type == "code":  # the code is shared, and so is what it shows
                    cell.outputs, cell.execution_count = done.outputs, done.execution_count
            nbformat.write(book, target)
            print(target.name)


if __name__ == "__main__":
    main(sys.argv[1:])
