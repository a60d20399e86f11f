"""The short exercises at the end of each notebook: two for each, a few lines of code.

Each has a correct answer, inputs to try it on, and the mistakes that are made most often, each with
a hint in English and in Korean.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.losses import IGNORED

Function = Callable[..., Any]
Step = tuple[bool, str, str]
"""Whether the step holds, and the hint where it does not, in English and in Korean."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that learners give, and what helps them."""

    answer: Function
    english: str
    korean: str


@dataclass(frozen=True)
class ShortExercise:
    """An exercise whose answer is a function of its arguments alone.

    Attributes:
        answer: A correct answer.
        cases: Arguments to try it with.
        home: Where the notebook or the package has it.
        mistakes: The mistakes that have a hint of their own.
    """

    answer: Function
    cases: Sequence[tuple[Any, ...]]
    home: str
    mistakes: Sequence[Mistake] = field(default_factory=tuple)

    def steps(self, answer: Function) -> Iterator[Step]:
        """Compare an answer with the mistakes, then with the correct answer."""
        results = [answer(*case) for case in self.cases]
        if any(result is None for result in results):
            yield False, "Nothing came back yet.", "반환값이 없습니다."
            return
        for mistake in self.mistakes:
            wrong = [mistake.answer(*case) for case in self.cases]
            is_mistake = all(map(_agree, results, wrong))
            yield not is_mistake, mistake.english, mistake.korean
        for case, result in zip(self.cases, results, strict=True):
            expected = self.answer(*case)
            arguments = ", ".join(map(_shown, case))
            yield (
                _agree(result, expected),
                f"For ({arguments}) it should return {_shown(expected)}, not {_shown(result)}.",
                f"({arguments})의 결과가 다릅니다. 정답은 {_shown(expected)}, 반환값은 "
                f"{_shown(result)}입니다.",
            )


def _agree(result: Any, expected: Any) -> bool:
    """Return whether two results are the same, up to rounding."""
    if isinstance(expected, Tensor):
        return (
            isinstance(result, Tensor)
            and result.shape == expected.shape
            and torch.allclose(result.float(), expected.float(), atol=1e-5, equal_nan=True)
        )
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(result, (list, tuple))
            and len(result) == len(expected)
            and all(map(_agree, result, expected))
        )
    if isinstance(expected, float):
        if isinstance(result, Tensor) and result.numel() == 1:
            result = result.item()
        return isinstance(result, (int, float)) and math.isclose(result, expected, abs_tol=1e-4)
    return bool(result == expected)


def _shown(value: Any) -> str:
    """Return a value as a hint shows it: numbers rounded, large tensors by their shape."""
    if isinstance(value, Tensor):
        if value.numel() > 8:
            return f"a tensor of shape {tuple(value.shape)}"
        return str(_rounded(value.tolist()))
    if isinstance(value, float):
        return f"{value:.4f}"
    return repr(value)


def _rounded(value: Any) -> Any:
    """Return numbers in nested lists with four digits after the point. Rows stay rows."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4)


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


# ------------------------------------------------------------------------------------------
# 1 text to ids


def _pair(first: list[int], second: list[int], cls: int, sep: int) -> tuple[list[int], list[int]]:
    ids = [cls, *first, sep, *second, sep]
    return ids, [0] * (len(first) + 2) + [1] * (len(second) + 1)


def _pair_without_end(
    first: list[int], second: list[int], cls: int, sep: int
) -> tuple[list[int], list[int]]:
    ids, segments = _pair(first, second, cls, sep)
    return ids[:-1], segments[:-1]


def _pair_with_late_segment(
    first: list[int], second: list[int], cls: int, sep: int
) -> tuple[list[int], list[int]]:
    ids, _ = _pair(first, second, cls, sep)
    return ids, [0] * (len(first) + 1) + [1] * (len(second) + 2)


def _pad(rows: list[list[int]], pad: int) -> tuple[list[list[int]], list[list[int]]]:
    longest = max(len(row) for row in rows)
    padded = [row + [pad] * (longest - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return padded, mask


def _pad_in_front(rows: list[list[int]], pad: int) -> tuple[list[list[int]], list[list[int]]]:
    padded, mask = _pad([row[::-1] for row in rows], pad)
    return [row[::-1] for row in padded], [row[::-1] for row in mask]


# ------------------------------------------------------------------------------------------
# 2 ids to h0


def _embed(ids: Tensor, segments: Tensor, words: Tensor, places: Tensor, types: Tensor) -> Tensor:
    return words[ids] + places[: len(ids)] + types[segments]


def _embed_without_places(
    ids: Tensor, segments: Tensor, words: Tensor, places: Tensor, types: Tensor
) -> Tensor:
    return words[ids] + types[segments]


def _embed_places_by_id(
    ids: Tensor, segments: Tensor, words: Tensor, places: Tensor, types: Tensor
) -> Tensor:
    return words[ids] + places[ids] + types[segments]


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-12)


def _normalized_columns(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0, unbiased=False) * weight + bias


def _unbiased_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) * weight + bias


# ------------------------------------------------------------------------------------------
# 3 attention


def _split_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, -1).transpose(0, 1)


def _reshaped_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(heads, len(x), -1)


def _softmax_by_one_maximum(scores: Tensor) -> Tensor:
    powers = (scores - scores.max()).exp()
    return powers / powers.sum(-1, keepdim=True)


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


# ------------------------------------------------------------------------------------------
# 4 the training tasks


def _mlm_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, ignore_index=IGNORED)


def _mlm_sum(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")


def _mlm_over_all(logits: Tensor, labels: Tensor) -> Tensor:
    return _mlm_sum(logits, labels) / len(labels)


def _masked_accuracy(logits: Tensor, labels: Tensor) -> float:
    is_hidden = labels != IGNORED
    return (logits.argmax(-1) == labels)[is_hidden].float().mean().item()


def _accuracy_over_all(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(-1) == labels).float().mean().item()


_LABELS = torch.tensor([IGNORED, 3, IGNORED, 1, 0, IGNORED])
_LOGITS = _random(6, 5)
_LOGITS[1, 3] = 4.0


# ------------------------------------------------------------------------------------------
# 6 pre-training


def _entropy(counts: list[int]) -> float:
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts)


def _learning_rate(step: int, steps: int, warmup: int, peak: float) -> float:
    if step < warmup:
        return peak * step / warmup
    return peak * (steps - step) / (steps - warmup)


def _rate_without_warmup(step: int, steps: int, warmup: int, peak: float) -> float:
    return peak * (steps - step) / steps


def _rate_that_stays(step: int, steps: int, warmup: int, peak: float) -> float:
    return peak * min(1.0, step / warmup)


# ------------------------------------------------------------------------------------------
# 7 fine-tuning


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


def _labels_of_all_pieces(word_ids: list[int | None], labels: list[int]) -> list[int]:
    result = []
    for word in word_ids:
        if word is None:
            result.append(IGNORED)
        else:
            result.append(labels[word])
    return result


def _f1(expected: set[Any], predicted: set[Any]) -> float:
    correct = len(expected & predicted)
    return 2 * correct / (len(expected) + len(predicted))


def _recall(expected: set[Any], predicted: set[Any]) -> float:
    return len(expected & predicted) / len(expected)


def _precision(expected: set[Any], predicted: set[Any]) -> float:
    return len(expected & predicted) / len(predicted)


# ------------------------------------------------------------------------------------------
# 8 sentence vectors


def _mean_pooling(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask[..., None].float()
    return (hidden * weights).sum(1) / weights.sum(1)


def _mean_with_padding(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.mean(1)


def _mean_by_longest(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask[..., None]).mean(1)


def _contrastive(first: Tensor, second: Tensor, scale: float) -> Tensor:
    cosines = F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T
    return F.cross_entropy(scale * cosines, torch.arange(len(first)))


def _contrastive_without_scale(first: Tensor, second: Tensor, scale: float) -> Tensor:
    return _contrastive(first, second, 1.0)


def _contrastive_of_dots(first: Tensor, second: Tensor, scale: float) -> Tensor:
    return F.cross_entropy(scale * first @ second.T, torch.arange(len(first)))


# ------------------------------------------------------------------------------------------
# 9 layers


def _mixed(hidden_states: list[Tensor], scores: Tensor) -> Tensor:
    weights = scores.softmax(0)
    terms = [weight * states for weight, states in zip(weights, hidden_states, strict=True)]
    return torch.stack(terms).sum(0)


def _mixed_without_softmax(hidden_states: list[Tensor], scores: Tensor) -> Tensor:
    terms = [weight * states for weight, states in zip(scores, hidden_states, strict=True)]
    return torch.stack(terms).sum(0)


def _error_band(accuracy: float, count: int) -> float:
    return 2 * math.sqrt(accuracy * (1 - accuracy) / count)


def _standard_error(accuracy: float, count: int) -> float:
    return _error_band(accuracy, count) / 2


# ------------------------------------------------------------------------------------------
# 10 looking inside


def _attention_entropy(probabilities: Tensor) -> Tensor:
    terms: Tensor = torch.special.entr(probabilities)
    return terms.sum(-1)


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


def _rollout_backwards(maps: list[Tensor]) -> Tensor:
    return _rollout(maps[::-1])


# ------------------------------------------------------------------------------------------
# 11 Korean

_FIRST_SYLLABLE = ord("가")
_FINALS = 28  # forms that the end of a syllable can take, with none at all


def _particle(noun: str) -> str:
    has_final = (ord(noun[-1]) - _FIRST_SYLLABLE) % _FINALS != 0
    if has_final:
        return "이"
    return "가"


def _other_particle(noun: str) -> str:
    return {"이": "가", "가": "이"}[_particle(noun)]


def _frequent_endings(words: list[str], count: int) -> list[str]:
    endings = Counter(word[-1] for word in words if len(word) > 1)
    ranked = sorted(endings, key=lambda ending: (-endings[ending], ending))
    return ranked[:count]


_MAPS = [_random(3, 3).softmax(-1), _random(3, 3).exp().softmax(-1)]
_SPANS = (
    {("NAME", 0, 2), ("NAME", 5, 6), ("NAME", 8, 9)},
    {("NAME", 0, 2), ("NAME", 5, 7), ("NAME", 8, 9), ("NAME", 11, 12)},
)
_WORD_IDS = [None, 0, 1, 1, 2, None]

SHORT_EXERCISES = {
    "pair": ShortExercise(
        _pair,
        [([7, 8], [9], 101, 102), ([5], [6, 7, 8], 2, 3)],
        "tokenizer(first, second)",
        [
            Mistake(
                _pair_without_end,
                "A [SEP] also stands after the second text.",
                "둘째 텍스트 뒤에도 [SEP]가 옵니다.",
            ),
            Mistake(
                _pair_with_late_segment,
                "The first [SEP] belongs to the first text: its segment is 0.",
                "첫 번째 [SEP]는 첫 텍스트에 속하므로 세그먼트가 0입니다.",
            ),
        ],
    ),
    "pad": ShortExercise(
        _pad,
        [([[1, 2, 3], [4]], 0), ([[5], [6, 7]], 1)],
        "tokenizer(texts, padding=True)",
        [
            Mistake(
                _pad_in_front,
                "BERT pads at the end, so that [CLS] stays at position 0.",
                "BERT는 뒤쪽을 채웁니다. 그래야 [CLS]가 위치 0에 남습니다.",
            ),
        ],
    ),
    "embed": ShortExercise(
        _embed,
        [
            (
                torch.tensor([3, 1, 3]),
                torch.tensor([0, 0, 1]),
                _random(5, 4),
                _random(6, 4),
                _random(2, 4),
            )
        ],
        "BertEmbeddings (minibert/embeddings.py)",
        [
            Mistake(
                _embed_without_places,
                "The positions are missing: the first token gets row 0 of their table, and so on.",
                "위치 임베딩이 빠졌습니다. 첫 토큰에는 위치 표의 0행을, 다음에는 1행을 더합니다.",
            ),
            Mistake(
                _embed_places_by_id,
                "The row of a position is the index of the token in the text, not its id.",
                "위치 표의 행 번호는 토큰의 ID가 아니라 텍스트에서의 순서입니다.",
            ),
        ],
    ),
    "layer_norm": ShortExercise(
        _layer_norm,
        [(_random(3, 4), _random(4), _random(1, 4)[0])],
        "torch.nn.LayerNorm",
        [
            Mistake(
                _normalized_columns,
                "Each token is normalized on its own: take mean and variance over the last axis.",
                "토큰마다 따로 정규화합니다. 평균과 분산을 마지막 축에서 구하세요.",
            ),
            Mistake(
                _unbiased_norm,
                "The variance divides by n, not by n - 1: unbiased=False.",
                "분산은 n - 1이 아니라 n으로 나눕니다(unbiased=False).",
            ),
        ],
    ),
    "split_heads": ShortExercise(
        _split_heads,
        [(torch.arange(24.0).reshape(3, 8), 2)],
        "split_heads (minibert/attention.py)",
        [
            Mistake(
                _reshaped_heads,
                "That mixes tokens: split the last axis first, then exchange tokens and heads.",
                "토큰이 섞였습니다. 먼저 마지막 축을 나눈 다음 토큰 축과 헤드 축을 맞바꾸세요.",
            ),
        ],
    ),
    "softmax": ShortExercise(
        _softmax,
        [(_random(2, 3),), (torch.tensor([[1000.0, 999.0], [1.0, 2.0]]),)],
        "torch.softmax",
        [
            Mistake(
                lambda scores: scores.softmax(0),
                "Each row sums to 1: the sum runs over the keys, the last axis.",
                "행마다 합이 1이어야 합니다. 키를 나타내는 마지막 축에서 더하세요.",
            ),
            Mistake(
                lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True),
                "exp(1000) overflows: subtract the maximum of the row first.",
                "exp(1000)은 너무 커서 오버플로가 납니다. 먼저 행의 최댓값을 빼세요.",
            ),
            Mistake(
                _softmax_by_one_maximum,
                "That subtracts the maximum of all rows, so a row of small scores becomes nan: "
                "subtract the maximum of each row.",
                "모든 행의 최댓값을 빼면 점수가 작은 행이 nan이 됩니다. 행마다 그 행의 최댓값을 "
                "빼세요.",
            ),
        ],
    ),
    "mlm_loss": ShortExercise(
        _mlm_loss,
        [(_LOGITS, _LABELS)],
        "minibert/losses.py",
        [
            Mistake(
                _mlm_over_all,
                "Divide by the number of hidden tokens, not by that of all tokens.",
                "전체 토큰 수가 아니라 가린 토큰 수로 나누세요.",
            ),
            Mistake(
                _mlm_sum,
                "That is the sum: take the mean over the hidden tokens.",
                "이것은 합입니다. 가린 토큰의 평균을 구하세요.",
            ),
        ],
    ),
    "masked_accuracy": ShortExercise(
        _masked_accuracy,
        [(_LOGITS, _LABELS)],
        "evaluation of minibert pretrain",
        [
            Mistake(
                _accuracy_over_all,
                "Tokens with the label -100 do not count, neither as right nor as wrong.",
                "레이블이 -100인 토큰은 맞은 것으로도 틀린 것으로도 세지 않습니다.",
            ),
        ],
    ),
    "entropy": ShortExercise(
        _entropy,
        [([1, 1, 2],), ([10, 30, 60],)],
        "the cell on the unigram entropy above",
        [
            Mistake(
                lambda counts: _entropy(counts) / math.log(2),
                "That is in bits. Losses are in nats: use the natural logarithm.",
                "이것은 비트 단위입니다. 손실은 자연로그를 쓰는 내트(nat) 단위입니다.",
            ),
            Mistake(
                lambda counts: -_entropy(counts),
                "The sign: logarithms of probabilities are negative, the entropy is positive.",
                "부호가 반대입니다. 확률의 로그는 음수이고 엔트로피는 양수입니다.",
            ),
        ],
    ),
    "learning_rate": ShortExercise(
        _learning_rate,
        [(step, 100, 10, 1e-1) for step in (0, 5, 10, 55, 100)],
        "minibert/training/steps.py",
        [
            Mistake(
                _rate_without_warmup,
                "The warm-up is missing: the rate rises from 0 to its peak in the first steps.",
                "웜업이 빠졌습니다. 처음 몇 스텝 동안 0에서 최댓값까지 올라갑니다.",
            ),
            Mistake(
                _rate_that_stays,
                "After the peak the rate falls in a straight line, to 0 at the last step.",
                "최댓값 뒤에는 직선으로 내려가 마지막 스텝에서 0이 됩니다.",
            ),
        ],
    ),
    "word_labels": ShortExercise(
        _word_labels,
        [(_WORD_IDS, [1, 2, 0]), ([None, 0, 0, 0, 1, None], [3, 4])],
        "minibert/tasks/tokens.py",
        [
            Mistake(
                _labels_of_all_pieces,
                "Only the first piece of a word has a label. The others get -100.",
                "단어의 첫 조각에만 레이블을 붙이고 나머지 조각은 -100으로 둡니다.",
            ),
        ],
    ),
    "f1": ShortExercise(
        _f1,
        [_SPANS],
        "minibert/tasks/evaluation.py",
        [
            Mistake(
                _recall,
                "That is the recall alone: F1 is the harmonic mean of precision and recall.",
                "이것은 재현율입니다. F1은 정밀도와 재현율의 조화 평균입니다.",
            ),
            Mistake(
                _precision,
                "That is the precision alone: F1 is the harmonic mean of precision and recall.",
                "이것은 정밀도입니다. F1은 정밀도와 재현율의 조화 평균입니다.",
            ),
        ],
    ),
    "mean_pooling": ShortExercise(
        _mean_pooling,
        [(_random(2, 4, 3), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]))],
        "minibert/encoders/pooling.py",
        [
            Mistake(
                _mean_with_padding,
                "The states of [PAD] are full of numbers: leave them out with the mask.",
                "[PAD] 자리의 상태도 0이 아닙니다. 마스크로 빼야 합니다.",
            ),
            Mistake(
                _mean_by_longest,
                "Divide by the number of real tokens of the row, not by the length of the batch.",
                "배치의 길이가 아니라 그 행의 실제 토큰 수로 나누세요.",
            ),
        ],
    ),
    "contrastive_loss": ShortExercise(
        _contrastive,
        [(_random(3, 4), _random(4, 4)[:3], 20.0)],
        "the loss of `minibert finetune pairs`",
        [
            Mistake(
                _contrastive_without_scale,
                "Multiply the cosines by scale: between -1 and 1 softmax is nearly even.",
                "코사인에 scale을 곱하세요. -1과 1 사이에서는 소프트맥스가 거의 고르게 나옵니다.",
            ),
            Mistake(
                _contrastive_of_dots,
                "Take cosines: L2-normalize both sides first.",
                "코사인을 쓰세요. 먼저 양쪽 벡터를 L2 정규화합니다.",
            ),
        ],
    ),
    "mixed_layers": ShortExercise(
        _mixed,
        [([_random(2, 3), _random(3, 3)[:2], _random(4, 3)[:2]], torch.tensor([0.0, 1.0, 2.0]))],
        "combine_layers(hidden_states, layers, weights) (minibert/encoders/pooling.py)",
        [
            Mistake(
                _mixed_without_softmax,
                "Apply softmax to the scores first, so that the weights sum to 1.",
                "먼저 점수에 소프트맥스를 적용하세요. 그래야 가중치의 합이 1이 됩니다.",
            ),
        ],
    ),
    "error_band": ShortExercise(
        _error_band,
        [(0.75, 500), (0.9, 100)],
        "the notebook's own error band",
        [
            Mistake(
                _standard_error,
                "That is one standard error: the band is two wide on each side.",
                "이것은 표준 오차 하나입니다. 오차 범위는 양쪽으로 두 배씩입니다.",
            ),
        ],
    ),
    "attention_entropy": ShortExercise(
        _attention_entropy,
        [(torch.tensor([[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]),)],
        "torch.special.entr",
        [
            Mistake(
                lambda probabilities: -(probabilities * probabilities.log()).sum(-1),
                "0 times log 0 is not a number here, but counts as 0: torch.special.entr.",
                "0 × log 0이 nan이 됩니다. 0으로 세어야 합니다(torch.special.entr).",
            ),
        ],
    ),
    "rollout": ShortExercise(
        _rollout,
        [(_MAPS,)],
        "rollout (minibert/study/analyses.py)",
        [
            Mistake(
                _rollout_without_residual,
                "The residual is missing: half of each token stays, so average with the identity.",
                "잔차 연결이 빠졌습니다. 토큰의 절반은 그대로 남으므로 단위 행렬과 평균을 내세요.",
            ),
            Mistake(
                _rollout_backwards,
                "The order: a later layer multiplies from the left.",
                "순서가 반대입니다. 뒤쪽 레이어를 왼쪽에서 곱하세요.",
            ),
        ],
    ),
    "particle": ShortExercise(
        _particle,
        [(noun,) for noun in ("나무", "사람", "고양이", "밥")],
        "this notebook",
        [
            Mistake(
                _other_particle,
                "The other way round: 이 follows a final consonant, as in 밥이.",
                "반대입니다. 받침이 있으면 ‘이’를 씁니다(밥이).",
            ),
        ],
    ),
    "frequent_endings": ShortExercise(
        _frequent_endings,
        [(["나는", "너는", "집에", "나"], 1), (["밥을", "물을", "집에", "산에", "책이"], 2)],
        "this notebook",
    ),
}
"""The exercises by the name that `check` takes."""
