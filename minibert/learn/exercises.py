"""The exercises of the notebooks: what to write, cases to try it on, and common mistakes.

To add an exercise, add an entry to `EXERCISES`, below the functions that it needs. `check` does the
rest: it compares an answer with the correct one case by case, and gives the first hint that fits.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.attention import eager_attention, merge_heads, split_heads
from minibert.encoder import ACTIVATIONS
from minibert.layouts import UNMASKED, Layout, PackedLayout, PaddedLayout
from minibert.losses import IGNORED
from minibert.tokenization.wordpiece import MAX_WORD, WordPiece

Function = Callable[..., Any]
Hint = tuple[str, str]
"""A text for the learner in English and in Korean."""


def whole(answer: Function, *arguments: Any) -> Any:
    """Return what an answer returns: the part that most cases compare."""
    return answer(*arguments)


@dataclass(frozen=True, eq=False)  # a tensor has no truth value that == of two cases could use
class Case:
    """Arguments to try an answer with, and what to compare.

    Attributes:
        arguments: The arguments of the answer.
        english: What helps if this case is wrong. `{0}` is the value that the answer yields.
        korean: The same in Korean.
        part: Takes an answer and the arguments, and returns what is compared with the same part of
            the correct answer.
        tolerance: How far a number may be off.
        is_remark: The answer is right even if this case differs, and the hint is only a remark.
    """

    arguments: tuple[Any, ...]
    english: str = ""
    korean: str = ""
    part: Function = whole
    tolerance: float = 1e-5
    is_remark: bool = False


@dataclass(frozen=True, eq=False)
class CommonMistake:
    """A wrong answer that learners give, and what helps them."""

    answer: Function
    english: str
    korean: str


@dataclass(frozen=True, eq=False)
class Exercise:
    """A function that learners write.

    Attributes:
        answer: A correct answer, whose parameters have the names of the notebook.
        returns: What it returns, as a noun.
        cases: What to try it with. The first case in which an answer differs gives the hint.
        home: Where the notebook or the package has it.
        mistakes: The mistakes that have a hint of their own: they return the same in that case, and
            the correct result in those before it.
        shapes: What helps if an answer raises an error or returns other shapes.
    """

    answer: Function
    returns: Hint
    cases: Sequence[Case]
    home: str
    mistakes: Sequence[CommonMistake] = field(default_factory=tuple)
    shapes: Hint = ("", "")


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


EXERCISES: dict[str, Exercise] = {}
"""The exercises by the name that `check` takes."""


# ------------------------------------------------------------------------------------------
# 1 text to ids


def _pair(first: list[int], second: list[int], cls: int, sep: int) -> tuple[list[int], list[int]]:
    ids = [cls, *first, sep, *second, sep]
    return ids, [0] * (len(first) + 2) + [1] * (len(second) + 1)


EXERCISES["pair"] = Exercise(
    _pair,
    ("the ids and the segments", "ID와 세그먼트"),
    [Case(([7, 8], [9], 101, 102)), Case(([5], [6, 7, 8], 2, 3))],
    "tokenizer(first, second)",
    [
        CommonMistake(
            lambda *texts_and_ids: tuple(part[:-1] for part in _pair(*texts_and_ids)),
            "A [SEP] also stands after the second text.",
            "둘째 텍스트 뒤에도 [SEP]가 옵니다.",
        ),
        CommonMistake(
            lambda first, second, cls, sep: (
                _pair(first, second, cls, sep)[0],
                [0] * (len(first) + 1) + [1] * (len(second) + 2),
            ),
            "The first [SEP] belongs to the first text: its segment is 0.",
            "첫 번째 [SEP]는 첫 텍스트에 속하므로 세그먼트가 0입니다.",
        ),
    ],
)


def _pad(rows: list[list[int]], pad_id: int) -> tuple[list[list[int]], list[list[int]]]:
    longest = max(len(row) for row in rows)
    padded = [row + [pad_id] * (longest - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return padded, mask


def _pad_in_front(rows: list[list[int]], pad_id: int) -> tuple[list[list[int]], list[list[int]]]:
    padded, mask = _pad([row[::-1] for row in rows], pad_id)
    return [row[::-1] for row in padded], [row[::-1] for row in mask]


def _pad_with_reversed_mask(
    rows: list[list[int]], pad_id: int
) -> tuple[list[list[int]], list[list[int]]]:
    padded, mask = _pad(rows, pad_id)
    return padded, [[1 - value for value in row] for row in mask]


EXERCISES["pad"] = Exercise(
    _pad,
    ("the padded rows and their masks", "패딩한 행과 마스크"),
    [Case(([[1, 2, 3], [4]], 0)), Case(([[5], [6, 7]], 1))],
    "tokenizer(texts, padding=True)",
    [
        CommonMistake(
            _pad_in_front,
            "BERT pads at the end, so that [CLS] stays at position 0.",
            "BERT는 뒤쪽을 채웁니다. 그래야 [CLS]가 위치 0에 남습니다.",
        ),
        CommonMistake(
            _pad_with_reversed_mask,
            "The mask is 1 for the ids of the text and 0 for padding.",
            "마스크는 텍스트의 ID 자리가 1, 패딩 자리가 0입니다.",
        ),
    ],
)


# ------------------------------------------------------------------------------------------
# 2 ids to h0


EXERCISES["embed"] = Exercise(
    lambda ids, segments, words, positions, types: (
        words[ids] + positions[: len(ids)] + types[segments]
    ),
    ("the sum of the three embeddings of each token", "토큰별로 세 임베딩을 더한 텐서"),
    [
        Case(
            (
                torch.tensor([3, 1, 3]),
                torch.tensor([0, 0, 1]),
                _random(5, 4),
                _random(6, 4),
                _random(2, 4),
            ),
            "Add a row of words for the id, of positions for the place, and of types for the "
            "segment.",
            "ID에 해당하는 words의 행, 위치에 해당하는 positions의 행, 세그먼트에 해당하는 "
            "types의 행을 더하세요.",
        )
    ],
    "BertEmbeddings (minibert/embeddings.py)",
    [
        CommonMistake(
            lambda ids, segments, words, positions, types: words[ids] + types[segments],
            "The positions are missing: the first token gets row 0 of their table, and so on.",
            "위치 임베딩이 빠졌습니다. 첫 토큰에는 위치 표의 0행을, 다음에는 1행을 더합니다.",
        ),
        CommonMistake(
            lambda ids, segments, words, positions, types: (
                words[ids] + positions[ids] + types[segments]
            ),
            "The row of a position is the index of the token in the text, not its id.",
            "위치 표의 행 번호는 토큰의 ID가 아니라 텍스트에서의 순서입니다.",
        ),
    ],
)


EXERCISES["layer_norm"] = Exercise(
    lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias, 1e-12),
    ("x, normalized, scaled and shifted", "x를 정규화한 뒤 weight를 곱하고 bias를 더한 텐서"),
    [
        Case((_random(3, 4), _random(4), _random(1, 4)[0]), tolerance=1e-4),  # of any epsilon
        Case(
            (torch.ones(1, 4), _random(4), _random(1, 4)[0]),
            "Equal numbers have variance 0, and 0 / 0 is not a number: add a little, such as "
            "1e-12, to the variance before the root.",
            "값이 모두 같으면 분산이 0이고 0 / 0은 nan입니다. 제곱근을 구하기 전에 분산에 "
            "1e-12처럼 아주 작은 수를 더하세요.",
        ),
    ],
    "torch.nn.LayerNorm",
    [
        CommonMistake(
            lambda x, weight, bias: (x - x.mean(0)) / x.std(0, unbiased=False) * weight + bias,
            "Each token is normalized on its own: take mean and variance over the last axis.",
            "토큰마다 따로 정규화합니다. 평균과 분산을 마지막 축에서 구하세요.",
        ),
        CommonMistake(
            lambda x, weight, bias: (
                (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) * weight + bias
            ),
            "The variance divides by n, not by n - 1: unbiased=False.",
            "분산은 n - 1이 아니라 n으로 나눕니다(unbiased=False).",
        ),
        CommonMistake(
            lambda x, weight, bias: (x - x.mean()) / x.std(unbiased=False) * weight + bias,
            "Each token is normalized on its own: take mean and variance over the last axis, "
            "with keepdim=True.",
            "토큰마다 따로 정규화합니다. 평균과 분산을 마지막 축에서 구하고 keepdim=True를 쓰세요.",
        ),
        CommonMistake(
            lambda x, weight, bias: (
                (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, unbiased=False) * weight
                + bias
            ),
            "Divide by the standard deviation, which is the root of the variance.",
            "분산이 아니라 그 제곱근인 표준 편차로 나누세요.",
        ),
        CommonMistake(
            lambda x, weight, bias: F.layer_norm(x, x.shape[-1:]),
            "weight and bias are missing: multiply by weight, then add bias.",
            "weight와 bias가 빠졌습니다. weight를 곱한 다음 bias를 더하세요.",
        ),
    ],
    (
        "With keepdim=True the mean has the shape (tokens, 1), which fits x.",
        "keepdim=True를 쓰면 평균의 형태가 (tokens, 1)이 되어 x와 맞습니다.",
    ),
)


# ------------------------------------------------------------------------------------------
# 3 attention


EXERCISES["split_heads"] = Exercise(
    lambda x, heads: x.reshape(len(x), heads, -1).transpose(0, 1),
    ("x as a tensor (heads, tokens, head_size)", "형태가 (heads, tokens, head_size)인 텐서"),
    [Case((torch.arange(24.0).reshape(3, 8), 2))],
    "split_heads (minibert/attention.py)",
    [
        CommonMistake(
            lambda x, heads: x.reshape(heads, len(x), -1),
            "That mixes tokens: split the last axis first, then exchange tokens and heads.",
            "토큰이 섞였습니다. 먼저 마지막 축을 나눈 다음 토큰 축과 헤드 축을 맞바꾸세요.",
        ),
    ],
    (
        "Split the last axis into (heads, head_size), then exchange tokens and heads.",
        "마지막 축을 (heads, head_size)로 나눈 다음 토큰 축과 헤드 축을 맞바꾸세요.",
    ),
)


def _softmax_by_one_maximum(scores: Tensor) -> Tensor:
    powers = (scores - scores.max()).exp()
    return powers / powers.sum(-1, keepdim=True)


EXERCISES["softmax"] = Exercise(
    lambda scores: scores.softmax(-1),
    ("the probabilities of each row", "행마다 구한 확률 텐서"),
    [
        Case((_random(2, 3),)),
        # float32 rounds 1000 to 6e-5: exp(scores - logsumexp) is as right
        Case((torch.tensor([[1000.0, 999.0], [1.0, 2.0]]),), tolerance=1e-4),
    ],
    "torch.softmax",
    [
        CommonMistake(
            lambda scores: scores.softmax(0),
            "Each row sums to 1: the sum runs over the keys, the last axis.",
            "행마다 합이 1이어야 합니다. 키를 나타내는 마지막 축에서 더하세요.",
        ),
        CommonMistake(
            lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True),
            "exp(1000) overflows: subtract the maximum of the row first.",
            "exp(1000)은 너무 커서 오버플로가 납니다. 먼저 행의 최댓값을 빼세요.",
        ),
        CommonMistake(
            _softmax_by_one_maximum,
            "That subtracts the maximum of all rows, so a row of small scores becomes nan: "
            "subtract the maximum of each row.",
            "모든 행의 최댓값을 빼면 점수가 작은 행이 nan이 됩니다. 행마다 그 행의 최댓값을 "
            "빼세요.",
        ),
        CommonMistake(
            lambda scores: scores.flatten().softmax(0).reshape(scores.shape),
            "All numbers together sum to 1. Each row should: the sum runs over the keys, the "
            "last axis.",
            "모든 값의 합이 1입니다. 행마다 합이 1이 되도록 마지막 축인 키 방향으로 더하세요.",
        ),
    ],
    (
        "With keepdim=True the sum of each row has the shape (rows, 1), which fits scores.",
        "keepdim=True를 쓰면 행마다 구한 합의 형태가 (rows, 1)이 되어 scores와 맞습니다.",
    ),
)


# ------------------------------------------------------------------------------------------
# 4 the training tasks


_LABELS = torch.tensor([IGNORED, 3, IGNORED, 1, 0, IGNORED])
_LOGITS = _random(6, 5)
_LOGITS[1, 3] = 4.0


def _mlm_sum(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")


EXERCISES["mlm_loss"] = Exercise(
    lambda logits, labels: F.cross_entropy(logits, labels, ignore_index=IGNORED),
    ("the mean loss of the hidden tokens", "가린 토큰의 평균 손실"),
    [
        Case(
            (_LOGITS, _LABELS),
            "The loss of a token is minus the logarithm of the softmax at its label.",
            "토큰의 손실은 레이블 자리의 소프트맥스 값에 로그를 취하고 부호를 바꾼 것입니다.",
        )
    ],
    "minibert/losses.py",
    [
        CommonMistake(
            lambda logits, labels: _mlm_sum(logits, labels) / len(labels),
            "Divide by the number of hidden tokens, not by that of all tokens.",
            "전체 토큰 수가 아니라 가린 토큰 수로 나누세요.",
        ),
        CommonMistake(
            _mlm_sum,
            "That is the sum: take the mean over the hidden tokens.",
            "이것은 합입니다. 가린 토큰의 평균을 구하세요.",
        ),
    ],
)


EXERCISES["masked_accuracy"] = Exercise(
    lambda logits, labels: (logits.argmax(-1) == labels)[labels != IGNORED].float().mean().item(),
    ("the share of hidden tokens that are right", "가린 토큰 가운데 맞힌 비율"),
    [Case((_LOGITS, _LABELS))],
    "minibert/training/pretraining.py",
    [
        CommonMistake(
            lambda logits, labels: (logits.argmax(-1) == labels).float().mean().item(),
            "Tokens with the label -100 do not count, neither as right nor as wrong.",
            "레이블이 -100인 토큰은 맞은 것으로도 틀린 것으로도 세지 않습니다.",
        ),
    ],
)


# ------------------------------------------------------------------------------------------
# 5 the core of BERT


def _heads() -> list[Tensor]:
    """Return queries, keys and values, (batch 2, seq 5, heads 3, head_size 4) each."""
    generator = torch.Generator().manual_seed(0)
    return [2 * torch.randn(2, 5, 3, 4, generator=generator) for _ in range(3)]


_ROOT = 2.0  # of head_size
_LOWEST = -1e9
_PLAIN = (*_heads(), UNMASKED, 0.0)
_DROPPED = (*_heads(), UNMASKED, 1.0)
_HALF_DROPPED = (*_heads()[:2], torch.ones(2, 5, 3, 4), UNMASKED, 0.5)
_PACKED = (*(states.flatten(0, 1) for states in _heads()), PackedLayout([4, 6]), 0.0)
_PADDED = (*_heads(), PaddedLayout(torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])), 0.0)
_ALL_HIDDEN = (*_heads(), PaddedLayout(torch.zeros(2, 5)), 0.0)


def _attention_of(probabilities_of: Callable[[Tensor, Tensor], Tensor]) -> Function:
    """Return an attention function whose probabilities are another function of q k^T and mask."""

    def attention(
        query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
    ) -> tuple[Tensor, Tensor]:
        contexts = []
        for q, k, v in split_heads(query, key, value, layout):
            products = q @ k.mT
            mask = layout.mask
            if mask is None:
                mask = torch.ones(())
            probabilities = probabilities_of(products, mask.bool())
            contexts.append(probabilities @ v)
        return merge_heads(contexts, layout), probabilities

    return attention


def _context(answer: Function, *arguments: Any) -> Any:
    return answer(*arguments)[0]


def _probabilities(answer: Function, *arguments: Any) -> Any:
    return answer(*arguments)[1]


def _drops_probabilities(answer: Function, *arguments: Any) -> bool:
    """Return whether a token still takes one share of all dimensions of a head's value."""
    shares = _context(answer, *arguments).unflatten(-1, (3, 4))
    return torch.allclose(shares, shares[..., :1].expand_as(shares), atol=1e-5)


def _mean_context(answer: Function, *arguments: Any) -> Any:
    """Return the mean context of many draws of dropout."""
    states = [x.repeat(200, 1, 1, 1) for x in arguments[:3]]
    return _context(answer, *states, *arguments[3:]).mean()


EXERCISES["attention"] = Exercise(
    eager_attention,
    (
        "the context (batch, seq, hidden), which merge_heads makes, and the probabilities "
        "(batch, heads, seq, seq)",
        "merge_heads로 붙인 컨텍스트 (batch, seq, hidden)와 확률 (batch, heads, seq, seq)",
    ),
    [
        Case(
            _PLAIN,
            "The probabilities are not yet softmax(q k^T / sqrt(head_size)), with the softmax "
            "over the keys, which are the last axis.",
            "확률이 아직 softmax(q k^T / sqrt(head_size))와 다릅니다. 소프트맥스는 마지막 축인 "
            "키 방향으로 적용하세요.",
            _probabilities,
        ),
        Case(
            _PLAIN,
            "The context should be the probabilities times v: each token takes a share of "
            "every value.",
            "컨텍스트는 확률과 v의 곱이어야 합니다. 토큰마다 모든 밸류를 그 비율만큼 가져옵니다.",
            _context,
        ),
        Case(
            _DROPPED,
            "dropout does nothing: F.dropout sets this share of the probabilities to 0 before "
            "they meet the values.",
            "dropout이 빠졌습니다. 밸류와 곱하기 전에 F.dropout으로 확률 가운데 그 "
            "비율만큼을 0으로 만드세요.",
            _context,
        ),
        Case(
            _HALF_DROPPED,
            "Dropout belongs to the probabilities, before they meet the values, and not to the "
            "context.",
            "드롭아웃은 컨텍스트가 아니라 밸류와 곱하기 전의 확률에 적용하세요.",
            _drops_probabilities,
        ),
        Case(
            _HALF_DROPPED,
            "The probabilities that are left are too small: F.dropout divides them by 1 - dropout, "
            "so that their mean stays.",
            "남은 확률이 너무 작습니다. F.dropout은 평균이 그대로이도록 1 - dropout으로 나눕니다.",
            _mean_context,
            tolerance=0.1,
        ),
        Case(
            _PACKED,
            "A packed batch has several blocks: join the contexts of all of them.",
            "패딩 없는 배치에는 블록이 여러 개 있습니다. 모든 블록의 컨텍스트를 이어 붙이세요.",
            _context,
        ),
    ],
    "eager_attention (minibert/attention.py)",
    [
        CommonMistake(
            _attention_of(lambda products, mask: products.softmax(-1)),
            "The scores are not divided by the square root of head_size, so the softmax is "
            "too sharp.",
            "점수를 head_size의 제곱근으로 나누지 않아 소프트맥스가 지나치게 한쪽으로 쏠립니다.",
        ),
        CommonMistake(
            _attention_of(lambda products, mask: (products / _ROOT**2).softmax(-1)),
            "The scores are divided by head_size. Divide them by its square root.",
            "점수를 head_size로 나누었습니다. 그 제곱근으로 나누세요.",
        ),
        CommonMistake(
            _attention_of(lambda products, mask: (products / _ROOT).softmax(-2)),
            "Each query's probabilities should sum to 1: take the softmax over the keys, "
            "which are the last axis.",
            "쿼리마다 확률의 합이 1이어야 합니다. 소프트맥스는 마지막 축인 키 방향으로 적용하세요.",
        ),
    ],
    (
        "split_heads yields q, k, v as (batch, heads, seq, head_size): multiply q by k with "
        "its last two axes exchanged.",
        "split_heads의 q, k, v는 형태가 (batch, heads, seq, head_size)입니다. k의 마지막 두 "
        "축을 바꾸어 q와 곱하세요.",
    ),
)

EXERCISES["mask"] = Exercise(
    eager_attention,
    ("the context and the probabilities", "컨텍스트와 확률"),
    [
        Case(
            _PADDED,
            "A little of the padding still comes through: add the lowest number there is, "
            "torch.finfo(scores.dtype).min.",
            "패딩이 아직 조금 섞입니다. 가장 작은 값 torch.finfo(scores.dtype).min을 더하세요.",
            # the keys that _PADDED hides in the second text
            lambda answer, *inputs: answer(*inputs)[1][1, :, :, 3:],
        ),
        Case(
            _PADDED,
            "The probabilities no longer sum to 1: hide the scores before the softmax, not "
            "the probabilities after it.",
            "확률의 합이 1이 아닙니다. 소프트맥스 뒤의 확률이 아니라 소프트맥스 앞의 점수를 "
            "숨기세요.",
            lambda answer, *inputs: answer(*inputs)[1].sum(-1),
        ),
        Case(
            _PADDED,
            "What is left should be the same softmax, over the visible keys.",
            "결과는 보이는 키에만 소프트맥스를 적용한 것과 같아야 합니다.",
            _probabilities,
        ),
        Case(
            _PADDED,
            "The context should be these probabilities times v.",
            "컨텍스트는 이 확률과 v의 곱이어야 합니다.",
            _context,
        ),
        Case(
            _ALL_HIDDEN,
            "A row that is hidden altogether becomes NaN: take the lowest finite number "
            "instead of -inf.",
            "모든 키를 숨긴 행이 NaN이 됩니다. -inf 대신 유한한 값 가운데 가장 작은 것을 쓰세요.",
            lambda answer, *inputs: bool(answer(*inputs)[0].isfinite().all()),
        ),
        Case(
            _PLAIN,
            "Without a mask everything is as before: layout.mask is None then.",
            "마스크가 없으면 결과가 전과 같아야 합니다. 그때 layout.mask는 None입니다.",
            _context,
        ),
    ],
    "eager_attention, PaddedLayout (minibert/attention.py, layouts.py)",
    [
        CommonMistake(
            _attention_of(lambda products, mask: (products / _ROOT).softmax(-1)),
            "The mask changes nothing yet: [PAD] is looked at like a word. See layout.mask.",
            "마스크가 적용되지 않아 [PAD]에도 어텐션이 갑니다. layout.mask를 쓰세요.",
        ),
        CommonMistake(
            _attention_of(
                lambda products, mask: (products / _ROOT).masked_fill(~mask.mT, _LOWEST).softmax(-1)
            ),
            "That hides the queries of [PAD]: it is keys that are hidden, on the last axis.",
            "[PAD]의 쿼리를 숨기고 있습니다. 숨길 것은 마지막 축에 있는 키입니다.",
        ),
        CommonMistake(
            _attention_of(
                lambda products, mask: (products / _ROOT).masked_fill(mask, _LOWEST).softmax(-1)
            ),
            "That hides the words and shows the padding: layout.mask is True where a token "
            "may be looked at.",
            "단어를 숨기고 패딩을 남겼습니다. layout.mask는 남길 자리가 True입니다.",
        ),
        CommonMistake(
            _attention_of(lambda products, mask: (products / _ROOT * mask).softmax(-1)),
            "A score of 0 still counts, for exp(0) is 1: a hidden score should be as low as "
            "can be.",
            "exp(0)은 1이므로 점수가 0이면 확률이 남습니다. 숨길 점수는 아주 작은 값으로 바꾸세요.",
        ),
    ],
    (
        "layout.mask is (batch, 1, 1, seq), and None if nothing is masked.",
        "layout.mask의 형태는 (batch, 1, 1, seq)이고, 숨길 것이 없으면 None입니다.",
    ),
)


EXERCISES["gelu"] = Exercise(
    lambda x: F.gelu(x),
    ("a tensor like x", "x와 형태가 같은 텐서"),
    [
        Case(
            (torch.tensor([-1.0, 0.0, 1.0]),),
            "It is x times the share of a normal distribution below x.",
            "정규 분포에서 x보다 작은 쪽의 비율에 x를 곱하세요.",
        ),
        Case((torch.linspace(-4, 4, 161),)),
    ],
    "ACTIVATIONS (minibert/encoder.py)",
    [
        CommonMistake(
            torch.relu,
            "That is ReLU: below 0 GELU is not 0, it bends softly.",
            "이것은 ReLU입니다. GELU는 x가 0보다 작아도 곧바로 0이 되지 않습니다.",
        ),
        CommonMistake(
            torch.special.ndtr,
            "That is the share of x alone: multiply it by x.",
            "이것은 x에 곱할 비율입니다. x를 곱하세요.",
        ),
        CommonMistake(
            lambda x: x * (1 + x.erf()) / 2,
            "erf takes x / sqrt(2): erf and the normal distribution are scaled differently.",
            "erf에는 x / sqrt(2)를 넣어야 합니다. erf와 정규 분포는 스케일이 다릅니다.",
        ),
        CommonMistake(
            ACTIVATIONS["gelu_new"],
            "That is the approximation by tanh. Google's own code uses it, and here it is "
            'called gelu_new. "gelu" is the exact function, with erf.',
            "이것은 tanh로 근사한 것입니다. 구글의 원래 코드가 쓰는 식이며, 여기서는 "
            "gelu_new라고 부릅니다. gelu는 erf를 쓰는 정확한 함수입니다.",
        ),
        CommonMistake(
            lambda x: x * (1.702 * x).sigmoid(),
            "That is the approximation by a sigmoid. The exact function uses erf.",
            "이것은 시그모이드로 근사한 것입니다. BERT는 erf를 쓰는 정확한 함수를 씁니다.",
        ),
        CommonMistake(
            F.silu,
            "That is SiLU: GELU takes the normal distribution in place of the sigmoid.",
            "이것은 SiLU입니다. GELU는 시그모이드가 아니라 정규 분포를 씁니다.",
        ),
    ],
)

_VOCABULARY = {
    piece: number
    for number, piece in enumerate("[UNK] h ##u ##g hug s ##s ab abc ##cd ##ce ##d a ##a".split())
}


EXERCISES["wordpiece"] = Exercise(
    lambda word, vocabulary: WordPiece(vocabulary).pieces(word),
    ("the list of pieces", "조각의 리스트"),
    [
        Case(
            ("hug", _VOCABULARY),
            "The longest piece comes first, and here it is the word itself.",
            "가장 긴 조각부터 찾아야 하고, 여기서는 단어 전체가 조각입니다.",
        ),
        Case(
            ("hugs", _VOCABULARY),
            "Inside a word, pieces begin with ##.",
            "단어 안의 조각은 ##으로 시작합니다.",
        ),
        Case(
            ("abcd", _VOCABULARY),
            "At every place the longest piece is taken, from left to right.",
            "왼쪽에서 오른쪽으로, 자리마다 가장 긴 조각을 고릅니다.",
        ),
        Case(
            ("hugx", _VOCABULARY),
            "A word that cannot be spelled to its end is unknown altogether.",
            "끝까지 나눌 수 없는 단어는 통째로 [UNK]입니다.",
        ),
        Case(
            ("abce", _VOCABULARY),
            "There is no way back: abc is taken, and e cannot follow.",
            "되돌아가지 않습니다. abc를 고른 뒤에는 e가 이어질 수 없습니다.",
        ),
        Case(
            ("a" * MAX_WORD, _VOCABULARY),
            "A word may have 100 characters.",
            "단어의 길이는 100자까지 허용됩니다.",
        ),
        Case(
            ("a" * (MAX_WORD + 1), _VOCABULARY),
            "A word of more than 100 characters is unknown, however it could be spelled.",
            "100자가 넘는 단어는 나눌 수 있어도 [UNK]입니다.",
        ),
    ],
    "WordPiece.pieces (minibert/tokenization/wordpiece.py)",
)

_SPECIAL = np.arange(1000) < 100
_IDS = np.random.default_rng(0).integers(1000, size=100_000)
_MASK_ID = 4


def _mask_tokens(ids: Any, rng: Any, mask_id: int, special: Any) -> tuple[Any, Any]:
    from minibert.training.pretraining import Masking  # only here, for it takes time to import

    return Masking(mask_id, special, continues=np.zeros_like(special))(ids, rng)


def _masking_case(part: Function, english: str, korean: str, **more: Any) -> Case:
    """Return a case that compares `part(seen, labels, chosen)`."""

    def part_of(answer: Function, ids: Any, rng: Any, mask_id: int, special: Any) -> Any:
        seen, labels = answer(ids, rng, mask_id, special)
        return part(seen, labels, labels != IGNORED)

    arguments = (_IDS, np.random.default_rng(1), _MASK_ID, _SPECIAL)
    return Case(arguments, english, korean, part_of, **more)


def _fates(seen: Any, labels: Any, chosen: Any) -> tuple[float, float]:
    """Return the shares of the chosen tokens that become [MASK] and that stay."""
    is_masked = seen[chosen] == _MASK_ID
    is_unchanged = seen[chosen] == _IDS[chosen]
    return float(is_masked.mean()), float(is_unchanged.mean())


def _replacements(seen: Any, labels: Any, chosen: Any) -> Any:
    """Return the random tokens that stand in place of others."""
    return seen[chosen & (seen != _MASK_ID) & (seen != _IDS)]


def _seeds(answer: Function, ids: Any, rng: Any, mask_id: int, special: Any) -> tuple[bool, bool]:
    """Return whether the same seed chooses the same tokens, and whether another one does."""
    first, same, other = (
        answer(ids, np.random.default_rng(seed), mask_id, special)[1] for seed in (1, 1, 2)
    )
    return np.array_equal(first, same), np.array_equal(first, other)


EXERCISES["masking"] = Exercise(
    _mask_tokens,
    ("what the model sees and the labels", "모델이 보는 ID와 레이블"),
    [
        _masking_case(
            lambda seen, labels, chosen: [
                np.issubdtype(array.dtype, np.integer) for array in (seen, labels)
            ],
            "Ids and labels are whole numbers: np.zeros and np.ones make floats, unless dtype=int.",
            "ID와 레이블은 정수입니다. np.zeros와 np.ones는 dtype=int를 쓰지 않으면 실수 배열을 "
            "만듭니다.",
        ),
        _masking_case(
            lambda seen, labels, chosen: bool(chosen.all()),
            f"Every token has a label: those that are not to be predicted get {IGNORED}, which "
            "the loss leaves out.",
            "모든 토큰에 레이블이 있습니다. 예측하지 않을 토큰의 레이블은 손실에서 빠지도록 "
            f"{IGNORED}으로 두세요.",
        ),
        _masking_case(
            lambda seen, labels, chosen: np.array_equal(labels[chosen], _IDS[chosen]),
            "A label should be the id that stood there before anything was hidden.",
            "레이블은 가리기 전에 그 자리에 있던 ID여야 합니다.",
        ),
        _masking_case(
            lambda seen, labels, chosen: bool(_SPECIAL[_IDS[chosen]].any()),
            "[CLS], [SEP] and the like are never chosen: special[ids] says where they are.",
            "[CLS], [SEP] 같은 특수 토큰은 고르지 않습니다. special[ids]가 그 자리를 알려 줍니다.",
        ),
        _masking_case(
            lambda seen, labels, chosen: float(chosen.sum() / (~_SPECIAL[_IDS]).sum()),
            "15% of the ordinary tokens should be chosen, not {0:.0%}.",
            "보통 토큰 가운데 15%를 골라야 하는데 {0:.0%}를 골랐습니다.",
            tolerance=0.015,
        ),
        _masking_case(
            lambda seen, labels, chosen: np.array_equal(seen[~chosen], _IDS[~chosen]),
            "A token that was not chosen should be seen as it is.",
            "고르지 않은 토큰은 그대로 보여야 합니다.",
        ),
        _masking_case(
            _fates,
            "Of the chosen, 80% become [MASK], 10% a random token and 10% stay. Here "
            "{0[0]:.0%} become [MASK] and {0[1]:.0%} stay.",
            "고른 토큰의 80%는 [MASK], 10%는 무작위 토큰이 되고 10%는 그대로 남습니다. "
            "여기서는 {0[0]:.0%}가 [MASK]가 되고 {0[1]:.0%}가 그대로입니다.",
            tolerance=0.025,
        ),
        _masking_case(
            lambda *result: len(np.unique(_replacements(*result))) > len(_SPECIAL) / 2,
            "The random token should be any one of the vocabulary.",
            "무작위 토큰은 어휘 집합 전체에서 고르게 뽑아야 합니다.",
        ),
        Case(
            (_IDS, np.random.default_rng(1), _MASK_ID, _SPECIAL),
            "Draw everything from rng: the same seed should hide the same tokens, and another "
            "one others.",
            "모든 난수를 rng에서 뽑으세요. 시드가 같으면 같은 토큰을, 다르면 다른 토큰을 "
            "가려야 합니다.",
            _seeds,
        ),
        _masking_case(
            lambda *result: bool(_SPECIAL[_replacements(*result)].any()),
            "Your other words may be special tokens, as in the code of Google and of "
            "transformers; this package draws ordinary words only.",
            "다른 단어로 특수 토큰도 뽑는 방식입니다. Google과 transformers의 코드도 그렇게 "
            "합니다. 이 패키지는 특수 토큰을 빼고 뽑습니다.",
            is_remark=True,
        ),
    ],
    "Masking (minibert/training/pretraining.py)",
)


# ------------------------------------------------------------------------------------------
# 6 pre-training


def _entropy(counts: list[int]) -> float:
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts)


EXERCISES["entropy"] = Exercise(
    _entropy,
    ("the entropy of the counts", "개수에서 구한 엔트로피"),
    [
        Case(
            ([1, 1, 2],),
            "Divide by the sum first: it is minus the sum of p log p over the shares p.",
            "먼저 합으로 나누세요. 비율 p마다 p log p를 구해 더하고 부호를 바꿉니다.",
        ),
        Case(([10, 30, 60],)),
    ],
    "torch.distributions.Categorical.entropy",
    [
        CommonMistake(
            lambda counts: _entropy(counts) / math.log(2),
            "That is in bits. Losses are in nats: use the natural logarithm.",
            "이것은 비트 단위입니다. 손실은 자연로그를 쓰는 내트(nat) 단위입니다.",
        ),
        CommonMistake(
            lambda counts: -_entropy(counts),
            "The sign: logarithms of probabilities are negative, the entropy is positive.",
            "부호가 반대입니다. 확률의 로그는 음수이고 엔트로피는 양수입니다.",
        ),
    ],
)


def _learning_rate(step: int, steps: int, warmup: int, peak: float) -> float:
    if step < warmup:
        return peak * step / warmup
    return peak * (steps - step) / (steps - warmup)


EXERCISES["learning_rate"] = Exercise(
    _learning_rate,
    ("the learning rate of the step", "그 스텝의 학습률"),
    [
        Case(
            (step, 100, 10, 1e-1),
            "Step 0 has the rate 0, step warmup the peak and the last step 0 again, with straight "
            "lines between them.",
            "스텝 0의 학습률은 0, 스텝 warmup에서는 최댓값, 마지막 스텝에서는 다시 0이고, 그 "
            "사이는 직선입니다.",
        )
        for step in (0, 5, 10, 40, 100)  # a cosine is the same at 55, half way down
    ],
    "minibert/training/steps.py",
    [
        CommonMistake(
            lambda step, steps, warmup, peak: peak * (steps - step) / steps,
            "The warm-up is missing: the rate rises from 0 to its peak in the first steps.",
            "웜업이 빠졌습니다. 처음 몇 스텝 동안 0에서 최댓값까지 올라갑니다.",
        ),
        CommonMistake(
            lambda step, steps, warmup, peak: peak * min(1.0, step / warmup),
            "After the peak the rate falls in a straight line, to 0 at the last step.",
            "최댓값 뒤에는 직선으로 내려가 마지막 스텝에서 0이 됩니다.",
        ),
        CommonMistake(
            lambda step, steps, warmup, peak: (
                peak * (step / warmup if step < warmup else (steps - step) / steps)
            ),
            "The rate falls from its peak: divide the steps that are left by steps - warmup.",
            "학습률은 최댓값에서부터 내려갑니다. 남은 스텝 수를 steps - warmup으로 나누세요.",
        ),
    ],
)


# ------------------------------------------------------------------------------------------
# 7 fine-tuning


_WORD_IDS = [None, 0, 1, 1, 2, None]


def _word_labels(word_ids: list[int | None], labels: list[int]) -> list[int]:
    result = []
    previous = None
    for word in word_ids:
        if word is None or word == previous:
            result.append(IGNORED)
        else:
            result.append(labels[word])
        previous = word
    return result


EXERCISES["word_labels"] = Exercise(
    _word_labels,
    ("the list of labels, one for each piece", "조각마다 하나씩 붙인 레이블의 리스트"),
    [Case((_WORD_IDS, [1, 2, 0])), Case(([None, 0, 0, 0, 1, None], [3, 4]))],
    "minibert/tasks/tokens.py",
    [
        CommonMistake(
            lambda word_ids, labels: [
                IGNORED if word is None else labels[word] for word in word_ids
            ],
            "Only the first piece of a word has a label. The others get -100.",
            "단어의 첫 조각에만 레이블을 붙이고 나머지 조각은 -100으로 둡니다.",
        ),
    ],
)

_SPANS = (
    {("NAME", 0, 2), ("NAME", 5, 6), ("NAME", 8, 9)},
    {("NAME", 0, 2), ("NAME", 5, 7), ("NAME", 8, 9), ("NAME", 11, 12)},
)


def _recall(expected: set[Any], predicted: set[Any]) -> float:
    return len(expected & predicted) / len(expected)


def _precision(expected: set[Any], predicted: set[Any]) -> float:
    return len(expected & predicted) / len(predicted)


EXERCISES["f1"] = Exercise(
    lambda expected, predicted: 2 * len(expected & predicted) / (len(expected) + len(predicted)),
    ("the F1 score", "F1 점수"),
    [Case(_SPANS)],
    "f1_of_counts (minibert/tasks/metrics.py)",
    [
        CommonMistake(
            _recall,
            "That is the recall alone: F1 is the harmonic mean of precision and recall.",
            "이것은 재현율입니다. F1은 정밀도와 재현율의 조화 평균입니다.",
        ),
        CommonMistake(
            _precision,
            "That is the precision alone: F1 is the harmonic mean of precision and recall.",
            "이것은 정밀도입니다. F1은 정밀도와 재현율의 조화 평균입니다.",
        ),
        CommonMistake(
            lambda expected, predicted: (
                (_precision(expected, predicted) + _recall(expected, predicted)) / 2
            ),
            "That is the arithmetic mean of precision and recall: F1 is the harmonic one.",
            "이것은 정밀도와 재현율의 산술 평균입니다. F1은 조화 평균입니다.",
        ),
        CommonMistake(
            lambda expected, predicted: len(expected & predicted) / len(expected | predicted),
            "Divide by the spans of both sets together, where those in both count twice.",
            "합집합의 크기가 아니라 두 집합의 크기를 더한 값으로 나눠야 합니다(분자는 두 배).",
        ),
    ],
)


# ------------------------------------------------------------------------------------------
# 8 sentence vectors


def _mean_pooling(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask[..., None].float()
    return (hidden * weights).sum(1) / weights.sum(1)


EXERCISES["mean_pooling"] = Exercise(
    _mean_pooling,
    ("the mean of each row", "행마다 구한 평균 텐서"),
    [Case((_random(2, 4, 3), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])))],
    "minibert/encoders/arithmetic/pooling.py",
    [
        CommonMistake(
            lambda hidden, mask: hidden.mean(1),
            "The states of [PAD] are full of numbers: leave them out with the mask.",
            "[PAD] 자리의 상태도 0이 아닙니다. 마스크로 빼야 합니다.",
        ),
        CommonMistake(
            lambda hidden, mask: (hidden * mask[..., None]).mean(1),
            "Divide by the number of real tokens of the row, not by the length of the batch.",
            "배치의 길이가 아니라 그 행의 실제 토큰 수로 나누세요.",
        ),
        CommonMistake(
            lambda hidden, mask: hidden[:, 0],
            "That is the state of [CLS] alone: take the mean of all real tokens.",
            "이것은 [CLS]의 상태입니다. 실제 토큰 모두의 평균을 구하세요.",
        ),
        CommonMistake(
            lambda hidden, mask: (hidden * mask[..., None]).sum(1) / mask.sum(),
            "Divide by the number of real tokens of the row, not by that of the batch.",
            "배치 전체의 토큰 수가 아니라 그 행의 실제 토큰 수로 나누세요.",
        ),
    ],
    (
        "The mean runs over the tokens, axis 1. mask[..., None] has the shape (batch, tokens, "
        "1), which fits hidden.",
        "평균은 토큰 축인 1번 축에서 구합니다. mask[..., None]의 형태는 (batch, tokens, 1)이라 "
        "hidden과 맞습니다.",
    ),
)


def _contrastive(first: Tensor, second: Tensor, scale: float) -> Tensor:
    cosines = F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T
    return F.cross_entropy(scale * cosines, torch.arange(len(first)))


EXERCISES["contrastive_loss"] = Exercise(
    _contrastive,
    ("the loss", "손실"),
    [
        Case(
            (_random(3, 4), _random(4, 4)[:3], 20.0),
            "The cosines of each first with each second, times scale, are the "
            "logits. The right class of row i is i.",
            "첫째와 둘째의 모든 조합의 코사인에 scale을 곱한 것이 로짓입니다. i번째 "
            "행의 정답은 i입니다.",
        )
    ],
    "SimilarityTask.loss (minibert/tasks/similarity.py)",
    [
        CommonMistake(
            lambda first, second, scale: _contrastive(first, second, 1.0),
            "Multiply the cosines by scale: between -1 and 1 softmax is nearly even.",
            "코사인에 scale을 곱하세요. -1과 1 사이에서는 소프트맥스가 거의 고르게 나옵니다.",
        ),
        CommonMistake(
            lambda first, second, scale: F.cross_entropy(
                scale * first @ second.T, torch.arange(len(first))
            ),
            "Take cosines: L2-normalize both sides first.",
            "코사인을 쓰세요. 먼저 양쪽 벡터를 L2 정규화합니다.",
        ),
    ],
)


# ------------------------------------------------------------------------------------------
# 9 layers


def _mixed(hidden_states: list[Tensor], scores: Tensor) -> Tensor:
    weights = scores.softmax(0)
    terms = [weight * states for weight, states in zip(weights, hidden_states, strict=True)]
    return torch.stack(terms).sum(0)


def _mixed_without_softmax(hidden_states: list[Tensor], scores: Tensor) -> Tensor:
    terms = [weight * states for weight, states in zip(scores, hidden_states, strict=True)]
    return torch.stack(terms).sum(0)


EXERCISES["mixed_layers"] = Exercise(
    _mixed,
    ("the weighted sum of the hidden states", "은닉 상태의 가중합"),
    [
        Case(
            (
                [_random(2, 3), _random(3, 3)[:2], _random(4, 3)[:2]],
                torch.tensor([0.0, 1.0, 2.0]),
            ),
            "Each state of the list has one weight, for all of its tokens and dimensions.",
            "목록의 은닉 상태마다 가중치가 하나씩이고, 그 안의 모든 토큰과 차원에 똑같이 곱합니다.",
        )
    ],
    "combine_layers(hidden_states, layers, weights) (minibert/encoders/arithmetic/pooling.py)",
    [
        CommonMistake(
            _mixed_without_softmax,
            "Apply softmax to the scores first, so that the weights sum to 1.",
            "먼저 점수에 소프트맥스를 적용하세요. 그래야 가중치의 합이 1이 됩니다.",
        ),
    ],
)


def _error_band(accuracy: float, count: int) -> float:
    return 2 * math.sqrt(accuracy * (1 - accuracy) / count)


EXERCISES["error_band"] = Exercise(
    _error_band,
    ("half the width of the error band", "오차 범위의 한쪽 폭"),
    [
        Case(
            (0.75, 500),
            "A standard error is the root of accuracy * (1 - accuracy) / count.",
            "표준 오차는 accuracy * (1 - accuracy) / count의 제곱근입니다.",
        ),
        Case((0.9, 100)),
    ],
    "docs/notebooks/09_what_layers_know",
    [
        CommonMistake(
            lambda accuracy, count: _error_band(accuracy, count) / 2,
            "That is one standard error: the band is two wide on each side.",
            "이것은 표준 오차 하나입니다. 오차 범위는 양쪽으로 두 배씩입니다.",
        ),
    ],
)


# ------------------------------------------------------------------------------------------
# 10 looking inside


EXERCISES["attention_entropy"] = Exercise(
    lambda probabilities: torch.special.entr(probabilities).sum(-1),
    ("the entropy of each row", "행마다 구한 엔트로피 텐서"),
    [Case((torch.tensor([[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]),))],
    "torch.special.entr",
    [
        CommonMistake(
            lambda probabilities: -(probabilities * probabilities.log()).sum(-1),
            "0 times log 0 is not a number here, but counts as 0: torch.special.entr.",
            "0 × log 0이 nan이 됩니다. 0으로 세어야 합니다(torch.special.entr).",
        ),
    ],
)

_MAPS = [(power * _random(3, 3)).softmax(-1) for power in (1, 2, 3)]


def _rollout(maps: list[Tensor]) -> Tensor:
    result = torch.eye(len(maps[0]))
    for probabilities in maps:
        result = (probabilities + torch.eye(len(probabilities))) / 2 @ result
    return result


def _rollout_without_residual(maps: list[Tensor]) -> Tensor:
    result = torch.eye(len(maps[0]))
    for probabilities in maps:
        result = probabilities @ result
    return result


EXERCISES["rollout"] = Exercise(
    _rollout,
    ("the product of all maps", "모든 맵을 곱한 텐서"),
    [
        Case(
            (_MAPS,),
            "Each row of the result sums to 1: take half of the map and half of the identity.",
            "결과의 행마다 합이 1입니다. 맵의 절반과 단위 행렬의 절반을 더하세요.",
        )
    ],
    "rollout (minibert/study/analyses.py)",
    [
        CommonMistake(
            _rollout_without_residual,
            "The residual is missing: half of each token stays, so average with the identity.",
            "잔차 연결이 빠졌습니다. 토큰의 절반은 그대로 남으므로 단위 행렬과 평균을 내세요.",
        ),
        CommonMistake(
            lambda maps: _rollout(maps[::-1]),
            "The order: a later layer multiplies from the left.",
            "순서가 반대입니다. 뒤쪽 레이어를 왼쪽에서 곱하세요.",
        ),
    ],
)


# ------------------------------------------------------------------------------------------
# 11 Korean


_FIRST_SYLLABLE = ord("가")
_FINALS = 28  # forms that the end of a syllable can take, with none at all


def _particle(noun: str) -> str:
    has_final = (ord(noun[-1]) - _FIRST_SYLLABLE) % _FINALS != 0
    if has_final:
        return "이"
    return "가"


EXERCISES["particle"] = Exercise(
    _particle,
    ("the particle as a string", "문자열로 된 조사"),
    [Case((noun,)) for noun in ("나무", "사람", "고양이", "밥")],
    "docs/notebooks/11_korean",
    [
        CommonMistake(
            lambda noun: {"이": "가", "가": "이"}[_particle(noun)],
            "이 follows a final consonant, as in 밥이, and 가 follows a vowel, as in 나무가.",
            "받침이 있으면 ‘이’(밥이), 없으면 ‘가’(나무가)를 씁니다.",
        ),
    ],
)


def _frequent_endings(words: list[str], count: int) -> list[str]:
    endings = Counter(word[-1] for word in words if len(word) > 1)
    ranked = sorted(endings, key=lambda ending: (-endings[ending], ending))
    return ranked[:count]


EXERCISES["frequent_endings"] = Exercise(
    _frequent_endings,
    ("the list of endings", "끝 글자의 리스트"),
    [
        Case((["나는", "너는", "집에", "나"], 1)),
        Case(
            (["나", "나", "나는"], 1),
            "A word of one syllable has no ending: leave it out.",
            "한 글자로 된 단어는 끝 글자를 세지 않습니다.",
        ),
        Case(
            (["밥을", "물을", "집에", "산에", "책이"], 2),
            "Each syllable once, and of two with the same count the first in the alphabet.",
            "글자는 한 번씩만, 개수가 같으면 가나다순으로 앞선 것을 먼저 씁니다.",
        ),
    ],
    "docs/notebooks/11_korean",
)
