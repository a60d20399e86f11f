"""A checkpoint: what it is, and the files from which a model of it is made, each read once.

    source -> modules.json -> config.json -> names of the tensors -> kind -> model

A checkpoint says what it is by its files (modules.json of an embedder) and by the tensors of its
head. Classifiers, taggers and models of multiple choice have tensors of the same names, so there
the architectures that config.json names decide. An export has no tensors, but names its class.
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

# the beginnings of tensors' names, and the classes that have a place for all of them
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
    """The files of a model, each of which is read when it is first needed, and only once.

    Whatever has to know what a checkpoint is asks this class. Models that are made of one
    checkpoint share its tensors.

    Args:
        source: Where the files are.
        backend: "torch", or "onnx" for what `minibert export` has written.
        mmap: As in `PreTrainedModel.from_pretrained`.
        is_bare: Leave modules.json unread: the files of the BERT are in this folder, whatever is
            around it.
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
            name: Folder, bundled model, Hub id, `Source` or checkpoint.
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
        """What modules.json lists. None: a plain BERT, or an older cross-encoder."""
        return None if self.is_bare else read_modules(self.source)

    @property
    def is_embedder(self) -> bool:
        """Whether its files say how it turns texts into vectors."""
        return has_pooling(self.modules)

    def folder(self, cross_encoder: bool | None = None) -> SentenceFolder:
        """Read what the folder says of texts.

        Args:
            cross_encoder: Whether it should be that of a cross-encoder, or of an embedder. None: as
                modules.json says.
        """
        if cross_encoder is None:
            cross_encoder = not self.is_embedder
        return sentence_folder_of(self.source, self.modules, cross_encoder)

    @property
    def transformer(self) -> Source:
        """Where the files of the BERT are: here, or in a folder that modules.json names."""
        return self.source.inside(dict(self.modules or ()).get("Transformer", ""))

    @cached_property
    def config(self) -> BertConfig:
        """The content of config.json."""
        return BertConfig.from_pretrained(self.transformer)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The weights by their names in the file."""
        from minibert.checkpoints.tensors import read_tensors

        _ = self.config  # first: another `model_type` needs no weights
        return read_tensors(self.transformer, self.mmap)

    @property
    def architectures(self) -> list[str]:
        """The classes that config.json names."""
        named = self.config.architectures
        return named if isinstance(named, list) else []

    @cached_property
    def class_name(self) -> str:
        """The class that has a place for all tensors, such as "BertForPreTraining"."""
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
        """Whether the file brings a pooler."""
        return any(name.endswith("pooler.dense.weight") for name in self.tensors)

    @cached_property
    def kind(self) -> Kind:
        """What the model is.

        Raises:
            FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
            ValueError: A damaged file, or the export of a class that minibert does not have.
        """
        if self.is_embedder:
            return "embedder"
        return self.kind_of_head

    @property
    def kind_of_head(self) -> Kind:
        """What the BERT is by its head, also where the folder says how it makes vectors."""
        kind = KIND_OF_CLASS.get(self.class_name)
        if kind is None:  # of an export, whose config.json may name anything
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
        """Check that the model can be used as one of a kind.

        Args:
            needed: The kind. The scores of a reranker are those of a classifier, and the reverse.
                Of an embedder with the tensors of a head, the kind may be that of its head.

        Raises:
            ValueError: It is of another kind.
        """
        # an export has either the vectors or the head
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
            model_class: Its class. None: the one that has a place for all tensors. A pooler that
                the file does not bring is then left out where the class allows it, rather than
                drawn at random.
            precision: As in `minibert.optimize`, of a model in float32. None or "exact": the model
                unchanged.
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
