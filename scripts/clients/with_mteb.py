"""mteb: scores of an embedder on benchmark tasks, `evaluate(embedder, mteb.get_tasks(["STSBenchmark"]))`."""

from __future__ import annotations

from typing import Any

from minibert import SentenceEmbedder


def evaluate(embedder: SentenceEmbedder, tasks: Any, **options: Any) -> Any:
    """Results of tasks, with options of `mteb.evaluate`; nothing is kept unless `cache=` says where."""
    import mteb

    return mteb.evaluate(embedder.as_sentence_transformer(), tasks, **{"cache": None, **options})
