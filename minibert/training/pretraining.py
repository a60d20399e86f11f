"""Pre-training data as in the paper (section 3.1): documents -> sentence pairs -> masked tokens.

Everything random is drawn anew in every epoch from the seed and the epoch's number alone, so that a
run can go on from any place and any number of processes sees the same data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.files import only_run_in
from minibert.inference.batching import rounded_rows
from minibert.losses import IGNORED, cross_entropy
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.corpora import Corpus, Document, Ids, mix
from minibert.training.data import Batch, Example, pack, split_by_tokens
from minibert.training.journal import Record
from minibert.training.loop import Trainer
from minibert.training.options import TrainingOptions
from minibert.training.processes import Processes
from minibert.training.speedups import word_loss
from minibert.training.state import remove_states

Pair = tuple[Ids, Ids | None, int]
"""Two texts that stand in one example, or one alone, and the label of the pair."""

_LABELS = ("labels", "next_sentence_label")
SHORT_PAIRS = (
    0.1  # share of pairs shorter than they could be, so that a model knows short texts too
)
TEXTS_AT_ONCE = 1000  # that are masked together: quicker than one at a time, and soon done
HELD_OUT_TOKENS = (
    1 << 16
)  # that a run is measured with: more would take time, fewer be less certain


@dataclass(frozen=True)
class Masking:
    """Choose tokens to predict and mask them (paper, section 3.1).

    80% become [MASK], 10% become another word, and 10% stay.

    Attributes:
        mask_id: id of [MASK].
        special: True for ids that are never chosen and never put in another's place, (vocab,).
        continues: True for ids that continue a word (`##ing`), (vocab,).
        probability: share of the tokens that are chosen.
        whole_words: choose words, with all their pieces, and not single tokens.
        spans: choose spans of 3.8 words on average, each hidden in one way (SpanBERT: Joshi et al.
            2020, section 3.1).
    """

    mask_id: int
    special: npt.NDArray[np.bool_]
    continues: npt.NDArray[np.bool_]
    probability: float = 0.15
    whole_words: bool = False
    spans: bool = False

    @classmethod
    def for_tokenizer(
        cls,
        tokenizer: Any,
        probability: float = 0.15,
        whole_words: bool = False,
        spans: bool = False,
    ) -> Masking:
        """The masking for a tokenizer's vocabulary."""
        words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        special = np.isin(np.arange(len(words)), tokenizer.all_special_ids)
        continues = np.array([word.startswith("##") for word in words])
        return cls(tokenizer.mask_token_id, special, continues, probability, whole_words, spans)

    def __call__(self, ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Return the ids that the model receives, and the labels.

        Labels are the hidden ids, and `IGNORED` elsewhere. All have shape (seq,).
        """
        words = np.cumsum(~self.continues[ids])
        # tokens with the same unit are chosen together
        unit = words if self.whole_words else np.arange(len(ids))
        if self.spans:
            ends = np.cumsum(np.minimum(rng.geometric(0.2, len(ids) + 1), 10))
            unit = np.searchsorted(ends, words)
        chosen = (rng.random(len(ids) + 1) < self.probability)[unit] & ~self.special[ids]
        fate = rng.random(len(ids) + 1)[unit] if self.spans else rng.random(len(ids))
        seen = np.where(chosen & (fate < 0.8), self.mask_id, ids)
        other_words = rng.choice(np.flatnonzero(~self.special), len(ids))
        seen = np.where(chosen & (fate >= 0.9), other_words, seen)
        return seen, np.where(chosen, ids, IGNORED)


def sentence_pairs(
    documents: Sequence[Document],
    max_tokens: int,
    rng: np.random.Generator,
    sentence_order: bool = False,
) -> list[Pair]:
    """Split documents into pairs for next-sentence or sentence-order prediction.

    A pair has `max_tokens` tokens together.

    In the latter a wrong pair is a right one with its texts swapped (ALBERT: Lan et al. 2020,
    section 3.1).

    Returns:
        (first, second, label): label 0, the second text follows the first in its document; or 1, it
        comes from another document, one time in two. A sentence that has no next one stands alone:
        (first, None, IGNORED).

    Raises:
        ValueError: fewer than two documents, which leaves no other to draw from.
    """
    if len(documents) < 2 and not sentence_order:
        raise ValueError(
            f"Next-sentence prediction needs two or more documents, not {len(documents)}: "
            "put empty lines between documents, or turn it off."
        )
    pairs: list[Pair] = []
    for number, document in enumerate(documents):
        start = 0
        while start < len(document):
            target = max_tokens
            if rng.random() < SHORT_PAIRS:
                target = int(rng.integers(2, max_tokens + 1))
            end = _fill(document, start, target, at_least=2)
            if end - start == 1:
                pairs.append((document[start][:max_tokens], None, IGNORED))
                break
            middle = int(rng.integers(start + 1, end))
            first = np.concatenate(document[start:middle])
            follows = rng.random() < 0.5
            if follows or sentence_order:
                second = np.concatenate(document[middle:end])
                label = int(not follows)
                start = end
            else:
                other = int(rng.integers(len(documents) - 1))
                elsewhere = documents[other + (other >= number)]  # any document but this one
                place = int(rng.integers(len(elsewhere)))
                until = _fill(elsewhere, place, target - len(first))
                second = np.concatenate(elsewhere[place:until])
                label = 1
                start = middle  # what was not used begins the next pair
            first, second = _shorten(first, second, target, rng)
            if label and sentence_order:
                pairs.append((second, first, 1))
            else:
                pairs.append((first, second, label))
    return pairs


def single_texts(
    documents: Sequence[Document], max_tokens: int, rng: np.random.Generator
) -> list[Pair]:
    """Cuts documents into texts of `max_tokens`, for training without next-sentence prediction.

    Every token is in one of them. The first text of a longer document has a random length, so that
    the cuts lie elsewhere in every epoch.
    """
    texts: list[Pair] = []
    for document in documents:
        text = np.concatenate(document)
        first = max_tokens
        if len(text) > max_tokens:
            first = int(rng.integers(1, max_tokens + 1))
        parts = np.split(text, range(first, len(text), max_tokens))
        texts += [(part, None, IGNORED) for part in parts]
    return texts


def _fill(document: Document, start: int, tokens: int, at_least: int = 1) -> int:
    """Return the end of the run of sentences from `start` that reaches `tokens`.

    It has at least `at_least` sentences.
    """
    end = start
    length = 0
    while end < len(document) and (length < tokens or end - start < at_least):
        length += len(document[end])
        end += 1
    return end


def _shorten(first: Ids, second: Ids, tokens: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Truncate the longer text until both have `tokens` together.

    A random window of it remains, with at least one token.
    """
    # what remains if tokens were taken from the longer text one by one
    keep_first = max(min(len(first), max(tokens - len(second), (tokens + 1) // 2)), 1)
    keep_second = max(min(len(second), tokens - keep_first), 1)
    return _cut(first, keep_first, rng), _cut(second, keep_second, rng)


def _cut(text: Ids, keep: int, rng: np.random.Generator) -> Ids:
    front = int(rng.integers(len(text) - keep + 1))
    return text[front : front + keep]


@dataclass(eq=False, repr=False)
class PretrainingData:
    """Examples for `BertForPreTraining`, new in every epoch.

    Without next-sentence prediction they are for `BertForMaskedLM`.

    `documents` are those of every epoch, or a function that gives those of an epoch by its number.
    An example has at most `max_length` tokens, special ones counted. `Masking` and `sentence_pairs`
    explain the other options.

    Raises:
        ValueError: no room for words, an impossible probability, or next sentences where no
            document has any.
    """

    documents: Sequence[Document] | Callable[[int], Sequence[Document]]
    tokenizer: Any
    _: KW_ONLY
    max_length: int = 128
    next_sentence: bool = True
    sentence_order: bool = False
    mask_probability: float = 0.15
    whole_words: bool = False
    spans: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks, and reads the vocabulary."""
        if self.max_length < 5:
            raise ValueError(
                f"max_length should be 5 or more, not {self.max_length}: three are special tokens."
            )
        if not 0 <= self.mask_probability <= 1:
            raise ValueError(
                f"mask_probability should lie between 0 and 1, not {self.mask_probability}."
            )
        self._masking = Masking.for_tokenizer(
            self.tokenizer, self.mask_probability, self.whole_words, self.spans
        )

    def epoch(self, number: int) -> list[Example]:
        """The examples of one epoch."""
        rng = np.random.default_rng([self.seed, number])
        documents = self.documents(number) if callable(self.documents) else self.documents
        if self.next_sentence:
            if len(documents) > 1 and all(len(document) == 1 for document in documents):
                raise ValueError(
                    "Next-sentence prediction needs documents of several sentences, "
                    "a line each; turn it off."
                )
            texts = sentence_pairs(documents, self.max_length - 3, rng, self.sentence_order)
        else:
            texts = single_texts(documents, self.max_length - 2, rng)
        parts = [
            texts[start : start + TEXTS_AT_ONCE] for start in range(0, len(texts), TEXTS_AT_ONCE)
        ]
        return [example for part in parts for example in self._examples(part, rng)]

    def _examples(self, texts: Sequence[Pair], rng: np.random.Generator) -> Iterator[Example]:
        cls, sep = [self.tokenizer.cls_token_id], [self.tokenizer.sep_token_id]
        ends = [[sep] if second is None else [sep, second, sep] for _, second, _ in texts]
        rows = [np.concatenate([cls, text[0], *end]) for text, end in zip(texts, ends, strict=True)]
        hidden = [x.astype(np.int32) for x in self._masking(np.concatenate(rows), rng)]
        cuts = np.cumsum([len(row) for row in rows[:-1]])
        for (first, _, label), row, seen, labels in zip(
            texts, rows, *(np.split(x, cuts) for x in hidden), strict=True
        ):
            segments = np.zeros(len(row), dtype=np.int8)
            segments[len(first) + 2 :] = 1
            example: Example = {"input_ids": seen, "token_type_ids": segments, "labels": labels}
            if self.next_sentence:
                example["next_sentence_label"] = label
            yield example


def pretraining_losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Summed losses of `BertForPreTraining` or `BertForMaskedLM`."""
    words, *pairs = _predictions(model, batch)
    return dict(
        zip(
            _LABELS,
            [word_loss(*words), *(cross_entropy(*each, "sum") for each in pairs)],
            strict=False,
        )
    )


def _predictions(model: nn.Module, batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """Return the logits and labels of words and of pairs.

    Those of words are computed only at labeled tokens, and at a few more if packed.
    """
    inputs = {name: value for name, value in batch.items() if name not in _LABELS}
    words, *pairs = (batch[name] for name in _LABELS if name in batch)
    asked = words != IGNORED
    if (
        asked.dim() == 1 and asked.device.type == "cpu" and torch.is_grad_enabled()
    ):  # see minibert.training.speedups
        count = int(asked.sum())
        asked[(~asked).nonzero()[: rounded_rows(count) - count]] = True
    logits = model(**inputs, positions=asked, return_dict=False)
    return list(zip(logits, [words[asked], *pairs], strict=False))


@torch.no_grad()
def pretraining_scores(
    model: nn.Module, examples: Sequence[Example], tokens_per_forward: int | None
) -> dict[str, float]:
    """How well a model in eval mode predicts hidden words, and which texts belong together.

    Returns:
        The mean losses, added up; perplexity and accuracy of the hidden words; accuracy of the
        pairs, if there are any.
    """
    device = next(model.parameters()).device
    sums: dict[int, Tensor] = {}
    for part in split_by_tokens(examples, tokens_per_forward):
        batch = {
            name: x.to(device) if isinstance(x, Tensor) else x for name, x in pack(part).items()
        }
        for number, (logits, wanted) in enumerate(_predictions(model, batch)):
            counted = wanted != IGNORED
            right = (logits.argmax(-1) == wanted)[counted].sum()
            new = torch.stack([cross_entropy(logits.float(), wanted, "sum"), right, counted.sum()])
            sums[number] = sums.get(number, torch.zeros(3)) + new.double().cpu()
    (loss, right, count), *pairs = (sums[number].tolist() for number in sorted(sums))
    scores = {
        "held_out_loss": loss / count,
        "perplexity": math.exp(loss / count),
        "masked_accuracy": right / count,
    }
    for loss, right, count in pairs:
        scores["held_out_loss"] += loss / max(1, count)
        scores["next_sentence_accuracy"] = right / max(1, count)
    return scores


def pretrain(
    model: PreTrainedModel,
    tokenizer: BertTokenizer,
    corpus: Sequence[str] | Mapping[str, float],
    folder: str | os.PathLike[str],
    options: TrainingOptions,
    *,
    column: str | None = None,
    held_out: float = 0.01,
    resume: bool | Literal["with other data"] = False,
    callback: Callable[[Record], object] | None = None,
    **how: Any,
) -> Trainer:
    """Pre-trains a model; it lies in `folder` afterwards, tokenizer and all.

    Args:
        model: `BertForPreTraining`, or `BertForMaskedLM` without next-sentence prediction.
        tokenizer: its tokenizer.
        corpus: files, folders or URIs of texts, see `Corpus`; a mapping gives each the share of
            tokens to take of it.
        folder: for the ids of the corpus, the states, the log and the model.
        options: how to train.
        column: of the texts, in tables; None: "text".
        held_out: share of the documents that a run is measured with and does not learn from.
        resume: go on with the run in `folder`, as in `Trainer`.
        callback: see `Trainer`.
        how: further arguments of `PretrainingData`.

    Raises:
        FileNotFoundError: a file of the corpus is not there.
        OSError: another process works in the folder.
        ValueError: a corpus without text, or texts longer than the model has positions.
    """
    length = how.get("max_length", 128)
    positions = model.config.max_position_embeddings
    if length > positions:
        raise ValueError(f"max_length is {length}, but the config has only {positions} positions.")
    processes = Processes.join(options.device)
    sources: list[tuple[Iterable[str], float]] = [(corpus, 1.0)]
    if isinstance(corpus, Mapping):
        sources = [([source], weight) for source, weight in corpus.items()]
    about: dict[str, Any] = {
        "column": column,
        "held_out": held_out,
        "seed": options.seed,
        "cut": processes.rank == 0,
    }
    # from here on, and not only in the loop: the text is cut before
    with only_run_in(Path(folder), "corpus") if processes.rank == 0 else nullcontext():
        corpora = [
            (Corpus(files, tokenizer, Path(folder, "tokens", str(number)), **about), weight)
            for number, (files, weight) in enumerate(sources)
        ]
        data: Callable[..., PretrainingData] = partial(
            PretrainingData, tokenizer=tokenizer, seed=options.seed, **how
        )
        epochs = [data(partial(_portion, corpus, size)).epoch for corpus, size in mix(corpora)]
        kept = [
            document
            for corpus, _ in corpora
            for document in corpus.held_out(HELD_OUT_TOKENS // len(corpora))
        ]
        measured = data(kept).epoch(0) if len(kept) > 1 else []
        trainer = Trainer(
            model,
            lambda number: list(chain.from_iterable(epoch(number) for epoch in epochs)),
            pretraining_losses,
            Path(folder),
            options
            if options.evaluate_every
            else replace(options, evaluate_every=options.save_every),
            tokenizer=tokenizer,
            resume=resume,
            evaluate=partial(pretraining_scores, model, measured, options.tokens_per_forward)
            if measured
            else None,
            metric="held_out_loss" if options.patience else None,
            callback=callback,
        )
        trainer.run()
        if trainer.metric is None:  # otherwise the best model is there
            trainer.save_model(folder)
        if trainer.is_first:
            remove_states(folder, options.keep_states)
        return trainer


def _portion(corpus: Corpus, size: int, epoch: int) -> list[Document]:
    return corpus.portion(epoch * size, (epoch + 1) * size)
