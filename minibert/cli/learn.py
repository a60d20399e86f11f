"""`minibert learn`: an article in fourteen scenes next to a live model, in one file."""

from __future__ import annotations

import argparse
import locale
import os
import re

from minibert.cli.loading import source_of
from minibert.cli.options import add_model
from minibert.cli.parser import Parser
from minibert.cli.view import add_page_options, write

SUMMARY = "Open an article in fourteen scenes next to a live BERT."
EXAMPLE = "--output learn.html"
MODELS = {"en": "minibert-en", "ko": "minibert-ko"}


def add(parser: Parser) -> None:
    add_model(
        parser,
        default=None,
        help="Model beside the article: a folder, a bundled model or a Hub id. The scenes are "
        "those that fit its pieces. Default: minibert-ko with --lang ko or in a Korean locale, "
        "else minibert-en.",
    )
    parser.add_argument(
        "--lang",
        choices=tuple(MODELS),
        help="Language of the page when it opens. The page has a switch. "
        "Default: the browser's for the page, the locale's for the model.",
    )
    add_page_options(parser)


def run(options: argparse.Namespace) -> None:
    from minibert.learn.lesson import article, articles, fitting_article
    from minibert.tokenization.tokenizer import BertTokenizer

    language = options.lang or locale_language()
    if options.model is None:
        options.model = MODELS[language]
    source = source_of(options)
    fitting = fitting_article(BertTokenizer.from_pretrained(source), preferred=language)
    more = article(fitting)
    if options.lang is not None:
        more["language"] = options.lang
    write(options, source, articles()[fitting]["text"], **more)


def locale_language() -> str:
    """Return "ko" in a Korean locale, else "en"."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((os.environ[name] for name in names if os.environ.get(name)), None)
    if chosen is None:  # as on Windows, where the names are such as Korean_Korea
        chosen = locale.getlocale()[0] or ""
    return "ko" if re.match(r"(ko|korean)([_.\-]|$)", chosen, re.IGNORECASE) else "en"
