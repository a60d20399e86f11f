"""`minibert fill-mask`: the words behind [MASK]."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from minibert.cli.common import add_text_options, print_json, source_of, texts_of


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=int, default=5, help="guesses for each [MASK]")
    add_text_options(parser)


_AT_ONCE = 64  # texts: the logits of a [MASK] are as many as the vocabulary has words


def run(options: argparse.Namespace) -> None:
    texts, source = list(texts_of(options)), source_of(options)
    from minibert.heads import BertForMaskedLM
    from minibert.progress import Progress, is_watched
    from minibert.tasks.masks import fill_mask
    from minibert.tokenization.coverage import warn_of_coverage
    from minibert.tokenization.tokenizer import BertTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what would be worth a warning is an error here
        model = BertForMaskedLM.from_pretrained(source)
    if model.load_report and model.load_report.missing:
        lacking = model.load_report.missing[0]
        raise ValueError(
            f"{options.model} was not trained to fill masks: it has no {lacking}; pass another --model."
        )
    tokenizer = BertTokenizer.from_pretrained(source)
    warn_of_coverage(tokenizer, texts)
    found: list[Any] = []
    with Progress(is_watched(), len(texts)) as progress:
        for start in range(0, len(texts), _AT_ONCE):
            found += fill_mask(model, tokenizer, texts[start : start + _AT_ONCE], options.top)
            progress.add(min(_AT_ONCE, len(texts) - start))
    for text, masks in zip(texts, found, strict=True):
        if options.json:
            print_json({"text": text, "masks": masks})
            continue
        if len(texts) > 1:
            print(text)
        for number, guesses in enumerate(masks, 1):
            if len(masks) > 1:
                print(f"{tokenizer.mask_token} {number}")
            for guess in guesses:
                print(f"{guess['score']:.4f}  {guess['token_str']}")
