"""Embeds a corpus of any size on a Ray cluster: files of texts in, parquet files of vectors out.

    python scripts/embed_ray.py s3://bucket/texts s3://bucket/vectors --model sentence-transformers/all-MiniLM-L6-v2 \
        --id-column id --workers 320

Source and target are paths that all machines see, or URIs; formats are those of `minibert embed --file`. The corpus is
cut into parts of some megabytes. Ray gives each to a free CPU, which reads it, embeds it as `minibert embed` does, and
writes one file, atomically:

    vectors/
      _run.json                            what made the files
      a.parquet-000000000000.parquet       id, text and vector (a list of fixed size) of the rows from this one on
      _bad/a.parquet-000000000000.jsonl    rows that have no text, with the reason

There are no actors and no tasks that only read, so nothing waits for anything. A part whose machine is lost is done
elsewhere. A run that was stopped is continued by starting it again: parts whose file is there, and newer than their
source, are left alone. Memory is that of a model and of some thousand texts for each worker.
Needs `pip install -c constraints.txt '.[ray]'`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from minibert import SentenceEmbedder
from minibert.corpus.inputs import BadRow, Part, Text, parts_of, read_part, read_texts
from minibert.corpus.location import Location
from minibert.corpus.shards import encode_to_file
from minibert.progress import Progress, is_watched

PART_BYTES = (
    2 * 2**20
)  # some ten thousand texts: minutes of work, so that few wait long for the last ones


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
    """Reads a part, writes the rows that have no text, then the vectors; how many there were of each.

    What is wrong with one part, a damaged file for instance, is returned as its "error" and ends no run. The model is
    loaded for every part: that takes a fraction of a second, and the part minutes.
    """
    import torch

    torch.set_num_threads(threads)
    embedder, place, bad = (
        SentenceEmbedder.from_pretrained(**loading),
        Location(target),
        list[BadRow](),
    )

    def texts() -> Iterator[Text]:
        yield from read_part(part, column, id_column, bad.append)
        if bad:  # before the vectors, which say that the part is done
            with (place / f"_bad/{name}.jsonl").replacing() as temporary:
                temporary.write_text(
                    "".join(json.dumps(row._asdict()) + "\n" for row in bad), encoding="utf-8"
                )

    try:
        for folder in ("", "_bad"):
            (place / "/".join([folder, *name.split("/")[:-1]]).strip("/")).make_folder()
        report = encode_to_file(embedder, texts(), str(place / f"{name}.parquet"), **encoding)
    except (ValueError, OSError) as error:
        return {"texts": 0, "tokens": 0, "bad": 0, "error": f"{part.file}: {error}"}
    return {"texts": report.lines, "tokens": report.tokens, "bad": len(bad), "error": ""}


def embed_parts(batch: dict[str, np.ndarray], **options: Any) -> dict[str, list[Any]]:
    """Columns name, file, start and end (-1: to the last row) to those of `embed_part`; what Ray maps."""
    rows = zip(
        *(batch[column].tolist() for column in ("name", "file", "start", "end")), strict=True
    )
    done = [embed_part(n, Part(f, s, None if e < 0 else e), **options) for n, f, s, e in rows]
    return {column: [row[column] for row in done] for column in ("texts", "tokens", "bad", "error")}


def plan(source: str, target: str, settings: dict[str, Any]) -> tuple[dict[str, Part], int]:
    """The parts that are still to be done, by name, and how many there are in all.

    Raises:
        FileNotFoundError: no source.
        ValueError: a target with other files in it, or one that was begun with other settings or another source.
    """
    column, id_column = settings["column"], settings["id_column"]
    parts = parts_of(source, column, settings["part_bytes"])
    if not any(
        True for _ in read_texts(source, column, id_column, lambda row: None)
    ):  # reads as far as the first text
        next(
            read_texts(source, column, id_column), None
        )  # which says what is wrong with the first row
    place = Location(target)
    run, there = place / "_run.json", place.files()
    try:
        before = run.read_json()
    except FileNotFoundError:
        if there:
            raise ValueError(
                f"{target} is not empty, and no run of this recipe made it; give another folder."
            ) from None
        place.make_folder()
        run.write_json(settings)
    else:
        for name, value in settings.items():
            if before.get(name) != value:
                raise ValueError(
                    f"{target} was begun with {name} {before.get(name)!r}, not {value!r}."
                )
    done = {name.removesuffix(".parquet"): changed for name, (_, changed) in there.items()}
    if unknown := min(done.keys() - parts.keys(), default=None):
        raise ValueError(
            f"{target} holds {unknown}.parquet, of which {source} has no part: the source has changed."
        )
    written = {
        name or Location(source).path.rpartition("/")[2]: t
        for name, (_, t) in Location(source).files().items()
    }
    stale = {name for name, changed in done.items() if changed < written[name.rpartition("-")[0]]}
    return {name: part for name, part in parts.items() if name not in done or name in stale}, len(
        parts
    )


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
    """Embeds what is still to be done of `source`.

    Args:
        source: file or folder, path or URI.
        target: folder for the vectors; new, empty, or that of a run to go on with.
        column: of the texts, in tables; None: "text".
        id_column: of the ids, kept beside the vectors.
        workers: parts that are done at a time; None: as many as the cluster has CPUs (or GPUs) for.
        threads: CPUs of each.
        gpus: GPUs of each; a share such as 0.5 lets two workers use the same one.
        part_bytes: text of a part.
        prompt_name: as in `SentenceEmbedder.encode`.
        overflow: as there.
        options: `model`, and arguments of `SentenceEmbedder.from_pretrained`.

    Returns:
        "texts", "tokens", "bad" rows, and the "errors" of parts that could not be done.

    Raises:
        FileNotFoundError: no source.
        ValueError: a target that this run cannot go on with, or workers that are larger than every machine.
        ray.exceptions.RayTaskError: the model cannot be loaded.
    """
    encoding = {"prompt_name": prompt_name, "overflow": overflow}
    about = {"source": source, "column": column, "id_column": id_column, "part_bytes": part_bytes}
    todo, count = plan(source, target, {**about, **encoding, **options})
    total: dict[str, Any] = {"texts": 0, "tokens": 0, "bad": 0, "errors": []}
    if not todo:
        return total
    import ray

    ray.init(ignore_reinit_error=True, log_to_driver=False)
    for resource, wanted in (("CPU", threads), ("GPU", gpus)):
        if (
            most := max(node["Resources"].get(resource, 0) for node in ray.nodes() if node["Alive"])
        ) < wanted:
            raise ValueError(
                f"a worker needs {wanted} {resource}, but no machine has more than {most:g}."
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
    # Ray does a part again whose machine is lost, as often as that happens; an exception ends the run
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
            told = {
                "texts": total["texts"],
                "bad rows": total["bad"],
                "errors": len(total["errors"]),
            }
            progress.add(1, row["tokens"], **{name: f"{number:,}" for name, number in told.items()})
    return total


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source", help="file or folder, path or URI: .parquet, .jsonl, .csv, .tsv, or lines of text"
    )
    parser.add_argument(
        "target", help="folder for the parquet files, path or URI; run again to go on after a stop"
    )
    parser.add_argument(
        "--model", required=True, help="folder or Hub id, to be found on every machine"
    )
    parser.add_argument("--column", help="column of the texts in tables (default: text)")
    parser.add_argument("--id-column", help="of the ids, kept beside the vectors")
    parser.add_argument(
        "--workers",
        "--actors",
        type=int,
        help="parts at a time (default: what the cluster has room for)",
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="CPUs of each (default: %(default)s)"
    )
    parser.add_argument(
        "--gpus", type=float, default=0, help="GPUs of each, or a share of one (default: none)"
    )
    parser.add_argument(
        "--part-bytes", type=int, default=PART_BYTES, help="text of a part (default: %(default)s)"
    )
    parser.add_argument(
        "--precision",
        default="fp32",
        choices=["fp32", "bf16", "int8", "exact"],
        help="exact: the model unchanged",
    )
    parser.add_argument(
        "--max-length", type=int, help="most tokens of a text (default: what the model says)"
    )
    parser.add_argument("--prompt-name", help="a prompt that the model brings, such as passage")
    parser.add_argument(
        "--overflow",
        default="truncate",
        choices=["truncate", "mean"],
        help="what to do with long texts",
    )
    options = vars(parser.parse_args())
    # fused and int8 operators are the CPU's
    options["precision"] = (
        None if options["precision"] == "exact" or options["gpus"] else options["precision"]
    )
    try:
        done = embed(**options)
    except (ValueError, OSError, ImportError) as error:
        parser.exit(1, f"embed_ray: {error}\n")
    print(f"{done['texts']} texts, {done['tokens']} tokens written to {options['target']}")
    if done["bad"]:
        print(f"{done['bad']} rows have no text; they are in {options['target']}/_bad")
    for error in done["errors"]:
        print(f"embed_ray: not done: {error}", file=sys.stderr)
    return 1 if done["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
