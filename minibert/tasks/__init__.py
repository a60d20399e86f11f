"""What fine-tuning learns and `evaluate` measures: an object for each task, and its metrics."""

from typing import Literal

TaskName = Literal[
    "classification",
    "multi_label",
    "regression",
    "tokens",
    "answers",
    "pairs",
    "scores",
    "reranking",
]
"""What `evaluate` measures."""
