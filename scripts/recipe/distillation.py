"""Distillation losses that are added to those of pre-training.

sentences   The student's sentence vector, the mean of its hidden states, is trained towards that of
            the teacher: the same direction, and the same cosines to the rest of the batch.
            Reimers and Gurevych 2020, "Making monolingual sentence embeddings multilingual".
words       The student's probabilities of masked words are trained towards those of the teacher.
            Hinton et al. 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minibert.inference.training_speedups import word_loss
from minibert.layouts import PackedLayout
from minibert.losses import IGNORED
from minibert.training.corpora import TokenCache
from minibert.training.data import Batch, Example

SENTENCE = "sentence"
"""Name of the label that is the row of a sentence among the teacher's vectors."""


class TaughtSentences:
    """Training data of sentences whose teacher vectors are known, labeled with their rows.

    Args:
        cache: Documents of one sentence each, in the order of the teacher's vectors. They must be
            shuffled, because epochs read them in order.
        tokenizer: Tokenizer that names the special tokens.
        max_length: Maximum number of tokens of an example. Longer sentences are truncated.
        sentences_per_epoch: Number of sentences in an epoch. The next epoch continues after them.
    """

    def __init__(
        self, cache: TokenCache, tokenizer: Any, *, sentences_per_epoch: int, max_length: int = 128
    ) -> None:
        self.cache = cache
        self.max_length = max_length
        self.sentences_per_epoch = sentences_per_epoch
        self._cls = np.array([tokenizer.cls_token_id])
        self._sep = np.array([tokenizer.sep_token_id])

    def epoch(self, number: int) -> Sequence[Example]:
        """Returns the examples of one epoch."""
        start = number * self.sentences_per_epoch
        return [
            self._example(n % len(self.cache))
            for n in range(start, start + self.sentences_per_epoch)
        ]

    def _example(self, number: int) -> Example:
        ids = np.concatenate(self.cache[number])[: self.max_length - 2]
        return {"input_ids": np.concatenate([self._cls, ids, self._sep]), SENTENCE: number}


def sentence_loss(vectors: Tensor, targets: Tensor, similarity_weight: float = 20.0) -> Tensor:
    """Computes the distance of sentence vectors from those of a teacher, summed over sentences.

    Args:
        vectors: The student's vectors, (sentences, hidden), not normalized.
        targets: The teacher's vectors, (sentences, hidden), L2-normalized.
        similarity_weight: Weight of the cosines between the sentences of the batch.

    Returns:
        The sum of 1 - cosine(student, teacher) of each sentence, plus the weighted mean squared
        difference of its cosines with the sentences of the batch.
    """
    vectors = F.normalize(vectors, dim=-1)
    direction = 1 - (vectors * targets).sum(-1)
    similarity = (vectors @ vectors.T - targets @ targets.T).square().mean(-1)
    return (direction + similarity_weight * similarity).sum()


@dataclass(frozen=True)
class TokenTeacher:
    """Teacher of token states: a model with the student's vocabulary, and a map to its hidden size.

    Attributes:
        model: The teacher.
        weight: Weight of the map, (student's hidden, teacher's hidden).
        bias: Bias of the map, (student's hidden,).
    """

    model: nn.Module
    weight: Tensor
    bias: Tensor

    @torch.no_grad()
    def __call__(self, input_ids: Tensor, layout: PackedLayout, numbers: Tensor) -> Tensor:
        """Computes the target states, (tokens, student's hidden).

        Args:
            input_ids: Ids of packed sentences, (tokens,).
            layout: Layout of the sentences.
            numbers: Rows of the sentences, (sentences,). Not used by this teacher.
        """
        states = self.model(input_ids=input_ids, layout=layout).last_hidden_state
        return F.linear(states.float(), self.weight, self.bias)


class TaughtPretraining:
    """Losses of pre-training and distillation for a `BertForPreTraining` and packed batches.

    Args:
        sentence_vectors: The teacher's vectors, (sentences, hidden), not necessarily normalized.
            They can be memory-mapped.
        word_teacher: Masked-language model with the same vocabulary. None: no word distillation.
        token_teacher: Computes target states, as `TokenTeacher` does. None: no state distillation.
        word_weight: Weight of the masked-word loss.
        soft_share: Share of the teacher's probabilities in the targets of masked words. The rest
            is the probability of the masked word itself.
        pair_weight: Weight of next-sentence prediction.
        sentence_weight: Weight of `sentence_loss`.
        token_weight: Weight of 1 - cosine(state, target state), averaged over each sentence.
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
        self.sentence_vectors = sentence_vectors
        self.word_teacher = word_teacher
        self.token_teacher = token_teacher
        self.word_weight = word_weight
        self.soft_share = soft_share
        self.pair_weight = pair_weight
        self.sentence_weight = sentence_weight
        self.token_weight = token_weight

    def __call__(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Returns the summed losses by the names of their labels."""
        inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "layout")}
        masked = batch["labels"] != IGNORED
        outputs = model(**inputs, positions=masked, output_hidden_states=True)
        logits, labels = outputs.prediction_logits, batch["labels"][masked]
        if self.word_teacher is None:
            words = word_loss(logits, labels)
        else:
            with torch.no_grad():
                teacher_logits = self.word_teacher(**inputs, positions=masked).logits
                targets = teacher_logits.softmax(-1) * self.soft_share
            hard_share = torch.full_like(targets[:, :1], 1 - self.soft_share)
            targets.scatter_add_(1, labels[:, None], hard_share)
            words = F.cross_entropy(logits.float(), targets, reduction="sum")
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
            tokens = taught.repeat_interleave(lengths)  # tokens of taught sentences
            lengths = lengths[taught]
            layout = PackedLayout(lengths.tolist())
            targets = self.token_teacher(batch["input_ids"][tokens], layout, numbers[taught])
            distances = 1 - F.cosine_similarity(states[tokens], targets, dim=-1)
            by_sentence = torch.segment_reduce(distances, "mean", lengths=lengths)
            loss = loss + self.token_weight * by_sentence.sum()
        return loss
