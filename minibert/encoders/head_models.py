"""What models with a head share: the checks of their arguments, and the outputs of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import Repr
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minibert.base import PreTrainedModel
from minibert.encoders.onnx_heads import OnnxHead
from minibert.encoders.text_encoder import check_max_length
from minibert.inference.logits import run_rows
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.checks import check_count, check_kind, type_of
from minibert.util.errors import ArgumentError

Texts = str | Sequence[str]
Example = dict[str, Any]
"""Ids and labels of a row, or of a window of it, by the names of a model's arguments.

An array (tokens, ...) has an entry for each token. A number, or an array (1, ...), is of the row.
"""

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


def encode_texts(
    tokenizer: BertTokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    max_length: int,
) -> list[Example]:
    """Texts, or pairs of texts, truncated to `max_length` tokens.

    Each example has `input_ids`, `token_type_ids` and whether the text is `truncated`.

    Raises:
        ValueError: There is another number of texts than of pairs.
    """
    batch = tokenizer(texts, pairs, truncation=True, max_length=max_length)
    examples: list[Example] = [
        {"input_ids": np.array(ids), "token_type_ids": np.array(types), "truncated": False}
        for ids, types in zip(batch["input_ids"], batch["token_type_ids"], strict=True)
    ]
    full = [index for index, ids in enumerate(batch["input_ids"]) if len(ids) == max_length]
    if full:
        first = [texts[index] for index in full]
        second = None if pairs is None else [pairs[index] for index in full]
        longer = tokenizer(first, second, truncation=True, max_length=max_length + 1)
        for index, ids in zip(full, longer["input_ids"], strict=True):
            examples[index]["truncated"] = len(ids) > max_length
    return examples


def outputs_of(
    model: Any,
    examples: Sequence[Example],
    choose: Callable[[Any], Tensor],
    sizes: Sequence[int] | None = None,
) -> list[Tensor]:
    """What `choose` selects from the outputs of a model for each example, on the CPU.

    See `run_rows`. An exported model has outputs of the same names.
    """
    if isinstance(model, OnnxHead):
        return _exported_outputs(model, examples, choose)

    def compute(row_ids: Tensor, **inputs: Any) -> Tensor:
        return choose(model(row_ids, **inputs))

    ids = [example["input_ids"] for example in examples]
    types = None
    if examples and "token_type_ids" in examples[0]:
        types = [example["token_type_ids"] for example in examples]
    return run_rows(model, compute, ids, types, sizes)


def _exported_outputs(
    model: OnnxHead, examples: Sequence[Example], choose: Callable[[Any], Tensor]
) -> list[Tensor]:
    types = [
        example.get("token_type_ids", np.zeros_like(example["input_ids"])) for example in examples
    ]
    arrays = model.graph.run(
        [example["input_ids"].tolist() for example in examples], [row.tolist() for row in types]
    )
    results = []
    for index in range(len(examples)):
        tensors = {name: torch.from_numpy(rows[index]) for name, rows in arrays.items()}
        results.append(choose(SimpleNamespace(**tensors)))
    return results


def logits_of(model: Any, examples: Sequence[Example]) -> Tensor:
    """The logits of a sequence classifier, (examples, labels), float32 on the CPU."""
    if not examples:
        return torch.empty(0, model.config.num_labels)
    sizes = [1] * len(examples)
    rows = outputs_of(model, examples, lambda output: output.logits, sizes)
    return torch.cat(rows).view(len(examples), -1)
