"""The poolings by name, and which of them a folder can hold. Nothing heavy is imported.

A further one is a name here, and its formula in `_pooled` of `pooling.py` beside it. If
sentence-transformers has it, too, its names there are an entry of `MODES`.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from minibert.util.errors import Argument, ArgumentError

Pooling = Literal["cls", "pooler", "mean", "max", "mean_sqrt_len", "weightedmean"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


class Mode(NamedTuple):
    """A pooling in the files of sentence-transformers.

    Attributes:
        name: Its name.
        flag: The field that older versions set to true.
    """

    name: str
    flag: str


MODES: dict[Pooling, Mode] = {
    "cls": Mode("cls", "pooling_mode_cls_token"),
    "max": Mode("max", "pooling_mode_max_tokens"),
    "mean": Mode("mean", "pooling_mode_mean_tokens"),
    "mean_sqrt_len": Mode("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    "weightedmean": Mode("weightedmean", "pooling_mode_weightedmean_tokens"),
}
"""In the order in which sentence-transformers concatenates them."""

UNSUPPORTED_MODES = [Mode("lasttoken", "pooling_mode_lasttoken")]


def pooling_names(pooling: str | Sequence[str]) -> list[str]:
    """The names of one pooling or of several.

    Raises:
        ValueError: There is none, or one that does not exist.
    """
    names = [pooling] if isinstance(pooling, str) else list(pooling)
    unknown = [name for name in names if name not in POOLINGS]
    if unknown or not names:
        raise ArgumentError(
            "pooling",
            f"should be one or more of {', '.join(POOLINGS)}, not {unknown or pooling!r}.",
        )
    return names


def check_saved(names: Sequence[str]) -> None:
    """Check that a sentence-transformers folder can hold poolings.

    It has no pooler. That of a model is a dense layer after `"cls"` there.

    Raises:
        ValueError: It cannot.
    """
    if list(names) == ["pooler"]:
        return
    if "pooler" in names:
        raise ArgumentError(
            Argument("pooling", names),
            "cannot be saved: a sentence-transformers folder has no pooler beside other poolings.",
        )
    for name in names:
        if name not in MODES:
            argument = Argument("pooling", name)
            raise ArgumentError(
                argument,
                f"cannot be saved: a sentence-transformers folder has {', '.join(MODES)}. Save or "
                "train with one of them, and pass ",
                argument,
                " where the model is loaded.",
            )
