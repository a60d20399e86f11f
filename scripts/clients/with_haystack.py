"""Haystack: `DocumentEmbedder(embedder)` for indexing and `TextEmbedder(embedder)` for queries.

A pipeline can be saved (`Pipeline.dumps`) if they are given the name of a model. Haystack loads it
where it may import their module: `Pipeline.loads(saved, allowed_modules=["with_haystack"])`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_to_dict

from minibert import SentenceEmbedder


def embedder_of(embedder: SentenceEmbedder | str) -> SentenceEmbedder:
    """Returns an embedder, which is loaded by its name."""
    if isinstance(embedder, str):
        return SentenceEmbedder.from_pretrained(embedder)
    return embedder


def to_dict(self: TextEmbedder | DocumentEmbedder) -> dict[str, Any]:
    """Returns what Haystack saves of a component: the name of its model.

    Raises:
        ValueError: It was given an embedder, whose options a name would lose.
    """
    if self.name is None:
        raise ValueError(
            f"a {type(self).__name__} of an embedder cannot be saved: give it the name of a model."
        )
    saved: dict[str, Any] = default_to_dict(self, embedder=self.name)
    return saved


@component
class TextEmbedder:
    """Encodes a query."""

    def __init__(self, embedder: SentenceEmbedder | str) -> None:
        self.name = embedder if isinstance(embedder, str) else None
        self.embedder = embedder_of(embedder)

    to_dict = to_dict

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """Returns the vector of a query."""
        return {"embedding": self.embedder.embed_query(text)}


@component
class DocumentEmbedder:
    """Adds vectors to documents."""

    def __init__(self, embedder: SentenceEmbedder | str) -> None:
        self.name = embedder if isinstance(embedder, str) else None
        self.embedder = embedder_of(embedder)

    to_dict = to_dict

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Returns copies of the documents with vectors."""
        vectors = self.embedder.embed_documents([document.content or "" for document in documents])
        pairs = zip(documents, vectors, strict=True)
        return {"documents": [replace(document, embedding=vector) for document, vector in pairs]}
