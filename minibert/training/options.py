"""How to train: the options of `Trainer` and of the commands `minibert finetune` and `minibert pretrain`.

Each is declared here alone, with its default and its description; `minibert.cli.training`
makes their options of it. Nothing heavy is imported, so that `--help` answers at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingOptions:
    """How to train; the defaults are those of fine-tuning in the paper (appendix A.3).

    Attributes:
        epochs: passes over the data, unless `steps` is given.
        steps: number of updates.
        batch_size: examples of an update, over all processes and forwards.
        learning_rate: of AdamW at its highest.
        warmup: share of the steps in which the learning rate rises from 0; it then falls to 0, both in a line.
        decay_steps: the learning rate falls in this many last steps only and is constant before, so that a run can
            be given its end while it goes (Hu et al. 2024, MiniCPM, section 4); None: from the warm-up on.
        weight_decay: of AdamW, for all weights but biases and LayerNorms.
        max_grad_norm: gradients are scaled down to this norm.
        tokens_per_forward: limit of the tokens of one forward; None: the whole batch.
        packed: sequences in a row without padding; False pads, as `BertForQuestionAnswering` needs.
        bf16: compute in bfloat16 where that is safe (autocast). Not the default where the processor has instructions
            for it, so that the same command rounds in the same way on every machine.
        exact: compute as a plain loop does, bit for bit, and not with faster products and dropout.
        sharded: share weights and optimiser state out to the processes too (FSDP2).
        seed: of the order of the data.
        pool: batches that are sorted by length together before they are cut; 1 leaves the order random.
        save_every: steps between two saved states; 0 saves after every evaluation and every epoch.
        evaluate_every: steps between two evaluations; 0 evaluates at the end of each epoch.
        patience: evaluations without a better score before training stops early; 0 never stops early.
        tensorboard: write the log for TensorBoard too.
    """

    epochs: int = 3
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    decay_steps: int | None = None
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    tokens_per_forward: int | None = 16384
    packed: bool = True
    bf16: bool = False
    exact: bool = False
    sharded: bool = False
    seed: int = 0
    pool: int = 50
    save_every: int = 0
    evaluate_every: int = 0
    patience: int = 0
    tensorboard: bool = False

    def __post_init__(self) -> None:
        """ValueError for numbers that mean nothing."""
        at_least = {
            "epochs": 1,
            "batch_size": 1,
            "pool": 1,
            "seed": 0,
            "save_every": 0,
            "evaluate_every": 0,
            "patience": 0,
        }
        optional = {"steps": 1, "tokens_per_forward": 1, "decay_steps": 0}
        for name, least in {**at_least, **optional}.items():
            value = getattr(self, name)
            if value is None and name in optional:
                continue
            if type(value) is not int:
                raise ValueError(f"{name} should be a whole number, not {value!r}.")
            if value < least:
                raise ValueError(f"{name} should be {least} or more, not {value}.")
        if not 0 <= self.warmup <= 1:
            raise ValueError(f"warmup should be a share of the steps from 0 to 1, not {self.warmup!r}.")
        for name in ("learning_rate", "weight_decay", "max_grad_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} should be 0 or more and finite, not {getattr(self, name)!r}.")
