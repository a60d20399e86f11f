"""Cross-validates a classifier: its mean score on unseen rows, and the standard deviation.

    python scripts/k_fold.py minibert-en rows.tsv out --text sentence --label label --folds 5

Each fold is scored by a model that is trained on all other folds. FOLDER/errors.jsonl has the rows
that such a model labels otherwise, the most confident first: wrong labels are among them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from minibert.encoders.auto import load_with_heads
from minibert.tasks.evaluation import evaluate
from minibert.tasks.sequence import SequenceTask
from minibert.text import Table
from minibert.text.write import write_rows
from minibert.training.finetuning import finetune
from minibert.training.options import TrainingOptions


def k_fold(
    model: str, path: str, folder: str, folds: int, task: SequenceTask, options: TrainingOptions
) -> list[float]:
    """Fine-tunes and scores a model for each fold.

    Args:
        model: Name of the model that is fine-tuned.
        path: Table of the rows.
        folder: New folder for the rows and the model of each fold.
        folds: Number of folds.
        task: The task, with the names of the columns.
        options: Options of training.

    Returns:
        The score of each fold.
    """
    rows = task.read(path)
    scores = []
    errors = []
    parts = np.array_split(np.random.default_rng(options.seed).permutation(len(rows)), folds)
    for number, part in enumerate(parts):
        fold = Path(folder, str(number))
        fold.mkdir(parents=True)
        others = np.concatenate([other for other in parts if other is not part])
        for name, indices in (("train", others), ("dev", part)):
            lines = [json.dumps(rows[index].values) + "\n" for index in indices.tolist()]
            (fold / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        files = fold / "train.jsonl", fold / "dev.jsonl"
        results = finetune(task, model, *files, fold / "model", options)
        scores.append(results[options.metric or task.metrics[0]])
        evaluation = evaluate(*load_with_heads(fold / "model"), files[1], task=task, bootstrap=0)
        for error in evaluation.errors:
            values = rows[part[error.row]].values
            errors.append({**values, "predicted": error.predicted, "score": error.score})
    errors.sort(key=lambda error: -error["score"])
    write_rows(str(Path(folder, "errors.jsonl")), errors)
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="Folder, bundled model or Hub id to fine-tune.")
    parser.add_argument("rows", help="Table of texts and labels.")
    parser.add_argument("folder", help="New folder for the rows and the model of each fold.")
    parser.add_argument("--text", default="text", help="Column of the text.")
    parser.add_argument("--label", default="label", help="Column of the label.")
    parser.add_argument("--folds", type=int, default=5, help="Number of folds (default: 5).")
    arguments = parser.parse_args()
    scores = k_fold(
        arguments.model,
        arguments.rows,
        arguments.folder,
        arguments.folds,
        SequenceTask(Table(arguments.text, label=arguments.label)),
        TrainingOptions(),
    )
    mean, deviation = np.mean(scores), np.std(scores, ddof=1)
    print(f"{mean:.4f}, standard deviation {deviation:.4f}, of {np.round(scores, 4)}")
