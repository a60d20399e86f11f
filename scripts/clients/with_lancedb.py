"""LanceDB: the vectors of a table's texts, made as rows are added and as it is searched.

```python
embeddings = get_registry().get("minibert").create(name="minibert-en")

class Row(LanceModel):
    text: str = embeddings.SourceField()
    vector: Vector(embeddings.ndims()) = embeddings.VectorField()
```
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lancedb.embeddings import TextEmbeddingFunction, register

from minibert import SentenceEmbedder


@register("minibert")
class Embeddings(TextEmbeddingFunction):
    """Texts to vectors; LanceDB writes the model's name into the table, and loads it from there."""

    name: str = "minibert-en"

    @cached_property
    def embedder(self) -> SentenceEmbedder:
        """The model of that name."""
        return SentenceEmbedder.from_pretrained(self.name)

    def generate_embeddings(self, texts: Any, *args: Any, **options: Any) -> Any:
        """Vectors of texts that are stored."""
        return self.embedder.embed_documents(list(texts))

    def compute_query_embeddings(self, query: str, *args: Any, **options: Any) -> Any:
        """The vector of a query."""
        return [self.embedder.embed_query(query)]

    def ndims(self) -> int:
        """Length of a vector."""
        return self.embedder.dimension
