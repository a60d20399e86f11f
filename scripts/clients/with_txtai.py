"""txtai: an index whose vectors come from an embedder. Without one, txtai downloads a model of its own."""

from __future__ import annotations

from typing import Any

from minibert import SentenceEmbedder


def index(embedder: SentenceEmbedder, **options: Any) -> Any:
    """An empty `txtai.Embeddings`, with options of its own, such as `content=True`."""
    from txtai import Embeddings

    def transform(texts: Any) -> Any:  # txtai would call a method to get the function from it
        return embedder.encode(texts)

    return Embeddings({"method": "external", "transform": transform, **options})
