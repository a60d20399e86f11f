"""Embeds the texts of parquet or JSON lines files on a Ray cluster, and writes parquet.

    python scripts/embed_ray.py texts.jsonl vectors/ --model sentence-transformers/all-MiniLM-L6-v2 --actors 4

Every row keeps its columns and gets a `vector`. Each actor holds one embedder; when a node is lost, Ray starts its
actors elsewhere and repeats the batches that they had not given back, so no row is lost or doubled. Rows come in no
particular order: keep a column that names them. Needs `pip install 'minibert[ray]'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np


class EmbedBatch:
    """What an actor runs: made once, called with one batch of columns after the other."""

    def __init__(self, column: str, threads: int, encoding: dict[str, Any], **options: Any) -> None:
        import torch

        from minibert import SentenceEmbedder

        torch.set_num_threads(threads)
        self.column, self.encoding = column, encoding
        self.embedder = SentenceEmbedder.from_pretrained(options.pop("model"), **options)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The batch with a column of vectors."""
        return {**batch, "vector": self.embedder.encode(batch[self.column].tolist(), **self.encoding)}


def embed(
    source: str,
    target: str,
    column: str = "text",
    actors: int = 1,
    threads: int = 1,
    batch_size: int = 4096,
    prompt_name: str | None = None,
    overflow: str = "truncate",
    **options: Any,
) -> None:
    """Reads `source`, a file or a folder, embeds `column`, and writes parquet files into `target`.

    Args:
        source: .parquet, or JSON lines for anything else.
        target: folder to write into, on storage that all nodes see; new or empty.
        column: the texts.
        actors: embedders, spread over the cluster.
        threads: CPUs of each.
        batch_size: rows that an actor sorts and encodes together, and at most in a file.
        prompt_name: as in `SentenceEmbedder.chunk_options`.
        overflow: as there.
        options: `model`, and arguments of `SentenceEmbedder.from_pretrained`.

    Raises:
        ValueError: there is something in `target`.
        ray.exceptions.RayTaskError: an actor failed, for example at a row without a text.
    """
    if Path(target).is_dir() and any(Path(target).iterdir()):
        raise ValueError(f"{target} is not empty, and Ray would write beside what is there; give another folder.")
    import ray

    folder = Path(source).is_dir()
    is_parquet = any(Path(source).rglob("*.parquet")) if folder else ".parquet" in source
    read = ray.data.read_parquet if is_parquet else ray.data.read_json
    # Ray makes blocks by bytes, but texts are few bytes and much work: without this one actor could get all of them
    rows = read(source).repartition(target_num_rows_per_block=batch_size)
    rows = rows.map_batches(
        EmbedBatch,
        fn_constructor_kwargs={
            "column": column,
            "threads": threads,
            "encoding": {"prompt_name": prompt_name, "overflow": overflow},
            **options,
        },
        batch_size=batch_size,
        num_cpus=threads,
        compute=ray.data.ActorPoolStrategy(size=actors),
    )
    rows.write_parquet(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help=".parquet or .jsonl, a file or a folder of them")
    parser.add_argument("target", help="folder for the parquet files")
    parser.add_argument("--model", required=True, help="folder or Hub id, to be found on every node")
    parser.add_argument("--column", default="text", help="the column with the texts (default: %(default)s)")
    parser.add_argument("--actors", type=int, default=1, help="embedders (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="CPUs of each (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=4096, help="rows at a time (default: %(default)s)")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8"])
    parser.add_argument("--max-length", type=int, help="most tokens of a text (default: what the model says)")
    parser.add_argument("--prompt-name", help="a prompt that the model brings, such as passage")
    parser.add_argument(
        "--overflow", default="truncate", choices=["truncate", "mean"], help="what to do with long texts"
    )
    options = vars(parser.parse_args())
    try:
        import ray  # noqa: F401
    except ImportError:
        parser.exit(1, "embed_ray: needs Ray: pip install 'minibert[ray]'.\n")
    try:
        embed(**options)
    except ValueError as error:
        parser.exit(1, f"embed_ray: {error}\n")


if __name__ == "__main__":
    main()
