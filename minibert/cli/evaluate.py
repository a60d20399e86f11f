"""`minibert evaluate`: how good a fine-tuned model is on labeled data."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, get_args

from minibert.cli.loading import check_backend, check_device, source_of
from minibert.cli.options import (
    add_device,
    add_fields,
    add_model,
    add_options,
    add_table,
    keywords_of,
    refuse_options,
)
from minibert.cli.parser import Parser, command
from minibert.cli.results import UsageError, claim_picture, claim_rows, print_json
from minibert.cli.texts import check_files
from minibert.tasks import TaskName
from minibert.tasks.options import AnswerOptions, TagOptions
from minibert.text.formats import ROW_WRITERS
from minibert.util.checks import amount

if TYPE_CHECKING:
    from minibert.tasks.evaluation import Evaluation

EVALUATED = ("embedder", "classifier", "tagger", "answers")
MAX_CONFUSION = 12  # labels in a confusion matrix that a terminal shows


def add(parser: Parser) -> None:
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="FILE",
        help="Labeled file, as for minibert finetune. MODEL FILE names the model as well.",
    )
    add_model(parser, default=None)
    parser.add_argument(
        "--task", choices=get_args(TaskName), help="What to measure. Default: what the model does."
    )
    add_table(parser, "pair", "label", "id")
    parser.set_defaults(label_column="label")
    add_options(parser, "--label-columns", "--negative-column", "--backend")
    add_device(parser)
    add_options(parser, "--skip-bad-rows", "--max-length")
    add_options(
        parser,
        "--threshold",
        help="Probability from which a label counts as predicted. With one label a text, its "
        "coverage is reported, and the accuracy of what it covers. Default: of several labels the "
        "thresholds that fine-tuning kept with the model, or 0.5.",
    )
    add_fields(parser, TagOptions, "by_piece")
    add_fields(parser, AnswerOptions, "no_answer", "no_answer_threshold", "max_answer_length")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="Further score to report: matthews, auc, f1_micro, or f1:CLASS of one class. May be "
        "repeated.",
    )
    parser.add_argument(
        "--bootstrap",
        type=int,
        default=1000,
        metavar="N",
        help="Number of resamples for the 95%% intervals (0: no intervals).",
    )
    parser.add_argument(
        "--errors",
        metavar="FILE",
        help="File for the wrong predictions, the most confident first "
        f"({', '.join(ROW_WRITERS)}).",
    )
    add_options(
        parser,
        "--plot",
        help="Picture of the confusion matrix, or of the scores (.png, .svg, .pdf).",
    )
    add_options(parser, "--output-encoding", "--force", "--json")


@command("--model out/labels dev.tsv --errors errors.jsonl", add)
def evaluate(options: argparse.Namespace) -> None:
    """Score a fine-tuned model on labeled data, with intervals and errors."""
    file = _model_and_file(options)
    check_files([file], folders=False)
    if options.errors is not None:
        claim_rows(options.errors, options.force, options.output_encoding)
    else:
        refuse_options(
            options, ["output_encoding"], "is for --errors: name its file, or drop this."
        )
    if options.plot is not None:
        claim_picture(options.plot, options.force)
    device = check_device(options.device, options.backend)
    model = _load(options, device)
    from minibert.tasks.evaluation import evaluate

    result = evaluate(model, None, file, **keywords_of(evaluate, options))
    if options.errors is not None:
        from minibert.tasks.task import Mistake
        from minibert.text.write import write_rows

        columns = [column.name for column in fields(Mistake)]
        # rows count from 1 in the file, as lines do
        rows = ({**asdict(mistake), "row": mistake.row + 1} for mistake in result.errors)
        write_rows(options.errors, rows, options.output_encoding, columns)
    if options.plot is not None:
        plot(result, options.plot)
    if options.json:
        content = {"model": options.model, "file": file, **result.to_dict()}
        print_json({**content, "output": options.errors or options.plot})
    else:
        print(describe(result))
        for path in (options.errors, options.plot):
            if path is not None:
                print(f"{path} written.")


def _model_and_file(options: argparse.Namespace) -> str:
    """The file. Also sets the model, where the positional arguments name it."""
    *models, file = options.inputs
    if len(models) > 1:
        raise UsageError(f"unexpected argument {file!r}: give one file.")
    if models and options.model is not None:
        raise UsageError("the model is named twice: drop --model or the first argument.")
    if models:
        options.model = models[0]
    if options.model is None:
        raise UsageError("name the model: minibert evaluate --model MODEL FILE.")
    return str(file)


def _load(options: argparse.Namespace, device: str) -> Any:
    """The embedder, or the model with its head."""
    source = source_of(options)
    check_backend(source, options.backend)
    from minibert.encoders.folders.checkpoint import Checkpoint
    from minibert.encoders.folders.kinds import NOUN_OF_KIND
    from minibert.encoders.text_models import load_text_model

    checkpoint = Checkpoint(source, options.backend)
    kind = checkpoint.kind
    if kind == "reranker":
        kind = "classifier"  # scores of pairs are evaluated as its logits
    if kind not in EVALUATED:
        raise ValueError(
            f"{options.model} has no head to evaluate: it is {NOUN_OF_KIND[kind]}. "
            "minibert finetune trains one."
        )
    return load_text_model(checkpoint, kind, device=device)


def describe(result: Evaluation) -> str:
    """The scores in tables."""
    rows = amount(result.rows, "row")
    if result.task == "reranking":
        rows = amount(result.rows, "query", "queries")
    heading = f"{result.task}, {rows}"
    if result.candidates is not None:
        heading += f", ranked among {amount(result.candidates, 'text')} each"
    if result.task not in ("regression", "scores"):  # every number is a little off
        heading += f", {amount(len(result.errors), 'error')}"
    lines = [heading, ""]
    for name, value in result.metrics.items():
        interval = ""
        if name in result.intervals:
            low, high = result.intervals[name]
            interval = f"   95% interval {low:.4f} to {high:.4f}"
        lines.append(f"{name:<16} {value:>8.4f}{interval}")
    if result.classes:
        lines += ["", *_class_table(result.classes)]
    if result.confusion and 1 < len(result.labels) <= MAX_CONFUSION:
        lines += ["", *_confusion_table(result)]
    return "\n".join(lines)


def _class_table(classes: list[Any]) -> list[str]:
    rows = [asdict(row) for row in classes]
    names = list(rows[0])
    lines = ["".join(f"{name:>12}" for name in names)]
    for row in rows:
        cells = [
            f"{value:>12.4f}" if isinstance(value, float) else f"{value:>12}"
            for value in row.values()
        ]
        lines.append("".join(cells))
    return lines


def _confusion_table(result: Evaluation) -> list[str]:
    width = max(6, *(len(label) for label in result.labels)) + 2
    lines = ["labels in rows, predictions in columns"]
    lines.append(" " * width + "".join(f"{label:>{width}}" for label in result.labels))
    for label, counts in zip(result.labels, result.confusion, strict=True):
        lines.append(f"{label:>{width}}" + "".join(f"{count:>{width}}" for count in counts))
    return lines


def plot(result: Evaluation, path: str) -> None:
    """Draws the confusion matrix, or the scores with their intervals where there is none."""
    from minibert.util.extras import need

    figure = need("matplotlib.figure", "plot", "Drawing scores").Figure(layout="constrained")
    axes = figure.add_subplot()
    if result.confusion:
        axes.imshow(result.confusion, cmap="Blues")
        places = range(len(result.labels))
        axes.set_xticks(places, result.labels, rotation=90)
        axes.set_yticks(places, result.labels)
        axes.set(xlabel="predicted", ylabel="label")
        for row in places:
            for column in places:
                count = result.confusion[row][column]
                axes.text(column, row, str(count), ha="center", va="center")
    else:
        axes.bar(list(result.metrics), list(result.metrics.values()))
        axes.tick_params(axis="x", rotation=90)
    figure.savefig(path)
