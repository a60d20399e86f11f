"""Commands that run a model with a head: classify, entities, answer, rerank and fill-mask."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from minibert.cli.loading import head_of
from minibert.cli.options import (
    add_device,
    add_fields,
    add_model,
    add_options,
    add_results,
    add_table,
    add_texts,
    refuse_options,
    table_of,
)
from minibert.cli.parser import Once, Parser, command
from minibert.cli.results import ResultPrinter, UsageError, claim_rows, report
from minibert.cli.texts import (
    check_files,
    count_texts,
    count_truncated,
    has_pipe,
    place_of,
    rows_of,
    rows_of_arguments,
    shown_place,
    truncations,
)
from minibert.tasks.options import AnswerOptions, TagOptions
from minibert.text import Row, Table, read
from minibert.text.formats import ROW_WRITERS
from minibert.text.write import write_rows
from minibert.util.checks import amount
from minibert.util.progress import Progress, is_watched

logger = logging.getLogger("minibert")

BATCH_ROWS = 1024  # rows that are sorted by length and packed together
BATCH_MASKED = 64  # the logits of a [MASK] are as many as the vocabulary has words
MAX_BLANK = 64  # characters of a text that is checked for a word before the model runs

Predict = Callable[["list[Row]"], list[dict[str, Any]]]


# --- what classify, entities and answer share


def _add_prediction_options(parser: Parser, what: str, *columns: str) -> None:
    """Texts in, a model, and results out."""
    add_texts(parser, f"Text {what}. Several may be given.", "id", *columns)
    add_model(parser, default=None, required=True)
    add_options(parser, "--backend")
    add_device(parser, "precision")
    add_options(
        parser,
        "--output",
        type=str,  # a URI, too
        help=f"File to write ({', '.join(ROW_WRITERS)}), with the columns of the input. "
        "Default: stdout.",
    )
    add_options(parser, "--output-encoding", "--force")
    add_results(parser)


def _rows_of_input(options: argparse.Namespace, *columns: str | None) -> Iterator[Row]:
    """The rows of the input, of which each has these columns. Checks the output before."""
    if options.output is not None:
        refuse_options(options, ("jsonl",), "prints results, but --output writes them: drop one.")
        claim_rows(options.output, options.force, options.output_encoding)
    else:
        reason = "is for a file, but the results are printed: name it by --output, or drop this."
        refuse_options(options, ["output_encoding"], reason)
    return rows_of(options, *columns)


def _show_predictions(
    options: argparse.Namespace,
    rows: Iterator[Row],
    predict: Predict,
    describe: Callable[[dict[str, Any]], list[str]],
) -> None:
    """Predict in batches, and print or write each row with what was predicted for it.

    Args:
        options: The command's.
        rows: The rows of the input.
        predict: Returns the new columns of each of some rows.
        describe: A result in lines, as a person reads it.
    """
    several = options.file is not None or len(options.texts) > 1
    total = count_texts(options)
    with Progress(is_watched(options.output is None), total) as progress, truncations() as long:

        def results() -> Iterator[tuple[Row, dict[str, Any]]]:
            is_first = True
            while batch := list(islice(rows, BATCH_ROWS)):
                for row, result in zip(batch, predict(batch), strict=True):
                    replaced = [name for name in row.values if name in result]
                    if is_first and replaced:
                        logger.warning(
                            "the output replaces columns of the input (%s): rename what you want "
                            "to keep.",
                            ", ".join(replaced),
                        )
                    is_first = False
                    yield row, {**row.values, **result}
                progress.add(len(batch))

        if options.output is not None:
            rows_of_file = (result for _, result in results())
            count = write_rows(options.output, rows_of_file, options.output_encoding)
            truncated = count_truncated(long, count)
            content = {"output": options.output, "rows": count, "truncated": truncated}
            report(options, content, f"{amount(count, 'row')} written to {options.output}.")
            return
        with ResultPrinter(options) as printer:
            for row, result in results():
                heading = [row.text] if several else []
                printer.show(result, "\n".join([*heading, *describe(result)]))
            printer.more = {"truncated": count_truncated(long, printer.count)}


# --- minibert classify


def add_classify(parser: Parser) -> None:
    _add_prediction_options(parser, "to classify", "pair")
    parser.add_argument(
        "--pair",
        action=Once,
        metavar="TEXT",
        help="Second text, for a model that compares two.",
    )
    add_options(parser, "--max-length")
    add_options(
        parser,
        "--top-k",
        help="Number of labels for each text, best first. Default: 1, or for a model "
        "with several labels a text, those that reach --threshold.",
    )
    add_options(
        parser,
        "--threshold",
        help="Smallest probability of a label that is shown. Default: for a model with several "
        "labels a text the thresholds that fine-tuning kept with it, or 0.5.",
    )


@command('--model out/labels "A wonderful film."', add_classify)
def classify(options: argparse.Namespace) -> None:
    """Label texts with a fine-tuned classifier, or score them with a regression."""
    if options.pair is not None and options.pair_column is not None:
        raise UsageError("give --pair or --pair-column, not both.")
    rows = _rows_of_input(options)
    classifier = head_of(options, "classifier")
    from minibert.encoders.arithmetic.scoring import class_activation
    from minibert.tasks.thresholds import thresholds_of

    activation = class_activation(classifier.config)
    is_number = activation == "Identity"
    has_several = activation == "Sigmoid"
    if is_number:
        refuse_options(
            options, ["threshold"], "is for labels, but this model gives numbers: drop it."
        )
    names = classifier.labels
    top_k = options.top_k
    thresholds = dict.fromkeys(names, -math.inf)
    if options.threshold is not None:
        thresholds = dict.fromkeys(names, options.threshold)
    elif top_k is None and has_several:
        thresholds = dict(zip(names, thresholds_of(classifier.config).tolist(), strict=True))
    elif top_k is None:
        top_k = 1

    def predict(rows: list[Row]) -> list[dict[str, Any]]:
        pairs = None
        if options.pair is not None:
            pairs = [options.pair] * len(rows)
        elif options.pair_column is not None:
            pairs = [str(row.pair) for row in rows]
        results = []
        for scores, is_truncated in classifier.scored([row.text for row in rows], pairs):
            labels = [label for label in scores if label["score"] >= thresholds[label["label"]]][
                :top_k
            ]
            best = labels[0] if labels else {"label": None, "score": None}
            columns: dict[str, Any] = {"predicted": best["label"], "score": best["score"]}
            if is_number:
                columns = {"predicted": best["score"]}
            elif has_several:
                columns = {"predicted": [label["label"] for label in labels]}
            result = {**columns, "labels": labels}
            if is_truncated and options.output is None:  # a file has the same columns
                result["truncated"] = True
            results.append(result)
        return results

    def describe(result: dict[str, Any]) -> list[str]:
        if is_number:
            return [f"{label['score']:.4f}" for label in result["labels"]]
        return [f"{label['score']:.4f}  {label['label']}" for label in result["labels"]]

    _show_predictions(options, rows, predict, describe)


# --- minibert entities


def add_entities(parser: Parser) -> None:
    _add_prediction_options(parser, "to tag")
    parser.add_argument(
        "--stride",
        type=int,
        metavar="N",
        help="Number of tokens that neighboring windows of a long text share. Default: a quarter.",
    )
    add_fields(parser, TagOptions, "by_piece")


@command('--model out/names "Ada Lovelace lived in London."', add_entities)
def entities(options: argparse.Namespace) -> None:
    """Find names and other labeled spans in texts, with a fine-tuned tagger."""
    rows = _rows_of_input(options)
    tagger = head_of(options, "tagger")

    def predict(rows: list[Row]) -> list[dict[str, Any]]:
        texts = [row.text for row in rows]
        spans = tagger.find_entities(texts, options.stride, options.by_piece)
        return [{"entities": list(entities)} for entities in spans]

    def describe(result: dict[str, Any]) -> list[str]:
        lines = []
        for entity in result["entities"]:
            place = f"{entity['start']}-{entity['end']}"
            label = entity["entity_group"]
            lines.append(f"{entity['score']:.4f}  {label:<8}  {place:>9}  {entity['word']}")
        return lines

    _show_predictions(options, rows, predict, describe)


# --- minibert answer


def add_answer(parser: Parser) -> None:
    _add_prediction_options(parser, "that may hold the answer")
    parser.add_argument(
        "--question", action=Once, metavar="TEXT", help="Question to answer in every text."
    )
    parser.add_argument(
        "--question-column", metavar="NAME", help="Column of a question for each text."
    )
    add_fields(parser, AnswerOptions, "no_answer", "no_answer_threshold", "max_answer_length")


@command(
    '--model out/answers --question "Where did she live?" "She lived in London."',
    add_answer,
)
def answer(options: argparse.Namespace) -> None:
    """Find the answer to a question in texts, with a fine-tuned model."""
    if (options.question is None) == (options.question_column is None):
        raise UsageError("give --question, or --question-column for a table with questions.")
    if options.question is not None:
        rows_of_arguments([options.question], Table(), "question")
    rows = _rows_of_input(options, options.question_column)
    answerer = head_of(options, "answers")

    def predict(rows: list[Row]) -> list[dict[str, Any]]:
        questions = [options.question] * len(rows)
        if options.question_column is not None:
            questions = [str(row.values[options.question_column]) for row in rows]
        texts = [row.text for row in rows]
        for row, text in zip(rows, texts, strict=True):
            if len(text) <= MAX_BLANK and not answerer.tokenizer.tokenize(text):
                raise ValueError(
                    f"{row.place}: {text!r} has no word, and so no answer. Leave it out."
                )
        answers = answerer.answer(
            questions,
            texts,
            max_answer_length=options.max_answer_length,
            no_answer=options.no_answer,
            no_answer_threshold=options.no_answer_threshold,
        )
        return [dict(answer) for answer in answers]

    def describe(result: dict[str, Any]) -> list[str]:
        place = f"{result['start']}-{result['end']}"
        return [f"{result['score']:>8.4f}  {place:>9}  {result['answer'] or '(no answer)'}"]

    _show_predictions(options, rows, predict, describe)


# --- minibert rerank


def add_rerank(parser: Parser) -> None:
    parser.add_argument("query", metavar="QUERY", help="Text that the others should answer.")
    add_options(
        parser,
        "--file",
        action=Once,
        help="Texts to sort: a text a line, or a table. Default: stdin.",
    )
    add_table(parser, "id")
    add_model(parser, default=None, required=True)
    add_options(parser, "--backend", "--max-length")
    add_device(parser, "precision")
    add_options(parser, "--top-k", default=10, help="Number of texts to show.")
    add_results(parser)


@command(
    '"Where is Paris?" --file lines.txt --model cross-encoder/ms-marco-MiniLM-L6-v2',
    add_rerank,
)
def rerank(options: argparse.Namespace) -> None:
    """Sort texts by their relevance to a query, with a cross-encoder."""
    (query,) = rows_of_arguments([options.query], Table(), "query")
    if options.file is None and not has_pipe():
        raise UsageError("no text given: name a file by --file, or pass texts through a pipe.")
    file = options.file or "-"
    check_files([file])
    rows = list(read(file, table_of(options)))
    texts = [row.text for row in rows]
    encoder = head_of(options, "reranker")
    with truncations() as long:
        ranking = encoder.rank(query.text, texts, options.top_k)
    with ResultPrinter(options) as results:
        results.more = {"truncated": count_truncated(long, len(rows))}
        for entry in ranking:
            index = entry["corpus_id"]
            row = rows[index]
            result = {**place_of(row, index + 1), "score": entry["score"], "text": row.text}
            place = shown_place(row, file)
            results.show(result, f"{entry['score']:.4f}  {place:>6}  {row.text}")


# --- minibert fill-mask


def add_fill_mask(parser: Parser) -> None:
    add_texts(parser, "Text with one [MASK] or more. Several texts may be given.")
    add_model(parser)
    add_device(parser)
    add_options(parser, "--top-k", default=5, help="Number of predictions for each [MASK].")
    add_results(parser)


@command('"Paris is the [MASK] of France."', add_fill_mask)
def fill_mask(options: argparse.Namespace) -> None:
    """Predict the words behind [MASK] in texts."""
    texts = [row.text for row in rows_of(options, texts_alone=True)]
    filler = head_of(options, "masked")
    predictions: list[Any] = []
    with Progress(is_watched(), len(texts)) as progress:
        for start in range(0, len(texts), BATCH_MASKED):
            batch = texts[start : start + BATCH_MASKED]
            predictions += filler.fill_mask(batch, options.top_k)
            progress.add(len(batch))
    with ResultPrinter(options) as results:
        for text, masks in zip(texts, predictions, strict=True):
            lines = [text] if len(texts) > 1 else []
            for number, guesses in enumerate(masks, 1):
                if len(masks) > 1:
                    lines.append(f"{filler.tokenizer.mask_token} {number}")
                lines += [f"{guess['score']:.4f}  {guess['token_str']}" for guess in guesses]
            results.show({"text": text, "masks": masks}, "\n".join(lines))
