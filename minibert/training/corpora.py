"""Store a corpus on disk as token ids.

It is tokenized once, memory-mapped, and shared by all processes and by every resumed run.
"""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
import signal
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import cache, lru_cache, partial
from itertools import chain, count, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from minibert.text.location import Location
from minibert.text.read import Part, has_columns, parts_of, read_part
from minibert.text.table import Table
from minibert.tokenization.spec import tokenizer_digest
from minibert.util.errors import ArgumentError, Message, message_of
from minibert.util.files import read_json, replacing, write_json
from minibert.util.progress import Progress, counted, is_watched

Ids = npt.NDArray[np.int64]
Document = Sequence[Ids]
"""The sentences of a document, each the ids of its tokens."""

# Bytes of text in a part: few, because training waits for the first parts.
PART_BYTES = 1 << 21
# Number of parts that training reads together: several, because neighboring documents are similar.
EPOCH_PARTS = 4
# About as many tokens as these parts have.
EPOCH_TOKENS = 1 << 21

_DESCRIPTION = "cache.json"
_FILES = ("ids.bin", "sentences.npy", "documents.npy")


def read_documents(part: Part, table: Table | None = None) -> Iterator[list[str]]:
    """Yield the documents of a part as lists of sentences.

    A line is a sentence, and an empty line ends a document. In a table each row is a document.

    Raises:
        FileNotFoundError: A file does not exist.
        ValueError: A file cannot be read, for instance because it is not UTF-8.
    """
    table = table or Table()
    lines: Iterable[str] = (row.text for row in read_part(part, table))
    if has_columns(part.file, table):
        # an empty line ends the document of a row
        lines = chain.from_iterable([*filter(str.strip, text.splitlines()), ""] for text in lines)
    for has_text, document in groupby(map(str.strip, lines), bool):
        if has_text:
            yield list(document)


def encode_documents(documents: Iterable[Sequence[str]], tokenizer: Any) -> Iterator[list[Ids]]:
    """Yield documents whose sentences are ids without special tokens.

    Sentences and documents without a token are left out.
    """
    for document in documents:
        rows = tokenizer(list(document), add_special_tokens=False, verbose=False)["input_ids"]
        encoded = [np.array(row, dtype=np.int64) for row in rows if row]
        if encoded:
            yield encoded


class TokenCache:
    """Documents as a folder of ids, which are memory-mapped.

    * `ids.bin`: the ids of all sentences, in 16 bits each if the vocabulary allows it
    * `sentences.npy`: the start of each sentence in `ids.bin`, and the end of the last one
    * `documents.npy`: the first sentence of each document, and the number of sentences

    Raises:
        FileNotFoundError: The folder holds no cache. `TokenCache.write` makes one.
        ValueError: The cache is damaged.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        folder = Path(folder)
        if not (folder / _DESCRIPTION).is_file():
            raise FileNotFoundError(
                f"{folder} holds no cache of tokens: make one with TokenCache.write."
            )
        about = read_json(folder / _DESCRIPTION)
        dtype = str(about.get("dtype"))
        checksum = None
        with suppress(FileNotFoundError):
            checksum = _checksum(folder, dtype)
        if checksum is None or about.get("checksum") != checksum:
            raise ValueError(f"{folder} is damaged: delete it, and its text is tokenized again.")
        self.sentences = np.load(folder / "sentences.npy", mmap_mode="r")
        self.documents = np.load(folder / "documents.npy", mmap_mode="r")
        # an empty file cannot be mapped
        self.ids = np.memmap(folder / "ids.bin", dtype, "r") if len(self) else np.zeros(0, dtype)

    @staticmethod
    def write(
        documents: Iterable[Sequence[str]],
        tokenizer: Any,
        folder: str | os.PathLike[str],
        made_of: str | None = None,
    ) -> None:
        """Tokenize documents and write their ids to the cache.

        The description of the cache is written last, so an incomplete cache is never opened.

        Args:
            documents: Lists of sentences, read one at a time.
            tokenizer: Tokenizes them.
            folder: Folder of the cache.
            made_of: What the ids depend on.
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
                    file.write(ids.astype(dtype).tobytes())
                firsts.append(len(starts) - 1)
        for name, numbers in (("sentences.npy", starts), ("documents.npy", firsts)):
            # through a buffer: where numpy writes a file itself, a full disk has no errno
            npy = io.BytesIO()
            np.save(npy, np.array(numbers, dtype=np.int64))
            with replacing(folder / name) as temporary:
                # a copy: Python up to 3.12.1 may crash if an error holds a view of the buffer
                temporary.write_bytes(npy.getvalue())
        about = {
            "dtype": dtype,
            "documents": len(firsts) - 1,
            "tokens": starts[-1],
            "made_of": made_of,
        }
        write_json(folder / _DESCRIPTION, {**about, "checksum": _checksum(folder, dtype)})

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1

    def __getitem__(self, number: int) -> Document:
        """The ids of each sentence of a document."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        first = self.documents[number]
        last = self.documents[number + 1]
        cuts = self.sentences[first : last + 1]
        ids: Ids = self.ids[cuts[0] : cuts[-1]].astype(np.int64)
        return np.split(ids, cuts[1:-1] - cuts[0])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each document, (documents,)."""
        lengths: npt.NDArray[np.int64] = np.diff(self.sentences[self.documents])
        return lengths


def _checksum(folder: Path, dtype: str) -> int:
    """Compute the checksum of the files of a cache: a changed bit may be another word."""
    checksum = zlib.crc32(dtype.encode())
    for name in _FILES:
        with (folder / name).open("rb") as file:
            for block in iter(partial(file.read, 1 << 20), b""):
                checksum = zlib.crc32(block, checksum)
    return checksum


class _Job(NamedTuple):
    """A part to tokenize.

    Attributes:
        part: The part.
        folder: Folder of its `TokenCache`.
        made_of: What its ids depend on, as JSON: its text, the column and the vocabulary.
    """

    part: Part
    folder: str
    made_of: str

    def is_done(self) -> bool:
        """Whether the folder holds a complete cache that was made of this."""
        with suppress(FileNotFoundError, ValueError):
            return bool(read_json(Path(self.folder, _DESCRIPTION)).get("made_of") == self.made_of)
        return False


class Corpus:
    """Tokenize files of text part by part.

    Training reads the first parts while later ones are still being tokenized.

    Parts are read in a random order, and so are the documents of a part. After the last part all
    begin again in another order. So every document is read before any is read again, however fast
    they are tokenized. A share of the documents is `held_out`, and their copies with them.

    Args:
        sources: Files, folders or URIs, as `minibert.text.read` takes them.
        tokenizer: Tokenizes them.
        folder: Folder for the ids, a `TokenCache` for each part. The parts that an earlier run has
            left there are not tokenized again.
        table: How the files are read. None: by their endings, with the text in the column "text".
        held_out: Share of the documents that training does not read.
        seed: Seed of the order, and of what is held out.
        tokenize: Start to tokenize. False: another process does.

    Raises:
        FileNotFoundError: A file does not exist, or a folder has no files.
        ValueError: A file cannot be read. This is raised when its part is read.
    """

    def __init__(
        self,
        sources: Iterable[str],
        tokenizer: Any,
        folder: str | os.PathLike[str],
        *,
        table: Table | None = None,
        held_out: float = 0.0,
        seed: int = 0,
        tokenize: bool = True,
    ) -> None:
        self.folder = Path(folder)
        self.seed = seed
        self._held_out = held_out
        table = table or Table()
        self._jobs = _jobs_of(sources, self.folder, table, tokenizer)
        # a part has three open files, of which a process may have few
        self.part = lru_cache(2 * EPOCH_PARTS)(self._part)
        self.size = cache(self._size)
        self._error = self.folder / "error.json"
        self._is_tokenizing = tokenize
        self._workers: list[tuple[Any, Future[None]]] = []
        if tokenize:
            self._tokenize_missing_parts(tokenizer, table)

    def _tokenize_missing_parts(self, tokenizer: Any, table: Table) -> None:
        """Tokenize a single part, or start processes that tokenize several."""
        jobs = [self._jobs[number] for number in self._order(0)]
        missing = [job for job in jobs if not job.is_done()]
        if not missing:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._error.unlink(missing_ok=True)
        if len(missing) == 1:
            job = missing[0]
            documents = counted(read_documents(job.part, table), "documents")
            _tokenize_part(job, documents, tokenizer, self._error)
            return
        processors = 1
        if hasattr(os, "sched_getaffinity"):  # those that this process may use
            processors = len(os.sched_getaffinity(0))
        processes = min(len(missing), processors)
        spawn = multiprocessing.get_context("spawn")
        # `start` returns when the process has read the tokenizer, because that is larger than the
        # buffer of a pipe
        starter = ThreadPoolExecutor(processes)
        for number in range(processes):
            arguments = (missing[number::processes], tokenizer, table, self._error)
            worker = spawn.Process(target=_tokenize_parts, args=arguments, daemon=True)
            self._workers.append((worker, starter.submit(worker.start)))
        starter.shutdown(wait=False)

    def __len__(self) -> int:
        """Number of parts."""
        return len(self._jobs)

    def _order(self, turn: int) -> list[int]:
        """The order of the parts in a pass over all of them."""
        order: list[int] = np.random.default_rng([self.seed, turn]).permutation(len(self)).tolist()
        return order

    def _part(self, number: int) -> tuple[TokenCache, Ids]:
        """A part, and the numbers of its documents that are not held out.

        Waits until the part has been tokenized.

        Raises:
            ValueError: The part cannot be read.
            ChildProcessError: A process that tokenizes has ended, or could not be started.
        """
        job = self._jobs[number]
        parts_done = 0
        checks = 0
        with Progress(is_watched(), len(self), "parts of the corpus") as progress:
            while not job.is_done():
                has_ended = self._has_ended()  # before looking at what was left
                self._raise_error()
                if has_ended and not job.is_done():
                    raise ChildProcessError(
                        "A process that tokenizes the corpus has ended: start again to continue."
                    )
                if checks % 20 == 0:  # there may be many parts, on a slow disk
                    count = sum(1 for _ in self.folder.glob(f"*/{_DESCRIPTION}"))
                    progress.add(count - parts_done)
                    parts_done = count
                checks += 1
                time.sleep(0.05)
        tokens = TokenCache(job.folder)
        draws = _draws(tokens, self.seed)
        if len(self) == len(draws) == 1:  # there is no other document to train on
            draws[0] = np.inf
        return tokens, np.flatnonzero(draws >= self._held_out)

    def _has_ended(self) -> bool:
        """Whether this process and those it has started tokenize no more, or one has failed.

        Raises:
            ChildProcessError: A process could not be started.
        """
        for _, start in self._workers:
            error = start.exception() if start.done() else None
            if error is not None:  # such as a tokenizer that cannot be pickled
                raise ChildProcessError(
                    f"A process to tokenize the corpus could not be started ({error})."
                ) from error
        codes = [worker.exitcode for worker, _ in self._workers]
        return any(codes) or (self._is_tokenizing and None not in codes)

    def _raise_error(self) -> None:
        """Raise what is wrong with a part.

        An error of an earlier run may lie there, about a file that has been corrected since.
        """
        with suppress(FileNotFoundError):
            error = read_json(self._error)
            if any(job.made_of == error.get("made_of") for job in self._jobs):
                raise ValueError(Message.from_json(error["error"], Table))

    def _size(self, number: int) -> int:
        """Number of tokens of a part that are not held out."""
        tokens, documents = self.part(number)
        return int(tokens.lengths[documents].sum())

    @property
    def tokens(self) -> int:
        """Number of tokens that are not held out. Waits until all parts have been tokenized."""
        return sum(map(self.size, range(len(self))))

    def portion(self, begin: int, end: int) -> list[Document]:
        """Return the documents from one token to another.

        Tokens are counted from the first one of the first pass over the corpus.
        """
        documents: list[Document] = []
        position = 0
        for turn in count():
            for number in self._order(turn):
                size = self.size(number)
                if begin < position + size:
                    documents += self._documents(turn, number, begin - position, end - position)
                position += size
                if position >= end:
                    return documents
            if position == 0:
                if any(len(self.part(number)[0]) for number in range(len(self))):
                    raise ArgumentError(
                        "held_out",
                        f"is {self._held_out:g}, which leaves no document to train on: "
                        "hold out a smaller share, or put empty lines between documents.",
                    )
                raise ValueError(
                    "The corpus holds no text: one sentence a line, "
                    "an empty line between documents."
                )
        raise AssertionError("there is always another turn")

    def _documents(self, turn: int, number: int, begin: int, end: int) -> list[Document]:
        """The documents of a part that begin from one token to another, in the order of a pass."""
        tokens, documents = self.part(number)
        order = np.random.default_rng([self.seed, turn, number]).permutation(len(documents))
        lengths = tokens.lengths[documents[order]]
        starts = np.cumsum(lengths) - lengths
        first, last = np.searchsorted(starts, [begin, end])
        return [tokens[index] for index in documents[order[first:last]].tolist()]

    def epoch(self, number: int, size: int) -> list[Document]:
        """The documents of an epoch of `size` tokens."""
        return self.portion(number * size, (number + 1) * size)

    def held_out(self, max_tokens: int) -> list[Document]:
        """Documents that `portion` leaves out, of the parts that are read first."""
        held_out: list[Document] = []
        for number in self._order(0)[:EPOCH_PARTS]:
            tokens, documents = self.part(number)
            indices = np.setdiff1d(np.arange(len(tokens)), documents)
            held_out += [tokens[index] for index in indices.tolist()]
        ends = np.cumsum([sum(map(len, document)) for document in held_out])
        return held_out[: int(np.searchsorted(ends, max_tokens)) + 1]


def _draws(tokens: TokenCache, seed: int) -> npt.NDArray[np.float64]:
    """A number from 0 to 1 for each document, (documents,), which decides whether it is held out.

    It depends on the words of the document and on the seed alone. So the copies of a document are
    held out as well, and a corpus to which files are added holds out the same ones.
    """
    key = str(seed).encode()
    ids = np.asarray(tokens.ids)  # slices of a mapped array are slow
    draws = []
    for begin, end in pairwise(tokens.sentences[tokens.documents].tolist()):
        digest = hashlib.blake2b(ids[begin:end].tobytes(), digest_size=8, key=key).digest()
        draws.append(int.from_bytes(digest, "little") / 2**64)
    return np.array(draws)


def _jobs_of(
    sources: Iterable[str],
    folder: Path,
    table: Table,
    tokenizer: Any,
) -> list[_Job]:
    """Divide the sources into parts."""
    vocabulary = tokenizer_digest(tokenizer).hexdigest()
    jobs: list[_Job] = []
    for source in sources:
        location = Location(source)
        versions = {
            str(location / name): size_and_time for name, size_and_time in location.files().items()
        }
        for part in parts_of(source, table, PART_BYTES).values():
            made_of = [*part, asdict(table), *versions.get(part.file, ()), vocabulary]
            # as text, which is the same when it is read again: JSON has no tuples
            jobs.append(_Job(part, str(folder / f"{len(jobs):06}"), json.dumps(made_of)))
    return jobs


def _tokenize_parts(jobs: Sequence[_Job], tokenizer: Any, table: Table, error_file: Path) -> None:
    """Tokenize parts in a process of its own, until its parent has ended."""
    # the parent receives the signal, too, and ends this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(10)  # training comes first
    parent = multiprocessing.parent_process()
    for job in jobs:
        if parent is not None and not parent.is_alive():
            return
        if not _tokenize_part(job, read_documents(job.part, table), tokenizer, error_file):
            return


def _tokenize_part(
    job: _Job, documents: Iterable[Sequence[str]], tokenizer: Any, error_file: Path
) -> bool:
    """Tokenize a part, or write what is wrong with it for all processes that wait for it.

    Returns:
        Whether the part could be read.
    """
    try:
        TokenCache.write(documents, tokenizer, job.folder, job.made_of)
        return True
    except FileNotFoundError:
        message = Message(
            f"{job.part.file} no longer exists: put it back, and start again to continue."
        )
    except (ValueError, OSError, ImportError) as error:
        message = message_of(error)
    write_json(error_file, {"error": message.to_json(), "made_of": job.made_of})
    return False


def mix(corpora: Sequence[tuple[Corpus, float]]) -> list[tuple[Corpus, int]]:
    """Compute how many tokens of each corpus an epoch takes, by weight.

    An epoch of small corpora has as many tokens as all of them, otherwise `EPOCH_TOKENS`.
    """
    size = EPOCH_TOKENS
    if sum(len(corpus) for corpus, _ in corpora) <= EPOCH_PARTS:
        size = sum(corpus.tokens for corpus, _ in corpora)
    total = sum(weight for _, weight in corpora)
    return [(corpus, max(1, round(size * weight / total))) for corpus, weight in corpora]
