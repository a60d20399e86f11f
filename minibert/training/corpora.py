"""Corpora larger than memory, and several of them with a weight each.

TokenCache   documents as ids in files, memory-mapped: read once, trained on as often as wanted
Portions     an epoch of a pre-training run is so many tokens of a corpus, not all of it
Mixture      the examples of several datasets, each epoch new ones of each
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from minibert.files import read_json, replacing, write_json
from minibert.losses import IGNORED
from minibert.training.data import Dataset, Example
from minibert.training.pretraining import Document, Ids

_CHUNK = 4096  # documents tokenized together


class TokenCache(Sequence[Document]):
    """Documents as a folder of ids, of which only what is looked at is read into memory.

        ids.bin          the ids of all sentences one after the other, 16 bits each where the vocabulary allows it
        sentences.npy    where each sentence begins in ids.bin, and where the last one ends
        documents.npy    the first sentence of each document, and how many sentences there are

    Raises:
        FileNotFoundError: no cache in this folder; `TokenCache.write` makes one.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        folder = Path(folder)
        if not (folder / "cache.json").is_file():
            raise FileNotFoundError(f"{folder} holds no cache of tokens: make one with TokenCache.write.")
        self.ids = np.memmap(folder / "ids.bin", dtype=read_json(folder / "cache.json")["dtype"], mode="r")
        self.sentences = np.load(folder / "sentences.npy", mmap_mode="r")
        self.documents = np.load(folder / "documents.npy", mmap_mode="r")

    @classmethod
    def write(cls, documents: Iterable[Sequence[str]], tokenizer: Any, folder: str | os.PathLike[str]) -> TokenCache:
        """Tokenizes documents, a list of sentences each, and opens the result.

        Sentences and documents without a token are left out. A cache that is half written is not opened: what
        describes it is written last.

        Raises:
            ValueError: documents without any token.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cache.json").unlink(missing_ok=True)
        dtype = "uint16" if len(tokenizer) <= 1 << 16 else "uint32"
        starts, firsts, end = [0], [0], 0
        with (folder / "ids.bin").open("wb") as file:
            for chunk in _chunks(documents, _CHUNK):
                rows = iter(tokenizer([text for document in chunk for text in document], **_IDS_ONLY)["input_ids"])
                for document in chunk:
                    found = [row for _, row in zip(document, rows, strict=False) if row]
                    for row in found:
                        end += len(row)
                        starts.append(end)
                        np.array(row, dtype=dtype).tofile(file)
                    if found:
                        firsts.append(len(starts) - 1)
        if end == 0:
            raise ValueError("The documents hold no tokens.")
        for name, numbers in (("sentences.npy", starts), ("documents.npy", firsts)):
            with replacing(folder / name) as temporary, temporary.open("wb") as file:
                np.save(file, np.array(numbers, dtype=np.int64))
        write_json(folder / "cache.json", {"dtype": dtype, "documents": len(firsts) - 1, "tokens": end})
        return cls(folder)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1

    @overload
    def __getitem__(self, number: int) -> Document: ...
    @overload
    def __getitem__(self, number: slice) -> list[Document]: ...
    def __getitem__(self, number: int | slice) -> Document | list[Document]:
        """A document: the ids of each of its sentences."""
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        first, last = self.documents[number], self.documents[number + 1]
        cuts = self.sentences[first : last + 1]
        ids: Ids = self.ids[cuts[0] : cuts[-1]].astype(np.int64)
        return np.split(ids, cuts[1:-1] - cuts[0])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each document, (documents,)."""
        lengths: npt.NDArray[np.int64] = np.diff(self.sentences[self.documents])
        return lengths


_IDS_ONLY = {"add_special_tokens": False}


def _chunks(documents: Iterable[Sequence[str]], size: int) -> Iterable[list[Sequence[str]]]:
    chunk: list[Sequence[str]] = []
    for document in documents:
        chunk.append(document)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class Portions:
    """Which documents an epoch takes, where it does not take all of them.

    The documents stand in a random order, after the last one in another, and so on without end; each epoch takes up
    where the one before ended. Every document is read before any is read again.

    Args:
        lengths: tokens of each document, or what else is to be counted.
        size: tokens of an epoch.
        seed: of the order.
    """

    def __init__(self, lengths: npt.NDArray[np.int64], size: int, seed: int = 0) -> None:
        self.lengths, self.size, self.seed = lengths, size, seed
        self.total = int(lengths.sum())

    def __call__(self, epoch: int) -> list[int]:
        """The numbers of the documents of an epoch."""
        numbers: list[int] = []
        begin, end = epoch * self.size, (epoch + 1) * self.size
        for round_ in range(begin // self.total, (end - 1) // self.total + 1):
            order = np.random.default_rng([self.seed, round_]).permutation(len(self.lengths))
            starts = round_ * self.total + np.cumsum(self.lengths[order]) - self.lengths[order]
            first, last = np.searchsorted(starts, [begin, end])
            numbers += order[first:last].tolist()
        return numbers


class Mixture:
    """The examples of several datasets in one, with the labels of all of them.

    An example has `IGNORED` for what its own dataset does not ask.

    Args:
        datasets: in an epoch every one gives the examples of its own epoch of the same number.
        token_labels: names of labels for each token.
        labels: names of labels for each example.
    """

    def __init__(self, datasets: Sequence[Dataset], token_labels: Sequence[str], labels: Sequence[str]) -> None:
        self.datasets, self.token_labels, self.labels = datasets, token_labels, labels

    def epoch(self, number: int) -> Sequence[Example]:
        """The examples of one epoch."""
        return [self._complete(example) for dataset in self.datasets for example in dataset.epoch(number)]

    def _complete(self, example: Example) -> Example:
        ids = example["input_ids"]
        complete: Example = {"input_ids": ids, "token_type_ids": example.get("token_type_ids", np.zeros_like(ids))}
        for name in self.token_labels:
            complete[name] = example.get(name, np.full_like(ids, IGNORED))
        for name in self.labels:
            complete[name] = example.get(name, IGNORED)
        return complete
