"""Cross-validation of a classifier: how good a model is on rows that it did not learn from, and how sure that is.

    python scripts/k_fold.py minibert-en rows.tsv out --text sentence --label label --folds 5

Each part of the rows is measured by a model that learned from all the others.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from minibert.training.finetuning import SequenceTask, finetune
from minibert.training.options import TrainingOptions


def k_fold(
    model: str, path: str, folder: str, folds: int, task: SequenceTask, options: TrainingOptions
) -> list[float]:
    """The score of each part; models and parts stay in `folder`."""
    rows, scores = task.read(path), []
    parts = np.array_split(np.random.default_rng(options.seed).permutation(len(rows)), folds)
    for number, part in enumerate(parts):
        own = Path(folder, str(number))
        own.mkdir(parents=True)
        others = np.concatenate([other for other in parts if other is not part])
        for name, chosen in (("train", others), ("dev", part)):
            lines = [json.dumps(rows[row]) + "\n" for row in chosen.tolist()]
            (own / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        files = own / "train.jsonl", own / "dev.jsonl"
        scores.append(finetune(task, model, *files, own / "model", options)[task.metric])
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "rows", "folder"):
        parser.add_argument(name)
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--folds", type=int, default=5)
    given = parser.parse_args()
    found = k_fold(
        given.model,
        given.rows,
        given.folder,
        given.folds,
        SequenceTask(text=given.text, label=given.label),
        TrainingOptions(),
    )
    print(
        f"{np.mean(found):.4f}, standard deviation {np.std(found, ddof=1):.4f}, of {np.round(found, 4)}"
    )
