"""`load` and `load_text_model`: a checkpoint as what it is, or as the kind that is needed.

A kind of model is a class, with PyTorch or ONNX Runtime below it:

    embedder      SentenceEmbedder, OnnxEmbedder    vectors of texts
    reranker      CrossEncoder, OnnxHead            a score of a pair of texts
    classifier    Classifier                        labels, or a number
    tagger        Tagger                            labeled spans
    answers       Answerer                          the part of a text that answers a question
    masked        Filler                            the words behind [MASK]

Nothing here imports torch before a model of PyTorch is loaded.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from minibert.checkpoints.source import Source, split_source
from minibert.encoders.answerer import Answerer
from minibert.encoders.classifier import Classifier
from minibert.encoders.encoder_options import EmbedderOptions
from minibert.encoders.filler import Filler
from minibert.encoders.folders.checkpoint import Backend, Checkpoint
from minibert.encoders.folders.kinds import NOUN_OF_KIND, Kind
from minibert.encoders.head_models import HeadModel
from minibert.encoders.onnx.onnx_embedder import load_exported, settled
from minibert.encoders.onnx.onnx_heads import OnnxHead, OnnxModel
from minibert.encoders.tagger import Tagger
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
                raise settled(option)
    checkpoint = Checkpoint(source, backend, mmap)
    options: dict[str, Any] = {"precision": precision, "device": device}
    needed = kind or checkpoint.kind
    if backend == "onnx" and needed != "embedder":
        checkpoint.require_kind(needed)
        head = OnnxHead.from_pretrained(checkpoint)
        return Loaded(needed, head, head.tokenizer)
    if needed in _HEADS or needed in ("embedder", "reranker"):
        text_model = load_text_model(checkpoint, kind, dtype=dtype, **options)
        model = text_model.model if isinstance(text_model, HeadModel) else text_model
        return Loaded(needed, model, text_model.tokenizer)
    checkpoint.require_kind(needed)
    folder = checkpoint.folder()
    return Loaded(needed, checkpoint.bert(dtype=dtype, **options), folder.load_tokenizer())


_HEADS: dict[Kind, type[HeadModel]] = {
    "classifier": Classifier,
    "tagger": Tagger,
    "answers": Answerer,
    "masked": Filler,
}


def load_text_model(
    checkpoint: Checkpoint,
    kind: Kind | None = None,
    *,
    precision: Precision | None = "exact",
    device: torch.device | str | None = None,
    dtype: torch.dtype | str = "auto",
    max_length: int | None = None,
    **of_embedder: Any,
) -> Any:
    """Load the object that runs a checkpoint on texts.

    Every command, the service and `load` get it here.

    Args:
        checkpoint: The checkpoint, whose files may have been read. An export has its own precision
            and type, and runs on the CPU.
        kind: As in `load`.
        precision: As in `load`.
        device: As in `load`.
        dtype: As in `load`.
        max_length: Tokens of the longest row. None: what the folder says.
        of_embedder: Further fields of `EmbedderOptions`, for an embedder.

    Returns:
        A `SentenceEmbedder` or an `OnnxEmbedder`, a `CrossEncoder` or an `OnnxHead` for a reranker,
        or a `Classifier`, a `Tagger`, an `Answerer` or a `Filler`.

    Raises:
        FileNotFoundError: A file of the checkpoint is missing.
        ValueError: A damaged file, or a checkpoint of another kind.
    """
    kind = kind or checkpoint.kind
    is_exported = checkpoint.backend == "onnx"
    options: dict[str, Any] = {"precision": precision, "device": device}
    if kind == "embedder":
        of_embedder["max_length"] = max_length
        if is_exported:
            checkpoint.require_kind(kind)
            return load_exported(checkpoint, EmbedderOptions(**of_embedder))
        from minibert.encoders.embedder import SentenceEmbedder

        return SentenceEmbedder.from_pretrained(checkpoint, **of_embedder, **options)
    checkpoint.require_kind(kind)
    if kind == "reranker":
        if not is_exported:
            from minibert.encoders.rerank import CrossEncoder

            return CrossEncoder.from_pretrained(checkpoint, max_length=max_length, **options)
        reranker = OnnxHead.from_pretrained(checkpoint)
        if max_length is not None:
            reranker.max_length = max_length
        return reranker
    if kind not in _HEADS:
        raise ValueError(f"{checkpoint} is {NOUN_OF_KIND[kind]}, which does not run on texts.")
    model: Any = OnnxModel(checkpoint) if is_exported else checkpoint.bert(dtype=dtype, **options)
    return _HEADS[kind].of_folder(checkpoint, model, max_length)
