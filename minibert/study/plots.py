"""Pictures of what a model does, as matplotlib figures to show, save or change (extra `[plot]`).

Nothing is shown or saved here, and no global state of matplotlib is touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from minibert.study.checking import as_tensor
from minibert.util.errors import ArgumentError
from minibert.util.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KOREAN_FONTS = (
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "Malgun Gothic",
    "Apple SD Gothic Neo",
    "AppleGothic",
)


def _labels(names: Iterable[Any]) -> list[str]:
    """Labels as they are: matplotlib would read what stands between two dollar signs as math."""
    return [str(name).replace("$", r"\$") for name in names]


def plot_attention(
    tokens: Sequence[str], probabilities: Tensor, title: str = "Attention"
) -> Figure:
    """Draw heat maps of one layer's attention, queries down and keys across.

    Args:
        tokens: The tokens of one sequence.
        probabilities: One layer's, (heads, seq, seq), or one head's, (seq, seq).
        title: The heading.

    Raises:
        ImportError: matplotlib is not installed. The error says what to install.
        ValueError: Probabilities of another shape.
    """
    tokens = _labels(tokens)
    probabilities = as_tensor("probabilities", probabilities)
    seq = len(tokens)
    if probabilities.dim() not in (2, 3) or probabilities.shape[-2:] != (seq, seq):
        expected = f"({seq}, {seq}) or (heads, {seq}, {seq})"
        raise ArgumentError(
            "probabilities", f"should be of shape {expected}, not {tuple(probabilities.shape)}."
        )
    maps = probabilities.float().reshape(-1, seq, seq)
    columns = min(4, len(maps))
    rows = math.ceil(len(maps) / columns)
    figure = _figure(3.0 * columns + 0.8, 3.0 * rows + 0.5, title)
    all_axes = []
    for head, values in enumerate(maps):
        axes = figure.add_subplot(rows, columns, head + 1)
        picture = axes.imshow(values.numpy(), vmin=0, vmax=1, cmap="Blues")
        axes.set_title(f"head {head}" if len(maps) > 1 else "", fontsize=9)
        axes.set_xticks(range(seq), tokens, rotation=90, fontsize=7)
        axes.set_yticks(range(seq), tokens if head % columns == 0 else [""] * seq, fontsize=7)
        all_axes.append(axes)
    figure.supxlabel("key", fontsize=9)
    figure.supylabel("query", fontsize=9)
    figure.colorbar(picture, ax=all_axes, label="probability", shrink=0.8)
    return _with_fonts(figure)


def plot_similarity(tokens: Sequence[str], hidden_states: Sequence[Tensor]) -> Figure:
    """Draw how far each layer moves each token: the cosine of its states before and after.

    Args:
        tokens: The tokens of one sequence.
        hidden_states: The embeddings and every layer's result for it, (seq, hidden) each.

    Raises:
        ImportError: matplotlib is not installed. The error says what to install.
        ValueError: Hidden states of another shape, or of one layer only.
    """
    states = [as_tensor("hidden_states", state).float() for state in hidden_states]
    if len(states) < 2 or any(state.dim() != 2 or len(state) != len(tokens) for state in states):
        received = [tuple(state.shape) for state in states]
        raise ArgumentError(
            "hidden_states",
            f"should be two or more of shape ({len(tokens)}, hidden), not {received}.",
        )
    cosines = torch.stack(
        [torch.cosine_similarity(a, b, dim=-1) for a, b in zip(states, states[1:], strict=False)]
    )
    layers = [f"layer {i}" for i in range(len(cosines))]
    return plot_grid(
        cosines, layers, tokens, "Cosine of each token before and after a layer", "cosine"
    )


def plot_grid(
    values: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    label: str = "",
    words: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Draw a table of numbers as colors, such as one for each layer and token.

    Where some are negative, those are red.

    Args:
        values: (rows, columns).
        rows: Names of the rows.
        columns: Names of the columns.
        title: The heading.
        label: Meaning of the colors.
        words: Texts of the cells, (rows, columns).

    Raises:
        ImportError: matplotlib is not installed. The error says what to install.
        ValueError: Values of another shape.
    """
    values = as_tensor("values", values)
    if values.shape != (len(rows), len(columns)):
        raise ArgumentError(
            "values",
            f"should be of shape ({len(rows)}, {len(columns)}), not {tuple(values.shape)}.",
        )
    numbers = values.float()
    colors: dict[str, Any] = {"cmap": "Blues"}
    if (numbers < 0).any():
        limit = numbers.abs().max().item()
        colors = {"cmap": "RdBu", "vmin": -limit, "vmax": limit}
    cell_width = 0.8 if words else 0.5
    figure = _figure(1.5 + cell_width * len(columns), 1.6 + 0.35 * len(rows), title)
    axes = figure.add_subplot()
    picture = axes.imshow(numbers.numpy(), aspect="auto", **colors)
    axes.set_xticks(range(len(columns)), _labels(columns), rotation=90, fontsize=8)
    axes.set_yticks(range(len(rows)), _labels(rows), fontsize=8)
    # as the eye weighs colors
    is_dark = picture.to_rgba(numbers.numpy())[..., :3] @ (0.3, 0.6, 0.1) < 0.5
    for row, cells in enumerate(words or ()):
        for column, word in enumerate(_labels(cells)):
            color = "white" if is_dark[row, column] else "black"
            axes.text(column, row, word, ha="center", va="center", fontsize=8, color=color)
    figure.colorbar(picture, label=label)
    return _with_fonts(figure)


def plot_lines(
    lines: Mapping[str, Sequence[float] | Tensor],
    columns: Sequence[str],
    title: str = "",
    label: str = "",
) -> Figure:
    """Draw a line for each row of numbers, such as a probe's accuracy and selectivity by layer.

    Args:
        lines: The numbers of each line, (columns,), by its name, which the legend has.
        columns: Names of the columns, from left to right, such as h0 to hL.
        title: The heading.
        label: Meaning of the numbers.

    Raises:
        ImportError: matplotlib is not installed. The error says what to install.
        ValueError: No line, or one of another length.
    """
    if not lines:
        raise ArgumentError("lines", "should have one line or more, not none.")
    rows = {name: as_tensor("lines", values).float() for name, values in lines.items()}
    for name, values in rows.items():
        if values.shape != (len(columns),):
            raise ArgumentError(
                "lines",
                f"should have {len(columns)} numbers each, one for each column, but {name!r} is of "
                f"shape {tuple(values.shape)}.",
            )
    figure = _figure(1.8 + 0.5 * len(columns), 3.2, title)
    axes = figure.add_subplot()
    for name, values in zip(_labels(rows), rows.values(), strict=True):
        axes.plot(range(len(columns)), values.numpy(), marker="o", markersize=4, label=name)
    axes.set_xticks(range(len(columns)), _labels(columns), fontsize=8)
    axes.set_ylabel(label)
    axes.legend(fontsize=8)
    return _with_fonts(figure)


def plot_pca(
    labels: Sequence[str],
    vectors: Tensor,
    groups: Sequence[int | str] | Tensor | None = None,
    title: str = "Two principal components",
) -> Figure:
    """Draw vectors as labeled points on their first two principal components.

    Args:
        labels: The label of each point.
        vectors: (n, hidden), with n of 3 or more and hidden of 2 or more.
        groups: A name for each point. Points of one name share a color, which the legend explains.
        title: The heading.

    Raises:
        ImportError: matplotlib is not installed. The error says what to install.
        ValueError: Vectors of another shape, or fewer than 3.
    """
    vectors = as_tensor("vectors", vectors)
    has_shape = vectors.dim() == 2 and len(vectors) >= 3 and vectors.size(1) >= 2
    if not has_shape or len(vectors) != len(labels):
        raise ArgumentError(
            "vectors",
            "should be of shape (n, hidden), with a label for each, hidden of 2 or more "
            "and n of 3 or more, "
            f"not {tuple(vectors.shape)} with {len(labels)} labels.",
        )
    centered = vectors.double()
    centered = centered - centered.mean(dim=0)
    left, sizes, _ = torch.linalg.svd(centered, full_matrices=False)
    points = left[:, :2] * sizes[:2]  # (n, 2); their signs are arbitrary
    explained = sizes**2 / (sizes**2).sum().clamp_min(1e-30)
    figure = _figure(6.5, 4.8, title)
    axes = figure.add_subplot()
    if groups is None:
        axes.scatter(points[:, 0], points[:, 1], s=24)
    else:
        if isinstance(groups, Tensor):  # two tensors of one value are different keys
            groups = groups.tolist()
        for name in dict.fromkeys(groups):
            members = [i for i in range(len(labels)) if groups[i] == name]
            (label,) = _labels([name])
            axes.scatter(points[members, 0], points[members, 1], s=24, label=label)
        axes.legend(fontsize=8)
    axes.margins(0.18)  # room for the labels
    _label_points(axes, labels, points)
    axes.set_xlabel(f"first component ({explained[0]:.0%} of the variance)")
    axes.set_ylabel(f"second component ({explained[1]:.0%})")
    return _with_fonts(figure)


def _label_points(axes: Axes, labels: Sequence[str], points: Tensor) -> None:
    """Write a label at each point, (n, 2)."""
    middle = (points[:, 0].min() + points[:, 0].max()).item() / 2
    for number, (label, point) in enumerate(zip(_labels(labels), points.tolist(), strict=True)):
        # neighbors at the same place have labels above and below it, so that both can be read
        above = 4 if number % 2 == 0 else -11
        # labels extend towards the middle, so that they stay inside the frame
        side = 4
        alignment = "left"
        if point[0] > middle:
            side = -4
            alignment = "right"
        axes.annotate(
            label, point, xytext=(side, above), textcoords="offset points", fontsize=8, ha=alignment
        )


def _figure(width: float, height: float, title: str) -> Figure:
    need("matplotlib", "plot", "Drawing")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=11)
    return figure


def _with_fonts(figure: Figure) -> Figure:
    """Let labels fall back on a Korean font of the computer: matplotlib's own has no Hangul."""
    from matplotlib.font_manager import get_font_names
    from matplotlib.text import Text

    families = ["DejaVu Sans", *(font for font in _KOREAN_FONTS if font in get_font_names())]
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_fontfamily(families)
    return figure
