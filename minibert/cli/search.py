"""`minibert search`: the lines of a file that are most similar to a text."""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING, Any

from minibert.cli.common import add_command, add_embedder_options, check_files, load_embedder, print_json
from minibert.files import read_lines

if TYPE_CHECKING:
    from minibert.corpus.formats import ShardedVectors
    from minibert.sentences.rows import Vectors


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(commands, "search", run, "Find the lines of a file that are most similar to a text.")
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--corpus", required=True, metavar="FILE", help="texts, one a line (- for stdin)")
    parser.add_argument(
        "--vectors",
        metavar="PATH",
        help="their vectors: the file or folder that `minibert embed --out` or `--out-dir` wrote (with --prompt-name, "
        "if the model has a prompt for documents)",
    )
    parser.add_argument("--top", type=int, default=5, help="lines to show (default: %(default)s)")
    add_embedder_options(parser)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    check_files(name for name in (options.corpus, options.vectors) if name not in ("-", None))
    embedder = load_embedder(options)
    from minibert.corpus.formats import open_corpus
    from minibert.progress import is_watched
    from minibert.sentences.encode import DOCUMENT_PROMPTS
    from minibert.sentences.search import nearest

    texts = list(read_lines(options.corpus))
    vectors: Vectors | ShardedVectors
    if options.vectors:
        vectors = open_corpus(options.vectors)
        if len(vectors) != len(texts):
            raise ValueError(
                f"{options.vectors} holds {len(vectors)} vectors, but {options.corpus} {len(texts)} lines."
            )
        # asymmetric models put one prompt before a question and another before what may answer it
        if document := next((name for name in DOCUMENT_PROMPTS if name in embedder.prompts), None):
            warnings.warn(f"the vectors should come from minibert embed --prompt-name {document}.", stacklevel=2)
    else:
        vectors = embedder.encode_document(texts, show_progress=is_watched())
    query = embedder.encode_query(options.query)
    rows, scores = nearest(query, vectors, options.top)
    found = [(int(row) + 1, float(score), texts[row]) for row, score in zip(rows[0], scores[0], strict=True)]
    if options.json:
        results = [{"line": line, "score": score, "text": text} for line, score, text in found]
        return print_json({"query": options.query, "results": results})
    for line, score, text in found:
        print(f"{score:.4f}  {line:>6}  {text}")
