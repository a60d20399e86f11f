"""Labels, or a number, for texts or pairs of texts: `Classifier`, and `classify`."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple, overload

from minibert.encoders.arithmetic.scoring import LabelScore, TextScorer, label_names, label_scores
from minibert.encoders.head_models import (
    HeadModel,
    TextOrTexts,
    as_text_list,
    encode_texts,
    logits_of,
    token_limit,
)
from minibert.encoders.onnx.onnx_heads import OnnxModel
from minibert.encoders.rows.token_rows import Rows, Settings, Vectors
from minibert.inference.batching import Report
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count, check_kind, warn_of_truncation

if TYPE_CHECKING:
    from minibert.heads import BertForSequenceClassification


class Classified(NamedTuple):
    """What a classifier says of a text.

    Attributes:
        labels: All labels with their scores, best first.
        truncated: Whether the text has more tokens than were read.
    """

    labels: list[LabelScore]
    truncated: bool


class Classifier(HeadModel, TextScorer):  # type: ignore[override]
    """A sequence classifier or regression with its tokenizer.

    ```python
    classifier = Classifier.from_pretrained("OUT")
    classifier.classify(["A wonderful film.", "Two hours too long."])
    ```

    Args, attributes and errors are those of `HeadModel`.
    """

    kind = "classifier"
    heads = ("BertForSequenceClassification",)

    @property
    def labels(self) -> list[str]:
        """The labels, in the order of the logits."""
        return label_names(self.config)

    @overload
    def classify(
        self,
        texts: str,
        pairs: str | None = None,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        max_length: int | None = None,
    ) -> list[LabelScore]: ...
    @overload
    def classify(
        self,
        texts: TextOrTexts,
        pairs: TextOrTexts | None = None,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        max_length: int | None = None,
    ) -> list[LabelScore] | list[list[LabelScore]]: ...

    def classify(
        self,
        texts: TextOrTexts,
        pairs: TextOrTexts | None = None,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        max_length: int | None = None,
    ) -> list[LabelScore] | list[list[LabelScore]]:
        """As the function `classify`, without model and tokenizer.

        Args:
            texts: A text or several.
            pairs: The second text of each.
            top_k: How many labels of each text to return. None: all.
            threshold: Return only labels with at least this score. None: all.
            max_length: Tokens after which texts are truncated. None: `max_length` of this object.
        """
        if threshold is not None:
            check_kind("threshold", threshold, Real, "a number")
        if top_k is not None:
            check_count("top_k", top_k)
        second = None if pairs is None else as_text_list(pairs)
        results = []
        for labels, _ in self.scored(as_text_list(texts), second, max_length):
            if threshold is not None:
                labels = [label for label in labels if label["score"] >= threshold]
            results.append(labels[:top_k])
        return results[0] if isinstance(texts, str) else results

    def scored(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        max_length: int | None = None,
    ) -> list[Classified]:
        """Return all labels of each text, and warn of texts that were truncated.

        Args:
            texts: The texts.
            pairs: The second text of each.
            max_length: As in `classify`.

        Raises:
            ValueError: The model was trained on pairs of texts, and there are none, or the other
                way round.
        """
        self.reading.check_pairs(pairs is not None)
        limit = token_limit(self.model, self.tokenizer, max_length)
        if max_length is None:
            limit = self.max_length
        examples = encode_texts(self.tokenizer, texts, pairs, limit)
        inputs = texts if pairs is None else map(" ".join, zip(texts, pairs, strict=True))
        self.warn_of_unread_ids(inputs, (example["input_ids"] for example in examples))
        truncated = sum(example["truncated"] for example in examples)
        warn_of_truncation(truncated, len(examples), limit)
        rows = zip(logits_of(self.model, examples), examples, strict=True)
        return [
            Classified(label_scores(self.config, logits), example["truncated"])
            for logits, example in rows
        ]

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """Logits of the pairs or texts, (N, labels) float32, in their order.

        Args:
            rows: Of all inputs.
            settings: How they are encoded.
            report: Progress callback. Receives the indices of finished rows.
        """
        if isinstance(self.model, OnnxModel):
            return self.model.encode_rows(rows, settings, report)
        return TextScorer.encode_rows(self, rows, settings, report)


@overload
def classify(  # type: ignore[overload-overlap]
    model: BertForSequenceClassification | OnnxModel,
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
    model: BertForSequenceClassification | OnnxModel,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    top_k: int | None = None,
    threshold: float | None = None,
    max_length: int | None = None,
) -> list[list[LabelScore]]: ...


def classify(
    model: BertForSequenceClassification | OnnxModel,
    tokenizer: BertTokenizer,
    texts: TextOrTexts,
    pairs: TextOrTexts | None = None,
    *,
    top_k: int | None = None,
    threshold: float | None = None,
    max_length: int | None = None,
) -> list[LabelScore] | list[list[LabelScore]]:
    """Classify texts, or pairs of `texts` and `pairs` if the model compares two.

    Long texts are truncated, with a warning that counts them.

    Args:
        model: A sequence classifier, or one that `minibert export` has written.
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
        ValueError: `texts` is a mapping, there is another number of `pairs`, or none though the
            model was trained on pairs, `top_k` is less than 1, `max_length` is more than the
            positions of the model, or the logits are not finite.
    """
    classifier = Classifier(model, tokenizer)
    return classifier.classify(
        texts, pairs, top_k=top_k, threshold=threshold, max_length=max_length
    )
