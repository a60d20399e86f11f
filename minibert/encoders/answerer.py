"""The part of a text that answers a question: `Answerer`, and `answer_question`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, overload

from minibert.encoders.head_models import (
    Example,
    HeadModel,
    TextOrTexts,
    as_text_list,
    excerpt,
    outputs_of,
)
from minibert.encoders.rows.token_rows import Rows, Settings
from minibert.encoders.rows.windows import best_answers, question_windows, span_logits
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count

if TYPE_CHECKING:
    from minibert.encoders.onnx.onnx_heads import OnnxModel
    from minibert.heads import BertForQuestionAnswering

LONGEST_ANSWER = 30
"""Tokens of the longest answer of a model that does not say."""


class Answer(TypedDict):
    """An answer to a question.

    It has its text, the sum of its two logits, and `[start, end)` in characters of the context.
    """

    answer: str
    score: float
    start: int
    end: int
    no_answer_score: NotRequired[float]


class Answerer(HeadModel):
    """A question answerer with its tokenizer.

    ```python
    answerer = Answerer.from_pretrained("OUT")
    answerer.answer("Where did she live?", "She lived in London.")
    ```

    Args, attributes and errors are those of `HeadModel`.
    """

    kind = "answers"
    heads = ("BertForQuestionAnswering",)

    @overload
    def answer(  # type: ignore[overload-overlap]
        self,
        questions: str,
        contexts: str,
        *,
        stride: int | None = None,
        max_answer_length: int | None = None,
        no_answer: bool | None = None,
        no_answer_threshold: float | None = None,
    ) -> Answer: ...
    @overload
    def answer(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        *,
        stride: int | None = None,
        max_answer_length: int | None = None,
        no_answer: bool | None = None,
        no_answer_threshold: float | None = None,
    ) -> list[Answer]: ...
    def answer(
        self,
        questions: TextOrTexts,
        contexts: TextOrTexts,
        *,
        stride: int | None = None,
        max_answer_length: int | None = None,
        no_answer: bool | None = None,
        no_answer_threshold: float | None = None,
    ) -> Any:
        """As the function `answer_question`, without model and tokenizer.

        Args:
            questions: A question or several.
            contexts: The text that holds the answer, one for each question.
            stride: Tokens of context that neighboring windows share. None: a quarter of a window,
                or half of what a long question leaves of it.
            max_answer_length: Tokens of the longest answer. None: as the model was trained, or 30.
            no_answer: Allow for questions that the context does not answer. None: as the model was
                trained.
            no_answer_threshold: How much higher the score of no answer has to be than that of the
                best answer. None: as the model was trained, or 0.
        """
        if max_answer_length is not None:
            check_count("max_answer_length", max_answer_length)
        question_list = as_text_list(questions)
        context_list = as_text_list(contexts)
        examples = question_windows(
            self.tokenizer, question_list, context_list, self.max_length, stride
        )
        first_windows: dict[int, Sequence[int]] = {}
        for example in examples:
            first_windows.setdefault(example["row"], example["input_ids"])
        self.warn_of_unread_ids(
            context_list, map(first_windows.__getitem__, range(len(context_list)))
        )
        results = self._answers(
            context_list, examples, max_answer_length, no_answer, no_answer_threshold
        )
        return results[0] if isinstance(questions, str) else results

    def encode_rows(self, rows: Rows, settings: Settings) -> list[Answer]:
        """The answer to each question, in their order, as a service asks for them.

        Args:
            rows: Each a `QuestionRow`.
            settings: Without effect.
        """
        asked: list[Any] = [rows.rows[index] for index in rows.indices]
        examples: list[Example] = []
        for number, row in enumerate(asked):
            examples += [{**example, "row": number} for example in row.examples]
        return self._answers([row.text[1] for row in asked], examples)

    def _answers(
        self,
        contexts: Sequence[str],
        examples: Sequence[Example],
        max_answer_length: int | None = None,
        no_answer: bool | None = None,
        no_answer_threshold: float | None = None,
    ) -> list[Answer]:
        """The answer in each context, by its windows. None: as the model was trained."""
        if max_answer_length is None:
            max_answer_length = self.reading.max_answer_length or LONGEST_ANSWER
        if no_answer is None:
            no_answer = bool(self.reading.no_answer)
        threshold = no_answer_threshold
        if threshold is None:
            threshold = self.reading.no_answer_threshold or 0.0
        logits = outputs_of(self.model, examples, span_logits)
        best = best_answers(len(contexts), examples, logits, max_answer_length)
        results = []
        for context, answer in zip(contexts, best, strict=True):
            if answer.span is None:
                raise ValueError(f"The context {excerpt(context)} has no word to answer with.")
            start, end = answer.place(context, no_answer, threshold)
            score = answer.span[0]
            result = Answer(answer=context[start:end], score=score, start=start, end=end)
            if no_answer:
                result["no_answer_score"] = answer.no_answer_score
            results.append(result)
        return results


@overload
def answer_question(  # type: ignore[overload-overlap]
    model: BertForQuestionAnswering | OnnxModel,
    tokenizer: BertTokenizer,
    questions: str,
    contexts: str,
    *,
    stride: int | None = None,
    max_answer_length: int | None = None,
    no_answer: bool | None = None,
    no_answer_threshold: float | None = None,
) -> Answer: ...


@overload
def answer_question(
    model: BertForQuestionAnswering | OnnxModel,
    tokenizer: BertTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    *,
    stride: int | None = None,
    max_answer_length: int | None = None,
    no_answer: bool | None = None,
    no_answer_threshold: float | None = None,
) -> list[Answer]: ...


def answer_question(
    model: BertForQuestionAnswering | OnnxModel,
    tokenizer: BertTokenizer,
    questions: TextOrTexts,
    contexts: TextOrTexts,
    *,
    stride: int | None = None,
    max_answer_length: int | None = None,
    no_answer: bool | None = None,
    no_answer_threshold: float | None = None,
) -> Answer | list[Answer]:
    """Find the best answer to a question in a context.

    The context may be longer than the maximum length of the model. The answer is the span of all
    windows whose first token's start logit and last token's end logit have the largest sum (paper,
    section 4.2).

    Args:
        model: A question answerer, or one that `minibert export` has written.
        tokenizer: Its tokenizer.
        questions: A question or several.
        contexts: The text that holds the answer, one for each question.
        stride: Tokens of context that neighboring windows share. None: a quarter of a window, or
            half of what a long question leaves of it.
        max_answer_length: Tokens of the longest answer. None: as the model was trained, or 30.
        no_answer: Allow for questions that the context does not answer (paper, section 4.3). Their
            score is that of [CLS] as start and end, in the window where it is lowest. The answer is
            empty if that score is higher than the best span's. None: as the model was trained. A
            model that does not say always answers.
        no_answer_threshold: How much higher the score of no answer has to be than that of the best
            answer. None: as the model was trained, or 0.

    Returns:
        For each question `{"answer", "score", "start", "end"}`: the answer, the sum of its two
        logits, and `[start, end)` in characters of the context. With `no_answer` also
        "no_answer_score".

    Raises:
        TypeError: `model` is not a question answerer.
        ValueError: The export has another head, there is another number of contexts, a context has
            no word, or a question leaves no room for it.
    """
    return Answerer(model, tokenizer).answer(
        questions,
        contexts,
        stride=stride,
        max_answer_length=max_answer_length,
        no_answer=no_answer,
        no_answer_threshold=no_answer_threshold,
    )
