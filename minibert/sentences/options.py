"""The options of `SentenceEmbedder.encode`, whose docstring explains them: the type and the default of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

import numpy as np

from minibert.compatibility.keywords import check_count, refuse_unknown
from minibert.inference import BATCH_TOKENS
from minibert.sentences.quantization import PRECISIONS

if TYPE_CHECKING:
    import torch

Vector = np.ndarray[tuple[int], np.dtype[np.float32]]  # (D,)
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]  # (N, D)
Method = TypeVar("Method", bound=Callable[..., Any])


class ChunkOptions(TypedDict, total=False):
    """Options of every way to encode: `encode`, `encode_stream`, `encode_file`, `encode_corpus`."""

    prompt: str | None
    prompt_name: str | None
    overflow: Literal["truncate", "mean"]
    batch_tokens: int


class EncodeOptions(ChunkOptions, total=False):
    """Options of `encode` that leave the type of its result alone."""

    show_progress: bool
    normalize_embeddings: bool
    truncate_dim: int | None
    # sentence-transformers has these
    batch_size: int
    chunk_size: int | None
    pool: None
    task: str | None
    show_progress_bar: bool | None
    device: torch.device | str | None


class ResultOptions(EncodeOptions, total=False):
    """All options of `encode`."""

    sentences: Any
    inputs: Any
    precision: Literal["float32", "int8", "uint8", "binary", "ubinary"] | None
    convert_to_numpy: bool
    convert_to_tensor: bool
    output_value: Literal["sentence_embedding", "token_embeddings"] | None


_DEFAULTS = {
    **dict.fromkeys(ResultOptions.__annotations__),  # None, which for what is true or false is false
    "overflow": "truncate",
    "batch_tokens": BATCH_TOKENS,
    "batch_size": 32,
    "convert_to_numpy": True,
    "output_value": "sentence_embedding",
}


def completed(function: str, options: Mapping[str, Any], kind: type = ResultOptions) -> ResultOptions:
    """The options and the defaults of all others.

    Args:
        function: its name, for errors.
        options: what it was called with.
        kind: the options that it has.

    Raises:
        TypeError: an option that does not exist.
        ValueError: an impossible value.
    """
    refuse_unknown(function, options, kind.__annotations__)
    found = cast(ResultOptions, {**_DEFAULTS, **options})
    if not options:
        return found
    if found["prompt"] is not None and found["prompt_name"] is not None:
        raise ValueError("pass prompt or prompt_name, not both.")
    if found["overflow"] not in ("truncate", "mean"):
        raise ValueError(f'overflow should be "truncate" or "mean", not {found["overflow"]!r}.')
    for name in ("batch_tokens", "batch_size", "truncate_dim"):
        if name != "truncate_dim" or found[name] is not None:
            check_count(name, found[name])
    if found["precision"] not in (None, *PRECISIONS):
        raise ValueError(
            f"precision is that of the result, one of {', '.join(PRECISIONS)}, not {found['precision']!r}; "
            "SentenceEmbedder.from_pretrained(precision=...) is that of the model."
        )
    if found["output_value"] not in ("sentence_embedding", "token_embeddings", None):
        raise ValueError(
            f'output_value should be "sentence_embedding", "token_embeddings" or None, not {found["output_value"]!r}.'
        )
    if found["pool"] is not None:
        raise ValueError("pool should be None: minibert encodes in threads; encode_corpus(processes=) has processes.")
    return found


def signature_of(method: Method) -> Callable[[Callable[..., Any]], Method]:
    """A decorator for what takes and returns the same as `method`, overloads included."""
    return lambda function: cast(Method, function)
