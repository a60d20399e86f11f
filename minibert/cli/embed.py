"""`minibert embed`: vectors of texts, on stdout, in a file or in shards.

What one interpreter does around the encoder (tokenize, sort, embed, pool) is not shared among threads. With MiniLM on
Zen 4 it goes at 0.45 M tokens a second, and the encoder in int8 at about 0.01 M a core; so by Amdahl's law 8 threads
are at work 85% of the time, 32 threads 60%, 64 threads 40%. Hence processes, which share the corpus out by shards: one
for every 8 threads, or as `--processes` says, or those of torchrun, which may be on several machines.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterable
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple

from minibert.cli.common import (
    EXPECTED_ERRORS,
    UsageError,
    add_command,
    add_embedder_options,
    add_text_options,
    count_texts,
    load_embedder,
    print_json,
    show_warning,
    texts_of,
    warn_of_coverage,
)
from minibert.cli.terminal import MAX_SHOWN, describe_vectors

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

    from minibert.corpus.shards import CorpusReport
    from minibert.sentences.embedder import SentenceEmbedder

THREADS_PER_PROCESS = 8


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(commands, "embed", run, "Turn texts into vectors, on stdout or in files.")
    add_text_options(parser)
    add_embedder_options(parser)
    parser.add_argument("--normalize", action=argparse.BooleanOptionalAction, help="vectors of length 1")
    parser.add_argument("--batch-tokens", type=int, help="tokens that go through the model together (default: 4096)")
    parser.add_argument("--prompt", help="put before every text")
    parser.add_argument("--prompt-name", help="a prompt that the model brings, such as query")
    parser.add_argument(
        "--overflow", default="truncate", choices=["truncate", "mean"], help="what to do with long texts"
    )
    parser.add_argument(
        "--column", default="text", help="of the texts in --file, if that is .jsonl, .csv, .tsv, .parquet"
    )
    parser.add_argument("--id-column", metavar="COLUMN", help="kept beside the vectors in .jsonl and .parquet")
    parser.add_argument("-o", "--out", metavar="FILE", help="write .npy, .safetensors, .jsonl or .parquet, atomically")
    parser.add_argument("--out-dir", metavar="FOLDER", help="write shards; run again to go on after a stop")
    formats = ["npy", "safetensors", "jsonl", "parquet"]
    parser.add_argument("--format", default="npy", choices=formats, help="of the shards (default: %(default)s)")
    parser.add_argument("--shard-size", type=int, default=16384, help="texts in a shard (default: %(default)s)")
    processes = f"that share the shards out (default: one for every {THREADS_PER_PROCESS} threads)"
    parser.add_argument("--processes", type=int, metavar="N", help=processes)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    texts = texts_of(options)
    # torchrun tells each of its processes its number and how many there are
    try:
        rank, world_size = int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
    except ValueError:
        raise UsageError("RANK and WORLD_SIZE should be whole numbers, as torchrun sets them.") from None
    if options.out and options.out_dir:
        raise UsageError("give --out or --out-dir, not both.")
    if options.id_column and not (options.out or f".{options.format}").endswith((".jsonl", ".parquet")):
        raise UsageError("--id-column needs .jsonl or .parquet to be kept in; others hold the vectors alone, in order.")
    divisible = options.out_dir and options.file and "-" not in options.file
    if world_size > 1 and not divisible:
        raise UsageError("under torchrun give --file and --out-dir: each process writes shards of its own.")
    if options.processes is not None and not (options.processes > 0 and divisible and world_size == 1):
        raise UsageError("--processes takes a number from 1 on, with --file and --out-dir and without torchrun.")
    if options.out_dir:
        processes = options.processes or (useful_processes(options) if divisible and world_size == 1 else 1)
        written = write_in_processes(options, processes) if processes > 1 else write_shards(options, rank, world_size)
        return report(options, written)
    embedder, settings = load_embedder(options, options.normalize), _settings(options)
    from minibert.corpus.formats import json_line, numbers
    from minibert.corpus.shards import encode_file
    from minibert.progress import Progress

    if options.out:
        done = encode_file(embedder, texts, options.out, **_progress(options), **settings)
        report(options, Written(done, embedder.dimension, embedder.max_length))
    elif sys.stdout is not None and sys.stdout.isatty() and not options.json:
        show(embedder, texts, settings)
    else:
        progress = _progress(options, printing=True)
        with Progress(progress["show_progress"], progress["total"]) as bar:
            for window, vectors in embedder.encode_stream(texts, progress=bar, **settings):
                for text, vector in zip(window, vectors, strict=True):
                    print(json_line(text, vector) if options.json else " ".join(numbers(vector)))


class Written(NamedTuple):
    """What was written to files, and of which model."""

    done: CorpusReport
    dimension: int
    max_length: int


def write_shards(options: argparse.Namespace, rank: int, world_size: int) -> Written:
    """Writes every `world_size`-th shard."""
    with warnings.catch_warnings():
        if rank > 0:  # the first process says for all what is to be said of the model
            warnings.simplefilter("ignore")
        embedder = load_embedder(options, options.normalize)
    from minibert.corpus.shards import encode_corpus

    done = encode_corpus(
        embedder,
        texts_of(options),
        options.out_dir,
        file_format=options.format,
        shard_size=options.shard_size,
        rank=rank,
        world_size=world_size,
        **(_progress(options) if rank == 0 else {}),
        **_settings(options),
    )
    return Written(done, embedder.dimension, embedder.max_length)


def write_in_processes(options: argparse.Namespace, processes: int) -> Written:
    """Writes all shards by processes that share the threads; when one of them fails the others end, too.

    Raises:
        ChildProcessError: one has ended before its time. What another one raised is raised here as it is.
    """
    from torch.multiprocessing.spawn import ProcessException, start_processes

    logging.getLogger(start_processes.__module__).setLevel(logging.ERROR)  # it would report each process that it ends
    results: SimpleQueue[Any] = get_context("spawn").SimpleQueue()
    arguments = (options, processes, results)
    context = start_processes(_one_of_several, arguments, processes, join=False, daemon=True)  # type: ignore[no-untyped-call]
    try:
        while not context.join():
            pass
    except ProcessException as error:
        while not results.empty():
            if isinstance(result := results.get(), Exception):
                raise result from None
        advice = "the finished shards are complete: run the same again to go on."
        raise ChildProcessError(f"One of the {processes} processes has ended ({error}); {advice}") from None
    parts: list[Written] = [results.get() for _ in range(processes)]
    total = type(parts[0].done)(*map(sum, zip(*(vars(part.done).values() for part in parts), strict=True)))
    return parts[0]._replace(done=total)


def _one_of_several(rank: int, options: argparse.Namespace, processes: int, results: SimpleQueue[Any]) -> None:
    import torch

    # it comes when the parent has died, too, and what a shell runs in the background ignores it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))
    warnings.showwarning = show_warning
    try:
        results.put(write_shards(options, rank, processes))
    except EXPECTED_ERRORS as error:
        results.put(error)
        sys.exit(1)


def useful_processes(options: argparse.Namespace) -> int:
    """One for every so many threads, but none that would find no shard to write."""
    import torch

    processes = max(1, torch.get_num_threads() // THREADS_PER_PROCESS)
    shard_size = max(1, options.shard_size)
    texts = count_texts(options, at_most=processes * shard_size) if processes > 1 else None
    return processes if texts is None else max(1, -(-texts // shard_size))


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """How texts are encoded, as far as the options say."""
    settings = {name: getattr(options, name) for name in ("prompt", "prompt_name", "overflow", "batch_tokens")}
    return {name: value for name, value in settings.items() if value is not None}


def _progress(options: argparse.Namespace, printing: bool = False) -> dict[str, Any]:
    """Whether a bar is shown, and to how many texts it goes."""
    from minibert.progress import is_watched

    watched = is_watched(printing=printing)
    return {"show_progress": watched, "total": count_texts(options) if watched else None}


def report(options: argparse.Namespace, written: Written) -> None:
    """Says what was written."""
    done, target = written.done, options.out or options.out_dir
    if options.json:
        return print_json({"path": target, "dimension": written.dimension, **vars(done)})
    skipped = f", {done.skipped} finished shards skipped" if done.skipped else ""
    print(f"{done.lines} texts, {done.tokens} tokens written to {target}{skipped}")
    if done.overlong:
        cut = "were cut there (--overflow mean takes all of them in)"
        what = cut if options.overflow == "truncate" else "were averaged over windows"
        print(f"{done.overlong} texts have more than {written.max_length} tokens and {what}")


def show(embedder: SentenceEmbedder, texts: Iterable[str], settings: dict[str, Any]) -> None:
    """Describes the vectors of the first texts to the person at the terminal, and counts all of them."""
    texts = iter(texts)
    first = list(islice(texts, MAX_SHOWN))
    if not first:
        raise UsageError("no text given.")
    warn_of_coverage(embedder.tokenizer, first)
    vectors = embedder.encode(first, **settings)
    print(describe_vectors(first, vectors, len(first) + sum(1 for _ in texts)))
