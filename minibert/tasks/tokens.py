"""Tags of words that are already split, as in CoNLL's files: their task."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.config import BertConfig
from minibert.encoders.entity_tags import entity_spans
from minibert.encoders.scoring import label_names
from minibert.encoders.windows import encode_windows, words_of_texts
from minibert.heads import BertForTokenClassification
from minibert.losses import IGNORED, cross_entropy
from minibert.tasks import metrics
from minibert.tasks.head_labels import label_ids
from minibert.tasks.readers import read_conll
from minibert.tasks.task import (
    Batch,
    Data,
    Example,
    Indices,
    Mistake,
    Scores,
    Skipped,
    Task,
    inputs_of,
    outputs_of,
)
from minibert.text import Row, Table
from minibert.tokenization.tokenizer import BertTokenizer


class Tagged(NamedTuple):
    """The prediction for a sentence.

    Attributes:
        tags: One for each word. A word without a token has the tag O.
        confidence: Mean probability of the tags.
        losses: Cross entropy of each word whose tag the model has.
    """

    tags: list[str]
    confidence: float
    losses: list[float]


@dataclass(frozen=True)
class TokenTask(Task):
    """A tag for every word, or for every character, from files in CoNLL format.

    The first token of a word has its tag (paper, section 5.3). Where all words are single
    characters (KLUE), the text is joined from them, and each token has the tag of its first
    character. So `find_entities(..., by_piece=True)` does not return a particle as part of a name.

    Attributes:
        table: The encoding of the files.
    """

    table: Table = Table()

    model_class: ClassVar[type[PreTrainedModel]] = BertForTokenClassification
    truncates = "nothing"
    metrics: ClassVar[Sequence[str]] = (
        "f1",
        "macro_f1",
        "precision",
        "recall",
        "accuracy",
        "loss",
    )

    def read(self, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
        """Words and tags of each sentence."""
        return read_conll(data, self.table, skip)

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """The sentence. Characters are joined without blanks."""
        return (_separator([row]).join(row.values["tokens"]),)

    def group_of(self, row: Row) -> Hashable:
        """The sentence: a model that was trained on it knows its tags."""
        return self.texts_of(row)

    def labels_of(self, row: Row) -> Sequence[str]:
        """The tags."""
        tags: Sequence[str] = row.values["tags"]
        return tags

    def config(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The tags by name, in alphabetical order."""
        tags = sorted({tag for row in rows for tag in self.labels_of(row)})
        if len(tags) == 1:
            raise ValueError(f"All words have the tag {tags[0]!r}: there is nothing to learn.")
        return {"id2label": dict(enumerate(tags))}

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Encode sentences. Only the first token of a word or character has a label.

        A sentence of more than `max_length` tokens is split into windows that share a quarter. Of
        the windows that show a word, the one with more around it has its label. `words` has the
        index of the word that each token represents, else -1. A tag that the model does not have
        is `IGNORED`.
        """
        by_character = are_characters(rows)
        texts: list[Any] = [row.values["tokens"] for row in rows]
        if by_character:
            texts = ["".join(words) for words in texts]
        stride = max(0, min(max_length // 4, max_length - 3))
        batch = encode_windows(
            tokenizer, texts, None, max_length, stride, is_split_into_words=not by_character
        )
        examples: list[Example] = [
            {
                "input_ids": np.array(window),
                "labels": np.full(len(window), IGNORED),
                "words": np.full(len(window), -1),
                "row": sentence,
            }
            for window, sentence in zip(
                batch["input_ids"], batch["overflow_to_sample_mapping"], strict=True
            )
        ]
        ids = label_ids(label_names(config))
        for row, words in zip(rows, words_of_texts(batch, len(rows), by_character), strict=True):
            tags = self.labels_of(row)
            for number, word in words.items():
                example = examples[word.window]
                example["words"][word.position] = number
                example["labels"][word.position] = ids.get(tags[number], IGNORED)
        return examples

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The cross entropy of the tags."""
        logits = model(**inputs_of(batch)).logits
        return {"labels": cross_entropy(logits, batch["labels"], "sum")}

    def predict(self, model: Any, rows: Sequence[Row], examples: Sequence[Example]) -> list[Tagged]:
        """The tags of every word of every sentence."""
        names = model.config.id2label
        by_character = are_characters(rows)
        tags: list[list[str | None]] = [[None] * len(row.values["tokens"]) for row in rows]
        scores: list[list[float]] = [[] for _ in rows]
        losses: list[list[float]] = [[] for _ in rows]
        outputs = outputs_of(model, examples, lambda output: output.logits)
        for example, logits in zip(examples, outputs, strict=True):
            row = example["row"]
            positions = np.flatnonzero(example["words"] >= 0)
            logarithms = torch.log_softmax(logits.double(), -1).numpy()[positions]
            best = logits.argmax(-1).numpy()[positions]
            for word, label in zip(
                example["words"][positions].tolist(), best.tolist(), strict=True
            ):
                tags[row][word] = names[label]
            scores[row] += np.exp(logarithms[range(len(best)), best]).tolist()
            labels = example["labels"][positions]
            known = np.flatnonzero(labels != IGNORED)
            losses[row] += (-logarithms[known, labels[known]]).tolist()
        predictions = []
        for number, row in enumerate(rows):
            filled = _fill_gaps(row.values["tokens"], tags[number], by_character)
            confidence = float(np.mean(scores[number])) if scores[number] else 0.0
            predictions.append(Tagged(filled, confidence, losses[number]))
        return predictions

    def score(self, rows: Sequence[Row], predictions: Sequence[Tagged]) -> Scores:
        """Precision, recall and F1 of entities, and the accuracy of the tags."""
        tags = [self.labels_of(row) for row in rows]
        predicted = [prediction.tags for prediction in predictions]
        kinds, counts = metrics.entity_counts(tags, predicted)
        tag_counts = metrics.tag_counts(tags, predicted)
        losses = np.array(
            [(math.fsum(prediction.losses), len(prediction.losses)) for prediction in predictions]
        )

        def statistic(sample: Indices) -> dict[str, float]:
            right, words = tag_counts[sample].sum(0)
            loss, count = losses[sample].sum(0)
            return {
                **metrics.entity_scores_of_counts(counts[sample].sum(0)),
                "accuracy": float(metrics.ratio(right, words)),
                "loss": float(loss / count) if count else math.nan,
            }

        separator = _separator(rows)
        errors = []
        for number, row in enumerate(rows):
            words = row.values["tokens"]
            expected_names = _entity_names(words, tags[number], separator)
            predicted_names = _entity_names(words, predicted[number], separator)
            if expected_names != predicted_names:
                text = separator.join(words)
                confidence = predictions[number].confidence
                errors.append(Mistake(number, text, expected_names, predicted_names, confidence))
        distinct = {tag for sentence in predicted for tag in sentence}
        notice = ""
        if len(distinct) == 1 and any(set(sentence) - distinct for sentence in tags):
            notice = f"all predicted tags are {distinct.pop()}."
        return Scores(
            "tokens",
            len(rows),
            statistic,
            metrics.class_scores_of_counts(kinds, counts.sum(0)),
            kinds,
            errors=errors,
            notice=notice,
        )


def are_characters(rows: Sequence[Row]) -> bool:
    """Whether all words are single characters, as in KLUE."""
    return all(len(word) == 1 for row in rows for word in row.values["tokens"])


def _separator(rows: Sequence[Row]) -> str:
    return "" if are_characters(rows) else " "


def _entity_names(words: Sequence[str], tags: Sequence[str], separator: str) -> str:
    """The entities of a sentence, such as "PER Ann Lee; LOC Seoul"."""
    names = []
    for kind, first, end in entity_spans(tags):
        names.append(f"{kind} {separator.join(words[first:end])}")
    return "; ".join(names)


def _fill_gaps(words: Sequence[str], tags: Sequence[str | None], by_character: bool) -> list[str]:
    if not by_character:
        return [tag or "O" for tag in tags]
    filled: list[str] = []
    for position, tag in enumerate(tags):
        if tag is None and not words[position].isspace():
            # a character that begins no piece continues its piece
            tag = next((tag for tag in reversed(tags[:position]) if tag), "O")
            if tag.startswith("B-"):
                tag = f"I-{tag[2:]}"
        filled.append(tag or "")
    # a space continues the name if the next character does; from the end, for several spaces
    for position in reversed(range(len(filled))):
        if not filled[position]:
            next_tag = "".join(filled[position + 1 : position + 2])
            filled[position] = next_tag if next_tag.startswith("I-") else "O"
    return filled
