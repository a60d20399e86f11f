"""Run a fine-tuned model on texts and write its results to stdout or a file.

The commands classify, entities and answer share this module.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from minibert.cli.loading import check_device, check_head, check_kind, precision_of, source_of
from minibert.cli.options import (
    add_backend,
    add_device,
    add_id_column,
    add_json,
    add_model,
    add_output_file,
    add_precision,
    add_texts,
)
from minibert.cli.parser import Parser
from minibert.cli.results import ResultPrinter, UsageError, claim_file, report
from minibert.cli.texts import Record, count_texts, records_of

if TYPE_CHECKING:
    from minibert.encoders.onnx_heads import OnnxHead
    from minibert.tokenization.tokenizer import BertTokenizer

BATCH_ROWS = 1024  # rows that are sorted by length and packed together

Predict = Callable[[list[Record]], list[dict[str, Any]]]


def add_prediction_options(parser: Parser, what: str) -> None:
    """Texts in, a model, and results out."""
    add_texts(parser, f"Text {what}. Several may be given.")
    add_id_column(parser)
    add_model(parser, default=None, required=True)
    add_backend(parser)
    add_device(parser)
    add_precision(parser)
    add_output_file(
        parser,
        "File to write (.jsonl, .csv, .tsv or .parquet), with the columns of the input. "
        "Default: stdout.",
    )
    add_json(parser, lines=True)


def check_output(options: argparse.Namespace) -> None:
    """UsageError or ValueError for an output that cannot be written."""
    if options.output is None:
        return
    from minibert.corpus.tables import ending_of

    ending_of(options.output)
    claim_file(options.output, options.force)


def load_in_backend(
    options: argparse.Namespace, class_name: str, task: str
) -> tuple[Any, BertTokenizer]:
    """As `load_model`. With `--backend onnx` the exported model."""
    if options.backend == "onnx":
        head = load_onnx_head(options)
        return head, head.tokenizer
    return load_model(options, class_name, task)


def load_model(
    options: argparse.Namespace, class_name: str, task: str
) -> tuple[Any, BertTokenizer]:
    """The fine-tuned model that the options name, on its device, and its tokenizer.

    Args:
        options: The command's.
        class_name: The class of the model, such as "BertForSequenceClassification".
        task: The task of `minibert finetune` that trains such a model.

    Raises:
        ValueError: The checkpoint has no head of this kind.
    """
    source = source_of(options)
    device = check_device(options.device)
    check_kind(source, "torch")
    check_head(source, class_name, task)
    from minibert import heads
    from minibert.inference.optimize import optimize
    from minibert.tokenization.tokenizer import BertTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what would be worth a warning is an error here
        model = getattr(heads, class_name).from_pretrained(source, device=device)
    loaded = model.load_report
    if loaded is not None and loaded.missing:
        raise ValueError(
            f"{options.model} is not a {class_name}: it has no {loaded.missing[0]}. "
            f"minibert finetune {task} trains one."
        )
    precision = precision_of(options)
    if precision is not None:
        model = optimize(model, precision=precision)
    return model.eval(), BertTokenizer.from_pretrained(source)


def load_onnx_head(options: argparse.Namespace) -> OnnxHead:
    """The exported model with a head that the options name.

    Raises:
        UsageError: An option that the graph has decided.
    """
    check_device(options.device, "onnx")
    if options.precision != "fp32":
        raise UsageError("--backend onnx has the precision of the export: leave --precision out.")
    from minibert.encoders.onnx_heads import OnnxHead

    head = OnnxHead.from_pretrained(source_of(options))
    max_length = getattr(options, "max_length", None)
    if max_length is not None:
        head.max_length = min(head.max_length, max_length)
    return head


def run_predictions(
    options: argparse.Namespace,
    records: Iterator[Record],
    predict: Predict,
    describe: Callable[[dict[str, Any]], str],
) -> None:
    """Predicts in batches, and prints or writes each row with what was predicted for it.

    Args:
        options: The command's.
        records: The rows of the input.
        predict: Returns the new columns of each of some rows.
        describe: A result as a person reads it.
    """
    from minibert.progress import Progress, is_watched

    with Progress(is_watched(options.output is None), count_texts(options)) as progress:

        def results() -> Iterator[dict[str, Any]]:
            while batch := list(islice(records, BATCH_ROWS)):
                for record, result in zip(batch, predict(batch), strict=True):
                    yield {**record, **result}
                progress.add(len(batch))

        if options.output is None:
            with ResultPrinter(options) as printer:
                for result in results():
                    printer.show(result, describe(result))
            return
        from minibert.corpus.tables import write_rows

        count = write_rows(options.output, results())
    content = {"output": options.output, "rows": count}
    report(options, content, f"{count:,} rows written to {options.output}.")


def rows_of_input(options: argparse.Namespace, *columns: str | None) -> Iterator[Record]:
    """The rows of the input, of which each has these columns. See `records_of`."""
    if options.texts and options.id_column is not None:
        raise UsageError("--id-column names a column of --file. Texts as arguments have none.")
    return records_of(options, options.id_column, *columns)
