"""What minibert-ko learns of e5 about words: its pieces to begin with, and each word where it stands in a sentence."""

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
def begin_embeddings(
    student: BertForPreTraining,
    english: BertForPreTraining,
    pieces: Any,
    english_pieces: Any,
    log_frequencies: Tensor,
    e5: E5File,
    e5_tokenizer: E5Tokenizer,
) -> None:
    """Begins the embeddings of a student in another language than its elder sister's.

    A piece begins as what e5 knows of its letters, mapped to where the sister has the words that e5 knows alike.

    Args:
        student: whose embeddings begin.
        english: the sister.
        pieces: the student's tokenizer.
        english_pieces: the sister's tokenizer.
        log_frequencies: of the sister's pieces, (sister's vocabulary,).
        e5: the teacher.
        e5_tokenizer: its tokenizer.
    """
    words = e5.tensors["embeddings.word_embeddings.weight"]

    def by_letters(texts: list[str]) -> Tensor:
        whole = e5_tokenizer.pieces(texts)
        inner = e5_tokenizer.pieces([text.removeprefix("##") for text in texts], inside_word=True)
        rows = [
            b if text.startswith("##") else a
            for text, a, b in zip(texts, whole, inner, strict=True)
        ]
        return torch.stack([words[row or [e5.unk_id]].mean(0) for row in rows])

    ours, theirs = (t.convert_ids_to_tokens(list(range(len(t)))) for t in (pieces, english_pieces))
    known = torch.tensor([i for i, word in enumerate(theirs) if word.isalpha() and len(word) > 2])
    source, target = by_letters(theirs), english.bert.embeddings.word_embeddings.weight
    frequent = log_frequencies[known].exp().sqrt()[:, None]  # frequent words count for more
    mean, aim = ((x[known] * frequent).sum(0) / frequent.sum() for x in (source, target))
    x, y = (source[known] - mean) * frequent.sqrt(), (target[known] - aim) * frequent.sqrt()
    moment = x.T @ x
    mapping = torch.linalg.solve(
        moment + 0.01 * moment.diagonal().mean() * torch.eye(len(moment)), x.T @ y
    )
    mapped = (by_letters(ours) - mean) @ mapping
    mapped *= y.norm() / (x @ mapping).norm()
    embeddings = student.bert.embeddings
    embeddings.word_embeddings.weight.copy_(mapped + aim)
    for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        embeddings.word_embeddings.weight[ours.index(name)] = target[theirs.index(name)]
    count = embeddings.position_embeddings.num_embeddings
    embeddings.position_embeddings.weight.copy_(
        english.bert.embeddings.position_embeddings.weight[:count]
    )


def states_of_tokens(words: Sequence[Tensor], sentences: Sequence[str], tokenizer: Any) -> Tensor:
    """The states of the teacher's words, once for each piece of the student.

    Args:
        words: of each sentence, (words, teacher's hidden).
        sentences: the same, as text.
        tokenizer: the student's, which splits at spaces first.

    Returns:
        (pieces of all sentences, teacher's hidden); zeros where teacher and student see different words.
    """
    texts = [sentence.split() for sentence in sentences]
    pieces = tokenizer([word for text in texts for word in text], add_special_tokens=False)[
        "input_ids"
    ]
    counts = torch.tensor([len(row) for row in pieces]).split([len(text) for text in texts])
    found = []
    for states, count in zip(words, counts, strict=True):
        alike = (
            states if len(states) == len(count) else states.new_zeros(len(count), states.shape[1])
        )
        found.append(alike.repeat_interleave(count, dim=0))
    return torch.cat(found)


@dataclass(frozen=True)
class WordTeacher:
    """Shows stored states to the student, mapped to its size; to [CLS] and [SEP] the mean of them.

    Attributes:
        states: (pieces, teacher's hidden) of every `chunk` sentences.
        starts: where each sentence begins among the pieces of all.
        chunk: sentences whose states lie together.
        space: what the student's vectors are like.
    """

    states: Sequence[np.ndarray[Any, Any]]
    starts: np.ndarray[Any, Any]
    chunk: int
    space: Space

    def __call__(self, input_ids: Tensor, layout: PackedLayout, numbers: Tensor) -> Tensor:
        """(tokens, student's hidden); zeros, from which nothing is learnt, where words differ."""
        found = []
        for number, length in zip(numbers.tolist(), layout.lengths, strict=True):
            part, offset = (
                self.states[number // self.chunk],
                self.starts[number // self.chunk * self.chunk],
            )
            start = self.starts[number] - offset
            read: Floats = part[start : start + length - 2].astype(np.float32)
            mapped = self.space.of_e5(read) * read.any(-1, keepdims=True)
            mean = mapped.mean(0, keepdims=True)
            found += [mean, mapped, mean]
        return torch.from_numpy(np.concatenate(found))
