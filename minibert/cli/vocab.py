"""`minibert vocab`: a WordPiece vocabulary learned from text.

    minibert vocab --corpus wiki.txt books/ --vocab-size 30000 --output out/vocabulary

Words are counted in parallel, in a memory that does not grow with the text; the `tokenizers` library learns the pieces
from the counts (needs the extra `[train]`).
"""

from __future__ import annotations

import argparse

from minibert.cli.common import check_files, report


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corpus", metavar="FILE", nargs="+", required=True, help="text, as for minibert pretrain"
    )
    parser.add_argument("--column", help="column of the texts in tables (default: text)")
    parser.add_argument("--vocab-size", type=int, default=30000, metavar="N", help="at most")
    parser.add_argument("--min-frequency", type=int, default=2, metavar="N", help="of a piece")
    parser.add_argument(
        "--cased", action="store_true", help="keep capitals and accents (needed for Korean)"
    )
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="for vocab.txt and tokenizer_config.json"
    )


def run(options: argparse.Namespace) -> None:
    check_files(options.corpus)
    from minibert.training.vocab import count_words_of_files, train_vocabulary

    words = count_words_of_files(options.corpus, column=options.column, lowercase=not options.cased)
    how = {"vocab_size": options.vocab_size, "min_frequency": options.min_frequency}
    tokenizer = train_vocabulary(words, options.output, lowercase=not options.cased, **how)
    sentence = f"{len(tokenizer):,} pieces, learned from {len(words):,} different words, are in {options.output}."
    report(
        options, {"path": options.output, "pieces": len(tokenizer), "words": len(words)}, sentence
    )
