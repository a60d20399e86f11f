"""`minibert search`: the lines of a file that are most similar to texts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from minibert.cli.common import (
    UsageError,
    add_embedder_options,
    check_files,
    load_embedder,
    print_json,
)
from minibert.files import read_lines

if TYPE_CHECKING:
    from minibert.corpus.formats import ShardedVectors
    from minibert.sentences.rows import Vectors


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queries", metavar="QUERY", nargs="+")
    parser.add_argument(
        "--corpus", required=True, metavar="FILE", help="texts, one a line (- for stdin)"
    )
    parser.add_argument(
        "--vectors", metavar="PATH", help="theirs, as minibert embed --out or --out-dir wrote them"
    )
    parser.add_argument(
        "--corpus-model",
        metavar="MODEL",
        help="that made these, of the same space (default: --model)",
    )
    parser.add_argument("--top", type=int, default=5, help="lines to show")
    add_embedder_options(parser)


def run(options: argparse.Namespace) -> None:
    check_files(name for name in (options.corpus, options.vectors) if name not in ("-", None))
    if not all(map(str.strip, options.queries)):
        raise UsageError("the query is empty: write one between the quotation marks.")
    embedder = of_corpus = load_embedder(options)
    if options.corpus_model is not None:
        of_corpus = load_embedder(
            argparse.Namespace(**{**vars(options), "model": options.corpus_model})
        )
    from minibert.corpus.formats import open_vectors
    from minibert.corpus.records import check_corpus
    from minibert.progress import is_watched
    from minibert.sentences.encode import DOCUMENT_PROMPTS
    from minibert.sentences.rows import named_prompt
    from minibert.sentences.search import nearest

    texts = list(read_lines(options.corpus))
    vectors: Vectors | ShardedVectors
    if options.vectors:
        vectors = open_vectors(options.vectors)
        if len(vectors) != len(texts):
            raise ValueError(
                f"{options.vectors} has {len(vectors)} vectors, but {options.corpus} {len(texts)} lines."
            )
        # asymmetric models put one prompt before a question and another before what may answer it
        name = next(
            (name for name in DOCUMENT_PROMPTS if name in of_corpus.prompts),
            of_corpus.default_prompt_name,
        )
        check_corpus(options.vectors, of_corpus, texts, named_prompt(of_corpus.prompts, name))
    else:
        vectors = of_corpus.encode_document(texts, show_progress_bar=bool(is_watched()))
    asked, top = embedder.encode_query(options.queries), options.top
    while (
        True
    ):  # a blank line is no hit, so as many more are looked at as there are such among them
        rows, scores = nearest(asked, vectors, top)
        pairs = [zip(*own, strict=True) for own in zip(rows.tolist(), scores.tolist(), strict=True)]
        found = [[(row, score) for row, score in own if texts[row].strip()] for own in pairs]
        if top >= len(texts) or min(map(len, found)) >= options.top:
            break
        top *= 4
    for query, own in zip(options.queries, found, strict=True):
        results = [
            {"line": row + 1, "score": score, "text": texts[row]}
            for row, score in own[: options.top]
        ]
        if options.json:
            print_json({"query": query, "results": results})
            continue
        if len(options.queries) > 1:
            print(query)
        for result in results:
            print(f"{result['score']:.4f}  {result['line']:>6}  {result['text']}")
