"""A run of training: its folder, data, evaluations and best model, in one process or many.

One loop serves pre-training and fine-tuning. What a step does is in steps.py.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from minibert.base import PreTrainedModel
from minibert.checkpoints.model_files import replacing_model
from minibert.encoders.folders.model_card import CARD, written_text
from minibert.encoders.folders.reading import Reading
from minibert.tasks.metrics import is_lower_better
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.data import (
    Epochs,
    Example,
    epoch_order,
    length,
)
from minibert.training.journal import Record, journal
from minibert.training.options import TrainingOptions
from minibert.training.processes import Processes
from minibert.training.state import (
    LOG_FILE,
    POSITION,
    RESUME,
    RunFolder,
    cut_log,
    first_line,
    load_training_state,
    read_state,
    run_folder,
    saved_states,
    training_state,
    write_state,
)
from minibert.training.steps import LossWatch, Objective, Steps, count_labels, linear_schedule
from minibert.util.checks import amount
from minibert.util.errors import Argument, ArgumentError, Message
from minibert.util.extras import need
from minibert.util.progress import interruptible

logger = logging.getLogger("minibert")

# The names in the log where a batch has several losses.
_LOSS_NAMES = {"labels": "mlm_loss", "next_sentence_label": "nsp_loss"}

# Fields of a config that may differ when a run is resumed: neither weights nor losses depend on
# them.
RESUME_MAY_DIFFER = (
    "attn_implementation",
    "dtype",
    "extra",
    "initializer_range",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
)


@dataclass(eq=False, repr=False)
class Run:
    """Trains a model, and saves everything that is needed to resume after any interruption.

    Args:
        model: Trained in place. Moved to the device of this process.
        epochs: Returns the examples of an epoch by its number, always the same ones.
        objective: Computes the summed losses of a batch.
        folder: Folder for the states, the log and the best model.
        options: How to train. A resumed run may change them, except those that decide the order of
            the data. `metric` is the score that chooses the best model, which is saved in `folder`.
            Of equal scores the lower loss decides. With None only states are saved: call
            `save_model(folder)` after `train()`.
        tokenizer: Saved with every model.
        resume: Continue from the last state in `folder`. "with other data": also if the examples
            or the labels have changed.
        evaluate: Measures the model in eval mode. Every process calls it, and the scores go into
            the log.
        dev: The examples that `evaluate` measures the model on. Scores on other ones are not
            compared with each other.
        callback: Called with each record of the log, as `mlflow.log_metrics` could be.

    Raises:
        ValueError: There are no examples, or fewer layers than should be frozen.
        ImportError: A log for TensorBoard is requested, and TensorBoard is not installed.
    """

    model: PreTrainedModel
    epochs: Epochs
    objective: Objective
    folder: Path
    options: TrainingOptions
    _: KW_ONLY
    tokenizer: BertTokenizer | None = None
    resume: bool | Literal["with other data"] = False
    evaluate: Callable[[], dict[str, float]] | None = None
    dev: Sequence[Example] = ()
    callback: Callable[[Record], object] | None = None

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        options = self.options
        if options.tensorboard:  # before anything is written
            need("tensorboard", "train", "A log for TensorBoard")
        self.processes = Processes.join(options.device)
        self.is_first = self.processes.rank == 0
        # dropout draws from the generator of this module
        self._random: Any = torch.cuda if self.processes.device.type == "cuda" else torch
        self.step = 0
        self.epoch = 0
        self.batch_in_epoch = 0
        self.evaluations_since_best = 0
        self.best_scores: dict[str, float] = {}
        self._stop_requested: Callable[[], bool] = lambda: False  # of this process, by a signal
        self._stops = False  # all processes stop after this step
        self._saved_step = 0
        self._watch = LossWatch()
        self._open_epoch()
        self.steps = options.epochs * len(self._batches)
        if options.steps is not None:
            self.steps = options.steps
        self._states_to_keep = max(2, options.keep_states)
        self._snapshot_steps = _snapshot_steps(self.steps, options.checkpoints)
        self._about = _describe_run(self.model, options, self._examples, self.dev)
        self.updates = Steps(self.model, self.objective, options, self.steps, self.processes)

    def train(self, opened: RunFolder | None = None) -> None:
        """Train to the end, or until the score stops improving.

        Args:
            opened: The folder, where the caller has opened it by `run_folder`, to work in it before
                and after the training. None: it is opened here.

        Raises:
            FileNotFoundError: There is no state to resume from.
            ConnectionAbortedError: Another process of the run has ended.
            ValueError: The folder already holds a run, or its run has another model, other data or
                another order of the data. Or the loss or a gradient is not finite. The weights are
                not updated then.
            OSError: The state or the log cannot be written, or another process trains in the
                folder.
            KeyboardInterrupt: After SIGINT or SIGTERM. The current step is finished and saved
                first. A second signal ends the process at once.
        """
        options = self.options
        log = self.folder / LOG_FILE if self.is_first else None
        with run_folder(opened or self.folder, bool(self.resume)):
            if self.resume:
                self._resume()
            elif not self.is_first:  # every process draws its own dropout
                torch.manual_seed(torch.initial_seed() + self.processes.rank)
            if log is not None:
                cut_log(log, self.step)
            if self.step == 0:
                self._save()
                self._save_snapshot()
            if self.step >= self.steps and self.is_first:
                logger.info(
                    "the run in %s has done %d steps already: more steps extend it.",
                    self.folder,
                    self.step,
                )
            with (
                interruptible(last_words=ConnectionAbortedError) as self._stop_requested,
                journal(log, self.steps, self.step, options.tensorboard, self.callback) as report,
                self._lost_connections_explained(),
            ):
                patience = options.patience or math.inf
                while self.step < self.steps and self.evaluations_since_best < patience:
                    self._advance(report)
                if self._saved_step < self.step:
                    self._save()
            if self.step < self.steps and self.is_first:
                logger.info(
                    "stopped after step %d of %d: no better %s in %s (patience).",
                    self.step,
                    self.steps,
                    options.metric,
                    amount(self.evaluations_since_best, "evaluation"),
                )

    @contextmanager
    def _lost_connections_explained(self) -> Iterator[None]:
        """Turn the errors that follow the death of another process into one with advice."""
        try:
            yield
        except RuntimeError as error:
            is_lost_connection = isinstance(error, dist.DistError) or (
                "gloo" in str(error) or "Connection" in str(error)
            )
            if self.processes.size == 1 or not is_lost_connection:
                raise
            raise ConnectionAbortedError(
                Message(
                    f"Process {self.processes.rank}: another process of this run has ended. ",
                    self._resume_hint(),
                )
            ) from error

    def _advance(self, report: Callable[[Record], None]) -> None:
        """Make a step, then evaluate and save where that is due."""
        record = self.train_step(self.next_batch())
        self._save_snapshot()
        report(record)
        epoch_is_over = self.batch_in_epoch == len(self._batches)
        evaluation_is_due = self._is_due(self.options.evaluate_every, epoch_is_over)
        saving_is_due = epoch_is_over
        if self.evaluate is not None and (evaluation_is_due or self.step == self.steps):
            report({"step": self.step, "epoch": self.epoch, **self._evaluate(self.evaluate)})
            saving_is_due = True
        if self._stops:
            self._save()
            raise KeyboardInterrupt(
                Message(f"stopped after step {self.step}, which is saved. ", self._resume_hint())
            )
        if self._is_due(self.options.save_every, saving_is_due):
            self._save()

    def _is_due(self, interval: int, otherwise: bool) -> bool:
        """Whether the step is a multiple of an interval, or `otherwise` if the interval is 0."""
        if interval:
            return self.step % interval == 0
        return otherwise

    # --- one step

    def train_step(self, batch: Sequence[Example]) -> Record:
        """Update the weights by a batch: forward and backward, reduce, update, record."""
        start = time.perf_counter()
        try:
            update = self.updates.take(batch, self.step, self._stop_requested)
        except FloatingPointError as error:
            examples = ", ".join(map(str, self._batches[self.batch_in_epoch - 1][:8]))
            advice = self._resume_hint()
            states = saved_states(self.folder)
            if self.step == self._saved_step > 0 and len(states) > 1:
                advice = Message(
                    f"{states[-1]} reproduces this failure: delete it, and ",
                    RESUME,
                    " continues from the previous state.",
                )
            raise ValueError(
                Message(
                    f"{error} in step {self.step + 1} (epoch {self.epoch}, batch "
                    f"{self.batch_in_epoch}: examples {examples}, ...): lower ",
                    Argument("learning_rate"),
                    ", and look at these examples. ",
                    advice,
                )
            ) from None
        self.step += 1
        self._stops = update.stops
        loss = math.fsum(update.losses.values())
        rise = self._watch.rise(loss)
        if rise and self.is_first:
            logger.warning(
                "the loss has risen from %.3g to %.3g by step %d: a lower learning rate may help.",
                *rise,
                self.step,
            )
        seconds = time.perf_counter() - start
        record: Record = {"step": self.step, "epoch": self.epoch, "loss": loss}
        for name, value in update.losses.items():
            # without a pair in the batch, nothing of pairs was measured
            if len(update.losses) > 1 and count_labels(batch, name) > 0:
                record[_LOSS_NAMES.get(name, f"{name}_loss")] = value
        tokens = sum(map(length, batch))
        return record | {
            "learning_rate": update.rate,
            "gradient_norm": update.norm,
            "tokens": tokens,
            "tokens_per_second": round(tokens / seconds),
        }

    # --- the position in the data

    def _open_epoch(self) -> None:
        self._examples = self.epochs(self.epoch)
        if not self._examples:
            raise ValueError("There are no examples to train on.")
        lengths = [length(example) for example in self._examples]
        options = self.options
        self._batches = epoch_order(
            lengths, options.batch_size, options.seed, self.epoch, options.pool
        )

    def next_batch(self) -> list[Example]:
        """The next batch of this epoch, or the first one of the next."""
        if self.batch_in_epoch == len(self._batches):
            self.epoch += 1
            self.batch_in_epoch = 0
            self._open_epoch()
        self.batch_in_epoch += 1
        return [self._examples[i] for i in self._batches[self.batch_in_epoch - 1]]

    # --- states, scores and models

    def _save(self) -> None:
        """Write everything that the next step depends on, atomically."""
        random = self.processes.gather(self._random.get_rng_state())
        if self.is_first:
            state = training_state(self.model, self.updates.optimizer)
            state |= {"about": self._about, "random": random}
            state |= {"metric": self.options.metric, "best_scores": self.best_scores}
            state["steps"] = self.steps
            state["position"] = {name: getattr(self, name) for name in POSITION}
            write_state(self.folder, state, self._states_to_keep)
        self._saved_step = self.step

    def _resume(self) -> None:
        """Restore the last state."""
        states = saved_states(self.folder)
        if not states:
            raise FileNotFoundError(
                Message(f"{self.folder} holds no state to resume from: start without ", RESUME, ".")
            )
        path = states[-1]
        state = read_state(path)
        _check_same_run(path, state["about"], self._about, self.resume == "with other data")
        try:
            self._restore(state)
        except Exception as error:  # values of another kind raise errors of every kind
            raise ValueError(
                f"{path} does not fit this model and its optimizer ({first_line(error)})."
            ) from error

    def _restore(self, state: dict[str, Any]) -> None:
        load_training_state(state, self.model, self.updates.optimizer)
        for name in POSITION:
            setattr(self, name, state["position"][name])
        if state["about"].get("dev") in (self._about["dev"], None):
            self.best_scores = state["best_scores"]
        self._tell_of_schedule(state.get("steps", self.steps))
        # another metric, or other rows, choose from now on
        if not self.best_scores or state["metric"] != self.options.metric:
            self.evaluations_since_best = 0
        self._saved_step = self.step
        if self.epoch > 0:  # the first one is open
            self._open_epoch()
        # other data may have fewer batches
        self.batch_in_epoch = min(self.batch_in_epoch, len(self._batches))
        if self.processes.rank < len(state["random"]):
            self._random.set_rng_state(state["random"][self.processes.rank])

    def _tell_of_schedule(self, steps_before: int) -> None:
        """Say how another number of steps changes the learning rate of the next step."""
        options = self.options
        before, now = (
            linear_schedule(self.step, steps, options.warmup, options.decay_steps)
            for steps in (steps_before, self.steps)
        )
        if before != now and self.step < self.steps and self.is_first:
            peak = self.updates.options.learning_rate or 0.0
            logger.info(
                "the run had %d steps, and has %d now: the learning rate of step %d is %.3g "
                "instead of %.3g.",
                steps_before,
                self.steps,
                self.step + 1,
                peak * now,
                peak * before,
            )

    def _evaluate(self, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Measure the model, and save it if it is the best so far."""
        self.model.eval()
        with torch.no_grad():
            scores = {name: float(score) for name, score in evaluate().items()}
        self.model.train()
        metric = self.options.metric
        if metric is not None:
            if metric not in scores:
                raise ArgumentError(
                    "metric", f"is {metric!r}, but the scores are {', '.join(scores)}."
                )
            comparison = compare_scores(scores, self.best_scores, metric)
            self.evaluations_since_best = 0 if comparison > 0 else self.evaluations_since_best + 1
            if comparison >= 0:  # of equal models the later one, which does not count as better
                self.best_scores = scores
                self.save_model(self.folder)
        return scores

    def _save_snapshot(self) -> None:
        if self.step in self._snapshot_steps:
            self.save_model(self.folder / "checkpoints" / f"step-{self.step:06}")

    def save_model(self, folder: str | os.PathLike[str]) -> None:
        """Save the model as it is now, and its tokenizer. Every process of the run calls this."""
        if self.is_first:
            # the card of another model that a run has written, for instance with its scores
            cards = [CARD] if written_text(Path(folder, CARD)) is not None else []
            with replacing_model(folder, whole=True, also=cards) as written:
                self.model.save_pretrained(written)
                if self.tokenizer is not None:
                    self.tokenizer.save_pretrained(written)

    def _resume_hint(self) -> Message:
        place = f"step {self._saved_step} (in {self.folder})"
        return Message("Start again with ", RESUME, f" to continue from {place}.")


def compare_scores(
    scores: Mapping[str, float], best: Mapping[str, float], metric: str
) -> Literal[-1, 0, 1]:
    """Whether scores are better (1) or worse (-1) than the best ones, or equal.

    Args:
        scores: Those of a model.
        best: The best ones of earlier models, or none.
        metric: The score that decides. The loss decides between equal ones.
    """
    for name in (metric, "loss"):
        if name not in scores and name != metric:
            continue
        if name not in best or math.isnan(best[name]):
            return 1
        difference = scores[name] - best[name]
        if is_lower_better(name):
            difference = -difference
        if difference != 0:  # NaN is worse than any number
            return 1 if difference > 0 else -1
    return 0


def _snapshot_steps(steps: int, count: int) -> set[int]:
    """The steps after which a snapshot is saved, denser at first since most is learned early."""
    last = max(1, count - 1)
    return {round((steps + 1) ** ((last - number) / last)) - 1 for number in range(count)}


def _describe_run(
    model: PreTrainedModel,
    options: TrainingOptions,
    examples: Sequence[Example],
    dev: Sequence[Example],
) -> dict[str, Any]:
    """The model, options and data that have to be the same when the run is resumed."""
    description: dict[str, Any] = {"model": type(model).__name__}
    for field in fields(options):
        if field.metadata.get("data_order"):
            description[field.name] = getattr(options, field.name)
    for field in fields(model.config):
        if field.name not in RESUME_MAY_DIFFER:
            description[field.name] = getattr(model.config, field.name)
    description["attn_implementation"] = model.config.own_attention  # BERT's may differ
    description |= Reading.of(model.config).options
    description["data"] = examples_digest(examples)
    description["dev"] = examples_digest(dev)
    return description


def _check_same_run(
    path: Path, saved: dict[str, Any], current: dict[str, Any], other_data: bool
) -> None:
    """Raise ValueError if a state was saved by a run with another model or other data.

    Args:
        path: File of the state.
        saved: Description of the run that saved the state.
        current: Description of this run.
        other_data: The data may differ.
    """
    for name, value in current.items():
        before = saved.get(name, value)
        if before == value or (name in ("data", "dev") and other_data):
            continue
        if name in ("data", "dev"):
            purpose = " to evaluate with" if name == "dev" else ""
            raise ValueError(
                Message(
                    f"{path} was saved by a run with other examples or labels{purpose}: resume "
                    "with the same data, or pass ",
                    Argument("resume", "with other data"),
                    ".",
                )
            )
        raise ArgumentError(
            name, f"is {value}, but {path} was saved by a run with {before}: resume with the same."
        )


def learned_data(folder: str | os.PathLike[str]) -> str | None:
    """The `examples_digest` in the last state of the run in a folder. None: it has no state.

    Raises:
        ValueError: The state is damaged.
    """
    states = saved_states(folder)
    if not states:
        return None
    data: str | None = read_state(states[-1])["about"].get("data")
    return data


def examples_digest(examples: Sequence[Example]) -> str:
    """A checksum of all ids and labels, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        for name in sorted(example):
            digest.update(name.encode())
            digest.update(np.asarray(example[name]).tobytes())
    return digest.hexdigest()[:16]
