r"""Embeds a corpus of any size on a Ray cluster, from files of texts to parquet files of vectors.

    pip install -c constraints.txt '.[ray]'
    python scripts/embed_ray.py s3://bucket/texts s3://bucket/vectors \
        --model sentence-transformers/all-MiniLM-L6-v2 --id-column id --workers 320

Source and target are URIs, or paths that all machines can reach. The formats are those of
`minibert embed --file`. The corpus is split into parts of some megabytes. Ray assigns each part to
a free CPU, which embeds it and writes one file atomically:

    vectors/
      _run.json                            settings of the run
      a.parquet-000000000000.parquet       id, text and vector of the rows from this one on
      _bad/a.parquet-000000000000.jsonl    rows without a text, with the reason

Each part is one task, so no task waits for another. If a machine is lost, its parts are computed on
another one. Start a stopped run again to resume it: it skips parts whose file exists and is newer
than the source. Each worker needs memory for a model and a few thousand texts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from minibert import SentenceEmbedder
from minibert.text import BadRow, Part, Row, Table, parts_of, read, read_part
from minibert.text.location import Location
from minibert.util.progress import Progress, is_watched
from minibert.vectors.shards import encode_to_file

# about ten thousand texts, which take minutes, so workers finish at about the same time
PART_BYTES = 2 * 2**20


def table_of(column: str | None, id_column: str | None) -> Table:
    """How the files are read. None: the column "text", and no ids."""
    return Table(column or "text", id=id_column)


def embed_part(
    name: str,
    part: Part,
    target: str,
    column: str | None,
    id_column: str | None,
    threads: int,
    encoding: dict[str, Any],
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Embeds one part, and writes its vectors and its rows without a text.

    An error in a part, such as a damaged file, is returned and does not stop the run. The model is
    loaded for every part, which takes a fraction of a second.

    Args:
        name: Name of the part, from which the names of its files are made.
        part: File and range of the rows.
        target: Folder for the vectors.
        column: Column of the texts in tables. None means "text".
        id_column: Column of the ids.
        threads: Number of threads.
        encoding: Arguments of `encode_to_file`.
        loading: Arguments of `SentenceEmbedder.from_pretrained`.

    Returns:
        The numbers of "texts", "tokens" and "bad" rows, and the "error" or "".
    """
    import torch

    torch.set_num_threads(threads)
    embedder = SentenceEmbedder.from_pretrained(**loading)
    place = Location(target)
    bad: list[BadRow] = []

    def rows() -> Iterator[Row]:
        yield from read_part(part, table_of(column, id_column), bad)
        if bad:  # written before the vectors, whose file marks the part as done
            lines = [json.dumps(row._asdict()) + "\n" for row in bad]
            with (place / f"_bad/{name}.jsonl").replacing() as temporary:
                temporary.write_text("".join(lines), encoding="utf-8")

    try:
        for folder in ("", "_bad"):
            (place / "/".join([folder, *name.split("/")[:-1]]).strip("/")).make_folder()
        file = str(place / f"{name}.parquet")
        report = encode_to_file(embedder, rows(), file, force=True, **encoding)
    except (ValueError, OSError) as error:
        return {"texts": 0, "tokens": 0, "bad": 0, "error": f"{part.file}: {error}"}
    return {"texts": report.lines, "tokens": report.tokens, "bad": len(bad), "error": ""}


def embed_parts(batch: dict[str, np.ndarray], **options: Any) -> dict[str, list[Any]]:
    """Embeds the parts of a batch, as Ray's `map_batches` calls it.

    Args:
        batch: Columns name, file, start and end. An end of -1 means the end of the file.
        options: Other arguments of `embed_part`.

    Returns:
        The results of `embed_part` as columns.
    """
    columns = [batch[column].tolist() for column in ("name", "file", "start", "end")]
    results = []
    for name, file, start, end in zip(*columns, strict=True):
        part = Part(file, start, None if end < 0 else end)
        results.append(embed_part(name, part, **options))
    keys = ("texts", "tokens", "bad", "error")
    return {key: [result[key] for result in results] for key in keys}


def plan(source: str, target: str, settings: dict[str, Any]) -> tuple[dict[str, Part], int]:
    """Compares the source with the target.

    Returns:
        The parts that are not done yet, by name, and the number of all parts.

    Raises:
        FileNotFoundError: The source does not exist.
        ValueError: The target has other files, or was started with other settings or another
            source.
    """
    table = table_of(settings["column"], settings["id_column"])
    parts = parts_of(source, table, settings["part_bytes"])
    if next(read(source, table, [], only=True), None) is None:
        next(read(source, table))  # raises an error that says why
    place = Location(target)
    run, there = place / "_run.json", place.files()
    try:
        before = run.read_json()
    except FileNotFoundError:
        if there:
            raise ValueError(
                f"{target} is not empty, and its files are not from this script. "
                "Choose another folder."
            ) from None
        place.make_folder()
        run.write_json(settings)
    else:
        for name, value in settings.items():
            if before.get(name) != value:
                raise ValueError(
                    f"{target} was started with {name} {before.get(name)!r}, not {value!r}."
                )
    done = {name.removesuffix(".parquet"): changed for name, (_, changed) in there.items()}
    if unknown := min(done.keys() - parts.keys(), default=None):
        raise ValueError(
            f"{target} contains {unknown}.parquet, but {source} has no such part: "
            "the source has changed."
        )
    written = {
        name or Location(source).path.rpartition("/")[2]: changed
        for name, (_, changed) in Location(source).files().items()
    }
    stale = {name for name, changed in done.items() if changed < written[name.rpartition("-")[0]]}
    todo = {name: part for name, part in parts.items() if name not in done or name in stale}
    return todo, len(parts)


def embed(
    source: str,
    target: str,
    *,
    column: str | None = None,
    id_column: str | None = None,
    workers: int | None = None,
    threads: int = 1,
    gpus: float = 0,
    part_bytes: int = PART_BYTES,
    prompt_name: str | None = None,
    overflow: str = "truncate",
    **options: Any,
) -> dict[str, Any]:
    """Embeds the parts of `source` that are not done yet.

    Args:
        source: File or folder, as a path or URI.
        target: Folder for the vectors: a new or empty one, or that of a run to resume.
        column: Column of the texts in tables. None means "text".
        id_column: Column of the ids, which are stored with the vectors.
        workers: Number of parts at a time. None uses all CPUs or GPUs of the cluster.
        threads: Number of CPUs of each worker.
        gpus: Number of GPUs of each worker. With 0.5, two workers share one.
        part_bytes: Size of the text of a part.
        prompt_name: As in `SentenceEmbedder.encode`.
        overflow: As in `SentenceEmbedder.encode`.
        options: `model`, and arguments of `SentenceEmbedder.from_pretrained`.

    Returns:
        The numbers of "texts", "tokens" and "bad" rows, and the "errors" of parts that failed.

    Raises:
        FileNotFoundError: The source does not exist.
        ValueError: This run cannot resume that of the target, or no machine is large enough for a
            worker.
        ray.exceptions.RayTaskError: The model cannot be loaded.
    """
    encoding = {"prompt_name": prompt_name, "overflow": overflow}
    about = {"source": source, "column": column, "id_column": id_column, "part_bytes": part_bytes}
    todo, count = plan(source, target, {**about, **encoding, **options})
    total: dict[str, Any] = {"texts": 0, "tokens": 0, "bad": 0, "errors": []}
    if not todo:
        return total
    import ray

    ray.init(ignore_reinit_error=True, log_to_driver=False)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for resource, needed in (("CPU", threads), ("GPU", gpus)):
        most = max(node.get(resource, 0) for node in nodes)
        if most < needed:
            raise ValueError(
                f"a worker needs {needed} {resource}, but no machine has more than {most:g}."
            )
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = [
        {
            "name": name,
            "file": part.file,
            "start": part.start,
            "end": -1 if part.end is None else part.end,
        }
        for name, part in todo.items()
    ]
    options = {**options, **({"device": "cuda"} if gpus else {}), "name": options["model"]}
    del options["model"]
    work = {"target": target, "column": column, "id_column": id_column, "threads": threads}
    # If a machine is lost, Ray repeats its parts, without a limit. An exception stops the run.
    results = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        embed_parts,
        fn_kwargs={**work, "encoding": encoding, "loading": options},
        batch_size=1,
        compute=ray.data.TaskPoolStrategy(size=workers),
        num_cpus=threads,
        num_gpus=gpus or None,
    )
    with Progress(is_watched(), count, "parts", count - len(todo)) as progress:
        for row in results.iter_rows():
            for name in ("texts", "tokens", "bad"):
                total[name] += row[name]
            if row["error"]:
                total["errors"].append(row["error"])
            counts = {
                "texts": total["texts"],
                "bad rows": total["bad"],
                "errors": len(total["errors"]),
            }
            progress.add(1, row["tokens"], **{name: f"{n:,}" for name, n in counts.items()})
    return total


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source",
        help="File or folder, as a path or URI, in a format that minibert help files lists.",
    )
    parser.add_argument(
        "target",
        help="Folder for the parquet files, as a path or URI. Run again to resume.",
    )
    parser.add_argument(
        "--model", required=True, help="Hub id, or folder that exists on every machine."
    )
    parser.add_argument("--column", help="Column of the texts in tables (default: text).")
    parser.add_argument("--id-column", help="Column of the ids, which are stored with the vectors.")
    parser.add_argument(
        "--workers",
        type=int,
        help="Number of parts at a time (default: as many as the cluster has resources for).",
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="CPUs of each worker (default: %(default)s)."
    )
    parser.add_argument(
        "--gpus", type=float, default=0, help="GPUs of each worker, such as 1 or 0.5 (default: 0)."
    )
    parser.add_argument(
        "--part-bytes",
        type=int,
        default=PART_BYTES,
        help="Size of the text of a part (default: %(default)s).",
    )
    parser.add_argument(
        "--precision",
        default="fp32",
        choices=["fp32", "bf16", "int8", "exact"],
        help="Precision of the model (default: %(default)s). exact leaves the model unchanged.",
    )
    parser.add_argument(
        "--max-length",
        type=int,
        help="Maximum number of tokens of a text (default: that of the model).",
    )
    parser.add_argument("--prompt-name", help="Name of a prompt of the model, such as passage.")
    parser.add_argument(
        "--overflow",
        default="truncate",
        choices=["truncate", "mean"],
        help="What happens to long texts (default: %(default)s). mean averages their windows.",
    )
    options = vars(parser.parse_args())
    # the fused and int8 operators run on CPUs only
    options["precision"] = (
        None if options["precision"] == "exact" or options["gpus"] else options["precision"]
    )
    try:
        done = embed(**options)
    except (ValueError, OSError, ImportError) as error:
        parser.exit(1, f"embed_ray: {error}\n")
    print(f"{done['texts']} texts, {done['tokens']} tokens written to {options['target']}")
    if done["bad"]:
        print(f"{done['bad']} rows have no text. They are in {options['target']}/_bad.")
    for error in done["errors"]:
        print(f"embed_ray: failed: {error}", file=sys.stderr)
    return 1 if done["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
