"""Draws docs/figures/speed.png and speed.ko.png from the Zen 4 column of docs/benchmarks.md.

pip install -c constraints.txt '.[plot]'
python scripts/figures/speed.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

from languages import INK, PAPER, SOFT, draw_in_both_languages
from matplotlib.figure import Figure

FASTER = "#3b6ea8"
SLOWER = "#c9753d"
# name of the work in English and in Korean, peer, and ratio to it
RATIOS = [
    ("load a base-size checkpoint", "base 크기 체크포인트 불러오기", "transformers", 7.5),
    ("tokenize 60,000 lines", "60,000줄 토큰화", "tokenizers, 1 thread", 4.1),
    ("sentence vectors, int8", "문장 벡터, int8", "sentence-transformers, fp32", 4.0),
    ("fine-tune MiniLM on SST-2", "SST-2로 MiniLM 파인튜닝", "transformers", 2.3),
    ("sentence vectors, fp32", "문장 벡터, fp32", "sentence-transformers, fp32", 1.9),
    ("base size, 8 x 128 tokens, fp32", "base 크기, 8 x 128토큰, fp32", "transformers", 1.3),
    ("base size, 8 x 128 tokens, fp32", "base 크기, 8 x 128토큰, fp32", "ONNX Runtime", 1.2),
    ("base size, 1 x 16 tokens, fp32", "base 크기, 1 x 16토큰, fp32", "OpenVINO", 0.9),
]
LABELS = {
    "en": "times as fast as the peer (Zen 4, two threads)",
    "ko": "비교 대상 대비 속도(배), Zen 4, 스레드 2개",
}


def draw(language: str, path: Path) -> None:
    """Draws a bar for each ratio. Ratios below 1 have another color."""
    figure = Figure(figsize=(8.6, 3.5), facecolor=PAPER, layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor(PAPER)
    rows = RATIOS[::-1]
    ratios = [row[3] for row in rows]
    colors = [FASTER if ratio >= 1 else SLOWER for ratio in ratios]
    axes.barh(range(len(rows)), ratios, color=colors, height=0.62)
    for i, ratio in enumerate(ratios):
        axes.text(ratio + 0.08, i, f"{ratio:.1f}x", va="center", color=INK, fontsize=9)
    names = [row[0] if language == "en" else row[1] for row in rows]
    peers = [row[2] for row in rows]
    if language == "ko":
        peers = [peer.replace("1 thread", "스레드 1개") for peer in peers]
    labels = [f"{name}\n{peer}" for name, peer in zip(names, peers, strict=True)]
    axes.set_yticks(range(len(rows)), labels, fontsize=8, color=INK)
    axes.axvline(1, color=SOFT, linewidth=1)
    axes.set_xlabel(LABELS[language], fontsize=9, color=INK)
    axes.set_xlim(0, max(ratios) + 0.8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, colors=SOFT)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Draws the picture in English, and in Korean if a Korean font is installed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    draw_in_both_languages(draw, "speed")


if __name__ == "__main__":
    main()
