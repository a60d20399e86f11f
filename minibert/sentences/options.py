"""What `SentenceEmbedder.encode` can be told, as types; and the options that it shares with sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F

from minibert.compatibility.keywords import refuse_unknown
from minibert.sentences.rows import Vectors

Vector = np.ndarray[tuple[int], np.dtype[np.float32]]  # (D,)
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]  # (N, D)
Method = TypeVar("Method", bound=Callable[..., Any])


class ChunkOptions(TypedDict, total=False):
    """What every way to encode takes: `encode`, `encode_stream`, `encode_file`, `encode_corpus`, `batched`."""

    prompt: str | None
    prompt_name: str | None
    overflow: Literal["truncate", "mean"]
    batch_tokens: int


class EncodeOptions(ChunkOptions, total=False):
    """What `encode` takes besides what decides the type of its result."""

    show_progress: bool
    normalize_embeddings: bool
    truncate_dim: int | None
    batch_size: int
    show_progress_bar: bool | None
    device: torch.device | str | None


@dataclass(frozen=True)
class OutputOptions:
    """Options of `encode` that have the names, the defaults and the meaning that sentence-transformers gave them.

    Attributes:
        normalize_embeddings: make every vector one of length 1.
        truncate_dim: keep the first so many numbers of each vector, before that.
        precision: of the numbers that are returned: "float32", or one bit each, eight in a byte: "ubinary" as uint8,
            "binary" the same less 128 as int8.
        convert_to_numpy: False returns a list of tensors, one a text.
        convert_to_tensor: return one tensor, on the model's device.
        output_value: "sentence_embedding", or "token_embeddings" for a list of tensors (tokens, D).
        batch_size: has no effect: `batch_tokens` says what goes through the model together.
        show_progress_bar: as `show_progress`.
        device: moves the model there first, and leaves it there.
    """

    normalize_embeddings: bool = False
    truncate_dim: int | None = None
    precision: str = "float32"
    convert_to_numpy: bool = True
    convert_to_tensor: bool = False
    output_value: str = "sentence_embedding"
    batch_size: int = 32
    show_progress_bar: bool | None = None
    device: torch.device | str | None = None

    def __post_init__(self) -> None:
        if self.truncate_dim is not None and (type(self.truncate_dim) is not int or self.truncate_dim < 1):
            raise ValueError(f"truncate_dim should be a whole number of 1 or more, not {self.truncate_dim!r}.")
        if self.precision not in ("float32", "binary", "ubinary"):
            raise ValueError(
                f'precision is that of the result, "float32", "binary" or "ubinary", not {self.precision!r}; '
                "SentenceEmbedder.from_pretrained(precision=...) is that of the model."
            )
        if self.output_value not in ("sentence_embedding", "token_embeddings"):
            raise ValueError(
                f'output_value should be "sentence_embedding" or "token_embeddings", not {self.output_value!r}.'
            )
        if self.batch_size < 1:
            raise ValueError(f"batch_size should be 1 or more, not {self.batch_size}.")

    @classmethod
    def of(cls, options: dict[str, Any]) -> OutputOptions:
        """These options; TypeError for any other."""
        known = [field.name for field in fields(cls)]
        refuse_unknown("encode", options, [*known, *EncodeOptions.__annotations__])
        return cls(**options)

    def finish(self, vectors: Vectors, device: torch.device) -> Any:
        """What `encode` returns of the vectors (N, D) float32."""
        found = torch.from_numpy(vectors[:, : self.truncate_dim])
        if self.normalize_embeddings:
            found = F.normalize(found, dim=-1)
        if self.precision != "float32":
            bits = np.packbits(found.numpy() > 0, axis=-1)
            found = torch.from_numpy(bits if self.precision == "ubinary" else (bits ^ 128).view(np.int8))
        if self.convert_to_tensor:
            return found.to(device)
        return found.numpy() if self.convert_to_numpy else list(found)


def signature_of(method: Method) -> Callable[[Callable[..., Any]], Method]:
    """A decorator for what takes and returns the same as `method`, overloads included."""
    return lambda function: cast(Method, function)
