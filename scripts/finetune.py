"""Fine-tunes a checkpoint to classify texts, score them, tag their words, or answer questions.

    python scripts/finetune.py classification --model minibert-tiny --train train.tsv --dev dev.tsv \
        --text sentence --label label --output out/sst2
    python scripts/finetune.py regression --train a.tsv --dev b.tsv --text sentence1 --pair sentence2 --label score ...
    python scripts/finetune.py tokens --train train.conll --dev dev.conll ...
    python scripts/finetune.py answers --train train.json --dev dev.json --max-length 384 ...

Tables are tsv, csv or jsonl with named columns; `--columns` names them for a file without a header line. The best
model of the run lies in OUTPUT/best, scores and losses in OUTPUT/log.jsonl. Needs `pip install 'minibert[train]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from minibert.training.finetuning import AnswerTask, SequenceTask, Task, TokenTask, finetune
from minibert.training.loop import TrainingOptions


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fine-tunes a BERT checkpoint.")
    parser.add_argument("task", choices=["classification", "regression", "tokens", "answers"])
    parser.add_argument("--model", default="minibert-tiny", help="folder, bundled model or Hub id")
    parser.add_argument("--train", required=True, help="file to learn from")
    parser.add_argument("--dev", required=True, help="file to measure with")
    parser.add_argument("--output", required=True, help="folder for the state, the log and the best model")
    parser.add_argument("--text", default="text", help="column of the text")
    parser.add_argument("--pair", help="column of the second text")
    parser.add_argument("--label", default="label", help="column of the label")
    parser.add_argument("--columns", help="names of the columns, separated by commas, for files without a header")
    parser.add_argument("--delimiter", type=lambda name: {"tab": "\t"}.get(name, name), help="such as tab")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--warmup", type=float, default=0.1, help="share of the steps (default: %(default)s)")
    parser.add_argument("--evaluate-every", type=int, default=0, help="steps (default: once an epoch)")
    parser.add_argument("--save-every", type=int, default=0, help="steps between saved states (default: evaluations)")
    parser.add_argument("--patience", type=int, default=0, help="stop after so many evaluations without a better one")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--sharded", action="store_true", help="share the weights out to the processes, too (FSDP2)")
    parser.add_argument("--tensorboard", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def task_of(options: argparse.Namespace) -> Task:
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


def main() -> None:
    options = parse()
    names = ("epochs", "batch_size", "learning_rate", "warmup", "evaluate_every", "save_every", "patience", "bf16")
    training = TrainingOptions(**{name: getattr(options, name) for name in (*names, "sharded", "tensorboard", "seed")})
    scores = finetune(
        task_of(options),
        options.model,
        options.train,
        options.dev,
        options.output,
        training,
        max_length=options.max_length,
        resume=options.resume,
    )
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps(scores))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("DEBUG"):
            raise
        sys.exit(f"finetune.py: {error}")
