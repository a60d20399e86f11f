"""What the checks that the room encoders gave up do now, one a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_config
from tiny_folder import classifier_folder

from minibert import CrossEncoder, nearest


@pytest.mark.parametrize(
    ("metric", "expected"),
    # distances were refused. Now they are what `similarity` returns
    [("euclidean", [-1.0, -2.0]), ("manhattan", [-1.0, -2.0])],
)
def test_distances_of_the_nearest(metric: Any, expected: list[float]) -> None:
    rows, scores = nearest([[0.0, 0.0]], [[0.0, 2.0], [1.0, 0.0], [3.0, 3.0]], 2, metric=metric)
    assert rows.tolist() == [[1, 0]]
    np.testing.assert_allclose(scores, [expected])


def test_one_label_of_several() -> None:
    """Such a classifier had its logit as its score. Now its config is refused: it has no loss."""
    with pytest.raises(ValueError, match="needs two labels or more"):
        tiny_config(num_labels=1, problem_type="single_label_classification")


def test_a_prompt_beside_the_name_of_one(tmp_path: Path) -> None:
    """Both were an error. Now the prompt counts, with a warning, as in sentence-transformers."""
    encoder = CrossEncoder(classifier_folder(tmp_path, 1), prompts={"query": "hello "})
    expected = encoder.predict([("how", "trees")], prompt="a ")
    with pytest.warns(UserWarning, match="prompt is 'a ', so prompt_name 'query' has no effect"):
        scores = encoder.predict([("how", "trees")], prompt="a ", prompt_name="query")
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # a prompt that leaves no room for a text was truncated
        ({"prompt": "tall trees " * 40}, r"max_length is 64 tokens, but \[CLS\], prompt and"),
        # an exported head refused every prompt. Now all heads name those that exist
        ({"prompt_name": "q"}, "there is no prompt 'q'. This model has query"),
    ],
)
def test_prompts_of_a_reranker(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    encoder = CrossEncoder(classifier_folder(tmp_path, 1), prompts={"query": "hello "})
    with pytest.raises(ValueError, match=message):
        encoder.predict([("how", "trees")], **options)
