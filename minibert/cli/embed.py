"""`minibert embed`: vectors of texts, on stdout, in a file or in shards."""

from __future__ import annotations

import argparse
import os
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice, tee
from typing import TYPE_CHECKING, Any

from minibert.cli.loading import embedder_of
from minibert.cli.options import (
    add_embedder,
    add_fields,
    add_model,
    add_options,
    add_results,
    add_texts,
    keywords_of,
    positive,
    refuse_options,
)
from minibert.cli.parser import Parser, command
from minibert.cli.results import (
    ResultPrinter,
    UsageError,
    claim_file,
    claim_folder,
    report,
)
from minibert.cli.texts import count_texts, rows_of
from minibert.encoders.encoder_options import VectorOptions
from minibert.text import Row
from minibert.text.formats import SHARD_FORMATS, VECTOR_FORMATS, Entry, vector_format
from minibert.text.formats.json_lines import digits_of, vector_line
from minibert.text.location import Location
from minibert.util.checks import amount
from minibert.util.progress import Progress, is_watched, place

if TYPE_CHECKING:
    from minibert.encoders.rows.token_rows import Vectors
    from minibert.encoders.text_encoder import TextEncoder
    from minibert.vectors.shards import CorpusReport

OF_SHARDS = ("format", "shard_size", "update", "processes")
ENCODING = ("batch_tokens", "prompt", "prompt_name", "overflow")
THREADS_PER_PROCESS = 8
MAX_SHOWN = 8  # texts in the table at a terminal, which has as many columns
_WIDTH = 32  # columns for a text


def add(parser: Parser) -> None:
    add_texts(parser, "Text to embed. Several may be given.", "id")
    add_model(parser)
    add_embedder(parser)
    parser.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        help="L2-normalize the vectors. Default: what the model's folder asks for.",
    )
    add_fields(parser, VectorOptions, *ENCODING)
    add_embed_output(parser)
    add_results(parser)


def add_embed_output(parser: Parser) -> None:
    """Where the vectors go, and how."""
    add_options(
        parser,
        "--output",
        type=str,  # a URI, too
        metavar="PATH",
        help=f"File to write ({', '.join(VECTOR_FORMATS)}), or folder for shards, which the same "
        "command resumes after a stop. Default: stdout.",
    )
    add_options(parser, "--force")
    parser.add_argument(
        "--format",
        choices=tuple(SHARD_FORMATS),
        help="Format of the shards. Default: that of the shards that are there, else npy, or "
        "parquet with --id-column.",
    )
    parser.add_argument(
        "--shard-size",
        type=positive,
        metavar="N",
        help="Number of texts per shard. Default: that of the shards that are there, else 16384.",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="Bring a folder of shards up to date with --file: compute new and changed texts, keep "
        "the vectors of the others, drop deleted ones.",
    )
    parser.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        help=f"Number of worker processes for shards. Default: one per {THREADS_PER_PROCESS} "
        "threads.",
    )


@command('"I love Korea" "Paris is in France"', add)
def embed(options: argparse.Namespace) -> None:
    """Turn texts into vectors, on stdout, in a file or in shards."""
    rows = rows_of(options, texts_alone=True)
    rank, world_size = place()
    folder = _folder_of(options)
    manifest: dict[str, Any] = {}
    if folder is not None:
        from minibert.vectors.folder import VectorFolder

        manifest = VectorFolder(Location(folder)).manifest
    if folder is not None and options.format is None:
        # that of the shards that an earlier run has written there, or one with room for ids
        options.format = "npy" if options.id_column is None else "parquet"
        if manifest.get("file_format") in SHARD_FORMATS:
            options.format = str(manifest["file_format"])
    _check(options, folder, world_size, resumes=bool(manifest))
    with warnings.catch_warnings():
        if rank > 0:  # the first process warns for all
            warnings.simplefilter("ignore")
        embedder = embedder_of(options)
    from minibert.vectors.shards import encode_to_file, encode_to_shards

    # None: by lines in a log
    watched = rank == 0 and is_watched(printing=options.output is None)
    total = count_texts(options) if watched else None
    if options.output is None:
        encoding = {name: getattr(options, name) for name in ENCODING}
        settings = embedder.with_prompt_for("document", encoding)
        if sys.stdout.isatty() and not options.json and not options.jsonl:
            show_vectors(embedder, (row.text for row in rows), settings)
            return
        with Progress(watched, total) as progress:
            print_vectors(options, embedder, rows, settings, progress)
        return
    progress_options: dict[str, Any] = {"show_progress": watched, "total": total}
    if folder is None:
        keywords = keywords_of(encode_to_file, options)
        done = encode_to_file(embedder, rows, options.output, **progress_options, **keywords)
    else:
        if options.processes is None:
            options.processes = 1 if world_size > 1 else useful_processes(options)
        done = encode_to_shards(
            embedder,
            rows,
            folder,
            file_format=options.format,
            rank=rank,
            world_size=world_size,
            **progress_options,
            **keywords_of(encode_to_shards, options),
        )
    say(options, done, embedder)


def print_vectors(
    options: argparse.Namespace,
    embedder: TextEncoder,
    rows: Iterable[Row],
    settings: dict[str, Any],
    progress: Progress,
) -> None:
    """Prints every vector, as soon as it has been computed."""
    rows, later = tee(rows)  # the vectors of a window come after all of its texts
    texts = (row.text for row in rows)
    with ResultPrinter(options) as out:
        for window, vectors in embedder.encode_stream(texts, progress=progress, **settings):
            for row, vector in zip(islice(later, len(window)), vectors, strict=True):
                if out.as_text:
                    print(" ".join(digits_of(vector)))
                else:
                    out.show_line(vector_line(Entry(row.text, row.id), vector))


def _folder_of(options: argparse.Namespace) -> str | None:
    """The folder for shards, or None where the output is a file or stdout.

    Raises:
        UsageError: The path ends as neither a file of vectors nor a folder does.
    """
    output = options.output
    if output is None:
        return None
    is_folder = output.endswith(("/", os.sep)) or os.path.isdir(output)
    ending = os.path.splitext(output)[1]
    if not is_folder and vector_format(Location(output)) is not None:
        return None
    if (ending or os.path.lexists(output)) and not is_folder:  # a device, for instance
        raise UsageError(
            f"{os.path.basename(output)!r} should end in {', '.join(VECTOR_FORMATS)} for a file, "
            "or in / for a folder of shards."
        )
    return str(output.rstrip("/") or output)


def _check(options: argparse.Namespace, folder: str | None, world_size: int, resumes: bool) -> None:
    """Check that the options go together and claim the output.

    Raises:
        UsageError: Options do not go together, or the output is something else's.
    """
    form = None
    if folder is not None:
        form = SHARD_FORMATS[options.format]
    elif options.output is not None:
        form = vector_format(Location(options.output))
    if options.id_column is not None and form is not None and not form.has_texts:
        endings = ", ".join(end for end, other in VECTOR_FORMATS.items() if other.has_texts)
        raise UsageError(
            f"--id-column needs {endings} (--format for shards), which have a place for ids. "
            "Others hold the vectors alone, in order."
        )
    has_files = options.file and "-" not in options.file
    if world_size > 1 and not (folder and has_files):
        raise UsageError(
            "under torchrun give --file and --output DIR/: each process writes shards of its own."
        )
    if folder is None:
        refuse_options(options, OF_SHARDS, "is for a folder of shards: give --output DIR/ with it.")
    if world_size > 1:
        refuse_options(options, ("update", "processes"), "is for a single process: drop torchrun.")
    if options.output is not None:
        refuse_options(options, ("jsonl",), "prints vectors, but --output writes them: drop one.")
        # a folder that an earlier run has begun is resumed, which compares model and settings
        if not resumes:
            if folder is None:
                claim_file(options.output, options.force)
            else:
                claim_folder(folder, options.force)


def useful_processes(options: argparse.Namespace) -> int:
    """Return one process per `THREADS_PER_PROCESS` threads, but not more than there are shards."""
    if options.backend == "onnx":  # ONNX Runtime has threads of its own; --processes overrides this
        return 1
    import torch

    from minibert.encoders.rows.token_rows import CHUNK_TEXTS

    processes: int = max(1, torch.get_num_threads() // THREADS_PER_PROCESS)
    if processes == 1:
        return 1
    shard_size = options.shard_size or CHUNK_TEXTS
    texts = count_texts(options, at_most=processes * shard_size)
    if texts is None:
        return processes
    shards: int = -(-texts // shard_size)
    return max(1, min(processes, shards))


def say(options: argparse.Namespace, done: CorpusReport, embedder: TextEncoder) -> None:
    """Says what was written."""
    texts, tokens = amount(done.lines, "text"), amount(done.tokens, "token")
    sentence = f"{texts}, {tokens} written to {options.output}"
    if done.kept:
        sentence += f", {done.kept:,} of the vectors kept from before"
    if done.skipped:
        sentence += f", {amount(done.skipped, 'finished shard')} skipped"
    if done.overlong:
        texts = amount(done.overlong, "text has", "texts have")
        treatment = "were averaged over windows"
        if options.overflow == "truncate":
            treatment = "were truncated (--overflow mean averages over windows instead)"
        if done.overlong == 1:
            treatment = treatment.replace("were", "was")
        sentence += f"\n{texts} more than {embedder.max_length} tokens and {treatment}"
    content = {"output": options.output, "dimension": embedder.dimension, **vars(done)}
    report(options, content, sentence)


def show_vectors(embedder: TextEncoder, texts: Iterable[str], settings: dict[str, Any]) -> None:
    """Describe the vectors of the first texts at the terminal, and count all texts."""
    texts = iter(texts)
    first = list(islice(texts, MAX_SHOWN))
    vectors = embedder.encode(first, **settings)
    print(describe_vectors(first, vectors, len(first) + sum(1 for _ in texts)))


def describe_vectors(texts: Sequence[str], vectors: Vectors, count: int) -> str:
    """Describe vectors by their shape, first dimensions and cosines.

    Args:
        texts: The first of `count` texts, at most `MAX_SHOWN`.
        vectors: Theirs, (len(texts), dimension).
        count: The number of all texts.
    """
    from minibert.encoders.arithmetic.search import similarity

    lines = [
        f"{count} x {vectors.shape[1]} values (--jsonl, --output FILE or a pipe gives all of them)",
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
