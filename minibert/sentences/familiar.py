"""The names under which other libraries' users look for what SentenceEmbedder does, all in one place.

Each is a line or two around a method of ours: sentence-transformers' names, and the duck types of LangChain.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from minibert.sentences.encode import TextEncoder
from minibert.sentences.search import pairwise_similarity, similarity

if TYPE_CHECKING:
    from torch import Tensor

    from minibert.tokenization.encoding import BatchEncoding


class FamiliarNames(TextEncoder):
    """The names by which code that was written for other libraries calls a `SentenceEmbedder`."""

    similarity_fn_name: str = "cosine"
    # evaluators tell it their results; it keeps none
    model_card_data = SimpleNamespace(base_model=None, set_evaluation_metrics=lambda *_, **__: None)

    @property
    def max_seq_length(self) -> int:
        """`max_length`."""
        return self.max_length

    @max_seq_length.setter
    def max_seq_length(self, length: int) -> None:
        self.max_length = length

    def get_max_seq_length(self) -> int:
        """`max_length`."""
        return self.max_length

    def get_embedding_dimension(self) -> int:
        """`dimension`."""
        return self.dimension

    get_sentence_embedding_dimension = get_embedding_dimension  # before version 5

    def set_pooling_include_prompt(self, include_prompt: bool) -> None:
        """Sets `include_prompt`."""
        self.include_prompt = include_prompt

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, task: str | None = None
    ) -> BatchEncoding:
        """Padded rows of texts or pairs, as PyTorch tensors (batch, seq): what `forward` takes by name; as `encode`."""
        rows = [(own, None) if isinstance(own, str) else own for own in inputs]
        first, second = [(prompt or "") + row[0] for row in rows], [row[1] for row in rows]
        options: dict[str, Any] = {
            "truncation": True,
            "max_length": self.max_length,
            "return_tensors": "pt",
        }
        return self.tokenizer(first, None if None in second else second, padding=True, **options)

    def tokenize(self, texts: Sequence[Any]) -> BatchEncoding:
        """`preprocess` without a prompt."""
        return self.preprocess(texts)

    def save(self, path: str | os.PathLike[str], *_: Any, **__: Any) -> None:
        """`save_pretrained`; names, cards and data sets of sentence-transformers are left out."""
        self.save_pretrained(path)  # type: ignore[attr-defined]

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """`minibert.similarity` of every two vectors, (n, D) and (m, D) to (n, m), by `similarity_fn_name`."""
        import torch

        return torch.from_numpy(similarity(embeddings1, embeddings2, self.similarity_fn_name))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Similarity of each vector with the one in its place, (n, D) and (n, D) to (n,)."""
        import torch

        return torch.from_numpy(
            pairwise_similarity(embeddings1, embeddings2, self.similarity_fn_name)
        )

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """`encode_document`, as LangChain asks for it."""
        return self.encode_document(list(texts)).tolist()

    def embed_query(self, text: str) -> list[float]:
        """`encode_query`, as LangChain asks for it."""
        vector: list[float] = self.encode_query(text).tolist()
        return vector

    async def aembed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """`embed_documents` in a thread of its own."""
        import asyncio  # here, as in `minibert.sentences.batched`

        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` in a thread of its own."""
        import asyncio

        return await asyncio.to_thread(self.embed_query, text)
