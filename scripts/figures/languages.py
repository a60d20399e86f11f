"""Folder, colors and fonts of the figures, which are drawn in English and in Korean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib import font_manager, rcParams

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
INK = "#22252b"
SOFT = "#666b76"
PAPER = "#fbfaf7"
KOREAN_FONTS = ("Noto Sans CJK KR", "NanumGothic", "Apple SD Gothic Neo", "Malgun Gothic")


def draw_in_both_languages(draw: Callable[[str, Path], None], name: str) -> None:
    """Draws a picture in English, and in Korean if a Korean font is installed.

    Args:
        draw: Function of the language, "en" or "ko", and the path of the picture.
        name: File name of the picture, without extension.
    """
    draw("en", FIGURES / f"{name}.png")
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = [font for font in KOREAN_FONTS if font in installed]
    if not fonts:
        print(f"{name}.ko.png is not drawn: no Korean font is installed")
        return
    rcParams["font.family"] = fonts[0]
    draw("ko", FIGURES / f"{name}.ko.png")
