"""`minibert search`: the lines of a file that are most similar to a text."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import TYPE_CHECKING, Any

from minibert.cli.common import add_command, add_embedder_options, load_embedder, print_json
from minibert.files import read_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(commands, "search", run, "Find the lines of a file that are most similar to a text.")
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--corpus", required=True, metavar="FILE", help="texts, one a line (- for stdin)")
    parser.add_argument(
        "--vectors",
        metavar="FILE",
        help="their vectors, as `minibert embed --out FILE.npy` wrote them (with --prompt-name, if the model has a "
        "prompt for documents)",
    )
    parser.add_argument("--top", type=int, default=5, help="lines to show (default: %(default)s)")
    add_embedder_options(parser)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from minibert.sentences.search import nearest

    embedder = load_embedder(options)
    texts = list(read_lines(options.corpus))
    # asymmetric models put one prompt before a question and another before what may answer it
    document = next((name for name in ("document", "passage", "corpus") if name in embedder.prompts), None)
    if options.vectors:
        vectors = _read_vectors(options.vectors)
        if len(vectors) != len(texts):
            raise ValueError(
                f"{options.vectors} holds {len(vectors)} vectors, but {options.corpus} {len(texts)} lines."
            )
        if document:
            warnings.warn(f"the vectors should come from minibert embed --prompt-name {document}.", stacklevel=2)
    else:
        vectors = embedder.encode(texts, prompt_name=document, show_progress=sys.stderr.isatty())
    query = embedder.encode(options.query, prompt_name="query" if "query" in embedder.prompts else None)
    rows, scores = nearest(query, vectors, options.top)
    found = [(int(row) + 1, float(score), texts[row]) for row, score in zip(rows[0], scores[0], strict=True)]
    if options.json:
        results = [{"line": line, "score": score, "text": text} for line, score, text in found]
        return print_json({"query": options.query, "results": results})
    for line, score, text in found:
        print(f"{score:.4f}  {line:>6}  {text}")


def _read_vectors(name: str) -> NDArray[np.float32]:
    """The vectors (N, D) of an .npy file, memory-mapped."""
    import numpy as np

    try:
        vectors: NDArray[np.float32] = np.load(name, mmap_mode="r")
    except (ValueError, EOFError):
        raise ValueError(f"{name} is not a whole .npy file; write one with minibert embed --out FILE.npy.") from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(f"{name} should hold one row of numbers for each text, as minibert embed writes them.")
    return vectors
