r"""Searches for the best options to fine-tune a classifier, with optuna.

    pip install optuna
    python scripts/search_options.py minibert-en train.tsv dev.tsv out \
        --text sentence --label label --trials 20

Trials are stored in out/trials.db. Run the command again to continue the search. The best score is
optimistic, because it is the best of many on the same rows. Measure the chosen options once on
other rows.
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
    """Runs trials and returns the study.

    Args:
        model: Name of the model that is fine-tuned.
        train: Table of training rows.
        dev: Table of rows that score a trial.
        folder: Folder for the trials and their models.
        trials: Number of trials to add.
        task: The task, with the names of the columns.
        fixed: Training options that are the same in all trials.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)

    def score(trial: Any) -> float:
        options = {
            "learning_rate": trial.suggest_float("learning_rate", 1e-5, 5e-4, log=True),
            "batch_size": trial.suggest_categorical("batch_size", [16, 32, 64]),
            "epochs": trial.suggest_int("epochs", 2, 4),
            "layer_decay": trial.suggest_float("layer_decay", 0.8, 1.0),
        }
        output = Path(folder, f"trial-{trial.number}")
        scores = finetune(task, model, train, dev, output, TrainingOptions(**{**options, **fixed}))
        return scores[task.metric]

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
    parser.add_argument("model", help="Folder, bundled model or Hub id to fine-tune.")
    parser.add_argument("train", help="Table of training rows.")
    parser.add_argument("dev", help="Table of rows that score a trial.")
    parser.add_argument("folder", help="Folder for the trials and their models.")
    parser.add_argument("--text", default="text", help="Column of the text.")
    parser.add_argument("--label", default="label", help="Column of the label.")
    parser.add_argument("--trials", type=int, default=20, help="Number of trials (default: 20).")
    options = parser.parse_args()
    task = SequenceTask(text=options.text, label=options.label)
    best = search(options.model, options.train, options.dev, options.folder, options.trials, task)
    print(f"{best.best_value:.4f} with {best.best_params}")
