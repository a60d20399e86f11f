"""LangChain: `Embeddings(embedder)` for stores and chains, `Reranker(cross_encoder)` to rerank."""

from __future__ import annotations

import langchain_core.cross_encoders
import langchain_core.embeddings

from minibert import CrossEncoder, SentenceEmbedder


class Embeddings(langchain_core.embeddings.Embeddings):
    """Encodes documents and queries."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns vectors of documents."""
        return self.embedder.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Returns the vector of a query."""
        return self.embedder.embed_query(text)


class Reranker(langchain_core.cross_encoders.BaseCrossEncoder):
    """Scores pairs of a query and a document."""

    def __init__(self, cross_encoder: CrossEncoder) -> None:
        self.cross_encoder = cross_encoder

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Returns a score for each pair, in order."""
        scores: list[float] = self.cross_encoder.predict(text_pairs).tolist()
        return scores
