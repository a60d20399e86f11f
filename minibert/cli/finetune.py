"""`minibert finetune`: a checkpoint and files of examples in, a model for one task out.

    minibert finetune classification --train train.tsv --dev dev.tsv --text sentence --label label --output out/sst2
    minibert finetune regression --train a.tsv --dev b.tsv --text sentence1 --pair sentence2 --label score ...
    minibert finetune tokens --train train.conll --dev dev.conll ...
    minibert finetune answers --train train.json --dev dev.json --max-length 384 ...
    torchrun --nproc-per-node 8 -m minibert finetune ...       # the same batch, shared out to eight processes

Tables are tsv, csv or jsonl with named columns; `--columns` names them for a file without a header line. The best
model of the run lies in OUTPUT/best, scores and losses in OUTPUT/log.jsonl. Needs `pip install 'minibert[train]'`.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from minibert.cli.common import add_command, print_json
from minibert.cli.training import add_training_options, training_options

if TYPE_CHECKING:
    from minibert.training.finetuning import Task

TASKS = ("classification", "regression", "tokens", "answers")


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(commands, "finetune", run, "Fine-tune a checkpoint: classify, score, tag or answer.")
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--train", required=True, metavar="FILE", help="to learn from")
    parser.add_argument("--dev", required=True, metavar="FILE", help="to measure with")
    parser.add_argument("--text", default="text", metavar="COLUMN", help="of the text (default: %(default)s)")
    parser.add_argument("--pair", metavar="COLUMN", help="of the second text")
    parser.add_argument("--label", default="label", metavar="COLUMN", help="of the label (default: %(default)s)")
    parser.add_argument("--columns", metavar="A,B,...", help="names of the columns, for files without a header line")
    parser.add_argument(
        "--delimiter", type=lambda name: {"tab": "\t"}.get(name, name), help="between columns, such as tab"
    )
    parser.add_argument(
        "--max-length", type=int, default=128, metavar="N", help="most tokens of an example (default: %(default)s)"
    )
    add_training_options(parser, leave_out={"packed"})


def run(options: argparse.Namespace) -> None:
    """Runs the command."""
    from minibert.training.finetuning import finetune

    scores = finetune(
        _task(options),
        options.model,
        options.train,
        options.dev,
        options.output,
        training_options(options),
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
    from minibert.training.finetuning import AnswerTask, SequenceTask, TokenTask

    if options.task == "tokens":
        return TokenTask()
    if options.task == "answers":
        return AnswerTask()
    return SequenceTask(
        text=options.text,
        label=options.label,
        pair=options.pair,
        regression=options.task == "regression",
        columns=options.columns.split(",") if options.columns else None,
        delimiter=options.delimiter,
    )
