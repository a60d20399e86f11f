"""Programs drawn at random, run on minibert and on a reference, outcome against outcome.

A test of `tests/laboratory` looks like this:

    @programs("models", config=configs(), head=sampled_from(HEADS))
    def test_forward(config, head):
        compare(lambda: ours(config, head), lambda: theirs(config, head))

Hypothesis draws the arguments, shrinks those that differ, and keeps them in its database. The
default run draws a few with fixed seeds; `python -m pytest -m laboratory` draws ten thousand of
each kind.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

drawn: Counter[str] = Counter()
"""How many programs of each kind have run in this process."""


def programs(
    kind: str, share: float = 1.0, quick: int = 25, **drawn_by: SearchStrategy[Any]
) -> Callable[..., Any]:
    """Run a test on programs drawn at random.

    A program that cannot be compared calls `hypothesis.assume`, and is not counted.

    Args:
        kind: The kind under which they are counted.
        share: Of the programs of this kind that the profile asks for. All shares sum to 1.
        quick: How many programs the default run draws.
        drawn_by: The strategy of each argument of the test. Others are fixtures.
    """
    profile = settings.default
    assert profile is not None
    is_quick = profile.max_examples < settings.get_profile("thorough").max_examples

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def counted(*fixtures: Any, **arguments: Any) -> None:
            test(*fixtures, **arguments)
            drawn[kind] += 1

        return settings(
            max_examples=quick if is_quick else math.ceil(share * profile.max_examples),
            derandomize=is_quick,  # the same programs in every default run
            database=None if is_quick else profile.database,
            deadline=None,
            # fixtures are shared by the programs of a test, which leave them as they are
            suppress_health_check=list(HealthCheck),
        )(given(**drawn_by)(counted))

    return decorate


def seed(number: int) -> None:
    """Seed torch's generator of the CPU.

    `torch.manual_seed` also notes the stack for devices that may come, a third of a program's time.
    """
    torch.default_generator.manual_seed(number)


def rounding(values: Any, amplified: float = 1.0) -> float:
    """The largest difference that another order of sums explains.

    Sums of 64 numbers, more than in any model here, differ by some sqrt(64) roundings of their
    largest number, in each of two layers. Random programs have needed five of these sixteen.

    Args:
        values: The numbers.
        amplified: Factor of a division behind the sums, such as by the length of a vector.
    """
    largest = float(np.abs(np.asarray(values)).max(initial=0.0))
    return 16 * 2.0**-24 * largest * amplified


class Failure(NamedTuple):
    """A call that raised."""

    error: Exception


def outcome(call: Callable[[], Any]) -> Any:
    """Return what `call` returns, or its `Failure`."""
    try:
        return call()
    except Exception as error:
        return Failure(error)


def compare(
    ours: Callable[[], Any], theirs: Callable[[], Any], tolerance: float | None = None
) -> None:
    """Fail unless both calls return the same, or both raise.

    Args:
        ours: The program on minibert.
        theirs: The program on the reference.
        tolerance: Largest difference of floating-point numbers. None: equal bits.
    """
    found, expected = outcome(ours), outcome(theirs)
    for this, that, where in ((found, expected, "minibert"), (expected, found, "the reference")):
        if isinstance(this, Failure) and not isinstance(that, Failure):
            raise AssertionError(f"only {where} raises: {this.error!r}") from this.error
    if not isinstance(found, Failure):
        assert_same(found, expected, tolerance)


def assert_same(found: Any, expected: Any, tolerance: float | None = None, at: str = "") -> None:
    """Fail unless two values are the same, at any depth. NaN is the same as NaN."""
    where = f" at {at}" if at else ""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        assert found.dtype == expected.dtype, f"{found.dtype}, not {expected.dtype}{where}"
        assert found.shape == expected.shape, f"{found.shape}, not {expected.shape}{where}"
        if torch.equal(found, expected):
            return
        tensors = (found.detach().cpu(), expected.detach().cpu())
        limits = {"rtol": 0.0, "atol": 0.0 if tolerance is None else tolerance}
        torch.testing.assert_close(*tensors, **limits, equal_nan=True, msg=lambda m: m + where)
    elif isinstance(expected, np.ndarray) and isinstance(found, np.ndarray):
        assert found.dtype == expected.dtype, f"{found.dtype}, not {expected.dtype}{where}"
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance or 0.0, err_msg=at)
    elif isinstance(expected, Mapping):
        assert list(found) == list(expected), f"{list(found)}, not {list(expected)}{where}"
        for name, value in expected.items():
            assert_same(found[name], value, tolerance, f"{at}[{name!r}]")
    elif isinstance(expected, Sequence) and not isinstance(expected, (str, bytes)):
        assert len(found) == len(expected), f"{len(found)} items, not {len(expected)}{where}"
        for index, value in enumerate(expected):
            assert_same(found[index], value, tolerance, f"{at}[{index}]")
    elif isinstance(expected, float):
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance or 0.0, err_msg=at)
    else:
        assert found == expected, f"{found!r}, not {expected!r}{where}"


class Known(NamedTuple):
    """A difference that is on purpose, or that the reference has to mend.

    A program that meets it returns early, or draws around it. `tests/laboratory/test_known.py`
    fails where the two no longer differ, or where the page no longer says so.
    """

    name: str
    reason: str
    page: str  # such as docs/parity.md
    sentence: str  # of that page
    still_differs: Callable[[], bool]
