"""Arguments that all tasks share: the model, its tokenizer and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import Repr
from typing import Any

from minibert.base import PreTrainedModel
from minibert.encoders.onnx_heads import OnnxHead
from minibert.encoders.text_encoder import check_max_length
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count, check_kind, type_of
from minibert.util.errors import ArgumentError

Texts = str | Sequence[str]

_excerpt = Repr()
_excerpt.maxstring = 50


def excerpt(text: str) -> str:
    """A text in quotation marks, as an error shows it: of a long one the beginning and the end."""
    return _excerpt.repr(text)


def has_head(model: Any, *heads: type) -> bool:
    """Whether a model has one of the heads, or is the export of one that has it."""
    if isinstance(model, OnnxHead):
        return model.head in [head.__name__ for head in heads]
    return isinstance(model, heads)


def require_model(model: Any, tokenizer: Any, *heads: type, exports: bool = False) -> None:
    """Check the model and the tokenizer of a prediction.

    Args:
        model: It has one of the heads.
        tokenizer: Its tokenizer.
        heads: Classes of models.
        exports: Whether it may also be an `OnnxHead`.

    Raises:
        TypeError: The model is of another class, or the tokenizer is not one.
        ValueError: The export has another head.
    """
    kinds = (*heads, OnnxHead) if exports else heads
    expected = " or ".join(kind.__name__ for kind in kinds)
    check_kind("model", model, kinds, f"a {expected}")
    if not has_head(model, *heads):
        raise ValueError(
            f"{model.source} was exported from a {model.head}, not from a {heads[0].__name__}."
        )
    check_kind("tokenizer", tokenizer, Callable, "the BertTokenizer of the model")


def as_text_list(texts: Texts) -> list[str]:
    """Return the texts as a list. A mapping, a set or no collection is a ValueError."""
    if isinstance(texts, Mapping | set) or not isinstance(texts, Iterable):
        raise ArgumentError(
            "texts",
            f"is {type_of(texts)}. Pass a string or a list of strings, and second texts on "
            "their own.",
        )
    if isinstance(texts, str):
        return [texts]
    return list(texts)


def token_limit(
    model: PreTrainedModel | OnnxHead, tokenizer: BertTokenizer, max_length: int | None = None
) -> int:
    """How many tokens of a text are read: `max_length`, or what model and tokenizer take at once.

    Raises:
        ValueError: `max_length` is more than the positions of the model, or leaves no room for a
            token.
    """
    positions = model.config.max_position_embeddings
    if max_length is None:
        return min(tokenizer.model_max_length, positions)
    check_count("max_length", max_length, minimum=3)
    return check_max_length(max_length, positions)
