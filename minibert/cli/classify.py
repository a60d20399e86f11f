"""`minibert classify`: labels of texts, or numbers, by a fine-tuned classifier."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minibert.cli.options import add_max_length, add_pair_column, probability
from minibert.cli.parser import Parser
from minibert.cli.predicting import (
    add_prediction_options,
    check_output,
    load_model,
    load_onnx_head,
    rows_of_input,
    run_predictions,
)
from minibert.cli.results import UsageError
from minibert.cli.texts import Record, column_of

if TYPE_CHECKING:
    from minibert.config import BertConfig

Label = Callable[[list[str], list[str] | None], list[Any]]

SUMMARY = "Label texts with a fine-tuned classifier, or score them with a regression."
EXAMPLE = '--model out/labels "A wonderful film."'


def add(parser: Parser) -> None:
    add_prediction_options(parser, "to classify")
    add_pair_column(parser)
    parser.add_argument(
        "--pair", metavar="TEXT", help="Second text, for a model that compares two."
    )
    add_max_length(parser)
    parser.add_argument(
        "-k",
        "--top-k",
        type=int,
        metavar="N",
        help="Number of labels for each text, best first. Default: 1, or for a model "
        "with several labels a text, those that reach --threshold.",
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        metavar="PROB",
        help="Smallest probability of a label that is shown. Default: for a model with several "
        "labels a text the thresholds that fine-tuning kept with it, or 0.5.",
    )


def run(options: argparse.Namespace) -> None:
    if options.top_k is not None and options.top_k < 1:
        raise UsageError(f"--top-k should be 1 or more, not {options.top_k}.")
    if options.pair is not None and options.pair_column is not None:
        raise UsageError("give --pair or --pair-column, not both.")
    check_output(options)
    records = rows_of_input(options, options.pair_column)
    config, label = _load(options)
    is_number = config.problem_type == "regression" or config.num_labels == 1
    top_k, threshold_of = _limits(options, config)
    column = column_of(options)

    def predict(rows: list[Record]) -> list[dict[str, Any]]:
        labels = label([row[column] for row in rows], _pairs(options, rows))
        results = []
        for ranking in labels:
            chosen = [label for label in ranking if label["score"] >= threshold_of[label["label"]]]
            results.append(_columns(chosen[:top_k], is_number))
        return results

    several = options.file is not None or len(options.texts) > 1

    def describe(result: dict[str, Any]) -> str:
        lines = [result[column]] if several else []
        for label in result["labels"]:
            name = "" if is_number else f"  {label['label']}"
            lines.append(f"{label['score']:.4f}{name}")
        return "\n".join(lines)

    run_predictions(options, records, predict, describe)


def _load(options: argparse.Namespace) -> tuple[BertConfig, Label]:
    """The config of the classifier, and what gives all labels of texts, best first."""
    if options.backend == "onnx":
        head = load_onnx_head(options)

        def label_with_onnx(texts: list[str], pairs: list[str] | None) -> list[Any]:
            if pairs is None:
                return head.classify(texts)
            return head.classify(list(zip(texts, pairs, strict=True)))

        return head.config, label_with_onnx
    model, tokenizer = load_model(options, "BertForSequenceClassification", "classification")
    from minibert.tasks.classification import classify

    def label(texts: list[str], pairs: list[str] | None) -> list[Any]:
        return classify(model, tokenizer, texts, pairs, max_length=options.max_length)

    return model.config, label


def _limits(options: argparse.Namespace, config: BertConfig) -> tuple[int | None, dict[str, float]]:
    """The number of labels to show, None for all, and the smallest score of each label."""
    labels = [config.id2label[index] for index in range(config.num_labels)]
    if options.threshold is not None:
        return options.top_k, dict.fromkeys(labels, options.threshold)
    if options.top_k is None and config.problem_type == "multi_label_classification":
        from minibert.tasks.labels import thresholds_of

        return None, dict(zip(labels, thresholds_of(config).tolist(), strict=True))
    return options.top_k or 1, dict.fromkeys(labels, -math.inf)


def _pairs(options: argparse.Namespace, rows: list[Record]) -> list[str] | None:
    if options.pair is not None:
        return [options.pair] * len(rows)
    if options.pair_column is not None:
        return [str(row[options.pair_column]) for row in rows]
    return None


def _columns(labels: Any, is_number: bool) -> dict[str, Any]:
    """Build the columns that classification adds to a row.

    These are the best label, its score, and all labels that are shown.
    """
    if is_number:
        return {"predicted": labels[0]["score"], "labels": list(labels)}
    best = labels[0] if labels else {"label": None, "score": None}
    return {"predicted": best["label"], "score": best["score"], "labels": list(labels)}
