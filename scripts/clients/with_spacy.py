"""spaCy: `nlp.add_pipe("minibert", config={"name_or_path": name})`.

It sets `doc.vector`, `span.vector` and `similarity`.
"""

from __future__ import annotations

from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from minibert import SentenceEmbedder


@Language.factory("minibert", default_config={"name_or_path": "minibert-en"})
class Vectors:
    """Pipeline component that provides sentence vectors."""

    def __init__(self, nlp: Language, name: str, name_or_path: str) -> None:
        self.embedder = SentenceEmbedder.from_pretrained(name_or_path)

    def __call__(self, doc: Doc) -> Doc:
        """Adds hooks to a document that compute vectors on demand."""

        def vector(text: Any) -> Any:
            return self.embedder.encode(text.text)

        for hooks in (doc.user_hooks, doc.user_span_hooks):
            hooks.update(vector=vector, has_vector=lambda _: True)
        return doc
