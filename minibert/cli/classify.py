"""`minibert classify`: labels of texts, or numbers, by a fine-tuned classifier."""

from __future__ import annotations

import argparse
from typing import Any

from minibert.cli.options import add_max_length, add_pair_column, add_top_k
from minibert.cli.parser import Parser
from minibert.cli.predicting import (
    add_prediction_options,
    check_output,
    load_model,
    rows_of_input,
    run_predictions,
)
from minibert.cli.results import UsageError
from minibert.cli.texts import Record, column_of

SUMMARY = "Label texts with a fine-tuned classifier, or score them with a regression."
EXAMPLE = '--model out/labels "A wonderful film."'


def add(parser: Parser) -> None:
    add_prediction_options(parser, "to classify")
    add_pair_column(parser)
    parser.add_argument(
        "--pair", metavar="TEXT", help="Second text, for a model that compares two."
    )
    add_max_length(parser)
    add_top_k(parser, 1, "Number of labels for each text, best first.")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="PROB",
        help="Show every label with at least this probability, for models with several labels a "
        "text; --top-k has no effect then.",
    )


def run(options: argparse.Namespace) -> None:
    if options.top_k < 1:
        raise UsageError(f"--top-k should be 1 or more, not {options.top_k}.")
    if options.pair is not None and options.pair_column is not None:
        raise UsageError("give --pair or --pair-column, not both.")
    check_output(options)
    records = rows_of_input(options, options.pair_column)
    model, tokenizer = load_model(options, "BertForSequenceClassification", "classification")
    from minibert.tasks.classification import classify

    is_number = model.config.num_labels == 1 or model.config.problem_type == "regression"
    top_k = None if options.threshold is not None else options.top_k
    column = column_of(options)

    def predict(rows: list[Record]) -> list[dict[str, Any]]:
        labels = classify(
            model,
            tokenizer,
            [row[column] for row in rows],
            _pairs(options, rows),
            top_k=top_k,
            threshold=options.threshold,
            max_length=options.max_length,
        )
        return [_columns(found, is_number) for found in labels]

    several = options.file is not None or len(options.texts) > 1

    def describe(result: dict[str, Any]) -> str:
        lines = [result[column]] if several else []
        for label in result["labels"]:
            name = "" if is_number else f"  {label['label']}"
            lines.append(f"{label['score']:.4f}{name}")
        return "\n".join(lines)

    run_predictions(options, records, predict, describe)


def _pairs(options: argparse.Namespace, rows: list[Record]) -> list[str] | None:
    if options.pair is not None:
        return [options.pair] * len(rows)
    if options.pair_column is not None:
        return [str(row[options.pair_column]) for row in rows]
    return None


def _columns(labels: Any, is_number: bool) -> dict[str, Any]:
    """The columns that classification adds to a row: the best label, its score, and all that are shown."""
    if is_number:
        return {"predicted": labels[0]["score"], "labels": list(labels)}
    best = labels[0] if labels else {"label": None, "score": None}
    return {"predicted": best["label"], "score": best["score"], "labels": list(labels)}
