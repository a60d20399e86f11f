"""Store a corpus on disk as token ids.

It is tokenized once, memory-mapped, and shared by all processes and by every run that is
resumed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import chain, count, groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minibert.corpus.inputs import Part, is_table, parts_of, read_part
from minibert.corpus.location import Location
from minibert.files import read_json, replacing, write_json
from minibert.progress import Progress, counted, is_watched
from minibert.tokenization.files import tokenizer_digest

Ids = npt.NDArray[np.int64]
Document = Sequence[Ids]
"""The sentences of a document, each the ids of its tokens."""

PART_BYTES = (
    1 << 21
)  # of text that is cut in one go: little, because training waits for the first parts
EPOCH_PARTS = 4  # parts that training reads together: many, because neighbours are alike
EPOCH_TOKENS = 1 << 21  # about as many as there are in them

_DESCRIPTION = "cache.json"
_FILES = ("ids.bin", "sentences.npy", "documents.npy")


def read_documents(part: Part, column: str | None = None) -> Iterator[list[str]]:
    """The documents of some text, one at a time, as lists of sentences.

    A line is a sentence and an empty line ends a document; in a table each row is a document.

    Raises:
        FileNotFoundError: a file that is not there.
        ValueError: a file that cannot be read, such as one that is not UTF-8.
    """
    lines: Iterable[str] = read_part(part, column)
    if is_table(part.file):
        lines = chain.from_iterable([*filter(str.strip, text.splitlines()), ""] for text in lines)
    for has_text, document in groupby(map(str.strip, lines), bool):
        if has_text:
            yield list(document)


def encode_documents(documents: Iterable[Sequence[str]], tokenizer: Any) -> Iterator[list[Ids]]:
    """Yield every sentence as ids without special tokens.

    Sentences and documents without a token are left out.
    """
    for document in documents:
        rows = tokenizer(list(document), add_special_tokens=False, verbose=False)["input_ids"]
        encoded = [np.array(row, dtype=np.int64) for row in rows if row]
        if encoded:
            yield encoded


class TokenCache:
    """Documents as a folder of ids, of which only the parts that are used are read into memory.

        ids.bin          the ids of all sentences one after the other, 16 bits each where the
        vocabulary allows it sentences.npy    where each sentence begins in ids.bin, and where the
        last one ends documents.npy    the first sentence of each document, and how many sentences
        there are

    Raises:
        FileNotFoundError: no cache in this folder; `TokenCache.write` makes one.
        ValueError: a damaged one.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        folder = Path(folder)
        if not (folder / _DESCRIPTION).is_file():
            raise FileNotFoundError(
                f"{folder} holds no cache of tokens: make one with TokenCache.write."
            )
        about = read_json(folder / _DESCRIPTION)
        dtype = str(about.get("dtype"))
        if about.get("checksum") != _checksum(folder, dtype):
            raise ValueError(f"{folder} is damaged: delete it, and its text is cut into ids again.")
        self.sentences = np.load(folder / "sentences.npy", mmap_mode="r")
        self.documents = np.load(folder / "documents.npy", mmap_mode="r")
        # an empty file cannot be mapped
        self.ids = np.memmap(folder / "ids.bin", dtype, "r") if len(self) else np.zeros(0, dtype)

    @staticmethod
    def write(
        documents: Iterable[Sequence[str]],
        tokenizer: Any,
        folder: str | os.PathLike[str],
        made_of: Any = None,
    ) -> None:
        """Tokenize documents and write their ids to the cache.

        Each document is a list of sentences, and documents are read one at a time. For
        `made_of` see `is_made_of`.

        A cache that is half written is not opened: the description of it is written last.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _DESCRIPTION).unlink(missing_ok=True)
        dtype = "uint16" if len(tokenizer) <= 1 << 16 else "uint32"
        starts = array("q", [0])
        firsts = array("q", [0])
        with replacing(folder / "ids.bin") as temporary, temporary.open("wb") as file:
            for document in encode_documents(documents, tokenizer):
                for ids in document:
                    starts.append(starts[-1] + len(ids))
                    ids.astype(dtype).tofile(file)
                firsts.append(len(starts) - 1)
        for name, numbers in (("sentences.npy", starts), ("documents.npy", firsts)):
            with replacing(folder / name) as temporary, temporary.open("wb") as npy:
                np.save(npy, np.array(numbers, dtype=np.int64))
        about = {
            "dtype": dtype,
            "documents": len(firsts) - 1,
            "tokens": starts[-1],
            "made_of": made_of,
        }
        write_json(folder / _DESCRIPTION, {**about, "checksum": _checksum(folder, dtype)})

    @staticmethod
    def is_made_of(folder: str | os.PathLike[str], made_of: Any) -> bool:
        """Whether the folder holds a complete cache, and of what `made_of` told `write`."""
        with suppress(FileNotFoundError, ValueError):
            return bool(read_json(Path(folder, _DESCRIPTION)).get("made_of") == made_of)
        return False

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1

    def __getitem__(self, number: int) -> Document:
        """A document: the ids of each of its sentences."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        first = self.documents[number]
        last = self.documents[number + 1]
        cuts = self.sentences[first : last + 1]
        ids: Ids = self.ids[cuts[0] : cuts[-1]].astype(np.int64)
        return np.split(ids, cuts[1:-1] - cuts[0])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each document, (documents,)."""
        lengths: npt.NDArray[np.int64] = np.diff(self.sentences[self.documents])
        return lengths


def _checksum(folder: Path, dtype: str) -> int:
    """Return the checksum of all that a cache holds.

    A changed bit may be another word, or a document without an end.
    """
    checksum = zlib.crc32(dtype.encode())
    for name in _FILES:
        with (folder / name).open("rb") as file:
            for block in iter(partial(file.read, 1 << 20), b""):
                checksum = zlib.crc32(block, checksum)
    return checksum


class Corpus:
    """Tokenize files of text part by part.

    Training reads the first parts while others are still being tokenized.

    The parts are read in a random order, and the documents of a part in a random order; after the
    last part all begin again in another one. So every document is read before any is read again,
    whatever the cutting's pace. A share of the documents is `held_out`.

    Args:
        sources: as `read_texts` takes them.
        tokenizer: cuts them.
        folder: for the ids. What an earlier run has left there, a `TokenCache` for each part, is
            not cut again.
        column: of the text in tables; None: "text".
        held_out: the share of documents that training does not read.
        seed: of the order, and of what is held out.
        cut: False: another process cuts.

    Raises:
        FileNotFoundError: no such file, or a folder without files.
        ValueError: a file that cannot be read; raised when its part is asked for.
    """

    def __init__(
        self,
        sources: Iterable[str],
        tokenizer: Any,
        folder: str | os.PathLike[str],
        *,
        column: str | None = None,
        held_out: float = 0.0,
        seed: int = 0,
        cut: bool = True,
    ) -> None:
        self.folder, self.seed = Path(folder), seed
        self._held_out = held_out
        vocabulary = tokenizer_digest(tokenizer).hexdigest()
        self._jobs: list[_Job] = []
        for source in sources:
            location = Location(source)
            about = {
                str(location / name): size_and_time
                for name, size_and_time in location.files().items()
            }
            for part in parts_of(source, column, PART_BYTES).values():
                made_of = [*part, column or "text", *about.get(part.file, ()), vocabulary]
                self._jobs.append((part, str(self.folder / f"{len(self._jobs):06}"), made_of))
        self.part = lru_cache(2 * EPOCH_PARTS)(
            self._part
        )  # three open files each, of which a process may have few
        self.size = cache(self._size)
        self._error = self.folder / "error.json"
        self._workers: list[Any] = []
        missing = [
            self._jobs[n] for n in self._order(0) if not TokenCache.is_made_of(*self._jobs[n][1:])
        ]
        if not cut or not missing:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._error.unlink(missing_ok=True)
        if len(missing) == 1:
            part, place, made_of = missing[0]
            TokenCache.write(
                counted(read_documents(part, column), "documents"), tokenizer, place, made_of
            )
            return
        processes = min(
            len(missing), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        )
        spawn = multiprocessing.get_context("spawn")
        for number in range(processes):
            arguments = (missing[number::processes], tokenizer, column, self._error)
            self._workers.append(spawn.Process(target=_cut_parts, args=arguments, daemon=True))
            # takes as long as the other process needs to start, because the tokenizer is more than
            # a pipe holds
            threading.Thread(target=self._workers[-1].start).start()

    def __len__(self) -> int:
        """Number of parts."""
        return len(self._jobs)

    def _order(self, turn: int) -> list[int]:
        """The order of the parts in a pass over all of them."""
        order: list[int] = np.random.default_rng([self.seed, turn]).permutation(len(self)).tolist()
        return order

    def _part(self, number: int) -> tuple[TokenCache, Ids]:
        """A part, and the numbers of its documents that are not held out; waits until it is cut."""
        _, place, made_of = self._jobs[number]
        done = turns = 0
        with Progress(is_watched(), len(self), "parts of the corpus") as progress:
            while not TokenCache.is_made_of(place, made_of):
                if self._error.is_file():
                    raise ValueError(read_json(self._error)["error"])
                if any(worker.exitcode for worker in self._workers):
                    raise ChildProcessError(
                        "A process that cuts the corpus into ids has ended: start again to go on."
                    )
                if turns % 20 == 0:  # there may be many parts, on a slow disk
                    before = done
                    done = sum(1 for _ in self.folder.glob(f"*/{_DESCRIPTION}"))
                    progress.add(done - before)
                turns += 1
                time.sleep(0.05)
        ids = TokenCache(place)
        return ids, np.flatnonzero(
            np.random.default_rng([self.seed, number]).random(len(ids)) >= self._held_out
        )

    def _size(self, number: int) -> int:
        """Tokens of a part that are not held out."""
        ids, kept = self.part(number)
        return int(ids.lengths[kept].sum())

    @property
    def tokens(self) -> int:
        """Tokens of all parts that are not held out; waits until all are cut."""
        return sum(map(self.size, range(len(self))))

    def portion(self, begin: int, end: int) -> list[Document]:
        """Return the documents from one token to another.

        Tokens are counted from the first one of the first order on.
        """
        documents: list[Document] = []
        position = 0
        for turn in count():
            for number in self._order(turn):
                total = self.size(number)
                if begin < position + total:
                    ids, kept = self.part(number)
                    lengths = ids.lengths[kept]
                    order = np.random.default_rng([self.seed, turn, number]).permutation(len(kept))
                    starts = position + np.cumsum(lengths[order]) - lengths[order]
                    first, last = np.searchsorted(starts, [begin, end])
                    documents += [ids[n] for n in kept[order[first:last]].tolist()]
                position += total
                if position >= end:
                    return documents
            if position == 0:
                raise ValueError(
                    "The corpus holds no text: one sentence a line, "
                    "an empty line between documents."
                )
        raise AssertionError("there is always another turn")

    def held_out(self, max_tokens: int) -> list[Document]:
        """Documents that `portion` leaves out, of the parts that are read first."""
        documents: list[Document] = []
        for number in self._order(0)[:EPOCH_PARTS]:
            ids, kept = self.part(number)
            documents += [ids[n] for n in np.setdiff1d(np.arange(len(ids)), kept).tolist()]
        ends = np.cumsum([sum(map(len, document)) for document in documents])
        return documents[: int(np.searchsorted(ends, max_tokens)) + 1]


_Job = tuple[Part, str, Any]  # what to cut, where the ids go, and what they are made of


def _cut_parts(jobs: Sequence[_Job], tokenizer: Any, column: str | None, error_file: Path) -> None:
    """Cuts parts in a process of its own, until its parent has ended."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent is told as well, and ends this process
    if hasattr(os, "nice"):
        os.nice(10)  # training comes first
    parent = multiprocessing.parent_process()
    for part, place, made_of in jobs:
        if parent is not None and not parent.is_alive():
            return
        try:
            TokenCache.write(read_documents(part, column), tokenizer, place, made_of)
        except (ValueError, OSError, ImportError) as error:
            gone = f"{part.file} is no longer there: put it back, and start again to go on."
            return write_json(
                error_file, {"error": gone if isinstance(error, FileNotFoundError) else str(error)}
            )


def mix(corpora: Sequence[tuple[Corpus, float]]) -> list[tuple[Corpus, int]]:
    """How many tokens of each corpus an epoch takes, by weight.

    An epoch of small corpora has as many tokens as all of them, otherwise `EPOCH_TOKENS`.
    """
    small = sum(len(corpus) for corpus, _ in corpora) <= EPOCH_PARTS
    size = sum(corpus.tokens for corpus, _ in corpora) if small else EPOCH_TOKENS
    total = sum(weight for _, weight in corpora)
    return [(corpus, max(1, round(size * weight / total))) for corpus, weight in corpora]
