"""`minibert tokenize`: tokens of texts, their ids and their positions in the text."""

from __future__ import annotations

import argparse

from minibert.cli.loading import source_of
from minibert.cli.options import add_json, add_model, add_texts
from minibert.cli.parser import Parser
from minibert.cli.results import ResultPrinter
from minibert.cli.texts import texts_of

SUMMARY = "Show the tokens of texts, their ids and their positions."
EXAMPLE = '"I love Korea"'
CHECKED_TEXTS = 8  # for a script that the vocabulary does not cover


def add(parser: Parser) -> None:
    add_texts(parser, "Text to tokenize. Several may be given.")
    add_model(parser)
    add_json(parser, lines=True)


def run(options: argparse.Namespace) -> None:
    from minibert.coverage import warn_of_coverage
    from minibert.progress import counted, is_watched
    from minibert.tokenization.tokenizer import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained(source_of(options))
    texts = list(map(str, texts_of(options)))  # all are read before anything is printed
    with ResultPrinter(options) as results:
        if results.as_text:
            warn_of_coverage(tokenizer, texts[:CHECKED_TEXTS])
        for text in counted(texts, "texts", is_watched(printing=True)):
            encoding = tokenizer(text, return_offsets_mapping=True)
            ids = encoding["input_ids"]
            spans = [list(span) for span in encoding["offset_mapping"]]
            tokens = tokenizer.convert_ids_to_tokens(ids)
            width = max(len(token) for token in tokens)
            lines = [
                f"{token:<{width}}  {token_id:>6}  {start:>4}-{end:<4} {text[start:end]}"
                for token, token_id, (start, end) in zip(tokens, ids, spans, strict=True)
            ]
            record = {"text": text, "tokens": tokens, "input_ids": ids, "offsets": spans}
            results.show(record, "\n".join(lines))
