"""`minibert.load`: a checkpoint as what it is, or as the kind that is needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from minibert.checkpoints.source import Source, split_source
from minibert.encoders.checkpoint import Backend, Checkpoint
from minibert.encoders.kinds import NOUN_OF_KIND, Kind
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.errors import ArgumentError

if TYPE_CHECKING:
    import torch

    from minibert.inference.precisions import Precision


class Loaded(NamedTuple):
    """A checkpoint in memory.

    Attributes:
        kind: What the model is.
        model: A `SentenceEmbedder` for an embedder, a `CrossEncoder` for a reranker, and for the
            other kinds the BERT with its head, in eval mode. With `backend="onnx"` an
            `OnnxEmbedder` or an `OnnxHead`.
        tokenizer: Its tokenizer.
    """

    kind: Kind
    model: Any
    tokenizer: BertTokenizer


def load(
    name: str | os.PathLike[str] | Source,
    kind: Kind | None = None,
    *,
    backend: Backend = "torch",
    precision: Precision | None = "exact",
    device: torch.device | str | None = None,
    dtype: torch.dtype | str = "auto",
    mmap: bool = True,
    **source_options: Any,
) -> Loaded:
    """Load a checkpoint as what it is, or as the kind that is needed.

    ```python
    kind, model, tokenizer = minibert.load("OUT")
    model = minibert.load("bert-base-uncased", "embedder").model  # mean pooling
    ```

    Args:
        name: Folder, bundled model, Hub id, or a `Source`.
        kind: The kind that is needed. None: what the checkpoint is. Every BERT can be an
            "embedder", and a classifier with any number of labels can be a "reranker" or a
            "classifier". Another kind than the checkpoint's is a ValueError.
        backend: "torch", or "onnx" for what `minibert export` has written.
        precision: As in `minibert.optimize`. "exact" (or None) runs the model unchanged.
        device: Where to run. None: the CPU.
        dtype: Type of the parameters, as in `BertModel.from_pretrained`. Embedders, rerankers and
            optimized models are float32.
        mmap: As in `BertModel.from_pretrained`.
        source_options: `revision`, `cache_dir`, `local_files_only`, `token` and `subfolder`, as for
            `Source.of`.

    Returns:
        The kind, the model and its tokenizer.

    Raises:
        FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
        ValueError: A damaged file, a checkpoint of another kind than `kind`, a kind or a backend
            that does not exist, or an option that an export has not.
        TypeError: An unknown option.
    """
    source, unknown = split_source(name, source_options)
    if unknown:
        raise TypeError(f"load() got an unexpected keyword argument {min(unknown)!r}")
    if backend not in ("torch", "onnx"):
        raise ArgumentError("backend", f"should be torch or onnx, not {backend!r:.80}.")
    if kind is not None and kind not in NOUN_OF_KIND:
        raise ArgumentError(
            "kind", f"should be one of {', '.join(NOUN_OF_KIND)}, not {kind!r:.80}."
        )
    if backend == "onnx":
        chosen = {
            "precision": precision not in ("exact", None),
            "device": str(device or "cpu") != "cpu",
            "dtype": dtype != "auto",
            "mmap": not mmap,
        }
        for option, is_chosen in chosen.items():
            if is_chosen:
                from minibert.encoders.onnx import settled

                raise settled(option)
    checkpoint = Checkpoint(source, backend, mmap)
    return load_checkpoint(checkpoint, kind, precision=precision, device=device, dtype=dtype)


def load_checkpoint(
    checkpoint: Checkpoint,
    kind: Kind | None = None,
    *,
    precision: Precision | None = "exact",
    device: torch.device | str | None = None,
    dtype: torch.dtype | str = "auto",
) -> Loaded:
    """As `load`, of a checkpoint whose files may have been read.

    Args:
        checkpoint: The checkpoint. An export has no use for the options.
        kind: As in `load`.
        precision: As in `load`.
        device: As in `load`.
        dtype: As in `load`.
    """
    if checkpoint.is_embedder and kind is None:
        kind = "embedder"
    if checkpoint.backend == "onnx":
        return _load_exported(checkpoint, kind)
    options: dict[str, Any] = {"precision": precision, "device": device}
    if kind == "embedder":
        from minibert.encoders.embedder import SentenceEmbedder

        embedder = SentenceEmbedder.from_pretrained(checkpoint, **options)
        return Loaded("embedder", embedder, embedder.tokenizer)
    folder = checkpoint.folder()
    actual = checkpoint.kind_of_head
    kind = kind or actual
    if not can_be(actual, kind):
        raise ValueError(
            f"{checkpoint} is {NOUN_OF_KIND[actual]} ({checkpoint.class_name}), not "
            f"{NOUN_OF_KIND[kind]}. minibert finetune trains heads for other tasks."
        )
    if kind == "reranker":
        from minibert.encoders.rerank import CrossEncoder

        reranker = CrossEncoder.from_pretrained(checkpoint, **options)
        return Loaded(kind, reranker, reranker.tokenizer)
    model = checkpoint.bert(dtype=dtype, **options)
    return Loaded(kind, model, folder.load_tokenizer())


def can_be(actual: Kind, needed: Kind) -> bool:
    """Whether a model is of the kind that is needed: scores of pairs are those of a classifier."""
    return actual == needed or {actual, needed} == {"classifier", "reranker"}


def _load_exported(checkpoint: Checkpoint, kind: Kind | None) -> Loaded:
    """Load what `minibert export` has written, without importing torch."""
    actual = checkpoint.kind
    if kind is not None and not can_be(actual, kind):
        raise ValueError(
            f"{checkpoint} was exported from {NOUN_OF_KIND[actual]}, not from {NOUN_OF_KIND[kind]}."
        )
    if actual == "embedder":
        from minibert.encoders.onnx import OnnxEmbedder

        embedder = OnnxEmbedder.from_pretrained(checkpoint)
        return Loaded("embedder", embedder, embedder.tokenizer)
    from minibert.encoders.onnx_heads import OnnxHead

    model = OnnxHead.from_pretrained(checkpoint)
    return Loaded(kind or actual, model, model.tokenizer)
