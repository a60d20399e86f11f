"""`minibert embed`: vectors of texts, on stdout, in a file or in shards."""

from __future__ import annotations

import argparse
import os
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from minibert.cli.common import (
    UsageError,
    add_embedder_options,
    add_text_options,
    count_texts,
    load_embedder,
    report,
    texts_of,
)
from minibert.inference.batching import BATCH_TOKENS

if TYPE_CHECKING:
    from minibert.corpus.shards import CorpusReport
    from minibert.sentences.encode import TextEncoder
    from minibert.sentences.rows import Vectors

THREADS_PER_PROCESS = 8
MAX_SHOWN = 8  # texts in the table at a terminal, which has as many columns
_WIDTH = 32  # columns for a text


def add(parser: argparse.ArgumentParser) -> None:
    add_text_options(parser)
    add_embedder_options(parser)
    parser.add_argument(
        "--normalize", action=argparse.BooleanOptionalAction, help="vectors of length 1"
    )
    parser.add_argument(
        "--batch-tokens", type=int, default=BATCH_TOKENS, help="that go through the model together"
    )
    parser.add_argument("--prompt", help="put before every text")
    parser.add_argument("--prompt-name", help="a prompt that the model brings, such as query")
    parser.add_argument(
        "--overflow",
        default="truncate",
        choices=["truncate", "mean"],
        help="of texts too long to fit",
    )
    parser.add_argument(
        "--column",
        help="column of the texts in a --file of .jsonl, .csv, .tsv or .parquet (default: text)",
    )
    parser.add_argument(
        "--id-column", metavar="COLUMN", help="kept beside the vectors in .jsonl and .parquet"
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="write .npy, .safetensors, .jsonl or .parquet, atomically",
    )
    parser.add_argument(
        "--out-dir", metavar="FOLDER", help="write shards; run again to go on after a stop"
    )
    formats = ["npy", "safetensors", "jsonl", "parquet"]
    parser.add_argument("--format", default="npy", choices=formats, help="of the shards")
    parser.add_argument("--shard-size", type=int, default=16384, help="texts in a shard")
    processes = f"that share the shards out (default: one for every {THREADS_PER_PROCESS} threads)"
    parser.add_argument("--processes", type=int, metavar="N", help=processes)


def run(options: argparse.Namespace) -> None:
    texts = texts_of(options)
    # torchrun tells each of its processes its number and how many there are
    try:
        rank, world_size = int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
    except ValueError:
        raise UsageError(
            "RANK and WORLD_SIZE should be whole numbers, as torchrun sets them."
        ) from None
    if options.out and options.out_dir:
        raise UsageError("give --out or --out-dir, not both.")
    if options.id_column and not (options.out or f".{options.format}").endswith(
        (".jsonl", ".parquet")
    ):
        raise UsageError(
            "--id-column needs .jsonl or .parquet to be kept in; others hold the vectors alone, in order."
        )
    if world_size > 1 and not (options.out_dir and options.file and "-" not in options.file):
        raise UsageError(
            "under torchrun give --file and --out-dir: each process writes shards of its own."
        )
    if options.processes is not None and not (
        options.processes > 0 and options.out_dir and world_size == 1
    ):
        raise UsageError(
            "--processes takes a number from 1 on, with --out-dir and without torchrun."
        )
    with warnings.catch_warnings():
        if rank > 0:  # the first process says for all what is to be said of the model
            warnings.simplefilter("ignore")
        embedder = load_embedder(options, options.normalize)
    settings = {
        name: getattr(options, name)
        for name in ("prompt", "prompt_name", "overflow", "batch_tokens")
    }
    from minibert.corpus.formats import json_line, numbers
    from minibert.corpus.shards import encode_to_file, encode_to_shards
    from minibert.progress import Progress, is_watched

    watched = rank == 0 and is_watched(
        printing=not (options.out or options.out_dir)
    )  # None: by lines in a log
    bar: dict[str, Any] = {
        "show_progress": watched,
        "total": count_texts(options) if watched else None,
    }
    if options.out_dir:
        done = encode_to_shards(
            embedder,
            texts,
            options.out_dir,
            file_format=options.format,
            shard_size=options.shard_size,
            processes=options.processes or (useful_processes(options) if world_size == 1 else 1),
            rank=rank,
            world_size=world_size,
            **bar,
            **settings,
        )
        say(options, done, embedder)
    elif options.out:
        try:
            say(options, encode_to_file(embedder, texts, options.out, **bar, **settings), embedder)
        except KeyboardInterrupt:
            advice = "--out-dir FOLDER writes shards, and goes on where it was stopped"
            raise KeyboardInterrupt(
                f"stopped; nothing was written to {options.out} ({advice})."
            ) from None
    elif sys.stdout is not None and sys.stdout.isatty() and not options.json:
        show(embedder, texts, settings)
    else:
        with Progress(watched, bar["total"]) as progress:
            for window, vectors in embedder.encode_stream(texts, progress=progress, **settings):
                for text, vector in zip(window, vectors, strict=True):
                    print(json_line(text, vector) if options.json else " ".join(numbers(vector)))


def useful_processes(options: argparse.Namespace) -> int:
    """One process for every `THREADS_PER_PROCESS` threads, but not more than there will be shards."""
    if options.backend == "onnx":  # ONNX Runtime has its own threads; --processes says it otherwise
        return 1
    import torch

    processes = max(1, torch.get_num_threads() // THREADS_PER_PROCESS)
    shard_size = max(1, options.shard_size)
    texts = count_texts(options, at_most=processes * shard_size) if processes > 1 else None
    return processes if texts is None else min(processes, -(-texts // shard_size) or 1)


def say(options: argparse.Namespace, done: CorpusReport, embedder: TextEncoder) -> None:
    """Says what was written."""
    target = options.out or options.out_dir
    sentence = f"{done.lines} texts, {done.tokens} tokens written to {target}"
    sentence += f", {done.skipped} finished shards skipped" if done.skipped else ""
    if done.overlong:
        cut = "were cut there (--overflow mean takes all of them in)"
        what = cut if options.overflow == "truncate" else "were averaged over windows"
        sentence += (
            f"\n{done.overlong} texts have more than {embedder.max_length} tokens and {what}"
        )
    report(options, {"path": target, "dimension": embedder.dimension, **vars(done)}, sentence)


def show(embedder: TextEncoder, texts: Iterable[str], settings: dict[str, Any]) -> None:
    """Describes the vectors of the first texts to the person at the terminal, and counts all of them."""
    texts = iter(texts)
    first = list(islice(texts, MAX_SHOWN))
    from minibert.tokenization.coverage import warn_of_coverage

    warn_of_coverage(embedder.tokenizer, first)
    vectors = embedder.encode(first, **settings)
    print(describe_vectors(first, vectors, len(first) + sum(1 for _ in texts)))


def describe_vectors(texts: Sequence[str], vectors: Vectors, count: int) -> str:
    """Shape, the first numbers of each vector, and the table of cosines: what says at a glance whether it worked.

    Of `count` texts these are the first, at most `MAX_SHOWN`, and their vectors, (len(texts), D).
    """
    from minibert.sentences.search import similarity

    lines = [
        f"{count} x {vectors.shape[1]} numbers; --json, --out FILE or a pipe gives all of them",
        "",
    ]
    for number, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        first = "  ".join(f"{value:7.4f}" for value in vector[:4].tolist())
        lines.append(f"{number:>3}  {_fit(text)}  {first}  ...")
    if count > len(texts):
        lines.append(f"     and {count - len(texts)} more")
    if len(texts) > 1:
        lines += ["", "cosines" + "".join(f"{number:>8}" for number in range(len(texts)))]
        for number, row in enumerate(similarity(vectors, vectors).tolist()):
            lines.append(f"{number:>7}" + "".join(f"{value:>8.3f}" for value in row))
    return "\n".join(lines)


def _fit(text: str) -> str:
    """The text in exactly `_WIDTH` columns of a terminal, where Hangul and ideographs take two."""
    text = " ".join(text[:200].split())
    if _columns(text) > _WIDTH:
        while _columns(text) > _WIDTH - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (_WIDTH - _columns(text))


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
