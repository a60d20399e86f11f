"""KeyBERT and BERTopic, which take another model in place of an embedder whose type they do not know, silently."""

from __future__ import annotations

from typing import Any

from minibert import SentenceEmbedder


def keyword_extractor(embedder: SentenceEmbedder) -> Any:
    """A KeyBERT."""
    from keybert import KeyBERT

    return KeyBERT(embedder.as_sentence_transformer())


def topic_model(embedder: SentenceEmbedder, **options: Any) -> Any:
    """A BERTopic, with options of its own."""
    from bertopic import BERTopic

    return BERTopic(embedding_model=embedder.as_sentence_transformer(), **options)
