"""Haystack: `DocumentEmbedder(embedder)` for indexing and `TextEmbedder(embedder)` for queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from haystack import Document, component

from minibert import SentenceEmbedder


@component
class TextEmbedder:
    """Encodes a query."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Returns the vector of a query."""
        return {"embedding": self.embedder.embed_query(text)}


@component
class DocumentEmbedder:
    """Adds vectors to documents."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Returns copies of the documents with vectors."""
        vectors = self.embedder.embed_documents([document.content or "" for document in documents])
        pairs = zip(documents, vectors, strict=True)
        return {"documents": [replace(document, embedding=vector) for document, vector in pairs]}
