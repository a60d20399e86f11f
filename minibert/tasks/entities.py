"""Labeled spans of texts, such as names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypedDict, overload

import torch
from torch import Tensor

from minibert.encoders.onnx_heads import OnnxHead
from minibert.heads import BertForTokenClassification
from minibert.inference.logits import run_rows
from minibert.tasks.arguments import Texts, as_text_list, require_model, token_limit
from minibert.tasks.metrics import entity_spans
from minibert.tasks.windows import encode_windows
from minibert.tokenization.encoding import Encoding
from minibert.tokenization.tokenizer import BertTokenizer

TokenClassifier = BertForTokenClassification | OnnxHead


class Entity(TypedDict):
    """A labeled span of a text.

    It has its kind, the mean probability of its words, its text, and `[start, end)` in characters.
    """

    entity_group: str
    score: float
    word: str
    start: int
    end: int


@dataclass(frozen=True)
class _Word:
    """A word of a text, `[start, end)` in characters, as one window shows it."""

    start: int
    end: int
    margin: int  # tokens from its first piece to the nearer end of the window
    label: str
    score: float

    def shows_more_than(self, word: _Word) -> bool:
        """Return whether this window shows more of the word than the window of `word`.

        The window that shows the word's beginning wins, or else the one with more around it.
        """
        if self.start != word.start:
            return self.start < word.start
        return self.margin > word.margin


@overload
def find_entities(  # type: ignore[overload-overlap]
    model: TokenClassifier,
    tokenizer: BertTokenizer,
    texts: str,
    stride: int | None = None,
    by_piece: bool = False,
) -> list[Entity]: ...


@overload
def find_entities(
    model: TokenClassifier,
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    stride: int | None = None,
    by_piece: bool = False,
) -> list[list[Entity]]: ...


def find_entities(
    model: TokenClassifier,
    tokenizer: BertTokenizer,
    texts: Texts,
    stride: int | None = None,
    by_piece: bool = False,
) -> list[Entity] | list[list[Entity]]:
    """Labeled spans of texts, such as names.

    A word has the label of its first piece. Neighboring words of one kind form a span. B- begins a
    new one. I- and M- continue it, even if no B- came before. E- and L- end it, and S- and U- are
    spans alone. B and I without a kind are entities of the kind "_". A label without such a prefix
    is a kind itself, and O is not an entity.

    Words are the tokenizer's: split at white space and around punctuation. CoNLL splits
    differently: a model that was trained on `U.S.` as one word has never seen labels of its parts.

    Args:
        model: A token classifier, or one that `minibert export` has written.
        tokenizer: Its tokenizer.
        texts: A text or several. A text that is too long for the model is split into windows. If
            two windows show a word, the one with more around it decides.
        stride: Tokens that neighboring windows share. None: a quarter of a window.
        by_piece: Each piece has a label of its own, as in a model trained on labels of characters.
            A name may then end inside a word, as before a Korean particle.

    Returns:
        For each text a list of `{"entity_group", "score", "word", "start", "end"}` in the order of
        the text: the kind, the mean probability of its words' labels, the text, and `[start, end)`
        in characters.

    Raises:
        TypeError: `model` is not a token classifier.
        ValueError: The export has another head, `texts` is a mapping, `stride` does not fit, or
            the logits are not finite.
    """
    require_model(model, BertForTokenClassification, OnnxHead)
    rows = as_text_list(texts)
    words: list[dict[int, _Word]] = [{} for _ in rows]
    for index, window, logits in _windows(model, tokenizer, rows, stride):
        scores, label_ids = logits.softmax(-1).max(-1)
        labels = [model.config.id2label[label_id] for label_id in label_ids.tolist()]
        for number, word in _words_of(window, labels, scores.tolist(), by_piece).items():
            words[index][number] = _merge(words[index].get(number), word)
    results = [_entities(text, text_words) for text, text_words in zip(rows, words, strict=True)]
    return results[0] if isinstance(texts, str) else results


def _windows(
    model: TokenClassifier,
    tokenizer: BertTokenizer,
    texts: list[str],
    stride: int | None,
) -> Iterator[tuple[int, Encoding, Tensor]]:
    """Windows of texts: the index of the text, the tokens, and their logits (tokens, labels)."""
    limit = token_limit(model, tokenizer)
    if stride is None:
        stride = limit // 4

    batch = encode_windows(tokenizer, texts, None, limit, stride)
    logits = _token_logits(model, batch["input_ids"], batch["token_type_ids"])
    return zip(batch["overflow_to_sample_mapping"], batch.encodings, logits, strict=True)


def _token_logits(
    model: TokenClassifier, ids: list[list[int]], token_types: list[list[int]]
) -> list[Tensor]:
    """Logits of each row, (tokens, labels)."""
    if isinstance(model, OnnxHead):
        if not model.tags_tokens:
            raise ValueError(f"{model.source} is not the export of a token classifier.")
        return list(map(torch.from_numpy, model.run_ids(ids, token_types)["logits"]))

    def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
        logits: Tensor = model(row_ids, **inputs).logits
        return logits

    return run_rows(model, compute, ids, token_types)


def _words_of(
    window: Encoding, labels: list[str], scores: list[float], by_piece: bool
) -> dict[int, _Word]:
    """The words of a window by their index in the text, or its pieces by where they begin."""
    words: dict[int, _Word] = {}
    places = zip(window.word_ids, window.offsets, strict=True)
    for position, (word_id, (start, end)) in enumerate(places):
        if word_id is None:
            continue
        number = start if by_piece else word_id
        if number in words:
            words[number] = replace(words[number], end=end)
            continue
        margin = min(position, len(window.ids) - 1 - position)
        words[number] = _Word(start, end, margin, labels[position], scores[position])
    return words


def _merge(previous: _Word | None, word: _Word) -> _Word:
    """A word that two windows show: the better view of it, and as far as either of them reaches."""
    if previous is None:
        return word
    better = word if word.shows_more_than(previous) else previous
    return replace(better, end=max(previous.end, word.end))


def _entities(text: str, words: dict[int, _Word]) -> list[Entity]:
    ordered = [words[number] for number in sorted(words)]
    entities = []
    for kind, first, stop in entity_spans(word.label for word in ordered):
        start = ordered[first].start
        end = ordered[stop - 1].end
        score = fmean(word.score for word in ordered[first:stop])
        entity = Entity(entity_group=kind, score=score, word=text[start:end], start=start, end=end)
        entities.append(entity)
    return entities
