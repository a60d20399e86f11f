"""Looks for the options that fine-tune a classifier best, with optuna (pip install optuna).

    python scripts/search_options.py minibert-en train.tsv dev.tsv out --text sentence --label label --trials 20

Trials are kept in out/trials.db: started again, the search goes on. The best score is one of many on the same rows, and
therefore flatters: measure the chosen options once on rows that no trial has seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import optuna

from minibert.training.finetuning import SequenceTask, finetune
from minibert.training.options import TrainingOptions


def search(
    model: str, train: str, dev: str, folder: str, trials: int, task: SequenceTask, **fixed: Any
) -> Any:
    """The study after so many more trials; `fixed` options are not searched for."""
    Path(folder).mkdir(parents=True, exist_ok=True)

    def score(trial: Any) -> float:
        options = {
            "learning_rate": trial.suggest_float("learning_rate", 1e-5, 5e-4, log=True),
            "batch_size": trial.suggest_categorical("batch_size", [16, 32, 64]),
            "epochs": trial.suggest_int("epochs", 2, 4),
            "layer_decay": trial.suggest_float("layer_decay", 0.8, 1.0),
        }
        how = TrainingOptions(**{**options, **fixed})
        return finetune(task, model, train, dev, Path(folder, f"trial-{trial.number}"), how)[
            task.metric
        ]

    study = optuna.create_study(
        storage=f"sqlite:///{folder}/trials.db",
        study_name="options",
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
    )
    study.optimize(score, n_trials=trials)
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "train", "dev", "folder"):
        parser.add_argument(name)
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--trials", type=int, default=20)
    given = parser.parse_args()
    task = SequenceTask(text=given.text, label=given.label)
    best = search(given.model, given.train, given.dev, given.folder, given.trials, task)
    print(f"{best.best_value:.4f} with {best.best_params}")
