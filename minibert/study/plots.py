"""Pictures of what a model does, as matplotlib figures to show, save or change (extra `[plot]`).

Nothing is shown or saved here, and no global state of matplotlib is touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from minibert.extras import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KOREAN_FONTS = (
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
    "AppleGothic",
)


def plot_attention(tokens: Sequence[str], probabilities: Tensor) -> Figure:
    """Heat maps of attention, one for each head: queries down, keys across.

    Args:
        tokens: the tokens of the sequence.
        probabilities: of one layer and one sequence, (heads, seq, seq), or of one head, (seq, seq).

    Raises:
        ImportError: matplotlib is not installed; says what to install.
        ValueError: probabilities of another shape.
    """
    seq = len(tokens)
    if probabilities.dim() not in (2, 3) or probabilities.shape[-2:] != (seq, seq):
        expected = f"({seq}, {seq}) or (heads, {seq}, {seq})"
        raise ValueError(f"probabilities should be of shape {expected}, not {tuple(probabilities.shape)}.")
    maps = probabilities.detach().float().cpu().reshape(-1, seq, seq)
    columns = min(4, len(maps))
    rows = math.ceil(len(maps) / columns)
    figure = _figure(3.0 * columns, 3.0 * rows)
    for head, values in enumerate(maps):
        axes = figure.add_subplot(rows, columns, head + 1)
        axes.imshow(values.numpy(), vmin=0, vmax=1, cmap="Blues")
        axes.set_title(f"head {head}" if len(maps) > 1 else "", fontsize=9)
        axes.set_xticks(range(seq), tokens, rotation=90, fontsize=7)
        axes.set_yticks(range(seq), tokens if head % columns == 0 else [""] * seq, fontsize=7)
    return _with_fonts(figure)


def plot_similarity(tokens: Sequence[str], hidden_states: Sequence[Tensor]) -> Figure:
    """How far each token moves: the cosine of its hidden state after each layer with that before the layer.

    Args:
        tokens: the tokens of the sequence.
        hidden_states: embeddings and every layer's result for one sequence, (seq, hidden) each.

    Raises:
        ImportError: matplotlib is not installed; says what to install.
        ValueError: hidden states of another shape, or of one layer only.
    """
    states = [state.detach().float().cpu() for state in hidden_states]
    if len(states) < 2 or any(state.dim() != 2 or len(state) != len(tokens) for state in states):
        received = [tuple(state.shape) for state in states]
        raise ValueError(f"hidden_states should be two or more of shape ({len(tokens)}, hidden), not {received}.")
    cosines = torch.stack([torch.cosine_similarity(a, b, dim=-1) for a, b in zip(states, states[1:], strict=False)])
    figure = _figure(1.5 + 0.5 * len(tokens), 1.2 + 0.35 * len(cosines))
    axes = figure.add_subplot()
    picture = axes.imshow(cosines.numpy(), vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=8)
    axes.set_yticks(range(len(cosines)), [f"layer {i + 1}" for i in range(len(cosines))], fontsize=8)
    figure.colorbar(picture, label="cosine")
    return _with_fonts(figure)


def plot_pca(labels: Sequence[str], vectors: Tensor, groups: Sequence[int] | None = None) -> Figure:
    """Vectors as points on their first two principal components.

    Args:
        labels: what to write beside each point.
        vectors: (n, hidden), n of 3 or more.
        groups: a number for each point; points of one number share a colour.

    Raises:
        ImportError: matplotlib is not installed; says what to install.
        ValueError: vectors of another shape, or fewer than 3.
    """
    if vectors.dim() != 2 or len(vectors) != len(labels) or len(labels) < 3:
        raise ValueError(f"vectors should be of shape ({max(len(labels), 3)}, hidden), not {tuple(vectors.shape)}.")
    centred = vectors.detach().double().cpu() - vectors.detach().double().cpu().mean(dim=0)
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    points = left[:, :2] * sizes[:2]  # (n, 2); their signs are arbitrary
    explained = sizes**2 / (sizes**2).sum().clamp_min(1e-30)
    figure = _figure(6.0, 4.5)
    axes = figure.add_subplot()
    axes.scatter(points[:, 0], points[:, 1], c=groups, cmap="tab10" if groups else None, s=24)
    axes.margins(0.18)  # room for the labels
    for number, (label, point) in enumerate(zip(labels, points.tolist(), strict=True)):
        above = 4 if number % 2 == 0 else -11  # so that neighbours which fall together can both be read
        axes.annotate(label, point, xytext=(4, above), textcoords="offset points", fontsize=8)
    axes.set_xlabel(f"first component ({explained[0]:.0%} of the variance)")
    axes.set_ylabel(f"second component ({explained[1]:.0%})")
    return _with_fonts(figure)


def _figure(width: float, height: float) -> Figure:
    need("matplotlib", "plot", "Drawing")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _with_fonts(figure: Figure) -> Figure:
    """Lets labels fall back on whichever Korean font the computer has; matplotlib's own has no Hangul."""
    from matplotlib.font_manager import get_font_names
    from matplotlib.text import Text

    families = ["DejaVu Sans", *(font for font in _KOREAN_FONTS if font in get_font_names())]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_fontfamily(families)
    return figure
