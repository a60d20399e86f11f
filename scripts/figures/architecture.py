"""Draws docs/figures/architecture.png and architecture.ko.png, an overview of BERT.

pip install -c constraints.txt '.[plot]'
python scripts/figures/architecture.py
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from languages import INK, PAPER, SOFT, draw_in_both_languages
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

TOKENS = ["[CLS]", "i", "love", "korea", "[SEP]"]
WORDS = {
    "en": {
        "model": "The model",
        "embeddings": "word + segment + position embedding, LayerNorm",
        "layer": "layer {}",
        "pooler": "pooler\n$\\tanh(W h + b)$",
        "sentence": "next sentence,\nclass of the text",
        "token": "a word, a label or a score\nfor every token",
        "one": "One layer",
        "rows": "$h$, a row for each token",
        "heads": "in every head; tokens meet only here",
        "mix": "linear: mix the heads",
        "add": "add $h$, LayerNorm",
        "widen": "feed-forward, each token alone:\nwiden, GELU, narrow",
        "add again": "add, LayerNorm",
        "next": "next $h$",
        "mask": "mask",
    },
    "ko": {
        "model": "모델 전체",
        "embeddings": "단어 + 세그먼트 + 위치 임베딩, LayerNorm",
        "layer": "레이어 {}",
        "pooler": "풀러\n$\\tanh(W h + b)$",
        "sentence": "다음 문장 예측,\n텍스트 분류",
        "token": "토큰마다\n단어, 레이블 또는 점수",
        "one": "레이어 하나",
        "rows": "$h$: 토큰마다 한 행",
        "heads": "헤드마다. 토큰끼리는 여기에서만 섞입니다",
        "mix": "선형 변환: 헤드 섞기",
        "add": "$h$ 더하기, LayerNorm",
        "widen": "피드포워드, 토큰마다 따로:\n늘리기, GELU, 줄이기",
        "add again": "더하기, LayerNorm",
        "next": "다음 $h$",
        "mask": "마스크",
    },
}
BLUE, GREEN, ORANGE, VIOLET, GRAY = "#dbe4fb", "#dcefdf", "#fbe6d4", "#eadff5", "#efeeea"


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
    """Draws a rounded box with centered text. (x, y) is its lower left corner."""
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
    """Draws an arrow. Residual connections are bent."""
    style = f"arc3,rad={bend}"
    patch = FancyArrowPatch(
        start, end, connectionstyle=style, arrowstyle="-|>", mutation_scale=8, color=SOFT, lw=0.9
    )
    axes.add_patch(patch)


def overview(axes: Any, words: Mapping[str, str]) -> None:
    """Draws the left side: the whole model, from the text at the bottom to the heads at the top."""
    axes.text(0, 0.15, '"I love Korea"', fontsize=11, color=INK)
    axes.text(2.55, 0.15, "wordpiece.py, tokenizer.py", fontsize=8, color=SOFT)
    for i, token in enumerate(TOKENS):
        box(axes, i * 1.1, 0.65, 1.0, 0.42, token, GRAY)
        arrow(axes, (i * 1.1 + 0.5, 1.07), (i * 1.1 + 0.5, 1.4))
    box(axes, 0, 1.4, 5.4, 0.62, words["embeddings"], BLUE)
    axes.text(5.5, 1.71, "$h_0$", fontsize=11, color=SOFT, va="center")
    for y, name in ((2.4, "0"), (3.15, "1"), (4.55, "L - 1")):
        box(axes, 0, y, 5.4, 0.5, words["layer"].format(name), GREEN)
    for label, y in (("$h_1$", 2.65), ("$h_2$", 3.4), ("$h_L$ = last_hidden_state", 4.8)):
        axes.text(5.5, y, label, fontsize=11 if len(label) < 8 else 9, color=SOFT, va="center")
    for y, length in ((2.02, 0.38), (2.9, 0.25), (3.65, 0.3), (4.2, 0.3)):
        for i in range(5):
            arrow(axes, (i * 1.1 + 0.5, y), (i * 1.1 + 0.5, y + length))
    axes.text(2.7, 4.08, ". . .", fontsize=12, color=SOFT, ha="center", va="center")
    box(axes, 0, 5.5, 1.55, 0.62, words["pooler"], ORANGE, 8)
    arrow(axes, (0.5, 5.05), (0.5, 5.5))
    box(axes, 0, 6.5, 1.55, 0.62, words["sentence"], VIOLET, 8)
    arrow(axes, (0.5, 6.12), (0.5, 6.5))
    box(axes, 1.85, 6.5, 3.55, 0.62, words["token"], VIOLET, 8)
    for i in range(2, 5):
        arrow(axes, (i * 1.1 + 0.5, 5.05), (i * 1.1 + 0.5, 6.5))
    axes.text(5.5, 6.81, "heads.py", fontsize=8, color=SOFT, va="center")
    axes.text(1.65, 5.58, "model.py", fontsize=8, color=SOFT, va="center")
    axes.text(0.0, 7.35, words["model"], fontsize=12, color=INK, weight="bold")


def one_layer(axes: Any, words: Mapping[str, str]) -> None:
    """Draws the right side, which shows the inside of a layer."""
    x = 8.6
    axes.text(x, 7.35, words["one"], fontsize=12, color=INK, weight="bold")
    box(axes, x, 0.65, 4.6, 0.42, words["rows"], GRAY)
    for i, name in enumerate(("$Q = h W_Q + b_Q$", "$K = h W_K + b_K$", "$V = h W_V + b_V$")):
        box(axes, x + i * 1.6, 1.5, 1.4, 0.46, name, BLUE)
        arrow(axes, (x + i * 1.6 + 0.7, 1.07), (x + i * 1.6 + 0.7, 1.5))
        arrow(axes, (x + i * 1.6 + 0.7, 1.96), (x + i * 1.6 + 0.7, 2.3))
    box(
        axes,
        x,
        2.3,
        4.6,
        0.85,
        f"softmax($Q K^{{\\top}}\\! / \\sqrt{{d}}$ + {words['mask']}) $V$\n{words['heads']}",
        ORANGE,
    )
    box(axes, x, 3.5, 4.6, 0.46, words["mix"], BLUE)
    box(axes, x, 4.3, 4.6, 0.42, words["add"], GRAY)
    box(axes, x, 5.1, 4.6, 0.62, words["widen"], GREEN)
    box(axes, x, 6.05, 4.6, 0.42, words["add again"], GRAY)
    for start, end in ((3.15, 3.5), (3.96, 4.3), (4.72, 5.1), (5.72, 6.05), (6.47, 6.85)):
        arrow(axes, (x + 2.3, start), (x + 2.3, end))
    arrow(axes, (x + 4.6, 0.86), (x + 4.6, 4.51), 0.42)
    arrow(axes, (x + 4.6, 4.6), (x + 4.6, 6.26), 0.42)
    axes.text(x + 2.45, 6.72, words["next"], fontsize=9, color=SOFT, va="center")
    axes.text(x + 5.5, 2.72, "attention.py", fontsize=8, color=SOFT, va="center")
    axes.text(x + 5.1, 5.41, "encoder.py", fontsize=8, color=SOFT, va="center")


def draw(language: str, path: Path) -> None:
    """Draws the picture in one language."""
    figure = Figure(figsize=(11.6, 6.1), facecolor=PAPER)
    axes = figure.add_axes((0.02, 0.01, 0.96, 0.97))
    axes.set_xlim(-0.2, 14.9)
    axes.set_ylim(0, 7.75)
    axes.axis("off")
    overview(axes, WORDS[language])
    one_layer(axes, WORDS[language])
    figure.savefig(path, dpi=130)


def main() -> None:
    """Draws the picture in English, and in Korean if a Korean font is installed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    draw_in_both_languages(draw, "architecture")


if __name__ == "__main__":
    main()
