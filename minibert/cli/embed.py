"""`minibert embed`: vectors of texts, on stdout, in a file or in shards.

    minibert embed --file texts.txt --out-dir vectors                                          # all cores, one process
    OMP_NUM_THREADS=8 torchrun --nproc-per-node 4 -m minibert embed --file texts.txt --out-dir vectors      # 32 cores

What one interpreter does around the encoder (tokenize, sort, embed, pool) is not shared among threads. With MiniLM on
Zen 4 it goes at 0.45 M tokens a second, and the encoder in int8 at about 0.01 M a core; so by Amdahl's law 8 threads
are at work 85% of the time, 32 threads 60%, 64 threads 40%. Hence processes, which share the corpus out by shards.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from minibert.cli.common import (
    UsageError,
    add_command,
    add_embedder_options,
    add_text_options,
    count_texts,
    load_embedder,
    print_json,
    texts_of,
    warn_of_coverage,
)
from minibert.cli.terminal import MAX_SHOWN, describe_vectors

if TYPE_CHECKING:
    from minibert.sentences.embedder import SentenceEmbedder


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
    if world_size > 1 and not (options.out_dir and options.file and "-" not in options.file):
        raise UsageError("under torchrun give --file and --out-dir: each process writes shards of its own.")
    embedder = load_embedder(options, options.normalize)
    from minibert.inference.progress import Progress, is_watched
    from minibert.sentences.corpus import encode_corpus, encode_file
    from minibert.sentences.vectors import json_line, numbers

    settings = {name: getattr(options, name) for name in ("prompt", "prompt_name", "overflow", "batch_tokens")}
    settings = {name: value for name, value in settings.items() if value is not None}
    writes = bool(options.out or options.out_dir)
    watched = rank == 0 and is_watched(printing=not writes)
    progress: dict[str, Any] = {"show_progress": watched, "total": count_texts(options) if watched else None}
    if options.out_dir:
        report = encode_corpus(
            embedder,
            texts,
            options.out_dir,
            file_format=options.format,
            shard_size=options.shard_size,
            rank=rank,
            world_size=world_size,
            **progress,
            **settings,
        )
    elif options.out:
        report = encode_file(embedder, texts, options.out, **progress, **settings)
    elif sys.stdout is not None and sys.stdout.isatty() and not options.json:
        return show(embedder, texts, settings)
    else:
        with Progress(watched, progress["total"]) as bar:
            for window, vectors in embedder.encode_stream(texts, progress=bar, **settings):
                for text, vector in zip(window, vectors, strict=True):
                    print(json_line(text, vector) if options.json else " ".join(numbers(vector)))
        return
    if options.json:
        return print_json({"path": options.out or options.out_dir, "dimension": embedder.dimension, **vars(report)})
    skipped = f", {report.skipped} finished shards skipped" if report.skipped else ""
    print(f"{report.lines} texts, {report.tokens} tokens written to {options.out or options.out_dir}{skipped}")
    if report.overlong:
        cut = "were cut there (--overflow mean takes all of them in)"
        done = cut if options.overflow == "truncate" else "were averaged over windows"
        print(f"{report.overlong} texts have more than {embedder.max_length} tokens and {done}")


def show(embedder: SentenceEmbedder, texts: Iterable[str], settings: dict[str, Any]) -> None:
    """Describes the vectors of the first texts to the person at the terminal, and counts all of them."""
    texts = iter(texts)
    first = list(islice(texts, MAX_SHOWN))
    if not first:
        raise UsageError("no text given.")
    warn_of_coverage(embedder.tokenizer, first)
    vectors = embedder.encode(first, **settings)
    print(describe_vectors(first, vectors, len(first) + sum(1 for _ in texts)))
