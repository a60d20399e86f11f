"""`minibert finetune`: a checkpoint and files of examples in, a model for one task out.

    minibert finetune classification --train train.tsv --dev dev.tsv --text sentence --label label --output out/sst2
    minibert finetune regression --train a.tsv --dev b.tsv --text sentence1 --pair sentence2 --label score ...
    minibert finetune tokens --train train.conll --dev dev.conll ...
    minibert finetune answers --train train.json --dev dev.json --max-length 384 ...
    minibert finetune pairs --train a.tsv --dev b.tsv --text question --pair answer ...      # vectors of texts
    minibert finetune triplets --train a.tsv --dev b.tsv --text question --pair answer --negative wrong ...
    minibert finetune scores --train a.tsv --dev b.tsv --text sentence1 --pair sentence2 --label score --max-score 5 ...
    torchrun --nproc-per-node 8 -m minibert finetune ...       # the same batch, shared out to eight processes

Tables are tsv, csv or jsonl with named columns; `--columns` names them for a file without a header line. The best
model of the run lies in OUTPUT/best, scores and losses in OUTPUT/log.jsonl. Needs the extra `[train]`.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from minibert.cli.common import UsageError, check_files, comma_list, report, source_of
from minibert.cli.training import add_training_options, filled, keep_options, options_of_run
from minibert.training.options import TrainingOptions

if TYPE_CHECKING:
    from minibert.training.finetuning import Task

TASKS = ("classification", "regression", "tokens", "answers", "pairs", "triplets", "scores")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", choices=TASKS, nargs="?", help="what to learn")
    parser.add_argument("--train", metavar="FILE", help="to learn from")
    parser.add_argument("--dev", metavar="FILE", help="to measure with")
    parser.add_argument("--text", default="text", metavar="COLUMN", help="of the text")
    parser.add_argument("--pair", metavar="COLUMN", help="of the second text")
    parser.add_argument("--label", default="label", metavar="COLUMN", help="of the label")
    help_ = "of texts unlike --text; may be repeated"
    parser.add_argument(
        "--negative", type=comma_list(), action="extend", default=[], metavar="A,B,...", help=help_
    )
    parser.add_argument(
        "--max-score", type=float, default=1.0, metavar="N", help="scores are divided by it"
    )
    parser.add_argument(
        "--dev-label", metavar="COLUMN", help="of the score, where --dev alone has scored pairs"
    )
    help_ = "train the first N numbers of each vector, too"
    parser.add_argument(
        "--matryoshka", type=comma_list(int), default=[], metavar="N,N,...", help=help_
    )
    parser.add_argument(
        "--pooling", type=comma_list(), help="of vectors (default: the checkpoint's)"
    )
    parser.add_argument(
        "--class-weights", action="store_true", help="a rare class counts as much as a frequent one"
    )
    parser.add_argument(
        "--columns", type=comma_list(), metavar="A,B,...", help="of files without a header line"
    )
    parser.add_argument(
        "--delimiter", type=lambda name: "\t" if name == "tab" else name, help="a character, or tab"
    )
    add_training_options(parser)


def run(options: argparse.Namespace) -> None:
    options = options_of_run(options, "train", "dev")
    if options.task is None:
        raise UsageError(f"say what to learn: {', '.join(TASKS)}.")
    how = filled(TrainingOptions, options)
    check_files([options.train, options.dev])
    source, task = source_of(options), _task(options)
    from minibert.training.finetuning import finetune

    more = {"max_length": options.max_length, "resume": options.resume}
    with keep_options(options):
        scores = finetune(task, source, options.train, options.dev, options.output, how, **more)
    if int(os.environ.get("RANK") or 0) > 0:  # torchrun's first process speaks for all
        return
    best, measured = (
        os.path.join(options.output, "best"),
        ", ".join(f"{n} {score:.4f}" for n, score in scores.items()),
    )
    report(options, {"path": best, **scores}, f"The best model is in {best}: {measured}.")


def _task(options: argparse.Namespace) -> Task:
    if options.task in (similarity := ("pairs", "triplets", "scores")) and options.pair is None:
        raise UsageError(f"{options.task} needs --pair, the column of the second text.")
    if (options.task == "triplets") != bool(options.negative):
        raise UsageError(
            "--negative names the columns of triplets, one or more, and goes with no other task."
        )
    if options.task in similarity:
        from minibert.training.pairs import SimilarityTask

        texts = {
            "anchor": options.text,
            "positive": options.pair,
            "negatives": list(dict.fromkeys(options.negative)),
        }
        score = options.label if options.task == "scores" else None
        return filled(SimilarityTask, options, **texts, score=score, dev_score=options.dev_label)
    from minibert.training.entities import TokenTask
    from minibert.training.finetuning import AnswerTask, SequenceTask

    if options.task in ("classification", "regression"):
        return filled(SequenceTask, options, regression=options.task == "regression")
    return TokenTask() if options.task == "tokens" else AnswerTask()
