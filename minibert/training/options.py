"""How to train: the options of `Trainer` and of the commands `minibert finetune` and `minibert pretrain`.

Each is declared here alone, with its default and its description; `minibert.cli.training`
makes their options of it. Nothing heavy is imported, so that `--help` answers at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any


def _option(
    default: Any, description: str, minimum: float | None = None, data_order: bool = False
) -> Any:
    """A field of numbers from `minimum` on; `data_order`: a run cannot be resumed with another value."""
    return field(
        default=default,
        metadata={"help": description, "minimum": minimum, "data_order": data_order},
    )


@dataclass(frozen=True)
class TrainingOptions:
    """How to train; the defaults are those of fine-tuning in the paper (appendix A.3).

    Each field says what it is in its metadata.
    """

    epochs: int = _option(3, "passes over the data, unless `steps` is given", 1)
    steps: int | None = _option(None, "number of updates", 1)
    batch_size: int = _option(
        32, "examples of an update, over all processes and forwards", 1, data_order=True
    )
    learning_rate: float = _option(5e-5, "of AdamW at its highest", 0.0)
    warmup: float = _option(
        0.1, "share of the steps in which the learning rate rises linearly from 0", 0.0
    )
    decay_steps: int | None = _option(
        None,
        "the last steps, in which the learning rate falls linearly to 0; constant before, a run can be extended until "
        "they begin (Hu et al. 2024, MiniCPM, section 4); None: all steps after the warm-up",
        0,
    )
    weight_decay: float = _option(0.01, "of AdamW, for all weights but biases and LayerNorms", 0.0)
    layer_decay: float = _option(
        1.0, "each layer learns at this share of the rate of the one above it", 0.0
    )
    freeze: int = _option(
        0, "first layers that keep their weights, and the embeddings with them; 0: all learn", 0
    )
    max_grad_norm: float = _option(1.0, "gradients are scaled down to this norm", 0.0)
    tokens_per_forward: int | None = _option(
        16384, "limit of the tokens of one forward; None: the whole batch", 1
    )
    bf16: bool = _option(
        False,
        "compute in bfloat16 where that is safe (autocast). Not the default where the processor has instructions for "
        "it, so that the same command rounds in the same way on every machine",
    )
    exact: bool = _option(
        False, "bit for bit as a plain loop: padded, with slower operators", data_order=True
    )
    seed: int = _option(0, "of the order of the data", 0, data_order=True)
    pool: int = _option(
        50,
        "batches sorted by length together before they are cut; 1: a random order",
        1,
        data_order=True,
    )
    save_every: int = _option(
        0, "steps between two saved states; 0 saves after every evaluation and every epoch", 0
    )
    keep_states: int = _option(
        0, "last states that stay when the run has ended; while it goes there are two", 0
    )
    checkpoints: int = _option(
        0, "models kept in the folder checkpoints, from step 0 to the last, denser at first", 0
    )
    evaluate_every: int = _option(
        0, "steps between two evaluations; 0 evaluates at the end of each epoch", 0
    )
    patience: int = _option(
        0, "evaluations without a better score before training stops early; 0 never stops early", 0
    )
    tensorboard: bool = _option(False, "write the log for TensorBoard too")

    def __post_init__(self) -> None:
        """ValueError for numbers out of range."""
        for each in fields(self):
            value, minimum = getattr(self, each.name), each.metadata["minimum"]
            if minimum is None or (value is None and "None" in str(each.type)):
                continue
            if type(minimum) is int and type(value) is not int:
                raise ValueError(f"{each.name} should be a whole number, not {value!r}.")
            if not minimum <= value < math.inf:
                finite = "" if type(minimum) is int else " and finite"
                raise ValueError(
                    f"{each.name} should be {minimum:g} or more{finite}, not {value!r}."
                )
        if self.warmup > 1:
            raise ValueError(
                f"warmup should be a share of the steps from 0 to 1, not {self.warmup!r}."
            )
