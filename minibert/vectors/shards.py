"""Encode texts of any number into a file or a folder of vectors, in bounded memory.

The vectors of a shard depend on its texts alone, so they are the same whichever run or process
wrote them. A run that was stopped or killed resumes when it is started again: shards that are
complete are skipped (see `minibert.vectors.folder`), all others are computed.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, islice
from multiprocessing import active_children, current_process, get_context, parent_process
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from minibert.encoders.encoder_options import (
    VectorKeywords,
    VectorOptions,
    takes,
)
from minibert.encoders.rows.token_rows import (
    CHUNK_TEXTS,
    Settings,
    Vectors,
    check_texts,
    iter_texts,
)
from minibert.encoders.rows.unread import UnreadTexts
from minibert.encoders.text_encoder import TextEncoder
from minibert.text.formats import SHARD_FORMATS, VECTOR_FORMATS, Entry, VectorFormat, vector_format
from minibert.text.formats.arrow_tables import MIXED_IDS
from minibert.text.location import Location, claim
from minibert.text.rows import Row
from minibert.util.checks import amount, check_count, warn
from minibert.util.errors import Argument, ArgumentError, Message, message_of
from minibert.util.files import named_in_errors, only_run_in, remove_abandoned
from minibert.util.folders import replace_files
from minibert.util.progress import SILENT, Progress, interruptible
from minibert.vectors.folder import (
    MANIFEST,
    OWN_FILES,
    VectorFolder,
    text_digest,
    vector_settings,
)

MAIN_GUARD = (
    'Let the script call this function under `if __name__ == "__main__":`, which is not true in '
    "them"
)
_RUN = "run.pickle"  # of the processes of a run, in a folder of theirs
_STARTED = "started"


@dataclass
class CorpusReport:
    """The result of `encode_to_shards` or `encode_to_file`.

    Attributes:
        lines: Texts that were encoded.
        tokens: Tokens of these texts that the model computed.
        overlong: Texts that are too long for the model, and were truncated or averaged.
        shards: Shards that were written.
        skipped: Shards that an earlier run had finished.
        kept: Texts whose vectors an update has kept. Their tokens are not counted.
    """

    lines: int = 0
    tokens: int = 0
    overlong: int = 0
    shards: int = 0
    skipped: int = 0
    kept: int = 0

    def add(self, report: CorpusReport) -> None:
        """Add the counts of another report."""
        for name, number in vars(report).items():
            setattr(self, name, getattr(self, name) + number)


@takes(VectorOptions)
def encode_to_file(
    embedder: TextEncoder,
    texts: Iterable[str | Row],
    path: str | Path,
    *,
    force: bool = False,
    show_progress: bool | None = False,
    total: int | None = None,
    **options: Unpack[VectorKeywords],
) -> CorpusReport:
    """Write the vectors of `texts` into one file, atomically and in bounded memory.

    Args:
        embedder: The embedder.
        texts: The texts, or the rows of `minibert.text.read`, whose ids are written where the
            format has a place for them. They are read one after the other.
        path: The file, a path or a URI. Its ending determines the format, one of
            `minibert.text.formats.VECTOR_FORMATS`.
        force: Replace a file that exists.
        show_progress: True: a bar with tokens per second. None: a line every half minute.
        total: Number of texts, for the time left that the bar shows. None: unknown.
        options: The fields of `minibert.encoders.encoder_options.VectorOptions`, which describes
            them. Without a prompt it is the model's prompt of documents, as in `encode_document`.

    Returns:
        Counts of what was written.

    Raises:
        ValueError: A format or a value that does not exist, or an item that is not a string.
        OSError: The file cannot be written. FileExistsError when it exists and `force` is False,
            FileNotFoundError when its folder does not.
    """
    target = Location(path)
    form = vector_format(target)
    if form is None:
        raise ValueError(f"{Path(target.path).name!r} should end in {', '.join(VECTOR_FORMATS)}.")
    claim(path, force)
    entries = _with_notice_of_ids(iter_texts(texts))  # type: ignore[arg-type]
    chunks = _chunks(entries, CHUNK_TEXTS, form)
    settings = embedder.settings(**embedder.with_prompt_for("document", options))
    run = _Run(embedder, settings, form)

    def reported() -> Iterator[list[Entry]]:
        for chunk in chunks:
            embedder.report_unread(run.unread, is_beginning=True)
            yield chunk

    with Progress(show_progress, total) as progress, target.replacing() as temporary:
        report = run.write(temporary, reported(), progress)
    embedder.report_unread(run.unread)
    return report


@takes(VectorOptions)
def encode_to_shards(
    embedder: TextEncoder,
    texts: Iterable[str | Row],
    folder: str | Path,
    *,
    file_format: str | None = None,
    shard_size: int | None = None,
    processes: int = 1,
    rank: int = 0,
    world_size: int = 1,
    update: bool = False,
    show_progress: bool | None = False,
    total: int | None = None,
    **options: Unpack[VectorKeywords],
) -> CorpusReport:
    """Write the vectors of `texts` as shards into `folder`, or resume an earlier run.

    Several runs at a time, on one machine or many, take every `world_size`-th shard each. They do
    not communicate, but all have to read the same texts.

    Args:
        embedder: The embedder.
        texts: The texts or rows, as in `encode_to_file`, which are read a shard at a time.
        folder: Folder of the shards, a path or a URI. It is made if it does not exist.
        file_format: One of `minibert.text.formats.SHARD_FORMATS`: npy, safetensors, jsonl, parquet
            or arrow. None: that of the folder, or npy for a new one.
        shard_size: Texts in a shard. None: as many as in the folder, or 16384 for a new one.
        processes: Number of processes, each with a copy of the embedder and its share of torch's
            threads. They are spawned, so a script that uses several has to call this function
            under `if __name__ == "__main__":`.
        rank: Index of this run.
        world_size: Number of runs.
        update: The texts may differ from those of an earlier run. Vectors of unchanged texts
            in a finished folder are kept, those of new and changed texts are computed, and all
            others are dropped. The order is that of `texts`. The new folder takes the place of the
            old one when it is complete, and files of others in it stay. In a folder that is not
            finished, the shards of other texts are written again.
        show_progress: True: a bar with tokens per second. None: a line every half minute.
        total: Number of texts, for the time left that the bar shows. None: unknown.
        options: As in `encode_to_file`.

    Returns:
        Counts of what was written, and of what an earlier run had finished.

    Raises:
        ValueError: A value that does not exist, an item that is not a string, or a folder that
            was begun with other texts, model or settings.
        OSError: Another process works in the folder, or a shard cannot be written. The shards
            before it are complete.
        ChildProcessError: One of the processes has ended.
        RuntimeError: Several processes, and the script calls this function without the guard.
        KeyboardInterrupt: SIGINT or SIGTERM was received. The current shards are finished first. A
            second signal ends the run at once.
    """
    check_count("processes", processes)
    if processes > 1:
        _check_main_guard(processes)
    location = Location(folder)
    begun = VectorFolder(location).manifest
    if file_format is None:
        file_format = str(begun.get("file_format", "npy"))
    if shard_size is None:
        shard_size = int(begun.get("shard_size", CHUNK_TEXTS))
    _check_shards(file_format, shard_size, rank, world_size)
    settings = embedder.settings(**embedder.with_prompt_for("document", options))
    form = SHARD_FORMATS[file_format]
    entries = _with_notice_of_ids(iter_texts(texts), rank)  # type: ignore[arg-type]
    chunks = _chunks(entries, shard_size, form)
    about = {
        "file_format": file_format,
        "shard_size": shard_size,
        **vector_settings(embedder, settings),
        "model_name": embedder.model_name,
    }
    run = _Run(embedder, settings, form, update)
    path = Path(os.path.realpath(location.path))  # a link to the folder stays
    if update:
        if location.fs is not None or world_size > 1:
            raise ArgumentError(
                Argument("update", True), "is for a folder on this machine, and for a single run."
            )
    replaces = update and VectorFolder(location).is_finished  # else there is nothing to keep
    new = path.with_name(f".{path.name}.new")  # of an update
    lock = _locked(location, new, rank, world_size)
    with lock, Progress(show_progress, total) as progress, interruptible() as stop_requested:
        earlier = VectorFolder(location)
        earlier.begin(about, embedder)
        target: AbstractContextManager[VectorFolder] = nullcontext(earlier)
        if replaces:
            run.old_vectors = KeptVectors(earlier)
            target = _replacing(path, new, about, embedder)
        count = 0
        lines = 0

        def shards() -> Iterator[tuple[int, list[Entry]]]:
            """The shards that this run takes, by their indices among all that are read."""
            nonlocal count, lines
            while not stop_requested() and (shard := next(chunks, None)):
                count += 1
                lines += len(shard)
                if (count - 1) % world_size == rank:
                    yield count - 1, shard

        report = CorpusReport()
        with target as run.folder:
            parts: Iterable[CorpusReport]
            if processes > 1:
                parts = _in_processes(run, shards(), processes, progress)
            else:
                parts = (run.write_shard(number, shard, progress) for number, shard in shards())
            for part in parts:
                report.add(part)
                embedder.report_unread(run.unread, is_beginning=True)
            if stop_requested():
                done = f" Complete shards in {folder}: {report.shards + report.skipped}."
                if replaces:
                    done = f" {folder} is as it was."
                raise KeyboardInterrupt(f"stopped.{done} Run the same command to resume.")
            run.folder.finish(count, lines, run.about(), update)
    embedder.report_unread(run.unread)
    return report


def _check_shards(file_format: str, shard_size: int, rank: int, world_size: int) -> None:
    if file_format not in SHARD_FORMATS:
        raise ArgumentError(
            "file_format", f"should be one of {', '.join(SHARD_FORMATS)}, not {file_format!r}."
        )
    if not isinstance(shard_size, int) or not 1 <= shard_size <= sys.maxsize:
        raise ArgumentError(
            "shard_size", f"should be a whole number from 1 to {sys.maxsize}, not {shard_size!r}."
        )
    if not 0 <= rank < world_size:
        raise ArgumentError(
            "rank", f"should lie between 0 and world_size - 1 ({world_size - 1}), not {rank}."
        )


def _chunks(rows: Iterator[str | Row], size: int, form: VectorFormat) -> Iterator[list[Entry]]:
    """Texts and their ids, `size` at a time.

    Raises:
        ValueError: A row is not a string, or the ids of a table are of several types: its files
            would be readable one by one, but not together.
    """
    first = 0
    kinds: set[type] = set()
    while chunk := list(islice(rows, size)):
        entries = [Entry(row.text, row.id) if isinstance(row, Row) else Entry(row) for row in chunk]
        check_texts([entry.text for entry in entries], first)
        kinds.update(type(entry.id) for entry in entries)
        if form.has_typed_ids and {int, str} <= kinds:
            raise ValueError(MIXED_IDS)
        yield entries
        first += len(chunk)


@contextmanager
def _locked(location: Location, new: Path, rank: int, world_size: int) -> Iterator[None]:
    """Lock a folder against other runs, and remove what killed ones have left.

    Object stores have no locks: two runs at a time compute everything twice, with the same result.
    """
    if location.fs is not None:
        yield
        return
    with only_run_in(Path(location.path), rank):
        for leftover in Path(location.path).glob(".*.tmp"):
            remove_abandoned(leftover)
        yield
        if world_size == 1:
            shutil.rmtree(new, ignore_errors=True)  # of an update after which the folder was whole


def _with_notice_of_ids(rows: Iterator[str | Row], rank: int = 0) -> Iterator[str | Row]:
    """Rows, and a warning after the last of them if ids are empty or occur several times.

    Eight bytes are kept of each id. The first of several processes warns.
    """
    hashes = array("q")
    empty: list[int] = []  # the first, and how many
    for number, row in enumerate(rows, 1):
        if isinstance(row, Row) and row.id is not None:
            if row.id == "":
                empty = [empty[0], empty[1] + 1] if empty else [number, 1]
            hashes.append(hash(row.id if row.id != "" else (number, "no id")))
        yield row
    if rank > 0:
        return
    if empty:
        warn(f"{amount(empty[1], 'id is', 'ids are')} empty, the first in row {empty[0]}.")
    values = np.frombuffer(hashes, np.int64) if hashes else np.empty(0, np.int64)
    order = np.argsort(values, kind="stable")
    repeats = order[1:][values[order[1:]] == values[order[:-1]]]
    if repeats.size:
        several = amount(len(np.unique(values[repeats])), "id occurs", "ids occur")
        warn(f"{several} more than once, the first again in row {repeats.min() + 1}.")


def _check_main_guard(processes: int) -> None:
    """Raise an error where the spawned processes would run the script of this one again.

    Raises:
        RuntimeError: This is such a process, or its script cannot be run.
    """
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    is_script = script is not None and getattr(main, "__spec__", None) is None
    cannot_run = is_script and not os.path.exists(str(script))  # as of `python -`
    # as multiprocessing marks a process that still imports the script
    if cannot_run or getattr(current_process(), "_inheriting", False):
        reason = MAIN_GUARD
        if cannot_run:
            reason = f"Write it into a file, because they cannot read {script}. {MAIN_GUARD}"
        starts = f" starts processes that run the script again. {reason}."
        raise RuntimeError(Message(Argument("processes", processes), starts))


@contextmanager
def _replacing(
    path: Path, new: Path, about: dict[str, Any], embedder: TextEncoder
) -> Iterator[VectorFolder]:
    """A folder `new`, whose files take the place of those in `path` when the block succeeds.

    A run that is killed leaves the old folder as it was, and the next run resumes in the new one.
    """
    with named_in_errors(new, path):
        folder = VectorFolder(Location(new))
        try:
            folder.begin(about, embedder)
        except ValueError:  # of an update with other settings
            shutil.rmtree(new)
            folder = VectorFolder(Location(new))
            folder.begin(about, embedder)
        yield folder
    replace_files(path, new, _own_files, [MANIFEST])


def _own_files(folder: Path, _: Sequence[str]) -> list[str]:
    """The files of a folder of vectors that others have not put there, but for locks."""
    names = [entry.name for entry in folder.iterdir() if not entry.is_dir()]
    return [name for name in names if OWN_FILES.fullmatch(name) and not name.startswith(".lock-")]


class KeptVectors:
    """The vectors of a finished folder, by text. Those of damaged shards are not kept."""

    def __init__(self, folder: VectorFolder) -> None:
        digests = folder.digests()
        order = np.argsort(digests, kind="stable")
        self._order = order[folder.undamaged()[order]]
        self._digests = digests[self._order]
        self._vectors = folder.vectors()

    def fill(self, vectors: Vectors, texts: Sequence[str]) -> list[int]:
        """Put the vectors of known texts into their places.

        Args:
            vectors: Those of the texts, (N, D), which are written to.
            texts: The texts.

        Returns:
            The places of new texts.
        """
        if not len(self._digests):
            return list(range(len(texts)))
        digests: NDArray[Any] = np.array(
            [text_digest(text) for text in texts], dtype=self._digests.dtype
        )
        places = np.searchsorted(self._digests, digests).clip(max=len(self._digests) - 1)
        is_known = self._digests[places] == digests
        vectors[is_known] = self._vectors.take(self._order[places[is_known]])
        new: list[int] = np.flatnonzero(~is_known).tolist()
        return new


@dataclass
class _Run:
    """Writes the file or the shards of one run."""

    embedder: TextEncoder
    settings: Settings
    form: VectorFormat
    update: bool = False  # shards of other texts are written again
    folder: VectorFolder | None = None
    old_vectors: KeptVectors | None = None  # of an update
    unread: UnreadTexts = field(default_factory=UnreadTexts)  # of the texts that were computed

    @property
    def dimension(self) -> int:
        """Dimension of the vectors that are written."""
        dimension = self.embedder.dimension
        return min(dimension, self.settings.truncate_dim or dimension)

    def about(self) -> dict[str, Any]:
        """The entries of a folder's manifest that its vectors have."""
        last_step = [str(step) for step in self.embedder.steps][-1:]
        is_whole = self.dimension == self.embedder.dimension  # not truncated after the last step
        is_unit = self.settings.normalize or (is_whole and last_step == ["Normalize()"])
        return {"dimension": self.dimension, "unit": is_unit}

    def write(self, path: Path, chunks: Iterable[list[Entry]], progress: Progress) -> CorpusReport:
        """Write one file on this machine."""
        report = CorpusReport()

        def encoded() -> Iterator[tuple[list[Entry], Vectors]]:
            for entries in chunks:
                vectors, counts = self._vectors([entry.text for entry in entries], progress)
                report.add(counts)
                yield entries, vectors

        self.form.write_vectors(path, encoded(), self.dimension)
        return report

    def _vectors(self, texts: list[str], progress: Progress) -> tuple[Vectors, CorpusReport]:
        """The vectors of texts, (N, D), of which those without old vectors are computed."""
        if self.old_vectors is None:
            vectors, rows = self.embedder.encode_chunk(texts, self.settings, progress, self.unread)
            return vectors, CorpusReport(len(texts), rows.tokens, rows.overlong)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        new = self.old_vectors.fill(vectors, texts)
        counts = CorpusReport(len(texts), kept=len(texts) - len(new))
        progress.add(counts.kept)
        if new:
            vectors[new], rows = self.embedder.encode_chunk(
                [texts[place] for place in new], self.settings, progress, self.unread
            )
            counts.tokens = rows.tokens
            counts.overlong = rows.overlong
        return vectors, counts

    def write_shard(
        self, number: int, entries: list[Entry], progress: Progress = SILENT
    ) -> CorpusReport:
        """Write one shard, unless an earlier run has done so."""
        assert self.folder is not None
        if self.folder.has(number, entries, self.update):
            progress.add(len(entries))
            return CorpusReport(skipped=1)
        report = CorpusReport(shards=1)

        def write_vectors(path: Path) -> dict[str, int]:
            chunks = (
                entries[start : start + CHUNK_TEXTS]
                for start in range(0, len(entries), CHUNK_TEXTS)
            )
            report.add(self.write(path, chunks, progress))
            names = ("lines", "tokens", "overlong")
            return {name: getattr(report, name) for name in names}

        self.folder.write(number, entries, write_vectors)
        return report


def _in_processes(
    run: _Run, shards: Iterator[tuple[int, list[Entry]]], processes: int, progress: Progress
) -> Iterator[CorpusReport]:
    """Write shards in processes that share the threads. When one of them fails, all end.

    The work around the encoder (tokenize, sort, embed, pool) does not use several threads. With
    MiniLM on Zen 4 it runs at 0.45 M tokens a second, and the encoder in int8 at about 0.01 M a
    core. So by Amdahl's law 8 threads are busy 85% of the time, 32 threads 60%, 64 threads 40%.
    """
    earlier_children = set(active_children())
    threads = max(1, run.embedder.threads // processes)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(
            processes, get_context("spawn"), _start_process, (threads, folder)
        ) as pool,
    ):
        # in a file: a process that ends early does not read what it is sent, and sending would wait
        Path(folder, _RUN).write_bytes(pickle.dumps(run))
        waiting: deque[tuple[int, Future[tuple[CorpusReport, list[str], UnreadTexts]]]] = deque()
        try:
            for shard in chain(shards, [None] * processes):
                if shard is not None:
                    waiting.append((len(shard[1]), pool.submit(_write_shard, *shard)))
                if waiting and (shard is None or len(waiting) > processes):
                    texts, future = waiting.popleft()
                    report, messages, unread = future.result()
                    for message in messages:
                        warn(message)
                    run.unread.add(unread.count, unread.total, unread.sample)
                    progress.add(texts, report.tokens)
                    yield report
        except BrokenProcessPool:  # the pool has ended the other processes
            if not Path(folder, _STARTED).exists():
                raise ChildProcessError(
                    f"None of the {processes} processes has started. {MAIN_GUARD}."
                ) from None
            raise ChildProcessError(
                f"One of the {processes} processes has ended. The finished shards are complete. "
                "Run the same command to resume."
            ) from None
        except BaseException:
            for child in set(active_children()) - earlier_children:
                child.terminate()
            raise


_run: _Run  # of a process that `_in_processes` has started


def _start_process(threads: int, folder: str) -> None:
    global _run
    Path(folder, _STARTED).touch()
    # a terminal sends SIGINT to all processes, but the parent decides when they end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = f"{threads}"  # read when the engine is imported, with the run
    # weights are packed for a number of threads, which has to be set before unpickling
    _run = pickle.loads(Path(folder, _RUN).read_bytes())


def _end_with_parent() -> None:
    """End this process when its parent is killed, since nothing else would."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _write_shard(number: int, entries: list[Entry]) -> tuple[CorpusReport, list[str], UnreadTexts]:
    """The report of a shard, the messages of its warnings, and its texts that cannot be read."""
    _run.unread = UnreadTexts()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = _run.write_shard(number, entries)
    return report, [message_of(warning.message) for warning in caught], _run.unread
