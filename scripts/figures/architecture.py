"""Draws docs/figures/architecture.png, the README's picture: how a sentence goes through BERT.

pip install -c constraints.txt '.[plot]'
python scripts/figures/architecture.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
TOKENS = ["[CLS]", "i", "love", "korea", "[SEP]"]
INK, SOFT, PAPER = "#22252b", "#666b76", "#fbfaf7"
BLUE, GREEN, ORANGE, VIOLET, GREY = "#dbe4fb", "#dcefdf", "#fbe6d4", "#eadff5", "#efeeea"


def box(
    axes: Any,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str,
    color: str,
    size: float = 9,
) -> None:
    """A rounded box whose lower left corner is at (x, y), with its text in the middle."""
    style = "round,pad=0,rounding_size=0.09"
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle=style, facecolor=color, edgecolor="#b9b6ac", lw=0.8
        )
    )
    axes.text(
        x + width / 2,
        y + height / 2,
        text,
        ha="center",
        va="center",
        fontsize=size,
        color=INK,
        linespacing=1.35,
    )


def arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0
) -> None:
    """An arrow; a bent one is a residual connection."""
    style = f"arc3,rad={bend}"
    patch = FancyArrowPatch(
        start, end, connectionstyle=style, arrowstyle="-|>", mutation_scale=8, color=SOFT, lw=0.9
    )
    axes.add_patch(patch)


def overview(axes: Any) -> None:
    """Left: the whole model, from the text at the bottom to the heads at the top."""
    axes.text(0, 0.15, '"I love Korea"', fontsize=11, color=INK)
    axes.text(2.55, 0.15, "wordpiece.py, tokenizer.py", fontsize=8, color=SOFT)
    for i, token in enumerate(TOKENS):
        box(axes, i * 1.1, 0.65, 1.0, 0.42, token, GREY)
        arrow(axes, (i * 1.1 + 0.5, 1.07), (i * 1.1 + 0.5, 1.4))
    box(axes, 0, 1.4, 5.4, 0.62, "word + segment + position embedding, LayerNorm", BLUE)
    axes.text(5.5, 1.71, "$h_0$", fontsize=11, color=SOFT, va="center")
    for y, name in ((2.4, "layer 0"), (3.15, "layer 1"), (4.55, "layer L - 1")):
        box(axes, 0, y, 5.4, 0.5, name, GREEN)
    for label, y in (("$h_1$", 2.65), ("$h_2$", 3.4), ("$h_L$ = last_hidden_state", 4.8)):
        axes.text(5.5, y, label, fontsize=11 if len(label) < 8 else 9, color=SOFT, va="center")
    for y in (2.02, 2.9, 3.65, 4.2):
        for i in range(5):
            arrow(
                axes,
                (i * 1.1 + 0.5, y),
                (i * 1.1 + 0.5, y + (0.38 if y == 2.02 else 0.25 if y == 2.9 else 0.3)),
            )
    axes.text(2.7, 4.08, ". . .", fontsize=12, color=SOFT, ha="center", va="center")
    box(axes, 0, 5.5, 1.55, 0.62, "pooler\n$\\tanh(W h + b)$", ORANGE, 8)
    arrow(axes, (0.5, 5.05), (0.5, 5.5))
    box(axes, 0, 6.5, 1.55, 0.62, "next sentence,\nclass of the text", VIOLET, 8)
    arrow(axes, (0.5, 6.12), (0.5, 6.5))
    box(axes, 1.85, 6.5, 3.55, 0.62, "a word, a label or a score\nfor every token", VIOLET, 8)
    for i in range(2, 5):
        arrow(axes, (i * 1.1 + 0.5, 5.05), (i * 1.1 + 0.5, 6.5))
    axes.text(5.5, 6.81, "heads.py", fontsize=8, color=SOFT, va="center")
    axes.text(1.65, 5.58, "model.py", fontsize=8, color=SOFT, va="center")
    axes.text(0.0, 7.35, "The model", fontsize=12, color=INK, weight="bold")


def one_layer(axes: Any) -> None:
    """Right: what happens inside a layer."""
    x = 8.6
    axes.text(x, 7.35, "One layer", fontsize=12, color=INK, weight="bold")
    box(axes, x, 0.65, 4.6, 0.42, "$h$, a row for each token", GREY)
    for i, name in enumerate(("$Q = h\\,W_Q$", "$K = h\\,W_K$", "$V = h\\,W_V$")):
        box(axes, x + i * 1.6, 1.5, 1.4, 0.46, name, BLUE)
        arrow(axes, (x + i * 1.6 + 0.7, 1.07), (x + i * 1.6 + 0.7, 1.5))
        arrow(axes, (x + i * 1.6 + 0.7, 1.96), (x + i * 1.6 + 0.7, 2.3))
    box(
        axes,
        x,
        2.3,
        4.6,
        0.85,
        "softmax($Q K^{\\top}\\! / \\sqrt{d}$ + mask) $V$\nin every head; tokens meet only here",
        ORANGE,
    )
    box(axes, x, 3.5, 4.6, 0.46, "linear: mix the heads", BLUE)
    box(axes, x, 4.3, 4.6, 0.42, "add $h$, LayerNorm", GREY)
    box(axes, x, 5.1, 4.6, 0.62, "feed-forward, each token alone:\nwiden, GELU, narrow", GREEN)
    box(axes, x, 6.05, 4.6, 0.42, "add, LayerNorm", GREY)
    for start, end in ((3.15, 3.5), (3.96, 4.3), (4.72, 5.1), (5.72, 6.05), (6.47, 6.85)):
        arrow(axes, (x + 2.3, start), (x + 2.3, end))
    arrow(axes, (x + 4.6, 0.86), (x + 4.6, 4.51), 0.42)
    arrow(axes, (x + 4.6, 4.6), (x + 4.6, 6.26), 0.42)
    axes.text(x + 2.45, 6.72, "next $h$", fontsize=9, color=SOFT, va="center")
    axes.text(x + 5.5, 2.72, "attention.py", fontsize=8, color=SOFT, va="center")
    axes.text(x + 5.1, 5.41, "encoder.py", fontsize=8, color=SOFT, va="center")


def main() -> None:
    """Writes the picture."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    figure = Figure(figsize=(11.6, 6.1), facecolor=PAPER)
    axes = figure.add_axes((0.02, 0.01, 0.96, 0.97))
    axes.set_xlim(-0.2, 14.9)
    axes.set_ylim(0, 7.75)
    axes.axis("off")
    overview(axes)
    one_layer(axes)
    figure.savefig(FIGURES / "architecture.png", dpi=130)


if __name__ == "__main__":
    main()
