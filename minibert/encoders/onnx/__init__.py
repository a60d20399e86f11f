"""Exports: writing graphs, and running them without torch."""
