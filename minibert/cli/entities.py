"""`minibert entities`: labeled spans of texts, such as names, by a fine-tuned tagger."""

from __future__ import annotations

import argparse
from typing import Any

from minibert.cli.parser import Parser
from minibert.cli.predicting import (
    add_prediction_options,
    check_output,
    load_in_backend,
    rows_of_input,
    run_predictions,
)
from minibert.cli.texts import Record, column_of

SUMMARY = "Find names and other labeled spans in texts, with a fine-tuned tagger."
EXAMPLE = '--model out/names "Ada Lovelace lived in London."'


def add(parser: Parser) -> None:
    add_prediction_options(parser, "to tag")
    parser.add_argument(
        "--stride",
        type=int,
        metavar="N",
        help="Number of tokens that neighboring windows of a long text share. Default: a quarter.",
    )
    parser.add_argument(
        "--by-piece",
        action="store_true",
        help="Read a label for each piece of a word, as of models trained on labels of characters.",
    )


def run(options: argparse.Namespace) -> None:
    check_output(options)
    records = rows_of_input(options)
    model, tokenizer = load_in_backend(options, "BertForTokenClassification", "tokens")
    from minibert.tasks.entities import find_entities

    column = column_of(options)

    def predict(rows: list[Record]) -> list[dict[str, Any]]:
        texts = [row[column] for row in rows]
        found = find_entities(model, tokenizer, texts, options.stride, options.by_piece)
        return [{"entities": list(entities)} for entities in found]

    several = options.file is not None or len(options.texts) > 1

    def describe(result: dict[str, Any]) -> str:
        lines = [result[column]] if several else []
        for entity in result["entities"]:
            place = f"{entity['start']}-{entity['end']}"
            label = entity["entity_group"]
            lines.append(f"{entity['score']:.4f}  {label:<8}  {place:>9}  {entity['word']}")
        return "\n".join(lines)

    run_predictions(options, records, predict, describe)
