"""The part of a text that answers a question: its task, and `answer_question`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from minibert.base import PreTrainedModel
from minibert.config import BertConfig
from minibert.encoders.answerer import LONGEST_ANSWER
from minibert.encoders.folders.reading import Reading
from minibert.encoders.rows.windows import (
    Offsets,
    best_answers,
    overlong_questions,
    question_windows,
    span_logits,
)
from minibert.heads import BertForQuestionAnswering
from minibert.losses import span_loss
from minibert.tasks import metrics
from minibert.tasks.options import AnswerOptions
from minibert.tasks.readers import read_squad
from minibert.tasks.task import (
    Batch,
    Data,
    Example,
    Indices,
    Mistake,
    Scores,
    Skipped,
    Task,
    inputs_of,
    outputs_of,
)
from minibert.text import Row, Table
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.errors import Argument, ArgumentError, Message
from minibert.util.progress import tell


class Found(NamedTuple):
    """The prediction for a question.

    Attributes:
        answer: The text, or "" where there is none.
        score: Sum of its two logits.
        losses: Cross entropy of each window, where the data have answers.
        best: The text of the best span, also where the answer is "".
        doubt: How much higher the score of no answer is than that of the best span.
    """

    answer: str
    score: float
    losses: list[float]
    best: str = ""
    doubt: float = -math.inf

    def answered_up_to(self, threshold: float) -> Found:
        """The same, with the best span as its answer unless the doubt is more."""
        return self._replace(answer="" if self.doubt > threshold else self.best)


@dataclass(frozen=True)
class AnswerTask(AnswerOptions, Task):
    """Find the answer to a question in a text, from files in SQuAD format.

    See sections 4.2 and 4.3 of the paper.

    A text that is too long is split into windows. In a window without the answer, the target is
    [CLS], and so it is in every window of a question that cannot be answered.

    Attributes:
        table: The encoding of the files.
        no_answer: Whether a text may lack the answer. None: as the model was trained, and in
            training, whether some questions have none.
        no_answer_threshold: How much higher the score of no answer has to be than that of the best
            answer. None: as the model was trained, or 0.
        fit_no_answer: Choose that threshold for the best F1 on the evaluation rows.
        max_answer_length: Tokens of the longest answer. None: as the model was trained, or 30.

    Raises:
        ValueError: `fit_no_answer` beside `no_answer_threshold`, or for a model that always
            answers.
    """

    table: Table = Table()

    model_class: ClassVar[type[PreTrainedModel]] = BertForQuestionAnswering
    truncates = "nothing"
    metrics: ClassVar[Sequence[str]] = ("f1", "exact_match", "loss")

    def read(self, data: Data, dev: bool = False, skip: Skipped = None) -> list[Row]:
        """Questions, contexts and answers."""
        return read_squad(data, self.table, skip)

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """Question and context."""
        return (row.values["question"], row.values["context"])

    def group_of(self, row: Row) -> Hashable:
        """The context: a model that was trained on it knows its answers."""
        context: str = row.values["context"]
        return context

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fit_no_answer and self.no_answer_threshold is not None:
            raise ArgumentError("fit_no_answer", "chooses no_answer_threshold: drop one of them.")
        if self.fit_no_answer and self.no_answer is False:
            raise ArgumentError("fit_no_answer", "is for models that may not answer: drop it.")

    def reading(self, rows: Sequence[Row]) -> Reading:
        """Whether some questions have no answer, and the longest answer that is predicted."""
        no_answer = self.no_answer
        if no_answer is None:
            no_answer = _some_unanswerable(rows)
        longest = self.max_answer_length or LONGEST_ANSWER
        return Reading(
            task="answers",
            no_answer=no_answer,
            no_answer_threshold=self.no_answer_threshold,
            max_answer_length=longest,
            options=self.options,
        )

    def encode(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, config: BertConfig, max_length: int
    ) -> list[Example]:
        """Split rows into windows with the position of the first answer.

        Each has the offsets of every token in the context, too (-1 in the question).

        Raises:
            ValueError: A question leaves no room for its context.
        """
        questions = _questions_of(rows)
        contexts = [row.values["context"] for row in rows]
        examples = question_windows(tokenizer, questions, contexts, max_length)
        by_row: list[list[Example]] = [[] for _ in rows]
        for example in examples:
            by_row[example["row"]].append(example)
        for row, windows in zip(rows, by_row, strict=True):
            places = _places([window["offsets"] for window in windows], row.values)
            for window, (start, end) in zip(windows, places, strict=True):
                window |= {"start_positions": start, "end_positions": end}
        return examples

    def faults(
        self, rows: Sequence[Row], tokenizer: BertTokenizer, max_length: int
    ) -> dict[int, str]:
        """Questions that leave no room for their context."""
        faults = overlong_questions(tokenizer, _questions_of(rows), max_length)
        return {index: Message("the ", fault) for index, fault in faults.items()}

    def notices(
        self, rows: Sequence[Row], examples: Sequence[Example], config: BertConfig
    ) -> list[str]:
        """How many answers have no token, or more than are predicted."""
        lengths = [0] * len(rows)  # of the answers, in tokens
        for example in examples:
            if example["start_positions"]:
                length = example["end_positions"] - example["start_positions"] + 1
                lengths[example["row"]] = max(lengths[example["row"]], length)
        answered = [
            length for row, length in zip(rows, lengths, strict=True) if row.values["answers"]
        ]
        notices: list[str] = []
        if missing := answered.count(0):
            notices.append(
                f"{missing:,} of {len(answered):,} answers have no token, or fit into no window: "
                "they count as no answer."
            )
        longest = self._longest(config)
        if overlong := sum(length > longest for length in answered):
            notices.append(
                Message(
                    f"{overlong:,} of {len(answered):,} answers have more than {longest} tokens "
                    f"(up to {max(answered)}), and so are never predicted. The limit is ",
                    Argument("max_answer_length"),
                    ".",
                )
            )
        return notices

    def _longest(self, config: BertConfig) -> int:
        """Tokens of the longest answer that is predicted."""
        return self.max_answer_length or Reading.of(config).max_answer_length or LONGEST_ANSWER

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The mean of the cross entropies of the start and the end, over the tokens of a window."""
        logits = span_logits(model(**inputs_of(batch)))
        if "layout" in batch:
            is_token = batch["layout"].token_mask(logits.device)
            logits = batch["layout"].pad(logits)
        else:
            is_token = batch["attention_mask"].bool()
        windows = logits.masked_fill(~is_token[..., None], torch.finfo(logits.dtype).min)
        start, end = (
            span_loss(windows[..., number], batch[name], "sum")
            for number, name in enumerate(("start_positions", "end_positions"))
        )
        return {"start_positions": (start + end) / 2}

    def predict(self, model: Any, rows: Sequence[Row], examples: Sequence[Example]) -> list[Found]:
        """The best answer to each question, as `answer_question` finds it.

        It is "" if the lowest score of [CLS] is higher than that of the best span of all windows,
        and the model was trained on questions that cannot be answered. Of a model that does not
        say, the rows decide.
        """
        reading = Reading.of(model.config)
        no_answer = reading.no_answer if self.no_answer is None else self.no_answer
        if no_answer is None:
            no_answer = _some_unanswerable(rows)
        threshold = self.no_answer_threshold
        if threshold is None:
            threshold = reading.no_answer_threshold or 0.0
        logits = outputs_of(model, examples, span_logits)
        best = best_answers(len(rows), examples, logits, self._longest(model.config))
        losses: list[list[float]] = [[] for _ in rows]
        for example, window in zip(examples, logits, strict=True):
            start, end = example["start_positions"], example["end_positions"]
            logarithms = torch.log_softmax(window.double(), 0)
            loss = -(logarithms[start, 0] + logarithms[end, 1]) / 2
            losses[example["row"]].append(loss.item())
        predictions = []
        for row, answer, row_losses in zip(rows, best, losses, strict=True):
            context = row.values["context"]
            score = -math.inf if answer.span is None else answer.span[0]
            start, end = answer.place(context, no_answer, threshold)
            best_start, best_end = answer.place(context, no_answer=False)
            predictions.append(
                Found(
                    context[start:end],
                    score,
                    row_losses,
                    context[best_start:best_end],
                    answer.doubt,
                )
            )
        return predictions

    def calibrate(
        self, model: Any, rows: Sequence[Row], examples: Sequence[Example]
    ) -> list[Found] | None:
        """With `fit_no_answer`, put the threshold of no answer with the best F1 into the config.

        Each half of the rows is scored with the threshold that was fitted on the other half.
        """
        if not self.fit_no_answer:
            return None
        predictions = self.predict(model, rows, examples)
        answers = [row.values["answers"] for row in rows]
        agreements = metrics.answer_agreements(answers, [found.best for found in predictions])
        has_answer = np.array([bool(texts) for texts in answers])
        doubts = np.array([found.doubt for found in predictions])
        gains = np.where(has_answer, agreements[:, 1], 0.0)
        threshold = best_no_answer_threshold(doubts, gains, has_answer)
        reading = replace(Reading.of(model.config), no_answer_threshold=threshold)
        model.config.extra |= reading.as_fields()["extra"]
        tell(f"no answer where its score is higher by {threshold:.4g}: the best F1 on these rows")
        halves = [
            best_no_answer_threshold(doubts[half::2], gains[half::2], has_answer[half::2])
            for half in (0, 1)
        ]
        return [
            found.answered_up_to(halves[(index + 1) % 2]) for index, found in enumerate(predictions)
        ]

    def score(self, rows: Sequence[Row], predictions: Sequence[Found]) -> Scores:
        """Exact match and F1 of the answers' words."""
        answers = [row.values["answers"] for row in rows]
        predicted = [prediction.answer for prediction in predictions]
        agreements = metrics.answer_agreements(answers, predicted)
        has_answer = np.array([bool(texts) for texts in answers])
        losses = np.array(
            [(math.fsum(prediction.losses), len(prediction.losses)) for prediction in predictions]
        )

        def statistic(sample: Indices) -> dict[str, float]:
            exact, overlap = agreements[sample].mean(0).tolist()
            loss, count = losses[sample].sum(0)
            scores = {"exact_match": exact, "f1": overlap, "loss": float(loss / count)}
            return scores | metrics.scores_by_answer(agreements[sample], has_answer[sample])

        errors = [
            Mistake(
                row,
                rows[row].values["question"],
                " | ".join(answers[row]),
                predicted[row],
                predictions[row].score,
            )
            for row in np.flatnonzero(agreements[:, 0] == 0).tolist()
        ]
        return Scores("answers", len(rows), statistic, errors=errors)


def best_no_answer_threshold(
    doubts: metrics.Floats, gains: metrics.Floats, has_answer: npt.NDArray[np.bool_]
) -> float:
    """The threshold of no answer with the highest mean F1, as SQuAD's script finds it.

    Args:
        doubts: How much higher the score of no answer is than that of the best span, (questions,).
        gains: F1 of the best spans, (questions,).
        has_answer: Whether each question has an answer, (questions,).

    Returns:
        The threshold, midway between two doubts. Of several with the same F1 it is the one nearest
        to 0.
    """
    values = np.unique(doubts[np.isfinite(doubts)])
    if not len(values):
        return 0.0
    candidates = np.concatenate(
        [[0.0, values[0] - 1, values[-1] + 1], (values[:-1] + values[1:]) / 2]
    )
    is_answered = doubts[None, :] <= candidates[:, None]  # (candidates, questions)
    scores = np.where(is_answered, gains, ~has_answer).mean(1)
    best = candidates[np.isclose(scores, scores.max(), rtol=0, atol=1e-12)]
    return float(best[np.abs(best).argmin()])


def _some_unanswerable(rows: Sequence[Row]) -> bool:
    return any(not row.values["answers"] for row in rows)


def _places(windows: Sequence[Offsets], values: dict[str, Any]) -> list[tuple[int, int]]:
    """The first and last token of the first answer in each window, or 0 and 0.

    A window has the answer if it has all tokens that overlap with it. Characters at its ends may
    have no token, such as an accent.

    Args:
        windows: The offsets of the windows of a question.
        values: Those of its row.
    """
    if not values["answers"]:
        return [(0, 0)] * len(windows)
    begin = values["starts"][0]
    end = begin + len(values["answers"][0])
    overlapping = [
        np.flatnonzero((offsets[:, 1] > begin) & (offsets[:, 0] < end) & (offsets[:, 0] >= 0))
        for offsets in windows
    ]
    starts = [
        set(offsets[indices, 0].tolist())
        for offsets, indices in zip(windows, overlapping, strict=True)
    ]
    everything = set().union(*starts)
    return [
        (int(indices[0]), int(indices[-1])) if shown and shown == everything else (0, 0)
        for indices, shown in zip(overlapping, starts, strict=True)
    ]


def _questions_of(rows: Sequence[Row]) -> list[str]:
    return [row.values["question"] for row in rows]
