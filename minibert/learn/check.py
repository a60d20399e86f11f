"""Exercises: write a part of BERT yourself, and `check` returns what is still wrong with it.

    def gelu(x):
        return x.relu()

    print(check("gelu", gelu))

The notebooks in docs/notebooks describe what to write. An exercise is a sequence of steps, each
with a hint in English and in Korean. The first step that fails gives the hint. The answers of the
five exercises here are the package's own functions. `exercises` has the others.
"""

import difflib
import traceback
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.attention import eager_attention
from minibert.layouts import UNMASKED, Layout, PackedLayout, PaddedLayout
from minibert.learn.language import locale_language
from minibert.learn.exercises import SHORT_EXERCISES
from minibert.losses import IGNORED
from minibert.tokenization.wordpiece import MAX_WORD

Answer = Callable[..., Any]
Step = tuple[bool | None, str, str]
"""Whether the step holds, and the hint where it does not, in English and in Korean.

With None in place of a truth value, the texts are a remark on an answer that is right.
"""


def check(exercise: str, answer: Answer, language: str | None = None) -> str:
    """Return a hint on what is wrong with an answer.

    Where nothing is wrong, it names the code to compare the answer with.

    >>> print(check("gelu", torch.relu, "en"))
    Not yet. That is ReLU: below 0 GELU is not 0, it bends softly.

    Args:
        exercise: The name that the notebook gives it, such as "attention".
        answer: The function to check. The notebook describes its arguments and result.
        language: "en" or "ko". None: that of the locale.

    Raises:
        ValueError: No exercise has this name, or `answer` is not a function.
    """
    if exercise not in _EXERCISES:
        similar = difflib.get_close_matches(exercise, _EXERCISES, n=1, cutoff=0.5)
        advice = f" Did you mean {similar[0]!r}?" if similar else ""
        raise ValueError(
            f"exercise should be one of {', '.join(_EXERCISES)}, not {exercise!r}.{advice}"
        )
    if not callable(answer):
        raise ValueError(
            f"answer should be your function, such as check({exercise!r}, my_function), not "
            f"{answer!r:.80}."
        )
    which = 1 if (language or locale_language()) == "ko" else 0
    steps, home = _EXERCISES[exercise]
    remarks = ""
    try:
        for holds, *hints in steps(answer):
            if holds is None:
                remarks += f" {hints[which]}"
            elif not holds:
                return f"{_NOT_YET[which]} {hints[which]}"
    except Exception as error:  # whatever the learner's function raises
        return f"{_NOT_YET[which]} {_raised(error, answer)[which]}"
    return f"{_RIGHT[which].format(home=home)}{remarks}"


_NOT_YET = ("Not yet.", "아직 아닙니다.")
_RIGHT = ("Right. Compare it with {home}.", "맞습니다. {home}와 비교해 보세요.")


def _raised(error: Exception, answer: Answer) -> tuple[str, str]:
    """Return a hint on an exception: what it says, and the last line of the answer it came from."""
    code = getattr(answer, "__code__", None)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if code is not None and frame.filename == code.co_filename
    ]
    kind = type(error).__name__
    at = f" (line {lines[-1]} of its file or cell)" if lines else ""
    at_korean = f"({lines[-1]}번째 줄)" if lines else ""
    return (
        f"Your function raised {kind}{at}: {error}",
        f"함수에서 {kind} 오류가 났습니다{at_korean}: {error}",
    )


def _returned(value: Any, english: str, korean: str, count: int | None = None) -> Step:
    """Return the first step of each exercise: the answer returns as many things as it should."""
    if value is None:
        return (
            False,
            f"Nothing came back yet: return {english}.",
            f"반환값이 없습니다. {korean} 돌려주세요.",
        )
    is_complete = count is None or (isinstance(value, tuple) and len(value) == count)
    return is_complete, f"Return {english}.", f"{korean} 돌려주세요."


# ------------------------------------------------------------------------------------------
# 1 and 2 attention


def _heads() -> list[Tensor]:
    """Return queries, keys and values, (batch 2, seq 5, heads 3, head_size 4) each."""
    generator = torch.Generator().manual_seed(0)
    return [2 * torch.randn(2, 5, 3, 4, generator=generator) for _ in range(3)]


_SHAPES = (
    (
        "split_heads yields q, k, v as (batch, heads, seq, head_size): multiply q by k with "
        "its last two axes exchanged."
    ),
    (
        "split_heads의 q, k, v는 형태가 (batch, heads, seq, head_size)입니다. k의 마지막 두 "
        "축을 바꾸어 q와 곱하세요."
    ),
)


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return query.transpose(1, 2) @ key.transpose(1, 2).transpose(2, 3)  # not yet scaled


def _both(answer: Answer, layout: Layout) -> Generator[Step, None, tuple[Any, ...]]:
    """Run an answer and the package's own: return the context and the probabilities of each."""
    query, key, value = _heads()
    try:
        result = answer(query, key, value, layout, 0.0)
    except RuntimeError as error:  # most often that of two shapes that do not fit
        yield (
            False,
            f"{_SHAPES[0]} PyTorch says: {error}.",
            f"{_SHAPES[1]} PyTorch 오류 메시지: {error}.",
        )
        raise
    yield _returned(result, "the context and the probabilities", "컨텍스트와 확률을 함께", count=2)
    expected = eager_attention(query, key, value, layout, 0.0)
    shapes = [tuple(getattr(tensor, "shape", ())) for tensor in (*result, *expected)]
    yield (
        shapes[:2] != shapes[:1:-1],
        "Return the context first, then the probabilities.",
        "컨텍스트, 확률 순서로 돌려주세요.",
    )
    yield shapes[1] != (2, 5, 3, 3), _SHAPES[0], _SHAPES[1]  # tokens and heads exchanged: no blocks
    return *result, *expected


def _attention(answer: Answer) -> Iterator[Step]:
    tensors = yield from _both(answer, UNMASKED)
    context, probabilities, expected_context, expected = tensors
    query, key, value = _heads()
    shape = tuple(getattr(probabilities, "shape", ()))
    yield (
        shape == expected.shape,
        (
            "The probabilities should be (batch, heads, seq, seq), here "
            f"{tuple(expected.shape)}, not {shape}. {_SHAPES[0]}"
        ),
        (
            f"확률의 형태는 (batch, heads, seq, seq), 여기서는 {tuple(expected.shape)}여야 "
            f"하는데 {shape}입니다. {_SHAPES[1]}"
        ),
    )
    scores = _scores(query, key)
    yield from (
        (
            not _same(probabilities, scores.softmax(-1)),
            (
                "The scores are not divided by the square root of head_size, so the softmax is "
                "too sharp."
            ),
            "점수를 head_size의 제곱근으로 나누지 않아 소프트맥스가 지나치게 한쪽으로 쏠립니다.",
        ),
        (
            not _same(probabilities, (scores / 4).softmax(-1)),
            "The scores are divided by head_size. Divide them by its square root.",
            "점수를 head_size로 나누었습니다. 그 제곱근으로 나누세요.",
        ),
        (
            _same(probabilities.sum(-1), torch.ones(2, 3, 5)),
            (
                "Each query's probabilities should sum to 1: take the softmax over the keys, "
                "which are the last axis."
            ),
            "쿼리마다 확률의 합이 1이어야 합니다. 소프트맥스는 마지막 축인 키 방향으로 적용하세요.",
        ),
        (
            _same(probabilities, expected),
            "The probabilities are not yet softmax(q k^T / sqrt(head_size)).",
            "확률이 아직 softmax(q k^T / sqrt(head_size))와 다릅니다.",
        ),
        (
            tuple(getattr(context, "shape", ())) == expected_context.shape,
            (
                "The context should be (batch, seq, hidden): merge_heads puts the heads side by "
                "side again."
            ),
            (
                "컨텍스트의 형태는 (batch, seq, hidden)이어야 합니다. merge_heads가 헤드들을 "
                "다시 나란히 붙여 줍니다."
            ),
        ),
        (
            _same(context, expected_context),
            (
                "The context should be the probabilities times v: each token takes a share of "
                "every value."
            ),
            "컨텍스트는 확률과 v의 곱이어야 합니다. 토큰마다 모든 밸류를 그 비율만큼 가져옵니다.",
        ),
    )
    context = answer(query, key, value, UNMASKED, 1.0)[0]
    yield (
        not context.any(),
        (
            "dropout does nothing: F.dropout sets this share of the probabilities to 0 before "
            "they meet the values."
        ),
        (
            "dropout이 빠졌습니다. 밸류와 곱하기 전에 F.dropout으로 확률 가운데 그 "
            "비율만큼을 0으로 만드세요."
        ),
    )
    query, key, value = (x.flatten(0, 1) for x in (query, key, value))  # (tokens, heads, head_size)
    packed = PackedLayout([4, 6])
    yield (
        _same(
            answer(query, key, value, packed, 0.0)[0],
            eager_attention(query, key, value, packed, 0.0)[0],
        ),
        "A packed batch has several blocks: join the contexts of all of them.",
        "패딩 없는 배치에는 블록이 여러 개 있습니다. 모든 블록의 컨텍스트를 이어 붙이세요.",
    )


def _mask(answer: Answer) -> Iterator[Step]:
    attention_mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    tensors = yield from _both(answer, PaddedLayout(attention_mask))
    context, probabilities, expected_context, expected = tensors
    query, key, value = _heads()
    scores = _scores(query, key) / 2
    with_hidden_queries = scores.masked_fill(attention_mask[:, None, :, None] == 0, -1e9)
    with_scores_of_0 = scores * attention_mask[:, None, None]
    yield from (
        (
            not _same(probabilities, scores.softmax(-1)),
            "The mask changes nothing yet: [PAD] is looked at like a word. See layout.mask.",
            "마스크가 적용되지 않아 [PAD]에도 어텐션이 갑니다. layout.mask를 쓰세요.",
        ),
        (
            not _same(probabilities, with_hidden_queries.softmax(-1)),
            "That hides the queries of [PAD]: it is keys that are hidden, on the last axis.",
            "[PAD]의 쿼리를 숨기고 있습니다. 숨길 것은 마지막 축에 있는 키입니다.",
        ),
        (
            bool((probabilities[1, :, :, :3] > 0).all()),
            (
                "That hides the words and shows the padding: layout.mask is True where a token "
                "may be looked at."
            ),
            "단어를 숨기고 패딩을 남겼습니다. layout.mask는 남길 자리가 True입니다.",
        ),
        (
            not _same(probabilities, with_scores_of_0.softmax(-1)),
            (
                "A score of 0 still counts, for exp(0) is 1: a hidden score should be as low as "
                "can be."
            ),
            "exp(0)은 1이므로 점수가 0이면 확률이 남습니다. 숨길 점수는 아주 작은 값으로 바꾸세요.",
        ),
        (
            _same(probabilities.sum(-1), torch.ones(2, 3, 5)),
            (
                "The probabilities no longer sum to 1: hide the scores before the softmax, not "
                "the probabilities after it."
            ),
            (
                "확률의 합이 1이 아닙니다. 소프트맥스 뒤의 확률이 아니라 소프트맥스 앞의 점수를 "
                "숨기세요."
            ),
        ),
        (
            not probabilities[1, :, :, 3:].any(),
            (
                "A little of the padding still comes through: add the lowest number there is, "
                "torch.finfo(scores.dtype).min."
            ),
            "패딩이 아직 조금 섞입니다. 가장 작은 값 torch.finfo(scores.dtype).min을 더하세요.",
        ),
        (
            _same(probabilities, expected) and _same(context, expected_context),
            "What is left should be the same softmax, over the visible keys.",
            "결과는 보이는 키에만 소프트맥스를 적용한 것과 같아야 합니다.",
        ),
    )
    context, _ = answer(query, key, value, PaddedLayout(torch.zeros(2, 5)), 0.0)
    yield (
        bool(context.isfinite().all()),
        (
            "A row that is hidden altogether becomes NaN: take the lowest finite number instead "
            "of -inf."
        ),
        "모든 키를 숨긴 행이 NaN이 됩니다. -inf 대신 유한한 값 가운데 가장 작은 것을 쓰세요.",
    )


# ------------------------------------------------------------------------------------------
# 3 GELU


def _gelu(answer: Answer) -> Iterator[Step]:
    x = torch.linspace(-4, 4, 161)
    y = answer(x)
    is_like_x = isinstance(y, Tensor) and y.shape == x.shape
    yield _returned(y if is_like_x else None, "a tensor like x", "x와 형태가 같은 텐서를")
    for wrong, english, korean in (
        (
            x.relu(),
            "That is ReLU: below 0 GELU is not 0, it bends softly.",
            "이것은 ReLU입니다. GELU는 x가 0보다 작아도 곧바로 0이 되지 않습니다.",
        ),
        (
            torch.special.ndtr(x),
            "That is the share of x alone: multiply it by x.",
            "이것은 x에 곱할 비율입니다. x를 곱하세요.",
        ),
        (
            x * (1 + x.erf()) / 2,
            "erf takes x / sqrt(2): erf and the normal distribution are scaled differently.",
            "erf에는 x / sqrt(2)를 넣어야 합니다. erf와 정규 분포는 스케일이 다릅니다.",
        ),
        (
            F.gelu(x, approximate="tanh"),
            "That is the approximation by tanh. Google's own code uses it, and here it is called "
            'gelu_new. "gelu" is the exact function, with erf.',
            "이것은 tanh로 근사한 것입니다. 구글의 원래 코드가 쓰는 식이며, 여기서는 gelu_new라고 "
            "부릅니다. gelu는 erf를 쓰는 정확한 함수입니다.",
        ),
        (
            x * (1.702 * x).sigmoid(),
            "That is the approximation by a sigmoid. The exact function uses erf.",
            "이것은 시그모이드로 근사한 것입니다. BERT는 erf를 쓰는 정확한 함수를 씁니다.",
        ),
        (
            x * x.sigmoid(),
            "That is SiLU: GELU takes the normal distribution in place of the sigmoid.",
            "이것은 SiLU입니다. GELU는 시그모이드가 아니라 정규 분포를 씁니다.",
        ),
    ):
        yield not _same(y, wrong), english, korean
    yield (
        _same(y, F.gelu(x)),
        (
            f"gelu(1) should be 0.8413, not {y[100]:.4f}: x times the share of a normal "
            "distribution below x."
        ),
        (
            f"gelu(1)은 0.8413이어야 하는데 {y[100]:.4f}입니다. 정규 분포에서 x보다 작은 쪽의 "
            "비율에 x를 곱하세요."
        ),
    )


# ------------------------------------------------------------------------------------------
# 4 WordPiece

_PIECES = [
    "[UNK]",
    "h",
    "##u",
    "##g",
    "hug",
    "s",
    "##s",
    "ab",
    "abc",
    "##cd",
    "##ce",
    "##d",
    "a",
    "##a",
]


def _wordpiece(answer: Answer) -> Iterator[Step]:
    vocabulary = {piece: number for number, piece in enumerate(_PIECES)}
    pieces = answer("hug", vocabulary)
    yield _returned(pieces, "the list of pieces", "조각의 리스트를")
    unknown = ["[UNK]"]
    for word, expected, english, korean in (
        (
            "hug",
            ["hug"],
            "the longest piece comes first, and here it is the word itself",
            "가장 긴 조각부터 찾아야 하고, 여기서는 단어 전체가 조각입니다",
        ),
        (
            "hugs",
            ["hug", "##s"],
            "inside a word, pieces begin with ##",
            "단어 안의 조각은 ##으로 시작합니다",
        ),
        (
            "abcd",
            ["abc", "##d"],
            "at every place the longest piece is taken, from left to right",
            "왼쪽에서 오른쪽으로, 자리마다 가장 긴 조각을 고릅니다",
        ),
        (
            "hugx",
            unknown,
            "a word that cannot be spelled to its end is unknown altogether",
            "끝까지 나눌 수 없는 단어는 통째로 [UNK]입니다",
        ),
        (
            "abce",
            unknown,
            "there is no way back: abc is taken, and e cannot follow",
            "되돌아가지 않습니다. abc를 고른 뒤에는 e가 이어질 수 없습니다",
        ),
        (
            "a" * MAX_WORD,
            ["a"] + ["##a"] * (MAX_WORD - 1),
            "a word may have 100 characters",
            "단어의 길이는 100자까지 허용됩니다",
        ),
        (
            "a" * (MAX_WORD + 1),
            unknown,
            "a word of more than 100 characters is unknown, however it could be spelled",
            "100자가 넘는 단어는 나눌 수 있어도 [UNK]입니다",
        ),
    ):
        pieces = list(answer(word, vocabulary) or [])
        yield (
            pieces == expected,
            f"{word:.10} should become {expected[:3]}, not {pieces[:3]}: {english}.",
            f"{word:.10}의 결과는 {expected[:3]}여야 하는데 {pieces[:3]}입니다. {korean}.",
        )


# ------------------------------------------------------------------------------------------
# 5 masking


def _masking(answer: Answer) -> Iterator[Step]:
    words = 1000
    mask_id = 4
    count = 100_000
    special = np.arange(words) < 100
    ids = np.random.default_rng(0).integers(words, size=count)
    original_ids = ids.copy()
    result = answer(ids, np.random.default_rng(1), mask_id, special)
    yield _returned(
        result, "what the model sees and the labels", "모델이 보는 ID와 레이블을 함께", count=2
    )
    seen, labels = result
    yield (
        np.array_equal(ids, original_ids),
        "ids has been changed on the way: work on a copy, such as np.where makes.",
        "입력 ids가 바뀌었습니다. np.where처럼 복사본을 만들어 고치세요.",
    )
    chosen = labels != IGNORED
    yield (
        not chosen.all(),
        (
            f"Every token has a label: those that are not to be predicted get {IGNORED}, which "
            "the loss leaves out."
        ),
        (
            "모든 토큰에 레이블이 있습니다. 예측하지 않을 토큰의 레이블은 손실에서 빠지도록 "
            f"{IGNORED}으로 두세요."
        ),
    )
    yield (
        np.array_equal(labels[chosen], ids[chosen]),
        "A label should be the id that stood there before anything was hidden.",
        "레이블은 가리기 전에 그 자리에 있던 ID여야 합니다.",
    )
    yield (
        not special[ids[chosen]].any(),
        "[CLS], [SEP] and the like are never chosen: special[ids] says where they are.",
        "[CLS], [SEP] 같은 특수 토큰은 고르지 않습니다. special[ids]가 그 자리를 알려 줍니다.",
    )
    share = chosen.sum() / (~special[ids]).sum()
    yield (
        abs(share - 0.15) < 0.01,
        f"15% of the ordinary tokens should be chosen, not {share:.0%}.",
        f"보통 토큰 가운데 15%를 골라야 하는데 {share:.0%}를 골랐습니다.",
    )
    yield (
        np.array_equal(seen[~chosen], ids[~chosen]),
        "A token that was not chosen should be seen as it is.",
        "고르지 않은 토큰은 그대로 보여야 합니다.",
    )
    masked = (seen[chosen] == mask_id).mean()
    unchanged = (seen[chosen] == ids[chosen]).mean()
    replacements = seen[chosen & (seen != mask_id) & (seen != ids)]
    yield (
        abs(masked - 0.8) < 0.02 and abs(unchanged - 0.1) < 0.02,
        f"Of the chosen, 80% become [MASK], 10% a random token and 10% stay. Here {masked:.0%} "
        "become [MASK] and "
        f"{unchanged:.0%} stay.",
        "고른 토큰의 80%는 [MASK], 10%는 무작위 토큰이 되고 10%는 그대로 남습니다. 여기서는 "
        f"{masked:.0%}가 [MASK]가 "
        f"되고 {unchanged:.0%}가 그대로입니다.",
    )
    yield (
        len(np.unique(replacements)) > words / 2,
        "The random token should be any one of the vocabulary.",
        "무작위 토큰은 어휘 집합 전체에서 고르게 뽑아야 합니다.",
    )
    redrawn = [answer(ids, np.random.default_rng(seed), mask_id, special)[1] for seed in (1, 2)]
    yield (
        np.array_equal(redrawn[0], labels) and not np.array_equal(redrawn[1], labels),
        (
            "Draw everything from rng: the same seed should hide the same tokens, and another "
            "one others."
        ),
        (
            "모든 난수를 rng에서 뽑으세요. 시드가 같으면 같은 토큰을, 다르면 다른 토큰을 가려야 "
            "합니다."
        ),
    )
    if special[replacements].any():
        yield (
            None,
            "Your other words may be special tokens, as in the code of Google and of "
            "transformers; this package draws ordinary words only.",
            "다른 단어로 특수 토큰도 뽑는 방식입니다. Google과 transformers의 코드도 그렇게 "
            "합니다. 이 패키지는 특수 토큰을 빼고 뽑습니다.",
        )


def _same(ours: Any, expected: Tensor) -> bool:
    return (
        isinstance(ours, Tensor)
        and ours.shape == expected.shape
        and torch.allclose(ours, expected, atol=1e-5)
    )


_EXERCISES: dict[str, tuple[Callable[[Answer], Iterator[Step]], str]] = {
    "attention": (_attention, "eager_attention (minibert/attention.py)"),
    "mask": (_mask, "eager_attention, PaddedLayout (minibert/attention.py, layouts.py)"),
    "gelu": (_gelu, "ACTIVATIONS (minibert/encoder.py)"),
    "wordpiece": (_wordpiece, "WordPiece.pieces (minibert/tokenization/wordpiece.py)"),
    "masking": (_masking, "Masking (minibert/training/pretraining.py)"),
    **{name: (short.steps, short.home) for name, short in SHORT_EXERCISES.items()},
}
