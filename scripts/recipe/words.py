"""What minibert-ko takes from e5 about words: initial embeddings, and target states in context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert import BertForPreTraining
from minibert.layouts import PackedLayout

from .e5 import E5File, E5Tokenizer
from .space import Floats, Space


@torch.no_grad()
def initialize_embeddings(
    student: BertForPreTraining,
    english: BertForPreTraining,
    pieces: Any,
    english_pieces: Any,
    log_frequencies: Tensor,
    e5: E5File,
    e5_tokenizer: E5Tokenizer,
) -> None:
    """Initializes the embeddings of a student from those of an English model, across languages.

    e5 embeds the pieces of both vocabularies by their spelling. A linear map from e5's vectors to
    the English embeddings is fitted on English words, and applied to the pieces of the student.

    Args:
        student: Model whose embeddings are set.
        english: The English model.
        pieces: The student's tokenizer.
        english_pieces: The tokenizer of the English model.
        log_frequencies: Log frequencies of the English pieces, (English vocabulary,).
        e5: The multilingual teacher.
        e5_tokenizer: Its tokenizer.
    """
    words = e5.tensors["embeddings.word_embeddings.weight"]

    def by_letters(texts: list[str]) -> Tensor:
        whole = e5_tokenizer.pieces(texts)
        inner = e5_tokenizer.pieces([text.removeprefix("##") for text in texts], inside_word=True)
        rows = []
        for text, at_start, inside in zip(texts, whole, inner, strict=True):
            row = inside if text.startswith("##") else at_start
            rows.append(words[row or [e5.unk_id]].mean(0))
        return torch.stack(rows)

    ours, theirs = (t.convert_ids_to_tokens(list(range(len(t)))) for t in (pieces, english_pieces))
    word_ids = torch.tensor(
        [i for i, word in enumerate(theirs) if word.isalpha() and len(word) > 2]
    )
    source, target = by_letters(theirs), english.bert.embeddings.word_embeddings.weight
    weights = log_frequencies[word_ids].exp().sqrt()[:, None]  # frequent words have more weight
    source_mean = (source[word_ids] * weights).sum(0) / weights.sum()
    target_mean = (target[word_ids] * weights).sum(0) / weights.sum()
    x = (source[word_ids] - source_mean) * weights.sqrt()
    y = (target[word_ids] - target_mean) * weights.sqrt()
    moment = x.T @ x
    mapping = torch.linalg.solve(
        moment + 0.01 * moment.diagonal().mean() * torch.eye(len(moment)), x.T @ y
    )
    mapped = (by_letters(ours) - source_mean) @ mapping
    mapped *= y.norm() / (x @ mapping).norm()
    embeddings = student.bert.embeddings
    embeddings.word_embeddings.weight.copy_(mapped + target_mean)
    for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        embeddings.word_embeddings.weight[ours.index(name)] = target[theirs.index(name)]
    count = embeddings.position_embeddings.num_embeddings
    embeddings.position_embeddings.weight.copy_(
        english.bert.embeddings.position_embeddings.weight[:count]
    )


def states_of_tokens(words: Sequence[Tensor], sentences: Sequence[str], tokenizer: Any) -> Tensor:
    """Repeats the teacher's word states for each piece of the student.

    Args:
        words: Word states of each sentence, (words, teacher's hidden).
        sentences: The sentences.
        tokenizer: The student's tokenizer.

    Returns:
        States of the pieces of all sentences, (pieces, teacher's hidden). They are zero in
        sentences for which teacher and student have different numbers of words.
    """
    texts = [sentence.split() for sentence in sentences]
    all_words = [word for text in texts for word in text]
    pieces = tokenizer(all_words, add_special_tokens=False)["input_ids"]
    counts = torch.tensor([len(row) for row in pieces]).split([len(text) for text in texts])
    result = []
    for states, count in zip(words, counts, strict=True):
        if len(states) != len(count):
            states = states.new_zeros(len(count), states.shape[1])
        result.append(states.repeat_interleave(count, dim=0))
    return torch.cat(result)


@dataclass(frozen=True)
class WordTeacher:
    """Teacher of token states that are stored in chunks. [CLS] and [SEP] have their mean.

    Attributes:
        states: States of each chunk, (pieces, teacher's hidden).
        starts: Index of the first piece of each sentence among all pieces.
        chunk: Number of sentences in a chunk.
        space: Map to the vector space of the student.
    """

    states: Sequence[np.ndarray[Any, Any]]
    starts: np.ndarray[Any, Any]
    chunk: int
    space: Space

    def __call__(self, input_ids: Tensor, layout: PackedLayout, numbers: Tensor) -> Tensor:
        """Returns target states, (tokens, student's hidden).

        Where the words of teacher and student differ, they are zero and have no gradient.
        """
        targets = []
        for number, length in zip(numbers.tolist(), layout.lengths, strict=True):
            part = self.states[number // self.chunk]
            offset = self.starts[number // self.chunk * self.chunk]
            start = self.starts[number] - offset
            stored: Floats = part[start : start + length - 2].astype(np.float32)
            mapped = self.space.of_e5(stored) * stored.any(-1, keepdims=True)
            mean = mapped.mean(0, keepdims=True)
            targets += [mean, mapped, mean]
        return torch.from_numpy(np.concatenate(targets))
