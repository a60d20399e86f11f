"""Chroma: `client.create_collection(name, embedding_function=Embeddings(embedder))`.

Without an embedding function, Chroma downloads a model of its own.
"""

from __future__ import annotations

from typing import Any

from chromadb import EmbeddingFunction

from minibert import SentenceEmbedder


class Embeddings(EmbeddingFunction):  # type: ignore[type-arg]
    """Encodes documents and queries."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    def __call__(self, input: Any) -> Any:
        """Returns vectors of documents."""
        return list(self.embedder.encode_document(list(input)))

    def embed_query(self, input: Any) -> Any:
        """Returns vectors of queries."""
        return list(self.embedder.encode_query(list(input)))

    @staticmethod
    def name() -> str:
        """Returns the name that Chroma stores with a collection."""
        return "minibert"

    def get_config(self) -> dict[str, Any]:
        """Returns no configuration, so `get_collection` needs the embedding function again."""
        return {}
