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
from typing import TYPE_CHECKING, Any

from minibert.cli.common import UsageError, add_command, check_files, print_json, source_of
from minibert.cli.training import add_training_options, keep_options, options_of_run, training_options

if TYPE_CHECKING:
    from minibert.training.finetuning import Task

TASKS = ("classification", "regression", "tokens", "answers", "pairs", "triplets", "scores")


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(commands, "finetune", run, "Fine-tune: classify, score, tag, answer, or make vectors similar.")
    parser.add_argument("task", choices=TASKS, nargs="?", help="what to learn")
    parser.add_argument("--train", metavar="FILE", help="to learn from")
    parser.add_argument("--dev", metavar="FILE", help="to measure with")
    parser.add_argument("--text", default="text", metavar="COLUMN", help="of the text (default: %(default)s)")
    parser.add_argument("--pair", metavar="COLUMN", help="of the second text")
    parser.add_argument("--label", default="label", metavar="COLUMN", help="of the label (default: %(default)s)")
    parser.add_argument(
        "--negative", action="append", default=[], metavar="COLUMN", help="of a text unlike --text; may be repeated"
    )
    parser.add_argument("--max-score", type=float, default=1.0, metavar="N", help="scores are divided by it")
    parser.add_argument(
        "--dev-label", metavar="COLUMN", help="of the score, where --dev has scored pairs although --train has none"
    )
    parser.add_argument(
        "--matryoshka",
        type=lambda sizes: [int(n) for n in sizes.split(",")],
        default=[],
        metavar="N,N,...",
        help="train the first N numbers of each vector, too",
    )
    parser.add_argument("--pooling", type=lambda names: names.split(","), help="of vectors (default: the checkpoint's)")
    parser.add_argument("--class-weights", action="store_true", help="a rare class counts as much as a frequent one")
    parser.add_argument("--columns", metavar="A,B,...", help="names of the columns, for files without a header line")
    parser.add_argument(
        "--delimiter", type=lambda name: {"tab": "\t"}.get(name, name), help="between columns, such as tab"
    )
    parser.add_argument(
        "--max-length", type=int, default=128, metavar="N", help="limit of tokens an example (default: %(default)s)"
    )
    add_training_options(parser)


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    options = options_of_run(options, "train", "dev")
    if options.task is None:
        raise UsageError(f"say what to learn: {', '.join(TASKS)}.")
    how = training_options(options)
    check_files([options.train, options.dev])
    source, task = source_of(options), _task(options)
    from minibert.training.finetuning import finetune
    from minibert.training.state import check_new

    if not options.resume:
        check_new(options.output)
    keep_options(options)
    scores = finetune(
        task,
        source,
        options.train,
        options.dev,
        options.output,
        how,
        max_length=options.max_length,
        resume=options.resume,
    )
    if int(os.environ.get("RANK") or 0) > 0:  # torchrun's first process speaks for all
        return
    if options.json:
        return print_json({"path": os.path.join(options.output, "best"), **scores})
    measured = ", ".join(f"{name} {score:.4f}" for name, score in scores.items())
    print(f"The best model is in {os.path.join(options.output, 'best')}: {measured}.")


def _task(options: argparse.Namespace) -> Task:
    columns = options.columns.split(",") if options.columns else None
    if options.task in ("pairs", "triplets", "scores"):
        return _similarity(options, columns)
    if options.task == "tokens":
        from minibert.training.entities import TokenTask

        return TokenTask()
    from minibert.training.finetuning import AnswerTask, SequenceTask

    if options.task == "answers":
        return AnswerTask()
    return SequenceTask(
        text=options.text,
        label=options.label,
        pair=options.pair,
        regression=options.task == "regression",
        class_weights=options.class_weights,
        columns=columns,
        delimiter=options.delimiter,
    )


def _similarity(options: argparse.Namespace, columns: list[str] | None) -> Task:
    if options.pair is None:
        raise UsageError(f"{options.task} needs --pair, the column of the second text.")
    if (options.task == "triplets") != bool(options.negative):
        raise UsageError("--negative names the columns of triplets, one or more, and goes with no other task.")
    from minibert.training.pairs import SimilarityTask

    return SimilarityTask(
        anchor=options.text,
        positive=options.pair,
        negatives=options.negative,
        score=options.label if options.task == "scores" else None,
        max_score=options.max_score,
        dev_score=options.dev_label,
        matryoshka=options.matryoshka,
        pooling=options.pooling,
        columns=columns,
        delimiter=options.delimiter,
    )
