"""A corpus as ids on disk: cut once, memory-mapped, shared by all processes and by every run that is resumed."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from minibert.files import read_json, replacing, write_json
from minibert.training.pretraining import Document, Ids, encode_documents

_DESCRIPTION = "cache.json"


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
        if not (folder / _DESCRIPTION).is_file():
            raise FileNotFoundError(f"{folder} holds no cache of tokens: make one with TokenCache.write.")
        self.ids = np.memmap(folder / "ids.bin", dtype=read_json(folder / _DESCRIPTION)["dtype"], mode="r")
        self.sentences = np.load(folder / "sentences.npy", mmap_mode="r")
        self.documents = np.load(folder / "documents.npy", mmap_mode="r")

    @classmethod
    def write(
        cls, documents: Iterable[Sequence[str]], tokenizer: Any, folder: str | os.PathLike[str], made_of: Any = None
    ) -> TokenCache:
        """Tokenizes documents, a list of sentences each, and opens the result.

        Sentences and documents without a token are left out. A cache that is half written is not opened: the
        description of it is written last.

        Args:
            documents: read one at a time.
            tokenizer: the same for every later use.
            folder: made where it does not exist.
            made_of: kept in the description, see `is_made_of`.

        Raises:
            ValueError: documents without any token.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _DESCRIPTION).unlink(missing_ok=True)
        dtype = "uint16" if len(tokenizer) <= 1 << 16 else "uint32"
        starts, firsts = array("q", [0]), array("q", [0])
        with (folder / "ids.bin").open("wb") as file:
            for document in encode_documents(documents, tokenizer):
                for ids in document:
                    starts.append(starts[-1] + len(ids))
                    ids.astype(dtype).tofile(file)
                firsts.append(len(starts) - 1)
        if len(starts) == 1:
            raise ValueError("The documents hold no tokens.")
        for name, numbers in (("sentences.npy", starts), ("documents.npy", firsts)):
            with replacing(folder / name) as temporary, temporary.open("wb") as npy:
                np.save(npy, np.array(numbers, dtype=np.int64))
        about = {"dtype": dtype, "documents": len(firsts) - 1, "tokens": starts[-1], "made_of": made_of}
        write_json(folder / _DESCRIPTION, about)
        return cls(folder)

    @staticmethod
    def is_made_of(folder: str | os.PathLike[str], made_of: Any) -> bool:
        """Whether a complete cache lies in the folder that `write` was told is made of the same."""
        with suppress(FileNotFoundError, ValueError):
            return bool(read_json(Path(folder, _DESCRIPTION)).get("made_of") == made_of)
        return False

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
