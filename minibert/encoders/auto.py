"""Names that leave the architecture open, and loading a checkpoint with all that it holds.

Here there is one architecture, so an Auto class has nothing to choose. A config.json of another
`model_type` raises an error that names it.
"""

from collections.abc import Iterable
from os import PathLike
from typing import Any

from minibert import heads
from minibert.base import PreTrainedModel
from minibert.checkpoints.source import Source, split_source
from minibert.checkpoints.tensors import read_tensors
from minibert.config import BertConfig
from minibert.model import BertModel
from minibert.tokenization.tokenizer import BertTokenizer
from minibert.util.files import read_json

AutoConfig = BertConfig
AutoTokenizer = BertTokenizerFast = BertTokenizer
AutoModel = BertModel
AutoModelForPreTraining = heads.BertForPreTraining
AutoModelForMaskedLM = heads.BertForMaskedLM
AutoModelForNextSentencePrediction = heads.BertForNextSentencePrediction
AutoModelForSequenceClassification = heads.BertForSequenceClassification
AutoModelForTokenClassification = heads.BertForTokenClassification
AutoModelForQuestionAnswering = heads.BertForQuestionAnswering
AutoModelForMultipleChoice = heads.BertForMultipleChoice

# the beginnings of tensors' names, and the classes that have all of them
_CLASSES: dict[str, list[type[PreTrainedModel]]] = {
    "cls.predictions cls.seq_relationship": [heads.BertForPreTraining],
    "cls.predictions": [heads.BertForMaskedLM],
    "cls.seq_relationship": [heads.BertForNextSentencePrediction],
    "qa_outputs": [heads.BertForQuestionAnswering],
    "classifier": [
        heads.BertForSequenceClassification,
        heads.BertForTokenClassification,
        heads.BertForMultipleChoice,
    ],
}


def load_with_heads(
    name: str | PathLike[str] | Source, **options: Any
) -> tuple[PreTrainedModel, BertTokenizer]:
    """A checkpoint with every head that its tensors belong to, and its tokenizer.

    Args:
        name: Folder, bundled model, Hub id, or a `Source`.
        options: As in `PreTrainedModel.from_pretrained`.

    Raises:
        FileNotFoundError: The checkpoint does not exist, or a file of it is missing.
        ValueError: A damaged file, or one that is not a BERT's.
    """
    source, options = split_source(name, options)
    return model_with_heads(source, **options), BertTokenizer.from_pretrained(source)


def model_with_heads(source: Source, **options: Any) -> PreTrainedModel:
    """The model of `load_with_heads`.

    A pooler that the checkpoint does not bring is left out where the class allows it, rather than
    drawn at random.
    """
    BertConfig.from_pretrained(source)  # first: another `model_type` needs no weights
    tensors = read_tensors(source, options.pop("mmap", True))
    model_class = class_for_tensors(source, tensors)
    if model_class is BertModel:
        options["add_pooling_layer"] = has_pooler(tensors)
    return model_class.from_pretrained(source, state_dict=tensors, **options)


def class_for_tensors(source: Source, names: Iterable[str]) -> type[PreTrainedModel]:
    """The class that has a place for all tensors of a checkpoint, such as `BertForPreTraining`.

    Classifiers, whose tensors have the same names, are distinguished by the architectures that
    config.json names.
    """
    parts = {part for name in names for part in (name.split(".")[0], ".".join(name.split(".")[:2]))}
    named = read_json(source.require("config.json")).get("architectures")
    for needed, classes in _CLASSES.items():
        if parts.issuperset(needed.split()):
            return next(
                (c for c in classes if isinstance(named, list) and c.__name__ in named), classes[0]
            )
    return BertModel


def has_pooler(names: Iterable[str]) -> bool:
    """Whether tensors of these names bring a pooler."""
    return any(name.endswith("pooler.dense.weight") for name in names)
