"""KeyBERT and BERTopic.

Both silently use their default model if they do not recognize the type of the embedder.
"""

from __future__ import annotations

from typing import Any

from minibert import SentenceEmbedder


def keyword_extractor(embedder: SentenceEmbedder) -> Any:
    """Creates a KeyBERT model that uses the embedder."""
    from keybert import KeyBERT

    return KeyBERT(embedder.as_sentence_transformer())


def topic_model(embedder: SentenceEmbedder, **options: Any) -> Any:
    """Creates a BERTopic model that uses the embedder. `options` are those of BERTopic."""
    from bertopic import BERTopic

    return BERTopic(embedding_model=embedder.as_sentence_transformer(), **options)
