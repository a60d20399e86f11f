"""Losses that a teacher takes part in, beside those of pre-training.

sentences   a sentence's vector (the mean of its hidden states) comes to be the teacher's (Reimers and Gurevych
2020, "Making monolingual sentence embeddings multilingual"): the same direction, and the same cosines
to the other sentences of the batch
words       the probabilities of a hidden word come to be the teacher's (Hinton et al. 2015)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.layouts import PackedLayout
from minibert.losses import IGNORED
from minibert.training.corpora import TokenCache
from minibert.training.data import Batch, Example
from minibert.training.speedups import word_loss

SENTENCE = "sentence"
"""Name of the label that is a sentence's number: its row among the teacher's vectors."""


class TaughtSentences:
    """Sentences whose vectors a teacher has computed; the examples' label is the row of the vector.

    Args:
        cache: one sentence a document, in the order of the teacher's vectors; shuffled, for they are taken in order.
        tokenizer: names the special tokens.
        max_length: tokens of an example at most; longer sentences are cut.
        sentences_per_epoch: how many an epoch takes; the next one takes those that follow.
    """

    def __init__(
        self, cache: TokenCache, tokenizer: Any, *, sentences_per_epoch: int, max_length: int = 128
    ) -> None:
        self.cache, self.max_length, self.sentences_per_epoch = (
            cache,
            max_length,
            sentences_per_epoch,
        )
        self._cls, self._sep = (
            np.array([tokenizer.cls_token_id]),
            np.array([tokenizer.sep_token_id]),
        )

    def epoch(self, number: int) -> Sequence[Example]:
        """The examples of one epoch."""
        start = number * self.sentences_per_epoch
        return [
            self._example(n % len(self.cache))
            for n in range(start, start + self.sentences_per_epoch)
        ]

    def _example(self, number: int) -> Example:
        ids = np.concatenate(self.cache[number])[: self.max_length - 2]
        return {"input_ids": np.concatenate([self._cls, ids, self._sep]), SENTENCE: number}


def sentence_loss(vectors: Tensor, wanted: Tensor, similarity_weight: float = 20.0) -> Tensor:
    """How far sentence vectors are from a teacher's, summed over the sentences.

    Args:
        vectors: the student's, (sentences, hidden), of any length.
        wanted: the teacher's, (sentences, hidden), of length 1.
        similarity_weight: of the mean squared difference of the cosines between the sentences.

    Returns:
        For each sentence 1 - cosine to the teacher's vector, plus the weighted difference of its row of cosines.
    """
    vectors = F.normalize(vectors, dim=-1)
    direction = 1 - (vectors * wanted).sum(-1)
    similarity = (vectors @ vectors.T - wanted @ wanted.T).square().mean(-1)
    return (direction + similarity_weight * similarity).sum()


@dataclass(frozen=True)
class TokenTeacher:
    """A model with the student's vocabulary whose last hidden states are shown to the student, mapped to its size.

    Attributes:
        model: the teacher.
        weight: (student's hidden, teacher's hidden).
        bias: (student's hidden,).
    """

    model: nn.Module
    weight: Tensor
    bias: Tensor

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, layout: PackedLayout, numbers: Tensor) -> Tensor:
        """What the student's states should be like, (tokens, student's hidden).

        Args:
            input_ids: (tokens,)
            layout: where the sentences begin and end.
            numbers: of the sentences among those that are taught, (sentences,); not looked at.
        """
        states = self.model(input_ids=input_ids, layout=layout).last_hidden_state
        return F.linear(states.float(), self.weight, self.bias)


class TaughtPretraining:
    """The losses of pre-training and of teachers, for a `Trainer` with a `BertForPreTraining` and packed batches.

    Args:
        sentence_vectors: the teacher's, (sentences, hidden); may be memory-mapped. They need not be of length 1.
        word_teacher: a model with the same vocabulary that scores hidden words; None: hidden words alone teach.
        token_teacher: shows every state of the taught sentences, such as a `TokenTeacher`; None: nobody does.
        word_weight: of the loss of hidden words.
        soft_share: of the teacher's probabilities in that loss; the rest is that of the hidden words themselves.
        pair_weight: of next-sentence prediction.
        sentence_weight: of `sentence_loss`.
        token_weight: of 1 - cosine of the states to those of `token_teacher`, the mean over a sentence.
    """

    def __init__(
        self,
        sentence_vectors: np.ndarray[Any, Any],
        word_teacher: nn.Module | None = None,
        token_teacher: Callable[[Tensor, PackedLayout, Tensor], Tensor] | None = None,
        *,
        word_weight: float = 1.0,
        soft_share: float = 0.5,
        pair_weight: float = 1.0,
        sentence_weight: float = 1.0,
        token_weight: float = 1.0,
    ) -> None:
        self.sentence_vectors, self.word_teacher, self.soft_share = (
            sentence_vectors,
            word_teacher,
            soft_share,
        )
        self.token_teacher, self.token_weight = token_teacher, token_weight
        self.word_weight, self.pair_weight, self.sentence_weight = (
            word_weight,
            pair_weight,
            sentence_weight,
        )

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The summed losses by the labels' names."""
        inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "layout")}
        asked = batch["labels"] != IGNORED
        outputs = model(**inputs, positions=asked, output_hidden_states=True)
        logits, labels = outputs.prediction_logits, batch["labels"][asked]
        if self.word_teacher is None:
            words = word_loss(logits, labels)
        else:
            with torch.no_grad():
                wanted = (
                    self.word_teacher(**inputs, positions=asked).logits.softmax(-1)
                    * self.soft_share
                )
            wanted.scatter_add_(
                1, labels[:, None], torch.full_like(wanted[:, :1], 1 - self.soft_share)
            )
            words = F.cross_entropy(logits.float(), wanted, reduction="sum")
        pairs = F.cross_entropy(
            outputs.seq_relationship_logits, batch["next_sentence_label"], reduction="sum"
        )
        return {
            "labels": self.word_weight * words,
            "next_sentence_label": self.pair_weight * pairs,
            SENTENCE: self._sentences(outputs.hidden_states[-1].float(), batch),
        }

    def _sentences(self, states: Tensor, batch: Batch) -> Tensor:
        numbers = batch[SENTENCE]
        taught = numbers != IGNORED
        lengths = torch.tensor(batch["layout"].lengths, device=states.device)
        pooled = torch.segment_reduce(states, "mean", lengths=lengths)[taught]
        rows = self.sentence_vectors[numbers[taught].cpu().numpy()].astype(np.float32)
        loss = self.sentence_weight * sentence_loss(
            pooled, F.normalize(torch.from_numpy(rows).to(states.device), dim=-1)
        )
        if self.token_teacher is not None and taught.any():
            tokens = taught.repeat_interleave(lengths)  # those of taught sentences
            lengths = lengths[taught]
            layout = PackedLayout(lengths.tolist())
            wanted = self.token_teacher(batch["input_ids"][tokens], layout, numbers[taught])
            apart = 1 - F.cosine_similarity(states[tokens], wanted, dim=-1)
            loss = (
                loss
                + self.token_weight * torch.segment_reduce(apart, "mean", lengths=lengths).sum()
            )
        return loss
