"""Pre-training data as in the paper (section 3.1): documents -> sentence pairs -> masked tokens.

Everything random is drawn anew in every epoch from the seed and the epoch's number alone, so that a run can go on
from any place and any number of processes sees the same data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from minibert.files import read_lines
from minibert.losses import IGNORED, cross_entropy
from minibert.progress import counted
from minibert.training.data import Batch, Example
from minibert.training.speedups import word_loss

Ids = npt.NDArray[np.int64]
Document = Sequence[Ids]
"""The sentences of a document, each the ids of its tokens."""

SHORT_PAIRS = 0.1  # share of pairs shorter than they could be, so that a model knows short texts too


def read_documents(paths: Iterable[str | os.PathLike[str]]) -> Iterator[list[str]]:
    """Documents of plain text files, one at a time: one sentence a line, an empty line between documents.

    Raises:
        FileNotFoundError: a file that is not there.
        ValueError: a file that is not UTF-8, or no text at all.
    """
    empty = True
    for path in paths:
        document: list[str] = []
        for line in chain(read_lines(path), [""]):
            if sentence := line.strip():
                document.append(sentence)
            elif document:
                empty = False
                yield document
                document = []
    if empty:
        raise ValueError("The corpus holds no text: one sentence a line, an empty line between documents.")


def encode_documents(documents: Iterable[Sequence[str]], tokenizer: Any) -> Iterator[list[Ids]]:
    """Every sentence as ids without special tokens; sentences and documents without a token are left out."""
    for document in counted(documents, "documents"):
        rows = tokenizer(list(document), add_special_tokens=False)["input_ids"]
        if encoded := [np.array(row, dtype=np.int64) for row in rows if row]:
            yield encoded


@dataclass(frozen=True)
class Masking:
    """Chooses tokens to predict and hides them: 80% become [MASK], 10% another word, 10% stay (paper, section 3.1).

    Attributes:
        mask_id: id of [MASK].
        special: True for ids that are never chosen and never put in another's place, (vocab,).
        continues: True for ids that continue a word (`##ing`), (vocab,).
        probability: share of the tokens that are chosen.
        whole_words: choose words, with all their pieces, and not single tokens.
    """

    mask_id: int
    special: npt.NDArray[np.bool_]
    continues: npt.NDArray[np.bool_]
    probability: float = 0.15
    whole_words: bool = False

    @classmethod
    def for_tokenizer(cls, tokenizer: Any, probability: float = 0.15, whole_words: bool = False) -> Masking:
        """The masking for a tokenizer's vocabulary."""
        words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        special = np.zeros(len(words), dtype=bool)
        special[list(tokenizer.all_special_ids)] = True
        continues = np.array([word.startswith("##") for word in words])
        return cls(tokenizer.mask_token_id, special, continues, probability, whole_words)

    @cached_property
    def _ordinary(self) -> Ids:
        return np.flatnonzero(~self.special)

    def __call__(self, ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """What the model sees, and the labels: the hidden ids, `IGNORED` elsewhere; all (seq,)."""
        # tokens with the same unit are chosen together
        unit = np.cumsum(~self.continues[ids]) if self.whole_words else np.arange(len(ids))
        chosen = (rng.random(len(ids) + 1) < self.probability)[unit] & ~self.special[ids]
        fate = rng.random(len(ids))
        seen = np.where(chosen & (fate < 0.8), self.mask_id, ids)
        other_words = self._ordinary[rng.integers(len(self._ordinary), size=len(ids))]
        seen = np.where(chosen & (fate >= 0.9), other_words, seen)
        return seen, np.where(chosen, ids, IGNORED)


def sentence_pairs(
    documents: Sequence[Document], max_tokens: int, rng: np.random.Generator
) -> list[tuple[Ids, Ids | None, int]]:
    """Cuts documents into pairs of texts for next-sentence prediction.

    Args:
        documents: at least two.
        max_tokens: limit of the tokens of both texts together.
        rng: where the choices come from.

    Returns:
        (first, second, label): label 0, the second text follows the first in its document; or 1, it comes from another
        document, one time in two. A sentence that has no next one stands alone: (first, None, IGNORED).

    Raises:
        ValueError: fewer than two documents, which leaves no other to draw from.
    """
    if len(documents) < 2:
        raise ValueError(
            f"Next-sentence prediction needs two or more documents, not {len(documents)}: put empty lines between "
            "documents, or turn it off."
        )
    pairs: list[tuple[Ids, Ids | None, int]] = []
    for number, document in enumerate(documents):
        start = 0
        while start < len(document):
            target = int(rng.integers(2, max_tokens + 1)) if rng.random() < SHORT_PAIRS else max_tokens
            end = _fill(document, start, target, at_least=2)
            if end - start == 1:
                pairs.append((document[start][:max_tokens], None, IGNORED))
                break
            middle = int(rng.integers(start + 1, end))
            first = np.concatenate(document[start:middle])
            if rng.random() < 0.5:
                second, label = np.concatenate(document[middle:end]), 0
                start = end
            else:
                other = int(rng.integers(len(documents) - 1))
                elsewhere = documents[other + (other >= number)]  # any document but this one
                place = int(rng.integers(len(elsewhere)))
                until = _fill(elsewhere, place, target - len(first))
                second, label = np.concatenate(elsewhere[place:until]), 1
                start = middle  # what was not used begins the next pair
            pairs.append((*_shorten(first, second, target, rng), label))
    return pairs


def single_texts(
    documents: Sequence[Document], max_tokens: int, rng: np.random.Generator
) -> list[tuple[Ids, None, int]]:
    """Cuts documents into texts of `max_tokens`, for training without next-sentence prediction.

    Every token is in one of them. The first text of a longer document has a random length, so that the cuts lie
    elsewhere in every epoch.
    """
    texts: list[tuple[Ids, None, int]] = []
    for document in documents:
        text = np.concatenate(document)
        first = int(rng.integers(1, max_tokens + 1)) if len(text) > max_tokens else max_tokens
        parts = np.split(text, range(first, len(text), max_tokens))
        texts += [(part, None, IGNORED) for part in parts]
    return texts


def _fill(document: Document, start: int, tokens: int, at_least: int = 1) -> int:
    """The end of the run of sentences from `start` that reaches `tokens`, and has `at_least` so many sentences."""
    end, length = start, 0
    while end < len(document) and (length < tokens or end - start < at_least):
        length += len(document[end])
        end += 1
    return end


def _shorten(first: Ids, second: Ids, tokens: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Cuts the longer text until both have `tokens` together; a random window of it is kept, one token at least."""
    # what remains if tokens were taken from the longer text one by one
    keep_first = max(min(len(first), max(tokens - len(second), (tokens + 1) // 2)), 1)
    keep_second = max(min(len(second), tokens - keep_first), 1)
    return _cut(first, keep_first, rng), _cut(second, keep_second, rng)


def _cut(text: Ids, keep: int, rng: np.random.Generator) -> Ids:
    front = int(rng.integers(len(text) - keep + 1))
    return text[front : front + keep]


class PretrainingData:
    """Examples for `BertForPreTraining` (or `BertForMaskedLM` without next-sentence prediction), new in every epoch.

    Args:
        documents: see `encode_documents`.
        tokenizer: names the special tokens.
        max_length: limit of the tokens of an example, special tokens counted.
        next_sentence: make pairs and their labels.
        mask_probability: see `Masking`.
        whole_words: see `Masking`.
        portions: the numbers of the documents of an epoch, None: an epoch takes them all.
        seed: of everything random.

    Raises:
        ValueError: no room for words, an impossible probability, or next sentences where no document has any.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        tokenizer: Any,
        *,
        max_length: int = 128,
        next_sentence: bool = True,
        mask_probability: float = 0.15,
        whole_words: bool = False,
        portions: Callable[[int], Sequence[int]] | None = None,
        seed: int = 0,
    ) -> None:
        if max_length < 5:
            raise ValueError(f"max_length should be 5 or more, not {max_length}: three of them are special tokens.")
        if not 0 <= mask_probability <= 1:
            raise ValueError(f"mask_probability should lie between 0 and 1, not {mask_probability}.")
        if next_sentence and len(documents) > 1 and portions is None and all(len(d) == 1 for d in documents):
            raise ValueError("Next-sentence prediction needs documents of several sentences, a line each; turn it off.")
        self.documents, self.max_length, self.next_sentence, self.seed = documents, max_length, next_sentence, seed
        self.portions = portions
        self.masking = Masking.for_tokenizer(tokenizer, mask_probability, whole_words)
        self._cls = np.array([tokenizer.cls_token_id])
        self._sep = np.array([tokenizer.sep_token_id])

    def epoch(self, number: int) -> list[Example]:
        """The examples of one epoch."""
        rng = np.random.default_rng([self.seed, number])
        documents = self.documents
        if self.portions is not None:
            chosen = list(self.portions(number))
            if self.next_sentence and len(chosen) < 2:  # within one long document; a pair needs another one
                others = rng.permutation(len(documents)).tolist()
                chosen = [*chosen, *(n for n in others if n not in chosen)][:2]
            documents = [documents[n] for n in chosen]
        if self.next_sentence:
            texts = sentence_pairs(documents, self.max_length - 3, rng)
        else:
            texts = [*single_texts(documents, self.max_length - 2, rng)]
        return [self._example(first, second, label, rng) for first, second, label in texts]

    def _example(self, first: Ids, second: Ids | None, label: int, rng: np.random.Generator) -> Example:
        parts = [self._cls, first, self._sep] if second is None else [self._cls, first, self._sep, second, self._sep]
        ids = np.concatenate(parts)
        segments = np.zeros_like(ids)
        segments[len(first) + 2 :] = 1
        seen, labels = self.masking(ids, rng)
        example: Example = {"input_ids": seen, "token_type_ids": segments, "labels": labels}
        return {**example, "next_sentence_label": label} if self.next_sentence else example


def pretraining_losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Summed losses of `BertForPreTraining` or `BertForMaskedLM`; words are scored only where they are asked for."""
    inputs = {name: value for name, value in batch.items() if name not in ("labels", "next_sentence_label")}
    asked = batch["labels"] != IGNORED
    words, *rest = model(**inputs, positions=asked, return_dict=False)
    losses = {"labels": word_loss(words, batch["labels"][asked])}
    if "next_sentence_label" in batch:
        pairs, labels = rest[0], batch["next_sentence_label"]
        losses["next_sentence_label"] = cross_entropy(pairs, labels, "sum")
    return losses
