"""Arithmetic of vectors and logits: pooling, scores, quantization, similarity and search."""
