"""What the checks that the room encoders gave up do now, one a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # a prompt won over the name of another one. Now both are an error, as for an embedder
        ({"prompt": "a ", "prompt_name": "query"}, "prompt should not be passed with prompt_name"),
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
