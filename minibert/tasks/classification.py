"""Labels of texts, or of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, overload

from torch import Tensor

from minibert.checks import check_count
from minibert.config import BertConfig
from minibert.heads import BertForSequenceClassification
from minibert.inference.logits import logits_of_rows
from minibert.tasks.arguments import Texts, as_text_list, require_model, token_limit
from minibert.tokenization.tokenizer import BertTokenizer


class LabelScore(TypedDict):
    """A label with its score."""

    label: str
    score: float


@overload
def classify(  # type: ignore[overload-overlap]
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    texts: str,
    pairs: str | None = None,
    *,
    top_k: int | None = None,
    threshold: float | None = None,
    max_length: int | None = None,
) -> list[LabelScore]: ...


@overload
def classify(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    top_k: int | None = None,
    threshold: float | None = None,
    max_length: int | None = None,
) -> list[list[LabelScore]]: ...


def classify(
    model: BertForSequenceClassification,
    tokenizer: BertTokenizer,
    texts: Texts,
    pairs: Texts | None = None,
    *,
    top_k: int | None = None,
    threshold: float | None = None,
    max_length: int | None = None,
) -> list[LabelScore] | list[list[LabelScore]]:
    """Classify texts, or pairs of `texts` and `pairs` if the model compares two.

    Long texts are truncated.

    Args:
        model: A sequence classifier.
        tokenizer: Its tokenizer.
        texts: A text or several.
        pairs: The second text of each.
        top_k: How many labels of each text to return. None: all.
        threshold: Return only labels with at least this score. None: all.
        max_length: Tokens after which texts are truncated. None: what the model and its tokenizer
            take.

    Returns:
        For each text a list of `{"label", "score"}`, best first. The score is a probability, by
        softmax, or by sigmoid if `problem_type` is "multi_label_classification". The score of a
        regression is the predicted number.

    Raises:
        TypeError: `model` is not a sequence classifier.
        ValueError: `texts` is a mapping, `top_k` is less than 1, or the logits are not finite.
    """
    require_model(model, BertForSequenceClassification)
    if top_k is not None:
        check_count("top_k", top_k)
    limit = token_limit(model, tokenizer)
    if max_length is not None:
        limit = min(limit, max_length)
    second = None if pairs is None else as_text_list(pairs)
    batch = tokenizer(as_text_list(texts), second, truncation=True, max_length=limit)
    results = []
    for logits in logits_of_rows(model, batch["input_ids"], batch["token_type_ids"]):
        labels = label_scores(model.config, logits)
        if threshold is not None:
            labels = [label for label in labels if label["score"] >= threshold]
        results.append(labels[:top_k])
    return results[0] if isinstance(texts, str) else results


def label_scores(config: BertConfig, logits: Tensor) -> list[LabelScore]:
    """All labels of a text with their scores, best first, from `logits` (labels,)."""
    scores = class_scores(config, logits).tolist()
    labels = [
        LabelScore(label=config.id2label[index], score=score) for index, score in enumerate(scores)
    ]
    return sorted(labels, key=_descending_score)


def _descending_score(label: LabelScore) -> float:
    return -label["score"]


def class_scores(config: BertConfig, logits: Tensor) -> Tensor:
    """Scores of a classifier's logits, both (..., labels), as `classify` explains them."""
    if config.problem_type == "multi_label_classification":
        return logits.sigmoid()
    if config.problem_type == "regression" or config.num_labels == 1:
        return logits
    return logits.softmax(-1)
