"""LlamaIndex: `VectorStoreIndex.from_documents(documents, embed_model=Embedding(embedder))`.

Without an `embed_model`, LlamaIndex uses one of OpenAI's.
"""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.embeddings import BaseEmbedding
from pydantic import PrivateAttr

from minibert import SentenceEmbedder


class Embedding(BaseEmbedding):
    """Encodes texts and queries."""

    _embedder: Any = PrivateAttr()

    def __init__(self, embedder: SentenceEmbedder, **options: Any) -> None:
        super().__init__(model_name="minibert", **options)
        self._embedder = embedder

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.embed_documents(texts)
        return vectors

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._embedder.embed_query(query)
        return vector

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)
