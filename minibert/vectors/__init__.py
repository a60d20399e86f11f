"""Vectors of texts in files and folders: written, resumed, updated, opened, searched."""
