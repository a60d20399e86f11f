"""What is shown to a person at a terminal, where programs get every number."""

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

    Args:
        texts: the first texts, at most `MAX_SHOWN`.
        vectors: theirs, (len(texts), D).
        count: how many texts there are in all.
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
