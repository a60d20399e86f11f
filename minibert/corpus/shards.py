"""Encode a corpus of any length into shards of vectors, in bounded memory, and resumable.

    folder/
      manifest.json         model and settings (a run only resumes with the same)
      shard-000000.npy      vectors of the first `shard_size` lines
      shard-000000.json     its counts, and hashes of its lines, its vectors and the settings;
                            written after the vectors
      ...
      index.json            totals, written when all shards are complete

The vectors of a shard depend on its lines alone, so they are the same whichever run or process
wrote them. A run that was stopped or killed resumes when it is started again: shards whose vectors
match their record are skipped, all others are computed.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np

from minibert.checks import check_count
from minibert.corpus.formats import ENDINGS, WRITERS
from minibert.corpus.location import Location
from minibert.corpus.records import (
    check_manifest,
    describe,
    digest_of,
    metadata,
    pack_digests,
    read_record,
    sha256_of_file,
    sha256_of_json,
)
from minibert.corpus.updates import KeptVectors, replacing_folder, restore
from minibert.encoders.encode import Overflow, TextEncoder, encode_chunk
from minibert.encoders.token_rows import CHUNK_TEXTS, Settings, Vectors, check_texts, iter_texts
from minibert.files import named_in_errors, only_run_in
from minibert.inference.batching import BATCH_TOKENS
from minibert.progress import SILENT, Progress, interruptible


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


def encode_to_file(
    embedder: TextEncoder,
    texts: Iterable[str],
    path: str | Path,
    *,
    prompt: str | None = None,
    prompt_name: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    overflow: Overflow = "truncate",
    normalize_embeddings: bool = False,
    truncate_dim: int | None = None,
    show_progress: bool | None = False,
    total: int | None = None,
) -> CorpusReport:
    """Write the vectors of `texts` into one file, atomically and in bounded memory.

    Args:
        embedder: The embedder.
        texts: The texts, which are read one after the other.
        path: The file, a path or a URI (see `minibert.corpus.location.Location`). Its ending
            determines the format, one of those of `minibert.corpus.formats`.
        prompt: Text before each text. None: that of `prompt_name`, or the model's default.
        prompt_name: Name of one of the model's prompts.
        batch_tokens: Tokens that the model computes at a time.
        overflow: Texts that are too long for the model: "truncate", or "mean", the mean of the
            vectors of their windows.
        normalize_embeddings: Vectors of length 1.
        truncate_dim: Keep this many dimensions of each vector. None: all of them.
        show_progress: True: a bar with tokens per second. None: a line every half minute.
        total: Number of texts, for the time left that the bar shows. None: unknown.

    Returns:
        Counts of what was written.

    Raises:
        ValueError: A format or a value that does not exist, or an item that is not a string.
        OSError: The file cannot be written. FileNotFoundError when its folder does not exist.
    """
    target = Location(path)
    end = Path(target.path)
    if end.suffix[1:] not in WRITERS:
        raise ValueError(f"{end.name!r} should end in {ENDINGS}.")
    texts = iter_texts(texts)
    settings = embedder.settings(
        prompt=prompt,
        prompt_name=prompt_name,
        overflow=overflow,
        batch_tokens=batch_tokens,
        truncate_dim=truncate_dim,
        normalize_embeddings=normalize_embeddings,
    )
    run = _Run(embedder, settings, end.suffix[1:], target)
    with Progress(show_progress, total) as progress, target.replacing() as temporary:
        return run.write(temporary, texts, progress)


def encode_to_shards(
    embedder: TextEncoder,
    texts: Iterable[str],
    folder: str | Path,
    *,
    file_format: str = "npy",
    shard_size: int = CHUNK_TEXTS,
    processes: int = 1,
    rank: int = 0,
    world_size: int = 1,
    update: bool = False,
    prompt: str | None = None,
    prompt_name: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
    overflow: Overflow = "truncate",
    normalize_embeddings: bool = False,
    truncate_dim: int | None = None,
    show_progress: bool | None = False,
    total: int | None = None,
) -> CorpusReport:
    """Write the vectors of `texts` as shards into `folder`, or resume an earlier run.

    Several runs at a time, on one machine or many, take every `world_size`-th shard each. They do
    not communicate, but all have to read the same texts.

    Args:
        embedder: The embedder.
        texts: The texts, which are read one after the other, a shard at a time.
        folder: Folder of the shards, a path or a URI. It is made if it does not exist.
        file_format: One of those of `minibert.corpus.formats`.
        shard_size: Texts in a shard.
        processes: Number of processes, each with a copy of the embedder and its share of torch's
            threads. They are spawned, so a script that uses several has to call this function
            under `if __name__ == "__main__":`.
        rank: Index of this run.
        world_size: Number of runs.
        update: The texts may differ from those of a finished folder. Vectors of unchanged texts
            are kept, those of new and changed texts are computed, and all others are dropped. The
            order is that of `texts`. The new folder takes the place of the old one in one step.
        prompt: Text before each text. None: that of `prompt_name`, or the model's default.
        prompt_name: Name of one of the model's prompts.
        batch_tokens: Tokens that the model computes at a time.
        overflow: Texts that are too long for the model: "truncate", or "mean", the mean of the
            vectors of their windows.
        normalize_embeddings: Vectors of length 1.
        truncate_dim: Keep this many dimensions of each vector. None: all of them.
        show_progress: True: a bar with tokens per second. None: a line every half minute.
        total: Number of texts, for the time left that the bar shows. None: unknown.

    Returns:
        Counts of what was written, and of what an earlier run had finished.

    Raises:
        ValueError: A value that does not exist, an item that is not a string, or a folder that
            was begun with other texts, model or settings.
        OSError: Another process works in the folder, or a shard cannot be written. The shards
            before it are complete.
        ChildProcessError: One of the processes has ended.
        KeyboardInterrupt: SIGINT or SIGTERM was received. The current shards are finished first. A
            second signal ends the run at once.
    """
    _check_shards(file_format, shard_size, rank, world_size)
    check_count("processes", processes)
    settings = embedder.settings(
        prompt=prompt,
        prompt_name=prompt_name,
        overflow=overflow,
        batch_tokens=batch_tokens,
        truncate_dim=truncate_dim,
        normalize_embeddings=normalize_embeddings,
    )
    texts = iter_texts(texts)
    target = Location(folder)
    if update:
        if target.fs is not None or world_size > 1:
            raise ValueError("update=True is for a folder on this machine, and for a single run.")
        restore(Path(target.path).absolute())
    target.make_folder()
    about = {"file_format": file_format, "shard_size": shard_size, **describe(embedder, settings)}
    run = _Run(embedder, settings, file_format, target, sha256_of_json(about))
    if update and metadata(target, "index.json").files():
        return _update(run, texts, about, show_progress, total)
    # object stores have no locks: two runs at a time compute everything twice, with the same result
    lock: AbstractContextManager[None] = nullcontext()
    if target.fs is None:
        lock = only_run_in(Path(target.path), rank)
    with lock, Progress(show_progress, total) as progress, interruptible() as stop_requested:
        check_manifest(target, about, _model_name(run))
        source = _Shards(texts, shard_size, rank, world_size, stop_requested)
        report = CorpusReport()
        for part in _write_shards(run, source, processes, progress):
            report.add(part)
        if stop_requested():
            done = report.shards + report.skipped
            raise KeyboardInterrupt(
                f"stopped. Complete shards in {folder}: {done}. Run the same command to resume."
            )
        _finish(target, source.count, source.lines, _totals(run, about))
    return report


def _check_shards(file_format: str, shard_size: int, rank: int, world_size: int) -> None:
    if file_format not in WRITERS:
        raise ValueError(f"file_format should be one of {', '.join(WRITERS)}, not {file_format!r}.")
    if not isinstance(shard_size, int) or not 1 <= shard_size <= sys.maxsize:
        raise ValueError(
            f"shard_size should be a whole number from 1 to {sys.maxsize}, not {shard_size!r}."
        )
    if not 0 <= rank < world_size:
        raise ValueError(
            f"rank should lie between 0 and world_size - 1 ({world_size - 1}), not {rank}."
        )


class _Shards:
    """The texts of the shards that a run takes, by the numbers of the shards.

    Attributes:
        count: Shards that have been read, those of other runs too.
        lines: Their texts.
    """

    def __init__(
        self,
        texts: Iterator[str],
        shard_size: int,
        rank: int,
        world_size: int,
        stop_requested: Callable[[], bool],
    ) -> None:
        self.count = 0
        self.lines = 0
        self._texts = texts
        self._shard_size = shard_size
        self._rank = rank
        self._world_size = world_size
        self._stop_requested = stop_requested

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while not self._stop_requested():
            shard = check_texts(list(islice(self._texts, self._shard_size)))
            if not shard:
                return
            number = self.count
            self.count += 1
            self.lines += len(shard)
            if number % self._world_size == self._rank:
                yield number, shard


def _write_shards(
    run: _Run, shards: Iterable[tuple[int, list[str]]], processes: int, progress: Progress
) -> Iterator[CorpusReport]:
    """Write shards in this process or in several, and yield the report of each."""
    if processes > 1:
        yield from _in_processes(run, iter(shards), processes, progress)
        return
    for number, shard in shards:
        yield run.write_shard(number, shard, progress)


def _model_name(run: _Run) -> str | None:
    return getattr(run.embedder, "model_name", None)


def _totals(run: _Run, about: dict[str, Any]) -> dict[str, Any]:
    """The entries of a folder's index besides its counts."""
    return {
        "dimension": run.dimension,
        "file_format": run.file_format,
        "unit": "normalize_embeddings" in about or about["steps"][-1:] == ["Normalize()"],
    }


def _update(
    run: _Run,
    texts: Iterator[str],
    about: dict[str, Any],
    show_progress: bool | None,
    total: int | None,
) -> CorpusReport:
    """Replace a finished folder by one of these texts, keeping the vectors of unchanged texts."""
    folder = Path(run.target.path).absolute()
    report = CorpusReport()
    with (
        only_run_in(folder),
        Progress(show_progress, total) as progress,
        interruptible() as stop_requested,
    ):
        check_manifest(run.target, about, _model_name(run))
        with replacing_folder(folder) as (new, earlier), named_in_errors(new, folder):
            target = Location(new)
            check_manifest(target, about, _model_name(run))
            old_vectors = KeptVectors(earlier, run.file_format, run.dimension)
            writer = replace(run, target=target, old_vectors=old_vectors)
            source = _Shards(texts, about["shard_size"], 0, 1, stop_requested)
            for part in _write_shards(writer, source, 1, progress):
                report.add(part)
            if stop_requested():
                raise KeyboardInterrupt(
                    f"stopped: {folder} is as it was. Run the same command to update it."
                )
            _finish(target, source.count, source.lines, _totals(run, about))
    return report


@dataclass
class _Run:
    """Writes the file or the shards of one run."""

    embedder: TextEncoder
    settings: Settings
    file_format: str
    target: Location  # the file, or the folder of the shards
    settings_hash: str = ""
    old_vectors: KeptVectors | None = None  # of an update

    @property
    def dimension(self) -> int:
        """Dimension of the vectors that are written."""
        whole: int = self.embedder.dimension
        return min(whole, self.settings.truncate_dim or whole)

    def write(self, path: Path, texts: Iterator[str], progress: Progress) -> CorpusReport:
        """Write one file on this machine."""
        report = CorpusReport()

        def encoded() -> Iterator[tuple[list[str], Vectors]]:
            while chunk := list(islice(texts, CHUNK_TEXTS)):
                vectors, counts = self._vectors(chunk, progress)
                report.add(counts)
                yield chunk, vectors

        WRITERS[self.file_format](path, encoded(), self.dimension)
        return report

    def _vectors(self, texts: list[str], progress: Progress) -> tuple[Vectors, CorpusReport]:
        """The vectors of texts, (N, D), of which those without old vectors are computed."""
        if self.old_vectors is None:
            vectors, rows = encode_chunk(self.embedder, texts, self.settings, progress)
            return vectors, CorpusReport(len(texts), rows.tokens, rows.overlong)
        old_rows = self.old_vectors.rows_of(texts)
        old = [place for place, row in enumerate(old_rows) if row is not None]
        new = [place for place, row in enumerate(old_rows) if row is None]
        vectors = np.empty((len(texts), self.dimension), np.float32)
        vectors[old] = self.old_vectors.vectors([row for row in old_rows if row is not None])
        progress.add(len(old))
        counts = CorpusReport(len(texts), kept=len(old))
        if new:
            computed, rows = encode_chunk(
                self.embedder, [texts[place] for place in new], self.settings, progress
            )
            vectors[new] = computed
            counts.tokens = rows.tokens
            counts.overlong = rows.overlong
        return vectors, counts

    def write_shard(
        self, number: int, texts: list[str], progress: Progress = SILENT
    ) -> CorpusReport:
        """Write one shard and then its record, unless an earlier run has done so."""
        name = f"shard-{number:06d}"
        texts_hash = digest_of(texts)
        path = self.target / f"{name}.{self.file_format}"
        record = metadata(self.target, f"{name}.json", self.file_format)
        earlier = read_record(record)
        if earlier is not None and self._is_finished(path, earlier, texts_hash):
            progress.add(len(texts))
            return CorpusReport(skipped=1)
        try:
            with path.replacing() as temporary:
                report = self.write(temporary, iter(texts), progress)
                size = temporary.stat().st_size
                vectors_hash = sha256_of_file(temporary)
            about = {
                "lines": report.lines,
                "tokens": report.tokens,
                "overlong": report.overlong,
                "texts_sha256": texts_hash,
                "texts": pack_digests(texts),
                "settings_sha256": self.settings_hash,
                "bytes": size,
                "vectors_sha256": vectors_hash,
            }
            record.write_json({**about, "record_sha256": sha256_of_json(about)})
        except OSError as error:
            advice = (
                "The shards before it are complete: make room, then run the same command to resume."
            )
            raise OSError(f"{error} {advice}") from error
        report.shards = 1
        return report

    def _is_finished(self, path: Location, record: dict[str, Any], texts_hash: str) -> bool:
        """Whether an earlier run has written this shard, and it is still the same.

        Raises:
            ValueError: The shard is that of other texts, another model or other settings.
        """
        if record["settings_sha256"] != self.settings_hash:
            raise ValueError(
                f"{path} was made by another model or with other settings: give another folder."
            )
        if record["texts_sha256"] != texts_hash:
            raise ValueError(
                f"{path} was made from other texts: pass --update (in Python update=True) to keep "
                "the vectors of those that are still there, or give another folder."
            )
        files = path.files()
        if "" not in files:
            return False
        size, _ = files[""]
        if size == record["bytes"]:
            # object stores check their files themselves, and reading all would take too long
            if path.fs or sha256_of_file(Path(path.path)) == record["vectors_sha256"]:
                return True
        warnings.warn(
            f"{path} has been damaged since it was written: it is made again.", stacklevel=4
        )
        return False


def _in_processes(
    run: _Run, shards: Iterator[tuple[int, list[str]]], processes: int, progress: Progress
) -> Iterator[CorpusReport]:
    """Write shards in processes that share the threads. When one of them fails, all end.

    The work around the encoder (tokenize, sort, embed, pool) does not use several threads. With
    MiniLM on Zen 4 it runs at 0.45 M tokens a second, and the encoder in int8 at about 0.01 M a
    core. So by Amdahl's law 8 threads are busy 85% of the time, 32 threads 60%, 64 threads 40%.
    """
    earlier_children = set(active_children())
    threads = max(1, run.embedder.threads // processes)
    # as bytes: weights are packed for a number of threads, which has to be set before unpickling
    arguments = (threads, pickle.dumps(run))
    with ProcessPoolExecutor(processes, get_context("spawn"), _start_process, arguments) as pool:
        waiting: deque[tuple[int, Future[tuple[CorpusReport, list[str]]]]] = deque()
        try:
            for shard in chain(shards, [None] * processes):
                if shard is not None:
                    waiting.append((len(shard[1]), pool.submit(_write_shard, *shard)))
                if waiting and (shard is None or len(waiting) > processes):
                    texts, future = waiting.popleft()
                    report, messages = future.result()
                    for message in messages:
                        warnings.warn(message, stacklevel=3)
                    progress.add(texts, report.tokens)
                    yield report
        except BrokenProcessPool:  # the pool has ended the other processes
            raise ChildProcessError(
                f"One of the {processes} processes has ended. The finished shards are complete. "
                "Run the same command to resume."
            ) from None
        except BaseException:
            for child in set(active_children()) - earlier_children:
                child.terminate()
            raise


_run: _Run  # of a process that `_in_processes` has started


def _start_process(threads: int, run: bytes) -> None:
    global _run
    # a terminal sends SIGINT to all processes, but the parent decides when they end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = f"{threads}"  # read when the engine is imported, with the run
    _run = pickle.loads(run)


def _end_with_parent() -> None:
    """End this process when its parent is killed, since nothing else would."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _write_shard(number: int, texts: list[str]) -> tuple[CorpusReport, list[str]]:
    """The report of a shard, and the messages of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = _run.write_shard(number, texts)
    return report, [str(warning.message) for warning in caught]


def _finish(folder: Location, shards: int, lines: int, about: dict[str, Any]) -> None:
    """Write the totals if this run was the last of several to finish its shards."""
    file_format = about["file_format"]
    names = [f"shard-{number:06d}" for number in range(shards)]
    expected = set(names)
    pattern = rf"(shard-\d+)\.({file_format}|json)"
    for file in folder.files():
        match = re.fullmatch(pattern, file)
        if match and match[1] not in expected:
            raise ValueError(
                f"{folder} holds more than the {shards} shards of this input: the input has "
                "changed."
            )
    totals = {"lines": 0, "tokens": 0, "overlong": 0}
    for name in names:
        record = read_record(metadata(folder, f"{name}.json", file_format))
        if record is None:
            return
        for count in totals:
            totals[count] += record[count]
    if totals["lines"] != lines:
        raise ValueError(
            f"{folder} holds {totals['lines']} lines, but the input has {lines}: the input has "
            "changed."
        )
    metadata(folder, "index.json", file_format).write_json({"shards": shards, **about, **totals})
