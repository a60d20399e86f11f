"""`minibert rerank`: texts in the order in which a cross-encoder finds them relevant to a query."""

from __future__ import annotations

import argparse
from typing import Any

from minibert.cli.loading import check_device, check_kind, precision_of, source_of
from minibert.cli.options import (
    add_backend,
    add_device,
    add_id_column,
    add_json,
    add_max_length,
    add_model,
    add_precision,
    add_table_format,
    add_text_column,
    add_top_k,
)
from minibert.cli.parser import Parser
from minibert.cli.predicting import load_onnx_head
from minibert.cli.results import ResultPrinter, UsageError
from minibert.cli.texts import checked_texts, column_of, records_of_file

SUMMARY = "Sort texts by their relevance to a query, with a cross-encoder."
EXAMPLE = '"Where is Paris?" --file lines.txt --model cross-encoder/ms-marco-MiniLM-L6-v2'


def add(parser: Parser) -> None:
    parser.add_argument("query", metavar="QUERY", help="Text that the others should answer.")
    parser.add_argument(
        "--file",
        metavar="FILE",
        default="-",
        help="Texts to sort: a text a line, or a table. - reads stdin.",
    )
    add_text_column(parser)
    add_table_format(parser)
    add_id_column(parser)
    add_model(parser, default=None, required=True)
    add_backend(parser)
    add_device(parser)
    add_precision(parser)
    add_max_length(parser)
    add_top_k(parser, 10, "Number of texts to show.")
    add_json(parser, lines=True)


def run(options: argparse.Namespace) -> None:
    query = checked_texts([options.query], "query")[0]
    if options.top_k < 1:
        raise UsageError(f"--top-k should be 1 or more, not {options.top_k}.")
    records = list(records_of_file(options, options.file, options.id_column))
    texts = [record[column_of(options)] for record in records]
    device = check_device(options.device, options.backend)
    with ResultPrinter(options) as results:
        for entry in _rank(options, query, texts, device):
            row = entry["corpus_id"]
            result = {"row": row + 1, "score": entry["score"], "text": texts[row]}
            place = row + 1
            if options.id_column is not None:
                place = records[row][options.id_column]
                result["id"] = place
            results.show(result, f"{entry['score']:.4f}  {place:>6}  {texts[row]}")


def _rank(options: argparse.Namespace, query: str, texts: list[str], device: str) -> list[Any]:
    """The best texts, with their index and score."""
    if options.backend == "onnx":
        head = load_onnx_head(options)
        if head.config.num_labels != 1:
            raise ValueError(f"ranking needs a model with one label, not {head.config.num_labels}.")
        scores = head.scores([(query, text) for text in texts])[:, 0]
        best = (-scores).argsort(kind="stable")[: options.top_k].tolist()
        return [{"corpus_id": index, "score": float(scores[index])} for index in best]
    source = source_of(options)
    check_kind(source, "torch")
    from minibert.encoders.rerank import CrossEncoder

    encoder = CrossEncoder.from_pretrained(
        source,
        precision=precision_of(options),
        max_length=options.max_length,
        device=device,
    )
    return list(encoder.rank(query, texts, options.top_k))
