"""`minibert vocab`: a WordPiece vocabulary learned from text.

    minibert vocab --corpus wiki.txt books/ --vocab-size 30000 --output out/vocabulary

Words are counted in parallel, in memory that does not grow with the text. The `tokenizers` library
learns the pieces from the counts (needs the extra `[train]`).
"""

from __future__ import annotations

import argparse
from typing import Any

from minibert.cli.options import add_json, add_output_folder, add_table, table_of
from minibert.cli.parser import Command, Parser
from minibert.cli.results import claim_folder, report
from minibert.cli.texts import check_files
from minibert.files import new_folder


def add(parser: Parser) -> None:
    parser.add_argument(
        "--corpus",
        metavar="FILE",
        nargs="+",
        required=True,
        help="Files, folders or URIs of text, as for minibert pretrain.",
    )
    add_table(parser)
    parser.add_argument(
        "--vocab-size", type=int, default=30000, metavar="N", help="Maximum number of tokens."
    )
    parser.add_argument(
        "--min-frequency",
        type=int,
        default=2,
        metavar="N",
        help="Minimum number of occurrences of a token.",
    )
    parser.add_argument(
        "--cased",
        action="store_true",
        help="Keep upper case and accents (needed for Korean).",
    )
    add_output_folder(parser, "Folder for vocab.txt and tokenizer_config.json.")
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    check_files(options.corpus)
    claim_folder(options.output, options.force)
    from minibert.training.vocab import count_words_of_files, train_vocabulary

    lowercase = not options.cased
    words = count_words_of_files(options.corpus, table=table_of(options), lowercase=lowercase)
    if not words:
        raise ValueError(f"there is no text in {', '.join(options.corpus)}.")
    settings: dict[str, Any] = {
        "vocab_size": options.vocab_size,
        "min_frequency": options.min_frequency,
    }
    with new_folder(options.output) as folder:
        tokenizer = train_vocabulary(words, folder, lowercase=lowercase, **settings)
    sentence = (
        f"{len(tokenizer):,} tokens, learned from {len(words):,} different words, are in "
        f"{options.output}.\nTrain with them: minibert pretrain --config tiny --vocab "
        f"{options.output} --corpus {' '.join(options.corpus)} --output out/model"
    )
    content = {"output": options.output, "pieces": len(tokenizer), "words": len(words)}
    report(options, content, sentence)


VOCAB = Command(
    "vocab",
    "Learn a WordPiece vocabulary from text.",
    "--corpus corpus.txt --output out/vocabulary",
    add,
    run,
)
