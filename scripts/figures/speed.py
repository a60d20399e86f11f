"""Draws docs/figures/speed.png and speed.ko.png from two columns of docs/benchmarks.md.

pip install -c constraints.txt '.[plot]'
python scripts/figures/speed.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from languages import INK, PAPER, SOFT, draw_in_both_languages
from matplotlib.figure import Figure

# the kinds of processors: color, name in English and in Korean
PROCESSORS = [
    ("#3b6ea8", "AVX-512 (Zen 5, November 25, 2026)", "AVX-512 (Zen 5, 2026년 11월 25일)"),
    ("#9ab8d8", "AVX2 alone (Zen 3, November 27, 2026)", "AVX2만 (Zen 3, 2026년 11월 27일)"),
]
# name of the work in English and in Korean, peer, and the ratio to it on each kind of processor
RATIOS: list[tuple[str, str, str, tuple[float, float]]] = [
    ("load a base-size checkpoint", "base 크기 체크포인트 불러오기", "transformers", (5.7, 7.0)),
    ("sentence vectors, int8", "문장 벡터, int8", "sentence-transformers, fp32", (4.9, 2.9)),
    ("pre-train minibert-en, fp32", "minibert-en 사전 학습, fp32", "transformers", (4.2, 2.8)),
    ("fine-tune MiniLM on SST-2", "SST-2로 MiniLM 파인튜닝", "transformers", (3.5, 2.1)),
    ("sentence vectors, fp32", "문장 벡터, fp32", "sentence-transformers, fp32", (3.0, 1.6)),
    ("base size, 8 x 128 tokens, fp32", "base 크기, 8 x 128토큰, fp32", "transformers", (2.2, 1.0)),
    ("base size, 8 x 128 tokens, fp32", "base 크기, 8 x 128토큰, fp32", "ONNX Runtime", (1.1, 1.0)),
    ("base size, 1 x 16 tokens, fp32", "base 크기, 1 x 16토큰, fp32", "transformers", (2.6, 1.5)),
    ("base size, 1 x 16 tokens, fp32", "base 크기, 1 x 16토큰, fp32", "ONNX Runtime", (1.0, 0.6)),
    ("base size, 1 x 16 tokens, fp32", "base 크기, 1 x 16토큰, fp32", "OpenVINO", (1.0, 0.7)),
]
LABELS = {
    "en": "times as fast as the peer (two threads)",
    "ko": "비교 대상 대비 속도(배), 스레드 2개",
}


def draw(language: str, path: Path) -> None:
    """Draws a bar for each ratio. The line is at 1, where both are equally fast."""
    figure = Figure(figsize=(8.6, 5.2), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor(PAPER)
    rows = RATIOS[::-1]
    for column, (color, *names) in enumerate(PROCESSORS):
        ratios = [row[3][column] for row in rows]
        places = [row + 0.2 - 0.4 * column for row in range(len(rows))]
        label = names[0] if language == "en" else names[1]
        axes.barh(places, ratios, color=color, height=0.36, label=label)
        for place, ratio in zip(places, ratios, strict=True):
            axes.text(ratio + 0.06, place, f"{ratio:.1f}x", va="center", color=INK, fontsize=8)
    works = [row[0] if language == "en" else row[1] for row in rows]
    labels = [f"{work}\n{row[2]}" for work, row in zip(works, rows, strict=True)]
    axes.set_yticks(range(len(rows)), labels, fontsize=8, color=INK)
    axes.axvline(1, color=SOFT, linewidth=1)
    axes.set_xlabel(LABELS[language], fontsize=9, color=INK)
    axes.set_xlim(0, 7.8)
    axes.legend(loc="lower right", fontsize=8, frameon=False, labelcolor=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, colors=SOFT)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Draws the picture in English, and in Korean if a Korean font is installed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    draw_in_both_languages(draw, "speed")


if __name__ == "__main__":
    main()
