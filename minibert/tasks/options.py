"""Declare the options of tasks: how a task is trained, beside `TrainingOptions`.

Each is declared here alone, with its default and its description. A task has them as fields.
`minibert finetune` makes its options of them, the model card lists them, and resuming a run refuses
other values. Nothing heavy is imported, so that `--help` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from minibert.encoders.arithmetic.pooling_names import Pooling, check_saved, pooling_names
from minibert.util.checks import check_fields, option
from minibert.util.errors import ArgumentError


@dataclass(frozen=True)
class TaskOptions:
    """The options of a task without any. Each field says what it is in its metadata."""

    def __post_init__(self) -> None:
        """ValueError for numbers out of range."""
        check_fields(self)


@dataclass(frozen=True)
class LabelOptions(TaskOptions):
    """How labels of texts are learned."""

    _: KW_ONLY
    class_weights: bool = option(
        False, "Weight classes so that a rare one counts as much as a frequent one."
    )
    label_smoothing: float = option(
        0.0,
        "Probability that the loss takes from the right label and spreads over all of them.",
        minimum=0.0,
        metavar="PROB",
    )
    positive_weights: bool = option(
        False,
        "Weight each of several labels so that the rows that have it count as much as those "
        "that lack it.",
    )
    multi_label: bool = option(
        False,
        "The label is a list of labels, of which a text may have several or none. "
        "Implied by --label-columns.",
    )

    def __post_init__(self) -> None:
        """ValueError for numbers out of range."""
        super().__post_init__()
        if self.label_smoothing > 1:
            raise ArgumentError("label_smoothing", f"is {self.label_smoothing:g}, more than 1.")


@dataclass(frozen=True)
class TagOptions(TaskOptions):
    """How tags of words are learned and read."""

    _: KW_ONLY
    by_piece: bool | None = option(
        None,
        "Read a tag for each piece of a word, as of data with a tag for each character. "
        "Default: as the model was trained, and in training as the rows are.",
        off="--by-word",
        off_help="Read a tag for each word, that of its first piece.",
    )


@dataclass(frozen=True)
class AnswerOptions(TaskOptions):
    """How answers to questions are learned and found."""

    _: KW_ONLY
    no_answer: bool | None = option(
        None,
        "Allow for texts without the answer. "
        "Default: as the model was trained, and in training as the rows are.",
        off="--always-answer",
        off_help="Answer every question.",
    )
    no_answer_threshold: float | None = option(
        None,
        "How much higher the score of no answer has to be than that of the best answer. "
        "Default: as the model was trained, or 0.",
    )
    fit_no_answer: bool = option(
        False, "Choose that threshold for the best F1 on the evaluation rows, and keep it."
    )
    max_answer_length: int | None = option(
        None,
        "Maximum number of tokens of an answer. Default: as the model was trained, or 30.",
        minimum=1,
    )


@dataclass(frozen=True)
class SimilarityOptions(TaskOptions):
    """How vectors of texts are trained."""

    _: KW_ONLY
    matryoshka: Sequence[int] = option(
        (),
        "Shorter vectors to train as well: the first N dimensions of each.",
        metavar="N,N,...",
    )
    pooling: Sequence[Pooling] | None = option(
        None, "Pooling of the token vectors. Default: the model's own.", metavar="NAME"
    )

    def __post_init__(self) -> None:
        """ValueError for numbers out of range, or a pooling that cannot be saved."""
        super().__post_init__()
        if self.pooling is not None:
            check_saved(pooling_names(self.pooling))


@dataclass(frozen=True)
class ScoreOptions(SimilarityOptions):
    """How vectors are trained on scores of pairs."""

    _: KW_ONLY
    max_score: float | None = option(
        1.0, "Largest possible score. Labels are divided by it.", metavar="X"
    )
