"""The exercises: each common wrong answer gets a helpful hint, and the package's code is right."""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from minibert.attention import eager_attention, merge_heads, split_heads
from minibert.encoder import ACTIVATIONS
from minibert.layouts import PackedLayout
from minibert.learn.exercises import EXERCISES
from minibert.losses import IGNORED
from minibert.study import check
from minibert.tokenization.wordpiece import WordPiece
from minibert.training.pretraining import Masking


def pieces(word: str, vocabulary: dict[str, int]) -> list[str]:
    return WordPiece(vocabulary).pieces(word)


def mask_tokens(ids: Any, rng: Any, mask_id: int, special: Any) -> Any:
    return Masking(mask_id, special, continues=np.zeros_like(special))(ids, rng)


def both(exercise: str, answer: Any) -> list[str]:
    """Return the hint in English and in Korean."""
    return [check(exercise, answer, language) for language in ("en", "ko")]


RIGHT = {
    "attention": eager_attention,
    "mask": eager_attention,
    "gelu": ACTIVATIONS["gelu"],
    "wordpiece": pieces,
    "masking": mask_tokens,
}


@pytest.mark.parametrize("exercise", RIGHT)
def test_the_packages_own_code_is_right(exercise: str) -> None:
    english, korean = both(exercise, RIGHT[exercise])
    assert english.startswith("Right. Compare it with ") and korean.startswith("맞습니다.")
    english, korean = both(exercise, lambda *_: None)
    assert english.startswith("Not yet. Nothing came back") and korean.startswith("아직 아닙니다.")


def test_an_unknown_exercise_is_an_error() -> None:
    with pytest.raises(ValueError, match="exercise should be one of pair, pad, .*, not 'pooler'"):
        check("pooler", torch.relu)


def attention(
    scale: float = 0.5,
    axis: int = -1,
    hide: Callable[[Tensor, Tensor], Tensor] = lambda scores, mask: scores.masked_fill(
        ~mask, -3e38
    ),
    after: Callable[[Tensor, Tensor | None], Tensor] = lambda probabilities, mask: probabilities,
    drop: bool = True,
    transpose: bool = True,
    first_only: bool = False,
    join: bool = True,
    values: bool = True,
) -> Any:
    """Return an attention function with one mistake."""

    def answer(query: Tensor, key: Tensor, value: Tensor, layout: Any, dropout: float) -> Any:
        contexts = []
        for q, k, v in split_heads(query, key, value, layout):
            scores = q @ k.transpose(2, 3) * scale if transpose else q * k
            if layout.mask is not None:
                scores = hide(scores, layout.mask)
            weights = after(scores.softmax(axis), layout.mask)
            dropped = F.dropout(weights, dropout) if drop else weights
            contexts.append(dropped @ v if values and transpose else v)
        if first_only and isinstance(layout, PackedLayout):
            contexts[1:] = [torch.zeros_like(context) for context in contexts[1:]]
        return (merge_heads(contexts, layout) if join else contexts[0]), weights

    return answer


def dropping(dropped: Callable[[Tensor, Tensor, float], Tensor]) -> Any:
    """Return an attention function whose context is a function of probabilities and values."""

    def answer(query: Tensor, key: Tensor, value: Tensor, layout: Any, dropout: float) -> Any:
        contexts = []
        for q, k, v in split_heads(query, key, value, layout):
            weights = (q @ k.mT / 2).softmax(-1)
            contexts.append(dropped(weights, v, dropout))
        return merge_heads(contexts, layout), weights

    return answer


def needs_mask(layout: Any) -> Any:
    """Return a layout, unless it has no mask."""
    return layout if ~layout.mask is not None else None


def without_blocks(query: Tensor, key: Tensor, value: Tensor, layout: Any, dropout: float) -> Any:
    weights = (query @ key.transpose(2, 3) / 2).softmax(-1)  # (batch, seq, heads, heads)
    return (weights @ value).flatten(2), weights


def gelu_of(share: Callable[[Tensor], Tensor]) -> Any:
    return lambda x: x * share(x)


def wordpiece(
    mark: bool = True,
    longest: bool = True,
    whole: bool = True,
    back: bool = False,
    limit: bool = True,
) -> Any:
    """Return a WordPiece function with one mistake."""

    def spell(word: str, vocabulary: Any, inside: bool) -> list[str] | None:
        if not word:
            return []
        for end in range(len(word), 0, -1) if longest else range(1, len(word) + 1):
            piece = "##" * (inside and mark) + word[:end]
            if piece in vocabulary:
                rest = spell(word[end:], vocabulary, True)
                if rest is not None or not back:
                    return rest if rest is None else [piece, *rest]
        return None if whole else ["[UNK]"]

    def answer(word: str, vocabulary: Any) -> list[str]:
        if limit and len(word) > 100:
            return ["[UNK]"]
        spelled = spell(word, vocabulary, False)
        return ["[UNK]"] if spelled is None else spelled

    return answer


def masking(**wrong: Any) -> Any:
    """Return a masking function with one mistake."""

    def answer(ids: Any, rng: Any, mask_id: int, special: Any) -> Any:
        rng = np.random.default_rng(5) if wrong.get("own_rng") else rng
        labels = ids if wrong.get("in_place") is None else ids.copy()
        chosen = rng.random(len(ids)) < wrong.get("probability", 0.15)
        if not wrong.get("special"):
            chosen &= ~special[ids]
        fate = rng.random(len(ids))
        seen = ids if wrong.get("in_place") else ids.copy()
        seen[chosen & (fate < wrong.get("masked", 0.8))] = mask_id
        words = np.flatnonzero(special if wrong.get("special_words") else ~special)
        if wrong.get("any_words"):
            words = np.arange(len(special))
        others = chosen & (fate >= 0.9)
        seen[others] = rng.choice(words, size=others.sum())
        if wrong.get("disturbed"):
            seen[~chosen] = mask_id
        if wrong.get("labels_of_seen"):
            labels = seen
        return seen, labels.copy() if wrong.get("all") else np.where(chosen, labels, IGNORED)

    return answer


WRONG: dict[str, tuple[str, Any, str, str]] = {
    "only one thing": (
        "attention",
        lambda q, k, v, layout, p: q,
        "return the context (batch, seq, hidden)",
        "merge_heads로 붙인 컨텍스트",
    ),
    "not transposed": ("attention", attention(transpose=False), "axes exchanged", "두 축을 바꾸어"),
    "no transpose": (
        "attention",
        lambda q, k, v, layout, p: [q @ k for q, k, v in split_heads(q, k, v, layout)],
        "axes exchanged",
        "두 축을 바꾸어",
    ),
    "swapped": (
        "attention",
        lambda *inputs: attention()(*inputs)[::-1],
        "The order is another one: return the context",
        "순서가 다릅니다",
    ),
    "no blocks": ("attention", without_blocks, "split_heads yields q, k, v", "split_heads의"),
    "not scaled": (
        "attention",
        attention(scale=1),
        "not divided by the square root",
        "나누지 않아",
    ),
    "scaled twice": (
        "attention",
        attention(scale=0.25),
        "Divide them by its square root",
        "그 제곱근으로",
    ),
    "wrong axis": (
        "attention",
        attention(axis=-2),
        "over the keys, which are the last axis",
        "마지막 축인 키",
    ),
    "something else": ("attention", attention(scale=0.7), "not yet softmax(q k^T", "아직 softmax"),
    "not joined": (
        "attention",
        attention(join=False),
        "which merge_heads makes",
        "merge_heads로",
    ),
    "no values": (
        "attention",
        attention(values=False),
        "the probabilities times v",
        "확률과 v의 곱",
    ),
    "no dropout": (
        "attention",
        attention(drop=False),
        "dropout does nothing",
        "dropout이 빠졌습니다",
    ),
    "dropout of the context": (
        "attention",
        dropping(lambda p, v, dropout: F.dropout(p @ v, dropout)),
        "before they meet the values, and not to the context",
        "컨텍스트가 아니라",
    ),
    "dropout without its factor": (
        "attention",
        dropping(lambda p, v, dropout: p * (torch.rand_like(p) >= dropout) @ v),
        "F.dropout divides them",
        "1 - dropout으로 나눕니다",
    ),
    "one block": ("attention", attention(first_only=True), "several blocks", "블록이 여러 개"),
    "no mask": (
        "mask",
        attention(hide=lambda s, m: s),
        "The mask changes nothing yet",
        "마스크가 적용되지 않아",
    ),
    "queries": (
        "mask",
        attention(hide=lambda s, m: s.masked_fill(~m.mT, -3e38)),
        "hides the queries",
        "쿼리를 숨기고",
    ),
    "inverted": (
        "mask",
        attention(hide=lambda s, m: s.masked_fill(m, -3e38)),
        "shows the padding",
        "패딩을 남겼습니다",
    ),
    "times": ("mask", attention(hide=lambda s, m: s * m), "exp(0) is 1", "exp(0)은 1이므로"),
    "after": (
        "mask",
        attention(hide=lambda s, m: s, after=lambda p, m: p if m is None else p * m),
        "before the softmax, not",
        "소프트맥스 앞의 점수",
    ),
    "a little": (
        "mask",
        attention(hide=lambda s, m: s - 8.0 * ~m),
        "still comes through",
        "아직 조금",
    ),
    "too much": ("mask", attention(scale=1), "over the visible keys", "보이는 키에"),
    "-inf": (
        "mask",
        attention(hide=lambda s, m: s.masked_fill(~m, -torch.inf)),
        "becomes NaN",
        "NaN이 됩니다",
    ),
    "always a mask": (
        "mask",
        lambda q, k, v, layout, p: attention()(q, k, v, needs_mask(layout), p),
        "'NoneType'",
        "'NoneType'",
    ),
    "no epsilon": (
        "layer_norm",
        lambda x, w, b: (x - x.mean(-1, True)) / x.std(-1, False, keepdim=True) * w + b,
        "Equal numbers have variance 0",
        "분산이 0이고",
    ),
    "words of one syllable": (
        "frequent_endings",
        lambda words, n: sorted((e := [w[-1] for w in words]), key=lambda x: -e.count(x))[:n],
        "A word of one syllable has no ending",
        "한 글자로 된 단어",
    ),
    "relu": ("gelu", torch.relu, "That is ReLU", "ReLU입니다"),
    "share": ("gelu", torch.special.ndtr, "multiply it by x", "x를 곱하세요"),
    "erf(x)": (
        "gelu",
        gelu_of(lambda x: (1 + x.erf()) / 2),
        "erf takes x / sqrt(2)",
        "x / sqrt(2)를",
    ),
    "tanh": (
        "gelu",
        ACTIVATIONS["gelu_new"],
        "Google's own code uses it, and here it is called gelu_new",
        "구글의 원래 코드가 쓰는 식",
    ),
    "sigmoid": (
        "gelu",
        gelu_of(lambda x: (1.702 * x).sigmoid()),
        "approximation by a sigmoid",
        "시그모이드로 근사",
    ),
    "silu": ("gelu", F.silu, "That is SiLU", "SiLU입니다"),
    "identity": ("gelu", lambda x: x, "0.8413], not [-1.0, 0.0, 1.0]", "[-1.0, 0.0, 1.0]입니다"),
    "a number": ("gelu", lambda x: 1.0, "return a tensor like x", "x와 형태가 같은"),
    "shortest": (
        "wordpiece",
        wordpiece(longest=False),
        "The longest piece comes first",
        "가장 긴 조각부터",
    ),
    "no ##": ("wordpiece", wordpiece(mark=False), "pieces begin with ##", "##으로 시작"),
    "half unknown": ("wordpiece", wordpiece(whole=False), "unknown altogether", "통째로 [UNK]"),
    "back": ("wordpiece", wordpiece(back=True), "no way back", "되돌아가지"),
    "no limit": ("wordpiece", wordpiece(limit=False), "more than 100 characters", "100자가 넘는"),
    "cosine": (
        "learning_rate",
        lambda step, steps, warmup, peak: (
            peak
            * min(step / warmup, (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2)
        ),
        "with straight lines between",
        "그 사이는 직선",
    ),
    "two maps": (
        "rollout",
        lambda maps: (maps[1] + torch.eye(3)) @ (maps[0] + torch.eye(3)) / 4,
        "Each row of the result sums to 1",
        "행마다 합이 1",
    ),
    "set in place": (
        "f1",
        lambda expected, predicted: (
            2 / (len(expected) + len(predicted)) * len(expected.__iand__(predicted))
        ),
        "expected has been changed on the way",
        "입력 expected의 값이 바뀌었습니다",
    ),
    "float labels": (
        "masking",
        lambda *inputs: (masking()(*inputs)[0], masking()(*inputs)[1] * 1.0),
        "Ids and labels are whole numbers",
        "ID와 레이블은 정수입니다",
    ),
    "in place": ("masking", masking(in_place=True), "work on a copy", "복사본"),
    "all labels": ("masking", masking(all=True), "the loss leaves out", "손실에서 빠지도록"),
    "labels of seen": (
        "masking",
        masking(labels_of_seen=True),
        "before anything was hidden",
        "가리기 전에",
    ),
    "special": ("masking", masking(special=True), "never chosen", "고르지 않습니다"),
    "share of tokens": (
        "masking",
        masking(probability=0.3),
        "should be chosen, not 30%",
        "30%를 골랐습니다",
    ),
    "others": ("masking", masking(disturbed=True), "seen as it is", "그대로 보여야"),
    "always [MASK]": (
        "masking",
        masking(masked=2.0),
        "80% become [MASK], 10% a random token",
        "80%는 [MASK]",
    ),
    "special words": (
        "masking",
        masking(special_words=True),
        "any one of the vocabulary",
        "어휘 집합 전체에서",
    ),
    "own rng": ("masking", masking(own_rng=True), "Draw everything from rng", "rng에서 뽑으세요"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_answer_gets_the_right_hint(mistake: str) -> None:
    exercise, answer, english, korean = WRONG[mistake]
    lines = both(exercise, answer)
    assert lines[0].startswith("Not yet. ") and english in lines[0]
    assert lines[1].startswith("아직 아닙니다. ") and korean in lines[1]


@pytest.mark.parametrize("exercise", RIGHT)
def test_the_answers_without_a_mistake_pass(exercise: str) -> None:
    """This shows that each wrong answer above has only one mistake."""
    answer = {"gelu": F.gelu, "wordpiece": wordpiece(), "masking": masking()}.get(
        exercise, attention()
    )
    assert check(exercise, answer, "en").startswith("Right.")


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_exercise(exercise: str) -> None:
    entry = EXERCISES[exercise]
    assert check(exercise, entry.answer, "en").startswith("Right. Compare it with ")
    assert "Nothing came back" in check(exercise, lambda *_: None, "en")
    assert "should return" in check(exercise, lambda *_: {}, "en")
    for mistake in entry.mistakes:
        english, korean = both(exercise, mistake.answer)
        assert english == f"Not yet. {mistake.english}"
        assert korean == f"아직 아닙니다. {mistake.korean}"


def test_random_special_tokens_are_accepted_with_a_remark() -> None:
    """The code of Google and of transformers can draw special tokens, too."""
    english, korean = both("masking", masking(any_words=True))
    assert english.startswith("Right.") and "as in the code of Google" in english
    assert korean.startswith("맞습니다.") and "특수 토큰도 뽑는 방식" in korean
    assert "special tokens" not in check("masking", masking(), "en")


def test_an_answer_that_is_not_a_function() -> None:
    with pytest.raises(ValueError, match=r"answer should be your function, .* not 3"):
        check("gelu", 3)  # type: ignore[arg-type]


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    for name, suggestion in (
        ("layernorm", "layer_norm"),
        ("Softmax", "softmax"),
        ("wrdpiece", "wordpiece"),
    ):
        with pytest.raises(ValueError, match=f"Did you mean '{suggestion}'"):
            check(name, torch.relu)


def test_the_type_and_the_order_of_a_result() -> None:
    for answer, hint in (
        (lambda scores: scores.softmax(-1).tolist(), "a tensor of shape (2, 3), not a list"),
        (lambda scores: scores.softmax(-1).T, "The last two axes are exchanged."),
        (lambda scores: scores.sub_(1).softmax(-1), "scores has been changed on the way"),
        (lambda scores: print(end=""), "print only shows a value"),
        (lambda scores: scores / scores.sum(-1), "keepdim=True"),
        (lambda: 1, "Its arguments are (scores)."),
    ):
        assert hint in check("softmax", answer, "en")
    pair = EXERCISES["pair"].answer
    for kind in (tuple, list):
        swapped = check("pair", lambda *args, kind=kind: kind(pair(*args)[::-1]), "en")
        assert "The order is another one" in swapped


def test_whole_numbers_may_come_from_an_array_or_a_tensor() -> None:
    labels = EXERCISES["word_labels"].answer
    for array in (np.array, torch.tensor):
        answer = check("word_labels", lambda *args, array=array: list(array(labels(*args))), "en")
        assert answer.startswith("Right.")
    floats = check("word_labels", lambda *args: [float(label) for label in labels(*args)], "en")
    assert "[-100.0, 1.0, " in floats


def test_a_mistake_is_right_in_the_cases_before_the_one_that_fails() -> None:
    def rate(step: int, steps: int, warmup: int, peak: float) -> float:
        return peak * step / warmup if step < warmup else peak * (1 - step / steps)

    hint = check("learning_rate", rate, "en")  # with a warm-up, so that is not what is missing
    assert "warm-up is missing" not in hint and "divide the steps that are left" in hint


def test_an_answer_may_round_otherwise() -> None:
    def softmax(scores: Tensor) -> Tensor:
        return (scores - scores.logsumexp(-1, keepdim=True)).exp()

    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        spread = x.std(-1, unbiased=False, keepdim=True) + 1e-5
        return (x - x.mean(-1, keepdim=True)) / spread * weight + bias

    assert check("softmax", softmax, "en").startswith("Right.")
    assert check("layer_norm", layer_norm, "en").startswith("Right.")


def test_a_large_tensor_is_compared_by_its_first_wrong_value() -> None:
    hint = check("embed", lambda *args: EXERCISES["embed"].answer(*args) * 2, "en")
    assert "the value at [0, 0] should be" in hint


def test_values_that_differ_are_shown_to_differ() -> None:
    small = check("error_band", lambda *args: EXERCISES["error_band"].answer(*args) + 2e-5, "en")
    large = check("embed", lambda *args: EXERCISES["embed"].answer(*args) + 2e-5, "en")
    for hint in (small, large):
        [(right, wrong)] = re.findall(r"(-?\d+\.\d+), not (-?\d+\.\d+)\.", hint)
        assert right != wrong


def test_a_loop_that_does_not_end_is_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    deadline = time.monotonic() + 60

    def softmax(scores: Tensor) -> Tensor:
        while not written.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        return scores.softmax(-1)

    monkeypatch.setattr("minibert.learn.check._PATIENCE", 0.01)
    monkeypatch.setattr("sys.stdout", written)
    assert check("softmax", softmax, "en").startswith("Right.")
    assert "Does its loop end?" in written.getvalue()


def test_an_exception_becomes_a_hint() -> None:
    english, korean = both("softmax", lambda scores: scores.no_such_method())
    assert english.startswith("Not yet. Your function raised AttributeError (line ")
    assert korean.startswith("아직 아닙니다. 함수에서 AttributeError 오류가")
    assert "TypeError" in check("f1", lambda only_one: 1, "en")


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_hint_is_in_the_language_of_the_locale(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", {"en": "en_US.UTF-8", "ko": "ko_KR.UTF-8"}[language])
    hint = check("gelu", torch.relu)
    assert len(hint.splitlines()) == 1 and ("아직" in hint) == (language == "ko")


def test_a_softmax_that_is_nan_for_one_row_is_not_right() -> None:
    def softmax(scores: Tensor) -> Tensor:
        powers = torch.exp(scores - scores.max())
        return powers / powers.sum(-1, keepdim=True)

    assert "maximum of each row" in check("softmax", softmax, "en")
    # a matrix is shown with its rows
    assert "[[" in check("softmax", lambda scores: (scores / 2).softmax(-1), "en")
