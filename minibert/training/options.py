"""How to train: the options of `Trainer` and of the commands `minibert finetune` and `minibert pretrain`.

Each is declared here alone, with its default and its description; `minibert.cli.training`
makes their options of it. Nothing heavy is imported, so that `--help` answers at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


def _option(default: Any, description: str) -> Any:
    return field(default=default, metadata={"help": description})


@dataclass(frozen=True)
class TrainingOptions:
    """How to train; the defaults are those of fine-tuning in the paper (appendix A.3).

    Each field says what it is in its metadata.
    """

    epochs: int = _option(3, "passes over the data, unless `steps` is given")
    steps: int | None = _option(None, "number of updates")
    batch_size: int = _option(32, "examples of an update, over all processes and forwards")
    learning_rate: float = _option(5e-5, "of AdamW at its highest")
    warmup: float = _option(
        0.1,
        "share of the steps in which the learning rate rises from 0; it then falls to 0, both in a line",
    )
    decay_steps: int | None = _option(
        None,
        "the learning rate falls in this many last steps only and is constant before, so that a run may be extended "
        "before it ends (Hu et al. 2024, MiniCPM, section 4); None: from the warm-up on",
    )
    weight_decay: float = _option(0.01, "of AdamW, for all weights but biases and LayerNorms")
    max_grad_norm: float = _option(1.0, "gradients are scaled down to this norm")
    tokens_per_forward: int | None = _option(16384, "limit of the tokens of one forward; None: the whole batch")
    packed: bool = _option(True, "sequences in a row without padding; False pads, as `BertForQuestionAnswering` needs")
    bf16: bool = _option(
        False,
        "compute in bfloat16 where that is safe (autocast). Not the default where the processor has instructions for "
        "it, so that the same command rounds in the same way on every machine",
    )
    exact: bool = _option(False, "compute as a plain loop does, bit for bit, and not with faster products and dropout")
    sharded: bool = _option(False, "share weights and optimiser state out to the processes too (FSDP2)")
    seed: int = _option(0, "of the order of the data")
    pool: int = _option(50, "batches that are sorted by length together before they are cut; 1 leaves the order random")
    save_every: int = _option(0, "steps between two saved states; 0 saves after every evaluation and every epoch")
    evaluate_every: int = _option(0, "steps between two evaluations; 0 evaluates at the end of each epoch")
    patience: int = _option(0, "evaluations without a better score before training stops early; 0 never stops early")
    tensorboard: bool = _option(False, "write the log for TensorBoard too")

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
