"""Summaries for a person at a terminal, where programs get every number."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_SHOWN = 8  # texts in the table, which has as many columns
_WIDTH = 32  # columns for a text


def describe_vectors(texts: Sequence[str], vectors: NDArray[np.float32], count: int) -> str:
    """Shape, the first numbers of each vector, and the table of cosines: what says at a glance whether it worked.

    Of `count` texts these are the first, at most `MAX_SHOWN`, and their vectors, (len(texts), D).
    """
    from minibert.sentences.search import similarity

    lines = [f"{count} x {vectors.shape[1]} numbers; --json, --out FILE or a pipe gives all of them", ""]
    for number, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        first = "  ".join(f"{value:7.4f}" for value in vector[:4].tolist())
        lines.append(f"{number:>3}  {_fit(text, _WIDTH)}  {first}  ...")
    if count > len(texts):
        lines.append(f"     and {count - len(texts)} more")
    if len(texts) > 1:
        lines += ["", "cosines" + "".join(f"{number:>8}" for number in range(len(texts)))]
        for number, row in enumerate(similarity(vectors, vectors).tolist()):
            lines.append(f"{number:>7}" + "".join(f"{value:>8.3f}" for value in row))
    return "\n".join(lines)


def _fit(text: str, width: int) -> str:
    """The text in exactly `width` columns of a terminal, where Hangul and ideographs take two."""
    text = " ".join(text[:200].split())
    if _columns(text) > width:
        while _columns(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - _columns(text))


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def draw_curve(name: str, steps: Sequence[int], values: Sequence[float], width: int = 60, height: int = 8) -> str:
    """A curve in lines of text: the mean of the values in each column, the lowest and the highest written beside it."""
    columns: dict[int, list[float]] = {}
    for step, value in zip(steps, values, strict=True):
        columns.setdefault((step - steps[0]) * (width - 1) // max(1, steps[-1] - steps[0]), []).append(value)
    means = {column: sum(found) / len(found) for column, found in columns.items()}
    low, high = min(means.values()), max(means.values())
    rows = {column: round((mean - low) / ((high - low) or 1) * (height - 1)) for column, mean in means.items()}
    lines = [name]
    for row in reversed(range(height)):
        label = {height - 1: f"{high:.4g}", 0: f"{low:.4g}"}.get(row, "")
        lines.append(f"{label:>10} | " + "".join("*" if rows.get(x) == row else " " for x in range(width)).rstrip())
    return "\n".join([*lines, f"{'step':>10}   {steps[0]:,}{steps[-1]:>{width - len(f'{steps[0]:,}')},}"])
