"""Texts to vectors: pooling, sentence-transformers folders, the embedder, whole corpora, search."""
