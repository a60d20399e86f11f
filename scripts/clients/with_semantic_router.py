"""semantic-router: `IndexedRouter(encoder=Encoder(embedder=embedder), routes=routes)`."""

from __future__ import annotations

import asyncio
from typing import Any

from semantic_router.encoders import DenseEncoder


class Encoder(DenseEncoder):
    """Encodes texts."""

    name: str = "minibert"
    embedder: Any

    def __call__(self, docs: list[Any]) -> list[list[float]]:
        """Returns vectors of texts."""
        vectors: list[list[float]] = self.embedder.embed_documents(docs)
        return vectors

    async def acall(self, docs: list[Any]) -> list[list[float]]:
        """Returns vectors of texts without blocking the event loop."""
        return await asyncio.to_thread(self, docs)
