"""Check an answer to an exercise, and say what is still wrong with it.

    def gelu(x):
        return x.relu()

    print(check("gelu", gelu))

The notebooks in docs/notebooks describe what to write, and `exercises` lists the exercises. An
answer runs on the cases of its exercise. The first case in which it differs gives the hint.
"""

import copy
import difflib
import inspect
import math
import threading
import traceback
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert.learn.exercises import EXERCISES, Case, Exercise, Function, Hint, whole
from minibert.learn.language import locale_language
from minibert.util.errors import ArgumentError

_NOT_YET = ("Not yet.", "아직 아닙니다.")
_RIGHT = ("Right. Compare it with {home}.", "맞습니다. 비교해 볼 코드: {home}.")
_STILL_RUNNING = (
    "Your function has been running for {seconds} seconds. Does its loop end? Stop it with Ctrl+C, "
    "or with the square button in Jupyter.",
    "함수가 {seconds}초째 실행 중입니다. 반복문이 끝나나요? Ctrl+C를 누르거나 Jupyter의 정지 "
    "버튼을 눌러 멈추세요.",
)
_PATIENCE = 10  # seconds; the slowest correct answer takes less than one


def check(exercise: str, answer: Function, language: str | None = None) -> str:
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
    if exercise not in EXERCISES:
        similar = difflib.get_close_matches(str(exercise), EXERCISES, n=1, cutoff=0.5)
        advice = f" Did you mean {similar[0]!r}?" if similar else ""
        raise ArgumentError(
            "exercise", f"should be one of {', '.join(EXERCISES)}, not {exercise!r}.{advice}"
        )
    if not callable(answer):
        raise ArgumentError(
            "answer",
            f"should be your function, such as check({exercise!r}, my_function), not "
            f"{answer!r:.80}.",
        )
    which = 1 if (language or locale_language()) == "ko" else 0
    entry = EXERCISES[exercise]
    remarks = ""
    reminder = _STILL_RUNNING[which].format(seconds=_PATIENCE)
    timer = threading.Timer(_PATIENCE, print, [reminder], {"flush": True})
    timer.daemon = True
    timer.start()
    try:
        for case in entry.cases:
            hint = _hint(entry, case, answer)
            if hint is None:
                continue
            if not case.is_remark:
                return f"{_NOT_YET[which]} {hint[which]}"
            remarks += f" {hint[which]}"
    finally:
        timer.cancel()
    return f"{_RIGHT[which].format(home=entry.home)}{remarks}"


def _hint(exercise: Exercise, case: Case, answer: Function) -> Hint | None:
    """Return what is wrong with an answer in one case, in English and in Korean.

    Before the parts of a result, the first case compares the whole: whether there is one, of the
    right types and shapes, and whether the arguments are unchanged.
    """
    try:
        if case.part is whole or case is exercise.cases[0]:
            hint = _form_hint(exercise, case, answer)
            if hint is not None:
                return hint
        value = _part(answer, case)
    except Exception as error:  # whatever the learner's function raises
        return _exception_hint(exercise, error, answer)
    expected = _part(exercise.answer, case)
    if _agree(value, expected, case.tolerance):
        return None
    earlier = exercise.cases[: exercise.cases.index(case)]
    for mistake in exercise.mistakes:
        wrong = _part(mistake.answer, case)
        if _agree(value, wrong, case.tolerance) and all(
            _agree(_part(mistake.answer, other), _part(exercise.answer, other), other.tolerance)
            for other in earlier
        ):
            return mistake.english, mistake.korean
    hint = (case.english.format(value), case.korean.format(value))
    if case.part is not whole:
        return hint
    return _joined(_value_hint(exercise, case, value, expected), hint)


def _part(answer: Function, case: Case) -> Any:
    """Return what a case compares, on copies of its arguments, which an answer may change."""
    return case.part(answer, *copy.deepcopy(case.arguments))


def _joined(first: Hint, second: Hint) -> Hint:
    return f"{first[0]} {second[0]}".strip(), f"{first[1]} {second[1]}".strip()


# ------------------------------------------------------------------------------------------
# what goes wrong


def _exception_hint(exercise: Exercise, error: Exception, answer: Function) -> Hint:
    """Say what was raised, and in which line of the answer, or how the answer is called."""
    code = getattr(answer, "__code__", None)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if code is not None and frame.filename == code.co_filename
    ]
    kind = type(error).__name__
    said = str(error).removesuffix(".")
    text = f": {said}." if said else "."
    at = f" (line {lines[-1]} of its file or cell)" if lines else ""
    at_korean = f"({lines[-1]}번째 줄)" if lines else ""
    hint = (
        f"Your function raised {kind}{at}{text}",
        f"함수에서 {kind} 오류가 났습니다{at_korean}{text}",
    )
    if lines:
        is_of_shapes = type(error) in (RuntimeError, ValueError, IndexError)
        return _joined(hint, exercise.shapes) if is_of_shapes else hint
    names = ", ".join(inspect.signature(exercise.answer).parameters)
    return _joined(hint, (f"Its arguments are ({names}).", f"인자는 ({names})입니다."))


def _form_hint(exercise: Exercise, case: Case, answer: Function) -> Hint | None:
    """Say what the result should be, where nothing or another kind of thing comes back."""
    arguments = copy.deepcopy(case.arguments)
    result = answer(*arguments)
    expected = exercise.answer(*copy.deepcopy(case.arguments))
    english, korean = exercise.returns
    is_matrix = isinstance(expected, Tensor) and expected.ndim > 1
    if is_matrix and not _agree(result, expected) and _agree(result, expected.mT):
        return "The last two axes are exchanged.", "마지막 두 축이 뒤바뀌었습니다."
    is_of_several = isinstance(expected, tuple) and isinstance(result, (list, tuple))
    if is_of_several and not _agree(result, expected):
        swapped = result[::-1]
        if _agree(swapped, expected) or (_fits(swapped, expected) and not _fits(result, expected)):
            return (
                f"The order is another one: return {english}.",
                f"순서가 다릅니다. 돌려줄 값은 {korean}입니다.",
            )
    if _fits(result, expected):
        return _change_hint(exercise, case, arguments)
    at = _shown_arguments(exercise, case)
    if result is None:
        return (
            f"Nothing came back for ({at}): return {english}. print only shows a value.",
            f"({at})의 반환값이 없습니다. return으로 돌려줄 값은 {korean}입니다. print는 화면에 "
            "보여 주기만 합니다.",
        )
    right, wrong = _kind(expected), _kind(result)
    hint = (
        f"For ({at}) it should return {english}: {right[0]}, not {wrong[0]}.",
        f"({at})에서 돌려줄 값은 {korean}입니다. 정답은 {right[1]}, 반환값은 {wrong[1]}입니다.",
    )
    return _joined(hint, exercise.shapes) if isinstance(result, type(expected)) else hint


def _change_hint(exercise: Exercise, case: Case, arguments: tuple[Any, ...]) -> Hint | None:
    """Say which argument has another value after the call."""
    names = inspect.signature(exercise.answer).parameters
    for name, before, after in zip(names, case.arguments, arguments, strict=True):
        is_compared = isinstance(before, (Tensor, np.ndarray, list, dict, set))
        if is_compared and not _agree(after, before):
            return (
                f"{name} has been changed on the way: work on a copy.",
                f"입력 {name}의 값이 바뀌었습니다. 복사본을 만들어 고치세요.",
            )
    return None


def _value_hint(exercise: Exercise, case: Case, value: Any, expected: Any) -> Hint:
    """Say which value is wrong: the result, or the first that differs in a large tensor."""
    at = _shown_arguments(exercise, case)
    if isinstance(expected, Tensor) and len(_shown(expected)) > _SHORT:
        differs = ~torch.isclose(
            value.float(), expected.float(), atol=case.tolerance, equal_nan=True
        )
        place = tuple(differs.nonzero()[0].tolist())
        right, wrong = _both_shown(expected[place], value[place])
        return (
            f"For ({at}) the value at {list(place)} should be {right}, not {wrong}.",
            f"({at})의 결과에서 {list(place)} 자리의 값이 다릅니다. 정답은 {right}, 반환값은 "
            f"{wrong}입니다.",
        )
    right, wrong = _both_shown(expected, value)
    return (
        f"For ({at}) it should return {right:.120}, not {wrong:.120}.",
        f"({at})의 결과가 다릅니다. 정답은 {right:.120}, 반환값은 {wrong:.120}입니다.",
    )


# ------------------------------------------------------------------------------------------
# comparing and showing values


def _fits(result: Any, expected: Any) -> bool:
    """Return whether a result has the type and shape of the expected one."""
    if expected is None:
        return True
    if isinstance(expected, float) or (isinstance(expected, Tensor) and expected.ndim == 0):
        return isinstance(result, Real) or (isinstance(result, Tensor) and result.numel() == 1)
    if isinstance(expected, int):  # such as an id that stands in an array or a tensor
        is_whole = (
            isinstance(result, Tensor) and result.ndim == 0 and not result.is_floating_point()
        )
        return isinstance(result, Integral) or is_whole
    if isinstance(expected, (Tensor, np.ndarray)):
        return isinstance(result, type(expected)) and result.shape == expected.shape
    if isinstance(expected, tuple):
        return (
            isinstance(result, (list, tuple))
            and len(result) == len(expected)
            and all(map(_fits, result, expected))
        )
    if isinstance(expected, list):
        return isinstance(result, (list, tuple))
    return isinstance(result, type(expected))


def _agree(result: Any, expected: Any, tolerance: float = 1e-5) -> bool:
    """Return whether two results are the same, up to rounding."""
    if not _fits(result, expected):
        return False
    if isinstance(expected, float) or (isinstance(expected, Tensor) and expected.ndim == 0):
        return math.isclose(float(result), float(expected), rel_tol=1e-5, abs_tol=tolerance) or (
            math.isnan(float(result)) and math.isnan(float(expected))
        )
    if isinstance(expected, Tensor):
        return torch.allclose(result.float(), expected.float(), atol=tolerance, equal_nan=True)
    if isinstance(expected, np.ndarray):
        return np.array_equal(result, expected)
    if isinstance(expected, (list, tuple)):
        return len(result) == len(expected) and all(
            _agree(one, other, tolerance) for one, other in zip(result, expected, strict=True)
        )
    return bool(result == expected)


_SHORT = 60  # characters of a value that a hint shows whole


def _shown_arguments(exercise: Exercise, case: Case) -> str:
    """Return the arguments of a case: short ones by their values, long ones by their names."""
    names = inspect.signature(exercise.answer).parameters
    texts = []
    for name, argument in zip(names, case.arguments, strict=True):
        text = _shown(argument)
        is_plain = isinstance(argument, (str, int, float, list, tuple, Tensor))
        texts.append(text if is_plain and len(text) <= _SHORT else name)
    return ", ".join(texts)


def _both_shown(expected: Any, value: Any) -> tuple[str, str]:
    """Return two values that differ, with as many digits as it takes to see the difference."""
    both = _shown(expected), _shown(value)
    return both if both[0] != both[1] else (_shown(expected, 6), _shown(value, 6))


def _shown(value: Any, digits: int = 4) -> str:
    """Return a value as a hint shows it, with its numbers rounded. Rows stay rows."""
    return repr(_plain(value, digits))


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, Tensor):
        return _plain(value.tolist(), digits)
    if isinstance(value, (list, tuple)):
        items = [_plain(item, digits) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, float):
        return round(float(value), digits)
    return value


def _kind(value: Any) -> Hint:
    """Return the type of a value, with its shape, in English and in Korean."""
    if isinstance(value, (Tensor, np.ndarray)):
        kinds = ("tensor", "텐서") if isinstance(value, Tensor) else ("NumPy array", "NumPy 배열")
        shape = tuple(value.shape)
        return f"a {kinds[0]} of shape {shape}", f"형태가 {shape}인 {kinds[1]}"
    if isinstance(value, tuple):
        kinds_of_items = [_kind(item) for item in value]
        return (
            " and ".join(english for english, _ in kinds_of_items),
            ", ".join(korean for _, korean in kinds_of_items),
        )
    if isinstance(value, Real):
        return "a number", "숫자"
    name = type(value).__name__
    return f"a {name}", {"list": "리스트", "str": "문자열"}.get(name, name)
