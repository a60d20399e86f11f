"""LanceDB: vectors are computed when rows are added and when the table is searched.

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
    """Encodes texts. LanceDB stores the model's name in the table and loads it by that name."""

    name: str = "minibert-en"

    @cached_property
    def embedder(self) -> SentenceEmbedder:
        """The model, which is loaded on first use."""
        return SentenceEmbedder.from_pretrained(self.name)

    def generate_embeddings(self, texts: Any, *args: Any, **options: Any) -> Any:
        """Returns the vectors of texts that are added."""
        return self.embedder.embed_documents(list(texts))

    def compute_query_embeddings(self, query: str, *args: Any, **options: Any) -> Any:
        """Returns the vector of a query."""
        return [self.embedder.embed_query(query)]

    def ndims(self) -> int:
        """Returns the dimension of the vectors."""
        return self.embedder.dimension
