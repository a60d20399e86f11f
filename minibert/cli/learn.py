"""`minibert learn`: an article in ten scenes beside a live model, in one file."""

from __future__ import annotations

import argparse

from minibert.cli.loading import source_of
from minibert.cli.options import add_model
from minibert.cli.parser import Parser
from minibert.cli.view import add_page_options, write

SUMMARY = "Open an article in ten scenes beside a live BERT."
EXAMPLE = "--output learn.html"


def add(parser: Parser) -> None:
    add_model(parser)
    add_page_options(parser)


def run(options: argparse.Namespace) -> None:
    from minibert.page.lesson import article, articles, fitting_article
    from minibert.tokenization.tokenizer import BertTokenizer

    source = source_of(options)
    language = fitting_article(BertTokenizer.from_pretrained(source))
    write(options, source, articles()[language]["text"], **article(language))
