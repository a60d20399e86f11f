"""`minibert tokenize`: WordPieces of texts, their ids and places."""

from __future__ import annotations

import argparse

from minibert.cli.common import add_text_options, print_json, source_of, texts_of


def add(parser: argparse.ArgumentParser) -> None:
    add_text_options(parser)


_LOOKED_AT = 8  # texts, for a script that the vocabulary does not know


def run(options: argparse.Namespace) -> None:
    from minibert.progress import counted, is_watched
    from minibert.tokenization.coverage import warn_of_coverage
    from minibert.tokenization.tokenizer import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained(source_of(options))
    texts = list(texts_of(options))  # all are read before anything is printed
    if not options.json:
        warn_of_coverage(tokenizer, texts[:_LOOKED_AT])
    for text in counted(texts, "texts", is_watched(printing=True)):
        encoding = tokenizer(text, return_offsets_mapping=True)
        ids, offsets = encoding["input_ids"], encoding["offset_mapping"]
        tokens = tokenizer.convert_ids_to_tokens(ids)
        if options.json:
            spans = [list(span) for span in offsets]
            print_json({"text": text, "tokens": tokens, "input_ids": ids, "offsets": spans})
            continue
        width = max(len(token) for token in tokens)
        for token, token_id, (start, end) in zip(tokens, ids, offsets, strict=True):
            print(f"{token:<{width}}  {token_id:>6}  {start:>4}-{end:<4} {text[start:end]}")
