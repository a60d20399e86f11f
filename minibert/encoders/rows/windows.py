"""Split long texts into overlapping windows and find the best answer of all windows.

Prediction and training share this module.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from minibert.encoders.head_models import Example, excerpt
from minibert.encoders.rows.token_rows import TokenRow, token_types_of
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import amount
from minibert.util.errors import Argument, Message

if TYPE_CHECKING:
    from torch import Tensor

JOINERS = "\u200c\u200d"  # between the letters of a word, or the parts of an emoji
SPECIALS_OF_PAIR = 3  # [CLS] question [SEP] context [SEP]
Offsets = npt.NDArray[np.int64]
"""The place of each token in the context, `[start, end)` in characters, (tokens, 2).

It is -1 for tokens outside the context.
"""


def encode_windows(
    tokenizer: BertTokenizer,
    texts: Sequence[Any],
    contexts: Sequence[str] | None,
    max_length: int,
    stride: int,
    *,
    is_split_into_words: bool = False,
) -> Any:
    """Tokenizes texts of any length into windows.

    Args:
        tokenizer: The tokenizer.
        texts: The texts to split, or the questions that stand before every window of their context.
        contexts: The texts to split, one for each question. None: split `texts`.
        max_length: Tokens of a window, special tokens counted.
        stride: Tokens that neighboring windows share.
        is_split_into_words: Each of `texts` is a list of words.

    Returns:
        The tokenizer's batch with a row for each window. `overflow_to_sample_mapping` has the index
        of its text.
    """
    return tokenizer(
        texts,
        contexts,
        is_split_into_words=is_split_into_words,
        truncation=True if contexts is None else "only_second",
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )


class WordView(NamedTuple):
    """A word of a text, as one window shows it.

    Attributes:
        window: The index of the window.
        position: The token of its first piece.
        start: Where it begins, in characters.
        end: Where it ends, as far as any window shows it.
        margin: Tokens from its first piece to the nearer end of the window.
    """

    window: int
    position: int
    start: int
    end: int
    margin: int


def words_of_texts(batch: Any, texts: int, by_piece: bool = False) -> list[dict[int, WordView]]:
    """The words of each text by their index, or its pieces by where they begin.

    Of the windows that show a word, the one that shows its beginning counts, and of those the one
    with more around it.

    Args:
        batch: What `encode_windows` returned.
        texts: The number of texts.
        by_piece: Each piece is a word of its own.
    """
    words: list[dict[int, WordView]] = [{} for _ in range(texts)]
    windows = zip(batch["overflow_to_sample_mapping"], batch.encodings, strict=True)
    for window, (index, encoding) in enumerate(windows):
        shown: dict[int, WordView] = {}
        places = zip(encoding.word_ids, encoding.offsets, strict=True)
        for position, (word_id, (start, end)) in enumerate(places):
            if word_id is None:
                continue
            number = start if by_piece else word_id
            if number in shown:
                shown[number] = shown[number]._replace(end=end)
                continue
            margin = min(position, len(encoding.ids) - 1 - position)
            shown[number] = WordView(window, position, start, end, margin)
        for number, view in shown.items():
            known = words[index].setdefault(number, view)
            if known is view:
                continue
            end = max(known.end, view.end)
            best = min(known, view, key=lambda other: (other.start, -other.margin))
            words[index][number] = best._replace(end=end)
    return words


def context_offsets(batch: Any, window: int) -> Offsets:
    """Return the places of a window's context tokens, in characters.

    They are -1 for the question and for special tokens.
    """
    offsets = np.array(batch["offset_mapping"][window])
    in_context = np.array([part == 1 for part in batch.sequence_ids(window)])
    return np.where(in_context[:, None], offsets, -1)


def span_logits(output: Any) -> Tensor:
    """Start and end logits of a question answerer side by side: (tokens, 2) for packed rows."""
    import torch

    return torch.stack([output.start_logits, output.end_logits], dim=-1)


def best_span(
    logits: Tensor, in_context: Tensor, max_answer_length: int
) -> tuple[float, int, int] | None:
    """Find the span with the largest sum of its start logit and its end logit.

    The start logit is that of its first token, the end logit that of its last token.

    Args:
        logits: Start and end, (tokens, 2).
        in_context: Which tokens a span may include, (tokens,).
        max_answer_length: Tokens of the longest span.

    Returns:
        The sum, the first and the last token, or None if no token may be included.
    """
    import torch

    sums = logits[:, None, 0] + logits[None, :, 1]  # (first token, last token)
    allowed = (in_context[:, None] & in_context).triu().tril(max_answer_length - 1)
    if not allowed.any():
        return None
    best = int(sums.masked_fill(~allowed, -torch.inf).argmax())
    first, last = divmod(best, len(sums))
    return sums[first, last].item(), first, last


@dataclass
class BestAnswer:
    """The best span of all windows of a context.

    Attributes:
        span: Its score, and `[start, end)` in characters. None if no window has a word of the
            context.
        no_answer_score: The score of [CLS] as start and end, in the window where it is lowest.
    """

    span: tuple[float, int, int] | None = None
    no_answer_score: float = float("inf")

    @property
    def doubt(self) -> float:
        """How much higher the score of no answer is than that of the span."""
        return math.inf if self.span is None else self.no_answer_score - self.span[0]

    def place(self, context: str, no_answer: bool, threshold: float = 0.0) -> tuple[int, int]:
        """The place of the answer in the context, `[start, end)`. 0 and 0 if there is none.

        Marks of its last character belong to the answer, with or without a token.

        Args:
            context: The context.
            no_answer: Whether there may be none.
            threshold: There is none if `doubt` is more.
        """
        if self.span is None or (no_answer and self.doubt > threshold):
            return 0, 0
        _, start, end = self.span
        return start, behind_marks(context, end)


def best_answers(
    count: int,
    examples: Iterable[Mapping[str, Any]],
    logits: Iterable[Tensor],
    max_answer_length: int,
) -> list[BestAnswer]:
    """The best answer to each of `count` questions.

    Args:
        count: The number of questions.
        examples: The windows of their contexts, as `question_windows` returns them.
        logits: Start and end of each window, (tokens, 2).
        max_answer_length: Tokens of the longest answer.
    """
    import torch

    answers = [BestAnswer() for _ in range(count)]
    for example, window in zip(examples, logits, strict=True):
        answer, offsets = answers[example["row"]], example["offsets"]
        answer.no_answer_score = min(answer.no_answer_score, window[0].sum().item())
        span = best_span(window, torch.from_numpy(offsets[:, 0] >= 0), max_answer_length)
        if span is not None:
            score, first, last = span
            candidate = (score, int(offsets[first, 0]), int(offsets[last, 1]))
            answer.span = max(answer.span or candidate, candidate)
    return answers


def overlong_questions(
    tokenizer: BertTokenizer, questions: Sequence[str], max_length: int
) -> dict[int, Message]:
    """What is wrong with questions that leave no room for a context, by their indices."""
    lengths = _question_lengths(tokenizer, questions)
    faults = {
        index: _length_fault(questions[index], length, max_length)
        for index, length in enumerate(lengths)
    }
    return {index: fault for index, fault in faults.items() if fault is not None}


def _question_lengths(tokenizer: BertTokenizer, questions: Sequence[str]) -> list[int]:
    """Number of tokens of each question."""
    batch = tokenizer(list(questions), add_special_tokens=False, verbose=False)
    return list(map(len, batch["input_ids"]))


def _length_fault(question: str, tokens: int, max_length: int) -> Message | None:
    """What is wrong with a question of so many tokens, without a period, or None."""
    room = max_length - SPECIALS_OF_PAIR - 1  # a token of the context
    if tokens <= room:
        return None
    return Message(
        f"question {excerpt(question)} has {tokens} tokens, but there is room for {max(0, room)} "
        "beside a context: shorten it, or pass a larger ",
        Argument("max_length"),
        f" than {max_length}",
    )


def behind_marks(text: str, end: int) -> int:
    """Move the end of a span behind the marks that belong to its last character.

    An accent, a vowel sign or a joiner may have no token of its own, so that a span of tokens ends
    before it.
    """
    while end < len(text) and (
        unicodedata.category(text[end]).startswith("M") or text[end] in JOINERS
    ):
        end += 1
    return end


def question_windows(
    tokenizer: BertTokenizer,
    questions: Sequence[str],
    contexts: Sequence[str],
    max_length: int,
    stride: int | None = None,
) -> list[Example]:
    """The windows of each question's context, behind the question.

    Args:
        tokenizer: The tokenizer.
        questions: The questions.
        contexts: A text for each.
        max_length: Tokens of a window.
        stride: Tokens of context that neighboring windows share. None: a quarter of a window, or
            half of what a long question leaves of it.

    Returns:
        The windows in the order of their questions, each with its `offsets` in the context and
        with the index of its question (`row`).

    Raises:
        ValueError: There is another number of contexts, or a question leaves no room for its own.
    """
    if len(questions) != len(contexts):
        raise ValueError(
            f"There are {amount(len(questions), 'question')}, but "
            f"{amount(len(contexts), 'context')}: pass one for each question."
        )
    by_stride: dict[int, list[int]] = {}
    for index, length in enumerate(_question_lengths(tokenizer, questions)):
        if fault := _length_fault(questions[index], length, max_length):
            raise ValueError(Message("The ", fault, "."))
        own = _usual_stride(length, max_length) if stride is None else stride
        by_stride.setdefault(own, []).append(index)
    windows: list[Example] = []
    for size, indices in by_stride.items():
        batch = encode_windows(
            tokenizer,
            [questions[index] for index in indices],
            [contexts[index] for index in indices],
            max_length,
            size,
        )
        types = token_types_of(batch)
        for window, place in enumerate(batch["overflow_to_sample_mapping"]):
            windows.append(
                {
                    "input_ids": np.array(batch["input_ids"][window]),
                    "token_type_ids": np.array(types[window]),
                    "offsets": context_offsets(batch, window),
                    "row": indices[place],
                }
            )
    return sorted(windows, key=lambda example: example["row"])


def _usual_stride(question: int, max_length: int) -> int:
    """Tokens of context that neighboring windows share, behind a question of so many tokens."""
    return min(max_length // 4, (max_length - question - SPECIALS_OF_PAIR) // 2)


def count_window_tokens(question: int, context: int, max_length: int) -> int:
    """Tokens of all windows of `question_windows`, before they are made.

    Args:
        question: Tokens of the question.
        context: Tokens of the context.
        max_length: Tokens of a window.

    Returns:
        The tokens. 0 if the question leaves no room for a context.
    """
    room = max_length - question - SPECIALS_OF_PAIR
    if room < 1:
        return 0
    stride = _usual_stride(question, max_length)
    windows = max(1, len(range(0, context - stride, room - stride)))
    return windows * (question + SPECIALS_OF_PAIR + stride) + context - stride


@dataclass(slots=True)
class QuestionRow(TokenRow):
    """A question and its context, tokenized.

    Attributes:
        examples: The windows, as `question_windows` returns them.
    """

    examples: list[Example] = field(default_factory=list)

    @classmethod
    def of(
        cls, tokenizer: BertTokenizer, question: str, context: str, max_length: int
    ) -> QuestionRow:
        """Return the row of a question and its context.

        Args:
            tokenizer: The tokenizer.
            question: The question.
            context: The context, of any length.
            max_length: Tokens of a window.

        Raises:
            ValueError: The question leaves no room for the context.
        """
        examples = question_windows(tokenizer, [question], [context], max_length)
        windows = [example["input_ids"].tolist() for example in examples]
        return cls((question, context), windows, examples=examples)
