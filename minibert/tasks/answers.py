"""The part of a text that answers a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict, overload

import numpy as np
import torch
from torch import Tensor

from minibert.checks import check_count
from minibert.encoders.onnx_heads import OnnxHead
from minibert.heads import BertForQuestionAnswering
from minibert.inference.logits import run_rows
from minibert.tasks.arguments import Texts, as_text_list, excerpt, require_model, token_limit
from minibert.tasks.windows import (
    BestAnswer,
    best_answers,
    context_offsets,
    encode_windows,
    span_logits,
)
from minibert.tokenization.tokenizer import BertTokenizer

QuestionAnswerer = BertForQuestionAnswering | OnnxHead
SPECIAL_TOKENS = 3  # [CLS] question [SEP] context [SEP]


class Answer(TypedDict):
    """An answer to a question.

    It has its text, the sum of its two logits, and `[start, end)` in characters of the context.
    """

    answer: str
    score: float
    start: int
    end: int
    no_answer_score: NotRequired[float]


@overload
def answer_question(  # type: ignore[overload-overlap]
    model: QuestionAnswerer,
    tokenizer: BertTokenizer,
    questions: str,
    contexts: str,
    *,
    stride: int | None = None,
    max_answer_length: int = 30,
    no_answer: bool = False,
) -> Answer: ...


@overload
def answer_question(
    model: QuestionAnswerer,
    tokenizer: BertTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    *,
    stride: int | None = None,
    max_answer_length: int = 30,
    no_answer: bool = False,
) -> list[Answer]: ...


def answer_question(
    model: QuestionAnswerer,
    tokenizer: BertTokenizer,
    questions: Texts,
    contexts: Texts,
    *,
    stride: int | None = None,
    max_answer_length: int = 30,
    no_answer: bool = False,
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
        max_answer_length: Tokens of the longest answer.
        no_answer: Allow for questions that the context does not answer (paper, section 4.3). Their
            score is that of [CLS] as start and end, in the window where it is lowest. The answer is
            empty if that score is higher than the best span's.

    Returns:
        For each question `{"answer", "score", "start", "end"}`: the answer, the sum of its two
        logits, and `[start, end)` in characters of the context. With `no_answer` also
        "no_answer_score".

    Raises:
        TypeError: `model` is not a question answerer.
        ValueError: The export has another head, a context has no word, or a question leaves no room
            for it.
    """
    require_model(model, BertForQuestionAnswering, OnnxHead)
    check_count("max_answer_length", max_answer_length)
    question_list = as_text_list(questions)
    context_list = as_text_list(contexts)
    limit = token_limit(model, tokenizer)
    longest = _longest_question(tokenizer, question_list)
    room = limit - SPECIAL_TOKENS - 1  # a token of the context
    if longest > room:
        raise ValueError(
            f"A question has {longest} tokens, but the model has room for {room}: shorten it."
        )
    if stride is None:
        stride = max(0, min(limit // 4, (limit - longest - SPECIAL_TOKENS) // 2))

    batch = encode_windows(tokenizer, question_list, context_list, limit, stride)
    logits = _span_logits(model, batch["input_ids"], batch["token_type_ids"])
    offsets = [context_offsets(batch, window) for window in range(len(logits))]
    windows = zip(batch["overflow_to_sample_mapping"], offsets, logits, strict=True)
    best = best_answers(len(question_list), windows, max_answer_length)
    results = [
        _result(context, answer, no_answer)
        for context, answer in zip(context_list, best, strict=True)
    ]
    return results[0] if isinstance(questions, str) else results


def _span_logits(
    model: QuestionAnswerer, ids: list[list[int]], token_types: list[list[int]]
) -> list[Tensor]:
    """Start and end logits of each row, (tokens, 2)."""
    if isinstance(model, OnnxHead):
        if not model.answers_questions:
            raise ValueError(f"{model.source} is not the export of a question answerer.")
        outputs = model.run_ids(ids, token_types)
        pairs = zip(outputs["start_logits"], outputs["end_logits"], strict=True)
        return [torch.from_numpy(np.stack(pair, axis=-1)) for pair in pairs]

    def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
        return span_logits(model(row_ids, **inputs))

    return run_rows(model, compute, ids, token_types)


def _longest_question(tokenizer: BertTokenizer, questions: list[str]) -> int:
    """Tokens of the longest question, without special tokens."""
    ids = tokenizer(questions, add_special_tokens=False, verbose=False)["input_ids"]
    return max(map(len, ids), default=0)


def _result(context: str, best: BestAnswer, no_answer: bool) -> Answer:
    if best.span is None:
        raise ValueError(f"The context {excerpt(context)} has no word to answer with.")
    score, start, end = best.span
    result = Answer(answer=context[start:end], score=score, start=start, end=end)
    if no_answer:
        result["no_answer_score"] = best.no_answer_score
        if best.no_answer_score > score:
            result["answer"] = ""
            result["start"] = 0
            result["end"] = 0
    return result
