"""Haystack: `DocumentEmbedder(embedder)` where documents are indexed, `TextEmbedder(embedder)` where one is sought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from haystack import Document, component

from minibert import SentenceEmbedder


@component
class TextEmbedder:
    """A query to its vector."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """The vector of a query."""
        return {"embedding": self.embedder.embed_query(text)}


@component
class DocumentEmbedder:
    """Documents to documents with vectors."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """The same documents with vectors."""
        vectors = self.embedder.embed_documents([document.content or "" for document in documents])
        return {
            "documents": [
                replace(one, embedding=own) for one, own in zip(documents, vectors, strict=True)
            ]
        }
