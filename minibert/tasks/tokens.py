"""Tags of words that are already split, as in CoNLL's files: their task."""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, compress
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.config import BertConfig
from minibert.encoders.arithmetic.scoring import label_names
from minibert.encoders.folders.reading import Reading
from minibert.encoders.rows.entity_tags import UNNAMED, entity_spans, split_prefix
from minibert.encoders.rows.windows import WordView, encode_windows, words_of_texts
from minibert.heads import BertForTokenClassification
from minibert.losses import IGNORED, cross_entropy
from minibert.tasks import metrics
from minibert.tasks.head_labels import first_names, label_ids, sorted_labels
from minibert.tasks.metrics import OF_CLASS
from minibert.tasks.options import TagOptions
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
from minibert.util.errors import Argument, Message

CHARACTERS = 0.75
"""Share of the words from which on a file is one of single characters."""


class Tagged(NamedTuple):
    """The prediction for a sentence.

    Attributes:
        tags: One for each word. A word without a token continues the name that surrounds it, or
            has the tag O.
        confidence: Mean probability of the tags.
        losses: Cross entropy of each word whose tag the model has.
        is_read: Whether each word has a token. The others take no part in the scores. None: all.
    """

    tags: list[str]
    confidence: float
    losses: list[float]
    is_read: list[bool] | None = None

    def of_tokens(self, values: Sequence[str]) -> list[str]:
        """Those of the values, one for each word, whose word has a token."""
        if self.is_read is None:
            return list(values)
        return list(compress(values, self.is_read))


@dataclass(frozen=True)
class TokenTask(TagOptions, Task):
    """A tag for every word, or for every character, from files in CoNLL format.

    The first token of a word has its tag (paper, section 5.3). Where the words are single
    characters (KLUE), the text is joined from them, and each token has the tag of its first
    character. So `find_entities` does not return a particle as part of a name.

    Attributes:
        table: The encoding of the files.
        by_piece: Whether the words are single characters, and each piece has a tag of its own.
            None: as the model was trained, and in training, whether three of four words are.
    """

    table: Table = Table()

    model_class: ClassVar[type[PreTrainedModel]] = BertForTokenClassification
    row_name = "one sentence"
    row_advice = "put an empty line behind each sentence, or "
    truncates = "nothing"
    metrics: ClassVar[Sequence[str]] = (
        "f1",
        "macro_f1",
        "precision",
        "recall",
        "accuracy",
        "loss",
    )

    further: ClassVar[Sequence[str]] = (OF_CLASS,)

    def read(self, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
        """Words and tags of each sentence."""
        return read_conll(data, self.table, skip)

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """The sentence. Characters are joined without blanks."""
        return (_joined(row.values["tokens"], are_characters([row])),)

    def group_of(self, row: Row) -> Hashable:
        """The sentence: a model that was trained on it knows its tags."""
        return self.texts_of(row)

    def labels_of(self, row: Row) -> Sequence[str]:
        """The tags."""
        tags: Sequence[str] = row.values["tags"]
        return tags

    def reading(self, rows: Sequence[Row]) -> Reading:
        """Whether words are single characters."""
        by_piece = are_characters(rows) if self.by_piece is None else self.by_piece
        return Reading(task="tokens", by_piece=by_piece, options=self.options)

    def _reads_by_piece(self, rows: Sequence[Row], config: BertConfig) -> bool:
        """As told, or as the model was trained, or as the rows are of a model that does not say."""
        for by_piece in (self.by_piece, Reading.of(config).by_piece):
            if by_piece is not None:
                return by_piece
        return are_characters(rows)

    def config(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The tags by name, in the order of `sorted_labels`."""
        tags = sorted_labels(tag for row in rows for tag in self.labels_of(row))
        if len(tags) == 1:
            raise ValueError(f"All words have the tag {tags[0]!r}: there is nothing to learn.")
        return super().config(rows) | {"id2label": dict(enumerate(tags))}

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Encode sentences. Only the first token of a word or character has a label.

        A sentence of more than `max_length` tokens is split into windows that share a quarter. Of
        the windows that show a word, the one with more around it has its label. A tag that the
        model does not have is `IGNORED`.

        Each example has the index of its sentence (`row`), and the index of the word that each
        token represents (`words`, else -1). `word_ends` is the index behind the last word that this
        token and the pieces that follow it cover.
        """
        by_piece = self._reads_by_piece(rows, config)
        sentences = [row.values["tokens"] for row in rows]
        texts: list[Any] = ["".join(words) for words in sentences] if by_piece else sentences
        stride = max(0, min(max_length // 4, max_length - 3))
        batch = encode_windows(
            tokenizer, texts, None, max_length, stride, is_split_into_words=not by_piece
        )
        examples: list[Example] = [
            {
                "input_ids": np.array(window),
                "labels": np.full(len(window), IGNORED),
                "words": np.full(len(window), -1),
                "word_ends": np.full(len(window), -1),
                "row": sentence,
            }
            for window, sentence in zip(
                batch["input_ids"], batch["overflow_to_sample_mapping"], strict=True
            )
        ]
        ids = label_ids(label_names(config))
        views_of_rows = words_of_texts(batch, len(rows), by_piece)
        for row, sentence, views in zip(rows, sentences, views_of_rows, strict=True):
            tags = self.labels_of(row)
            words = {number: (view, number + 1) for number, view in views.items()}
            if by_piece:
                words = _words_of_pieces(sentence, views)
            for number, (view, end) in words.items():
                example = examples[view.window]
                example["words"][view.position] = number
                example["word_ends"][view.position] = end
                example["labels"][view.position] = ids.get(tags[number], IGNORED)
        return examples

    def notices(
        self, rows: Sequence[Row], examples: Sequence[Example], config: BertConfig
    ) -> list[str]:
        """Tags beside those of a scheme, cells of several characters, and names out of reach.

        No model finds a name that begins or ends inside a piece.
        """
        notices: list[str] = _notices_of_kinds(tag for row in rows for tag in self.labels_of(row))
        if not self._reads_by_piece(rows, config):
            return notices
        words = [word for row in rows for word in row.values["tokens"]]
        if others := sum(not _is_character(word) for word in words):
            notices.append(
                Message(
                    f"{others:,} of {len(words):,} words have more than one character. The text is "
                    "joined from them as from the others. Words are read by ",
                    Argument("by_piece", False),
                    ".",
                )
            )
        names = found = 0
        for row, (tags, is_read) in zip(rows, _tags_of_tokens(rows, examples), strict=True):
            spans = entity_spans(list(compress(self.labels_of(row), is_read)))
            best = entity_spans(list(compress(_fill_gaps(tags, is_read), is_read)))
            names += len(spans)
            found += len(set(spans) & set(best))
        if found < names:
            notices.append(
                f"{names - found:,} of {names:,} names begin or end inside a piece of this "
                "vocabulary, so no model can find them exactly."
            )
        return notices

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The cross entropy of the tags."""
        logits = model(**inputs_of(batch)).logits
        return {"labels": cross_entropy(logits, batch["labels"], "sum")}

    def predict(self, model: Any, rows: Sequence[Row], examples: Sequence[Example]) -> list[Tagged]:
        """The tags of every word of every sentence."""
        names = model.config.id2label
        tags: list[list[str | None]] = [[None] * len(row.values["tokens"]) for row in rows]
        is_read = [[False] * len(row.values["tokens"]) for row in rows]
        scores: list[list[float]] = [[] for _ in rows]
        losses: list[list[float]] = [[] for _ in rows]
        outputs = outputs_of(model, examples, lambda output: output.logits)
        for example, logits in zip(examples, outputs, strict=True):
            row = example["row"]
            positions = np.flatnonzero(example["words"] >= 0)
            logarithms = torch.log_softmax(logits.double(), -1).numpy()[positions]
            best = logits.argmax(-1).numpy()[positions]
            words = example["words"][positions].tolist()
            ends = example["word_ends"][positions].tolist()
            for word, end, label in zip(words, ends, best.tolist(), strict=True):
                tags[row][word] = names[label]
                is_read[row][word:end] = [True] * (end - word)
            scores[row] += np.exp(logarithms[range(len(best)), best]).tolist()
            labels = example["labels"][positions]
            known = np.flatnonzero(labels != IGNORED)
            losses[row] += (-logarithms[known, labels[known]]).tolist()
        predictions = []
        for number in range(len(rows)):
            filled = _fill_gaps(tags[number], is_read[number])
            confidence = float(np.mean(scores[number])) if scores[number] else 0.0
            predictions.append(Tagged(filled, confidence, losses[number], is_read[number]))
        return predictions

    def score(self, rows: Sequence[Row], predictions: Sequence[Tagged]) -> Scores:
        """Precision, recall and F1 of entities, and the accuracy of the tags.

        They are of the words that have a token, as those of seqeval in transformers' scripts.
        """
        tags = [
            prediction.of_tokens(self.labels_of(row))
            for row, prediction in zip(rows, predictions, strict=True)
        ]
        predicted = [prediction.of_tokens(prediction.tags) for prediction in predictions]
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

        errors = []
        for number, row in enumerate(rows):
            if entity_spans(tags[number]) != entity_spans(predicted[number]):
                words = row.values["tokens"]
                expected_names = _entity_names(words, self.labels_of(row))
                predicted_names = _entity_names(words, predictions[number].tags)
                (text,) = self.texts_of(row)
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
            further={
                f"{OF_CLASS}{kind}": partial(_f1_of_kind, counts, index)
                for index, kind in enumerate(kinds)
            },
        )


def _f1_of_kind(counts: metrics.Floats, index: int, sample: Indices) -> float:
    """F1 of a kind of entity in some sentences. `counts` are (sentences, 3, kinds)."""
    return float(metrics.f1_of_counts(counts[sample].sum(0))[index])


def are_characters(rows: Sequence[Row]) -> bool:
    """Whether words are single characters, as in KLUE.

    A few cells may hold more, such as an emoji of several code points.
    """
    words = Counter(word for row in rows for word in row.values["tokens"])
    single = sum(count for word, count in words.items() if _is_character(word))
    return single >= CHARACTERS * words.total()


def _is_character(word: str) -> bool:
    return len(word) <= 1 or len(unicodedata.normalize("NFC", word)) == 1


def _joined(words: Sequence[str], are_characters: bool) -> str:
    return ("" if are_characters else " ").join(words)


def _entity_names(words: Sequence[str], tags: Sequence[str]) -> str:
    """The entities of a sentence, such as "PER Ann Lee; LOC Seoul"."""
    are_single = all(map(_is_character, words))
    names = []
    for kind, first, end in entity_spans(tags):
        names.append(f"{kind} {_joined(words[first:end], are_single)}")
    return "; ".join(names)


def _notices_of_kinds(tags: Iterable[str]) -> list[str]:
    """A sentence about tags without a prefix where others have one, as 0 beside B-PER."""
    with_prefix, kinds = set(), set()
    for tag in set(tags):
        prefix, kind = split_prefix(tag)
        if prefix and kind != UNNAMED:
            with_prefix.add(tag)
        elif not prefix and tag != "O":
            kinds.add(tag)
    if not with_prefix or not kinds:
        return []
    subject, names = "the tag {} has", "it is a kind of name"
    if len(kinds) > 1:
        subject, names = "the tags {} have", "they are kinds of names"
    return [
        f"{subject.format(first_names(sorted(kinds)))} no prefix, as {min(with_prefix)} has, so "
        f"{names}. Words outside of names have the tag O."
    ]


def _tags_of_tokens(
    rows: Sequence[Row], examples: Sequence[Example]
) -> list[tuple[list[str | None], list[bool]]]:
    """The right tag of each word that begins a token, and whether a token covers each word."""
    tags: list[list[str | None]] = [[None] * len(row.values["tokens"]) for row in rows]
    is_read = [[False] * len(row.values["tokens"]) for row in rows]
    for example in examples:
        row = example["row"]
        for position in np.flatnonzero(example["words"] >= 0).tolist():
            word, end = int(example["words"][position]), int(example["word_ends"][position])
            tags[row][word] = rows[row].values["tags"][word]
            is_read[row][word:end] = [True] * (end - word)
    return list(zip(tags, is_read, strict=True))


def _words_of_pieces(
    words: Sequence[str], pieces: Mapping[int, WordView]
) -> dict[int, tuple[WordView, int]]:
    """The first piece that begins in each word, and the end of the words that it covers.

    Args:
        words: Those of a sentence, whose text they make up without blanks.
        pieces: Its pieces, by the character where each begins.
    """
    ends = list(accumulate(map(len, words)))  # of each word, in characters
    first: dict[int, tuple[WordView, int]] = {}
    for start in sorted(pieces):
        piece = pieces[start]
        word = bisect_right(ends, start)
        end = 1 + bisect_right(ends, piece.end - 1)
        view, _ = first.get(word, (piece, end))
        first[word] = view, end
    return first


def _fill_gaps(tags: Sequence[str | None], is_read: Sequence[bool]) -> list[str]:
    """A tag for each word, from those of words that begin a token.

    Args:
        tags: The tags. None: no token begins there.
        is_read: Whether a token covers the word.
    """
    filled: list[str] = []
    for tag, covered in zip(tags, is_read, strict=True):
        if tag is None and covered:  # it continues the word in which its piece begins
            tag = _continued(filled[-1])
        filled.append(tag or "")
    following = ""  # the next tag of a word with a token, from the end for several gaps in a row
    for position in reversed(range(len(filled))):
        if filled[position]:
            following = filled[position]
            continue
        before = next((tag for tag in reversed(filled[:position]) if tag), "O")
        is_inside = len(entity_spans([before, following or "O"])) == 1
        continues = is_inside and before != "O" and following not in ("", "O")
        filled[position] = _continued(before) if continues else "O"
    return filled


def _continued(tag: str) -> str:
    """The tag of a word that continues an entity: "I-PER" behind "B-PER"."""
    return f"I{tag[1:]}" if tag == "B" or tag.startswith("B-") else tag
