"""Pre-training data as in the paper (section 3.1): documents -> sentence pairs -> masked tokens.

Everything random is drawn in every epoch from the seed and the number of the epoch alone. So a
run can be resumed anywhere, and any number of processes have the same data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.heads import BertForMaskedLM
from minibert.inference.batching import rounded_rows
from minibert.inference.training_speedups import word_loss
from minibert.losses import IGNORED, cross_entropy
from minibert.text import Table, parts_of
from minibert.tokenization.coverage import unread_warning
from minibert.tokenization.pieces import pieces_by_id
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.corpora import Corpus, Document, Ids, mix, read_documents
from minibert.training.data import Batch, Example, pack, split_by_tokens, to_device
from minibert.training.journal import Record
from minibert.training.options import NO_NEXT_SENTENCE, PretrainOptions
from minibert.training.processes import Processes, is_first_process
from minibert.training.run import Run
from minibert.training.state import remove_states, run_folder
from minibert.util.checks import check_kind
from minibert.util.errors import ArgumentError, Message
from minibert.util.progress import tell

IdPair = tuple[Ids, Ids | None, int]
"""The two texts of an example, or one text and None, and the label of the pair."""

_LABELS = ("labels", "next_sentence_label")
# Share of pairs that are shorter than they could be, so that a model learns from short texts, too.
SHORT_PAIRS = 0.1
# Share of documents of one sentence from which on it is probably a mistake.
MANY_SINGLE = 0.9
# Of the first documents, to find out whether the vocabulary covers their script.
SAMPLE_DOCUMENTS = 20
# Number of texts that are masked together, which is faster than one at a time.
TEXTS_AT_ONCE = 1000
# Number of held-out tokens to evaluate with: more take longer, fewer give noisier scores.
HELD_OUT_TOKENS = 1 << 16


@dataclass(frozen=True)
class Masking:
    """Choose tokens to predict and mask them (paper, section 3.1).

    80% become [MASK], 10% become another word, and 10% stay.

    Attributes:
        mask_id: Id of [MASK].
        special: True for ids that are never masked and never replace another one, (vocab,).
        continues: True for ids that continue a word (`##ing`), (vocab,).
        probability: Share of the tokens that are chosen.
        whole_words: Choose words with all their tokens, rather than single tokens.
        spans: Choose spans of 3.8 words on average. All tokens of a span are hidden in the same way
            (SpanBERT: Joshi et al. 2020, section 3.1).
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
        """Make the masking of a tokenizer's vocabulary. An id without a piece is never drawn."""
        pieces = pieces_by_id(tokenizer)
        special = np.isin(np.arange(len(pieces)), tokenizer.all_special_ids)
        special |= np.array([piece is None for piece in pieces])
        continues = np.array([piece is not None and piece.startswith("##") for piece in pieces])
        return cls(tokenizer.mask_token_id, special, continues, probability, whole_words, spans)

    def __call__(self, ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Mask token ids.

        Returns:
            The ids that the model receives, and the labels, both (seq,). A label is the id that was
            hidden, and `IGNORED` elsewhere.
        """
        words = np.cumsum(~self.continues[ids])
        # tokens with the same unit are chosen together
        unit = words if self.whole_words else np.arange(len(ids))
        if self.spans:
            ends = np.cumsum(np.minimum(rng.geometric(0.2, len(ids) + 1), 10))
            unit = np.searchsorted(ends, words)
        chosen = (rng.random(len(ids) + 1) < self.probability)[unit] & ~self.special[ids]
        fate = rng.random(len(ids) + 1)[unit] if self.spans else rng.random(len(ids))
        masked = np.where(chosen & (fate < 0.8), self.mask_id, ids)
        random_words = rng.choice(np.flatnonzero(~self.special), len(ids))
        masked = np.where(chosen & (fate >= 0.9), random_words, masked)
        return masked, np.where(chosen, ids, IGNORED)


def sentence_pairs(
    documents: Sequence[Document],
    max_tokens: int,
    rng: np.random.Generator,
    sentence_order: bool = False,
) -> list[IdPair]:
    """Split documents into pairs for next-sentence or sentence-order prediction.

    Args:
        documents: The documents.
        max_tokens: Maximum number of tokens of both texts together.
        rng: Random number generator.
        sentence_order: Swap the texts of a true pair to get a false one (ALBERT: Lan et al. 2020,
            section 3.1).

    Returns:
        (first, second, label): label 0 if the second text follows the first one in its document, 1
        if it comes from another document, which is one pair in two. A last sentence stands alone:
        (first, None, IGNORED).

    Raises:
        ValueError: There are fewer than two documents, so there is no other one to draw from.
    """
    if len(documents) < 2 and not sentence_order:
        raise ValueError(
            Message(
                f"Next-sentence prediction needs two or more documents, not {len(documents)}: "
                "put empty lines between documents, or pass ",
                NO_NEXT_SENTENCE,
                ".",
            )
        )
    pairs: list[IdPair] = []
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
                draw = int(rng.integers(len(documents) - 1))
                source = documents[draw + (draw >= number)]  # any document but this one
                begin = int(rng.integers(len(source)))
                stop = _fill(source, begin, target - len(first))
                second = np.concatenate(source[begin:stop])
                label = 1
                start = middle  # the unused sentences begin the next pair
            first, second = _shorten(first, second, target, rng)
            if label and sentence_order:
                pairs.append((second, first, 1))
            else:
                pairs.append((first, second, label))
    return pairs


def single_texts(
    documents: Sequence[Document], max_tokens: int, rng: np.random.Generator
) -> list[IdPair]:
    """Split documents into texts of `max_tokens`, for training without next-sentence prediction.

    Every token is in one text. The first text of a longer document has a random length, so that
    documents are split at other places in every epoch.
    """
    texts: list[IdPair] = []
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
    return _window(first, keep_first, rng), _window(second, keep_second, rng)


def _window(text: Ids, keep: int, rng: np.random.Generator) -> Ids:
    """A random window of `keep` tokens."""
    front = int(rng.integers(len(text) - keep + 1))
    return text[front : front + keep]


@dataclass(eq=False, repr=False)
class PretrainingData:
    """Examples for `BertForPreTraining`, new in every epoch.

    Without next-sentence prediction they are for `BertForMaskedLM`.

    Args:
        documents: The documents of every epoch, or a function that returns those of an epoch by its
            number.
        tokenizer: Its vocabulary and its special tokens are used.
        options: The objective, the length of the examples, and the seed of everything random.

    Raises:
        ValueError: No document has a next sentence.
    """

    documents: Sequence[Document] | Callable[[int], Sequence[Document]]
    tokenizer: Any
    options: PretrainOptions = PretrainOptions()

    def __post_init__(self) -> None:
        """Read the vocabulary."""
        options = self.options
        self._masking = Masking.for_tokenizer(
            self.tokenizer, options.mask_probability, options.whole_words, options.spans
        )

    def epoch(self, number: int) -> list[Example]:
        """The examples of one epoch."""
        options = self.options
        rng = np.random.default_rng([options.seed, number])
        documents = self.documents(number) if callable(self.documents) else self.documents
        if options.next_sentence:
            if len(documents) > 1 and all(len(document) == 1 for document in documents):
                raise ValueError(
                    Message(
                        "Next-sentence prediction needs documents of several sentences, a line "
                        "each: put them so, or pass ",
                        NO_NEXT_SENTENCE,
                        ".",
                    )
                )
            if number == 0 and callable(self.documents):  # the training data, and not the dev data
                _report_single_sentences(documents)
            room = options.max_length - 3
            texts = sentence_pairs(documents, room, rng, options.sentence_order)
        else:
            texts = single_texts(documents, options.max_length - 2, rng)
        parts = [
            texts[start : start + TEXTS_AT_ONCE] for start in range(0, len(texts), TEXTS_AT_ONCE)
        ]
        return [example for part in parts for example in self._examples(part, rng)]

    def _examples(self, texts: Sequence[IdPair], rng: np.random.Generator) -> Iterator[Example]:
        """Join, mask and label the texts of some pairs."""
        rows = [self._join(first, second) for first, second, _ in texts]
        masked, labels = self._masking(np.concatenate(rows), rng)  # (tokens of all rows,)
        masked = masked.astype(np.int32)
        labels = labels.astype(np.int32)
        start = 0
        for (first, _, next_sentence_label), row in zip(texts, rows, strict=True):
            end = start + len(row)
            segments = np.zeros(len(row), dtype=np.int8)
            segments[len(first) + 2 :] = 1
            example: Example = {
                "input_ids": masked[start:end],
                "token_type_ids": segments,
                "labels": labels[start:end],
            }
            if self.options.next_sentence:
                example["next_sentence_label"] = next_sentence_label
            yield example
            start = end

    def _join(self, first: Ids, second: Ids | None) -> Ids:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""
        cls = [self.tokenizer.cls_token_id]
        sep = [self.tokenizer.sep_token_id]
        if second is None:
            return np.concatenate([cls, first, sep])
        return np.concatenate([cls, first, sep, second, sep])


def pretraining_losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Compute the summed losses of `BertForPreTraining` or `BertForMaskedLM`."""
    predictions = _predictions(model, batch)
    logits, labels = predictions["labels"]
    losses = {"labels": word_loss(logits, labels)}
    if "next_sentence_label" in predictions:
        logits, labels = predictions["next_sentence_label"]
        losses["next_sentence_label"] = cross_entropy(logits, labels, "sum")
    return losses


def _predictions(model: nn.Module, batch: Batch) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the logits and labels of the words, and of the pairs if there are any.

    Those of words are computed only at labeled tokens, and at a few more if packed.
    """
    inputs = {name: value for name, value in batch.items() if name not in _LABELS}
    labels = batch["labels"]
    positions = labels != IGNORED
    is_packed = labels.dim() == 1
    if is_packed and labels.device.type == "cpu" and torch.is_grad_enabled():
        # see minibert.inference.training_speedups
        count = int(positions.sum())
        positions[(~positions).nonzero()[: rounded_rows(count) - count]] = True
    logits = model(**inputs, positions=positions, return_dict=False)
    predictions = {"labels": (logits[0], labels[positions])}
    if "next_sentence_label" in batch:
        predictions["next_sentence_label"] = (logits[1], batch["next_sentence_label"])
    return predictions


@torch.no_grad()
def pretraining_scores(
    model: nn.Module, examples: Sequence[Example], tokens_per_forward: int | None
) -> dict[str, float]:
    """Measure how well a model in eval mode predicts hidden words and next sentences.

    Returns:
        The sum of the mean losses, perplexity and accuracy of the hidden words, and accuracy of the
        pairs, if there are any.
    """
    device = next(model.parameters()).device
    totals: dict[str, Tensor] = {}  # summed loss, number of correct predictions, number of labels
    for part in split_by_tokens(examples, tokens_per_forward):
        batch = to_device(pack(part), device)
        for name, (logits, labels) in _predictions(model, batch).items():
            is_labeled = labels != IGNORED
            correct = (logits.argmax(-1) == labels)[is_labeled].sum()
            loss = cross_entropy(logits.float(), labels, "sum")
            new = torch.stack([loss, correct, is_labeled.sum()])
            totals[name] = totals.get(name, torch.zeros(3)) + new.double().cpu()
    loss_of_words, correct_words, words = totals["labels"].tolist()
    words = words or math.nan  # nothing is masked where every token is unknown
    scores = {
        "held_out_loss": loss_of_words / words,
        "perplexity": math.exp(loss_of_words / words),
        "masked_accuracy": correct_words / words,
    }
    if "next_sentence_label" in totals:
        loss_of_pairs, correct_pairs, pairs = totals["next_sentence_label"].tolist()
        scores["held_out_loss"] += loss_of_pairs / max(1, pairs)
        scores["next_sentence_accuracy"] = correct_pairs / max(1, pairs)
    return scores


def pretrain(
    model: PreTrainedModel,
    tokenizer: BertTokenizer,
    corpus: Sequence[str] | Mapping[str, float],
    folder: str | os.PathLike[str],
    options: PretrainOptions | None = None,
    *,
    table: Table | None = None,
    resume: bool | Literal["with other data"] = False,
    callback: Callable[[Record], object] | None = None,
) -> Run:
    """Pre-train a model, and save it in `folder` with its tokenizer.

    Args:
        model: A `BertForPreTraining`, or a `BertForMaskedLM` without next-sentence prediction.
        tokenizer: Its tokenizer.
        corpus: Files, folders or URIs of texts, see `Corpus`. A mapping gives each of them its
            share of the tokens.
        folder: For the ids of the corpus, the states, the log and the model.
        options: What to learn from the corpus, and how.
        table: How the files are read. None: by their endings, with the text in the column "text".
        resume: Continue the run in `folder`, as in `Run`.
        callback: See `Run`.

    Returns:
        The run, after its end.

    Raises:
        TypeError: `corpus` is a string or a path, or `options` something else.
        FileNotFoundError: A file of the corpus does not exist, or there is nothing to resume.
        OSError: Another process trains in the folder.
        ValueError: The corpus has no text, a weight is 0, the texts are longer than the model has
            positions, the model lacks the head of an objective, or the folder already holds a
            run.
    """
    options = options or PretrainOptions()
    check_kind("options", options, PretrainOptions, "PretrainOptions")
    sources = _weighted_sources(corpus)
    positions = model.config.max_position_embeddings
    if options.max_length > positions:
        raise ArgumentError(
            "max_length", f"is {options.max_length}, but the config has only {positions} positions."
        )
    if not options.evaluate_every:
        options = replace(options, evaluate_every=options.save_every)
    options = replace(options, metric="held_out_loss" if options.patience else None)
    with run_folder(folder, bool(resume)) as opened:
        if options.next_sentence and type(model) is BertForMaskedLM:
            raise ArgumentError(
                "model",
                "is a BertForMaskedLM, which has no head for next sentences: pass ",
                NO_NEXT_SENTENCE,
                ", or a BertForPreTraining.",
            )
        _report_coverage(next(iter(sources))[0], tokenizer, table)
        corpora = []
        for number, (files, weight) in enumerate(sources.items()):
            tokens = Corpus(
                files,
                tokenizer,
                Path(folder, "tokens", str(number)),
                table=table,
                held_out=options.held_out,
                seed=options.seed,
                tokenize=is_first_process(),
            )
            corpora.append((tokens, weight))
        # the others wait until the first process has removed the error of an earlier run
        Processes.join(options.device).gather(None)
        held_out: list[Document] = []
        for tokens, _ in corpora:
            held_out += tokens.held_out(HELD_OUT_TOKENS // len(corpora))
        dev_examples = []
        if len(held_out) > 1:
            dev_examples = PretrainingData(held_out, tokenizer, options).epoch(0)
        if not dev_examples and options.held_out:
            tell(
                "notice: nothing is held out and nothing is evaluated: a share of "
                f"{options.held_out:g} is less than two documents here. Hold out a larger share, "
                "and put empty lines between documents, or name a table with a document a row."
            )
        evaluate = None
        if dev_examples:
            evaluate = partial(pretraining_scores, model, dev_examples, options.tokens_per_forward)
        data = [
            PretrainingData(partial(tokens.epoch, size=size), tokenizer, options)
            for tokens, size in mix(corpora)
        ]
        run = Run(
            model,
            lambda number: [example for part in data for example in part.epoch(number)],
            pretraining_losses,
            Path(folder),
            options,
            tokenizer=tokenizer,
            resume=resume,
            evaluate=evaluate,
            dev=dev_examples,
            callback=callback,
        )
        run.train(opened)
        if options.metric is None or not run.best_scores:  # else the best model is saved already
            run.save_model(folder)
        if run.is_first:
            remove_states(folder, options.keep_states)
    return run


def _weighted_sources(
    corpus: Iterable[str] | Mapping[str, float],
) -> dict[tuple[str, ...], float]:
    """The files of a corpus, each alone with its weight, or all of them together."""
    if isinstance(corpus, str | os.PathLike):
        path = os.fspath(corpus)
        raise TypeError(f"corpus should be a list of files, not the string {path!r:.80}.")
    sources = {tuple(corpus): 1.0}
    if isinstance(corpus, Mapping):
        sources = {(source,): weight for source, weight in corpus.items()}
    if () in sources or not sources:
        raise ArgumentError("corpus", "names no file.")
    for files, weight in sources.items():
        if not 0 < weight < math.inf:
            raise ValueError(
                f"the weight of {files[0]} should be more than 0, not {weight:g}. Leave out a "
                "corpus that should not be read."
            )
    return sources


def _report_single_sentences(documents: Sequence[Document]) -> None:
    """Say if nearly all documents have no next sentence."""
    single = sum(len(document) == 1 for document in documents)
    if single > MANY_SINGLE * len(documents):
        tell(
            Message(
                f"notice: {single:,} of {len(documents):,} documents have a single sentence, so "
                "only the others teach next sentences. Write a sentence a line, and an empty line "
                "after each document alone, or train on masked words only: ",
                NO_NEXT_SENTENCE,
                ".",
            )
        )


def _report_coverage(source: str, tokenizer: BertTokenizer, table: Table | None) -> None:
    """Say if the vocabulary does not cover the script of the beginning of a corpus."""
    parts = list(parts_of(source, table).values())
    if not parts:  # an empty file, which the corpus reports
        return
    documents = islice(read_documents(parts[0], table), SAMPLE_DOCUMENTS)
    sample = [sentence for document in documents for sentence in document[:SAMPLE_DOCUMENTS]]
    warning = unread_warning(tokenizer, sample)
    if warning:
        tell(f"notice: {warning}")
