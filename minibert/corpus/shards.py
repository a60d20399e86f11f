"""Encoding a corpus of any length: lines in, shards of vectors out, in bounded memory, and resumable.

    folder/
      manifest.json         model and settings; a folder is only continued with the same
      shard-000000.npy      vectors of the first `shard_size` lines
      shard-000000.json     its counts and hashes of its lines, its vectors and the settings,
      written after it ... index.json            totals, written when every shard is complete

A shard is encoded by itself, so it does not matter which run, or which of several processes, wrote
it: the bytes are the same. A run that was stopped, however hard, is continued by starting it again:
shards whose vectors are those that their record describes are skipped, all others are made.
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
from contextlib import nullcontext
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
    read_record,
    sha256_of_file,
    sha256_of_json,
)
from minibert.corpus.updates import KeptVectors, pack_digests, replacing_folder, restore
from minibert.files import only_run_in
from minibert.progress import SILENT, Progress, interruptible
from minibert.sentences.encode import TextEncoder, encode_chunk
from minibert.sentences.rows import CHUNK_TEXTS, Settings, Vectors, check_texts, iter_texts


@dataclass
class CorpusReport:
    """The result of `encode_to_shards` or `encode_to_file`.

    Attributes:
        lines: texts that were encoded.
        tokens: tokens of these that went through the model.
        overlong: how many of these texts have more tokens than fit, and were cut or averaged.
        shards: shards that were written.
        skipped: shards that an earlier run had finished.
        kept: texts whose vectors an update has kept; their tokens are not counted.
    """

    lines: int = 0
    tokens: int = 0
    overlong: int = 0
    shards: int = 0
    skipped: int = 0
    kept: int = 0

    def add(self, other: CorpusReport) -> None:
        """Counts what another one has counted, too."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


def encode_to_file(
    embedder: TextEncoder,
    texts: Iterable[str],
    path: str | Path,
    *,
    show_progress: bool | None = False,
    total: int | None = None,
    **options: Any,
) -> CorpusReport:
    """Writes the vectors of `texts` into one file, atomically, holding few of them in memory.

    Args:
        embedder: what makes the vectors.
        texts: read one after the other.
        path: the file, a path or a URI (see `minibert.corpus.location.Location`); its ending says
            the format, one of those of `minibert.corpus.formats`.
        show_progress: a bar with tokens per second; None: a line every half minute.
        total: how many texts there are, if that is known, for the bar to say how long it will take.
        options: as in `SentenceEmbedder.encode`.

    Raises:
        ValueError: a format or an option that does not exist, or something that is not a text.
        OSError: the file cannot be written, FileNotFoundError when its folder does not exist.
    """
    target = Location(path)
    end = Path(target.path)
    if end.suffix[1:] not in WRITERS:
        raise ValueError(f"{end.name!r} should end in {ENDINGS}.")
    texts, run = (
        iter_texts(texts),
        _Run(embedder, embedder.settings(**options), end.suffix[1:], target),
    )
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
    show_progress: bool | None = False,
    total: int | None = None,
    **options: Any,
) -> CorpusReport:
    """Writes the vectors of `texts` as shards into `folder`, going on where an earlier run stopped.

    Of several runs at a time, on one machine or many, each takes every `world_size`-th shard; they
    need not know of each other, but all read the same texts.

    Args:
        embedder: what makes the vectors.
        texts: read one after the other, a shard at a time.
        folder: where the shards go, a path or a URI; made when it does not exist.
        file_format: one of those of `minibert.corpus.formats`.
        shard_size: texts in a shard.
        processes: that encode for this run, each with a copy of the embedder and its share of
            torch's threads. They are spawned, so a script that asks for several does so under `if
            __name__ == "__main__":`.
        rank: number of this run.
        world_size: number of runs.
        update: the texts may differ from those of a finished folder. Vectors of texts that are
            still there are kept, those of new and changed texts are computed, all others are
            dropped; the order is that of `texts`. The new state takes the place of the old one in
            one step.
        show_progress: a bar with tokens per second; None: a line every half minute.
        total: how many texts there are, if that is known, for the bar to say how long it will take.
        options: as in `SentenceEmbedder.encode`.

    Raises:
        ValueError: an option that does not exist, something that is not a text, or a folder that
            was begun with other texts, model or settings.
        OSError: another process works in the folder, or a shard cannot be written; those before it
            are complete. ChildProcessError: one of the processes has ended.
        KeyboardInterrupt: told to stop by SIGINT or SIGTERM: after the shards at hand; a second
            signal ends at once.
    """
    _check_shards(file_format, shard_size, rank, world_size)
    check_count("processes", processes)
    settings = embedder.settings(**options)
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
    # object stores have no locks; there, two runs at a time do their work twice, and write the same
    alone = only_run_in(Path(target.path), rank) if target.fs is None else nullcontext()
    with alone, Progress(show_progress, total) as progress, interruptible() as stop_requested:
        check_manifest(target, about, _model_name(run))
        source = _Shards(texts, shard_size, rank, world_size, stop_requested)
        report = CorpusReport()
        for part in _write_shards(run, source, processes, progress):
            report.add(part)
        if stop_requested():
            done = report.shards + report.skipped
            raise KeyboardInterrupt(
                f"stopped; {done} shards in {folder} are complete: run the same again to go on."
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
    """Writes shards in this process or in several, and reports each."""
    if processes > 1:
        yield from _in_processes(run, iter(shards), processes, progress)
        return
    for number, shard in shards:
        yield run.write_shard(number, shard, progress)


def _model_name(run: _Run) -> str | None:
    return getattr(run.embedder, "model_name", None)


def _totals(run: _Run, about: dict[str, Any]) -> dict[str, Any]:
    """What the index of a folder says besides its counts."""
    return {
        "dimension": run.embedder.dimension,
        "file_format": run.file_format,
        "unit": about["steps"][-1:] == ["Normalize()"],
    }


def _update(
    run: _Run,
    texts: Iterator[str],
    about: dict[str, Any],
    show_progress: bool | None,
    total: int | None,
) -> CorpusReport:
    """Replaces a finished folder by one of these texts, with the vectors that both have."""
    folder = Path(run.target.path).absolute()
    report = CorpusReport()
    with (
        only_run_in(folder),
        Progress(show_progress, total) as progress,
        interruptible() as stop_requested,
    ):
        check_manifest(run.target, about, _model_name(run))
        with replacing_folder(folder) as (new, earlier):
            target = Location(new)
            check_manifest(target, about, _model_name(run))
            kept = KeptVectors(earlier, run.file_format, run.embedder.dimension)
            writer = replace(run, target=target, kept=kept)
            source = _Shards(texts, about["shard_size"], 0, 1, stop_requested)
            for part in _write_shards(writer, source, 1, progress):
                report.add(part)
            if stop_requested():
                raise KeyboardInterrupt(
                    f"stopped; {folder} is as it was: run the same again to update it."
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
    kept: KeptVectors | None = None  # of an update

    def write(self, path: Path, texts: Iterator[str], progress: Progress) -> CorpusReport:
        """Fills one file on this machine."""
        report = CorpusReport()

        def encoded() -> Iterator[tuple[list[str], Vectors]]:
            while chunk := list(islice(texts, CHUNK_TEXTS)):
                vectors, counts = self._vectors(chunk, progress)
                report.add(counts)
                yield chunk, vectors

        WRITERS[self.file_format](path, encoded(), self.embedder.dimension)
        return report

    def _vectors(self, texts: list[str], progress: Progress) -> tuple[Vectors, CorpusReport]:
        """The vectors of some texts, (N, D): kept ones, and others that are computed together."""
        if self.kept is None:
            vectors, rows = encode_chunk(self.embedder, texts, self.settings, progress)
            return vectors, CorpusReport(len(texts), rows.tokens, rows.overlong)
        known = self.kept.rows_of(texts)
        old = [place for place, row in enumerate(known) if row is not None]
        new = [place for place, row in enumerate(known) if row is None]
        vectors = np.empty((len(texts), self.embedder.dimension), np.float32)
        vectors[old] = self.kept.vectors([row for row in known if row is not None])
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
        """Writes one shard and then its record, unless an earlier run has done so."""
        name, texts_hash = f"shard-{number:06d}", digest_of(texts)
        path = self.target / f"{name}.{self.file_format}"
        record = metadata(self.target, f"{name}.json", self.file_format)
        if earlier := read_record(record):
            if earlier["settings_sha256"] != self.settings_hash:
                raise ValueError(
                    f"{path} was made by another model or with other settings: give another folder."
                )
            if earlier["texts_sha256"] != texts_hash:
                raise ValueError(
                    f"{path} was made from other texts: the input has changed, so give another folder."
                )
            if written := path.files().get(""):
                # object stores keep hashes of their own, and reading everything back would cost
                # more than a resumption
                same = written[0] == earlier["bytes"]
                if same and (
                    path.fs or sha256_of_file(Path(path.path)) == earlier["vectors_sha256"]
                ):
                    progress.add(len(texts))
                    return CorpusReport(skipped=1)
                warnings.warn(
                    f"{path} has been damaged since it was written: it is made again.", stacklevel=3
                )
        try:
            with path.replacing() as temporary:
                done = self.write(temporary, iter(texts), progress)
                file = {
                    "bytes": temporary.stat().st_size,
                    "vectors_sha256": sha256_of_file(temporary),
                }
            about = {
                "lines": done.lines,
                "tokens": done.tokens,
                "overlong": done.overlong,
                "texts_sha256": texts_hash,
                "texts": pack_digests(texts),
            }
            about |= {"settings_sha256": self.settings_hash, **file}
            record.write_json({**about, "record_sha256": sha256_of_json(about)})
        except OSError as error:
            advice = (
                "The shards before it are complete: make room, then run the same again to go on."
            )
            raise OSError(f"{error} {advice}") from error
        done.shards = 1
        return done


def _in_processes(
    run: _Run, shards: Iterator[tuple[int, list[str]]], processes: int, progress: Progress
) -> Iterator[CorpusReport]:
    """Writes shards in processes that share the threads; when one of them fails, the others end, too.

    What they do around the encoder (tokenize, sort, embed, pool) is not shared among threads. With
    MiniLM on Zen 4 it goes at 0.45 M tokens a second, and the encoder in int8 at about 0.01 M a
    core; so by Amdahl's law 8 threads are at work 85% of the time, 32 threads 60%, 64 threads 40%.
    """
    others = set(active_children())
    # weights are packed for the threads that there are, so the copy is unpacked when their number
    # is set
    how = (max(1, run.embedder.threads // processes), pickle.dumps(run))
    with ProcessPoolExecutor(processes, get_context("spawn"), _start_process, how) as pool:
        waiting: deque[tuple[int, Future[tuple[CorpusReport, list[str]]]]] = deque()
        try:
            for shard in chain(shards, [None] * processes):
                if shard is not None:
                    waiting.append((len(shard[1]), pool.submit(_write_shard, *shard)))
                if waiting and (shard is None or len(waiting) > processes):
                    texts, future = waiting.popleft()
                    report, told = future.result()
                    for sentence in told:
                        warnings.warn(sentence, stacklevel=3)
                    progress.add(texts, report.tokens)
                    yield report
        except BrokenProcessPool:  # which has ended the others
            advice = "the finished shards are complete: run the same again to go on."
            raise ChildProcessError(
                f"One of the {processes} processes has ended; {advice}"
            ) from None
        except BaseException:
            for child in set(active_children()) - others:
                child.terminate()
            raise


_run: _Run  # of a process that `_in_processes` has started


def _start_process(threads: int, run: bytes) -> None:
    global _run
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to all; the parent says when to end
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = f"{threads}"  # read when the engine is imported, with the run
    _run = pickle.loads(run)


def _end_with_parent() -> None:
    """Ends this process when its parent is killed, since nobody else would."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _write_shard(number: int, texts: list[str]) -> tuple[CorpusReport, list[str]]:
    """The report of a shard, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return _run.write_shard(number, texts), [str(warning.message) for warning in told]


def _finish(folder: Location, shards: int, lines: int, about: dict[str, Any]) -> None:
    """Writes the totals if this run, or this process among several, was the last to finish its shards."""
    file_format = about["file_format"]
    names = [f"shard-{number:06d}" for number in range(shards)]
    expected = {f"{name}.{ending}" for name in names for ending in (file_format, "json")}
    pattern = rf"shard-\d+\.({file_format}|json)"
    if any(re.fullmatch(pattern, name) for name in folder.files().keys() - expected):
        raise ValueError(
            f"{folder} holds more than the {shards} shards of this input: the input has changed."
        )
    records = [read_record(metadata(folder, f"{name}.json", file_format)) for name in names]
    counts = [record for record in records if record]
    if len(counts) < shards:
        return
    totals = {name: sum(c[name] for c in counts) for name in ("lines", "tokens", "overlong")}
    if totals["lines"] != lines:
        raise ValueError(
            f"{folder} holds {totals['lines']} lines, but the input has {lines}: the input has changed."
        )
    metadata(folder, "index.json", file_format).write_json({"shards": shards, **about, **totals})


encode_file = encode_to_file
"""The former name of `encode_to_file`, for one release."""


encode_corpus = encode_to_shards
"""The former name of `encode_to_shards`, for one release."""
