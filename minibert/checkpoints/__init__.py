"""Checkpoints: a name becomes files (source), files become tensors by name (tensors, pickles)."""
