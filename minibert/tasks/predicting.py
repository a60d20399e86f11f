"""Arguments that all tasks share: the model, its tokenizer and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import Repr
from typing import TYPE_CHECKING, Any

from minibert.base import PreTrainedModel
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count, check_kind, type_of

if TYPE_CHECKING:  # classify and fill_mask do not need what runs exported models
    from minibert.encoders.onnx_heads import OnnxHead

Texts = str | Sequence[str]

_excerpt = Repr()
_excerpt.maxstring = 50


def excerpt(text: str) -> str:
    """A text in quotation marks, as an error shows it: of a long one the beginning and the end."""
    return _excerpt.repr(text)


def require_model(model: Any, tokenizer: Any, *classes: type) -> None:
    """Raises a TypeError unless the model is of one of the classes, and the tokenizer is one."""
    expected = " or ".join(model_class.__name__ for model_class in classes)
    check_kind("model", model, classes, f"a {expected}")
    check_kind("tokenizer", tokenizer, Callable, "the BertTokenizer of the model")


def as_text_list(texts: Texts) -> list[str]:
    """Return the texts as a list. A mapping, a set or no collection is a ValueError."""
    if isinstance(texts, Mapping | set) or not isinstance(texts, Iterable):
        raise ValueError(
            f"texts is {type_of(texts)}. Pass a string or a list of strings, and second texts on "
            "their own."
        )
    if isinstance(texts, str):
        return [texts]
    return list(texts)


def token_limit(model: PreTrainedModel | OnnxHead, tokenizer: BertTokenizer) -> int:
    """How many tokens of a text the model and its tokenizer take at once."""
    return min(tokenizer.model_max_length, model.config.max_position_embeddings)


def length_limit(
    model: PreTrainedModel | OnnxHead, tokenizer: BertTokenizer, max_length: int | None = None
) -> int:
    """Tokens after which a text is truncated: `max_length`, or else what the model takes.

    Raises:
        ValueError: `max_length` is more than the positions of the model, or leaves no room for a
            token.
    """
    if max_length is None:
        return token_limit(model, tokenizer)
    check_count("max_length", max_length, minimum=3)
    positions = model.config.max_position_embeddings
    if max_length > positions:
        raise ValueError(f"max_length is {max_length}, but the model has {positions} positions.")
    return max_length
