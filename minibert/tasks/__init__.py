"""What people do with a fine-tuned model.

    classify           labels of texts, or of pairs of texts
    fill_mask          the words behind [MASK]
    find_entities      labeled spans of texts, such as names
    answer_question    the part of a text that answers a question

Each takes a model, its tokenizer and texts, and returns plain dictionaries with the keys of
transformers' pipelines. One text gives one result, a list of texts a list of results. Texts go
through the model sorted by length and packed, so no time goes into padding. Dropout is off.
"""

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
