"""Embeds the texts of parquet or JSON lines files on a Ray cluster, and writes parquet.

    python scripts/embed_ray.py texts.jsonl vectors/ --model sentence-transformers/all-MiniLM-L6-v2 --actors 4

Every row keeps its columns and gets a `vector`. Each actor holds one embedder; when a node is lost, Ray starts its
actors elsewhere and repeats the batches that they had not given back, so no row is lost or doubled. Rows come in no
particular order: keep a column that names them. Needs `pip install 'minibert[ray]'`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np


class EmbedBatch:
    """What an actor runs: made once, called with one batch of columns after the other."""

    def __init__(self, column: str, threads: int, **options: Any) -> None:
        import torch

        from minibert import SentenceEmbedder

        torch.set_num_threads(threads)
        self.column = column
        self.embedder = SentenceEmbedder.from_pretrained(options.pop("model"), **options)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The batch with a column of vectors."""
        texts = [str(text) for text in batch[self.column]]
        return {**batch, "vector": self.embedder.encode(texts)}


def embed(
    source: str,
    target: str,
    column: str = "text",
    actors: int = 1,
    threads: int = 1,
    batch_size: int = 4096,
    **options: Any,
) -> None:
    """Reads `source`, a file or a folder, embeds `column`, and writes parquet files into `target`.

    Args:
        source: .parquet, or JSON lines for anything else.
        target: folder to write into, on storage that all nodes see.
        column: the texts.
        actors: embedders, spread over the cluster.
        threads: CPUs of each.
        batch_size: rows that an actor sorts and encodes together, and at most in a file.
        options: `model`, and arguments of `SentenceEmbedder.from_pretrained`.
    """
    import ray

    read = ray.data.read_parquet if ".parquet" in source else ray.data.read_json
    # Ray makes blocks by bytes, but texts are few bytes and much work: without this one actor could get all of them
    rows = read(source).repartition(target_num_rows_per_block=batch_size)
    rows = rows.map_batches(
        EmbedBatch,
        fn_constructor_kwargs={"column": column, "threads": threads, **options},
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
    options = vars(parser.parse_args())
    try:
        import ray  # noqa: F401
    except ImportError:
        parser.exit(1, "embed_ray: needs Ray: pip install 'minibert[ray]'.\n")
    embed(**options)


if __name__ == "__main__":
    main()
