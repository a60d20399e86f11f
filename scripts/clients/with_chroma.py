"""Chroma: `client.create_collection(name, embedding_function=Embeddings(embedder))`.

A collection that is made without an embedding function takes a model of Chroma's own, and downloads it.
"""

from __future__ import annotations

from typing import Any

from chromadb import EmbeddingFunction

from minibert import SentenceEmbedder


class Embeddings(EmbeddingFunction):  # type: ignore[type-arg]
    """Documents and queries to vectors."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    def __call__(self, input: Any) -> Any:
        """Vectors of documents."""
        return list(self.embedder.encode_document(list(input)))

    def embed_query(self, input: Any) -> Any:
        """Vectors of queries."""
        return list(self.embedder.encode_query(list(input)))

    @staticmethod
    def name() -> str:
        """What Chroma writes into its files."""
        return "minibert"

    def get_config(self) -> dict[str, Any]:
        """Nothing: pass the embedding function to `get_collection`, too."""
        return {}
