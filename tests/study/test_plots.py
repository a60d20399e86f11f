"""Plots: the figures contain the values of their inputs."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
import torch

from minibert.study.plots import plot_attention, plot_grid, plot_lines, plot_pca, plot_similarity

TOKENS = ["[CLS]", "나는", "love", "##ly", "[SEP]"]


def test_attention_draws_a_map_for_each_head() -> None:
    probabilities = torch.randn(6, 5, 5).softmax(-1).requires_grad_()
    figure = plot_attention(TOKENS, probabilities)
    *maps, colorbar = figure.axes
    assert colorbar.get_ylabel() == "probability" and figure._suptitle.get_text() == "Attention"
    assert [axes.get_title() for axes in maps] == [f"head {i}" for i in range(6)]
    for axes, values in zip(maps, probabilities, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), values.detach())
        assert [label.get_text() for label in axes.get_xticklabels()] == TOKENS
    figure.savefig(file := io.BytesIO(), dpi=30)
    assert file.getvalue().startswith(b"\x89PNG")


def test_attention_of_a_single_head() -> None:
    axes, _ = plot_attention(TOKENS, torch.eye(5), "Layer 3, head 1").axes
    np.testing.assert_array_equal(axes.images[0].get_array(), np.eye(5))


def test_similarity_is_the_cosine_between_neighboring_layers() -> None:
    states = [torch.randn(5, 8) for _ in range(4)]
    states[2] = states[1] * 3  # same direction, different length
    axes = plot_similarity(TOKENS, states).axes[0]
    drawn = axes.images[0].get_array()
    assert drawn.shape == (3, 5)
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "layer 0",
        "layer 1",
        "layer 2",
    ]
    np.testing.assert_allclose(drawn[1], 1.0, atol=1e-6)
    a, b = states[0][3].numpy(), states[1][3].numpy()
    np.testing.assert_allclose(
        drawn[0, 3], a @ b / np.linalg.norm(a) / np.linalg.norm(b), atol=1e-6
    )


def test_grid_labels_rows_and_columns_and_has_readable_words() -> None:
    values = torch.tensor([[0.0, 0.5, 1.0], [0.25, 0.75, 0.1]])
    words = [["a", "b", "c"], ["가", "나", "다"]]
    axes, colorbar = plot_grid(values, ["x", "y"], TOKENS[:3], "Title", "share", words).axes
    np.testing.assert_array_equal(axes.images[0].get_array(), values)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"]
    assert [label.get_text() for label in axes.get_xticklabels()] == TOKENS[:3]
    assert colorbar.get_ylabel() == "share"
    drawn = {text.get_text(): (text.get_position(), text.get_color()) for text in axes.texts}
    assert drawn["c"] == ((2, 0), "white")
    assert drawn["a"] == ((0, 0), "black")
    assert drawn["다"][0] == (2, 1)


def test_the_colors_of_a_grid_with_negative_values_are_centered_at_zero() -> None:
    image = plot_grid(torch.tensor([[-1.0, 4.0]]), ["x"], ["a", "b"]).axes[0].images[0]
    assert image.get_clim() == (-4.0, 4.0)


def test_lines_of_layers() -> None:
    accuracy, selectivity = torch.tensor([0.5, 0.7, 0.9]), [0.0, 0.25, -0.125]
    figure = plot_lines(
        {"accuracy": accuracy, "$selectivity$": selectivity}, ["h0", "h1", "h2"], "Probe", "share"
    )
    (axes,) = figure.axes
    first, second = axes.lines
    np.testing.assert_array_equal(first.get_ydata(), accuracy)
    np.testing.assert_array_equal(second.get_ydata(), selectivity)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["h0", "h1", "h2"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "accuracy",
        r"\$selectivity\$",
    ]
    assert axes.get_ylabel() == "share" and figure._suptitle.get_text() == "Probe"
    figure.savefig(io.BytesIO(), dpi=30)
    with pytest.raises(ValueError, match=r"2 numbers each, .* but 'b' is of shape \(3,\)"):
        plot_lines({"a": [1.0, 2.0], "b": accuracy}, ["h0", "h1"])
    with pytest.raises(ValueError, match="lines should have one line or more"):
        plot_lines({}, ["h0"])


def test_pca_preserves_distances_of_points_on_a_plane() -> None:
    plane = torch.randn(6, 2)
    vectors = plane @ torch.linalg.qr(torch.randn(10, 2))[0].T + 5
    figure = plot_pca(list("abcdef"), vectors, groups=["x", "x", "y", "y", "z", "z"])
    axes = figure.axes[0]
    points = torch.cat(
        [torch.as_tensor(np.asarray(group.get_offsets())).float() for group in axes.collections]
    )
    torch.testing.assert_close(
        torch.cdist(points, points), torch.cdist(vectors, vectors), atol=1e-3, rtol=1e-3
    )
    assert [text.get_text() for text in axes.texts] == list("abcdef")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["x", "y", "z"]


def test_labels_stay_inside_the_frame() -> None:
    labels = ["a rather long label of a point"] * 8
    figure = plot_pca(labels, torch.randn(8, 4))
    figure.savefig(io.BytesIO(), dpi=60)
    (axes,) = figure.axes
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1


def test_labels_of_neighbors_do_not_overlap() -> None:
    """Of two points at nearly the same position, one has its label above and the other below."""
    points = torch.tensor([[0.0, 0.0], [0.001, 0.0], [5.0, 5.0], [-5.0, 3.0]])
    figure = plot_pca(["the boat drifted", "trees grow along", "far", "off"], points)
    figure.savefig(io.BytesIO(), dpi=60)
    first, second = (text.get_window_extent() for text in figure.axes[0].texts[:2])
    assert not first.overlaps(second)


def test_errors_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"should be of shape \(5, 5\) or \(heads, 5, 5\), not \(1, 6, 5, 5\)"
    ):
        plot_attention(TOKENS, torch.zeros(1, 6, 5, 5))
    with pytest.raises(
        ValueError, match=r"two or more of shape \(5, hidden\), not \[\(1, 5, 8\)\]"
    ):
        plot_similarity(TOKENS, [torch.zeros(1, 5, 8)])
    with pytest.raises(ValueError, match=r"should be of shape \(2, 1\), not \(1, 2\)"):
        plot_grid(torch.zeros(1, 2), ["x", "y"], ["a"])
    with pytest.raises(ValueError, match=r"n of 3 or more, not \(2, 4\) with 2 labels"):
        plot_pca(["a", "b"], torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"hidden of 2 or more .* not \(3, 1\) with 3 labels"):
        plot_pca(["a", "b", "c"], torch.zeros(3, 1))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError, match=r"matplotlib, which is not installed: pip install .*\[plot\]'"
    ):
        plot_attention(TOKENS, torch.eye(5))


def test_arrays_and_lists_are_drawn_like_tensors() -> None:
    axes, _ = plot_attention(TOKENS, np.eye(5)).axes
    np.testing.assert_array_equal(axes.images[0].get_array(), np.eye(5))
    axes = plot_grid([[1.0, 2.0]], ["x"], ["a", "b"]).axes[0]  # type: ignore[arg-type]
    np.testing.assert_array_equal(axes.images[0].get_array(), [[1.0, 2.0]])
    assert plot_pca(["a", "b", "c"], np.eye(3)).axes
    (axes,) = plot_pca(["a", "b", "c"], np.eye(3), groups=torch.tensor([1, 0, 1])).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["1", "0"]
    assert plot_similarity(TOKENS, [np.eye(5)] * 2).axes


def test_dollar_signs_are_drawn_as_they_are() -> None:
    plot_grid(torch.ones(1, 2), ["$\\frac$"], ["$a", "$x$"]).savefig(io.BytesIO(), dpi=30)
