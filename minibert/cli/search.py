"""`minibert search`: the texts of a corpus that are most similar to queries."""

from __future__ import annotations

import argparse
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minibert.cli.loading import embedder_of, source_of
from minibert.cli.options import (
    add_embedder,
    add_fields,
    add_model,
    add_options,
    add_results,
    add_table,
    probability,
    refuse_options,
    table_of,
)
from minibert.cli.parser import Once, Parser, command
from minibert.cli.results import ResultPrinter, UsageError
from minibert.cli.texts import (
    check_files,
    count_truncated,
    place_of,
    rows_of_arguments,
    shown_place,
    truncations,
)
from minibert.encoders.encoder_options import VectorOptions
from minibert.text import Row, Table, read
from minibert.text.read import has_columns
from minibert.util.errors import Argument, Message, message_of
from minibert.util.progress import is_watched

if TYPE_CHECKING:
    from minibert.encoders.text_encoder import TextEncoder

logger = logging.getLogger("minibert")

RERANKED = 100  # texts for each query that --rerank scores again


def add(parser: Parser) -> None:
    parser.add_argument(
        "queries", metavar="QUERY", nargs="*", help="Text to search for. Several may be given."
    )
    parser.add_argument(
        "--queries",
        dest="query_file",
        action=Once,
        metavar="FILE",
        help="File of queries: one per line, or a table. - reads stdin.",
    )
    parser.add_argument(
        "--query-column",
        metavar="NAME",
        help="Column of the queries, where --queries is a table. Default: that of --text-column.",
    )
    parser.add_argument(
        "--corpus",
        action=Once,
        required=True,
        metavar="FILE",
        help="File of texts, as for minibert embed: one per line, or a table, a folder or a URI. "
        "- reads stdin.",
    )
    add_table(parser, "id")
    parser.add_argument(
        "--vectors",
        metavar="PATH",
        help="Precomputed vectors of the corpus, written by minibert embed --output.",
    )
    add_model(parser)
    parser.add_argument(
        "--corpus-model",
        metavar="NAME",
        help="Model that produced --vectors, if it is not --model. It must share its space.",
    )
    parser.add_argument(
        "--rerank",
        metavar="NAME",
        help=f"Cross-encoder that scores the first {RERANKED} texts of each query again.",
    )
    parser.add_argument(
        "--rerank-weight",
        type=probability,
        default=1.0,
        metavar="PROB",
        help="Share of the cross-encoder's score, as the sigmoid of its logit. The rest is the "
        "cosine of the vectors.",
    )
    add_embedder(parser)
    add_fields(parser, VectorOptions, "overflow")
    add_options(parser, "--query-prompt", "--document-prompt")
    add_options(parser, "--top-k", default=5, help="Number of texts to show for each query.")
    parser.add_argument(
        "--min-score", type=float, metavar="SCORE", help="Leave out texts with a lower score."
    )
    parser.add_argument(
        "--unique", action="store_true", help="Show a text that occurs several times once."
    )
    add_results(parser)


@command('"Where is Paris?" --corpus lines.txt', add)
def search(options: argparse.Namespace) -> None:
    """Find the texts of a corpus that are most similar to a query."""
    check_files([options.corpus, options.vectors, options.query_file])
    if options.rerank is None:
        refuse_options(options, ["rerank_weight"], "weighs a cross-encoder: give --rerank NAME.")
    queries = _queries(options)
    embedder = _with_prompts(embedder_of(options), options)
    if options.rerank_weight < 1 and embedder.similarity_fn_name != "cosine":
        raise UsageError(
            "--rerank-weight combines a score and a cosine, but the similarity of this model is "
            f"{embedder.similarity_fn_name}: leave it out."
        )
    of_corpus = embedder
    if options.corpus_model is not None:
        of_corpus = _with_prompts(embedder_of(options, name=options.corpus_model), options)
    rows = list(read(options.corpus, table_of(options)))
    texts = [row.text for row in rows]
    vectors = _vectors(options, of_corpus, texts)
    count = options.top_k if options.rerank is None else max(RERANKED, options.top_k)
    asked = [query.text for query in queries]
    encoded = embedder.encode_query(asked, overflow=options.overflow)
    matches = _matches(embedder, encoded, vectors, texts, count, options.unique)
    if options.rerank is not None:
        matches = _reranked(options, asked, matches, texts)
    with ResultPrinter(options) as results:
        for query, hits in zip(queries, matches, strict=True):
            if options.min_score is not None:
                hits = [(row, score) for row, score in hits if score >= options.min_score]
            hits = hits[: options.top_k]
            found = [_result(rows[row], row + 1, score) for row, score in hits]
            lines = [query.text] if len(queries) > 1 else []
            for row, score in hits:
                place = shown_place(rows[row], options.corpus)
                lines.append(f"{score:.4f}  {place:>6}  {texts[row]}")
            about = {"query": query.text}
            if query.values.get(options.id_column) is not None:
                about["query_id"] = query.values[options.id_column]
            results.show({**about, "results": found}, "\n".join(lines))


def _with_prompts(embedder: TextEncoder, options: argparse.Namespace) -> TextEncoder:
    """The embedder with the prompts of the options, each a name or words."""
    embedder.set_prompts(options.query_prompt, options.document_prompt)
    return embedder


def _queries(options: argparse.Namespace) -> list[Row]:
    """The queries: arguments, or the rows of a file that are not blank."""
    if options.queries and options.query_file:
        raise UsageError("give queries or --queries, not both.")
    if options.query_file:
        queries = _queries_of_file(options)
    else:
        refuse_options(options, ["query_column"], "is for a table of queries: give --queries FILE.")
        if not options.queries:
            raise UsageError("give a query, or --queries FILE.")
        if not all(map(str.strip, options.queries)):
            raise UsageError("the query is empty: write one between the quotation marks.")
        queries = rows_of_arguments(options.queries, Table(), "query")
    written = [query for query in queries if query.text.strip()]
    if not written:
        raise ValueError(f"there is no text in {options.query_file}.")
    if len(written) < len(queries):
        logger.info("blank queries left out: %d.", len(queries) - len(written))
    return written


def _queries_of_file(options: argparse.Namespace) -> list[Row]:
    """The queries of a file, which is read as the corpus is, but for the columns of the corpus.

    Those of a table that has the column of the ids, too, keep theirs.
    """
    file = options.query_file
    table = replace(table_of(options), id=None)
    if options.query_column is not None:
        table = replace(table, text=options.query_column)
    elif not os.path.isdir(file) and not has_columns(file, table):
        table = replace(table, text=Table.text, columns=None)  # lines have no columns
    try:
        return list(read(file, table))
    except ValueError as error:
        parts = [
            replace(part, name="query_column", owner=None)
            if isinstance(part, Argument) and (part.name, part.owner) == ("text", Table)
            else part
            for part in message_of(error).parts
        ]
        error.args = (Message(*parts),)  # --text-column is that of the corpus
        raise


def _vectors(options: argparse.Namespace, embedder: TextEncoder, texts: list[str]) -> Any:
    """The vectors of the corpus (N, dimension), read and checked, or computed."""
    from minibert.vectors.folder import open_checked_vectors

    if options.vectors is None:
        return embedder.encode_document(
            texts, overflow=options.overflow, show_progress_bar=bool(is_watched())
        )
    return open_checked_vectors(options.vectors, embedder, texts, embedder.prompt_for("document"))


def _matches(
    embedder: TextEncoder,
    encoded: Any,
    vectors: Any,
    texts: list[str],
    count: int,
    unique: bool,
) -> list[list[tuple[int, float]]]:
    """Row and similarity of the `count` nearest texts of each query. Blank ones are passed over.

    With `unique`, so are texts that stand before.
    """
    from minibert.encoders.arithmetic.search import nearest

    width = min(count, len(texts))
    while True:
        rows, scores = nearest(encoded, vectors, width, metric=embedder.similarity_fn_name)
        matches = []
        for row_numbers, similarities in zip(rows.tolist(), scores.tolist(), strict=True):
            hits: dict[int | str, tuple[int, float]] = {}  # by text, or by row
            for row, score in zip(row_numbers, similarities, strict=True):
                if texts[row].strip():
                    hits.setdefault(texts[row] if unique else row, (row, score))
            matches.append(list(hits.values()))
        if width >= len(texts) or min(map(len, matches)) >= count:
            return [nearest_hits[:count] for nearest_hits in matches]
        width = min(4 * width, len(texts))


def _reranked(
    options: argparse.Namespace,
    queries: list[str],
    matches: list[list[tuple[int, float]]],
    texts: list[str],
) -> list[list[tuple[int, float]]]:
    """The matches of each query in the order of a cross-encoder, or of both scores, weighted.

    Only numbers of one scale are added: the sigmoid of the cross-encoder's logit, as a service
    gives it, and a cosine.
    """
    from torch.nn import Sigmoid

    from minibert.encoders.folders.checkpoint import Checkpoint
    from minibert.encoders.text_models import load_text_model

    encoder = load_text_model(
        Checkpoint(source_of(options, options.rerank)),
        "reranker",
        precision=options.precision,
        device=options.device,  # checked with the embedder
    )
    weight = options.rerank_weight
    settings: Any = {} if weight == 1 else {"activation_fn": Sigmoid()}
    reranked = []
    with truncations() as long:
        for query, hits in zip(queries, matches, strict=True):
            scored = []
            for entry in encoder.rank(query, [texts[row] for row, _ in hits], **settings):
                row, similarity = hits[entry["corpus_id"]]
                scored.append((row, weight * entry["score"] + (1 - weight) * similarity))
            reranked.append(sorted(scored, key=lambda hit: -hit[1]))
    count_truncated(long, sum(map(len, matches)), "pairs", advice="")
    return reranked


def _result(row: Row, number: int, score: float) -> dict[str, Any]:
    """A match for programs: its place, its score, its text and its other columns."""
    result = {**place_of(row, number), "score": score, "text": row.text}
    known = (row.table.text, row.table.id)
    others = {name: value for name, value in row.values.items() if name not in known}
    if others:
        result["columns"] = others
    return result
