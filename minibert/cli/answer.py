"""`minibert answer`: the part of a text that answers a question, by a fine-tuned model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from minibert.cli.parser import Parser
from minibert.cli.predicting import (
    add_prediction_options,
    check_output,
    load_in_backend,
    rows_of_input,
    run_predictions,
)
from minibert.cli.results import UsageError
from minibert.cli.texts import Record, checked_texts, column_of

if TYPE_CHECKING:
    from minibert.tokenization.tokenizer import BertTokenizer

SUMMARY = "Find the answer to a question in texts, with a fine-tuned model."
EXAMPLE = '--model out/answers --question "Where did she live?" "She lived in London."'

MAX_BLANK = 64  # characters of a text that is checked for a word before the model runs


def add(parser: Parser) -> None:
    add_prediction_options(parser, "that may hold the answer")
    parser.add_argument("--question", metavar="TEXT", help="Question to answer in every text.")
    parser.add_argument(
        "--question-column", metavar="NAME", help="Column of a question for each text."
    )
    parser.add_argument(
        "--no-answer",
        action="store_true",
        help="Allow for texts without the answer, for models trained on such questions.",
    )
    parser.add_argument(
        "--max-answer-length",
        type=int,
        default=30,
        metavar="N",
        help="Maximum number of tokens of an answer.",
    )


def run(options: argparse.Namespace) -> None:
    if (options.question is None) == (options.question_column is None):
        raise UsageError("give --question, or --question-column for a table with questions.")
    if options.question is not None:
        checked_texts([options.question], "question")
    check_output(options)
    records = rows_of_input(options, options.question_column)
    model, tokenizer = load_in_backend(options, "BertForQuestionAnswering", "answers")
    from minibert.tasks.answers import answer_question

    column = column_of(options)

    def predict(rows: list[Record]) -> list[dict[str, Any]]:
        questions = [_question(options, row) for row in rows]
        texts = [row[column] for row in rows]
        _check_have_words(rows, texts, tokenizer)
        answers = answer_question(
            model,
            tokenizer,
            questions,
            texts,
            max_answer_length=options.max_answer_length,
            no_answer=options.no_answer,
        )
        return [dict(answer) for answer in answers]

    def describe(result: dict[str, Any]) -> str:
        place = f"{result['start']}-{result['end']}"
        return f"{result['score']:>8.4f}  {place:>9}  {result['answer'] or '(no answer)'}"

    run_predictions(options, records, predict, describe)


def _check_have_words(rows: list[Record], texts: list[str], tokenizer: BertTokenizer) -> None:
    """ValueError for a text without a word, which has no answer."""
    for row, text in zip(rows, texts, strict=True):
        if len(text) <= MAX_BLANK and not tokenizer.tokenize(text):
            place = getattr(row, "place", "the text")
            raise ValueError(f"{place}: {text!r} has no word, and so no answer. Leave it out.")


def _question(options: argparse.Namespace, row: Record) -> str:
    if options.question is not None:
        return str(options.question)
    return str(row[options.question_column])
