"""txtai: an index whose vectors come from an embedder.

Without an embedder, txtai downloads a model of its own.

txtai saves an index without its function. Load it into an empty index, whose function it keeps:
`empty = index(embedder)`, then `empty.load(path, config=empty.config)`.
"""

from __future__ import annotations

from typing import Any

from minibert import SentenceEmbedder


def index(embedder: SentenceEmbedder, **options: Any) -> Any:
    """Creates an empty `txtai.Embeddings`. `options` are those of txtai, such as `content=True`."""
    from txtai import Embeddings

    # a plain function: txtai would call a bound method to get the function from it
    def transform(texts: Any) -> Any:
        return embedder.encode(texts, prompt="")

    # txtai puts them before queries and before the texts of the index
    prompts = {"query": embedder.prompt_for("query"), "data": embedder.prompt_for("document")}
    return Embeddings(
        {"method": "external", "transform": transform, "instructions": prompts, **options}
    )
