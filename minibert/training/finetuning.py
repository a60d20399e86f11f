"""Fine-tune a checkpoint on a file of examples (paper, section 4).

    task = SequenceTask(Table("sentence", label="label"))
    finetune(task, "minibert-tiny", "train.tsv", "dev.tsv", "out/")

A `Task` of `minibert.tasks` defines how its files are read and encoded, its loss and its scores.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.rows.entity_tags import split_prefix
from minibert.tasks.head_labels import first_names
from minibert.tasks.metrics import OF_CLASS
from minibert.tasks.task import (
    Data,
    Example,
    FilePath,
    Skipped,
    Task,
    read_rows,
    rows_that_fit,
)
from minibert.text import BadRow, Row, left_out
from minibert.training.checks import check_data
from minibert.training.journal import Record
from minibert.training.options import TrainingOptions
from minibert.training.run import Run, examples_digest, learned_data
from minibert.training.state import remove_states, run_folder
from minibert.training.steps import default_learning_rate
from minibert.util.checks import amount, check_count, check_kind, warn
from minibert.util.errors import Argument, ArgumentError, Message
from minibert.util.progress import tell

IN_MEMORY = ("the training rows", "the dev rows", "the test rows")
"""What the report calls rows in memory."""


class RunScores(dict[str, float]):
    """The scores of the best model, by their names, and how it was trained.

    Attributes:
        config: Configuration of the best model, or of the last one where nothing chose.
        options: The training options, with what the task and the model have decided.
        max_length: Tokens after which examples were truncated.
    """

    config: BertConfig
    options: TrainingOptions
    max_length: int


def finetune(
    task: Task,
    checkpoint: FilePath | Source,
    train: Data,
    dev: Data | None,
    folder: FilePath,
    options: TrainingOptions | None = None,
    *,
    test: Data | None = None,
    held_out: float = 0.1,
    skip_bad_rows: bool = False,
    max_length: int = 128,
    learned: Collection[tuple[str, ...]] = (),
    resume: bool | Literal["with other data"] = False,
    callback: Callable[[Record], object] | None = None,
) -> RunScores:
    """Fine-tune a checkpoint, and save the best model on `dev` with its tokenizer in `folder`.

    The tokenizer keeps `max_length`, so predictions truncate texts as training did.

    Args:
        task: An object of `minibert.tasks`, such as a `SequenceTask`, or one of your own.
        checkpoint: Folder, bundled model or Hub id.
        train: Training file, or rows in memory: dicts of columns, or a pandas DataFrame.
        dev: Evaluation rows, which choose the best model. None: a share of the training rows is
            held out.
        folder: For the model, the states and the log.
        options: How to train.
        test: Rows to score the best model on, once at the end.
        held_out: Share of the training rows that are held out without `dev`: of each label alike,
            and of questions, pairs and equal texts whole groups. See `hold_out`. 0: none, so the
            model is that of the last step and has no score.
        skip_bad_rows: Leave out rows that are certainly wrong, and count them. Otherwise they are
            errors.
        max_length: Tokens after which an example is truncated, at most the positions of the model.
        learned: Texts of rows that the checkpoint has learned from, as of `learned_texts`. A notice
            counts those that are held out.
        resume: Continue the run in `folder`, as in `Run`.
        callback: See `Run`.

    Returns:
        The best model's scores on `dev`, and with `test` its scores there as "test_...".

    Raises:
        TypeError: `task` or `options` is something else.
        FileNotFoundError: A file or the checkpoint does not exist.
        ValueError: A file does not hold what the task needs, `folder` holds another run, or the
            task has no metric of the name in `options`.
    """
    check_kind("task", task, Task, "an object of Task")
    check_count("max_length", max_length, minimum=3)  # [CLS], a token and [SEP]
    options = options or TrainingOptions()
    has_scores = dev is not None or held_out != 0
    if not has_scores:
        _refuse_scores(options)
    options = options_of_task(options, task, dev)
    with run_folder(folder, bool(resume)) as opened:
        skipped: list[BadRow] = []
        parts = _read_parts(
            task, (train, dev, test), held_out, options.seed, skipped if skip_bad_rows else None
        )
        if dev is None:
            _tell_learned(task, parts.dev, learned, checkpoint)
        _check_metric(options.metric or "", parts, task)
        torch.manual_seed(options.seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*newly initialized: train before")  # a new head
            model, tokenizer = task.load(checkpoint, parts.train)
        positions = model.config.max_position_embeddings
        if max_length > positions:
            reason = f" is {positions}, not {max_length}: the model has no more positions"
            tell(Message(Argument("max_length"), reason))
            max_length = positions
        skip = skipped if skip_bad_rows else None
        parts = parts._replace(
            train=rows_that_fit(task, parts.train, tokenizer, max_length, skip),
            dev=rows_that_fit(task, parts.dev, tokenizer, max_length, skip),
            test=rows_that_fit(task, parts.test, tokenizer, max_length, skip),
        )
        report = check_data(
            task,
            parts.train,
            parts.dev,
            parts.test,
            names=parts.names,
            tokenizer=tokenizer,
            max_length=max_length,
            positions=positions,
        )
        if skipped:
            warn(left_out(skipped))
        tell(report.message)
        examples = task.encode(parts.train, tokenizer, model.config, max_length)
        dev_examples = task.encode(parts.dev, tokenizer, model.config, max_length)
        _tell_notices(task, parts, (examples, dev_examples), model.config)
        if task.keeps_max_length:
            tokenizer.model_max_length = max_length  # also where it was less before
        if options.learning_rate is None:
            options = with_learning_rate(options, task, model.config.hidden_size)
            tell(f"learning rate {options.learning_rate:g} (the default for this model)")

        metric = options.metric or ""
        reported = [metric] if _is_further(metric, task) else []
        candidates: int | None = None

        def measure() -> dict[str, float]:
            nonlocal candidates
            scores = task.score(parts.dev, task.predict(model, parts.dev, dev_examples))
            scores = scores.reporting(reported)
            candidates = scores.candidates
            if scores.notice:
                tell(f"notice: {scores.notice}")
            return scores.metrics

        trainer = Run(
            model,
            lambda _: examples,
            task.loss,
            Path(folder),
            options if has_scores else replace(options, metric=None),
            tokenizer=tokenizer,
            resume=resume,
            evaluate=measure if has_scores else None,
            dev=dev_examples,
            callback=callback,
        )
        trainer.train(opened)
        if candidates is not None:
            tell(f"ranked among {amount(candidates, 'text')} each: among more the scores are lower")
        scores = RunScores()
        if not has_scores:
            trainer.save_model(folder)
        best, tokenizer = task.load(Path(folder), parts.train)
        best.to(model.device)
        scores.config = best.config
        scores.options = options
        scores.max_length = max_length
        if has_scores:
            scores |= _dev_scores(task, trainer, best, parts.dev, dev_examples, reported)
        if parts.test:
            test_examples = task.encode(parts.test, tokenizer, best.config, max_length)
            test_scores = task.score(parts.test, task.predict(best, parts.test, test_examples))
            test_metrics = test_scores.reporting(reported).metrics
            scores |= {f"test_{name}": score for name, score in test_metrics.items()}
        if trainer.is_first:  # until here a run that is stopped can be resumed
            remove_states(folder, options.keep_states)
    return scores


def learned_texts(
    task: Task,
    folder: FilePath,
    train: FilePath,
    *,
    held_out: float,
    seed: int,
    skip_bad_rows: bool,
    max_length: int,
) -> set[tuple[str, ...]]:
    """The texts of the rows that the run in a folder has learned from.

    Args:
        task: Of the run, as are the other arguments.
        folder: Of the run.
        train: Its training file.
        held_out: The share that was held out of it. 0: none.
        seed: Seed of this choice.
        skip_bad_rows: Bad rows were left out.
        max_length: Tokens after which an example was truncated.

    Returns:
        The texts of each row. Empty if the file does not give the examples of the last state of the
        run: the file has changed, or the run has kept no state.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file does not hold what the task needs, or the state is damaged.
    """
    data = learned_data(folder)
    if data is None:
        return set()
    skip: Skipped = [] if skip_bad_rows else None
    rows = read_rows(task, train, skip=skip)
    if held_out:
        rows, _ = _hold_out_rows(task, rows, held_out, seed)
    model, tokenizer = task.load(folder, rows)
    max_length = min(max_length, model.config.max_position_embeddings)
    rows = rows_that_fit(task, rows, tokenizer, max_length, skip)
    if examples_digest(task.encode(rows, tokenizer, model.config, max_length)) != data:
        return set()
    return {task.texts_of(row) for row in rows}


def _tell_learned(
    task: Task,
    held_rows: Sequence[Row],
    learned: Collection[tuple[str, ...]],
    checkpoint: FilePath | Source,
) -> None:
    """Tell how many of the held-out rows the checkpoint has learned from."""
    count = sum(task.texts_of(row) in learned for row in held_rows)
    if count:
        name = checkpoint.name if isinstance(checkpoint, Source) else checkpoint
        tell(
            Message(
                f"notice: {count:,} of the {amount(len(held_rows), 'row')} that are held out were "
                f"in the training data of {name}, so the scores will be too good. Pass rows that "
                "it has not learned from as ",
                Argument("dev"),
                ".",
            )
        )


def _tell_notices(
    task: Task, parts: Parts, encoded: Sequence[Sequence[Example]], config: BertConfig
) -> None:
    """Tell what may be a mistake in the training and the dev rows, each sentence once."""
    files: dict[str, list[str]] = {}
    for name, rows, examples in zip(parts.names, (parts.train, parts.dev), encoded, strict=False):
        for notice in task.notices(rows, examples, config):
            files.setdefault(notice, []).append(name)
    for notice, names in files.items():
        tell(Message(f"notice: {' and '.join(names)}: ", notice))


def _dev_scores(
    task: Task,
    trainer: Run,
    best: Any,
    rows: Sequence[Row],
    examples: Sequence[Example],
    reported: Sequence[str],
) -> dict[str, float]:
    """The scores of the best model, whose config keeps what the task has calibrated."""
    scores = dict(trainer.best_scores)
    predictions = task.calibrate(best, rows, examples)
    if predictions is not None and trainer.is_first:
        best.config.save_pretrained(trainer.folder)
    if predictions is None and not scores:  # resumed with another dev file, and no step left
        predictions = task.predict(best, rows, examples)
    if predictions is None:
        return scores
    return task.score(rows, predictions).reporting(reported).metrics


def _refuse_scores(options: TrainingOptions) -> None:
    """Raise an ArgumentError for an option that needs rows to score the model on."""
    for name in ("metric", "patience", "evaluate_every"):
        if getattr(options, name):
            raise ArgumentError(name, "needs scores, but no row is held out: drop it.")


class Parts(NamedTuple):
    """The rows of a training: those to train on, to choose the best model, and to score it.

    Attributes:
        train: At least one.
        dev: Empty where nothing is held out.
        test: May be empty.
        names: Of the three, for reports.
    """

    train: list[Row]
    dev: list[Row]
    test: list[Row]
    names: list[str]


def _check_metric(metric: str, parts: Parts, task: Task) -> None:
    """Raise an ArgumentError for a metric that cannot choose, as of a class without dev rows."""
    labels = {label for row in parts.dev or parts.train for label in task.labels_of(row)}
    classes = labels | {split_prefix(label)[1] for label in labels}
    if metric.startswith(OF_CLASS) and metric.removeprefix(OF_CLASS) not in classes:
        known = first_names(sorted(classes))
        data = parts.names[1] if parts.dev else parts.names[0]
        raise ArgumentError("metric", f"is {metric!r}, but the classes of {data} are {known}.")
    if parts.dev and (fault := task.choice_fault(parts.dev, metric)):
        raise ArgumentError("metric", f"{metric} {fault}")


def _read_parts(
    task: Task,
    data: tuple[Data, Data | None, Data | None],
    held_out: float,
    seed: int,
    skip: Skipped,
) -> Parts:
    """Read the training data, and the dev and test data or what is held out.

    Args:
        task: Reads the rows.
        data: The three parts.
        held_out: Share of the training rows to hold out without dev data.
        seed: Seed of this choice.
        skip: Receives bad rows.
    """
    train, dev, test = data
    names = [
        str(part) if isinstance(part, str | os.PathLike) else name
        for part, name in zip(data, IN_MEMORY, strict=True)
    ]
    train_rows = read_rows(task, train, skip=skip)
    test_rows = [] if test is None else read_rows(task, test, True, skip)
    if dev is not None:
        return Parts(train_rows, read_rows(task, dev, True, skip), test_rows, names)
    if held_out == 0:
        tell(f"training on all rows of {names[0]}: the model has no score")
        return Parts(train_rows, [], test_rows, names)
    if len(train_rows) == 1:
        words = sum(len(text.split()) for text in task.texts_of(train_rows[0]))
        raise ValueError(
            f"{names[0]} is {task.row_name} of {amount(words, 'word')}, so nothing can be held "
            f"out: {task.row_advice}pass a dev file."
        )
    train_rows, dev_rows = _hold_out_rows(task, train_rows, held_out, seed)
    tell(f"no dev file: holding out {amount(len(dev_rows), 'row')} of {names[0]}")
    return Parts(train_rows, dev_rows, test_rows, [names[0], "the held-out rows", names[2]])


def _hold_out_rows(
    task: Task, rows: Sequence[Row], share: float, seed: int
) -> tuple[list[Row], list[Row]]:
    """As `hold_out`, by the labels and the groups of the task."""
    labels = [task.labels_of(row) for row in rows]
    groups = [task.group_of(row) for row in rows]
    return hold_out(rows, labels, share, seed, groups)


def with_learning_rate(options: TrainingOptions, task: Task, hidden_size: int) -> TrainingOptions:
    """The options with the default learning rate of the task or of the model, if they have none."""
    if options.learning_rate is not None:
        return options
    rate = task.learning_rate or default_learning_rate(hidden_size)
    return replace(options, learning_rate=rate)


def options_of_task(options: TrainingOptions, task: Any, dev: Data | None) -> TrainingOptions:
    """The options with those that the task decides, and with the score that chooses the model."""
    check_kind("options", options, TrainingOptions, "TrainingOptions")
    # the model card and the state of a run list all of them by name
    taken = {one.name for kind in (TrainingOptions, BertConfig) for one in fields(kind)}
    for name in task.options.keys() & taken:
        raise ValueError(
            f"{type(task).__name__} has an option {name!r}, as TrainingOptions or BertConfig has: "
            "give it another name."
        )
    if dev is None and getattr(task, "dev_table", None) is not None:
        task = copy(task)
        vars(task)["dev_table"] = None  # held-out rows are read and scored as training rows
    for name, value in task.fixed.items():
        default = getattr(TrainingOptions(), name)
        if getattr(options, name) not in (value, default):
            raise ArgumentError(name, "has no effect on this task: drop it.")
    metrics = task.metrics
    if not metrics:
        raise ValueError(f"{type(task).__name__} names no metrics, of which one chooses the model.")
    metric = options.metric or metrics[0]
    if metric not in metrics and not _is_further(metric, task):
        names = ", ".join([*metrics, *task.further]).replace(OF_CLASS, f"{OF_CLASS}CLASS")
        raise ArgumentError("metric", f"is {metric!r}, but the scores of this task are {names}.")
    return replace(options, **{**task.fixed, "metric": metric})


def _is_further(metric: str, task: Any) -> bool:
    """Whether a metric is reported only because it is named."""
    return metric in task.further or (OF_CLASS in task.further and metric.startswith(OF_CLASS))


def hold_out(
    rows: Sequence[Any],
    labels: Sequence[Any],
    share: float,
    seed: int,
    groups: Sequence[Hashable] | None = None,
) -> tuple[list[Any], list[Any]]:
    """Split rows into those to train on and those that are held out.

    Every label stays in training, and what cannot be held out does, too. Of each label about the
    same share is held out.

    Args:
        rows: The rows.
        labels: A label for each row, or all of its labels.
        share: Share of the rows to hold out, between 0 and 1.
        seed: The same seed holds out the same rows, and nearly the same if rows are added at the
            end.
        groups: Rows of one group are held out together, unless nothing could be held out then. A
            row whose group is None is in none.

    Raises:
        ValueError: `share` is not between 0 and 1, or no row can be held out.
    """
    if not 0 < share < 1:
        raise ArgumentError("held_out", f"should be a share between 0 and 1, not {share!r}.")
    labels_of_rows = [
        set(label) if isinstance(label, Collection) and not isinstance(label, str) else {label}
        for label in labels
    ]
    members: dict[Hashable, list[int]] = {}
    # rows that are added at the end leave the draws of the others as they are
    for index in np.random.default_rng(seed).random(len(rows)).argsort().tolist():
        group = None if groups is None else groups[index]
        members.setdefault(("row", index) if group is None else group, []).append(index)
    total = Counter(label for row_labels in labels_of_rows for label in row_labels)
    target = max(1, round(share * len(rows)))
    chosen: set[int] = set()
    held: Counter[Any] = Counter()

    def take(limit: Callable[[Any], float], most: int = target) -> None:
        """Hold out groups, at most so many rows, while no label exceeds its limit."""
        for indices in members.values():
            if chosen.issuperset(indices) or len(chosen) + len(indices) > most:
                continue
            counts = Counter(label for index in indices for label in labels_of_rows[index])
            fits = all(
                held[label] + count <= min(limit(label), total[label] - 1)
                for label, count in counts.items()
            )
            if fits:
                held.update(counts)
                chosen.update(indices)

    # first what each label is due, then the rest of the rows by labels, then whatever can be
    take(lambda label: np.floor(share * total[label]))
    take(lambda label: np.ceil(share * total[label]))
    take(lambda label: np.inf)
    if not chosen and len(members) > 1:  # every group may have more rows than the target
        smallest = min(map(len, members.values()))
        take(lambda label: np.inf, max(target, smallest))
    if not chosen and len(members) < len(rows):
        return hold_out(rows, labels, share, seed)
    if not chosen:
        raise ValueError(
            f"None of the training rows ({len(rows)}) can be held out, as each has a label that no "
            "other has: pass a dev file."
        )
    training = [row for index, row in enumerate(rows) if index not in chosen]
    held_rows = [row for index, row in enumerate(rows) if index in chosen]
    return training, held_rows
