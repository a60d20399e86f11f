"""mteb: `evaluate(embedder, mteb.get_tasks(["STSBenchmark"]))` scores an embedder on its tasks."""

from __future__ import annotations

from typing import Any

from minibert import SentenceEmbedder


def evaluate(embedder: SentenceEmbedder, tasks: Any, **options: Any) -> Any:
    """Evaluates an embedder on tasks.

    Args:
        embedder: The embedder.
        tasks: Tasks of mteb.
        options: Options of `mteb.evaluate`. Results are cached only if `cache` is passed.
    """
    import mteb

    return mteb.evaluate(embedder.as_sentence_transformer(), tasks, **{"cache": None, **options})
