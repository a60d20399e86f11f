"""Read files in CoNLL format, and fine-tune on named entities and other tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.config import BertConfig
from minibert.corpus.rows import BadRow
from minibert.heads import BertForTokenClassification
from minibert.losses import IGNORED, cross_entropy
from minibert.tasks import metrics
from minibert.tasks.readers import read_conll
from minibert.tasks.tagging import are_characters, encode_sentences, tags_of_sentences
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.data import Batch, Example
from minibert.training.finetuning import Path_, Rows, Task, inputs_of, number_of, outputs_of


@dataclass(frozen=True)
class TokenTask(Task):
    """A tag for every word, or for every character, from files in CoNLL format.

    The first token of a word has its tag (paper, section 5.3). Where all words are single
    characters (KLUE), the text is joined from them, and each token has the tag of its first
    character. So `find_entities(..., by_piece=True)` does not return a particle as part of a name.
    """

    model_class: ClassVar[type[PreTrainedModel]] = BertForTokenClassification
    metric: ClassVar[str] = "f1"

    def read(
        self, path: Path_, dev: bool = False, bad_rows: list[BadRow] | None = None
    ) -> list[tuple[list[str], list[str]]]:
        """Words and tags of each sentence."""
        return read_conll(path)

    def texts_of(self, row: Any) -> tuple[str, ...]:
        """The sentence. Characters are joined without blanks."""
        words = row[0]
        separator = "" if are_characters([row]) else " "
        return (separator.join(words),)

    def labels_of(self, row: Any) -> Sequence[Any]:
        """The tags."""
        tags: Sequence[Any] = row[1]
        return tags

    def config(self, rows: Rows) -> dict[str, Any]:
        """The tags by name, in alphabetical order."""
        return {"id2label": dict(enumerate(sorted({tag for _, tags in rows for tag in tags})))}

    def examples(
        self, rows: Rows, tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Encode sentences. Only the first token of a word or character has a label.

        A sentence of more than `max_length` tokens is split into windows that share a quarter. A
        word that is in two windows has its label in the first one.
        """
        examples = []
        for window in encode_sentences(rows, tokenizer, max_length, are_characters(rows)):
            tags = rows[window.sentence][1]
            labels = np.full(len(window.ids), IGNORED)
            for position in np.flatnonzero(window.words >= 0).tolist():
                labels[position] = number_of(tags[window.words[position]], config)
            examples.append(
                {
                    "input_ids": window.ids,
                    "labels": labels,
                    "words": window.words,
                    "row": window.sentence,
                }
            )
        return examples

    def losses(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The cross entropy of the tags."""
        logits = model(**inputs_of(batch)).logits
        return {"labels": cross_entropy(logits, batch["labels"], "sum")}

    def scores(self, model: Any, rows: Rows, examples: Sequence[Example]) -> dict[str, float]:
        """Compute the F1 of entities over every word of every sentence.

        A word without a WordPiece gets the tag O.
        """
        names = model.config.id2label
        label_ids = outputs_of(model, examples, lambda output: output.logits.argmax(-1))
        windows = [
            (example["row"], example["words"], [names[label] for label in window.tolist()])
            for example, window in zip(examples, label_ids, strict=True)
        ]
        predictions = tags_of_sentences(rows, windows, are_characters(rows))
        return metrics.entity_scores([tags for _, tags in rows], predictions)
