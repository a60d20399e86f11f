"""A checkpoint: its kind, and the files that a model is loaded from.

    source -> modules.json -> config.json -> names of the tensors -> kind -> model

The kind follows from modules.json, which an embedder has, and from the names of the tensors of the
head. Classifiers, taggers and multiple-choice models have tensors of the same names. For these,
`architectures` in config.json decides, and also for an ONNX export, which has no tensors.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from minibert.checkpoints.source import Source
from minibert.config import BertConfig
from minibert.encoders.folders.kinds import KIND_OF_CLASS, NOUN_OF_KIND, Kind
from minibert.encoders.folders.sentence_folder import (
    SentenceFolder,
    has_pooling,
    read_modules,
    sentence_folder_of,
)

if TYPE_CHECKING:
    from torch import Tensor

    from minibert.base import PreTrainedModel
    from minibert.inference.precisions import Precision

Backend = Literal["torch", "onnx"]

# Prefixes of tensor names, all of which must occur, and the classes with parameters of these names.
# The first match counts.
_CLASSES = {
    "cls.predictions cls.seq_relationship": ["BertForPreTraining"],
    "cls.predictions": ["BertForMaskedLM"],
    "cls.seq_relationship": ["BertForNextSentencePrediction"],
    "qa_outputs": ["BertForQuestionAnswering"],
    "classifier": [
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertForMultipleChoice",
    ],
}


class Checkpoint:
    """The files of a model.

    modules.json, config.json and the weights are each read once, when they are first needed. Models
    loaded from one `Checkpoint` share its tensors. This class alone decides what kind of model it
    is.

    Args:
        source: Where the files are.
        backend: "torch", or "onnx" for a folder that `minibert export` wrote.
        mmap: As in `PreTrainedModel.from_pretrained`.
        is_bare: Ignore modules.json, and read the BERT from this folder itself.
    """

    def __init__(
        self,
        source: Source,
        backend: Backend = "torch",
        mmap: bool = True,
        is_bare: bool = False,
    ) -> None:
        self.source = source
        self.backend = backend
        self.mmap = mmap
        self.is_bare = is_bare

    @classmethod
    def of(
        cls,
        name: str | os.PathLike[str] | Source | Checkpoint,
        *,
        backend: Backend = "torch",
        mmap: bool = True,
        **source_options: Any,
    ) -> Checkpoint:
        """Return the checkpoint of a name, or the checkpoint itself if it is one.

        Args:
            name: Folder, bundled model, Hub id, `Source` or checkpoint. With a checkpoint, the
                other arguments have no effect.
            backend: As in the class.
            mmap: As in the class.
            source_options: As in `Source.of`.
        """
        if isinstance(name, Checkpoint):
            return name
        return cls(Source.of(name, **source_options), backend, mmap)

    def __str__(self) -> str:
        return str(self.source)

    @cached_property
    def modules(self) -> list[tuple[str, str]] | None:
        """Class name and folder of each module in modules.json.

        None: there is no modules.json, as in a plain BERT or an older cross-encoder.
        """
        return None if self.is_bare else read_modules(self.source)

    @property
    def is_embedder(self) -> bool:
        """Whether modules.json lists a pooling, so that the checkpoint is an embedder."""
        return has_pooling(self.modules)

    def folder(self, cross_encoder: bool | None = None) -> SentenceFolder:
        """Read the settings of sentence-transformers around the BERT, anew in each call.

        Args:
            cross_encoder: Whether to read them as those of a cross-encoder, else of an embedder.
                None: as modules.json says.
        """
        if cross_encoder is None:
            cross_encoder = not self.is_embedder
        return sentence_folder_of(self.source, self.modules, cross_encoder)

    @property
    def transformer(self) -> Source:
        """Where the files of the BERT are: in `source`, or in a folder that modules.json names."""
        return self.source.inside(dict(self.modules or ()).get("Transformer", ""))

    @cached_property
    def config(self) -> BertConfig:
        """The content of config.json."""
        return BertConfig.from_pretrained(self.transformer)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The weights by their names in the file."""
        from minibert.checkpoints.tensors import read_tensors

        _ = self.config  # raises for another `model_type` before its weights are read
        return read_tensors(self.transformer, self.mmap)

    @property
    def architectures(self) -> list[str]:
        """The classes that config.json names."""
        named = self.config.architectures
        return named if isinstance(named, list) else []

    @cached_property
    def class_name(self) -> str:
        """The class whose parameters include all tensors, such as "BertForPreTraining".

        Of an ONNX export: the first class that config.json names.
        """
        if self.backend == "onnx":
            return (self.architectures or ["BertModel"])[0]
        parts = set()
        for name in self.tensors:
            first, *others = name.split(".")
            parts |= {first, ".".join([first, *others[:1]])}
        for beginnings, classes in _CLASSES.items():
            if parts.issuperset(beginnings.split()):
                named = (name for name in classes if name in self.architectures)
                return next(named, classes[0])
        return "BertModel"

    @property
    def model_class(self) -> type[PreTrainedModel]:
        """The class of that name."""
        from minibert import heads, model

        model_class: type[PreTrainedModel] = getattr(
            model if self.class_name == "BertModel" else heads, self.class_name
        )
        return model_class

    @property
    def has_pooler(self) -> bool:
        """Whether the weights include a pooler."""
        return any(name.endswith("pooler.dense.weight") for name in self.tensors)

    @cached_property
    def kind(self) -> Kind:
        """The kind of the model, which is "embedder" if modules.json lists a pooling.

        Raises:
            FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
            ValueError: A damaged file, or the export of a class that minibert does not have.
        """
        if self.is_embedder:
            return "embedder"
        return self.kind_of_head

    @property
    def kind_of_head(self) -> Kind:
        """The kind of the BERT by its head, even if the checkpoint is an embedder."""
        kind = KIND_OF_CLASS.get(self.class_name)
        if kind is None:  # config.json of an export may name any class
            raise ValueError(
                f"{self}: config.json names the class {self.class_name!r:.80}, which minibert does "
                f"not have. Its classes are {', '.join(KIND_OF_CLASS)}."
            )
        # one label is a score, unless the config says that it is a number
        is_number = self.config.problem_type == "regression"
        if kind == "classifier" and self.config.num_labels == 1 and not is_number:
            return "reranker"
        return kind

    def require_kind(self, needed: Kind) -> None:
        """Check that the model has a head of a kind.

        Args:
            needed: The kind. A reranker passes as a classifier, and the reverse. An embedder passes
                as the kind of its head, unless it is an export.

        Raises:
            ValueError: It has another kind.
        """
        # a graph computes either the vectors or the head
        actual = self.kind if self.backend == "onnx" else self.kind_of_head
        if actual == needed or {actual, needed} == {"classifier", "reranker"}:
            return
        if self.backend == "onnx":
            raise ValueError(
                f"{self} was exported from {NOUN_OF_KIND[actual]}, not from {NOUN_OF_KIND[needed]}."
            )
        raise ValueError(
            f"{self} is {NOUN_OF_KIND[actual]} ({self.class_name}), not {NOUN_OF_KIND[needed]}. "
            "minibert finetune trains heads for other tasks."
        )

    def bert(
        self,
        model_class: type[PreTrainedModel] | None = None,
        precision: Precision | None = None,
        **options: Any,
    ) -> PreTrainedModel:
        """Return the BERT in eval mode.

        Args:
            model_class: Its class. None: `model_class` of the checkpoint. A `BertModel` then has no
                pooler if the weights have none, rather than a randomly initialized one.
            precision: As in `minibert.optimize`, applied to a model in float32. None or "exact":
                the model is not optimized.
            options: As in `PreTrainedModel.from_pretrained`.
        """
        if model_class is None:
            model_class = self.model_class
            if self.class_name == "BertModel":
                options["add_pooling_layer"] = self.has_pooler
        from minibert.inference.precisions import resolve_precision

        resolved = resolve_precision(precision)
        if resolved is not None:
            import torch

            options["dtype"] = torch.float32
        model: Any = model_class.from_pretrained(
            self.transformer, config=self.config, state_dict=self.tensors, **options
        )
        if resolved is not None:
            from minibert.inference.optimize import optimize

            model = optimize(model, precision=resolved)
        loaded: PreTrainedModel = model.eval()
        return loaded
