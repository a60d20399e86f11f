"""Builds the notebooks: every NAME.md becomes NAME.en.ipynb and NAME.ko.ipynb, with outputs.

    pip install -c constraints.txt '.[notebooks]'
    python docs/notebooks/build.py [NAME ...]

A source is a sequence of blocks. The line before a block is `:::en`, `:::ko` or `:::code`. The text
is there in both languages, and the code is shared, so the two notebooks cannot diverge.
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
TIMEOUT = 7200  # seconds for one cell, enough for a busy machine
MAX_HTML = 100_000  # characters, above which an HTML output is dropped


def notebook(source: Path, language: str) -> nbformat.NotebookNode:
    """Returns the notebook of a source in one language, not yet executed."""
    cells = []
    parts = re.split(r"^:::(\w+)\n", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for kind, content in zip(parts[1::2], parts[2::2], strict=True):
        content = content.strip("\n")
        if kind == "code":
            cells.append(nbformat.v4.new_code_cell(content))
        elif kind == language:
            cells.append(nbformat.v4.new_markdown_cell(content))
    for number, cell in enumerate(cells):
        # deterministic, so a new build changes only the cells that have changed
        cell["id"] = hashlib.sha256(f"{number} {cell.source}".encode()).hexdigest()[:8]
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )


def execute(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Runs all cells with this Python, offline.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell fails.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    options = {"timeout": TIMEOUT, "kernel_name": "python3", "coalesce_streams": True}
    NotebookClient(book, resources={"metadata": {"path": str(HERE)}}, **options).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # the times of this run
        if "outputs" in cell:  # stderr has progress bars
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.get("outputs", []):
            if len(output.get("data", {}).get("text/html", "")) > MAX_HTML:
                # a page that contains a model: its plain text asks the reader to run the cell
                del output["data"]["text/html"]
    book.metadata.pop("language_info", None)  # the version of this Python
    return book


def main(names: list[str]) -> None:
    """Builds the named notebooks, or all."""
    for source in sorted(HERE.glob("*.md")):
        if names and source.stem not in names:
            continue
        executed = execute(notebook(source, "en"))
        for language in LANGUAGES:
            book, target = notebook(source, language), HERE / f"{source.stem}.{language}.ipynb"
            for cell, done in zip(book.cells, executed.cells, strict=True):
                if cell.cell_type == "code":  # both languages share the code and its outputs
                    cell.outputs, cell.execution_count = done.outputs, done.execution_count
            nbformat.write(book, target)
            print(target.name)


if __name__ == "__main__":
    main(sys.argv[1:])
