"""The poolings by name. Nothing heavy is imported.

A further one is a name here, and its formula in `_pooled` of `pooling.py` beside it.
"""

from typing import Literal, NamedTuple, get_args

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
