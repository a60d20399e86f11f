"""The training loop: one for pre-training and fine-tuning, one process or many.

One *step* is one update of the weights by one batch of `batch_size` examples, whatever it takes to
compute: the batch is shared out to the processes, and each cuts its share into forwards of at most
`tokens_per_forward` tokens. Every loss is a sum over labels divided by the labels of the whole
batch, so the result does not depend on how it was cut.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.extras import need
from minibert.files import only_run_in
from minibert.losses import IGNORED
from minibert.progress import interruptible
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.training.data import (
    Batch,
    Epochs,
    Example,
    epoch_order,
    length,
    pack,
    pad,
    split_by_tokens,
)
from minibert.training.journal import Record, journal
from minibert.training.options import TrainingOptions
from minibert.training.processes import Processes
from minibert.training.speedups import faster_operators
from minibert.training.state import (
    LOG_FILE,
    POSITION,
    check_new,
    check_room,
    cut_log,
    first_line,
    load_training_state,
    read_state,
    saved_states,
    training_state,
    write_state,
)

Objective = Callable[[nn.Module, Batch], dict[str, Tensor]]
"""For a batch the summed loss of each kind of label, by the label's name in the examples."""

# in the log, where there are two
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


def make_optimizer(model: Any, options: TrainingOptions) -> torch.optim.AdamW:
    """Make AdamW (Loshchilov and Hutter 2019) with weight decay on matrices only.

    Biases and LayerNorms are vectors and do not decay.

    The `share` of a group is that of the learning rate: lower layers learn slower (Howard and Ruder
    2018, section 3.2).
    """
    layers = model.config.num_hidden_layers
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            below = max(0, layers + 1 - _depth(name))  # what lies above the layers learns fastest
            decay = options.weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((decay, options.layer_decay**below), []).append(parameter)
    described = [
        {"params": own, "weight_decay": decay, "share": share}
        for (decay, share), own in groups.items()
    ]
    return torch.optim.AdamW(described, lr=options.learning_rate or 0.0, fused=True)


def default_learning_rate(hidden_size: int) -> float:
    """The peak learning rate where none is given.

    5e-5 for BERT base (paper, appendix A.3) with its hidden size of 768. Smaller models need larger
    steps: it grows with the square of 768 / hidden_size, up to 1e-3.
    """
    return float(f"{min(1e-3, 5e-5 * (768 / hidden_size) ** 2):.2g}")


def _depth(name: str) -> float:
    """Return the layer number of a parameter.

    It is 0 for the embeddings, 1 for the first layer and so on, and infinite above the layers.
    """
    layer = re.search(r"encoder\.layer\.(\d+)\.", name)
    if layer:
        return int(layer[1]) + 1
    if "embeddings." in name:
        return 0
    return math.inf


def linear_schedule(step: int, steps: int, warmup: float, decay_steps: int | None = None) -> float:
    """The share of the highest learning rate in a step, counted from 0.

    It rises for `warmup` of the steps, and falls to 0 in the last `decay_steps` (None: in all
    others).
    """
    rising = round(steps * warmup)
    falling = steps - rising
    if decay_steps is not None:
        falling = min(decay_steps, falling)
    if step < rising:
        return step / max(1, rising)
    return min(1.0, max(0.0, (steps - step) / max(1, falling)))


@dataclass(eq=False, repr=False)
class Trainer:
    """Trains a model and keeps all that is needed to resume after any interruption.

    Args:
        model: trained in place; moved to this process's device.
        epochs: gives the examples of an epoch by its number, the same ones whenever it is called.
        objective: the summed losses of a batch.
        folder: where the states, the log and the best model go.
        options: how to train. A run that is resumed may have others, but those that decide the
            order of its data.
        tokenizer: saved with every model.
        resume: go on from the state in `folder`; "with other data": whatever its ids and labels.
        evaluate: measures the model in eval mode; every process calls it, and the scores go into
            the log.
        metric: the score that is best when highest (a loss: lowest); the best model is kept in
            `folder`.
        callback: called with each record of the log, such as `mlflow.log_metrics` would be.

    Raises:
        ValueError: no examples.
        ImportError: a log for TensorBoard is asked for, which is not installed.
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
    metric: str | None = None
    callback: Callable[[Record], object] | None = None

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        if self.options.learning_rate is None:
            rate = default_learning_rate(self.model.config.hidden_size)
            self.options = replace(self.options, learning_rate=rate)
        model = self.model
        options = self.options
        if options.tensorboard:  # now, before anything is written
            need("tensorboard", "train", "A log for TensorBoard")
        self.processes = Processes.join(options.device)
        self.is_first = self.processes.rank == 0
        model.to(self.processes.device).train()
        self._random: Any = (
            torch.cuda if self.processes.device.type == "cuda" else torch
        )  # dropout draws from it
        self.step, self.epoch, self.batch_in_epoch = 0, 0, 0
        self.best = -math.inf
        self.evaluations_since_best = 0
        self.best_scores: dict[str, float] = {}
        self._told_to_stop: Callable[[], bool] = lambda: False  # this process, by a signal
        self._stops = False  # all of them, after the step at hand
        self._saved_step = 0
        self._trend: float | None = None  # of the loss
        self._lowest = math.inf
        self._open_epoch()
        self.steps = options.epochs * len(self._batches)
        if options.steps is not None:
            self.steps = options.steps
        self._kept = max(2, options.keep_states)
        last = max(1, options.checkpoints - 1)  # denser at first, since most is learned early
        self._checkpoints = {
            round((self.steps + 1) ** ((last - n) / last)) - 1 for n in range(options.checkpoints)
        }
        self._about = {
            "model": type(model).__name__,
            **{
                f.name: getattr(options, f.name)
                for f in fields(options)
                if f.metadata["data_order"]
            },
            **{
                f.name: getattr(model.config, f.name)
                for f in fields(model.config)
                if f.name not in RESUME_MAY_DIFFER
            },
            "data": _digest(self._examples),
        }
        for name, parameter in model.named_parameters():
            if options.freeze and _depth(name) <= options.freeze:
                parameter.requires_grad_(False)
        self.processes.broadcast(model)
        self.optimizer = make_optimizer(model, options)

    def run(self) -> None:
        """Trains to the end, or until the score stops improving.

        Raises:
            FileNotFoundError: there is no state to resume from.
            ConnectionAbortedError: another process of the run has ended; the message says where to
                go on from.
            ValueError: the folder already holds a run that is not to be resumed, or one with
                another model, other data or another order of it; the loss is no longer a number, or
                diverges: it is above 1 and three times what it was on average; the step that shows
                it is not made.
            OSError: the state or the log cannot be written, or another process trains in the
                folder.
            KeyboardInterrupt: told to stop by SIGINT or SIGTERM: after the step at hand, which is
                saved; a second signal ends at once.
        """
        log = self.folder / LOG_FILE
        with only_run_in(self.folder) if self.is_first else nullcontext():
            if self.resume:
                self._resume()
            else:
                check_new(self.folder)
                if not self.is_first:  # every process draws its own dropout
                    torch.manual_seed(torch.initial_seed() + self.processes.rank)
            if self.is_first:
                # every weight in float32, with two moments (AdamW)
                check_room(self.folder, 12 * self.model.num_parameters(), self._kept)
                cut_log(log, self.step)
            if self.step == 0:
                self._save()
                self._keep_checkpoint()
            about = (self.steps, self.step, self.options.tensorboard, self.callback)
            with (
                interruptible(last_words=ConnectionAbortedError) as self._told_to_stop,
                journal(log if self.is_first else None, *about) as report,
            ):
                try:
                    while (
                        self.step < self.steps
                        and not 0 < self.options.patience <= self.evaluations_since_best
                    ):
                        self._advance(report)
                    if self._saved_step < self.step:
                        self._save()
                except RuntimeError as error:
                    if (
                        "gloo" in str(error)
                        or "Connection" in str(error)
                        or isinstance(error, dist.DistError)
                    ):
                        message = (
                            f"Process {self.processes.rank}: another process of this run has ended."
                        )
                        raise ConnectionAbortedError(f"{message} {self._resume_hint()}") from error
                    raise

    def _advance(self, report: Callable[[Record], None]) -> None:
        """Makes a step, and then measures and saves what is due."""
        record = self.train_step(self._next_batch())
        self._keep_checkpoint()
        report(record)
        epoch_is_over = self.batch_in_epoch == len(self._batches)
        evaluation_is_due = self._is_due(self.options.evaluate_every, epoch_is_over)
        is_evaluated = self.evaluate is not None and (evaluation_is_due or self.step == self.steps)
        if self.evaluate and is_evaluated:
            report({"step": self.step, "epoch": self.epoch, **self._evaluate(self.evaluate)})
        if self._stops:
            self._save()
            raise KeyboardInterrupt(
                f"stopped after step {self.step}, which is saved. {self._resume_hint()}"
            )
        if self._is_due(self.options.save_every, epoch_is_over or is_evaluated):
            self._save()

    def _is_due(self, every: int, otherwise: bool) -> bool:
        """Whether it is the turn of what happens after so many steps; of 0 steps: `otherwise`."""
        if every:
            return self.step % every == 0
        return otherwise

    # --- one step
    # ------------------------------------------------------------

    def train_step(self, batch: Sequence[Example]) -> Record:
        """One update of the weights by a batch: forward and backward, reduce, update, record."""
        began = time.perf_counter()
        rate = self._set_learning_rate()
        losses = self._reduce(self._forward_backward(batch))
        loss = math.fsum(losses.values())
        norm = self._update(loss)
        tokens = sum(map(length, batch))
        record: Record = {"step": self.step, "epoch": self.epoch, "loss": loss}
        if len(losses) > 1:
            for name, value in losses.items():
                record[_LOSS_NAMES.get(name, f"{name}_loss")] = value
        record["learning_rate"] = rate
        record["gradient_norm"] = norm
        record["tokens"] = tokens
        record["tokens_per_second"] = round(tokens / (time.perf_counter() - began))
        return record

    def _set_learning_rate(self) -> float:
        """Sets the learning rate of this step; returns that of the layers on top."""
        options = self.options
        share = linear_schedule(self.step, self.steps, options.warmup, options.decay_steps)
        rate = (options.learning_rate or 0.0) * share
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["share"]
        return rate

    def _forward_backward(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Compute the gradients of the examples of this process.

        Returns their share in the losses of the batch.
        """
        rank = self.processes.rank
        ordered = sorted(batch, key=length)
        examples = ordered[rank :: self.processes.size]
        weight = 1.0
        if (
            not examples
        ):  # all processes must take part, so this one computes an example that does not count
            examples = ordered[:1]
            weight = 0.0
        losses: dict[str, Tensor] = {}
        for part in split_by_tokens(examples, self.options.tokens_per_forward):
            with self._operators():
                shares = self._losses(part, batch)
                share_of_loss = torch.stack(list(shares.values())).sum() * weight
                share_of_loss.backward()  # type: ignore[no-untyped-call]
            for name, share in shares.items():
                losses[name] = losses.get(name, 0) + share.detach() * weight
        return losses

    def _operators(self) -> AbstractContextManager[None]:
        if self.options.exact:
            return nullcontext()
        return faster_operators(self.processes.device, self.model)

    def _reduce(self, losses: dict[str, Tensor]) -> dict[str, float]:
        """Sum gradients and losses over all processes.

        Also learns whether any of the processes should stop.
        """
        self.processes.sum_gradients(self.model)
        values = torch.stack(list(losses.values()))
        # torchrun tells all processes to stop, but not in the same step
        stops = values.new_tensor([self._told_to_stop()])
        values = self.processes.sum(torch.cat([values, stops]))
        *sums, stops_in_all = values.tolist()
        self._stops = stops_in_all > 0
        return dict(zip(losses, sums, strict=True))

    def _update(self, loss: float) -> float:
        """Update the weights, unless the loss diverges.

        Returns the norm of the gradients before clipping.
        """
        max_norm = self.options.max_grad_norm
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), max_norm))
        self._check(loss, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return norm

    def _check(self, loss: float, norm: float) -> None:
        """Raise ValueError for a loss that is not finite or that diverges.

        A loss that is not finite is found before it reaches the weights.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            self._trend = loss if self._trend is None else 0.98 * self._trend + 0.02 * loss
            self._lowest = min(self._lowest, self._trend)
            if self._trend <= 3 * self._lowest + 1:
                return
            what = (
                f"The loss diverges: it was {self._lowest:.3g} on average and is {self._trend:.3g}"
            )
        else:
            what = (
                f"The loss is {loss}"
                if not math.isfinite(loss)
                else f"The gradient's norm is {norm}"
            )
        examples = ", ".join(map(str, self._batches[self.batch_in_epoch - 1][:8]))
        advice = self._resume_hint()
        if self.step == self._saved_step > 0:
            states = saved_states(self.folder)
            if len(states) > 1:
                advice = (
                    f"{states[-1]} leads straight here: delete it, "
                    "and --resume goes on from the state before."
                )
        raise ValueError(
            f"{what} in step {self.step + 1} (epoch {self.epoch}, "
            f"batch {self.batch_in_epoch}: examples {examples}, "
            f"...): lower --learning-rate, and look at these examples. {advice}"
        )

    def _losses(self, part: Sequence[Example], batch: Sequence[Example]) -> dict[str, Tensor]:
        """The share of `part` in the mean losses of `batch`."""
        padded = self.options.exact and "lengths" not in part[0]  # as a plain loop does
        inputs = pad(part, self.model.config.pad_token_id or 0) if padded else pack(part)
        device = self.processes.device
        inputs = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in inputs.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=self.options.bf16):
            sums = self.objective(self.model, inputs)
        return {name: summed / max(1, count_labels(batch, name)) for name, summed in sums.items()}

    # --- where we are in the data
    # ------------------------------------------------------------

    def _open_epoch(self) -> None:
        self._examples = self.epochs(self.epoch)
        if not self._examples:
            raise ValueError("There are no examples to train on.")
        lengths = [length(example) for example in self._examples]
        options = self.options
        self._batches = epoch_order(
            lengths, options.batch_size, options.seed, self.epoch, options.pool
        )

    def _next_batch(self) -> list[Example]:
        if self.batch_in_epoch == len(self._batches):
            self.epoch, self.batch_in_epoch = self.epoch + 1, 0
            self._open_epoch()
        self.batch_in_epoch += 1
        return [self._examples[i] for i in self._batches[self.batch_in_epoch - 1]]

    # --- what is kept
    # ------------------------------------------------------------

    def _save(self) -> None:
        """Writes everything that the next step depends on, atomically."""
        random = self.processes.gather(self._random.get_rng_state())
        if self.is_first:
            state = training_state(self.model, self.optimizer)
            state |= {"about": self._about, "random": random, "best_scores": self.best_scores}
            state["position"] = {name: getattr(self, name) for name in POSITION}
            write_state(self.folder, state, self._kept)
        self._saved_step = self.step

    def _resume(self) -> None:
        states = saved_states(self.folder)
        if not states:
            raise FileNotFoundError(
                f"{self.folder} holds no state to resume from: start without --resume."
            )
        path = states[-1]
        state = read_state(path)
        for name, now in self._about.items():
            before = state["about"].get(name, now)
            if before != now and (name, self.resume) != ("data", "with other data"):
                what, advice = f"{name} {before}, not {now}", "resume with the same"
                if name == "data":
                    what, advice = (
                        "other examples or labels",
                        f"{advice} data, or pass --resume-with-other-data",
                    )
                raise ValueError(f"{path} is of a run with {what}: {advice}.")
        try:
            load_training_state(state, self.model, self.optimizer)
            for name in POSITION:
                setattr(self, name, state["position"][name])
            self.best_scores = state.get("best_scores", {})
            self._saved_step = self.step
            if self.epoch > 0:  # the first one is open
                self._open_epoch()
            self.batch_in_epoch = min(
                self.batch_in_epoch, len(self._batches)
            )  # of other data there may be less
            if self.processes.rank < len(state["random"]):
                self._random.set_rng_state(state["random"][self.processes.rank])
        except (
            Exception
        ) as error:  # whatever the optimiser or the schedule makes of values that are not their own
            raise ValueError(
                f"{path} does not fit this model and its optimiser ({first_line(error)})."
            ) from error

    def _evaluate(self, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
        self.model.eval()
        with torch.no_grad():
            scores = evaluate()
        self.model.train()
        if self.metric is not None:
            self.evaluations_since_best += 1
            score = scores[self.metric]
            if self.metric.endswith("loss"):
                score = -score
            if score > self.best or self.best == -math.inf:  # the first, even if it is not a number
                self.best = max(self.best, score)
                self.evaluations_since_best = 0
                self.best_scores = scores
                self.save_model(self.folder)
        return scores

    def _keep_checkpoint(self) -> None:
        if self.step in self._checkpoints:
            self.save_model(self.folder / "checkpoints" / f"step-{self.step:06}")

    def save_model(self, folder: str | os.PathLike[str]) -> None:
        """Saves the model as it is now, and its tokenizer; every process of the run calls this."""
        if self.is_first:
            self.model.save_pretrained(folder)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(folder)

    def _resume_hint(self) -> str:
        return (
            f"Start again with --resume to go on from step {self._saved_step} (in {self.folder})."
        )


def _digest(examples: Sequence[Example]) -> str:
    """A checksum of all ids and labels, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        for name in sorted(example):
            digest.update(name.encode())
            digest.update(np.asarray(example[name]).tobytes())
    return digest.hexdigest()[:16]


def count_labels(examples: Sequence[Example], name: str) -> int:
    """How many labels of this name there are in the examples, `IGNORED` ones left out."""
    return sum(int(np.count_nonzero(np.asarray(example[name]) != IGNORED)) for example in examples)
