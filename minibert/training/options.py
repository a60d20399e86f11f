"""Declare the options of `Run`, `minibert finetune` and `minibert pretrain`.

Each is declared here alone, with its default and its description. `minibert.cli.training` makes
their options of it. A run cannot be resumed with another value of one that decides the order of
the data (`data_order`). Nothing heavy is imported, so that `--help` answers at once.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from minibert.util.checks import check_fields, option
from minibert.util.errors import Argument, ArgumentError

NO_NEXT_SENTENCE = Argument("next_sentence", False)  # of messages


@dataclass(frozen=True)
class TrainingOptions:
    """How to train. The defaults are those of fine-tuning in the paper (appendix A.3).

    Each field says what it is in its metadata.
    """

    epochs: int = option(3, "Number of passes over the data, unless --steps is given.", minimum=1)
    steps: int | None = option(None, "Number of optimizer steps.", minimum=1)
    batch_size: int = option(
        32, "Examples per optimizer step, across all processes.", minimum=1, data_order=True
    )
    learning_rate: float | None = option(
        None,
        "Peak learning rate of AdamW. Default: 5e-5 for BERT base and more for smaller models. "
        "It is printed.",
        minimum=0.0,
        metavar="RATE",
    )
    warmup: float = option(
        0.1,
        "Share of the steps in which the learning rate rises linearly from 0.",
        minimum=0.0,
        metavar="PROB",
    )
    decay_steps: int | None = option(
        None,
        "Number of last steps in which the learning rate falls linearly to 0. "
        "It is constant before, and until then a run can be extended (MiniCPM). "
        "Default: all steps after the warm-up.",
        minimum=0,
    )
    weight_decay: float = option(
        0.01,
        "Weight decay of AdamW, for all weights but biases and LayerNorms.",
        minimum=0.0,
        metavar="RATE",
    )
    layer_decay: float = option(
        1.0, "Layer-wise decay factor of the learning rate, from the last layer down.", minimum=0.0
    )
    freeze: int = option(
        0,
        "Number of first layers to freeze, and the embeddings with them (0: train everything).",
        minimum=0,
    )
    max_grad_norm: float = option(
        1.0, "Norm to which larger gradients are scaled down (0: no clipping).", minimum=0.0
    )
    tokens_per_forward: int | None = option(
        16384, "Maximum number of tokens per forward pass. Larger batches are split.", minimum=1
    )
    device: str | None = option(
        None,
        "Device to train on: cpu, cuda, cuda:1 or mps. "
        "Default: CUDA if there is a GPU, else the CPU.",
        metavar="DEVICE",
    )
    bf16: bool = option(
        False,
        "Compute in bfloat16 where that is safe (autocast).",
    )
    exact: bool = option(
        False,
        "Pad batches and use the operators of a plain loop: slower, with equal bits.",
        data_order=True,
    )
    seed: int = option(
        0, "Seed of the order of the data and of new weights.", minimum=0, data_order=True
    )
    pool: int = option(
        1,
        "Number of batches that are sorted by length together (1: a random order). "
        "Sorting is faster where lengths differ, but costs some accuracy in fine-tuning.",
        minimum=1,
        data_order=True,
    )
    save_every: int = option(
        0,
        "Steps between two checkpoints of the run (0: after every evaluation and epoch).",
        minimum=0,
    )
    keep_states: int = option(
        1,
        "Number of checkpoints of the run to keep when it has ended. "
        "From one, more --steps extend the run.",
        minimum=0,
    )
    checkpoints: int = option(
        0, "Number of model snapshots to keep, from step 0 to the last, denser at first.", minimum=0
    )
    evaluate_every: int = option(
        0, "Steps between two evaluations (0: at the end of each epoch).", minimum=0
    )
    metric: str | None = option(
        None,
        "Score that chooses the best model, such as loss, auc or f1:CLASS. Default: the first one "
        "that is reported.",
        metavar="NAME",
    )
    patience: int = option(
        0, "Evaluations without a better score before early stopping (0: never).", minimum=0
    )
    tensorboard: bool = option(False, "Write the log for TensorBoard, too.")

    def __post_init__(self) -> None:
        """ValueError for numbers out of range."""
        check_fields(self)
        if self.warmup > 1:
            raise ArgumentError(
                "warmup", f"should be a share of the steps from 0 to 1, not {self.warmup!r}."
            )


def _with_default(name: str, default: Any) -> Any:
    """Declare a field of `TrainingOptions` again, with another default."""
    declared = TrainingOptions.__dataclass_fields__[name]
    return dataclasses.field(default=default, metadata=declared.metadata)


@dataclass(frozen=True)
class PretrainOptions(TrainingOptions):
    """How to pre-train: what is learned from a corpus, and how.

    The fields that `TrainingOptions` has, too, have the defaults of pre-training.
    """

    steps: int | None = _with_default("steps", 10_000)
    batch_size: int = _with_default("batch_size", 256)
    learning_rate: float | None = _with_default("learning_rate", 1e-4)
    warmup: float = _with_default("warmup", 0.01)
    save_every: int = _with_default("save_every", 500)
    pool: int = _with_default("pool", 50)
    held_out: float = option(
        0.01, "Share of the documents to hold out for evaluation.", minimum=0.0, metavar="PROB"
    )
    max_length: int = option(128, "Maximum number of tokens per example.", minimum=5)
    next_sentence: bool = option(True, "Train on masked words only.", flag="--no-next-sentence")
    sentence_order: bool = option(
        False, "Sentence-order prediction instead of next-sentence prediction (ALBERT)."
    )
    whole_words: bool = option(False, "Mask all tokens of a word together.")
    spans: bool = option(False, "Mask spans of several words (SpanBERT).")
    mask_probability: float = option(
        0.15, "Share of the tokens to mask.", minimum=0.0, metavar="PROB"
    )

    def __post_init__(self) -> None:
        """ValueError for numbers out of range."""
        super().__post_init__()
        if self.sentence_order and not self.next_sentence:
            raise ArgumentError(
                "sentence_order", "is for pairs of sentences: drop ", NO_NEXT_SENTENCE, "."
            )
        if self.mask_probability > 1:
            raise ArgumentError(
                "mask_probability", f"should be a share from 0 to 1, not {self.mask_probability!r}."
            )
