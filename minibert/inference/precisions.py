"""The arithmetic of a model by name. Nothing heavy is imported."""

from __future__ import annotations

from typing import Literal, cast, get_args

from minibert.util.errors import ArgumentError

FastPrecision = Literal["fp32", "bf16", "int8"]
Precision = Literal["exact", FastPrecision]
GraphPrecision = Literal["fp32", "int8"]  # of an export

FAST_PRECISIONS: tuple[FastPrecision, ...] = get_args(FastPrecision)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
GRAPH_PRECISIONS: tuple[GraphPrecision, ...] = get_args(GraphPrecision)


def check_precision(precision: str, valid: tuple[str, ...]) -> None:
    """Check the name of a precision.

    Raises:
        ValueError: It is not among the valid names.
    """
    if precision not in valid:
        raise ArgumentError("precision", f"should be one of {', '.join(valid)}, not {precision!r}.")


def resolve_precision(precision: str | None) -> FastPrecision | None:
    """Return the precision for `optimize`, or None where a model runs unchanged.

    Args:
        precision: One of `PRECISIONS`. None: "exact".

    Raises:
        ValueError: An unknown precision.
    """
    if precision is None or precision == "exact":
        return None
    check_precision(precision, PRECISIONS)
    return cast(FastPrecision, precision)
