"""Labels, or a number, for texts or pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import overload

from minibert.encoders.head_models import (
    Texts,
    as_text_list,
    encode_texts,
    logits_of,
    require_model,
    token_limit,
)
from minibert.encoders.scoring import LabelScore, label_scores
from minibert.heads import BertForSequenceClassification
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count, check_kind, warn_of_truncation


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

    Long texts are truncated, with a warning that counts them.

    Args:
        model: A sequence classifier.
        tokenizer: Its tokenizer.
        texts: A text or several.
        pairs: The second text of each.
        top_k: How many labels of each text to return. None: all.
        threshold: Return only labels with at least this score. None: all.
        max_length: Tokens after which texts are truncated, at most the positions of the model.
            None: what the model and its tokenizer take.

    Returns:
        For each text a list of `{"label", "score"}`, best first. The score is a probability, by
        softmax, or by sigmoid if `problem_type` is "multi_label_classification". The score of a
        regression is the predicted number.

    Raises:
        TypeError: `model` is not a sequence classifier.
        ValueError: `texts` is a mapping, there is another number of `pairs`, `top_k` is less than
            1, `max_length` is more than the positions of the model, or the logits are not
            finite.
    """
    require_model(model, tokenizer, BertForSequenceClassification)
    if threshold is not None:
        check_kind("threshold", threshold, Real, "a number")
    if top_k is not None:
        check_count("top_k", top_k)
    limit = token_limit(model, tokenizer, max_length)
    second = None if pairs is None else as_text_list(pairs)
    examples = encode_texts(tokenizer, as_text_list(texts), second, limit)
    truncated = sum(example["truncated"] for example in examples)
    warn_of_truncation(truncated, len(examples), limit)
    results = []
    for logits in logits_of(model, examples):
        labels = label_scores(model.config, logits)
        if threshold is not None:
            labels = [label for label in labels if label["score"] >= threshold]
        results.append(labels[:top_k])
    return results[0] if isinstance(texts, str) else results
