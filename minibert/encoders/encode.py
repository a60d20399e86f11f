"""What `SentenceEmbedder` and `OnnxEmbedder` share: texts to rows, and vectors to results.

An embedder turns rows of token ids into vectors. Everything before and after that are the
functions of this module. Each takes the embedder, of which it needs what `TextEncoder` lists.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from minibert.checks import check_count
from minibert.encoders.batched import Batched
from minibert.encoders.quantization import PRECISIONS, quantize
from minibert.encoders.token_rows import (
    CHUNK_TEXTS,
    Pair,
    Rows,
    Settings,
    Vectors,
    check_prompt,
    iter_texts,
    list_texts,
    named_prompt,
    tokenize_rows,
)
from minibert.inference.batching import Report
from minibert.progress import SILENT, Progress
from minibert.tokenization.tokenizer import BertTokenizer

Texts = str | Iterable[str | Pair]
Overflow = Literal["truncate", "mean"]
OutputValue = Literal["sentence_embedding", "token_embeddings"]
VectorPrecision = Literal["float32", "int8", "uint8", "binary", "ubinary"]

# names under which models have the prompt of a query, and that of a text that is searched
QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")


class TextEncoder(Protocol):
    """What the functions here, and those that write vectors of a corpus, need of an embedder."""

    tokenizer: BertTokenizer
    prompts: dict[str, str]
    default_prompt_name: str | None
    include_prompt: bool
    precision: str | None
    pooling: list[str]

    @property
    def model(self) -> Any:
        """The BERT, or its exported graph. It has a config."""

    @property
    def layers(self) -> list[int] | None:
        """Which hidden states are pooled, or None where a graph has settled it."""

    @property
    def layer_weights(self) -> list[float] | None:
        """Weights of the layers in a sum."""

    @property
    def steps(self) -> Any:
        """What follows the pooling."""

    @property
    def dimension(self) -> int:
        """D, the length of a vector."""

    @property
    def max_length(self) -> int:
        """Tokens of the longest row, [CLS] and [SEP] included."""

    @property
    def device(self) -> Any:
        """Where the model is."""

    @property
    def threads(self) -> int:
        """Threads at work in one pass through the model."""

    def encode(self, *args: Any, **options: Any) -> Any:
        """Vectors of texts, in the order of the texts."""

    def encode_query(self, *args: Any, **options: Any) -> Any:
        """As `encode`, with a query's prompt."""

    def encode_document(self, *args: Any, **options: Any) -> Any:
        """As `encode`, with a document's prompt."""

    def encode_stream(self, *args: Any, **options: Any) -> Iterator[tuple[list[str], Vectors]]:
        """Texts and their vectors, chunk by chunk."""

    def settings(
        self,
        *,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        overflow: Overflow = ...,
        batch_tokens: int = ...,
        truncate_dim: int | None = ...,
        normalize_embeddings: bool = ...,
    ) -> Settings:
        """The settings that these options mean for this model."""

    def encode_rows(self, rows: Rows, settings: Settings, report: Report | None = None) -> Vectors:
        """Vectors of the inputs, (N, D), in their order."""

    def token_states(self, rows: Rows, batch_tokens: int) -> list[Any]:
        """Features of the tokens of each sequence, (tokens, D), before pooling."""

    def weights(self) -> Iterator[Any]:
        """The bytes of all weights, always in the same order."""


def resolve_max_length(max_length: int | None, tokenizer: BertTokenizer, positions: int) -> int:
    """Tokens of the longest row.

    Args:
        max_length: What the caller asks for. None: what the tokenizer says, as far as there are
            positions.
        tokenizer: The tokenizer.
        positions: Position embeddings of the model.

    Raises:
        ValueError: `max_length` is not a whole number, or there are fewer positions.
    """
    if max_length is None:
        return min(positions, tokenizer.model_max_length)
    check_count("max_length", max_length)
    if max_length > positions:
        raise ValueError(
            f"max_length (max_seq_length) is {max_length} tokens, but the model has {positions} "
            f"positions: set it to {positions} or less."
        )
    return int(max_length)  # not NumPy's, which JSON cannot hold


def resolve_settings(
    encoder: TextEncoder,
    *,
    prompt: str | None,
    prompt_name: str | None,
    overflow: Overflow,
    batch_tokens: int,
    truncate_dim: int | None,
    normalize_embeddings: bool,
) -> Settings:
    """The settings that the options mean for this model. The prompt is looked up and counted once.

    Raises:
        ValueError: A value that an option cannot have, or a prompt that does not exist or leaves no
            room for a text.
    """
    if prompt is not None and prompt_name is not None:
        raise ValueError("pass prompt or prompt_name, not both.")
    check_prompt(prompt)
    if overflow not in ("truncate", "mean"):
        raise ValueError(f'overflow should be "truncate" or "mean", not {overflow!r}.')
    check_count("batch_tokens", batch_tokens)
    if truncate_dim is not None:
        check_count("truncate_dim", truncate_dim)
    if prompt is None:
        prompt = named_prompt(encoder.prompts, prompt_name or encoder.default_prompt_name)
    prefix_length = 1
    if prompt:
        prefix_length = len(encoder.tokenizer.rows([prompt])[0]) - 1  # without [SEP]
    if prefix_length + 2 > encoder.max_length:
        raise ValueError(
            f"max_length is {encoder.max_length} tokens, but [CLS], prompt and [SEP] take "
            f"{prefix_length + 1}."
        )
    skip = 0
    if prompt and not encoder.include_prompt:
        skip = prefix_length
    return Settings(
        prompt=prompt,
        overflow=overflow,
        batch_tokens=batch_tokens,
        prefix_length=prefix_length,
        skip=skip,
        truncate_dim=truncate_dim,
        normalize=normalize_embeddings,
    )


def task_prompt_name(
    prompts: Mapping[str, str],
    candidates: Iterable[str],
    prompt: str | None,
    prompt_name: str | None,
) -> str | None:
    """The prompt's name for a task: the caller's choice, or the first candidate that exists."""
    if prompt is not None or prompt_name is not None:
        return prompt_name
    for name in candidates:
        if name in prompts:
            return name
    return None


def check_device(device: object) -> None:
    """Check that this is one device.

    Raises:
        ValueError: Several devices.
    """
    if isinstance(device, list | tuple):
        raise ValueError(
            f'device should be one device, such as "cpu" or "cuda:1", not {device!r}. '
            "minibert.encode_to_shards(processes=N) encodes in several processes."
        )


def encode_texts(
    encoder: TextEncoder,
    texts: Texts,
    settings: Settings,
    *,
    batch_size: int = 32,
    precision: VectorPrecision | None = "float32",
    convert_to_tensor: bool = False,
    convert_to_numpy: bool = True,
    output_value: OutputValue = "sentence_embedding",
    show_progress_bar: bool | None = False,
) -> Any:
    """What `encode` of an embedder returns. Its options are described there."""
    check_count("batch_size", batch_size)
    if precision not in (None, *PRECISIONS):
        raise ValueError(
            f"precision is that of the vectors, one of {', '.join(PRECISIONS)}, not {precision!r}. "
            "SentenceEmbedder.from_pretrained(precision=...) is that of the model."
        )
    if output_value not in ("sentence_embedding", "token_embeddings"):
        raise ValueError(
            'output_value should be "sentence_embedding" or "token_embeddings", '
            f"not {output_value!r}."
        )
    if isinstance(texts, np.ndarray) and texts.ndim == 0:
        texts = texts.item()
    single = isinstance(texts, str)
    inputs: list[Any] = [texts] if single else list_texts(texts)
    results: Any
    if output_value == "token_embeddings":
        results, overlong = _encode_tokens(encoder, inputs, settings)
    else:
        vectors, overlong = _encode_vectors(encoder, inputs, settings, bool(show_progress_bar))
        results = quantize(vectors, precision or "float32")
        if convert_to_tensor or not convert_to_numpy:
            results = _as_tensors(results, encoder.device, convert_to_tensor)
    warn_of_truncation(encoder, overlong, len(inputs), settings.overflow)
    if single:
        return results[0]
    return results


def _encode_vectors(
    encoder: TextEncoder, inputs: list[Any], settings: Settings, show_progress_bar: bool
) -> tuple[Vectors, int]:
    """Vectors (N, D), and how many inputs are overlong."""
    dimension = min(encoder.dimension, settings.truncate_dim or encoder.dimension)
    vectors = np.empty((len(inputs), dimension), np.float32)
    overlong = 0
    bar = Progress(True, len(inputs)) if show_progress_bar else nullcontext(SILENT)
    with bar as progress:
        for start in range(0, len(inputs), CHUNK_TEXTS):
            chunk = slice(start, start + CHUNK_TEXTS)
            vectors[chunk], rows = encode_chunk(encoder, inputs[chunk], settings, progress)
            overlong += rows.overlong
    return vectors, overlong


def _encode_tokens(
    encoder: TextEncoder, inputs: list[Any], settings: Settings
) -> tuple[list[Any], int]:
    """Features of the tokens of each input, (tokens, D), and how many inputs are overlong."""
    settings = replace(settings, overflow="truncate")
    rows = tokenize_rows(encoder.tokenizer, inputs, encoder.max_length, settings)
    states = encoder.token_states(rows, settings.batch_tokens)
    return [states[index] for index in rows.indices], rows.overlong


def _as_tensors(array: Any, device: Any, in_one: bool) -> Any:
    """One tensor (N, D) on the device, or a list of tensors (D,)."""
    import torch

    tensor = torch.from_numpy(array)
    if in_one:
        return tensor.to(device)
    return list(tensor)


def encode_chunk(
    encoder: TextEncoder, texts: list[Any], settings: Settings, progress: Progress = SILENT
) -> tuple[Vectors, Rows]:
    """Vectors (N, D) of texts that are sorted together, and their rows. All encoding uses it.

    The result depends on the texts and the settings alone, not on what was encoded before.
    """
    rows = tokenize_rows(encoder.tokenizer, texts, encoder.max_length, settings)
    report = None
    if progress is not SILENT:
        report = rows.progress_callback(progress)
    return encoder.encode_rows(rows, settings, report), rows


def stream_chunks(
    encoder: TextEncoder,
    texts: Iterable[str],
    settings: Settings,
    chunk_size: int,
    progress: Progress,
) -> Iterator[tuple[list[str], Vectors]]:
    """What `encode_stream` of an embedder yields. Its arguments are described there."""
    check_count("chunk_size", chunk_size)
    remaining = iter_texts(texts)
    count = 0
    overlong = 0
    while chunk := list(islice(remaining, chunk_size)):
        vectors, rows = encode_chunk(encoder, chunk, settings, progress)
        count += len(chunk)
        overlong += rows.overlong
        yield chunk, vectors
    warn_of_truncation(encoder, overlong, count, settings.overflow)


def gather_requests(
    encoder: TextEncoder, max_wait_ms: float, max_tokens: int, max_pending: int
) -> Batched:
    """A queue that encodes single texts of many callers together. See `Batched`."""

    def read(text: str, prompt: str | None, prompt_name: str | None) -> tuple[Rows, Settings]:
        settings = encoder.settings(prompt=prompt, prompt_name=prompt_name, batch_tokens=max_tokens)
        rows = tokenize_rows(encoder.tokenizer, [text], encoder.max_length, settings)
        warn_of_truncation(encoder, rows.overlong, 1, settings.overflow)
        return rows, settings

    return Batched(read, encoder.encode_rows, max_wait_ms, max_tokens, max_pending)


def warn_of_truncation(
    encoder: TextEncoder,
    overlong: int,
    count: int,
    overflow: str,
    advice: str = 'Pass overflow="mean" to encode them in windows.',
) -> None:
    """Warns if texts were truncated. `overlong` of `count` have more than `max_length` tokens."""
    if overlong and overflow == "truncate":
        warnings.warn(
            f"{overlong} of {count} texts have more than {encoder.max_length} tokens and were "
            f"truncated. {advice}",
            stacklevel=4,
        )
