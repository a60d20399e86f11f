"""How well anchors find their positives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from minibert.encoders.search import similarity
from minibert.encoders.token_rows import Vectors

ANCHORS_AT_ONCE = 1024


def positive_ranks(
    anchors: Vectors, candidates: Vectors, texts: Sequence[str], answers: Sequence[str]
) -> npt.NDArray[np.int64]:
    """How many wrong candidates are nearer to each anchor than its positive.

    Args:
        anchors: (n, D).
        candidates: (m, D). Candidate i is the positive of anchor i.
        texts: The text of each anchor. Equal ones share their positives, which do not count as
            wrong.
        answers: The text of each candidate. Equal ones count once.

    Returns:
        The ranks, (n,), from 0.
    """
    _, first_indices, text_ids = np.unique(
        np.array(answers, dtype=object), return_index=True, return_inverse=True
    )
    positives = defaultdict(list)
    for text, text_id in zip(texts, text_ids, strict=False):
        positives[text].append(text_id)
    distinct = candidates[first_indices]
    ranks = []
    for start in range(0, len(anchors), ANCHORS_AT_ONCE):
        scores = similarity(anchors[start : start + ANCHORS_AT_ONCE], distinct)
        for index, row in enumerate(scores, start):
            score = row[text_ids[index]]
            row[positives[texts[index]]] = -np.inf
            ranks.append(int((row > score).sum()))
    return np.array(ranks, dtype=np.int64)
