"""`minibert.load`: what a checkpoint is, and the object that runs it.

A checkpoint says what it is by its files (modules.json of an embedder) and by the tensors of its
head. Classifiers, taggers and models of multiple choice have tensors of the same names, so there
the architectures that config.json names decide.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from minibert.checkpoints.source import Source, split_source
from minibert.encoders.sentence_folder import is_embedder, read_sentence_folder
from minibert.tokenization.tokenizer import BertTokenizer

if TYPE_CHECKING:
    import torch

    from minibert.encoders.onnx import OnnxEmbedder
    from minibert.encoders.onnx_heads import OnnxHead
    from minibert.inference.precisions import Precision

Kind = Literal[
    "embedder",
    "reranker",
    "classifier",
    "tagger",
    "answers",
    "choices",
    "masked",
    "next_sentence",
    "base",
]

KIND_OF_CLASS: dict[str, Kind] = {
    "BertForSequenceClassification": "classifier",
    "BertForTokenClassification": "tagger",
    "BertForQuestionAnswering": "answers",
    "BertForMultipleChoice": "choices",
    "BertForMaskedLM": "masked",
    "BertForPreTraining": "masked",
    "BertForNextSentencePrediction": "next_sentence",
    "BertModel": "base",
}
"""The kind of a model, by the class that has a place for its tensors."""

NOUN_OF_KIND: dict[Kind, str] = {
    "embedder": "an embedder",
    "reranker": "a reranker",
    "classifier": "a classifier",
    "tagger": "a tagger of words",
    "answers": "a question answerer",
    "choices": "a multiple-choice model",
    "masked": "a masked language model",
    "next_sentence": "a model of next sentences",
    "base": "a BERT without a head that minibert knows",
}
"""What an error calls a model of each kind."""


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
    backend: Literal["torch", "onnx"] = "torch",
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
        raise ValueError(f"backend should be torch or onnx, not {backend!r:.80}.")
    if kind is not None and kind not in NOUN_OF_KIND:
        raise ValueError(f"kind should be one of {', '.join(NOUN_OF_KIND)}, not {kind!r:.80}.")
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
        return _load_exported(source, kind)
    if kind == "embedder" or (kind is None and is_embedder(source)):
        from minibert.encoders.embedder import SentenceEmbedder

        embedder = SentenceEmbedder.from_pretrained(
            source, precision=precision, device=device, mmap=mmap
        )
        return Loaded("embedder", embedder, embedder.tokenizer)
    import torch

    from minibert.encoders.auto import model_with_heads
    from minibert.inference.optimize import optimize
    from minibert.inference.precisions import resolve_precision

    folder = read_sentence_folder(source, cross_encoder=not is_embedder(source))
    actual, class_name = _kind_of_tensors(folder.transformer)
    kind = kind or actual
    if not _can_be(actual, kind):
        raise ValueError(
            f"{source} is {NOUN_OF_KIND[actual]} ({class_name}), not {NOUN_OF_KIND[kind]}. "
            "minibert finetune trains heads for other tasks."
        )
    if kind == "reranker":
        from minibert.encoders.rerank import CrossEncoder

        reranker = CrossEncoder.from_pretrained(
            source, precision=precision, device=device, mmap=mmap
        )
        return Loaded(kind, reranker, reranker.tokenizer)
    resolved = resolve_precision(precision)
    model: Any = model_with_heads(
        folder.transformer,
        dtype=torch.float32 if resolved else dtype,
        device=device,
        mmap=mmap,
    )
    if resolved is not None:
        model = optimize(model, precision=resolved)
    return Loaded(kind, model.eval(), folder.load_tokenizer())


def kind_of(source: Source) -> Kind:
    """Return what a checkpoint is, from its config and the names of its tensors.

    Raises:
        FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
        ValueError: A damaged file.
    """
    if is_embedder(source):
        return "embedder"
    kind, _ = _kind_of_tensors(read_sentence_folder(source, cross_encoder=True).transformer)
    return kind


def _kind_of_tensors(source: Source) -> tuple[Kind, str]:
    """Return the kind of a BERT and the name of its class, by the names of its tensors."""
    from minibert.checkpoints.tensors import read_tensors
    from minibert.config import BertConfig
    from minibert.encoders.auto import class_for_tensors

    BertConfig.from_pretrained(source)  # first: another `model_type` needs no weights
    name = class_for_tensors(source, read_tensors(source)).__name__
    return _kind_of_model(source, name), name


def _can_be(actual: Kind, needed: Kind) -> bool:
    """Whether a model is of the kind that is needed: scores of pairs are those of a classifier."""
    return actual == needed or {actual, needed} == {"classifier", "reranker"}


def _kind_of_model(source: Source, class_name: str) -> Kind:
    """Return the kind of a checkpoint whose tensors a class has places for."""
    kind = KIND_OF_CLASS[class_name]
    if kind != "classifier":
        return kind
    from minibert.config import BertConfig

    config = BertConfig.from_pretrained(source)
    # one label is a score, unless the config says that it is a number
    if config.num_labels == 1 and config.problem_type != "regression":
        return "reranker"
    return "classifier"


def _load_exported(source: Source, kind: Kind | None) -> Loaded:
    """Load what `minibert export` has written, without importing torch."""
    actual: Kind
    model: OnnxEmbedder | OnnxHead
    if is_embedder(source):
        from minibert.encoders.onnx import OnnxEmbedder

        actual, model = "embedder", OnnxEmbedder.from_pretrained(source)
    else:
        from minibert.encoders.onnx_heads import OnnxHead

        model = OnnxHead.from_pretrained(source)
        actual = _kind_of_model(source, model.head)
    if kind is not None and not _can_be(actual, kind):
        raise ValueError(
            f"{source} was exported from {NOUN_OF_KIND[actual]}, not from {NOUN_OF_KIND[kind]}."
        )
    return Loaded(kind or actual, model, model.tokenizer)
