"""`minibert fill-mask`: the words behind [MASK]."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from minibert.cli.loading import check_device, source_of
from minibert.cli.options import add_device, add_json, add_model, add_texts, add_top_k
from minibert.cli.parser import Parser
from minibert.cli.results import ResultPrinter
from minibert.cli.texts import texts_of

SUMMARY = "Predict the words behind [MASK] in texts."
EXAMPLE = '"Paris is the [MASK] of France."'
BATCH_TEXTS = 64  # the logits of a [MASK] are as many as the vocabulary has words


def add(parser: Parser) -> None:
    add_texts(parser, "Text with one [MASK] or more. Several texts may be given.")
    add_model(parser)
    add_device(parser)
    add_top_k(parser, 5, "Number of predictions for each [MASK].")
    add_json(parser, lines=True)


def run(options: argparse.Namespace) -> None:
    texts = list(map(str, texts_of(options)))
    source = source_of(options)
    device = check_device(options.device)
    from minibert.coverage import warn_of_coverage
    from minibert.heads import BertForMaskedLM
    from minibert.progress import Progress, is_watched
    from minibert.tasks.masks import fill_mask
    from minibert.tokenization.tokenizer import BertTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what would be worth a warning is an error here
        model = BertForMaskedLM.from_pretrained(source).to(device)
    if model.load_report and model.load_report.missing:
        lacking = model.load_report.missing[0]
        raise ValueError(
            f"{options.model} was not trained to fill masks: it has no {lacking}. "
            "Pass another --model."
        )
    tokenizer = BertTokenizer.from_pretrained(source)
    warn_of_coverage(tokenizer, texts)
    predictions: list[Any] = []
    with Progress(is_watched(), len(texts)) as progress:
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = texts[start : start + BATCH_TEXTS]
            predictions += fill_mask(model, tokenizer, batch, options.top_k)
            progress.add(len(batch))
    with ResultPrinter(options) as results:
        for text, masks in zip(texts, predictions, strict=True):
            heading = [text] if len(texts) > 1 else []
            lines = [*heading, *_lines(masks, str(tokenizer.mask_token))]
            results.show({"text": text, "masks": masks}, "\n".join(lines))


def _lines(masks: list[list[dict[str, Any]]], mask_token: str) -> list[str]:
    lines = []
    for number, guesses in enumerate(masks, 1):
        if len(masks) > 1:
            lines.append(f"{mask_token} {number}")
        for guess in guesses:
            lines.append(f"{guess['score']:.4f}  {guess['token_str']}")
    return lines
